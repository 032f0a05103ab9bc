//! Steps that may or may not have happened, and people's decisions about them.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tiffany::control::{Answer, Decision, Doubt, Request};

use super::look::detail;
use crate::app::{App, unexpected};
use crate::error::DaemonError;
use crate::http::change::Noted;
use crate::http::{Answered, Values};
use crate::http::{Json, given};

pub(super) async fn list(State(app): State<App>) -> Answered {
    let doubts = match app.ask(Request::Doubts).await? {
        Answer::Doubts(doubts) => doubts,
        other => return Err(unexpected(&other)),
    };
    let mut told = Vec::with_capacity(doubts.len());
    for doubt in doubts {
        // The answer names a run by its id, as people know it.
        let id = detail(&app, doubt.run).await.ok().map(|detail| detail.summary.id);
        told.push(Told { doubt, run_id: id });
    }
    Ok(axum::Json(json!({ "doubts": told })).into_response())
}

/// A step in doubt, with the id of its run if that is known.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    doubt: Doubt,
    run_id: Option<String>,
}

/// The body of a decision about a step in doubt.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decides {
    key: String,
    #[serde(default, deserialize_with = "given")]
    done: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    failed: Option<String>,
    #[serde(default)]
    again: bool,
}

pub(super) async fn decide(
    State(app): State<App>,
    values: Values,
    Extension(noted): Extension<Noted>,
    Json(decides): Json<Decides>,
) -> Answered {
    noted.done_to(&decides.key);
    let decision = match (decides.done, decides.failed, decides.again) {
        (Some(value), None, false) => Decision::Done(value),
        (None, Some(message), false) => Decision::Failed(message),
        (None, None, true) => Decision::Again,
        _ => {
            let message = "one of `done`, `failed` and `again` is needed";
            return Err(DaemonError::BadRequest(message.into()).into());
        }
    };
    app.ask(values.of(Request::Decide { key: decides.key, decision })).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
