//! `check`: checks all live runs in a directory against the program that made them. `raw` reads and
//! checks the same files with the log's own reader.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tiffany::durable::{Check, receive, step};
use tiffany::wal::{RealDisk, View};
use tiffany::{Builder, Runtime, TaskError, random, sleep};

use crate::durable::{Place, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The number of turns of a run. A random number and a step are four records, so this makes nearly
/// 200.
const TURNS: u64 = 49;

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    // Made by the contender that needs it first.
    let log = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&log));
    Measure {
        name: "check",
        what: "1,000 live runs of 200 records, against the program that made them",
        unit: "s",
        better: Better::Lower,
        targets: vec![Target::Figure(2.0)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut log = log.borrow_mut();
                if log.is_none() {
                    *log = Some(make(&place, mode)?);
                }
                log.as_ref().map_or_else(|| Err("there is no log".into()), |log| check(log, mode))
            }),
            Contender::fallible("raw", move |_| match &*other.borrow() {
                Some(log) => read(log),
                None => Err("there is no log".into()),
            }),
        ],
    }
}

fn runs(mode: Mode) -> usize {
    mode.pick(1_000, 20)
}

/// Does its work, and then waits for a message.
async fn waits(turns: u64) -> Result<u64, TaskError> {
    let mut sum = 0_u64;
    for turn in 0..turns {
        sum = sum.wrapping_add(random().await);
        sum = sum.wrapping_add(step("ask", move || Ok::<u64, TaskError>(turn)).await?);
    }
    WAITING.fetch_add(1, Ordering::SeqCst);
    Ok(sum.wrapping_add(receive("go").await?))
}

/// The number of runs in this process that wait for their message.
static WAITING: AtomicUsize = AtomicUsize::new(0);

fn program() -> Builder {
    Runtime::builder().register("waits", waits)
}

fn make(place: &Place, mode: Mode) -> Result<Scratch, String> {
    let said = |error: tiffany::RunError| error.to_string();
    let scratch = place.fresh("check")?;
    let mut runtime = program().log_dir(scratch.log()).build().map_err(said)?;
    for run in 0..runs(mode) {
        runtime.submit::<u64>("waits", &format!("run {run}"), &TURNS).map_err(said)?;
    }
    while WAITING.load(Ordering::SeqCst) < runs(mode) {
        runtime.run(sleep(Duration::from_millis(10))).map_err(said)?;
    }
    runtime.flush().map_err(said)?;
    Ok(scratch)
}

fn check(scratch: &Scratch, mode: Mode) -> Taken {
    let start = Instant::now();
    let checked = Check::open(program(), &scratch.log()).map_err(|error| error.to_string())?;
    let verdicts: Vec<_> = checked.collect();
    let elapsed = start.elapsed();
    match verdicts.iter().find(|checked| checked.error.is_some()) {
        Some(apart) => Err(format!("{apart:?}")),
        None if verdicts.len() != runs(mode) => Err(format!("{} runs", verdicts.len())),
        None => Ok(Sample::of(elapsed.as_secs_f64())),
    }
}

fn read(scratch: &Scratch) -> Taken {
    let said = |error: tiffany::wal::LogError| error.to_string();
    let start = Instant::now();
    let view = View::open(Arc::new(RealDisk), &scratch.log()).map_err(said)?;
    let mut records = 0;
    for (run, _) in view.runs() {
        let mut reader = view.reader(run).map_err(said)?;
        while let Some(record) = reader.next() {
            record.map_err(said)?;
            records += 1;
        }
    }
    let each = f64::from(records) / view.runs().count() as f64;
    Ok(Sample::of(start.elapsed().as_secs_f64()).beside("records", each))
}
