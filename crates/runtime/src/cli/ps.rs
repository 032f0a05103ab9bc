//! `ps`: what goes on at present in the process that has the directory, from its memory. The log is not read.

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::Ps;
use super::out::{Out, Style};
use super::place::{Place, find, is_log};
use super::table::{Cell, Table};
use super::units::since;
use crate::clock::Clock;
use crate::control::{Control, RunQuery, RunSummary, State};

pub(super) fn ps(place: &Place, mut out: Out, options: &Ps) -> Done {
    is_log(&place.dir)?;
    let Some(mut control) = Control::connect(&place.dir)? else {
        return match (&options.run, out.json) {
            (Some(_), _) => {
                let message = "no process has the log, so nothing goes on; `show` tells what the log has of a run";
                Err(TaskError::new(ErrorKind::Unreachable, message).into())
            }
            (None, true) => out.end(0),
            (None, false) => {
                out.text(
                    Style::Dim,
                    "no process has the log, so nothing goes on; `ls` lists the runs",
                )?;
                out.end(0)
            }
        };
    };
    match &options.run {
        Some(name) => tasks(place, out, &mut control, name),
        None => runs(out, &mut control, options),
    }
}

fn runs(mut out: Out, control: &mut Control, options: &Ps) -> Done {
    let query = RunQuery {
        states: vec![State::Live, State::Paused],
        function: options.function.clone(),
        limit: options.limit,
        ..RunQuery::default()
    };
    let page = control.runs(&query)?;
    if out.json {
        page.runs.iter().try_for_each(|run| out.json(run))?;
        return out.end(0);
    }
    let now = Clock::system().now();
    let mut table = Table::new(&["RUN", "ID", "FUNCTION", "STATE", "SINCE", "TASKS", "WAITS FOR"]);
    for run in &page.runs {
        let uuid = run.uuid.to_string();
        let state = run.state.word();
        table.row(vec![
            if out.width.is_some() { uuid[..8].into() } else { uuid.into() },
            Cell::from(&run.id),
            Cell::from(&run.function),
            Cell::new(Style::of_state(state), state),
            since(&run.started, now).into(),
            run.tasks.to_string().into(),
            waits(run).into(),
        ]);
    }
    match table.is_empty() {
        true => out.text(Style::Dim, "nothing goes on")?,
        false => table.print(&mut out)?,
    }
    let left = page.total.saturating_sub(page.runs.len() as u64);
    if left > 0 {
        out.text(Style::Dim, &format!("and {left} more; `--limit` shows more of them"))?;
    }
    out.end(0)
}

fn tasks(place: &Place, mut out: Out, control: &mut Control, name: &str) -> Done {
    let run = find(&place.look()?, name)?;
    let detail = control.show(run)?;
    if out.json {
        for task in &detail.tasks {
            let uuid = run.to_string();
            out.json(&json!({
                "run": uuid, "tid": task.tid, "name": task.name, "state": task.state,
                "waits_for": task.waits_for, "at": task.at,
            }))?;
        }
        return out.end(0);
    }
    let RunSummary { id, function, state, started, .. } = &detail.summary;
    let age = since(started, Clock::system().now());
    let head = format!("{run}  {id}  {function}  {}, since {age}", state.word());
    out.text(Style::Head, &head)?;
    let mut table = Table::new(&["TASK", "NAME", "STATE", "WAITS FOR", "AT"]);
    for task in &detail.tasks {
        table.row(vec![
            task.tid.to_string().into(),
            task.name.clone().unwrap_or_default().into(),
            Cell::new(Style::Busy, &task.state),
            task.waits_for.clone().unwrap_or_default().into(),
            task.at.clone().unwrap_or_default().into(),
        ]);
    }
    match table.is_empty() {
        true => out.text(Style::Dim, "it goes on no more; `show` tells what came of it")?,
        false => table.print(&mut out)?,
    }
    out.end(0)
}

/// What a run waits for, or why it cannot go on.
fn waits(run: &RunSummary) -> String {
    match &run.error {
        Some(error) => format!("{} [{}]", error.message, error.code),
        None => run.waits.join(", "),
    }
}
