//! Compares two runs by their records alone, and finds where they diverge.

use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;
use tiffany::Uuid;
use tiffany::history::{DiffSettings, diff};
use tiffany::wal::{RealDisk, View};
use tiffany::{ErrorKind, RunError, TaskError};

use super::look::detail;
use super::run_index::{json, text};
use crate::app::App;
use crate::error::DaemonError;
use crate::http::Query;
use crate::http::{Answered, Problem};

/// The two runs to compare.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Both {
    left: Option<String>,
    right: Option<String>,
    limit: Option<u64>,
}

const LIMIT: u64 = 100;
const MAX_LIMIT: u64 = 10_000;

pub(super) async fn compare(State(app): State<App>, Query(both): Query<Both>) -> Answered {
    let bad = |message: String| Problem::from(DaemonError::BadRequest(message));
    let limit = both.limit.unwrap_or(LIMIT);
    if limit > MAX_LIMIT {
        return Err(bad(format!("`limit` is {MAX_LIMIT} at most")));
    }
    let (Some(left), Some(right)) = (both.left, both.right) else {
        let message = "`left` and `right` name the two runs";
        return Err(TaskError::new(ErrorKind::BadArgument, message).into());
    };
    let (left, right) = (app.find(&left).await?, app.find(&right).await?);
    for run in [left, right] {
        // A removed run is reported as removed.
        detail(&app, run).await?;
    }
    let dir = app.dir.clone();
    let limit = usize::try_from(limit).unwrap_or(0);
    let patience = app.limits.answer_time;
    let compared = app.run_indexes.at_leisure(patience, move || compared(&dir, left, right, limit));
    Ok(json(compared.await??))
}

fn compared(dir: &Path, left: Uuid, right: Uuid, limit: usize) -> Result<Vec<u8>, Problem> {
    let view = View::open(Arc::new(RealDisk), dir);
    let view = view.map_err(|error| Problem::new(error.code(), 503, &error.to_string()))?;
    let compared = diff((&view, left), (&view, right), DiffSettings::limit(limit));
    let compared = compared.map_err(|error| match error {
        RunError::Failed(error) => Problem::from(error),
        other => Problem::from(TaskError::new(ErrorKind::LogFailed, other.to_string())),
    })?;
    let told = compared.differences.len() as u64;
    Ok(text(&json!({
        "a": compared.a,
        "b": compared.b,
        "same_records": compared.same_records,
        "parting": compared.parting,
        "differences": compared.differences,
        "summary": {
            "same": compared.is_same(),
            "differences": told + compared.more,
            "told": told,
            "tasks": compared.tasks,
            "differing_tasks": compared.differing_tasks,
        },
    })))
}
