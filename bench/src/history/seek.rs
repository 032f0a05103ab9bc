//! `seek`: opens the log of a run with 100,000 records to look at one near the end, and then at
//! records nearby. `raw` reads and checks the same file with the log's own reader.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tiffany::durable::{TimeTravel, step};
use tiffany::{Builder, Runtime, TaskError, Uuid, gather, random, try_spawn};

use super::long_runs;
use crate::durable::{Place, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The numbers of tasks, and of records per turn: a step and a random number are four records.
const TASKS: u64 = 100;
const RECORDS: u64 = 4;

/// The distance of records nearby.
const NEARBY: u64 = 50;

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    // Made by the contender that needs it first.
    let log = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&log));
    Measure {
        name: "seek",
        what: "a record near the end of a run of 100,000, from opening its log, and the slowest of 150 looks nearby after that",
        unit: "ms",
        better: Better::Lower,
        targets: vec![Target::Figure(300.0), Target::Beside("nearby ms", 50.0)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut log = log.borrow_mut();
                if log.is_none() {
                    *log = Some(make(&place, mode)?);
                }
                log.as_ref().map_or_else(|| Err("there is no log".into()), look)
            }),
            Contender::fallible("raw", move |_| match &*other.borrow() {
                Some((log, _)) => long_runs::read(log),
                None => Err("there is no log".into()),
            }),
        ],
    }
}

async fn asks(turns: u64) -> Result<u64, TaskError> {
    let mut sum = 0_u64;
    for turn in 0..turns {
        sum = sum.wrapping_add(random().await);
        sum = sum.wrapping_add(step("ask", move || Ok::<u64, TaskError>(turn)).input(&turn).await?);
    }
    Ok(sum)
}

async fn all(turns: u64) -> Result<u64, TaskError> {
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        tasks.push(try_spawn(asks(turns)).await);
    }
    Ok(gather(tasks).await?.into_iter().fold(0, u64::wrapping_add))
}

fn program() -> Builder {
    Runtime::builder().register("all", all)
}

fn make(place: &Place, mode: Mode) -> Result<(Scratch, Uuid), String> {
    let scratch = place.fresh("seek")?;
    let turns = mode.pick(100_000, 4_000) / (TASKS * RECORDS);
    let mut runtime =
        program().log_dir(scratch.log()).build().map_err(|error| error.to_string())?;
    let run = runtime.submit::<u64>("all", "run", &turns).map_err(|error| error.to_string())?;
    runtime.wait_for(&run).map_err(|error| error.to_string())?;
    Ok((scratch, run.uuid()))
}

fn look((scratch, run): &(Scratch, Uuid)) -> Taken {
    let said = |error: tiffany::RunError| error.to_string();
    let start = Instant::now();
    let mut travel = TimeTravel::open(program(), &scratch.log(), *run).map_err(said)?;
    let last = travel.records();
    travel.seek(last - NEARBY).map_err(said)?;
    let first = start.elapsed();
    let back = (0..NEARBY).map(|far| last - NEARBY - far);
    let forwards = last - 2 * NEARBY..=last;
    let mut slowest = 0.0_f64;
    for record in back.chain(forwards) {
        let start = Instant::now();
        travel.seek(record).map_err(said)?;
        slowest = slowest.max(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Sample::of(first.as_secs_f64() * 1e3).beside("nearby ms", slowest))
}
