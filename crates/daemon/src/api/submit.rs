//! Starts runs. Submitting is idempotent: an id names one run, however often it is submitted.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tiffany::control::{Answer, Request, check_name, parse_values};
use tiffany::durable::{StartDeadline, StartOptions};
use tiffany::{ErrorKind, TaskError, units};

use crate::app::{App, unexpected};
use crate::error::DaemonError;
use crate::http::change::Noted;
use crate::http::{Answered, Problem, Values};
use crate::http::{Json, given};

/// The body of a request to start a run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    function: String,
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    input: Option<Box<RawValue>>,
    #[serde(default)]
    tags: BTreeSet<String>,
    #[serde(default)]
    attributes: serde_json::Map<String, Value>,
    #[serde(default, deserialize_with = "given")]
    deadline: Option<Value>,
}

/// The header whose value determines the id of the run.
const KEY: &str = "idempotency-key";

pub(super) async fn submit(
    State(app): State<App>,
    values: Values,
    Extension(noted): Extension<Noted>,
    headers: HeaderMap,
    Json(submit): Json<Submit>,
) -> Answered {
    let id = id_of(&submit, &headers)?;
    noted.done_to(&id);
    named("the function", &submit.function)?;
    named("the id", &id)?;
    let null = || RawValue::from_string("null".into());
    let input = match submit.input {
        Some(input) => input,
        None => null().map_err(|error| DaemonError::BadRequest(error.to_string()))?,
    };
    let mut options = StartOptions::new();
    options.tags = submit.tags;
    options.attributes = parse_values(&Value::Object(submit.attributes))?;
    options.deadline = submit.deadline.as_ref().map(deadline).transpose()?;
    let request = Request::Submit { function: submit.function, id: id.clone(), input, options };
    match app.ask(values.of(request)).await.map_err(for_who_submits)? {
        Answer::Run { run, is_new } => {
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            let place = HeaderValue::from_str(&format!("/api/v1/runs/{run}"));
            let place = place.map_err(|error| DaemonError::BadRequest(error.to_string()))?;
            let body = json!({ "uuid": run.to_string(), "id": id, "new": is_new });
            Ok((status, [(header::LOCATION, place)], axum::Json(body)).into_response())
        }
        other => Err(unexpected(&other)),
    }
}

/// A deadline: a moment, a duration with its unit, or so many seconds from the start.
fn deadline(given: &Value) -> Result<StartDeadline, Problem> {
    let seconds = |number: f64| Duration::try_from_secs_f64(number).map(StartDeadline::After);
    let read = match given {
        Value::String(text) => units::deadline(text).ok(),
        given => given.as_f64().and_then(|number| seconds(number).ok()),
    };
    read.ok_or_else(|| {
        let message = format!(
            "the deadline is a moment in UTC, such as 2026-11-05T09:41:00Z, a duration, such as 2h, or a number of seconds, and not {given}"
        );
        TaskError::new(ErrorKind::BadDeadline, message).into()
    })
}

/// Replaces the next step of "unknown function": the client of an API cannot edit the program.
fn for_who_submits(problem: Problem) -> Problem {
    match problem.code == ErrorKind::Unregistered.code() {
        true => problem.with_next(
            "give the name of a registered function: `GET /api/v1/status` lists them; to add one, register it in the program of the daemon, or pass its file with `--app`",
        ),
        false => problem,
    }
}

fn id_of(submit: &Submit, headers: &HeaderMap) -> Result<String, Problem> {
    let key = headers.get(KEY).map(|key| key.to_str().unwrap_or("\u{0}"));
    match (&submit.id, key) {
        (Some(_), Some(_)) => {
            let message = "both an `id` and an `Idempotency-Key` were given; one of them is enough";
            Err(DaemonError::BadRequest(message.into()).into())
        }
        (Some(id), None) => Ok(id.clone()),
        (None, Some("")) => {
            Err(DaemonError::BadRequest("the `Idempotency-Key` is empty".into()).into())
        }
        (None, Some(key)) => Ok(format!("key:{key}")),
        (None, None) => Ok(random_id()?),
    }
}

/// Returns a random id for a run that was submitted without one.
fn random_id() -> Result<String, Problem> {
    let mut bits = [0; 16];
    let filled = rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(count) if count == bits.len() => {
            Ok(tiffany::Uuid::from_random(u128::from_be_bytes(bits)).to_string())
        }
        _ => Err(DaemonError::Start("the system returned no random numbers".into()).into()),
    }
}

/// Returns an error if the text is not a valid name.
pub(super) fn named(what: &str, name: &str) -> Result<(), Problem> {
    check_name(what, name)
        .map_err(|error| DaemonError::BadRequest(error.message().to_owned()).into())
}
