//! The timeline of a run in the trace event format: one track for each task, with a slice for its life and inside that
//! what it did and waited for; a task that waits for several things at once has further tracks below its own.
//!
//! The clock of a run stands still while its tasks run and moves between rounds, so a slice is as exact as that.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tiffany_kernel::Uuid;

use super::graph::targets;
use super::slices::{Events, Slice};
use crate::call_words::call_word;
use tiffany_log::{LogError, Record, RecordType};

/// Tracks of one task: its own, and those for what it waits for besides.
const LANES: u64 = 1000;

/// What a step is in before it begins. The log does not say whether others in its queue held it up; a step that nobody holds up begins in
/// the loop's next rounds, and that is not worth a slice.
const BEFORE: &str = "until the first attempt";
const NOT_HELD_UP_NANOS: u64 = 1_000_000;

pub(super) struct Trace<'a> {
    events: Events<'a>,
    tasks: BTreeMap<u64, Task>,
    title: String,
    started: String,
    /// The last moment of the log.
    last: u64,
}

struct Task {
    name: String,
    began: u64,
    ended: Option<u64>,
    /// Since when it could run.
    runs_since: Option<u64>,
    /// What is going on for it, by the record of the call.
    open: BTreeMap<u64, Open>,
    /// How many of its tracks have a name.
    named: u64,
}

/// Something that a task waits for.
struct Open {
    lane: u64,
    began: u64,
    name: String,
    category: &'static str,
    targets: Vec<u64>,
    args: Map<String, Value>,
    /// Its answer has a record of its own.
    is_answered: bool,
    /// For a step: since when it waits for its first attempt, is at work, or waits for the next attempt.
    phase: Option<(String, u64)>,
}

impl<'a> Trace<'a> {
    pub(super) fn begin(to: &'a mut dyn Write) -> io::Result<Trace<'a>> {
        let (title, started) = (String::new(), String::new());
        Ok(Trace { events: Events::begin(to)?, tasks: BTreeMap::new(), title, started, last: 0 })
    }

    pub(super) fn add(&mut self, record: &Record<'_>) -> io::Result<()> {
        let at = record.stamp().map_or(self.last, |stamp| stamp.unix_nanos()).max(self.last);
        self.last = at;
        let tid = record.tid.0;
        match record.record_type() {
            Some(RecordType::RunStart) => {
                let text = |field: &str| record.str(field).unwrap_or_default().into_owned();
                self.title = format!("{} {}", text("function"), text("id"));
                record.ts.clone_into(&mut self.started);
                let name = text("function");
                self.task_begins(tid, &name, at)
            }
            Some(RecordType::TaskSpawn) => {
                self.acted(tid, at)?;
                let Some(child) = record.uint("child") else { return Ok(()) };
                let name = record.str("name").unwrap_or_default();
                self.task_begins(child, &name, at)?;
                self.events.arrow("spawn", (track(tid, 0), at), (track(child, 0), at))
            }
            Some(RecordType::TaskYield) => {
                self.acted(tid, at)?;
                self.called(record, at)
            }
            Some(RecordType::TaskWake) => match record.str("why") {
                Some(why) => self.events.instant(track(tid, 0), &why, at),
                None => self.answered(record, at),
            },
            Some(RecordType::EffectStart) => {
                let attempt = record.uint("attempt").unwrap_or(1);
                self.phase(record, at, Some(format!("attempt {attempt}")))
            }
            Some(RecordType::EffectResult) => {
                let is_again = record.str("decided").as_deref() == Some("again");
                match record.get("retry_at").is_some() || is_again {
                    true => self.phase(record, at, Some("until the next attempt".into())),
                    false => self.answered(record, at),
                }
            }
            Some(RecordType::ApprovalDecided | RecordType::ApprovalWithdrawn) => {
                self.answered(record, at)
            }
            Some(RecordType::PromiseSettled) => {
                let promise = record.str("promise").unwrap_or_default();
                self.events.instant(track(tid, 0), &format!("promise {promise} settled"), at)
            }
            Some(RecordType::Message) => {
                let name = record.str("name").unwrap_or_default();
                self.events.instant(track(tid, 0), &format!("message {name}"), at)
            }
            Some(RecordType::RunHeld) => self.events.instant(track(tid, 0), "held", at),
            Some(RecordType::RunReleased) => self.events.instant(track(tid, 0), "released", at),
            Some(RecordType::ShutdownMarker) => {
                self.events.instant(track(tid, 0), "the process ended in good order", at)
            }
            Some(RecordType::TaskExit) => self.task_ends(record, "completed", at),
            Some(RecordType::TaskAbort) => self.task_ends(record, "failed", at),
            Some(RecordType::TaskCancel) => self.task_ends(record, "cancelled", at),
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

    /// A task did something: it ran until now, and what it waited for without a record of the answer has come.
    fn acted(&mut self, tid: u64, at: u64) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let over: Vec<u64> =
            task.open.iter().filter(|(_, open)| !open.is_answered).map(|(seq, _)| *seq).collect();
        for seq in over {
            self.close(tid, seq, at)?;
        }
        self.ran(tid, at)
    }

    /// Tells that a task ran, if that took time.
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

    fn called(&mut self, record: &Record<'_>, at: u64) -> io::Result<()> {
        let call = record.str("call").unwrap_or_default();
        let Some(category) = category(&call) else { return Ok(()) };
        if record.get("error").is_some() {
            return Ok(());
        }
        let tid = record.tid.0;
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        let is_free = |lane: &u64| task.open.values().all(|open| open.lane != *lane);
        let lane = (0..LANES).find(is_free).unwrap_or(LANES - 1);
        let what = record.str("name").or_else(|| record.str("key"));
        let word = call_word(&call);
        let name = match (&what, record.uint("task")) {
            (Some(what), _) => format!("{word} {what}"),
            (None, Some(task)) => format!("{word} for task {task}"),
            (None, None) => word.to_owned(),
        };
        let mut args = Map::new();
        args.insert("record".into(), record.seq.into());
        for field in ["at", "about", "payload", "time"] {
            if let Some(value) = record.get(field).and_then(|text| serde_json::from_str(text).ok())
            {
                args.insert(field.into(), value);
            }
        }
        let is_step = call == "effect";
        let open = Open {
            lane,
            began: at,
            name,
            category,
            targets: targets(record),
            args,
            is_answered: is_step || matches!(category, "approval" | "sleep" | "commit"),
            phase: is_step.then(|| (BEFORE.to_owned(), at)),
        };
        task.open.insert(record.seq, open);
        if lane < task.named {
            return Ok(());
        }
        task.named = lane + 1;
        let name = format!("{} ({})", task.name, lane + 1);
        self.events.name("thread_name", track(tid, lane), &name)?;
        self.events.order(track(tid, lane), track(tid, lane))
    }

    fn answered(&mut self, record: &Record<'_>, at: u64) -> io::Result<()> {
        self.phase(record, at, None)?;
        let (tid, of) = (record.tid.0, record.uint("of").unwrap_or(0));
        let Some(task) = self.tasks.get_mut(&tid) else { return Ok(()) };
        if let Some(open) = task.open.get_mut(&of) {
            for field in ["value", "error"] {
                if let Some(value) =
                    record.get(field).and_then(|text| serde_json::from_str(text).ok())
                {
                    open.args.insert(field.into(), value);
                }
            }
        }
        self.close(tid, of, at)
    }

    /// Ends what a step was in, and begins what it is in now.
    fn phase(&mut self, record: &Record<'_>, at: u64, next: Option<String>) -> io::Result<()> {
        let (tid, of) = (record.tid.0, record.uint("of").unwrap_or(0));
        let task = self.tasks.get_mut(&tid);
        let Some(open) = task.and_then(|task| task.open.get_mut(&of)) else { return Ok(()) };
        let lane = open.lane;
        let Some((name, from)) = std::mem::replace(&mut open.phase, next.map(|next| (next, at)))
        else {
            return Ok(());
        };
        let mut args = Map::new();
        if let Some(error) = record.get("error").and_then(|text| serde_json::from_str(text).ok()) {
            args.insert("error".into(), error);
        }
        let slice =
            Slice { track: track(tid, lane), name: &name, category: "attempt", from, to: at, args };
        match is_worth_telling(&name, at - from) {
            true => self.events.slice(slice),
            false => Ok(()),
        }
    }

    /// What a task waited for has come, or it did not wait for it any longer.
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
                // An arrow begins inside a slice, and this one is over at its end.
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

    fn task_ends(&mut self, record: &Record<'_>, how: &str, at: u64) -> io::Result<()> {
        let tid = record.tid.0;
        if self.tasks.get(&tid).is_none_or(|task| task.ended.is_some()) {
            return Ok(());
        }
        self.acted(tid, at)?;
        let error = record.get("error").and_then(|text| serde_json::from_str(text).ok());
        let args = [("end", Some(json!(how))), ("error", error)];
        let args = args.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.life(tid, at, args.collect())
    }

    /// The slice of a task's life, and what was still open in it.
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

/// An attempt is, even if it took no time by the run's clock.
fn is_worth_telling(phase: &str, nanos: u64) -> bool {
    match phase {
        BEFORE => nanos >= NOT_HELD_UP_NANOS,
        phase => nanos > 0 || phase.starts_with("attempt"),
    }
}

/// The number of a track.
fn track(tid: u64, lane: u64) -> u64 {
    tid * LANES + lane
}

/// What a task that makes this call waits for; nothing, if it is answered at once.
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
