//! `compact`: finished logs that are read, checked and compacted, in MB a second, on a directory that nobody has, until that is safe. Beside it the same until the log
//! is closed, with all files synced, which pays for whatever else the file system has to write. `raw` only reads the same files and checks them, with the log's own reader.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use tiffany::durable::step;
use tiffany::retention::Keeper;
use tiffany::wal::{Reader, RealDisk, RunState, View};
use tiffany::{Runtime, TaskError, Uuid};

use crate::durable::{Place, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// How many steps a run has, and how long the text is that each of them gives.
const STEPS: u32 = 3_000;
const TEXT: usize = 400;

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let (place, other) = (Rc::clone(place), Rc::clone(place));
    Measure {
        name: "compact",
        what: "finished runs of 9,000 records, read, checked and compacted",
        unit: "MB/s",
        better: Better::Higher,
        targets: vec![Target::Figure(100.0)],
        rounds: 5,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let scratch = make(&place, mode)?;
                take(&scratch, mode)
            }),
            Contender::fallible("raw", move |mode| {
                let scratch = make(&other, mode)?;
                read(&scratch)
            }),
        ],
    }
}

fn runs(mode: Mode) -> u32 {
    mode.pick(40, 2)
}

async fn work(number: u32) -> Result<u32, TaskError> {
    for at in 0..STEPS {
        let text = move || Ok::<String, String>(format!("{:>TEXT$}", at + number));
        step("text", text).input(&at).await?;
    }
    Ok(number)
}

/// A directory with finished runs, closed in good order.
fn make(place: &Place, mode: Mode) -> Result<Scratch, String> {
    let scratch = place.fresh("compact")?;
    let builder = Runtime::builder().log_dir(scratch.log()).register("work", work);
    let mut runtime = builder.build().map_err(|error| error.to_string())?;
    let start = |number: u32| runtime.submit::<u32>("work", &format!("run-{number}"), &number);
    let started: Result<Vec<_>, _> = (0..runs(mode)).map(start).collect();
    for run in started.map_err(|error| error.to_string())? {
        runtime.wait_for(&run).map_err(|error| error.to_string())?;
    }
    drop(runtime);
    rustix::fs::sync();
    Ok(scratch)
}

/// The runs, and how many bytes they have.
fn over(log: &Path) -> Result<(Vec<Uuid>, f64), String> {
    let view = View::open(std::sync::Arc::new(RealDisk), log).map_err(|e| e.to_string())?;
    let over = view.runs().filter(|(_, entry)| entry.state == RunState::Finished);
    let (runs, sizes): (Vec<Uuid>, Vec<u64>) = over.map(|(run, entry)| (run, entry.len)).unzip();
    Ok((runs, sizes.iter().sum::<u64>() as f64))
}

fn take(scratch: &Scratch, mode: Mode) -> Taken {
    let (runs, bytes) = over(&scratch.log())?;
    let start = Instant::now();
    let mut keeper = Keeper::open(&scratch.log()).map_err(|error| error.to_string())?;
    let pruned = keeper.compact(&runs).map_err(|error| error.to_string())?;
    let safe = start.elapsed();
    drop(keeper);
    let closed = start.elapsed();
    if pruned.compacted != u64::from(self::runs(mode)) {
        return Err(format!("{} runs were compacted", pruned.compacted));
    }
    let (_, left) = over(&scratch.log())?;
    Ok(Sample::of(bytes / 1e6 / safe.as_secs_f64())
        .beside("closed MB/s", bytes / 1e6 / closed.as_secs_f64())
        .beside("log MB", bytes / 1e6)
        .beside("left MB", left / 1e6))
}

fn read(scratch: &Scratch) -> Taken {
    let (runs, bytes) = over(&scratch.log())?;
    let start = Instant::now();
    for run in runs {
        let path = scratch.log().join(format!("wal/{run}.wal"));
        let file = std::fs::read(path).map_err(|error| error.to_string())?;
        for record in Reader::new(&file, Some(run)) {
            record.map_err(|error| format!("{error:?}"))?;
        }
    }
    Ok(Sample::of(bytes / 1e6 / start.elapsed().as_secs_f64()))
}
