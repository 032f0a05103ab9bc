//! Tasks of active runs that have waited for long, and turns that keep the loop busy.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use tiffany::control::{Answer, Request};

use super::run_index::{json, text};
use crate::app::{App, unexpected};
use crate::error::DaemonError;
use crate::http::Problem;
use crate::http::Query;
use crate::stuck::{StuckTasks, live};

/// Query parameters of the list of stuck tasks.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    after: Option<u64>,
    limit: Option<u64>,
}

const LIMIT: u64 = 100;
const MAX_LIMIT: u64 = 1_000;

pub(super) async fn list(
    State(app): State<App>,
    Query(Which { after, limit }): Query<Which>,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(DaemonError::BadRequest(format!("`limit` is between 1 and {MAX_LIMIT}")).into());
    }
    let runtime = app.runtime()?;
    let page = tokio::select! {
        answer = app.ask(Request::Runs(live())) => match answer? {
            Answer::Runs(page) => page,
            other => return Err(unexpected(&other)),
        },
        // While a long turn blocks the loop, stuck tasks cannot be listed, but the turn itself is
        // known.
        () = app.turn_is_kept() => {
            return Ok(json(text(&StuckTasks::default().with_turns(runtime.long_turns()))));
        }
    };
    let turns = runtime.long_turns();
    let (asked, after) = (app.clone(), after.map(Duration::from_secs));
    let limit = usize::try_from(limit).unwrap_or(1);
    let look = move || text(&asked.stuck.look(&page, after, limit).with_turns(turns));
    app.run_indexes.at_leisure(app.limits.answer_time, look).await.map(json)
}
