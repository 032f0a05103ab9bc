//! Two tasks and a ball: they talk through channels without capacity, so each send waits for its
//! receiver. When `ping` has finished it drops its end, and `pong` sees that no more messages come.
//!
//! `cargo run -p tiffany --example ping_pong`

use tiffany::prelude::*;

const RALLIES: u32 = 4;

/// The whole game. Returns how often the ball was hit.
pub async fn main_task(say: fn(String)) -> Result<u32, TaskError> {
    let (to_pong, pings) = channel::<u32>(0).await;
    let (to_ping, pongs) = channel::<u32>(0).await;

    let ping = try_spawn(async move {
        let mut ball = 0;
        for _ in 0..RALLIES {
            say(format!("ping ──{:>2} ─→ pong", ball + 1));
            to_pong.send(ball + 1).await?;
            ball = pongs.receive().await?.unwrap_or(ball);
        }
        Ok::<u32, TaskError>(ball)
    })
    .name("ping")
    .await;

    let pong = try_spawn(async move {
        // `None` comes when the last sender is dropped, here at the end of `ping`.
        while let Some(ball) = pings.receive().await? {
            say(format!("ping ←─{:>2} ── pong", ball + 1));
            to_ping.send(ball + 1).await?;
        }
        say("            pong: nobody there any more".into());
        Ok::<(), TaskError>(())
    })
    .name("pong")
    .await;

    let hits = ping.await?;
    pong.await?;
    say(format!("the ball was hit {hits} times"));
    Ok(hits)
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))?;
    Ok(())
}
