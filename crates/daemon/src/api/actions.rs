//! Handlers that change runs: cancel, hold, release, send, settle, fork, allow, ask.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tiffany::control::{Answer, Request};
use tiffany::durable::Fork;
use tiffany::{Settlement, TaskError, Uuid};

use super::submit::named;
use crate::app::{App, unexpected};
use crate::auth::Who;
use crate::error::DaemonError;
use crate::http::{Answered, Values};
use crate::http::{Given, Json, Named, given, whole};

fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn bad(message: impl Into<String>) -> crate::http::Problem {
    DaemonError::BadRequest(message.into()).into()
}

pub(super) async fn cancel(State(app): State<App>, Named(name): Named<String>) -> Answered {
    let run = app.find_whole(&name).await?;
    app.ask(Request::Cancel { run }).await?;
    Ok(done())
}

/// The body of a request to hold or release a run.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Reason {
    #[serde(deserialize_with = "given")]
    why: Option<String>,
}

pub(super) async fn hold(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Given(Reason { why }): Given<Reason>,
) -> Answered {
    let run = app.find_whole(&name).await?;
    app.ask(Request::Hold { run, by: who.name.clone(), why }).await?;
    Ok(done())
}

pub(super) async fn release(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Given(Reason { why }): Given<Reason>,
) -> Answered {
    let run = app.find_whole(&name).await?;
    app.ask(Request::Release { run, by: who.name.clone(), why }).await?;
    Ok(done())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Send {
    name: String,
    message: Box<RawValue>,
}

pub(super) async fn send(
    State(app): State<App>,
    values: Values,
    Named(name): Named<String>,
    Json(Send { name: word, message }): Json<Send>,
) -> Answered {
    named("the message's name", &word)?;
    let run = app.find_whole(&name).await?;
    app.ask(values.of(Request::Send { run, name: word, message })).await?;
    Ok(done())
}

/// The body of a request to settle a promise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settle {
    /// The fork, if the step is in a fork.
    #[serde(default, deserialize_with = "given")]
    run: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    error: Option<String>,
}

pub(super) async fn settle(
    State(app): State<App>,
    values: Values,
    Named(promise): Named<String>,
    Json(Settle { run, value, error }): Json<Settle>,
) -> Answered {
    let promise = Uuid::parse(&promise).ok_or_else(|| bad("a promise is named by its UUID"))?;
    let result = match (value, error) {
        (Some(value), None) => Ok(value),
        (None, Some(message)) => Err(TaskError::failed(message)),
        _ => return Err(bad("either a `value` or an `error` is needed")),
    };
    let run = match run {
        Some(name) => Some(app.find_whole(&name).await?),
        None => None,
    };
    match app.ask(values.of(Request::Settle { run, promise, result })).await? {
        Answer::Settled(settlement) => {
            let first = settlement == Settlement::Accepted;
            Ok(axum::Json(json!({ "promise": promise.to_string(), "first": first }))
                .into_response())
        }
        other => Err(unexpected(&other)),
    }
}

/// The body of a request to fork a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forks {
    #[serde(deserialize_with = "whole")]
    at: u64,
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    error: Option<String>,
    #[serde(default)]
    as_is: bool,
    #[serde(default)]
    allow: Vec<String>,
}

pub(super) async fn fork(
    State(app): State<App>,
    values: Values,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Json(forks): Json<Forks>,
) -> Answered {
    let mut fork = forks.allow.into_iter().fold(Fork::new().by(&who.name), Fork::allow);
    fork = match (forks.value, forks.error) {
        (Some(_), Some(_)) => return Err(bad("a fork has a `value` or an `error`, and not both")),
        (Some(value), None) => fork.set_reply(&value)?,
        (None, Some(message)) => fork.fail(message),
        (None, None) => fork,
    };
    if forks.as_is {
        fork = fork.as_is();
    }
    if let Some(id) = forks.id {
        named("the id", &id)?;
        fork = fork.id(id);
    }
    let run = app.find_whole(&name).await?;
    match app.ask(values.of(Request::Fork { run, at: forks.at, fork })).await? {
        Answer::Forked { run, id } => {
            let place = HeaderValue::from_str(&format!("/api/v1/runs/{run}"));
            let place = place.map_err(|error| bad(error.to_string()))?;
            let body = json!({ "uuid": run.to_string(), "id": id });
            let made = (StatusCode::CREATED, [(header::LOCATION, place)], axum::Json(body));
            Ok(made.into_response())
        }
        other => Err(unexpected(&other)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allow {
    names: Vec<String>,
}

pub(super) async fn allow(
    State(app): State<App>,
    Named(name): Named<String>,
    Json(Allow { names }): Json<Allow>,
) -> Answered {
    let run = app.find_whole(&name).await?;
    app.ask(Request::Allow { run, names: names.into_iter().collect() }).await?;
    Ok(done())
}

/// The body of a query to a run.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Asks {
    #[serde(default, deserialize_with = "given")]
    input: Option<Box<RawValue>>,
}

pub(super) async fn query(
    State(app): State<App>,
    values: Values,
    Named((name, question)): Named<(String, String)>,
    Given(Asks { input }): Given<Asks>,
) -> Answered {
    let run = app.find(&name).await?;
    let null = || RawValue::from_string("null".into()).map_err(|error| bad(error.to_string()));
    let input = input.map_or_else(null, Ok)?;
    match app.ask(values.of(Request::Question { run, name: question, input })).await? {
        Answer::Value(value) => Ok(axum::Json(json!({ "answer": value })).into_response()),
        other => Err(unexpected(&other)),
    }
}
