//! `ls`: the runs of a directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use tiffany_kernel::Uuid;

use super::args::{Ls, State};
use super::driver::{self, Reach, Silence};
use super::error::{Ending, exit};
use super::out::{Out, Style};
use super::place::{Place, find};
use super::remote::Remote;
use super::summary::{Summary, attribute_text, count, moment, short_moment, values_of};
use super::table::{Cell, Table};
use super::{Done, progress::Progress};
use tiffany::control::RunQuery;
use tiffany::units::size;

/// The number of columns from which lengths and full times are shown.
const WIDE: usize = 100;

pub(super) fn ls(place: &Place, out: Out, options: &Ls) -> Done {
    match place.reach.clone() {
        Reach::Dir(_) => of_directory(place, out, options),
        Reach::Daemon(remote) => of_daemon(place, out, options, &remote),
    }
}

/// The runs that a daemon lists, with what their files say.
fn of_daemon(place: &Place, mut out: Out, options: &Ls, remote: &Arc<Remote>) -> Done {
    let mut query = query(options, |name| place.find(name))?;
    let mut left = options.limit.unwrap_or(usize::MAX);
    let mut runs: Vec<Summary> = Vec::new();
    while left > 0 {
        query.limit = left.min(PAGE);
        let (page, next) = remote.runs(&query)?;
        left = left.saturating_sub(page.len());
        runs.extend(page);
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    let process = driver::process(&place.reach);
    let runs: Vec<&Summary> = runs.iter().collect();
    if out.json {
        runs.iter().try_for_each(|summary| out.json(&json(summary, process)))?;
        return out.end(0);
    }
    let mut ids: BTreeMap<Uuid, String> =
        runs.iter().map(|run| (run.run, run.id.clone())).collect();
    for (parent, _) in runs.iter().filter_map(|run| run.fork) {
        ids.entry(parent).or_insert_with(|| place.id_of(parent).unwrap_or_default());
    }
    print(&mut out, &runs, &ids, process)?;
    out.end(0)
}

/// The number of a daemon's runs that one request lists.
const PAGE: usize = 1_000;

fn of_directory(place: &Place, mut out: Out, options: &Ls) -> Done {
    let sight = place.look_anyhow()?;
    sight.warn();
    let view = &sight.view;
    let mut progress = Progress::new(&out, "reading", view.runs().count() as u64);
    let mut runs: Vec<Summary> = Vec::new();
    let mut ids = BTreeMap::new();
    for (run, entry) in view.runs() {
        progress.add(1);
        let summary = Summary::read(view, run, entry);
        ids.insert(run, summary.id.clone());
        runs.push(summary);
    }
    drop(progress);
    let is_driven = |run: &Summary| run.state.is_driven();
    let process = runs.iter().any(is_driven).then(|| driver::process(&place.reach)).flatten();
    let mut silence = None;
    if process.is_some() {
        let paused;
        (paused, silence) = driver::paused(&place.reach);
        for run in runs.iter_mut().filter(|run| run.state.is_driven()) {
            run.state = paused.get(&run.run).map_or(run.state, State::stopped_by);
        }
    }
    let query = query(options, |name| find(view, name))?;
    let mut rows = query.look()?.all(runs.iter().map(Summary::row));
    rows.truncate(options.limit.unwrap_or(usize::MAX));
    let runs: Vec<&Summary> = rows.into_iter().map(|row| row.what).collect();
    if out.json {
        for summary in &runs {
            let mut run = json(summary, process);
            Silence::note(silence.as_ref(), &mut run);
            out.json(&run)?;
        }
    } else {
        print(&mut out, &runs, &ids, process)?;
        let still = runs.iter().filter(|run| is_driven(run)).count() as u64;
        if still > 0 && process.is_none() {
            let (many, make) =
                (count(still, "live run"), if still == 1 { "makes" } else { "make" });
            let next = driver::start(&place.dir);
            let text =
                format!("no process owns the directory, so {many} {make} no progress; {next}");
            out.whole(Style::Dim, &text, 0)?;
        }
    }
    out.end(if sight.trouble.is_some() { exit::FAILED } else { 0 })
}

/// Builds the query for the runs, as the API has it.
fn query(
    options: &Ls,
    find: impl FnOnce(&str) -> Result<Uuid, Ending>,
) -> Result<RunQuery, Ending> {
    let states = match options.all && options.state.is_empty() {
        true => State::ALL.into(),
        false => options.state.clone(),
    };
    Ok(RunQuery {
        states,
        function: options.function.clone(),
        text: options.text.clone(),
        since: options.since,
        before: options.before,
        parent: options.forks_of.as_deref().map(find).transpose()?,
        tags: options.tag.clone(),
        attributes: options.attribute.clone(),
        sort: options.sort,
        descending: options.reverse,
        ..RunQuery::default()
    })
}

/// Returns the part of a run's JSON that `ls` and `show` share.
pub(super) fn json(summary: &Summary, process: Option<u32>) -> serde_json::Value {
    json!({
        "run": summary.run.to_string(),
        "id": summary.id,
        "function": summary.function,
        "state": summary.state.word(),
        "pid": process.filter(|_| summary.state.is_driven()),
        "records": summary.entry.seq,
        "bytes": summary.entry.len,
        "generation": summary.entry.generation,
        "calls_before": summary.calls_before,
        "compacted": summary.compacted.map(|(records, bytes)| json!({ "records": records, "bytes": bytes })),
        "started": summary.started,
        "changed": summary.changed,
        "fork": summary.fork.map(|(run, at)| json!({ "run": run.to_string(), "at": at })),
        "tags": summary.attributes.tags,
        "attributes": values_of(&summary.attributes),
        "deadline": summary.deadline,
    })
}

fn print(
    out: &mut Out,
    runs: &[&Summary],
    ids: &BTreeMap<Uuid, String>,
    process: Option<u32>,
) -> Result<(), Ending> {
    let is_narrow = out.width.is_some_and(|width| width < WIDE);
    let mut head = vec!["RUN", "ID", "FUNCTION", "STATE"];
    head.extend(["RECORDS", "SIZE"].iter().filter(|_| !is_narrow));
    head.extend(["STARTED", "CHANGED"]);
    let has_forks = runs.iter().any(|summary| summary.fork.is_some());
    if has_forks {
        head.push("FORK OF");
    }
    let has_attributes = runs.iter().any(|summary| !summary.attributes.is_empty());
    if has_attributes {
        head.push("TAGS, ATTRIBUTES");
    }
    let mut table = Table::new(&head);
    let when = if is_narrow { short_moment } else { moment };
    for summary in runs {
        let run = summary.run.to_string();
        let state = match (summary.state, process) {
            (State::Live, None) => "live, no process",
            (State::Ending, None) => "ending, no process",
            (state, _) => state.word(),
        };
        let mut row = vec![
            // Eight digits are enough to identify a run on a terminal.
            if out.width.is_some() { run[..8].into() } else { run.into() },
            Cell::from(&summary.id),
            Cell::from(&summary.function),
            Cell::new(Style::of_state(state), state),
        ];
        if !is_narrow {
            row.extend([summary.entry.seq.to_string().into(), size(summary.entry.len).into()]);
        }
        row.extend([when(&summary.started).into(), when(&summary.changed).into()]);
        if has_forks {
            row.push(match summary.fork {
                Some((parent, at)) => {
                    let id = ids.get(&parent).filter(|id| !id.is_empty()).cloned();
                    let parent = id.unwrap_or_else(|| parent.to_string());
                    format!("{parent} at {at}").into()
                }
                None => String::new().into(),
            });
        }
        if has_attributes {
            row.push(attribute_text(&summary.attributes).into());
        }
        table.row(row);
    }
    match table.is_empty() {
        true => out.text(Style::Dim, "no runs"),
        false => table.print(out),
    }
}
