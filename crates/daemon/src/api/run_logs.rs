//! A page of runs with what the file of each says: how many records and bytes it has, and when it was last written. It is read
//! on a thread for that, and only if it is asked for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::response::IntoResponse;
use serde_json::{Value, json};
use tiffany::Uuid;
use tiffany::control::RunPage;
use tiffany::history::RunOutline;
use tiffany::wal::{LogError, RealDisk, View};

use crate::app::App;
use crate::error::DaemonError;
use crate::http::Answered;

/// The page, each run with its `log` as far as that can be read.
pub(super) async fn with_logs(app: &App, page: RunPage) -> Answered {
    let runs: Vec<Uuid> = page.runs.iter().map(|run| run.uuid).collect();
    let dir = app.dir.clone();
    let mut logs = app
        .run_indexes
        .at_leisure(app.limits.answer_time, move || read(&dir, runs))
        .await?
        .unwrap_or_default();
    let bad = |error: serde_json::Error| DaemonError::BadRequest(error.to_string());
    let mut told = serde_json::to_value(&page).map_err(bad)?;
    if let Some(list) = told["runs"].as_array_mut() {
        for (run, told) in page.runs.iter().zip(list) {
            if let Some(log) = logs.remove(&run.uuid) {
                told["log"] = log;
            }
        }
    }
    Ok(axum::Json(told).into_response())
}

fn read(dir: &Path, runs: Vec<Uuid>) -> Result<BTreeMap<Uuid, Value>, LogError> {
    let view = View::open_chosen(Arc::new(RealDisk), dir, &|_| runs.clone())?;
    let of_run = |run: &Uuid| {
        let entry = view.run(*run)?;
        let outline = RunOutline::at_ends(&view, *run, &entry).unwrap_or_default();
        let compacted = outline.compacted;
        Some(json!({
            "records": entry.seq,
            "bytes": entry.len,
            "generation": entry.generation,
            "calls_before": outline.calls_before,
            "compacted": compacted.map(|(records, bytes)| json!({ "records": records, "bytes": bytes })),
            "changed": outline.changed,
        }))
    };
    Ok(runs.iter().filter_map(|run| Some((*run, of_run(run)?))).collect())
}
