//! The fastest of three mirrors wins, and the losers are cancelled: their futures are dropped,
//! which releases what they held. Then no mirror is fast enough, and a timeout ends the race. Look
//! at which connections are closed, and when.
//!
//! `cargo run -p tiffany --example race`

use std::time::Duration;

use tiffany::Spawn;
use tiffany::prelude::*;

/// Both races. Returns the winner of the first.
pub async fn main_task(say: fn(String)) -> Result<&'static str, TaskError> {
    say("a race of three:".into());
    let mut mirrors = Vec::new();
    for (name, millis) in [("oslo", 900), ("lima", 20), ("pune", 800)] {
        mirrors.push(download(say, name, millis).await);
    }
    let result = race(mirrors).await?;
    say(format!("  {} has won", result.value));
    // The losers would keep running. Cancelling one never blocks; waiting for it shows that it has
    // ended.
    for loser in &result.rest {
        cancel(loser).await;
    }
    for loser in result.rest {
        match loser.await {
            Ok(name) => say(format!("  {name} was nearly as fast")),
            Err(error) => say(format!("  {}: {}", error.code(), error.message())),
        }
    }

    say("a race against the clock:".into());
    // The members of a group end together, at the latest when it is dropped.
    let group = group().await;
    let mut mirrors = Vec::new();
    for (name, millis) in [("oslo", 900), ("pune", 800)] {
        mirrors.push(download(say, name, millis).group(&group).await);
    }
    match timeout(Duration::from_millis(30), race(mirrors)).await {
        Ok(result) => say(format!("  {} has won", result?.value)),
        Err(error) => say(format!("  {}: {}", error.code(), error.message())),
    }
    drop(group);
    Ok(result.value)
}

/// A task that downloads something through a connection.
fn download(say: fn(String), mirror: &'static str, millis: u64) -> Spawn<&'static str> {
    spawn(async move {
        let _connection = Connection { mirror, say };
        sleep(Duration::from_millis(millis)).await;
        mirror
    })
    .name(mirror)
}

/// Closed when it is dropped: at the end of its task, or when that is cancelled.
struct Connection {
    mirror: &'static str,
    say: fn(String),
}

impl Drop for Connection {
    fn drop(&mut self) {
        (self.say)(format!("  {} closes its connection", self.mirror));
    }
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))?;
    Ok(())
}
