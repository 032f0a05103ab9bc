//! Creates a big run for measurements: twenty records per task, and ten thousand tasks unless
//! another number is given.
//!
//! `cargo run --release -p tiffany-cli --example big_run -- DIR [TASKS]`

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tiffany::durable::step;
use tiffany::{RunError, Runtime, TaskError, Uuid, get_tid, sleep, try_spawn};

/// The number of tasks that run at the same time.
const WAVE: u32 = 250;
/// The id of the run.
pub const ID: &str = "big";

/// Executes some steps, and sleeps in between. Some of the steps fail, and a few of the tasks.
async fn worker(number: u32) -> Result<u32, TaskError> {
    get_tid().await;
    let mut sum = 0;
    for name in ["fetch", "parse", "check"] {
        sum += step(name, move || Ok::<u32, String>(number)).pure().await?;
    }
    sleep(Duration::from_millis(u64::from(number % 7))).await;
    let odd = step("price", move || match number % 100 {
        99 => Err(format!("no price for {number}")),
        _ => Ok(number),
    });
    sum += odd.pure().await.unwrap_or(0);
    step("store", move || Ok::<u32, String>(sum)).pure().await?;
    match number % 1000 {
        999 => Err(TaskError::failed(format!("worker {number} has had enough"))),
        _ => Ok(sum),
    }
}

async fn big(tasks: u32) -> Result<u32, TaskError> {
    let mut failed = 0;
    for wave in 0..tasks.div_ceil(WAVE) {
        let mut workers = Vec::new();
        for number in wave * WAVE..((wave + 1) * WAVE).min(tasks) {
            workers.push(try_spawn(worker(number)).name(format!("worker {number}")).await);
        }
        for worker in workers {
            failed += u32::from(worker.await.is_err());
        }
    }
    Ok(failed)
}

/// Creates the run in a log directory, and returns its UUID.
pub fn make(dir: &Path, tasks: u32) -> Result<Uuid, RunError> {
    let mut runtime = Runtime::builder().register("big", big).log_dir(dir).build()?;
    let run = runtime.submit::<u32>("big", ID, &tasks)?;
    let uuid = run.uuid();
    runtime.wait_for(&run)?;
    Ok(uuid)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tasks = arguments.get(1).map_or(Ok(10_000), |tasks| tasks.parse());
    let (Some(dir), Ok(tasks)) = (arguments.first(), tasks) else {
        eprintln!("usage: big_run DIR [TASKS]");
        return ExitCode::FAILURE;
    };
    match make(Path::new(dir), tasks) {
        Ok(uuid) => {
            println!("{uuid}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
