//! `ls --active`: what the process that owns the directory is running, from its memory. If the
//! process doesn't answer, the log is read instead.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tiffany_kernel::{ErrorKind, Uuid};

use super::Done;
use super::args::Ls;
use super::driver::{self, Heard, Silence};
use super::error::{Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, is_log};
use super::show::read;
use super::summary::{Summary, count};
use super::table::{Cell, Table};
use tiffany::command::Clock;
use tiffany::control::{Parent, RunDetail, RunPage, RunQuery, RunSummary, State, TaskSummary};
use tiffany::units::since;
use tiffany_log::{LogError, RunState, View};
use tiffany_records::tasks::{Seen, Tasks};
use tiffany_records::wait_reason::Waiting;

/// The default limit of runs.
const DEFAULT_LIMIT: usize = 10_000;

pub(super) fn active(place: &Place, out: Out, options: &Ls) -> Done {
    is_log(&place.dir)?;
    let process = driver::process(&place.reach);
    match &options.run {
        Some(name) => {
            let run = place.find(name)?;
            match driver::ask(&place.reach, |control| control.show(run))? {
                Heard::Said(detail) => tasks(out, run, &detail, (process, None)),
                Heard::Silent(silence) => tasks_of_files(place, out, run, &silence),
                Heard::Nobody => Err(nobody_runs(place, run)),
            }
        }
        None => {
            let query = RunQuery {
                states: vec![State::Live, State::Ending, State::Paused, State::Held],
                function: options.function.clone(),
                tags: options.tag.clone(),
                attributes: options.attribute.clone(),
                limit: options.limit.unwrap_or(DEFAULT_LIMIT),
                ..RunQuery::default()
            };
            match driver::ask(&place.reach, |control| control.runs(&query))? {
                Heard::Said(page) => runs(out, &page, (process, None)),
                Heard::Silent(silence) => {
                    silence.warn();
                    let page = page_of_files(place, &query)?;
                    runs(out, &page, (process, Some(&silence)))
                }
                Heard::Nobody => nobody(place, out),
            }
        }
    }
}

/// Lists the live runs according to the files.
fn page_of_files(place: &Place, query: &RunQuery) -> Result<RunPage, Ending> {
    let view = place.look()?;
    let live = view.runs().filter(|(_, entry)| entry.state == RunState::Live);
    let live: Vec<Summary> = live.map(|(run, entry)| Summary::read(&view, run, entry)).collect();
    let rows = query.look()?.all(live.iter().map(Summary::row));
    let total = rows.len() as u64;
    let runs = rows.into_iter().take(query.limit).map(|row| of_files(&view, row.what));
    Ok(RunPage { runs: runs.collect(), total, next: None })
}

/// Describes a run from its records.
fn of_files(view: &View, summary: &Summary) -> RunSummary {
    let mut tasks = Tasks::default();
    // A damaged run is shown as far as it can be read.
    let _ = read(view, summary.run, &mut tasks);
    let going = || tasks.all.values().filter(|task| task.state == Seen::Going);
    let waits = going().flat_map(|task| task.waits.values().map(Waiting::what));
    RunSummary {
        uuid: summary.run,
        id: summary.id.clone(),
        function: summary.function.clone(),
        state: summary.state,
        started: summary.started.clone(),
        ended: None,
        error: None,
        tasks: going().count(),
        waits: waits.take(MAX_WAITS).collect::<BTreeSet<_>>().into_iter().collect(),
        parent: summary.fork.map(|(run, at)| Parent { run, at }),
        tags: summary.attributes.tags.iter().cloned().collect(),
        attributes: summary.attributes.values.clone(),
        deadline: summary.deadline.clone(),
    }
}

/// The most waits of a run that are listed.
const MAX_WAITS: usize = 3;

/// Lists the tasks of a run from its records.
fn tasks_of_files(place: &Place, out: Out, run: Uuid, silence: &Silence) -> Done {
    silence.warn();
    let view = place.look_for(&[&run.to_string()])?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    let mut seen = Tasks::default();
    read(&view, run, &mut seen)?;
    let going = seen.all.iter().filter(|(_, task)| task.state == Seen::Going);
    let all = going.map(|(tid, task)| TaskSummary {
        tid: *tid,
        name: task.name.clone(),
        state: task.word().to_owned(),
        waits_for: task.waits.values().next().map(Waiting::what),
        at: None,
    });
    let detail = RunDetail {
        tasks: all.collect(),
        summary: of_files(&view, &Summary::read(&view, run, entry)),
        promises: Vec::new(),
        value: None,
        recorded: None,
    };
    tasks(out, run, &detail, (silence.pid, Some(silence)))
}

/// Returns the error for a run that doesn't continue because no process owns the log.
fn nobody_runs(place: &Place, run: Uuid) -> Ending {
    Ending::Error(Shown {
        code: ErrorKind::Unreachable.code().into(),
        message: format!("no process owns the directory, so run {run} is not running"),
        next: format!("{}; `show` shows what the log has of it", driver::start(&place.dir)),
        exit: exit::IN_USE,
    })
}

/// Reports that no process owns the log, so no run is active.
fn nobody(place: &Place, mut out: Out) -> Done {
    let view = place.look()?;
    let next = driver::start(&place.dir);
    let live = view.runs().filter(|(_, entry)| entry.state == RunState::Live).count() as u64;
    if out.json {
        out.json(&json!({ "pid": null, "live": live, "next": next }))?;
        return out.end(0);
    }
    let text = match live {
        0 => "no process owns the directory, and no run is unfinished".to_owned(),
        live => {
            let (runs, make) = (count(live, "live run"), if live == 1 { "makes" } else { "make" });
            format!(
                "no process owns the directory, so nothing is running: {runs} {make} no progress; {next}"
            )
        }
    };
    out.whole(Style::Dim, &text, 0)?;
    out.end(0)
}

/// Describes a run in one JSON line, with the names that all commands use.
fn json_of(run: &RunSummary, process: Option<u32>) -> Value {
    json!({
        "run": run.uuid.to_string(), "id": run.id, "function": run.function,
        "state": run.state.word(), "pid": process, "started": run.started, "tasks": run.tasks,
        "waits": run.waits, "error": run.error,
        "fork": run.parent.map(|parent| json!({ "run": parent.run.to_string(), "at": parent.at })),
    })
}

/// The process that owns the log, and the reason if it doesn't answer.
type Process<'a> = (Option<u32>, Option<&'a Silence>);

fn runs(mut out: Out, page: &RunPage, (process, silence): Process<'_>) -> Done {
    if out.json {
        for run in &page.runs {
            let mut run = json_of(run, process);
            Silence::note(silence, &mut run);
            out.json(&run)?;
        }
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
        true => out.text(Style::Dim, "nothing is running")?,
        false => table.print(&mut out)?,
    }
    let left = page.total.saturating_sub(page.runs.len() as u64);
    if left > 0 {
        out.text(Style::Dim, &format!("and {left} more; `--limit` shows more of them"))?;
    }
    out.end(0)
}

fn tasks(mut out: Out, run: Uuid, detail: &RunDetail, (process, silence): Process<'_>) -> Done {
    if out.json {
        for task in &detail.tasks {
            let uuid = run.to_string();
            let mut task = json!({
                "run": uuid, "tid": task.tid, "name": task.name, "state": task.state,
                "waits": task.waits_for.iter().collect::<Vec<_>>(), "at": task.at,
                "pid": process,
            });
            Silence::note(silence, &mut task);
            out.json(&task)?;
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
        true => out.text(Style::Dim, "it has ended; `show` shows its outcome")?,
        false => table.print(&mut out)?,
    }
    out.end(0)
}

/// Describes what a run waits for, or why it cannot continue.
fn waits(run: &RunSummary) -> String {
    match &run.error {
        Some(error) => format!("{} [{}]", error.message, error.code),
        None => run.waits.join(", "),
    }
}
