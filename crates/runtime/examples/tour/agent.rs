//! The program that the demo runs and draws: a small research agent. Sleeps stand for the waits of
//! a real one (models, networks, people).

use std::time::Duration;

use tiffany::prelude::*;
use tiffany::{Semaphore, Spawn, gather_settled, tell};

const PAGES: [(&str, u64); 5] =
    [("page a", 300), ("page b", 200), ("page c", 400), ("page d", 250), ("page e", 350)];

/// Plans, searches, reads, writes, and asks before it publishes. `thinking` is how long the reviewer
/// takes.
pub(crate) async fn research(thinking: Duration) -> Result<&'static str, TaskError> {
    tell("planner makes a plan and starts three searches").await;
    work(200).await;
    let searches = [
        try_spawn(search_web()).name("web").await,
        spawn(search(400, "papers")).name("papers").await,
        try_spawn(search_news()).name("news").await,
    ];
    let found = gather_settled(searches).await?;
    if found.iter().any(Result::is_err) {
        tell("one search has failed; planner does without it").await;
    }

    tell("five pages to read, two at a time").await;
    let desks = semaphore(2).await;
    let mut readers = Vec::new();
    for (page, millis) in PAGES {
        readers.push(read(page, millis, &desks).await);
    }
    gather(readers).await?;

    try_spawn(write(thinking)).name("writer").await.await
}

/// Two sources for the same thing: the faster one counts, the other is cancelled.
async fn search_web() -> Result<&'static str, TaskError> {
    let eu = spawn(search(300, "eu")).name("source eu").await;
    let us = spawn(search(700, "us")).name("source us").await;
    let result = race([eu, us]).await?;
    tell("source eu was faster, so source us is cancelled").await;
    for loser in &result.rest {
        cancel(loser).await;
    }
    Ok(result.value)
}

async fn search(millis: u64, what: &'static str) -> &'static str {
    work(millis).await;
    what
}

async fn search_news() -> Result<&'static str, String> {
    work(150).await;
    Err("503: try again tomorrow".into())
}

/// A reader, which needs a desk.
fn read(page: &'static str, millis: u64, desks: &Semaphore) -> Spawn<()> {
    let desks = desks.clone();
    try_spawn(async move {
        let _desk = desks.acquire().await?;
        work(millis).await;
        Ok::<(), TaskError>(())
    })
    .name(page)
}

/// Writes a draft and publishes it once the reviewer has settled a promise.
async fn write(thinking: Duration) -> Result<&'static str, TaskError> {
    work(300).await;
    tell("writer asks for approval").await;
    let approval = promise().await;
    let approved = approval.future();
    let reviewer = try_spawn(async move {
        sleep(thinking).await;
        approval.complete(true).await
    });
    drop(reviewer.name("reviewer").await);
    match approved.await? {
        true => tell("it is approved; writer publishes").await,
        false => return Err(TaskError::failed("it was not approved")),
    }
    work(150).await;
    Ok("published")
}

async fn work(millis: u64) {
    sleep(Duration::from_millis(millis)).await;
}
