//! `compact`, `compact_small`: the speed of reading, checking and compacting finished runs in a
//! directory that is not in use, in MB per second, until the result is safe. An additional column
//! includes closing the log with all files synced, which also pays for anything else that the file
//! system has to write. `raw` only reads and checks the same files, with the log's own reader.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use tiffany::durable::step;
use tiffany::retention::Keeper;
use tiffany::wal::{Reader, RealDisk, RunState, View};
use tiffany::{Runtime, TaskError, Uuid};

use crate::durable::{Place, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The length of the text that a step returns.
const TEXT: usize = 400;

/// The number of runs, and of steps in each run.
#[derive(Clone, Copy)]
struct Size {
    runs: u32,
    steps: u32,
}

/// Measures long runs.
pub(super) fn of_long_runs(place: &Rc<Place>) -> Measure {
    let what = "40 finished runs of 9,000 records, read, checked and compacted";
    measure(place, "compact", what, Size { runs: 40, steps: 3_000 })
}

/// Measures the same number of bytes in ten times as many runs, each of which has a file of its
/// own.
pub(super) fn of_short_runs(place: &Rc<Place>) -> Measure {
    let what = "400 finished runs of 900 records, read, checked and compacted";
    measure(place, "compact_small", what, Size { runs: 400, steps: 300 })
}

fn measure(place: &Rc<Place>, name: &'static str, what: &'static str, full: Size) -> Measure {
    let (place, other) = (Rc::clone(place), Rc::clone(place));
    let size = move |mode: Mode| mode.pick(full, Size { runs: 2, steps: full.steps });
    Measure {
        name,
        what,
        unit: "MB/s",
        better: Better::Higher,
        targets: vec![Target::Figure(100.0)],
        rounds: 5,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let size = size(mode);
                take(&make(&place, size)?, size)
            }),
            Contender::fallible("raw", move |mode| {
                let scratch = make(&other, size(mode))?;
                read(&scratch)
            }),
        ],
    }
}

async fn work((number, steps): (u32, u32)) -> Result<u32, TaskError> {
    for at in 0..steps {
        let text = move || Ok::<String, String>(format!("{:>TEXT$}", at + number));
        step("text", text).input(&at).await?;
    }
    Ok(number)
}

/// Makes a directory with finished runs, and closes it cleanly.
fn make(place: &Place, size: Size) -> Result<Scratch, String> {
    let scratch = place.fresh("compact")?;
    let builder = Runtime::builder().log_dir(scratch.log()).register("work", work);
    let mut runtime = builder.build().map_err(|error| error.to_string())?;
    let mut start = |number: u32| {
        runtime.submit::<u32>("work", &format!("run-{number}"), &(number, size.steps))
    };
    let started: Result<Vec<_>, _> = (0..size.runs).map(&mut start).collect();
    for run in started.map_err(|error| error.to_string())? {
        runtime.wait_for(&run).map_err(|error| error.to_string())?;
    }
    drop(runtime);
    rustix::fs::sync();
    Ok(scratch)
}

/// Returns the finished runs, and their size in bytes.
fn over(log: &Path) -> Result<(Vec<Uuid>, f64), String> {
    let view = View::open(std::sync::Arc::new(RealDisk), log).map_err(|e| e.to_string())?;
    let over = view.runs().filter(|(_, entry)| entry.state == RunState::Finished);
    let (runs, sizes): (Vec<Uuid>, Vec<u64>) = over.map(|(run, entry)| (run, entry.len)).unzip();
    Ok((runs, sizes.iter().sum::<u64>() as f64))
}

fn take(scratch: &Scratch, size: Size) -> Taken {
    let (runs, bytes) = over(&scratch.log())?;
    let start = Instant::now();
    let mut keeper = Keeper::open(&scratch.log()).map_err(|error| error.to_string())?;
    let pruned = keeper.compact(&runs).map_err(|error| error.to_string())?;
    let safe = start.elapsed();
    drop(keeper);
    let closed = start.elapsed();
    if pruned.compacted != u64::from(size.runs) {
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
