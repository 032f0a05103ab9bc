//! Exports the timeline of a run in the trace event format. Each task has a track with a slice for
//! its life, which contains slices for what it did and waited for. A task that waits for several
//! things at once has further tracks below its own.
//!
//! The clock of a run stops while its tasks run and advances between rounds, which limits the
//! accuracy of slices.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tiffany_kernel::Uuid;

use super::graph::targets;
use super::slices::{Events, Slice};
use crate::call_words::call_word;
use crate::record::EffectEnd;
use crate::record::{Json, owned};
use crate::record::{Record, TaskYield};
use tiffany_log::{LogError, LogLine};

/// The number of tracks per task: its own, and those for further waits.
const LANES: u64 = 1000;

/// The phase of a step before its first attempt. The log does not say whether other steps in its
/// queue delayed it. A step that nothing delays begins within the next rounds of the loop, which is
/// not worth a slice.
const BEFORE: &str = "until the first attempt";
const NOT_HELD_UP_NANOS: u64 = 1_000_000;

pub(super) struct Trace<'a> {
    events: Events<'a>,
    tasks: BTreeMap<u64, Task>,
    title: String,
    started: String,
    /// The time of the last record.
    last: u64,
}

struct Task {
    name: String,
    began: u64,
    ended: Option<u64>,
    /// When it became able to run.
    runs_since: Option<u64>,
    /// Its open calls, by record.
    open: BTreeMap<u64, Open>,
    /// The number of its tracks that have been named.
    named: u64,
}

/// A call that a task waits for.
struct Open {
    lane: u64,
    began: u64,
    name: String,
    category: &'static str,
    targets: Vec<u64>,
    args: Map<String, Value>,
    /// Whether the log has a record for its answer.
    is_answered: bool,
    /// For a step, the current phase and its beginning: before the first attempt, during one, or
    /// before the next.
    phase: Option<(String, u64)>,
}

impl<'a> Trace<'a> {
    pub(super) fn begin(to: &'a mut dyn Write) -> io::Result<Trace<'a>> {
        let (title, started) = (String::new(), String::new());
        Ok(Trace { events: Events::begin(to)?, tasks: BTreeMap::new(), title, started, last: 0 })
    }

    pub(super) fn add(&mut self, line: &LogLine<'_>, record: &Record<'_>) -> io::Result<()> {
        let at = line.stamp().map_or(self.last, |stamp| stamp.unix_nanos()).max(self.last);
        self.last = at;
        let tid = line.tid.0;
        let instant = |events: &mut Events<'_>, what: &str| events.instant(track(tid, 0), what, at);
        match record {
            Record::RunStart(start) => {
                let name = owned(start.function);
                self.title = format!("{name} {}", owned(start.id));
                line.ts.clone_into(&mut self.started);
                self.task_begins(tid, &name, at)
            }
            Record::TaskSpawn(spawn) => {
                self.acted(tid, at)?;
                let Some(child) = spawn.child else { return Ok(()) };
                self.task_begins(child, &owned(spawn.name), at)?;
                self.events.arrow("spawn", (track(tid, 0), at), (track(child, 0), at))
            }
            Record::TaskYield(call) => {
                self.acted(tid, at)?;
                self.called(line, call, at)
            }
            Record::TaskWake(wake) => match wake.why {
                Some(why) => instant(&mut self.events, &why.get()),
                None => self.answered(tid, record, at),
            },
            Record::EffectStart(start) => {
                let attempt = start.attempt.unwrap_or(1);
                self.phase(tid, record, at, Some(format!("attempt {attempt}")))
            }
            Record::EffectResult(result) => match result.end() {
                EffectEnd::Over(_) => self.answered(tid, record, at),
                _ => self.phase(tid, record, at, Some("until the next attempt".into())),
            },
            Record::ApprovalDecided(_) | Record::ApprovalWithdrawn(_) => {
                self.answered(tid, record, at)
            }
            Record::PromiseSettled(settled) => {
                let promise = owned(settled.promise);
                instant(&mut self.events, &format!("promise {promise} settled"))
            }
            Record::Message(message) => {
                instant(&mut self.events, &format!("message {}", owned(message.name)))
            }
            Record::RunHeld(_) => instant(&mut self.events, "held"),
            Record::RunReleased(_) => instant(&mut self.events, "released"),
            Record::ShutdownMarker(_) => {
                instant(&mut self.events, "the process ended in good order")
            }
            Record::TaskExit(_) => self.task_ends(tid, record, "completed", at),
            Record::TaskAbort(_) => self.task_ends(tid, record, "failed", at),
            Record::TaskCancel(_) => self.task_ends(tid, record, "cancelled", at),
            _ => Ok(()),
        }
    }

    fn task_begins(&mut self, tid: u64, name: &str, at: u64) -> io::Result<()> {
        let name = if name.is_empty() { format!("task {tid}") } else { format!("{tid} {name}") };
        self.events.name("thread_name", track(tid, 0), &name)?;
        self.events.order(track(tid, 0), tid * LANES)?;
        let task = Task {
            name,
            began: at,
            ended: None,
            runs_since: Some(at),
            open: BTreeMap::new(),
            named: 1,
        };
        self.tasks.insert(tid, task);
        Ok(())
    }

    /// Handles a record which shows that a task was active: it ran until now, and its waits that
    /// have no record of an answer are finished.
    fn acted(&mut self, tid: u64, at: u64) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let over: Vec<u64> =
            task.open.iter().filter(|(_, open)| !open.is_answered).map(|(seq, _)| *seq).collect();
        for seq in over {
            self.close(tid, seq, at)?;
        }
        self.ran(tid, at)
    }

    /// Writes a slice for the time that a task ran, unless it took no time.
    fn ran(&mut self, tid: u64, at: u64) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let is_busy = task.open.values().any(|open| open.lane == 0);
        match task.runs_since.replace(at) {
            Some(from) if from < at && !is_busy => self.events.slice(Slice {
                track: track(tid, 0),
                name: "running",
                category: "running",
                from,
                to: at,
                args: Map::new(),
            }),
            _ => Ok(()),
        }
    }

    fn called(&mut self, line: &LogLine<'_>, made: &TaskYield<'_>, at: u64) -> io::Result<()> {
        let call = made.tag();
        let Some(category) = category(&call) else { return Ok(()) };
        if made.error.is_some() {
            return Ok(());
        }
        let tid = line.tid.0;
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let is_free = |lane: &u64| task.open.values().all(|open| open.lane != *lane);
        let lane = (0..LANES).find(is_free).unwrap_or(LANES - 1);
        let word = call_word(&call);
        let name = match (made.name.or(made.key), made.task) {
            (Some(what), _) => format!("{word} {}", what.get()),
            (None, Some(task)) => format!("{word} for task {task}"),
            (None, None) => word.to_owned(),
        };
        let mut args = Map::new();
        args.insert("record".into(), line.seq.into());
        let texts = [("at", made.at), ("time", made.time)];
        for (field, text) in texts.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            args.insert(field.into(), text.owned().into());
        }
        add_json(&mut args, "about", made.about.map(|Json(json)| json));
        add_json(&mut args, "payload", made.payload.map(|payload| payload.json()));
        let is_step = call == "effect";
        let open = Open {
            lane,
            began: at,
            name,
            category,
            targets: targets(made),
            args,
            is_answered: is_step || matches!(category, "approval" | "sleep" | "commit"),
            phase: is_step.then(|| (BEFORE.to_owned(), at)),
        };
        task.open.insert(line.seq, open);
        if lane < task.named {
            return Ok(());
        }
        task.named = lane + 1;
        let name = format!("{} ({})", task.name, lane + 1);
        self.events.name("thread_name", track(tid, lane), &name)?;
        self.events.order(track(tid, lane), track(tid, lane))
    }

    fn answered(&mut self, tid: u64, record: &Record<'_>, at: u64) -> io::Result<()> {
        self.phase(tid, record, at, None)?;
        let of = record.of().unwrap_or(0);
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        if let Some(open) = task.open.get_mut(&of) {
            add_json(&mut open.args, "value", record.value().map(|value| value.json()));
            add_json(&mut open.args, "error", record.error());
        }
        self.close(tid, of, at)
    }

    /// Ends the current phase of a step, and begins the next one.
    fn phase(
        &mut self,
        tid: u64,
        record: &Record<'_>,
        at: u64,
        next: Option<String>,
    ) -> io::Result<()> {
        let of = record.of().unwrap_or(0);
        let task = self.tasks.get_mut(&tid);
        let Some(open) = task.and_then(|task| task.open.get_mut(&of)) else { return Ok(()) };
        let lane = open.lane;
        let Some((name, from)) = std::mem::replace(&mut open.phase, next.map(|next| (next, at)))
        else {
            return Ok(());
        };
        let mut args = Map::new();
        add_json(&mut args, "error", record.error());
        let slice =
            Slice { track: track(tid, lane), name: &name, category: "attempt", from, to: at, args };
        match is_worth_telling(&name, at - from) {
            true => self.events.slice(slice),
            false => Ok(()),
        }
    }

    /// Ends a wait, because its answer has arrived or the task does not wait any longer.
    fn close(&mut self, tid: u64, seq: u64, at: u64) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let Some(open) = task.open.remove(&seq) else { return Ok(()) };
        if open.lane == 0 {
            task.runs_since = Some(at);
        }
        let phase = open.phase.as_ref();
        if let Some((name, from)) = phase.filter(|(name, from)| is_worth_telling(name, at - from)) {
            let slice = Slice {
                track: track(tid, open.lane),
                name,
                category: "attempt",
                from: *from,
                to: at,
                args: Map::new(),
            };
            self.events.slice(slice)?;
        }
        let ends: Vec<(u64, u64)> = open
            .targets
            .iter()
            .filter_map(|target| {
                let task = self.tasks.get(target)?;
                let end = task.ended.filter(|end| *end >= open.began && *end <= at)?;
                // An arrow must begin inside a slice, and this one ends at its end.
                Some((track(*target, 0), end.saturating_sub(1).max(task.began)))
            })
            .collect();
        if open.began == at && open.category != "step" {
            return Ok(());
        }
        let track = track(tid, open.lane);
        for from in ends {
            self.events.arrow("wait", from, (track, at.saturating_sub(1).max(open.began)))?;
        }
        let Open { name, category, began, args, .. } = open;
        self.events.slice(Slice { track, name: &name, category, from: began, to: at, args })
    }

    fn task_ends(&mut self, tid: u64, record: &Record<'_>, how: &str, at: u64) -> io::Result<()> {
        if self.tasks.get(&tid).is_none_or(|task| task.ended.is_some()) {
            return Ok(());
        }
        self.acted(tid, at)?;
        let mut args = Map::new();
        args.insert("end".into(), how.into());
        add_json(&mut args, "error", record.error());
        self.life(tid, at, args)
    }

    /// Writes the slice for the life of a task, and ends what was still open in it.
    fn life(&mut self, tid: u64, at: u64, args: Map<String, Value>) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let open: Vec<u64> = task.open.keys().copied().collect();
        for open in task.open.values_mut() {
            open.args.insert("open".into(), true.into());
        }
        for seq in open {
            self.close(tid, seq, at)?;
        }
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        task.ended = Some(at);
        let (name, from) = (task.name.clone(), task.began);
        let slice =
            Slice { track: track(tid, 0), name: &name, category: "task", from, to: at, args };
        self.events.slice(slice)
    }

    pub(super) fn end(mut self, run: Uuid, unread: Option<LogError>) -> io::Result<()> {
        let at = self.last;
        let live = self.tasks.iter().filter(|(_, task)| task.ended.is_none());
        let live: Vec<u64> = live.map(|(tid, _)| *tid).collect();
        for tid in live {
            let args = [("end".to_owned(), json!("live"))].into_iter().collect();
            self.life(tid, at, args)?;
        }
        self.events.name("process_name", 0, &self.title)?;
        let unread = unread.map(|error| error.to_string());
        self.events
            .end(&json!({ "run": run.to_string(), "started": self.started, "unread": unread }))
    }
}

/// Returns whether a phase gets a slice. An attempt always does, even if it took no time by the
/// run's clock.
fn is_worth_telling(phase: &str, nanos: u64) -> bool {
    match phase {
        BEFORE => nanos >= NOT_HELD_UP_NANOS,
        phase => nanos > 0 || phase.starts_with("attempt"),
    }
}

/// Adds JSON from the log to the arguments of a slice.
fn add_json(args: &mut Map<String, Value>, name: &str, json: Option<&str>) {
    if let Some(value) = json.and_then(|json| serde_json::from_str(json).ok()) {
        args.insert(name.into(), value);
    }
}

/// Returns the number of a track.
fn track(tid: u64, lane: u64) -> u64 {
    tid * LANES + lane
}

/// Returns the category of what a task waits for with this call; `None` if the call returns at
/// once.
fn category(call: &str) -> Option<&'static str> {
    Some(match call {
        "effect" => "step",
        "approve" => "approval",
        "sleep" | "sleep_until" => "sleep",
        "create_external_promise" => "commit",
        "wait" | "wait_task" => "wait",
        "gather" => "gather",
        "race" => "race",
        "receive" | "receive_message" => "message",
        "send" | "acquire" => "lock",
        "join_group" => "group",
        _ => return None,
    })
}
