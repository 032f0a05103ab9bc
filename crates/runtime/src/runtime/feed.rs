//! The loop's side of the activity log: how much each run is to tell, and what it told on its way to the hub. Events are handed over once for a round, and if somebody
//! reads just then, with the next one: the loop waits for no reader while a task could run.

use std::borrow::Cow;

use tiffany_kernel::{ErrorKind, Event, EventKind, Events, LogLevel, Run, Shown, Stage, Tid, Time};

use crate::activity::hub::Hub;
use crate::activity::hub::data_of;
use crate::activity::settings::Settings;
use crate::activity::state::{Clean, Draft, State, TurnDraft};
use crate::runtime::Runtime;
use tiffany_records::RunError;
use tiffany_records::activity::{Data, TaskId};
use tiffany_records::redact::Redactions;

/// So many events may wait for a reader to be out of the way.
const MAX_WAITING_EVENTS: usize = 4096;

/// What was told and is not in the hub yet.
#[derive(Default)]
pub(crate) struct Feed {
    batches: Vec<Batch>,
    waiting: usize,
    /// Lists that were emptied, to be filled again.
    spare: Vec<Vec<Event>>,
    /// What the hub wanted when that was last looked at.
    heeded: u64,
    /// Runs are tried out, and nobody is told.
    pub(crate) is_muted: bool,
}

/// Events of one run.
struct Batch {
    task_id: TaskId,
    /// When they are told; ghosts happened when they say.
    ts: Option<Time>,
    events: Vec<Event>,
    /// Events from which secrets have been removed; `events` is empty then.
    cleaned: Vec<Item>,
}

/// What comes to the hub of what the kernel told.
enum Item {
    Turn(TurnDraft),
    Notable(Clean),
}

impl Feed {
    /// Takes what a run left in its outbox.
    fn take(&mut self, run: &mut Run) -> Vec<Event> {
        run.swap_events(self.spare.pop().unwrap_or_default())
    }

    fn add(&mut self, hub: &Hub, task_id: TaskId, ts: Option<Time>, mut events: Vec<Event>) {
        if events.is_empty() {
            return self.spare.push(events);
        }
        self.waiting += events.len();
        let rules = hub.0.rules.as_deref();
        let cleaned = rules.map_or_else(Vec::new, |rules| {
            events.drain(..).filter_map(|event| item(ts, event, Some(rules))).collect()
        });
        self.batches.push(Batch { task_id, ts, events, cleaned });
    }

    /// What a run does again, as a ghost.
    pub(crate) fn add_ghosts(&mut self, hub: &Hub, task_id: TaskId, run: &mut Run) {
        if self.is_muted || !hub.is_awake() {
            return drop(run.take_events());
        }
        let events = self.take(run);
        self.add(hub, task_id, None, events);
        self.hand_over(hub, self.waiting > MAX_WAITING_EVENTS);
    }

    /// Hands over what there is. If somebody reads just then, it waits for that only if it must.
    pub(crate) fn hand_over(&mut self, hub: &Hub, must: bool) {
        if self.batches.is_empty() {
            return;
        }
        let state = match must || self.waiting > MAX_WAITING_EVENTS {
            true => Some(hub.0.state.lock()),
            false => hub.0.state.try_lock(),
        };
        let Some(mut state) = state else { return };
        for mut batch in self.batches.drain(..) {
            let (settings, task_id) = (&hub.0.settings, batch.task_id);
            for event in batch.events.drain(..) {
                if let Some(item) = item(batch.ts, event, None) {
                    put(&mut state, settings, task_id, item);
                }
            }
            for item in batch.cleaned {
                put(&mut state, settings, task_id, item);
            }
            self.spare.push(batch.events);
        }
        self.waiting = 0;
        self.spare.truncate(4);
        hub.cry(state);
    }
}

#[inline]
fn put(state: &mut State, settings: &Settings, task_id: TaskId, item: Item) {
    match item {
        Item::Turn(turn) => state.add_turn(settings, task_id, turn),
        Item::Notable(draft) => state.add(settings, task_id, draft),
    }
}

/// What one thing that the kernel told is for the hub; `None`: nothing.
#[inline]
fn item(ts: Option<Time>, event: Event, rules: Option<&Redactions>) -> Option<Item> {
    let ghost = ts.is_none();
    let ts = ts.unwrap_or(event.at);
    let tid = event.tid;
    let (stage, reason) = match event.kind {
        EventKind::Running => (Stage::Running, None),
        EventKind::Woken => (Stage::Woken, None),
        EventKind::Blocked(reason) => (Stage::Blocked, Some(reason)),
        kind => {
            let (stage, message, data) = notable(kind)?;
            let draft = Draft { ts, tid: Some(tid), stage, message, data, ghost };
            return Some(Item::Notable(draft.cleaned(rules)));
        }
    };
    Some(Item::Turn(TurnDraft { ts, tid, stage, reason, ghost }))
}

/// What is told of what the kernel told; `None`: nothing.
fn notable(kind: EventKind) -> Option<(Stage, Cow<'static, str>, Data)> {
    Some(match kind {
        EventKind::Spawned { parent, name, at } => {
            let name = name.map(|name| name.as_ref().into());
            (Stage::Spawned, "".into(), Data::Spawned { parent, name, at })
        }
        EventKind::Cancelling => (Stage::Cancelling, "".into(), Data::None),
        EventKind::Completed => (Stage::Completed, "".into(), Data::None),
        EventKind::Cancelled => (Stage::Cancelled, "".into(), Data::None),
        EventKind::Failed(error) => {
            let data = Data::Error { code: error.code().into() };
            (Stage::Failed, error.to_string().into(), data)
        }
        EventKind::Shown(shown) => {
            let stage = shown.stage();
            let Shown { what, message } = *shown;
            (stage, message, data_of(what, None))
        }
        kind @ (EventKind::Cycle(_) | EventKind::NotReady | EventKind::Ignored(_)) => {
            let data = Data::Log { level: LogLevel::Warn, step: None };
            (Stage::Log, kind.to_string().into(), data)
        }
        _ => return None,
    })
}

impl Runtime {
    /// The events of all runs of this runtime, for those who want to watch. If it has no log, they are kept from the first time on that this is asked.
    pub fn activity(&self) -> Hub {
        self.host.hub.wake();
        self.host.hub.clone()
    }

    /// Looks whether somebody wants other events than before.
    #[inline]
    pub(crate) fn heed_watchers(&mut self) {
        if self.host.hub.changes() != self.feed.heeded {
            self.heed_changes();
        }
    }

    #[cold]
    fn heed_changes(&mut self) {
        self.feed.heeded = self.host.hub.changes();
        let places: Vec<usize> = self.runs.iter().map(|(place, _)| place).collect();
        for place in places {
            self.heed_for(place);
        }
    }

    /// Lets a run tell what is wanted of it.
    pub(crate) fn heed_for(&mut self, place: usize) {
        let hosted = &mut self.runs[place];
        let id = hosted.run.id();
        let wanted = self.settings.events.max(self.host.tracer.wants(id));
        let task_id = hosted.task_id();
        let watched = match self.host.hub.is_awake() {
            false => Events::Off,
            true if self.host.hub.0.state.lock().wants_turns(task_id) => Events::Turns,
            true => Events::Tasks,
        };
        let wanted = wanted.max(watched);
        if hosted.run.wanted_events() != wanted {
            hosted.run.want_events(wanted);
        }
    }

    /// Tells what a run left in its outbox.
    pub(crate) fn tell_events(&mut self, place: usize) {
        let run = &mut self.runs[place].run;
        if !run.has_events() {
            return;
        }
        let events = self.feed.take(run);
        if self.host.tracer.is_on() {
            events.iter().for_each(|event| self.host.tracer.event(event));
        }
        if self.settings.events == Events::All {
            self.events.extend(events.iter().cloned());
        }
        let task_id = self.runs[place].task_id();
        let has_orders = self.runs[place].run.has_orders();
        let mut events = events;
        if !self.host.hub.is_awake() {
            events.clear();
        }
        let now = self.host.clock.now();
        self.feed.add(&self.host.hub, task_id, Some(now), events);
        // What a step shows comes after what was shown before it began.
        self.feed.hand_over(&self.host.hub, has_orders);
    }

    /// Tells something of a run or of a task of it.
    pub(crate) fn tell_activity(
        &mut self,
        task_id: TaskId,
        tid: Option<Tid>,
        what: (Stage, impl Into<Cow<'static, str>>),
        data: Data,
    ) {
        if self.host.hub.is_awake() && !self.feed.is_muted {
            self.feed.hand_over(&self.host.hub, true);
            self.host.hub.tell(task_id, tid, self.host.clock.now(), what, data);
        }
    }

    /// Tells something that happened then, because the run that it happened to is brought back.
    pub(crate) fn tell_ghost_activity(
        &mut self,
        task_id: TaskId,
        ts: Time,
        (stage, message): (Stage, impl Into<Cow<'static, str>>),
        data: Data,
    ) {
        if self.host.hub.is_awake() && !self.feed.is_muted {
            self.feed.hand_over(&self.host.hub, true);
            let hub = &self.host.hub.0;
            let message = message.into();
            let draft = Draft { ts, tid: None, stage, message, data, ghost: true };
            let draft = draft.cleaned(hub.rules.as_deref());
            let mut state = hub.state.lock();
            state.begin_run(task_id);
            state.add(&hub.settings, task_id, draft);
            self.host.hub.cry(state);
        }
    }

    /// A run is over, and what came of it is safe.
    pub(crate) fn activity_ends(&mut self, task_id: TaskId, error: Option<&RunError>) {
        let (stage, message, data) = match error {
            None => (Stage::Completed, String::new(), Data::None),
            Some(error) => {
                let is_cancelled = error.code() == ErrorKind::TaskCancelled.code();
                let stage = if is_cancelled { Stage::Cancelled } else { Stage::Failed };
                (stage, error.to_string(), Data::Error { code: error.code().into() })
            }
        };
        self.tell_activity(task_id, None, (stage, message), data);
        if self.host.hub.is_awake() {
            self.host.hub.0.state.lock().end_run(task_id);
        }
    }
}
