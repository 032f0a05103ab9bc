//! Features of steps besides their results, crashed everywhere: checkpoints, transactions, sagas
//! that fail or are cancelled, and messages between runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tiffany::durable::{
    Attempt, Retry, Step, StepError, receive, run_id, saga, send, step_transactional, step_with,
};
use tiffany::{Builder, TaskError, join, kill_task, sleep, try_spawn};
use tiffany_sim::Crashes;

/// A database that survives crashes of the machine: the number of times each thing was done, and
/// the results of transactions by key.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Shop>>);

#[derive(Default)]
struct Shop {
    done: BTreeMap<String, u64>,
    results: BTreeMap<String, String>,
}

impl World {
    /// A step that is done exactly once. Every other attempt loses its connection at the end,
    /// before or after the commit.
    fn once(&self, what: String) -> Step<u64> {
        let world = self.clone();
        step_transactional("once", move |attempt| {
            let mut shop = world.0.lock().unwrap();
            if let Some(result) = shop.results.get(attempt.key()) {
                return Ok(result.clone());
            }
            let before = attempt.number() % 3 == 1;
            if !before {
                *shop.done.entry(what.clone()).or_default() += 1;
                let result = attempt.to_json(&shop.done[&what])?;
                shop.results.insert(attempt.key().to_string(), result.clone());
                if attempt.number() % 3 == 0 {
                    return Ok(result);
                }
            }
            Err(StepError::in_doubt("the line was lost"))
        })
        .retry(Retry::times(10).first(Duration::from_millis(1)))
    }

    fn act(&self, what: String) -> Step<String> {
        let world = self.clone();
        step_with("act", move |_: Attempt| {
            *world.0.lock().unwrap().done.entry(what.clone()).or_default() += 1;
            Ok::<_, StepError>(what.clone())
        })
    }

    fn count(&self, what: &str) -> u64 {
        self.0.lock().unwrap().done.get(what).copied().unwrap_or(0)
    }
}

/// Saves checkpoints while it sends messages.
async fn sends(world: World) -> Result<(u64, u64), TaskError> {
    let to = run_id("taker");
    send(to, "number", &1).await?;
    let parts = step_with("parts", |attempt| {
        let from: u64 = attempt.last_checkpoint()?.unwrap_or(0);
        (from..3).try_for_each(|part| attempt.checkpoint(&(part + 1)))?;
        match attempt.number() {
            1 => Err(StepError::from("not at first")),
            _ => Ok(3_u64),
        }
    });
    let parts = parts.retry(Retry::times(3).first(Duration::from_millis(2)));
    let (parts, sent) = join!(parts.into_future(), send(to, "number", &2));
    sent?;
    let once = world.once("pay".into()).await?;
    send(to, "number", &3).await?;
    Ok((parts?, once))
}

async fn takes() -> Result<Vec<u64>, TaskError> {
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(receive("number").await?);
    }
    Ok(taken)
}

fn set_up(world: &World, builder: Builder) -> Builder {
    let (sending, booking) = (world.clone(), world.clone());
    builder
        .register("sends", move |()| sends(sending.clone()))
        .register("takes", |()| takes())
        .register("books", move |after: Option<u64>| books(booking.clone(), after))
}

#[test]
fn messages_checkpoints_and_transactions() {
    let report = Crashes::in_world(World::default)
        .set_up(set_up)
        .run("takes", "taker", &())
        .run("sends", "sender", &())
        .holds(|world, seen| match (world.count("pay"), seen.outcome("taker")) {
            (1, Some(Ok(taken))) if *taken == serde_json::json!([1, 2, 3]) => Ok(()),
            (paid, taken) => Err(format!("paid {paid} times, and taken {taken:?}")),
        })
        .no_faults()
        .at_most(50)
        .check();
    assert!(report.simulations > 100, "{} simulations show nothing", report.simulations);
}

/// Books twice, and then fails or waits to be cancelled.
async fn trip(world: World, waits: bool) -> Result<(), TaskError> {
    let trip = saga(async move |saga| {
        for what in ["flight", "hotel"] {
            let undo = world.clone();
            let book = world.act(format!("book {what}"));
            let undo_book = move || undo.act(format!("unbook {what}"));
            let undo_in_doubt = undo_book.clone();
            saga.step(book, move |_| undo_book()).undo_in_doubt(undo_in_doubt).await?;
        }
        if waits {
            sleep(Duration::from_secs(3600)).await;
        }
        Err::<(), TaskError>(TaskError::failed("no money"))
    });
    Ok(trip.await?)
}

/// Runs the saga until it fails, or cancels it after this time.
async fn books(world: World, cancelled_after: Option<u64>) -> Result<bool, TaskError> {
    let trip = try_spawn(trip(world, cancelled_after.is_some())).await;
    if let Some(millis) = cancelled_after {
        sleep(Duration::from_millis(millis)).await;
        return Ok(kill_task(trip.tid()).await);
    }
    Ok(trip.await.is_err())
}

/// Checks that every booking was cancelled. (Each may be repeated after a crash, with its key.)
fn all_is_undone(world: &World) -> Result<(), String> {
    for what in ["flight", "hotel"] {
        let (booked, unbooked) =
            (world.count(&format!("book {what}")), world.count(&format!("unbook {what}")));
        if booked > 0 && unbooked == 0 {
            return Err(format!("the {what} is booked still"));
        }
    }
    Ok(())
}

#[test]
fn a_saga_that_fails() {
    let report = Crashes::in_world(World::default)
        .set_up(set_up)
        .run("books", "trip", &None::<u64>)
        .holds(|world, _| all_is_undone(world))
        .no_faults()
        .at_most(50)
        .check();
    assert!(report.simulations > 100, "{} simulations show nothing", report.simulations);
}

#[test]
fn a_saga_that_is_cancelled_at_any_moment() {
    for millis in [1, 10, 30, 60, 100, 200] {
        Crashes::in_world(World::default)
            .set_up(set_up)
            .run("books", "trip", &Some(millis))
            .holds(|world, _| all_is_undone(world))
            .may_differ()
            .no_faults()
            .at_most(25)
            .check();
    }
}
