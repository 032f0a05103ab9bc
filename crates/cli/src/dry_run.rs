//! `resume --dry-run`: shows what is in a directory, and what would happen if it were opened and
//! its runs continued. It changes nothing.

use serde_json::{Value, json};
use tiffany_kernel::Uuid;

use super::Done;
use super::args::State;
use super::driver::{self, Reach};
use super::error::{Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, find_all};
use super::prospect::{now, would_happen};
use super::show::{read, waiting_json};
use super::summary::Summary;
use tiffany::Runtime;
use tiffany::command::{DryRun, Until, decode_run};
use tiffany_log::{Recovery, RunState, View};
use tiffany_records::call_words::call_word;
use tiffany_records::tasks::Tasks;
use tiffany_records::wait_reason::About;

/// The predicted outcome for one run.
struct Plan {
    summary: Summary,
    /// One word: `goes on`, `waits`, `paused`, `damaged`.
    verdict: &'static str,
    why: Option<Shown>,
    steps: Vec<String>,
    waits: Vec<Value>,
    upcoming: Vec<Value>,
}

pub(super) fn dry_run(place: Place, mut out: Out, named: &[String]) -> Done {
    let names: Vec<&str> = named.iter().map(String::as_str).collect();
    let view = match names.is_empty() {
        true => place.look()?,
        false => place.look_for(&names)?,
    };
    let runs = find_all(&view, named)?;
    let count = |state| view.runs().filter(|(_, entry)| entry.state == state).count();
    let (live, finished, removed) =
        (count(RunState::Live), count(RunState::Finished), count(RunState::Removed));
    let has_program = place.has_program() && !place.lacks_rules();
    let registry = place.builder.registry().clone();
    let mut room = if has_program { Some(place.rehearsal_room()?) } else { None };
    let dir = view.root().to_owned();
    let mut paused =
        view.holder().map(|_| driver::paused(&Reach::Dir(dir.clone())).0).unwrap_or_default();
    let mut plans = Vec::new();
    for run in runs {
        let Some(entry) = view.run(run).filter(|entry| entry.state == RunState::Live) else {
            continue;
        };
        let summary = Summary::read(&view, run, entry);
        let known = registry.has(&summary.function);
        let mut plan = plan(&view, run, summary, room.as_mut().filter(|_| known), has_program)?;
        // A reason that the process reports is already in effect.
        if let Some(error) = paused.remove(&run).filter(|_| plan.why.is_none()) {
            plan.pause(error.into());
        }
        plans.push(plan);
    }
    let mending = match view.holder() {
        // These records are about to be written by that process.
        Some(_) => Vec::new(),
        None => mending(view.recovery()),
    };
    let holder = view.holder().map(ToString::to_string);
    let bad = plans.iter().any(|plan| plan.why.is_some());
    if out.json {
        let plans: Vec<Value> = plans.iter().map(Plan::json).collect();
        out.json(&json!({
            "dir": view.root().display().to_string(),
            "holder": holder,
            "live": live,
            "finished": finished,
            "removed": removed,
            "mending": mending,
            "seen": if has_program { "replay" } else { "records" },
            "unfinished": plans,
        }))?;
        return out.end(if bad { exit::FAILED } else { 0 });
    }
    out.text(Style::Head, &view.root().display().to_string())?;
    out.text(Style::Plain, &format!("runs: {live} live, {finished} finished, {removed} removed"))?;
    match &holder {
        Some(holder) => out.text(Style::Busy, &format!("in use by {holder}"))?,
        None => out.text(Style::Plain, "not in use")?,
    }
    for mend in &mending {
        out.text(Style::Busy, &format!("opening it would repair: {mend}"))?;
    }
    if !has_program && !plans.is_empty() {
        out.text(
            Style::Dim,
            "from the records alone; the program that the runs belong to shows more",
        )?;
    }
    for plan in &plans {
        out.line("")?;
        plan.print(&mut out)?;
    }
    out.end(if bad { exit::FAILED } else { 0 })
}

fn plan(
    view: &View,
    run: Uuid,
    summary: Summary,
    room: Option<&mut Runtime>,
    has_program: bool,
) -> Result<Plan, Ending> {
    let mut tasks = Tasks::default();
    let damage = read(view, run, &mut tasks).err();
    let mut plan = Plan {
        verdict: "waits",
        why: damage.map(Shown::from),
        steps: Vec::new(),
        waits: Vec::new(),
        upcoming: Vec::new(),
        summary,
    };
    if plan.why.is_some() {
        plan.verdict = "damaged";
        plan.summary.state = State::Damaged;
        return Ok(plan);
    }
    let now = now();
    let mut is_ready = tasks.all.values().any(|task| matches!(task.word(), "ready" | "new"));
    for (tid, record, waiting) in tasks.waits() {
        let (what, at_once) = would_happen(waiting, tid, &now);
        is_ready |= at_once && !waiting.maybe_over;
        plan.steps.push(what);
        plan.waits.push(waiting_json(record, waiting));
    }
    let is_awaited = |uuid: &String| {
        tasks
            .waits()
            .any(|(.., waiting)| matches!(&waiting.about, About::Promise(_, of) if of == uuid))
    };
    for (uuid, promise) in tasks.promises.iter().filter(|(uuid, _)| !is_awaited(uuid)) {
        plan.steps.push(format!("promise {uuid} of task {} waits to be settled", promise.tid));
    }
    if is_ready {
        plan.verdict = "goes on";
    }
    let refused = tasks.refused();
    if !refused.is_empty() {
        let names = refused.into_iter().collect::<Vec<_>>().join("`, `");
        let message = format!(
            "fork {run} needs `{names}`, for which its parent had no answer and which is not allowed"
        );
        let kind = tiffany_kernel::ErrorKind::NotAllowed;
        plan.pause(tiffany_kernel::TaskError::new(kind, message).into());
        return Ok(plan);
    }
    match room {
        Some(room) => plan.dry_run(view, run, room)?,
        None if has_program => {
            let message = format!("no function `{}` is registered", plan.summary.function);
            let kind = tiffany_kernel::ErrorKind::Unregistered;
            plan.pause(tiffany_kernel::TaskError::new(kind, message).into());
        }
        None => {}
    }
    Ok(plan)
}

/// Describes what recovery would repair.
pub(super) fn mending(recovery: &Recovery) -> Vec<String> {
    let mut mending = Vec::new();
    if let Some(torn) = &recovery.torn_block {
        mending.push(format!("block {} was being written and is dropped", torn.block));
    }
    if recovery.dropped_blocks > 0 {
        mending.push(format!("{} blocks behind a gap are dropped", recovery.dropped_blocks));
    }
    if recovery.torn_index {
        mending.push("the last frames of the index are missing, and are written again".into());
    }
    for run in &recovery.completed {
        mending.push(format!("{run}.wal lacks lines that the commit log has"));
    }
    for cut in &recovery.cut {
        let (run, to, from) = (cut.run, cut.to, cut.from);
        mending.push(format!("{run}.wal is cut to its committed end, from {from} to {to} bytes"));
    }
    for (run, lines) in &recovery.rescued {
        mending.push(format!("{run}.wal has {lines} good lines that the commit log lost"));
    }
    for run in &recovery.adopted {
        mending.push(format!("{run}.wal is known to nothing else and is taken in"));
    }
    mending
}

impl Plan {
    fn pause(&mut self, why: Shown) {
        self.verdict = "paused";
        self.why = Some(why);
    }

    /// Replays the run to see whether it could continue.
    fn dry_run(&mut self, view: &View, run: Uuid, room: &mut Runtime) -> Result<(), Ending> {
        let chain = self.summary.entry.chain(run);
        let tried = room.dry_run(&chain, decode_run(view, run)?, Until::TheNextCalls);
        let DryRun { apart, upcoming, .. } = match tried {
            Ok(dry_run) => dry_run,
            Err(error) => {
                self.pause(error.into());
                return Ok(());
            }
        };
        if let Some(apart) = apart {
            self.pause(apart.into());
            return Ok(());
        }
        if !upcoming.is_empty() {
            self.verdict = "goes on";
        }
        for next in upcoming {
            let name = next.name.map_or(String::new(), |name| format!(" `{name}`"));
            let call = call_word(next.call);
            self.steps.push(format!("task {}: then {call}{name} at {}", next.tid, next.at));
            self.upcoming.push(json!({
                "tid": next.tid.0, "call": next.call, "name": next.name, "at": next.at,
            }));
        }
        Ok(())
    }

    fn json(&self) -> Value {
        json!({
            "run": self.summary.run.to_string(),
            "id": self.summary.id,
            "function": self.summary.function,
            "verdict": self.verdict,
            "why": self.why.as_ref().map(Shown::json),
            "would": self.steps,
            "waits": self.waits,
            "upcoming": self.upcoming,
        })
    }

    fn print(&self, out: &mut Out) -> Result<(), Ending> {
        let Summary { run, id, function, .. } = &self.summary;
        let style = match self.verdict {
            "paused" | "damaged" => Style::Bad,
            _ => Style::Busy,
        };
        out.text(style, &format!("{run}  {id}  ({function}): {}", self.verdict))?;
        if let Some(why) = &self.why {
            out.text(Style::Bad, &format!("  {} [{}]", why.message, why.code))?;
            out.text(Style::Plain, &format!("  next: {}", why.next))?;
        }
        self.steps.iter().try_for_each(|step| out.text(Style::Plain, &format!("  {step}")))
    }
}
