//! `backup`: the steps of `w2` in a directory of 1 GB with and without another process that copies
//! it.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tiffany::durable::step;
use tiffany::wal::RealDisk;
use tiffany::wal::backup::{Pace, take};
use tiffany::{Runtime, TaskError, random};

use crate::durable::{Place, Process, Scratch, steps};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The size of one result in the directory that is copied.
const LARGE: usize = 200_000;

/// The nice value of the process that copies.
const NICE: i32 = 19;

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    // Made by the contender that needs it first.
    let busy = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&busy));
    Measure {
        name: "backup",
        what: "200 runs at once, 20 steps each, while a directory of 1 GB that they are in is copied",
        unit: "steps/s",
        better: Better::Higher,
        targets: vec![Target::Of("alone", 0.9)],
        rounds: 9,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut busy = busy.borrow_mut();
                if busy.is_none() {
                    *busy = Some(Busy::new(&place, mode)?);
                }
                match &mut *busy {
                    Some(busy) => busy.beside_a_backup(&place, mode),
                    None => Err("there is no log".into()),
                }
            }),
            Contender::fallible("alone", move |mode| match &mut *other.borrow_mut() {
                Some(busy) => busy.work(mode),
                None => Err("there is no log".into()),
            }),
        ],
    }
}

/// Returns large results that fill the directory, all of them different.
async fn large(count: u64) -> Result<u64, TaskError> {
    let (mut sum, run) = (0, random().await);
    for number in 0..count {
        let result: String = step("answer", move || {
            let text = format!("{run} {number} ");
            Ok::<String, TaskError>(text.repeat(LARGE / text.len()))
        })
        .await?;
        sum += result.len() as u64;
    }
    Ok(sum)
}

/// A log directory that is in use.
struct Busy {
    runtime: Runtime,
    scratch: Scratch,
    rounds: usize,
}

impl Busy {
    fn new(place: &Place, mode: Mode) -> Result<Busy, String> {
        let scratch = place.fresh("busy")?;
        let builder = Runtime::builder().log_dir(scratch.log());
        let runtime = builder.register("steps", steps).register("large", large).build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let mut busy = Busy { runtime, scratch, rounds: 0 };
        let results = mode.pick(1_000_000_000, 2_000_000) / LARGE;
        busy.all("large", results / 10, 10)?;
        busy.work(mode)?;
        Ok(busy)
    }

    /// Runs this many runs at once, and waits for their ends.
    fn all(&mut self, function: &str, runs: usize, input: u64) -> Result<(), String> {
        let said = |error: tiffany::RunError| error.to_string();
        let round = self.rounds;
        self.rounds += 1;
        let started: Result<Vec<_>, _> = (0..runs)
            .map(|run| self.runtime.submit::<u64>(function, &format!("{round} {run}"), &input))
            .collect();
        for run in started.map_err(said)? {
            self.runtime.wait_for(&run).map_err(said)?;
        }
        Ok(())
    }

    fn work(&mut self, mode: Mode) -> Taken {
        let (runs, steps, times) = mode.pick((200, 20, 5), (5, 2, 1));
        let start = Instant::now();
        for _ in 0..times {
            self.all("steps", runs, steps)?;
        }
        let count = (runs as u64 * steps * times) as f64;
        Ok(Sample::of(count / start.elapsed().as_secs_f64()))
    }

    fn beside_a_backup(&mut self, place: &Place, mode: Mode) -> Taken {
        let to = place.fresh("backup")?.log();
        let (log, to) = (self.scratch.log(), to);
        let no_text = "the directory's name is no text";
        let (log, to) = (log.to_str().ok_or(no_text)?, to.to_str().ok_or(no_text)?);
        let mut process = Process::start(&["backup", log, to])?;
        process.line()?;
        let sample = self.work(mode)?;
        // In quick mode, the backup may be too short to overlap.
        match mode == Mode::Quick || process.is_running() {
            true => Ok(sample),
            false => Err("the backup was over before the steps were".into()),
        }
    }
}

/// Runs the process that copies, as the command does. It prints a line when it has begun.
pub(crate) fn serve(log: &str, to: &str) -> Result<(), String> {
    let log = Path::new(log);
    let mut pace = Pace::beside(log);
    if pace.is_gentle() {
        rustix::process::nice(NICE).map_err(|error| error.to_string())?;
    }
    println!();
    take(Arc::new(RealDisk), log, Path::new(to), &mut pace).map_err(|error| error.to_string())?;
    Ok(())
}
