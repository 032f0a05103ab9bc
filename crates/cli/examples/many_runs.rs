//! Creates many finished runs for measurements and tests: a hundred thousand unless another number
//! is given.
//!
//! `cargo run --release -p tiffany-cli --example many_runs -- DIR [RUNS]`

use std::path::Path;
use std::process::ExitCode;

use tiffany::{RunError, Runtime, TaskError};

/// The number of runs that are started before their values are awaited.
const WAVE: u32 = 2_000;

fn make(dir: &Path, runs: u32) -> Result<(), RunError> {
    let count = |number: u32| async move { Ok::<u32, TaskError>(number) };
    let mut runtime = Runtime::builder().register("count", count).log_dir(dir).build()?;
    for wave in 0..runs.div_ceil(WAVE) {
        let mut started = Vec::new();
        for number in wave * WAVE..((wave + 1) * WAVE).min(runs) {
            started.push(runtime.submit::<u32>("count", &format!("many-{number:06}"), &number)?);
        }
        for run in &started {
            runtime.wait_for(run)?;
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runs = arguments.get(1).map_or(Ok(100_000), |runs| runs.parse());
    let (Some(dir), Ok(runs)) = (arguments.first(), runs) else {
        eprintln!("usage: many_runs DIR [RUNS]");
        return ExitCode::FAILURE;
    };
    match make(Path::new(dir), runs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
