//! `ps`: what goes on at present in the process that has the directory, from its memory. The log is not read.

use serde_json::{Value, json};
use tiffany_kernel::ErrorKind;

use super::Done;
use super::args::Ps;
use super::driver;
use super::error::{Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, find, is_log};
use super::summary::count;
use super::table::{Cell, Table};
use super::units::since;
use crate::clock::Clock;
use crate::control::{Control, RunQuery, RunSummary, State};
use crate::wal::RunState;

pub(super) fn ps(place: &Place, out: Out, options: &Ps) -> Done {
    is_log(&place.dir)?;
    let Some(mut control) = Control::connect(&place.dir)? else {
        return nobody(place, out, options);
    };
    let process = driver::process(&place.dir);
    match &options.run {
        Some(name) => tasks(place, out, (&mut control, process), name),
        None => runs(out, (&mut control, process), options),
    }
}

/// No process has the log: nothing goes on.
fn nobody(place: &Place, mut out: Out, options: &Ps) -> Done {
    let view = place.look()?;
    let next = driver::start(&place.dir);
    if let Some(name) = &options.run {
        let run = find(&view, name)?;
        let shown = Shown {
            code: ErrorKind::Unreachable.code().into(),
            message: format!("no process has the log, so run {run} does not go on"),
            next: format!("{next}; `show` tells what the log has of it"),
            exit: exit::IN_USE,
        };
        return Err(Ending::Error(shown));
    }
    let live = view.runs().filter(|(_, entry)| entry.state == RunState::Live).count() as u64;
    if out.json {
        out.json(&json!({ "pid": null, "live": live, "next": next }))?;
        return out.end(0);
    }
    let text = match live {
        0 => "no process has the log, and there is no run that could go on".to_owned(),
        live => {
            let (runs, stand) =
                (count(live, "live run"), if live == 1 { "stands" } else { "stand" });
            format!("no process has the log, so nothing goes on: {runs} {stand} still; {next}")
        }
    };
    out.whole(Style::Dim, &text, 0)?;
    out.end(0)
}

/// A run in one line, by the names that all commands have for its parts.
fn json_of(run: &RunSummary, process: Option<u32>) -> Value {
    json!({
        "run": run.uuid.to_string(), "id": run.id, "function": run.function,
        "state": run.state.word(), "pid": process, "started": run.started, "tasks": run.tasks,
        "waits": run.waits, "error": run.error,
        "fork": run.parent.map(|parent| json!({ "run": parent.run.to_string(), "at": parent.at })),
    })
}

fn runs(mut out: Out, (control, process): (&mut Control, Option<u32>), options: &Ps) -> Done {
    let query = RunQuery {
        states: vec![State::Live, State::Ending, State::Paused, State::Held],
        function: options.function.clone(),
        limit: options.limit,
        ..RunQuery::default()
    };
    let page = control.runs(&query)?;
    if out.json {
        page.runs.iter().try_for_each(|run| out.json(&json_of(run, process)))?;
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

fn tasks(
    place: &Place,
    mut out: Out,
    (control, process): (&mut Control, Option<u32>),
    name: &str,
) -> Done {
    let run = find(&place.look_for(&[name])?, name)?;
    let detail = control.show(run)?;
    if out.json {
        for task in &detail.tasks {
            let uuid = run.to_string();
            out.json(&json!({
                "run": uuid, "tid": task.tid, "name": task.name, "state": task.state,
                "waits": task.waits_for.iter().collect::<Vec<_>>(), "at": task.at,
                "pid": process,
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
