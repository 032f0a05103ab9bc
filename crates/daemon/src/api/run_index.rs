//! Read-only views of a run, computed from its records without running its code: its tasks at a
//! record, its timeline, its effects.

use std::time::SystemTime;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tiffany::history::{EffectQuery, TaskQuery, TimelineQuery};
use tiffany::{ErrorKind, TaskError};

use crate::app::App;
use crate::error::DaemonError;
use crate::http::{Answered, Problem};
use crate::http::{Named, Query};

fn bad(message: String) -> Problem {
    DaemonError::BadRequest(message).into()
}

/// Serializes an answer as JSON, on the thread that computed it.
pub(super) fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

pub(super) fn json(text: Vec<u8>) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], Body::from(text)).into_response()
}

/// Queries the index of a run, unless the run was removed.
async fn ask<T: Send + 'static>(
    app: &App,
    name: &str,
    question: impl Fn(&mut tiffany::history::RunIndex) -> Result<T, tiffany::history::RunIndexError>
    + Send
    + 'static,
) -> Result<T, Problem> {
    let run = app.find(name).await?;
    // A removed run is reported as removed, before anything is searched.
    let recorded = app.recorded(run).await?;
    app.ask_run_index(recorded, question).await
}

/// Query parameters that select tasks, and the record at which to show them.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tasks {
    at: Option<u64>,
    since: Option<u64>,
    after: Option<u64>,
    limit: Option<u64>,
}

pub(super) async fn tasks(
    State(app): State<App>,
    Named(name): Named<String>,
    Query(Tasks { at, since, after, limit }): Query<Tasks>,
) -> Answered {
    if at.is_some() && since.is_some() {
        let message = "`since` is about now, and goes without `at`";
        return Err(TaskError::new(ErrorKind::BadArgument, message).into());
    }
    if limit.is_some_and(|limit| !(1..=MAX_LIMIT).contains(&limit)) {
        return Err(bad(format!("`limit` is between 1 and {MAX_LIMIT}")));
    }
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(1));
    let query = TaskQuery { at, since, after, limit };
    ask(&app, &name, move |run_index| Ok(text(&run_index.some_tasks(&query)?))).await.map(json)
}

/// Query parameters that select a part of a timeline.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Part {
    from: Option<u64>,
    to: Option<u64>,
    width: Option<u64>,
    tids: Option<String>,
}

/// The most columns of a timeline.
const WIDEST: u64 = 100_000;
/// The most ranges of tasks in one query.
const RANGES: usize = 10_000;

pub(super) async fn timeline(
    State(app): State<App>,
    Named(name): Named<String>,
    Query(part): Query<Part>,
) -> Answered {
    if part.width.is_some_and(|width| !(1..=WIDEST).contains(&width)) {
        return Err(bad(format!("`width` is between 1 and {WIDEST}")));
    }
    if let (Some(from), Some(to)) = (part.from, part.to)
        && from > to
    {
        let message = format!("`from` is {from}, which is after `to`");
        return Err(TaskError::new(ErrorKind::BadArgument, message).into());
    }
    let tids = part.tids.as_deref().map(ranges).transpose()?.unwrap_or_default();
    let Part { from, to, width, .. } = part;
    let query = TimelineQuery { from, to, width, tids, now: Some(SystemTime::now()) };
    ask(&app, &name, move |run_index| Ok(text(&run_index.timeline(&query)?))).await.map(json)
}

/// Parses a list of tasks and ranges, for example `3,5-8`.
fn ranges(text: &str) -> Result<Vec<(u64, u64)>, Problem> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?)),
        None => number(part).map(|one| (one, one)),
    };
    let wrong = |part: &str| {
        let part: String = part.chars().take(40).collect();
        bad(format!("`tids` has numbers of tasks and ranges, such as 3,5-8, and not `{part}`"))
    };
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > RANGES {
        return Err(bad(format!("`tids` has {RANGES} parts at most")));
    }
    parts.into_iter().map(|part| range(part).ok_or_else(|| wrong(part))).collect()
}

/// Query parameters that select effects.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    task: Option<u64>,
    name: Option<String>,
    state: Option<String>,
    before: Option<u64>,
    limit: Option<u64>,
}

const LIMIT: u64 = 100;
const MAX_LIMIT: u64 = 10_000;

pub(super) async fn effects(
    State(app): State<App>,
    Named(name): Named<String>,
    Query(which): Query<Which>,
) -> Answered {
    let limit = which.limit.unwrap_or(LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(bad(format!("`limit` is between 1 and {MAX_LIMIT}")));
    }
    let states = EffectQuery::STATES;
    if let Some(state) = which.state.as_deref().filter(|state| !states.contains(state)) {
        return Err(bad(format!("`state` is one of {}, and not `{state}`", states.join(", "))));
    }
    let query = EffectQuery {
        task: which.task,
        name: which.name,
        state: which.state,
        before: which.before,
        limit: usize::try_from(limit).unwrap_or(1),
    };
    ask(&app, &name, move |run_index| Ok(text(&run_index.effects(&query)?))).await.map(json)
}
