//! `show --steps`: lists the steps of a run with their attempts, and `show --blob`: prints a long
//! value that is stored outside the log's lines. Both read the log alone.

use std::time::Duration;

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::StepFilter;
use super::error::Ending;
use super::out::{Out, Style};
use super::place::{Place, find_kept};
use super::table::{Cell, Table};
use tiffany_log::BlobHash;
use tiffany_records::{EffectQuery, EffectSeen, RunIndex, RunIndexError};

pub(super) fn steps(place: &Place, mut out: Out, run: &str, options: &StepFilter) -> Done {
    let view = place.look_for(&[run])?;
    let run = find_kept(&view, run)?;
    let query = EffectQuery {
        task: options.task,
        name: options.name.clone(),
        state: options.state.clone(),
        before: None,
        limit: options.limit,
    };
    let page = RunIndex::new(&place.dir, run).effects(&query).map_err(unread)?;
    if out.json {
        page.effects.iter().try_for_each(|effect| out.json(&json!(effect)))?;
        return out.end(0);
    }
    let mut table = Table::new(&["RECORD", "TASK", "STEP", "STATE", "ATTEMPTS", "TOOK", "NOTE"]);
    for effect in &page.effects {
        let style = match effect.state {
            "completed" => Style::Good,
            "failed" | "refused" => Style::Bad,
            _ => Style::Busy,
        };
        let error = effect.attempts.iter().rev().find_map(|attempt| attempt.error.as_ref());
        let changed = effect.changed.as_ref().map(ToString::to_string);
        let error = error.map(|error| error.message.clone());
        let note = changed.into_iter().chain(error).collect::<Vec<_>>().join(": ");
        table.row(vec![
            Cell::new(Style::Plain, &effect.record.to_string()),
            Cell::new(Style::Plain, &effect.tid.to_string()),
            Cell::new(Style::Plain, &effect.name),
            Cell::new(style, effect.state),
            Cell::new(Style::Plain, &effect.attempts.len().to_string()),
            Cell::new(Style::Plain, &took(effect)),
            Cell::new(Style::Dim, &note),
        ]);
    }
    table.print(&mut out)?;
    if view.recovery().completed.contains(&run) {
        let note = "the last records of this run are in the commit log only, and not listed here; opening the log copies them to its file";
        out.text(Style::Busy, note)?;
    }
    if page.matched > page.effects.len() as u64 {
        let more = page.matched - page.effects.len() as u64;
        out.text(Style::Dim, &format!("{more} before these; `--limit` lists them"))?;
    }
    out.end(0)
}

/// Returns the time from the start of the first attempt to the end of the last.
fn took(effect: &EffectSeen) -> String {
    let begin = effect.attempts.first().map(|attempt| attempt.begin);
    let end = effect.attempts.last().and_then(|attempt| attempt.end);
    begin.zip(end).map_or_else(String::new, |(begin, end)| {
        format!("{:.1?}", Duration::from_micros(end.saturating_sub(begin)))
    })
}

fn unread(error: RunIndexError) -> Ending {
    match error {
        RunIndexError::Log(error) => error.into(),
        error => TaskError::new(ErrorKind::BadArgument, error.to_string()).into(),
    }
}

/// Prints a blob as it was recorded, byte for byte.
pub(super) fn blob(place: &Place, mut out: Out, hash: &str, run: Option<&str>) -> Done {
    let name = hash;
    let Some(hash) = BlobHash::parse(hash) else {
        let message = "the name of a value is its hash, as `$blob` has it in a record";
        return Err(TaskError::new(ErrorKind::BadArgument, message).into());
    };
    let bytes = match run.filter(|_| place.is_remote()) {
        Some(run) => place.remote_blob(place.find(run)?, name).transpose()?.unwrap_or_default(),
        None => place.look()?.blob(hash)?,
    };
    out.raw(&bytes)?;
    out.end(0)
}
