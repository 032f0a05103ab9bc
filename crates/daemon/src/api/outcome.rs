//! What came of a run, in the form of its log: a program that knows the codec makes its own objects and exceptions of it.

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::value::RawValue;
use tiffany::TaskError;
use tiffany::control::{ErrorSummary, RunDetail, State as RunState};

use super::look::{Waits, waited_for};
use crate::app::App;
use crate::auth::Who;
use crate::http::Answered;
use crate::http::{Named, Query};

/// A run's state, and its value or its error once it has one.
#[derive(Serialize)]
struct Outcome {
    uuid: String,
    id: String,
    function: String,
    state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<TaskError>,
    /// Why it failed or does not continue, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorSummary>,
}

impl From<RunDetail> for Outcome {
    fn from(detail: RunDetail) -> Outcome {
        let RunDetail { summary, recorded, .. } = detail;
        let (value, failure) = match recorded {
            Some(Ok(value)) => (Some(value), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        Outcome {
            uuid: summary.uuid.to_string(),
            id: summary.id,
            function: summary.function,
            state: summary.state,
            value,
            failure,
            error: summary.error,
        }
    }
}

pub(super) async fn outcome(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Query(waits): Query<Waits>,
) -> Answered {
    let detail = waited_for(&app, &who, &name, waits).await?;
    Ok(axum::Json(Outcome::from(detail)).into_response())
}
