//! The functions of the durable runs that are measured, and runtimes with these functions.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tiffany::durable::{DurableRun, receive, step};
use tiffany::{Builder, RunError, Runtime, TaskError, now, random, sleep, try_spawn, yield_now};

/// The number of tasks among which yields switch.
pub(super) const YIELDING: u64 = 100;

/// Opens a runtime on this log, with the default settings.
pub(crate) fn open(log: &Path) -> Result<Runtime, String> {
    functions().log_dir(log).build().map_err(said)
}

/// Returns a builder with all functions.
pub(crate) fn functions() -> Builder {
    Runtime::builder()
        .register("steps", steps)
        .register("large", large)
        .register("shown_steps", shown_steps)
        .register("randoms", randoms)
        .register("mixed", mixed)
        .register("yields", yields)
        .register("sleeper", sleeper)
        .register("done", async |number: u64| Ok::<u64, TaskError>(number))
}

pub(crate) fn said(error: RunError) -> String {
    error.to_string()
}

/// Starts runs of a function with the same input and different ids.
pub(super) fn submit(
    runtime: &mut Runtime,
    function: &str,
    ids: impl Iterator<Item = String>,
    input: u64,
) -> Result<Vec<DurableRun<u64>>, String> {
    ids.map(|id| runtime.submit(function, &id, &input)).collect::<Result<_, _>>().map_err(said)
}

pub(super) fn wait_for_all(runtime: &mut Runtime, runs: &[DurableRun<u64>]) -> Result<(), String> {
    runs.iter().try_for_each(|run| runtime.wait_for(run).map(drop)).map_err(said)
}

/// Starts a run and waits for its end.
pub(super) fn one(
    runtime: &mut Runtime,
    function: &str,
    id: &str,
    input: u64,
) -> Result<(), String> {
    let runs = submit(runtime, function, std::iter::once(id.to_owned()), input)?;
    wait_for_all(runtime, &runs)
}

/// Does this number of steps, one after the other.
pub(crate) async fn steps(count: u64) -> Result<u64, TaskError> {
    let mut sum = 0;
    for number in 0..count {
        sum += step("add", move || Ok::<u64, TaskError>(number)).await?;
    }
    Ok(sum)
}

/// Does steps with different results of 50 kB each, so that each is stored separately.
async fn large(count: u64) -> Result<u64, TaskError> {
    let (mut sum, run) = (0, random().await);
    for number in 0..count {
        let result: String = step("answer", move || {
            let mut text = format!("{run} {number} ");
            text.push_str(&"x".repeat(LARGE - text.len()));
            Ok::<String, TaskError>(text)
        })
        .await?;
        sum += result.len() as u64;
    }
    Ok(sum)
}

pub(super) const LARGE: usize = 50_000;

/// Does steps that are visible from outside, because each prints an empty line.
async fn shown_steps(count: u64) -> Result<u64, TaskError> {
    for _ in 0..count {
        step("show", || writeln!(std::io::stdout())).await?;
    }
    Ok(count)
}

pub(super) async fn randoms(count: u64) -> Result<u64, TaskError> {
    let mut sum: u64 = 0;
    for _ in 0..count {
        sum = sum.wrapping_add(random().await);
    }
    Ok(sum)
}

/// Makes calls that need no sync, then does a step that is visible from outside, and then nothing.
async fn mixed(count: u64) -> Result<u64, TaskError> {
    for number in 0..count {
        match number % 2 {
            0 => drop(random().await),
            _ => drop(now().await),
        }
    }
    step("show", || writeln!(std::io::stdout())).await?;
    receive::<u64>("never").await
}

pub(crate) async fn yields(count: u64) -> Result<u64, TaskError> {
    let mut tasks = Vec::new();
    for _ in 0..YIELDING {
        let task = try_spawn(async move {
            for _ in 0..count / YIELDING {
                yield_now().await;
            }
            Ok::<(), TaskError>(())
        });
        tasks.push(task.await);
    }
    for task in tasks {
        task.await?;
    }
    Ok(count)
}

async fn sleeper(number: u64) -> Result<u64, TaskError> {
    sleep(Duration::from_secs(3600)).await;
    Ok(number)
}

/// Waits until the process is killed.
pub(crate) fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}
