//! `snapshot_restart`: a run of a state machine is killed after 10,000,000 calls; how long it takes from opening its log
//! to its next call. `raw` reads the same file and checks it, with the log's own reader.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tiffany::durable::{DurableAgent, step};
use tiffany::wal::Reader;
use tiffany::{Direct, Runtime, SystemCall, TaskContext, TaskError, TaskStatus};

use crate::durable::{Place, Process, Scratch};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// After so many calls it waits for a moment, as a run does that does something.
const PAUSE: u64 = 1_000;

pub(super) fn restart(place: &Rc<Place>) -> Measure {
    // Made by whoever needs it first.
    let log = Rc::new(RefCell::new(None));
    let (place, other) = (Rc::clone(place), Rc::clone(&log));
    Measure {
        name: "snapshot_restart",
        what: "a run of a state machine after 10,000,000 calls: from opening its log to its next call",
        unit: "ms",
        better: Better::Lower,
        targets: vec![Target::Figure(100.0), Target::Beside("log MB", 10.0)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let mut log = log.borrow_mut();
                if log.is_none() {
                    *log = Some(make(&place, mode)?);
                }
                log.as_ref()
                    .map_or_else(|| Err("there is no log".into()), |log| next_call(log, mode))
            }),
            Contender::fallible("raw", move |_| match &*other.borrow() {
                Some(log) => read(log),
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

/// How many steps this process has seen.
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

fn open(log: &Path) -> Result<Runtime, String> {
    let start = |left| Drawer { left, sum: 0, doing: Doing::Drawing };
    let builder = Runtime::builder().log_dir(log).register_agent("drawer", start);
    builder.build().map_err(|error| error.to_string())
}

/// Drives until a step is seen.
fn until_shown(runtime: &mut Runtime) -> Result<(), String> {
    let before = SHOWN.load(Ordering::SeqCst);
    while SHOWN.load(Ordering::SeqCst) == before {
        let turn = tiffany::sleep(Duration::from_micros(100));
        runtime.run(turn).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The process that is killed: a run that has made so many calls, and says so by a line.
pub(crate) fn serve(log: &str, calls: &str) -> Result<(), String> {
    let mut runtime = open(Path::new(log))?;
    let calls: u64 = calls.parse().map_err(|_| "the parent gives numbers")?;
    runtime.submit::<u64>("drawer", "run", &calls).map_err(|error| error.to_string())?;
    until_shown(&mut runtime)?;
    println!();
    loop {
        std::thread::park();
    }
}

fn make(place: &Place, mode: Mode) -> Result<Scratch, String> {
    let scratch = place.fresh("snapshots")?;
    let log = scratch.log();
    let log = log.to_str().ok_or("the directory's name is no text")?;
    let mut process = Process::start(&["drawer", log, &calls(mode).to_string()])?;
    process.line()?;
    process.kill();
    // Opened once, so that every sample finds the log in the same order.
    drop(open(&scratch.log())?);
    Ok(scratch)
}

fn next_call(scratch: &Scratch, mode: Mode) -> Taken {
    let start = Instant::now();
    let mut runtime = open(&scratch.log())?;
    let run = runtime.submit::<u64>("drawer", "run", &calls(mode)).map_err(|e| e.to_string())?;
    runtime.send(&run, "go", &0).map_err(|error| error.to_string())?;
    until_shown(&mut runtime)?;
    let elapsed = start.elapsed();
    drop(runtime);
    let bytes = bytes(scratch)?.len() as f64;
    Ok(Sample::of(elapsed.as_secs_f64() * 1e3).beside("log MB", bytes / 1e6))
}

/// The file of the only run.
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
