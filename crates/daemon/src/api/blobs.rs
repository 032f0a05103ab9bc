//! Long values, which the log keeps outside its lines under the hash of their content.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use serde::de::IgnoredAny;
use tiffany::wal::{BlobHash, LogError, RealDisk, read_blob};

use crate::app::App;
use crate::error::DaemonError;
use crate::http::Named;
use crate::http::{Answered, Problem};

/// Returns a blob as it was written.
pub(super) async fn show(
    State(app): State<App>,
    Named((run, hash)): Named<(String, String)>,
) -> Answered {
    let run = app.find(&run).await?;
    let recorded = app.recorded(run).await?;
    let Some(hash) = BlobHash::parse(&hash) else {
        let message = "the name of a value is its hash, as `$blob` has it in a record".into();
        return Err(DaemonError::BadRequest(message).into());
    };
    let dir = app.dir.clone();
    let read = move || {
        let bytes = read_blob(&RealDisk, &dir, hash)?;
        let is_json = serde_json::from_slice::<IgnoredAny>(&bytes).is_ok();
        Ok::<_, LogError>((bytes, is_json))
    };
    let patience = app.limits.answer_time;
    let mut read_now = app.run_indexes.at_leisure(patience, read.clone()).await?;
    if let Err(LogError::MissingBlob(_)) = read_now {
        // A recorded blob is in its place before the record that names it.
        app.ask_run_index(recorded, |_| Ok(())).await?;
        read_now = app.run_indexes.at_leisure(patience, read).await?;
    }
    let read = read_now;
    let (bytes, is_json) = read.map_err(|error| {
        let status = if matches!(error, LogError::MissingBlob(_)) { 404 } else { 500 };
        Problem::new(error.code(), status, &error.to_string())
    })?;
    let kind = if is_json { "application/json" } else { "application/octet-stream" };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        // The content of a hash never changes.
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
    ];
    Ok((headers, Body::from(bytes)).into_response())
}
