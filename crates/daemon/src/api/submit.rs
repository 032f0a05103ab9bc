//! Starting runs. The same run can be asked for as often as one likes: there is one of each id.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tiffany::ErrorKind;
use tiffany::control::{Answer, Request, check_name};

use crate::app::{App, unexpected};
use crate::error::DaemonError;
use crate::http::change::Noted;
use crate::http::{Answered, Problem, Values};
use crate::http::{Json, given};

/// What a run is started with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    function: String,
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    input: Option<Box<RawValue>>,
}

/// The header from which an id is made.
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
    let request = Request::Submit { function: submit.function, id: id.clone(), input };
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

/// What to do about a function that is not there is another thing for who submits than for who writes the program.
fn for_who_submits(problem: Problem) -> Problem {
    match problem.code == ErrorKind::Unregistered.code() {
        true => problem.with_next(
            "give the name of a function that is there: `GET /api/v1/status` lists them; to add one, let the program of the daemon register it, or give the file that has it by `--app`",
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

/// Whoever gives none has an id that nobody else has.
fn random_id() -> Result<String, Problem> {
    let mut bits = [0; 16];
    let filled = rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(count) if count == bits.len() => {
            Ok(tiffany::Uuid::from_random(u128::from_be_bytes(bits)).to_string())
        }
        _ => Err(DaemonError::Start("the system gives no random numbers".into()).into()),
    }
}

/// An error if this cannot be a name.
pub(super) fn named(what: &str, name: &str) -> Result<(), Problem> {
    check_name(what, name)
        .map_err(|error| DaemonError::BadRequest(error.message().to_owned()).into())
}
