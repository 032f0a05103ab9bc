//! Two tasks wait for each other, so neither can ever continue. The run does not hang: it fails
//! with a report that says what each task waits for, and where. Look at the cycle, and at the lines
//! it names.
//!
//! `cargo run -p tiffany --example deadlock`

use std::process::ExitCode;

use tiffany::RunError;
use tiffany::prelude::*;

/// Two polite people at a door.
pub async fn main_task(say: fn(String)) -> Result<(), TaskError> {
    let (introduce, introduced) = channel::<Task<()>>(1).await;

    let alice = try_spawn(async move {
        match introduced.receive().await? {
            Some(bob) => bob.await,
            None => Ok(()),
        }
    })
    .name("alice")
    .await;

    let bob = try_spawn(async move { alice.await }).name("bob").await;

    introduce.send(bob).await?;
    say("alice: after you!".into());
    say("bob:   no, after you!".into());
    Ok(())
}

fn main() -> ExitCode {
    match tiffany::try_run(main_task(|line| println!("{line}"))) {
        Err(RunError::Deadlock(report)) => {
            println!("\n{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("this is not the expected error: {error}");
            ExitCode::FAILURE
        }
        Ok(()) => {
            eprintln!("somebody went first, which was not expected");
            ExitCode::FAILURE
        }
    }
}
