//! Steps that may have happened or not, and what people say of them.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tiffany::control::{Answer, Decision, Request};

use crate::app::{App, unexpected};
use crate::error::DaemonError;
use crate::http::{Answered, Json, Noted, given};

pub(super) async fn list(State(app): State<App>) -> Answered {
    match app.ask(Request::Doubts).await? {
        Answer::Doubts(doubts) => Ok(axum::Json(json!({ "doubts": doubts })).into_response()),
        other => Err(unexpected(&other)),
    }
}

/// What somebody says of one.
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
    app.ask(Request::Decide { key: decides.key, decision }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
