//! `watchers`: the percentage by which the tasks of a busy run are slowed down while 1,000
//! WebSocket clients watch it. Its ten tasks do about 10 µs of work in each turn, and one in a
//! hundred turns reports progress. This is about a thousand events per second, or a million
//! messages if all clients could receive all of them. On two cores, none can, so clients that are
//! too slow are told how many events they have lost.
//!
//! The figure is the time of a turn minus the time that the loop's thread waited for a core, with
//! and without the watchers, in turns in the same daemon. It covers what the loop does for the
//! watchers, and how long it waits for them, for example at a lock. `cpu` is the former alone.
//! `wall` is wall-clock time, which includes the effect of watchers that use the loop's cores: the
//! loop, the daemon's network threads and a process with 1,000 clients share two cores with
//! everything else on the machine. `others` is the CPU time of the daemon's other threads
//! meanwhile, in percent of the loop's. The clients run at nice 19, because they represent other
//! machines.
//!
//! Memory is the resident memory of the daemon: `each_kb` is the peak per watcher beyond the daemon
//! without them; `grown_mb` is the growth from one busy run that was watched by 1,000 clients to
//! the next. What is kept for all readers together is limited by the settings of the hub, and the
//! rest by the capacity of a socket. `seen` is the part of all events that a watcher received.

use std::net::SocketAddr;
use std::rc::Rc;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tiffany::durable::receive;
use tiffany::pal::progress;
use tiffany::{TaskError, try_spawn, yield_now};

use super::house::{House, all};
use super::line::{Line, on_this_thread};
use crate::durable::{Place, Process, memory, settle};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

const WATCHERS: usize = 1_000;
const TASKS: u64 = 10;
/// The number of turns of which one reports progress.
const SHOWN: u64 = 100;

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "watchers",
        what: "how much slower tasks are while 1,000 WebSocket clients watch their run",
        unit: "%",
        better: Better::Lower,
        targets: vec![Target::Figure(5.0), Target::Beside("grown_mb", 8.0)],
        rounds: 5,
        contenders: vec![Contender::fallible("tiffany", move |mode| tiffany(&place, mode))],
    }
}

/// Returns the nanoseconds of a clock.
fn nanos(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// The times of a turn, in nanoseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Turn {
    cpu: f64,
    wall: f64,
    /// The time in which the thread was ready to run but others had the cores.
    delayed: f64,
}

impl Turn {
    /// Returns the total times of this thread so far.
    fn now() -> Result<Turn, TaskError> {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat");
        let stat = stat.map_err(|error| TaskError::failed(error.to_string()))?;
        let delayed = stat.split(' ').nth(1).and_then(|delay| delay.parse().ok());
        let delayed = delayed.ok_or_else(|| TaskError::failed("no delays are counted here"))?;
        let cpu = nanos(ClockId::ThreadCPUTime);
        Ok(Turn { cpu, wall: nanos(ClockId::Monotonic), delayed })
    }
}

/// Works for this number of turns, and returns the average times of a turn. All tasks run on the
/// loop's thread, so its clock covers them.
pub(super) async fn busy(turns: u64) -> Result<Turn, TaskError> {
    receive::<()>("go").await?;
    let before = Turn::now()?;
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let task = try_spawn(async move {
            for turn in 0..turns / TASKS {
                work();
                match turn % SHOWN {
                    0 => progress(turn, turns / TASKS, "turns").await,
                    _ => yield_now().await,
                }
            }
            Ok::<(), TaskError>(())
        });
        tasks.push(task.await);
    }
    for task in tasks {
        task.await?;
    }
    let after = Turn::now()?;
    let each = |of: fn(&Turn) -> f64| (of(&after) - of(&before)) / turns as f64;
    Ok(Turn {
        cpu: each(|turn| turn.cpu),
        wall: each(|turn| turn.wall),
        delayed: each(|turn| turn.delayed),
    })
}

/// Executes the same instructions each time, without accessing memory.
fn work() {
    let mut number: u64 = 1;
    for _ in 0..8_000 {
        number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
    }
}

fn tiffany(place: &Place, mode: Mode) -> Taken {
    let house = House::open(place)?;
    let process = house.process.id().to_string();
    let turns = mode.pick(200_000, 2_000);
    let watchers = mode.pick(WATCHERS, 10);
    let (mut alone, mut watched, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    run(&house, "first", turns / 10, 0)?;
    let before = memory(&process, "VmRSS")?;
    for number in 0..2 {
        alone.push(run(&house, &format!("alone-{number}"), turns, 0)?);
        watched.push(run(&house, &format!("watched-{number}"), turns, watchers)?);
        peaks.push(memory(&process, "VmHWM")?);
    }
    let sum = |runs: &[Busy], of: fn(&Busy) -> f64| runs.iter().map(of).sum::<f64>();
    let slower = |of: fn(&Busy) -> f64| (sum(&watched, of) / sum(&alone, of) - 1.0) * 100.0;
    let beyond = |peak: u64| peak.saturating_sub(before) as f64;
    Ok(Sample::of(slower(|run| run.turn.wall - run.turn.delayed))
        .beside("cpu", slower(|run| run.turn.cpu))
        .beside("wall", slower(|run| run.turn.wall))
        .beside("others", sum(&watched, |run| run.others) / 2.0)
        .beside("seen", sum(&watched, |run| run.seen) / 2.0)
        .beside("each_kb", beyond(peaks[0]) / 1e3 / watchers as f64)
        .beside("grown_mb", (peaks[1] - peaks[0]) as f64 / 1e6))
}

/// The measurements of one busy run.
struct Busy {
    turn: Turn,
    /// The CPU time of the daemon's other threads, in percent of the loop's.
    others: f64,
    /// The part of its events that a watcher received.
    seen: f64,
}

/// Measures a run from its start to its end, watched by this number of clients.
fn run(house: &House, id: &str, turns: usize, watchers: usize) -> Result<Busy, String> {
    house.start("busy", id, turns)?;
    let (address, count) = (house.address.to_string(), watchers.to_string());
    let mut watching = match watchers {
        0 => None,
        _ => Some(Process::start(&["watchers", &address, id, &count])?),
    };
    if let Some(watching) = &mut watching {
        watching.line()?;
    }
    settle();
    let used = || house.metric("process_cpu_seconds_total");
    let before = used()?;
    let go = r#"{"name":"go","message":null}"#;
    house.ask("POST", &format!("/api/v1/runs/{id}/messages"), go, 204)?;
    let turn: Turn = house.value(id)?;
    let itself = turn.cpu * turns as f64 / 1e9;
    let others = ((used()? - before) / itself - 1.0) * 100.0;
    let seen = match watching {
        Some(mut watching) => watching.line()?.parse().map_err(|_| "watchers tell no figure")?,
        None => 0.0,
    };
    Ok(Busy { turn, others, seen })
}

/// Runs the process with the clients. It prints a line when all of them watch, and another at the
/// end of the run with the part of its events that they received.
pub(crate) fn serve(address: &str, run: &str, count: u64) -> Result<(), String> {
    let address: SocketAddr = address.parse().map_err(|_| "this is no address".to_owned())?;
    rustix::process::nice(19).map_err(|error| error.to_string())?;
    let path = format!("/api/v1/runs/{run}/events");
    let counts = on_this_thread(async {
        let mut lines = Vec::new();
        for _ in 0..count {
            let mut line = Line::open(address).await?;
            line.upgrade(&path).await?;
            // The first message says that the stream has begun.
            line.message().await?;
            lines.push(line);
        }
        println!();
        all(lines.into_iter().map(watch)).await
    })??;
    let sum = |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).sum::<u64>() as f64;
    let (seen, lost) = (sum(|count| count.0), sum(|count| count.1));
    println!("{}", seen / (seen + lost));
    Ok(())
}

/// Returns how many events a client received until the end of the run, and how many it was told it
/// had lost.
async fn watch(mut line: Line) -> Result<(u64, u64), String> {
    let (mut seen, mut lost) = (0, 0);
    loop {
        let message = line.message().await?;
        if let Some(count) = message.strip_prefix(b"{\"lost\":") {
            let count = std::str::from_utf8(count).ok().and_then(|text| text.strip_suffix('}'));
            lost += count.and_then(|text| text.parse::<u64>().ok()).ok_or("no count")?;
            continue;
        }
        seen += 1;
        // The event for the end of the run names no task.
        let has = |text: &[u8]| message.windows(text.len()).any(|part| part == text);
        if has(b"\"stage\":\"Completed\"") && !has(b"\"tid\":") {
            return Ok((seen, lost));
        }
    }
}
