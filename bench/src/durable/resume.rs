//! `w3`: a process is killed in the middle of its steps. The measure is the time from starting it
//! again to the next step. `raw` is a process of the same program that prints a line and ends.
//!
//! `replay`: the speed of resuming a run with a long log, half of it random numbers and half of it
//! readings of the clock. Opening this log does nothing else. `raw` reads and checks the same file
//! with the log's own reader.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tiffany::wal::Reader;

use super::child::Process;
use super::place::{Place, Scratch};
use super::work;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

pub(super) fn after_a_kill(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "w3",
        what: "killed after 500 steps: from process start to the next step",
        unit: "ms",
        better: Better::Lower,
        targets: vec![Target::Figure(100.0)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| killed(&place, mode)),
            Contender::fallible("raw", |_| {
                let start = Instant::now();
                Process::start(&["nothing"])?.line()?;
                Ok(milliseconds(start))
            }),
        ],
    }
}

fn milliseconds(start: Instant) -> Sample {
    Sample::of(start.elapsed().as_secs_f64() * 1e3)
}

fn killed(place: &Place, mode: Mode) -> Taken {
    let scratch = place.fresh("killed")?;
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let mut first = Process::start(&["steps", log])?;
    for _ in 0..mode.pick(500, 20) {
        first.line()?;
    }
    first.kill();
    let start = Instant::now();
    let mut second = Process::start(&["steps", log])?;
    second.line()?;
    Ok(milliseconds(start))
}

pub(super) fn long_log(place: &Rc<Place>) -> Measure {
    // Made by the contender that needs it first.
    let log = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&log));
    Measure {
        name: "replay",
        what: "bringing back a run of 1,000,000 records",
        unit: "records/s",
        better: Better::Higher,
        targets: vec![Target::Figure(1_000_000.0)],
        rounds: 3,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut log = log.borrow_mut();
                if log.is_none() {
                    *log = Some(make_long_log(&place, mode)?);
                }
                log.as_ref().map_or_else(|| Err("there is no log".into()), |log| replay(log, mode))
            }),
            Contender::fallible("raw", move |mode| match &*other.borrow() {
                Some(log) => read(log, mode),
                None => Err("there is no log".into()),
            }),
        ],
    }
}

fn records(mode: Mode) -> u64 {
    mode.pick(1_000_000, 2_000)
}

fn make_long_log(place: &Place, mode: Mode) -> Result<Scratch, String> {
    let scratch = place.fresh("long")?;
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let mut process = Process::start(&["mixed", log, &records(mode).to_string()])?;
    process.line()?;
    process.kill();
    // Opened once, so that all samples find the log in the same state.
    drop(work::open(&scratch.log())?);
    Ok(scratch)
}

fn replay(scratch: &Scratch, mode: Mode) -> Taken {
    let start = Instant::now();
    let mut runtime = work::open(&scratch.log())?;
    let elapsed = start.elapsed();
    // A run that could not be resumed would not accept a message.
    let run = runtime.submit::<u64>("mixed", "run", &records(mode)).map_err(work::said)?;
    runtime.send(&run, "unwanted", &0).map_err(work::said)?;
    Ok(Sample::of(records(mode) as f64 / elapsed.as_secs_f64()))
}

fn read(scratch: &Scratch, mode: Mode) -> Taken {
    let failed = |error: std::io::Error| error.to_string();
    let start = Instant::now();
    let mut count = 0;
    for file in std::fs::read_dir(scratch.log().join("wal")).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "wal") {
            let bytes = std::fs::read(path).map_err(failed)?;
            for record in Reader::new(&bytes, None) {
                record.map_err(|error| format!("{error:?}"))?;
                count += 1;
            }
        }
    }
    match count >= records(mode) {
        true => Ok(Sample::of(count as f64 / start.elapsed().as_secs_f64())),
        false => Err(format!("the log has {count} records only")),
    }
}
