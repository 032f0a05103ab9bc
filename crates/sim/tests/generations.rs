//! Runs whose log is replaced by a new generation, crashed at every disk operation of the
//! replacement: the write next to the old file, the rename, and the syncs; also with a disk that is
//! full or fails there.

use std::time::Duration;

use tiffany::durable::{continue_as, receive, run_id, send, step};
use tiffany::{Builder, TaskError, random, sleep, try_spawn};
use tiffany_sim::Crashes;

const MS: Duration = Duration::from_millis(1);

/// Each generation has steps, a child and a timer.
async fn rounds((left, sum): (u64, u64)) -> Result<u64, TaskError> {
    let drawn = random().await % 10;
    let child =
        try_spawn(async move { step("draw", move || Ok::<u64, String>(drawn)).await }).await;
    let drawn = child.await?;
    sleep(3 * MS).await;
    let sum = step("add", move || Ok::<u64, String>(sum + drawn)).input(&sum).await?;
    match left {
        0 => Ok(sum),
        _ => continue_as(&(left - 1, sum)).await,
    }
}

#[test]
fn a_run_with_new_generations_crashed_everywhere() {
    let report = Crashes::of(rounds, (1u64, 0u64)).seeds(0..1).check();
    assert!(report.crashes > 500, "{report}");
    println!("{report}");
}

#[test]
fn new_generations_with_only_outward_calls_recorded() {
    let crashes = Crashes::of(rounds, (3u64, 0u64));
    let report = crashes.set_up(|_, builder| builder.record_outward_only()).at_most(80).check();
    println!("{report}");
}

/// An at-most-once step begins once across all generations; the ledger is checked for this.
#[test]
fn steps_at_most_once_in_generations() {
    async fn once(round: u64) -> Result<u64, TaskError> {
        step("once", move || Ok::<u64, String>(round)).at_most_once().await.unwrap_or(0);
        if round == 4 { Ok(round) } else { continue_as(&(round + 1)).await }
    }
    let report = Crashes::of(once, 0u64)
        .may_differ()
        .holds(|_, seen| match seen.outcome("workflow") {
            Some(Ok(round)) if *round == 4 => Ok(()),
            other => Err(format!("it ended with {other:?}")),
        })
        .at_most(100)
        .check();
    println!("{report}");
}

/// Messages between runs that both begin new generations arrive once and in order, whenever the
/// machine crashes.
#[test]
fn messages_between_generations_come_once() {
    /// With a world, no cut logs are tried, which would not work because the runs exchange
    /// messages.
    struct World;
    async fn sender((from, to): (u64, u64)) -> Result<(), TaskError> {
        for number in from..to.min(from + 2) {
            send(run_id("taker"), "number", &Some(number)).await?;
        }
        match from + 2 >= to {
            true => send(run_id("taker"), "number", &None::<u64>).await,
            false => continue_as(&(from + 2, to)).await,
        }
    }
    async fn taker(mut all: Vec<u64>) -> Result<Vec<u64>, TaskError> {
        for _ in 0..3 {
            match receive::<Option<u64>>("number").await? {
                Some(number) => all.push(number),
                None => return Ok(all),
            }
            sleep(MS).await;
        }
        continue_as(&all).await
    }
    let register =
        |_: &World, builder: Builder| builder.register("sender", sender).register("taker", taker);
    let report = Crashes::in_world(|| World)
        .set_up(register)
        .run("taker", "taker", &Vec::<u64>::new())
        .run("sender", "sender", &(0, 7))
        .holds(|_, seen| match seen.outcome("taker") {
            Some(Ok(all)) if *all == serde_json::json!([0, 1, 2, 3, 4, 5, 6]) => Ok(()),
            other => Err(format!("the taker has {other:?}")),
        })
        .may_differ()
        .at_most(100)
        .check();
    println!("{report}");
}
