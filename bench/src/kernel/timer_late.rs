//! `timer_late`: 100,000 tasks sleep once each, for times within a second that are the same in
//! every run. The figure is how much later than requested each task is resumed. All read the same
//! clock, `Instant`, inside the task. `p99` and `earliest` are shown next to the median; a negative
//! value means that a sleep was shorter than requested.

use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "timer_late",
        what: "lateness of 100,000 sleeps within a second, p50",
        unit: "µs",
        better: Better::Lower,
        targets: vec![Target::Figure(100.0)],
        rounds: 3,
        contenders: vec![
            Contender::new("tiffany", tiffany),
            Contender::new("tokio", tokio),
            Contender::new("smol", smol),
            Contender::new("monoio", monoio),
        ],
    }
}

/// Returns the durations to sleep.
fn durations(mode: Mode) -> impl Iterator<Item = Duration> {
    let (tasks, longest) = mode.pick((100_000, 1_000), (5_000, 100));
    let mut dice = Dice(3);
    let longest = Duration::from_millis(longest);
    (0..tasks).map(move |_| dice.between(Duration::from_millis(1), longest))
}

/// Sleeps, and returns how late it was, in nanoseconds.
async fn lateness<S: Future>(duration: Duration, sleep: impl FnOnce(Duration) -> S) -> i64 {
    let asked = Instant::now();
    sleep(duration).await;
    asked.elapsed().as_nanos() as i64 - duration.as_nanos() as i64
}

fn sample(mut late: Vec<i64>) -> Sample {
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize] as f64 / 1_000.0;
    Sample::of(at(0.5)).beside("p99", at(0.99)).beside("earliest", at(0.0))
}

fn tiffany(mode: Mode) -> Sample {
    sample(runtimes::tiffany(async move {
        let mut tasks = Vec::new();
        for duration in durations(mode) {
            tasks.push(tiffany::spawn(lateness(duration, tiffany::sleep)).await);
        }
        let mut late = Vec::with_capacity(tasks.len());
        for task in tasks {
            late.push(task.await.expect("the task ends well"));
        }
        late
    }))
}

fn tokio(mode: Mode) -> Sample {
    sample(runtimes::tokio(async move {
        let mut tasks = Vec::new();
        for duration in durations(mode) {
            tasks.push(tokio::spawn(lateness(duration, tokio::time::sleep)));
        }
        let mut late = Vec::with_capacity(tasks.len());
        for task in tasks {
            late.push(task.await.expect("the task ends well"));
        }
        late
    }))
}

fn smol(mode: Mode) -> Sample {
    sample(runtimes::smol(|executor| async move {
        let mut tasks = Vec::new();
        for duration in durations(mode) {
            tasks.push(executor.spawn(lateness(duration, async_io::Timer::after)));
        }
        let mut late = Vec::with_capacity(tasks.len());
        for task in tasks {
            late.push(task.await);
        }
        late
    }))
}

fn monoio(mode: Mode) -> Sample {
    sample(runtimes::monoio(async move {
        let mut tasks = Vec::new();
        for duration in durations(mode) {
            tasks.push(monoio::spawn(lateness(duration, monoio::time::sleep)));
        }
        let mut late = Vec::with_capacity(tasks.len());
        for task in tasks {
            late.push(task.await);
        }
        late
    }))
}
