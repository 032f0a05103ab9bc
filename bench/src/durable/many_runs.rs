//! `w4`: the resident memory of each of 10,000 durable runs that sleep, in a process of their own.
//! `asked` is the memory that the program allocated for it.
//!
//! `open`: the time until a runtime is ready on a log of 10,000 finished and 1,000 sleeping runs,
//! left by a process that was killed after its background thread had done its work. `at_once` is
//! the same for a process that was killed when the last run was safe, so that most files have to be
//! made first. `closed` is after a clean shutdown. `raw` lists the directory and reads all of its
//! files.

use std::rc::Rc;
use std::time::Instant;

use super::child::Process;
use super::place::{Place, Scratch};
use super::work;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

pub(super) fn sleeping(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "w4",
        what: "resident memory of a durable run that sleeps, of 10,000",
        unit: "bytes",
        better: Better::Lower,
        targets: vec![Target::Figure(2_048.0)],
        rounds: 3,
        contenders: vec![Contender::fallible("tiffany", move |mode| memory(&place, mode))],
    }
}

fn memory(place: &Place, mode: Mode) -> Taken {
    let (scratch, runs) = (place.fresh("sleepers")?, mode.pick(10_000, 100));
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let said = Process::start(&["sleepers", log, &runs.to_string()])?.line()?;
    let said: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [before, after, asked] = said[..] else {
        return Err("the process said something else".into());
    };
    let each = |bytes: f64| bytes / f64::from(runs);
    Ok(Sample::of(each(after - before)).beside("asked", each(asked)))
}

pub(super) fn opening(place: &Rc<Place>) -> Measure {
    let (ours, raw) = (Rc::clone(place), Rc::clone(place));
    Measure {
        name: "open",
        what: "a log of 10,000 finished and 1,000 live runs until it is ready",
        unit: "ms",
        better: Better::Lower,
        targets: vec![
            Target::Figure(500.0),
            Target::Beside("at_once", 500.0),
            Target::Beside("closed", 500.0),
        ],
        rounds: 3,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| open(&ours, mode)),
            Contender::fallible("raw", move |mode| read_all(&raw, mode)),
        ],
    }
}

/// When the process that made the log was killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    AtOnce,
    Later,
}

fn make(place: &Place, mode: Mode, killed: Killed) -> Result<Scratch, String> {
    let scratch = place.fresh("open")?;
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let (finished, live) = mode.pick(("10000", "1000"), ("100", "10"));
    let mut process = Process::start(&["many", log, finished, live])?;
    process.line()?;
    if killed == Killed::Later {
        process.line()?;
    }
    process.kill();
    Ok(scratch)
}

fn open(place: &Place, mode: Mode) -> Taken {
    let take = |scratch: &Scratch| {
        let start = Instant::now();
        let runtime = work::open(&scratch.log())?;
        let ready = start.elapsed().as_secs_f64() * 1e3;
        drop(runtime);
        Ok::<f64, String>(ready)
    };
    let at_once = take(&make(place, mode, Killed::AtOnce)?)?;
    let scratch = make(place, mode, Killed::Later)?;
    let later = take(&scratch)?;
    Ok(Sample::of(later).beside("at_once", at_once).beside("closed", take(&scratch)?))
}

fn read_all(place: &Place, mode: Mode) -> Taken {
    let scratch = make(place, mode, Killed::Later)?;
    let failed = |error: std::io::Error| error.to_string();
    let start = Instant::now();
    for file in std::fs::read_dir(scratch.log().join("wal")).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.is_file() {
            std::hint::black_box(std::fs::read(path).map_err(failed)?);
        }
    }
    Ok(Sample::of(start.elapsed().as_secs_f64() * 1e3))
}
