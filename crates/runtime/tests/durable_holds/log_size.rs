//! The limit on the log of one run: its lines and the large values that they name.

use tiffany::durable::{continue_as, receive};

use super::*;

const LARGE: usize = 40_000;

fn log_bytes(limit: u64) -> RunLimits {
    RunLimits { log_bytes: Some(limit), ..RunLimits::default() }
}

/// A step that makes a large value of its own.
async fn large(number: u64) -> Result<String, TaskError> {
    step("large", move || Ok::<String, String>(format!("{number:>LARGE$}"))).await
}

async fn fills(count: u64) -> Result<u64, TaskError> {
    for number in 0..count {
        large(number).await?;
    }
    Ok(count)
}

#[test]
fn large_values_count_as_bytes_of_the_log() {
    let dir = Dir::new();
    let builder = dir.builder().register("fills", fills).run_limits(log_bytes(1_000_000));
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<u64>("fills", "a", &500).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert_eq!(error.kind(), ErrorKind::RunHeld);
    assert!(error.message().contains("with large values, more than the 1000000"), "{error}");
    let made = dir_count(&dir, "a", "EffectResult");
    // The last lines may not be in the file yet.
    assert!((20..30).contains(&made), "{made} values of {LARGE} bytes");
}

#[test]
fn a_value_that_is_passed_on_counts_once() {
    async fn passes_on(count: u64) -> Result<u64, TaskError> {
        let mut value = large(0).await?;
        for _ in 0..count {
            let given = value.clone();
            value = step("same", move || Ok::<String, String>(given.clone())).await?;
        }
        Ok(count)
    }
    let dir = Dir::new();
    let builder = dir.builder().register("passes_on", passes_on).run_limits(log_bytes(200_000));
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<u64>("passes_on", "a", &100).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 100);
}

#[test]
fn after_a_restart_the_values_of_earlier_processes_count() {
    async fn twice(count: u64) -> Result<u64, TaskError> {
        fills(count).await?;
        receive::<u64>("more").await?;
        for number in 0..count {
            large(count + number).await?;
        }
        Ok(count)
    }
    let dir = Dir::new();
    let build = || {
        let builder = dir.builder().register("twice", twice).run_limits(log_bytes(1_000_000));
        builder.build().unwrap()
    };
    let mut runtime = build();
    let run = runtime.submit::<u64>("twice", "a", &15).unwrap();
    run_until(&mut runtime, || dir_count(&dir, "a", "EffectResult") == 15);
    drop(runtime);
    let mut runtime = build();
    runtime.send(&run, "more", &1_u64).unwrap();
    let error = wait_error(&mut runtime, &run);
    assert_eq!(error.kind(), ErrorKind::RunHeld);
    // The next process knows it without the values.
    drop(runtime);
    let mut runtime = build();
    assert_eq!(wait_error(&mut runtime, &run).kind(), ErrorKind::RunHeld);
    runtime.release(&run, "ada", None).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 15);
}

#[test]
fn each_generation_begins_with_an_empty_log() {
    async fn continues(generation: u64) -> Result<u64, TaskError> {
        for number in 0..10 {
            large(10 * generation + number).await?;
        }
        if generation == 5 {
            return Ok(generation);
        }
        continue_as(&(generation + 1)).await
    }
    async fn lines(generation: u64) -> Result<u64, TaskError> {
        for _ in 0..500 {
            random().await;
        }
        if generation == 20 {
            return Ok(generation);
        }
        continue_as(&(generation + 1)).await
    }
    let dir = Dir::new();
    let builder = dir.builder().register("continues", continues).register("lines", lines);
    let mut runtime = builder.run_limits(log_bytes(600_000)).build().unwrap();
    let run = runtime.submit::<u64>("continues", "a", &0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 5);
    let run = runtime.submit::<u64>("lines", "b", &0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 20);
}
