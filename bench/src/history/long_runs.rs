//! `snapshot_restart`, `continue_restart`: a run is killed after 10,000,000 calls. The measure is
//! the time from opening its log to its next call; additional columns are the length of the log,
//! and the memory of the process that made the calls. The first run is a state machine with
//! snapshots; the second one begins a new generation every 10,000 calls. `raw` reads and checks the
//! same file with the log's own reader.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tiffany::durable::{DurableAgent, continue_as, receive, step};
use tiffany::wal::Reader;
use tiffany::{Direct, Runtime, SystemCall, TaskContext, TaskError, TaskStatus, random, sleep};

use crate::durable::{Place, Process, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The number of calls after which the run waits for a moment, like a run that does real work.
const PAUSE: u64 = 1_000;

/// The number of calls after which the run begins a new generation.
const GENERATION: u64 = 10_000;

/// Measures a run that is a state machine.
pub(super) fn of_snapshots(place: &Rc<Place>) -> Measure {
    let what =
        "a run of a state machine after 10,000,000 calls: from opening its log to its next call";
    measure(place, "snapshot_restart", what, "drawer")
}

/// Measures a run that continues in new generations.
pub(super) fn of_continued(place: &Rc<Place>) -> Measure {
    let what = "a run after 10,000,000 calls that is continued every 10,000: from opening its log to its next call";
    measure(place, "continue_restart", what, "continued")
}

fn measure(
    place: &Rc<Place>,
    name: &'static str,
    what: &'static str,
    function: &'static str,
) -> Measure {
    // Made by the contender that needs it first.
    let log = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&log));
    Measure {
        name,
        what,
        unit: "ms",
        better: Better::Lower,
        targets: vec![
            Target::Figure(100.0),
            Target::Beside("log MB", 10.0),
            Target::Beside("memory MB", 256.0),
        ],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut log = log.borrow_mut();
                if log.is_none() {
                    *log = Some(make(&place, function, mode)?);
                }
                let none = || Err("there is no log".into());
                log.as_ref().map_or_else(none, |log| next_call(log, function, mode))
            }),
            Contender::fallible("raw", move |_| match &*other.borrow() {
                Some(log) => read(&log.scratch),
                None => Err("there is no log".into()),
            }),
        ],
    }
}

fn calls(mode: Mode) -> u64 {
    mode.pick(10_000_000, 100_000)
}

/// Draws random numbers, then makes a step for each message.
#[derive(Serialize, Deserialize)]
struct Drawer {
    left: u64,
    sum: u64,
    doing: Doing,
}

#[derive(Serialize, Deserialize)]
enum Doing {
    Drawing,
    Pausing,
    Receiving,
    Showing,
}

/// The number of steps in this process so far.
static SHOWN: AtomicU64 = AtomicU64::new(0);

impl DurableAgent for Drawer {
    const NAME: &'static str = "drawer";
    type Output = u64;

    fn wants(&self) -> TaskStatus<u64> {
        match self.doing {
            Doing::Drawing => TaskStatus::Waiting(SystemCall::Random),
            Doing::Pausing => TaskStatus::sleep(Duration::ZERO),
            Doing::Receiving => TaskStatus::receive_message("go"),
            Doing::Showing => TaskStatus::step(step("show", || {
                Ok::<u64, TaskError>(SHOWN.fetch_add(1, Ordering::SeqCst))
            })),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.doing = match self.doing {
            Doing::Drawing => {
                self.sum = self.sum.wrapping_add(ctx.reply::<u64, Direct>()?);
                self.left -= 1;
                match self.left {
                    0 => Doing::Showing,
                    left if left % PAUSE == 0 => Doing::Pausing,
                    _ => Doing::Drawing,
                }
            }
            Doing::Pausing | Doing::Receiving => match self.left {
                0 => Doing::Showing,
                _ => Doing::Drawing,
            },
            Doing::Showing => Doing::Receiving,
        };
        Ok(())
    }
}

/// Does the same as [`Drawer`], as a function that begins new generations.
async fn continued(mut left: u64) -> Result<u64, TaskError> {
    for _ in 0..left.min(GENERATION) {
        random().await;
        left -= 1;
        if left.is_multiple_of(PAUSE) {
            sleep(Duration::ZERO).await;
        }
    }
    if left > 0 {
        return continue_as(&left).await;
    }
    loop {
        step("show", || Ok::<u64, TaskError>(SHOWN.fetch_add(1, Ordering::SeqCst))).await?;
        receive::<u64>("go").await?;
    }
}

fn open(log: &Path) -> Result<Runtime, String> {
    let start = |left| Drawer { left, sum: 0, doing: Doing::Drawing };
    let builder = Runtime::builder().log_dir(log).register_agent("drawer", start);
    builder.register("continued", continued).build().map_err(|error| error.to_string())
}

/// Drives the runtime until a step was done.
fn until_shown(runtime: &mut Runtime) -> Result<(), String> {
    let before = SHOWN.load(Ordering::SeqCst);
    while SHOWN.load(Ordering::SeqCst) == before {
        let turn = tiffany::sleep(Duration::from_micros(100));
        runtime.run(turn).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Runs the process that is killed. When its run has made this number of calls, it prints a line
/// with its peak memory in kilobytes.
pub(crate) fn serve(log: &str, function: &str, calls: &str) -> Result<(), String> {
    let mut runtime = open(Path::new(log))?;
    let calls: u64 = calls.parse().map_err(|_| "the parent gives numbers")?;
    runtime.submit::<u64>(function, "run", &calls).map_err(|error| error.to_string())?;
    until_shown(&mut runtime)?;
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{}", most.unwrap_or_default().trim().trim_end_matches(" kB"));
    loop {
        std::thread::park();
    }
}

/// The log and the memory of a process that was killed.
struct Left {
    scratch: Scratch,
    memory_mb: f64,
}

fn make(place: &Place, function: &str, mode: Mode) -> Result<Left, String> {
    let scratch = place.fresh("snapshots")?;
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let mut process = Process::start(&["long run", log, function, &calls(mode).to_string()])?;
    let kilobytes: f64 = process.line()?.parse().map_err(|_| "the process says a number")?;
    process.kill();
    // Opened once, so that all samples find the log in the same state.
    drop(open(&scratch.log())?);
    Ok(Left { scratch, memory_mb: kilobytes / 1e3 })
}

fn next_call(Left { scratch, memory_mb }: &Left, function: &str, mode: Mode) -> Taken {
    let start = Instant::now();
    let mut runtime = open(&scratch.log())?;
    let run = runtime.submit::<u64>(function, "run", &calls(mode)).map_err(|e| e.to_string())?;
    runtime.send(&run, "go", &0).map_err(|error| error.to_string())?;
    until_shown(&mut runtime)?;
    let elapsed = start.elapsed();
    drop(runtime);
    let bytes = bytes(scratch)?.len() as f64;
    let sample = Sample::of(elapsed.as_secs_f64() * 1e3).beside("log MB", bytes / 1e6);
    Ok(sample.beside("memory MB", *memory_mb))
}

/// Returns the contents of the file of the only run.
fn bytes(scratch: &Scratch) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    for file in std::fs::read_dir(scratch.log().join("wal")).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "wal") {
            return std::fs::read(path).map_err(failed);
        }
    }
    Err("there is no run".into())
}

pub(super) fn read(scratch: &Scratch) -> Taken {
    let start = Instant::now();
    for record in Reader::new(&bytes(scratch)?, None) {
        record.map_err(|error| format!("{error:?}"))?;
    }
    Ok(Sample::of(start.elapsed().as_secs_f64() * 1e3))
}
