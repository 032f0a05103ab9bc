//! `show`: shows one run, its tasks, and the state of each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use tiffany_records::Record;
use tiffany_records::attributes::literal;

use serde_json::{Value, json};
use tiffany_kernel::{TaskError, TaskState, Uuid};
use unicode_width::UnicodeWidthStr;

use super::Done;
use super::args::{Show, State};
use super::driver::{self, Silence};
use super::error::{Ending, Shown, exit};
use super::fork::forks_of;
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find};
use super::summary::{Summary, count, moment};
use super::table::{cut, wrap};
use tiffany::command::{Until, decode_run};
use tiffany::units::size;
use tiffany_log::{LogError, View};
use tiffany_records::errors::run_removed;
use tiffany_records::tasks::{Decision, TaskSeen, Tasks, error_text, trace_lines};
use tiffany_records::wait_reason::Waiting;

/// The state of a task according to a replay.
struct Exact {
    state: TaskState,
    at: Option<String>,
}

pub(super) fn show(place: Place, mut out: Out, name: &str, options: &Show) -> Done {
    let sight = place.look_anyhow_for(&[name])?;
    sight.warn();
    let view = &sight.view;
    let run = find(view, name)?;
    let process = driver::process(&place.reach);
    let (dir, reach) = (place.dir.clone(), place.reach.clone());
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    let mut summary = Summary::read(view, run, entry);
    if summary.state == State::Removed {
        return Err(run_removed(run).into());
    }
    let mut tasks = Tasks::default();
    let damage = read(view, run, &mut tasks).err();
    tasks.read_long_errors(|hash| view.blob(hash));
    if damage.is_some() {
        summary.state = State::Damaged;
    }
    // All records are read here, so the failure of a task is known.
    if summary.state == State::Live && tasks.has_failed() {
        summary.state = State::Ending;
    }
    let stands_still = summary.state.is_driven() || summary.state == State::Held;
    let (mut paused, silence) = match stands_still {
        true => driver::paused(&reach),
        false => Default::default(),
    };
    let paused = paused.remove(&run);
    if let Some(error) = &paused {
        summary.state = State::stopped_by(error);
    }
    let registered = place.builder.registry().has(&tasks.function);
    let has_all = damage.is_none() && summary.compacted.is_none();
    let may_replay = registered && !options.records && has_all && !place.lacks_rules();
    let exact = if may_replay { dry_run(place, view, run)? } else { Ok(BTreeMap::new()) };
    let forks = options.forks.then(|| forks_of(view, run));
    let facts = Facts {
        summary,
        tasks,
        damage: damage.map(Shown::from),
        paused,
        exact,
        forks,
        process,
        silence,
        dir,
    };
    match out.json {
        true => out.json(&facts.json())?,
        false => facts.print(&mut out)?,
    }
    out.end(if facts.damage.is_some() { exit::FAILED } else { 0 })
}

/// Reads as much of a run as is readable.
pub(super) fn read(view: &View, run: Uuid, tasks: &mut Tasks) -> Result<(), LogError> {
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        let line = record?;
        tasks.add(&line, &Record::read(&line));
    }
    view.refused(run).cloned().map_or(Ok(()), Err)
}

type Exactly = Result<BTreeMap<u64, Exact>, Shown>;

/// Replays the run to see where its tasks are.
fn dry_run(place: Place, view: &View, run: Uuid) -> Result<Exactly, Ending> {
    let (Ok(decoded), Some(entry)) = (decode_run(view, run), view.run(run)) else {
        return Ok(Ok(BTreeMap::new()));
    };
    let mut runtime = place.rehearsal_room()?;
    let dry_run = match runtime.dry_run(&entry.chain(run), decoded, Until::TheNextCalls) {
        Ok(dry_run) => dry_run,
        Err(error) => return Ok(Err(error.into())),
    };
    if let Some(apart) = dry_run.apart {
        return Ok(Err(apart.into()));
    }
    let exact = dry_run.tasks.into_iter().map(|info| {
        let at = info.waits_at.map(|at| at.to_string());
        (info.label.tid.0, Exact { state: info.state, at })
    });
    Ok(Ok(exact.collect()))
}

struct Facts {
    summary: Summary,
    tasks: Tasks,
    damage: Option<Shown>,
    /// Why the process that owns the log doesn't drive the run.
    paused: Option<TaskError>,
    /// The result of a replay, or why it failed; empty without a replay.
    exact: Exactly,
    /// The forks of the run, if they were requested.
    forks: Option<BTreeMap<(u64, Uuid), Summary>>,
    /// The process that drives the run.
    process: Option<u32>,
    /// Why the process doesn't answer.
    silence: Option<Silence>,
    dir: PathBuf,
}

impl Facts {
    /// Returns the source of the descriptions of tasks.
    fn seen(&self) -> &'static str {
        match &self.exact {
            Ok(exact) if !exact.is_empty() => "replay",
            _ => "records",
        }
    }

    fn exact(&self, tid: u64) -> Option<&Exact> {
        self.exact.as_ref().ok()?.get(&tid)
    }

    fn json(&self) -> Value {
        let mut all = super::ls::json(&self.summary, self.process);
        let tasks: Vec<Value> =
            self.tasks.all.iter().map(|(tid, task)| self.task_json(*tid, task)).collect();
        let promises: Vec<Value> = self
            .tasks
            .promises
            .iter()
            .map(|(uuid, promise)| {
                json!({ "promise": uuid, "tid": promise.tid, "record": promise.record, "at": promise.at })
            })
            .collect();
        let fork_json = |fork: &Summary| {
            let at = fork.fork.map(|(_, at)| at);
            json!({ "run": fork.run.to_string(), "id": fork.id, "at": at, "state": fork.state.word() })
        };
        Silence::note(self.silence.as_ref(), &mut all);
        let forks = self.forks.as_ref().map(|forks| forks.values().map(fork_json));
        all["forks"] = forks.map(Iterator::collect::<Vec<Value>>).into();
        all["refused"] = json!(self.tasks.refused());
        all["input"] = self.tasks.input.clone().unwrap_or(Value::Null);
        all["outcome"] = match &self.tasks.outcome {
            Some(Ok(value)) => json!({ "value": value }),
            Some(Err(error)) => json!({ "error": error }),
            None => Value::Null,
        };
        all["cancelled"] = self.tasks.is_cancelled.into();
        all["seen"] = self.seen().into();
        all["tasks"] = tasks.into();
        all["promises"] = promises.into();
        let decisions = self.tasks.decisions.iter().map(|decision| {
            let Decision { of, question, answer, when, changed } = decision;
            json!({
                "record": of,
                "question": question,
                "answer": answer,
                "when": when,
                "changed": changed,
            })
        });
        all["decisions"] = decisions.collect::<Vec<Value>>().into();
        all["inbox"] = json!(self.tasks.inbox);
        all["damage"] = self.damage.as_ref().map_or(Value::Null, Shown::json);
        all["diverged"] = self.exact.as_ref().err().map_or(Value::Null, Shown::json);
        all
    }

    fn task_json(&self, tid: u64, task: &TaskSeen) -> Value {
        let waits: Vec<Value> =
            task.waits.iter().map(|(record, waiting)| waiting_json(*record, waiting)).collect();
        let exact = self.exact(tid);
        json!({
            "tid": tid,
            "parent": task.parent,
            "spawned_at": task.spawned_at,
            "name": task.name,
            "state": task.word(),
            "scheduler": exact.map(|exact| exact.state.to_string()),
            "waits": waits,
            "error": task.error,
        })
    }

    fn print(&self, out: &mut Out) -> Result<(), Ending> {
        let Facts { summary, tasks, .. } = self;
        let state = summary.state.word();
        let colour = out.colour;
        let mut fact = |name: &str, value: &str, style: Style| {
            let room = out.width.map_or(usize::MAX, |width| width.saturating_sub(12));
            let value = clean(value);
            // Error messages are shown in full.
            let lines = match style {
                Style::Bad => wrap(&value, room, 0),
                _ => vec![cut(&value, room)],
            };
            for (at, value) in lines.iter().enumerate() {
                let name = if at == 0 { name } else { "" };
                let name = paint(colour, Style::Dim, &format!("{name:<10}"));
                out.line(format!("{name}  {}", paint(colour, style, value)).trim_end())?;
            }
            Ok::<(), Ending>(())
        };
        fact("run", &summary.run.to_string(), Style::Head)?;
        fact("id", &summary.id, Style::Plain)?;
        fact("function", &summary.function, Style::Plain)?;
        match (summary.state, self.process) {
            (driven, None) if driven.is_driven() => {
                let still = format!(
                    "{state}, but no process owns the directory, so the run makes no progress"
                );
                fact("state", &still, Style::Bad)?;
                fact("next", &driver::start(&self.dir), Style::Bad)?;
            }
            (driven, Some(pid)) if driven.is_driven() => {
                fact("state", &format!("{state}, in process {pid}"), Style::of_state(state))?;
            }
            _ => fact("state", state, Style::of_state(state))?,
        }
        if let Some(why) = &self.paused {
            fact("why", &why.to_string(), Style::Bad)?;
        }
        for name in tasks.refused() {
            let refused = format!("`{name}`: its parent has no answer, and it is not allowed");
            fact("refused", &refused, Style::Bad)?;
        }
        if let Some((parent, at)) = summary.fork {
            fact("forked", &format!("from {parent} at {at}"), Style::Plain)?;
        }
        for ((at, run), fork) in self.forks.iter().flatten() {
            let fork = format!("{run} at {at}, {} ({})", fork.id, fork.state.word());
            fact("fork", &fork, Style::Plain)?;
        }
        if !summary.attributes.tags.is_empty() {
            let tags: Vec<&str> = summary.attributes.tags.iter().map(String::as_str).collect();
            fact("tags", &tags.join(", "), Style::Plain)?;
        }
        for (name, value) in &summary.attributes.values {
            fact("attribute", &format!("{name}={}", literal(value)), Style::Plain)?;
        }
        if let Some(deadline) = &summary.deadline {
            fact("deadline", &moment(deadline), Style::Plain)?;
        }
        fact("started", &moment(&summary.started), Style::Plain)?;
        fact("changed", &moment(&summary.changed), Style::Plain)?;
        let generation = match summary.entry.generation {
            1 => String::new(),
            generation if summary.compacted.is_some() && summary.calls_before == 0 => {
                format!(", generation {generation}")
            }
            generation => {
                let calls = count(summary.calls_before, "call");
                format!(", generation {generation} after {calls}")
            }
        };
        let records = format!("{}, {}{generation}", summary.entry.seq, size(summary.entry.len));
        fact("records", &records, Style::Plain)?;
        if let Some((records, bytes)) = summary.compacted {
            let before = format!("of {}, {}", count(records, "record"), size(bytes));
            fact("compacted", &before, Style::Plain)?;
        }
        if let Some(input) = &tasks.input {
            fact("input", &input.to_string(), Style::Plain)?;
        }
        match &tasks.outcome {
            Some(Ok(value)) => fact("value", &value.to_string(), Style::Good)?,
            Some(Err(error)) => {
                fact("error", &error_text(error), Style::Bad)?;
                for line in trace_lines(error) {
                    fact("", &line, Style::Dim)?;
                }
            }
            None => {}
        }
        if let Some(damage) = &self.damage {
            fact("damage", &format!("{} [{}]", damage.message, damage.code), Style::Bad)?;
            fact("next", &damage.next, Style::Plain)?;
        }
        if let Err(apart) = &self.exact {
            fact("diverged", &format!("{} [{}]", apart.message, apart.code), Style::Bad)?;
        }
        for (uuid, promise) in &tasks.promises {
            let by = format!("{uuid} of task {} at {}", promise.tid, promise.at);
            fact("promise", &by, Style::Plain)?;
        }
        for decision in &tasks.decisions {
            fact("decided", &decision.what(), Style::Plain)?;
        }
        for (name, count) in &tasks.inbox {
            fact("inbox", &format!("`{name}`: {count} not taken"), Style::Plain)?;
        }
        out.line("")?;
        let how = match self.seen() {
            "replay" => "tasks, as a replay has them",
            _ => "tasks, according to the records",
        };
        out.text(Style::Head, how)?;
        self.print_children(out, None, "")
    }

    fn print_children(
        &self,
        out: &mut Out,
        parent: Option<u64>,
        indent: &str,
    ) -> Result<(), Ending> {
        let of_parent = |task: &TaskSeen| match parent {
            // A task whose spawn is in an earlier generation is shown at the top level.
            None => task.parent.is_none_or(|parent| !self.tasks.all.contains_key(&parent)),
            parent => task.parent == parent,
        };
        let children: Vec<_> = self.tasks.all.iter().filter(|(_, task)| of_parent(task)).collect();
        for (at, (tid, task)) in children.iter().enumerate() {
            let is_last = at + 1 == children.len();
            let (branch, below) = match (parent, is_last) {
                (None, _) => ("", ""),
                (_, true) => ("└─ ", "   "),
                (_, false) => ("├─ ", "│  "),
            };
            self.print_task(out, **tid, task, &format!("{indent}{branch}"))?;
            self.print_children(out, Some(**tid), &format!("{indent}{below}"))?;
        }
        Ok(())
    }

    fn print_task(
        &self,
        out: &mut Out,
        tid: u64,
        task: &TaskSeen,
        lead: &str,
    ) -> Result<(), Ending> {
        let exact = self.exact(tid);
        let word = task.word();
        let mut parts = Vec::new();
        let head = task.name.as_ref().map_or(String::new(), |name| format!(" `{name}`"));
        if let Some(exact) = exact {
            let at = exact.at.as_ref().map_or(String::new(), |at| format!(" at {at}"));
            parts.push(format!("{}{at}", exact.state));
        }
        for (record, waiting) in &task.waits {
            let perhaps = if waiting.maybe_over { "perhaps " } else { "" };
            parts.push(format!("{perhaps}{} (record {record}, {})", waiting.what(), waiting.at));
        }
        if let Some(error) = &task.error {
            parts.push(error_text(error));
        }
        if !task.spawned_at.is_empty() && parts.is_empty() {
            parts.push(format!("spawned at {}", task.spawned_at));
        }
        let plain = format!("{lead}{tid}{head}  {word:<9}  {}", parts.join("; "));
        let plain = clean(plain.trim_end()).into_owned();
        let width = out.width.unwrap_or(usize::MAX);
        let mut lines = match &task.error {
            Some(_) => wrap(&plain, width, lead.width() + 4),
            None => vec![cut(&plain, width)],
        };
        let painted = paint(out.colour, Style::of_state(word), word);
        lines[0] = lines[0].replacen(&format!("  {word}"), &format!("  {painted}"), 1);
        lines.iter().try_for_each(|line| out.line(line))
    }
}

/// Describes a waiting call as JSON, for `show` and `resume --dry-run`.
pub(super) fn waiting_json(record: u64, waiting: &Waiting) -> Value {
    json!({
        "record": record,
        "call": waiting.call,
        "name": waiting.name,
        "what": waiting.what(),
        "at": waiting.at,
        "since": waiting.since,
        "until": waiting.until(),
        "maybe_over": waiting.maybe_over,
    })
}
