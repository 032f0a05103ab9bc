//! The demo's workflow: tasks that work at the same time plan a trip. Everything they do outside is
//! a step, which the ledger records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ledger;
use tiffany::durable::{Step, approve, step_with};
use tiffany::{Builder, TaskError, gather, race, sleep, try_spawn};

/// The function's name, which is also the id of its only run.
pub(super) const NAME: &str = "trip";
pub(super) const ID: &str = "summer";

/// The question before the money is spent.
pub(super) const QUESTION: &str = "Spend 1200 EUR on the trip?";

pub(super) fn register(builder: Builder, dir: &Path) -> Builder {
    let place = dir.to_path_buf();
    builder.register(NAME, move |days: u32| plan(place.clone(), days))
}

/// A step with an external action that takes a while.
fn act(dir: &Path, name: &'static str, takes_ms: u64) -> Step<String> {
    let dir = dir.to_path_buf();
    step_with(name, move |attempt| {
        std::thread::sleep(Duration::from_millis(takes_ms));
        ledger::enter(&dir, attempt.key(), name)?;
        Ok::<String, std::io::Error>(format!("{name}: done"))
    })
}

async fn pause(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

async fn plan(dir: PathBuf, days: u32) -> Result<String, TaskError> {
    let (d, e, f) = (dir.clone(), dir.clone(), dir.clone());
    let flights = try_spawn(async move { flights(d).await }).name("flights").await;
    let hotel = try_spawn(async move { hotel(e).await }).name("hotel").await;
    let visa = try_spawn(async move { visa(f).await }).name("visa").await;
    let budget = try_spawn(async move {
        let answer = approve(QUESTION).payload(&serde_json::json!({ "days": days })).await?;
        answer.granted().map(|answer| format!("budget by {}", answer.by))
    });
    let budget = budget.name("budget").await;
    let parts = gather([flights, hotel, visa, budget]).await?;
    act(&dir, "pay", 150).input(&days).await?;
    act(&dir, "send the papers", 100).at_most_once().await?;
    Ok(format!("{days} days: {}", parts.join(", ")))
}

/// Asks three airlines at the same time, then books a flight.
async fn flights(dir: PathBuf) -> Result<String, TaskError> {
    let mut offers = Vec::new();
    for (airline, takes) in [("ask Blue Air", 300), ("ask Red Air", 700), ("ask Green Air", 1100)] {
        let dir = dir.clone();
        offers.push(try_spawn(async move { act(&dir, airline, takes).await }).name(airline).await);
    }
    gather(offers).await?;
    pause(300).await;
    act(&dir, "book the flight", 250).await?;
    Ok("flight".into())
}

/// Two hotels race; the slower one is cancelled.
async fn hotel(dir: PathBuf) -> Result<String, TaskError> {
    let mut rivals = Vec::new();
    for (hotel, takes) in [("ask the Ritz", 900), ("ask the Plaza", 2500)] {
        let dir = dir.clone();
        let rival = async move {
            pause(400).await;
            act(&dir, hotel, takes).await
        };
        rivals.push(try_spawn(rival).name(hotel).await);
    }
    race(rivals).await?.cancel_rest().await;
    act(&dir, "book the hotel", 200).await?;
    Ok("hotel".into())
}

/// A task with long waits, which continue while no process runs.
async fn visa(dir: PathBuf) -> Result<String, TaskError> {
    act(&dir, "file the form", 200).await?;
    pause(1500).await;
    act(&dir, "collect the visa", 200).await?;
    Ok("visa".into())
}
