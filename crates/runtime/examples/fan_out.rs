//! Fan out, gather in. Four tasks start together and end in any order; `gather` returns their
//! values in the order in which they were listed. If some may fail, `gather_settled` keeps the good
//! ones: look at the last list.
//!
//! `cargo run -p tiffany --example fan_out`

use std::time::Duration;

use tiffany::prelude::*;
use tiffany::{Spawn, gather_settled};

/// A page, and how long it takes to fetch.
const PAGES: [(&str, u64); 4] = [("home", 40), ("about", 10), ("blog", 30), ("shop", 20)];

/// The whole program. Returns the pages, in the order in which they were listed.
pub async fn main_task(say: fn(String)) -> Result<Vec<String>, TaskError> {
    say("they end as they can:".into());
    let mut tasks = Vec::new();
    for (page, millis) in PAGES {
        tasks.push(fetch(say, page, millis).await);
    }
    let texts = gather(tasks).await?;
    say(format!("gather has them as asked: {}", texts.join(", ")));

    say("once more, with a page that is not there:".into());
    let mut tasks = Vec::new();
    for (page, millis) in [PAGES[1], ("jobs", 5), PAGES[3]] {
        tasks.push(fetch(say, page, millis).await);
    }
    let results = gather_settled(tasks).await?;
    say("gather_settled has results and errors side by side:".into());
    for result in results {
        match result {
            Ok(text) => say(format!("  ✓ {text}")),
            Err(error) => say(format!("  ✗ {} [{}]", error.message(), error.code())),
        }
    }
    Ok(texts)
}

/// A task that fetches one page. It is named after the page, so errors and traces say which.
fn fetch(say: fn(String), page: &'static str, millis: u64) -> Spawn<String> {
    try_spawn(async move {
        sleep(Duration::from_millis(millis)).await;
        if page == "jobs" {
            return Err(format!("404: no page `{page}`"));
        }
        say(format!("  after {millis} ms: {page}"));
        Ok(format!("<{page}>"))
    })
    .name(page)
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))?;
    Ok(())
}
