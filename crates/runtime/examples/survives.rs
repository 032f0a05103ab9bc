//! A durable run that can be killed: run it, kill it while it works, run it again. It is resumed
//! where it was, and no step whose result was recorded is repeated.
//!
//! `cargo run --example survives [DIR]`: the log is kept in DIR, or in a fresh directory that is removed at the end.

use std::path::PathBuf;
use std::time::Duration;

use tiffany::durable::step;
use tiffany::{Runtime, TaskError, gather, sleep, try_spawn};

async fn bake(cakes: u32) -> Result<Vec<String>, TaskError> {
    let mut tasks = Vec::new();
    for cake in 1..=cakes {
        let task = try_spawn(async move {
            for what in ["mix", "bake", "ice"] {
                let done: String = step(what, move || {
                    std::thread::sleep(Duration::from_millis(500));
                    println!("  {what} cake {cake} (process {})", std::process::id());
                    Ok::<String, String>(format!("{what} by {}", std::process::id()))
                })
                .input(&cake)
                .await?;
                assert!(done.starts_with(what));
                sleep(Duration::from_millis(500 * u64::from(cake))).await;
            }
            Ok::<String, TaskError>(format!("cake {cake}"))
        });
        tasks.push(task.await);
    }
    gather(tasks).await
}

fn main() -> Result<(), tiffany::RunError> {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let fresh = std::env::temp_dir().join(format!("tiffany-survives-{}", std::process::id()));
    let dir = given.clone().unwrap_or_else(|| fresh.clone());
    let mut runtime = Runtime::builder().log_dir(&dir).register("bake", bake).build()?;
    let run = runtime.submit::<Vec<String>>("bake", "the party", &3)?;
    println!("run {} in {}", run.uuid(), dir.display());
    println!("ready: {}", runtime.wait_for(&run)?.join(", "));
    drop(runtime);
    if given.is_none() {
        let _ = std::fs::remove_dir_all(fresh);
    }
    Ok(())
}
