//! Whether the daemon is there, and whether it can be given work. For machines that look after it, so anybody may ask.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tiffany::control::{Answer, Request};

use crate::app::{App, Phase, unexpected};
use crate::audit::AUDIT;
use crate::auth::AuthError;
use crate::http::change::at_leisure;
use crate::http::{Answered, Problem};

pub(super) async fn healthz() -> Response {
    axum::Json(json!({ "status": "ok" })).into_response()
}

pub(super) async fn readyz(State(app): State<App>) -> Response {
    let why = match app.phase() {
        Phase::Starting => Some(json!("runs are being brought back")),
        Phase::Draining | Phase::Closing => Some(json!("the daemon is ending")),
        // Machines ask this again and again: nothing is listed for it.
        Phase::Ready => match app.ask(Request::Health).await {
            Ok(_) => check_audit(&app).await.err().map(|error| Problem::from(error).json()),
            Err(problem) => Some(problem.json()),
        },
    };
    match why {
        None => axum::Json(json!({ "status": "ready" })).into_response(),
        Some(why) => {
            let body = axum::Json(json!({ "status": "not ready", "why": why }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// How long the audit may take before the daemon counts as not ready.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(2);

/// An error if the audit cannot be written, or not soon.
async fn check_audit(app: &App) -> Result<(), AuthError> {
    let audit = Arc::clone(&app.audit);
    let checked = tokio::time::timeout(AUDIT_TIMEOUT, at_leisure(move || audit.check())).await;
    checked.unwrap_or_else(|_| {
        let why = format!("it has been locked or busy for {AUDIT_TIMEOUT:?}");
        Err(AuthError::Audit { file: app.dir.join(AUDIT), why })
    })
}

/// What was counted and measured, for Prometheus, or as JSON for those who accept nothing else.
pub(super) async fn metrics(State(app): State<App>, headers: HeaderMap) -> Answered {
    let accepted = headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
    match app.ask(Request::Metrics).await? {
        Answer::Metrics(metrics) if accepted == Some(b"application/json") => {
            Ok(axum::Json(metrics).into_response())
        }
        Answer::Metrics(metrics) => {
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            Ok(([(header::CONTENT_TYPE, kind)], metrics.to_string()).into_response())
        }
        other => Err(unexpected(&other)),
    }
}
