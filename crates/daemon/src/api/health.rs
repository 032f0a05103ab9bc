//! Liveness, readiness and metrics. Health checks need no token.

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
        Phase::Starting => Some(json!("runs are being resumed")),
        Phase::Draining | Phase::Closing => Some(json!("the daemon is ending")),
        // Health checks are frequent, so this request lists nothing.
        Phase::Ready => {
            let patience = READY_TIMEOUT.min(app.limits.answer_time);
            match tokio::join!(app.ask_within(patience, Request::Health), check_audit(&app)) {
                (Ok(_), Ok(())) => None,
                (Err(problem), _) => Some(problem.json()),
                (_, Err(error)) => Some(Problem::from(error).json()),
            }
        }
    };
    match why {
        None => axum::Json(json!({ "status": "ready" })).into_response(),
        Some(why) => {
            let body = axum::Json(json!({ "status": "not ready", "why": why }));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// How long the loop and the audit may take before the daemon counts as not ready. Most probes have
/// a timeout of two seconds or more.
const READY_TIMEOUT: Duration = Duration::from_millis(1500);

/// Returns an error if the audit file cannot be written, or not within [`AUDIT_TIMEOUT`].
async fn check_audit(app: &App) -> Result<(), AuthError> {
    let audit = Arc::clone(&app.audit);
    let checked = tokio::time::timeout(READY_TIMEOUT, at_leisure(move || audit.check())).await;
    checked.unwrap_or_else(|_| {
        let why = format!("it has been locked or busy for {READY_TIMEOUT:?}");
        Err(AuthError::Audit { file: app.dir.join(AUDIT), why })
    })
}

/// Returns counters and measurements in the format of Prometheus.
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
