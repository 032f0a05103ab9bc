//! The loop's side of the live events: at which level each run reports, and events on their way to
//! the hub. Events are handed over once per round. If a reader holds the lock, they are handed over
//! with the next round, because the loop waits for no reader while a task could run.

use std::borrow::Cow;

use tiffany_kernel::{ErrorKind, Event, EventKind, Events, LogLevel, Run, Shown, Stage, Tid, Time};

use crate::activity::hub::Hub;
use crate::activity::hub::data_of;
use crate::activity::settings::Settings;
use crate::activity::state::{Clean, Draft, State, TurnDraft};
use crate::host::Host;
use crate::runtime::hosted_runs::{Hosted, HostedRuns};
use tiffany_records::RunError;
use tiffany_records::activity::{Data, TaskId};
use tiffany_records::redact::Redactions;

/// The number of events that may wait for a reader to release the lock.
const MAX_WAITING_EVENTS: usize = 4096;

/// Events that are not in the hub yet.
#[derive(Default)]
pub(crate) struct Feed {
    batches: Vec<Batch>,
    waiting: usize,
    /// Lists that were emptied, to be filled again.
    spare: Vec<Vec<Event>>,
    /// The levels that the hub wanted when they were last read.
    heeded: u64,
    /// The lowest level of all runs. If that is everything, events are kept here for the test kit.
    wanted: Events,
    pub(crate) kept: Vec<Event>,
    /// Whether runs are only tried out, so that nothing is published.
    pub(crate) is_muted: bool,
}

/// Events of one run.
struct Batch {
    task_id: TaskId,
    /// When they are published. Ghosts have times of their own.
    ts: Option<Time>,
    events: Vec<Event>,
    /// Events from which secrets have been removed; `events` is empty then.
    cleaned: Vec<Item>,
}

/// Events of the kernel in the form of the hub.
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

    /// The events of a replay, as ghosts.
    pub(crate) fn add_ghosts(&mut self, hub: &Hub, task_id: TaskId, run: &mut Run) {
        if self.is_muted || !hub.is_awake() {
            return drop(run.take_events());
        }
        let events = self.take(run);
        self.add(hub, task_id, None, events);
        self.hand_over(hub, self.waiting > MAX_WAITING_EVENTS);
    }

    /// Hands the events over. Waits for a reader only if it must.
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

/// The event for the hub of one event of the kernel, if there is one.
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

/// The data of an event of the kernel, if it has any.
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

impl Feed {
    /// For a runtime whose runs tell at least these events.
    pub(crate) fn new(wanted: Events) -> Feed {
        Feed { wanted, ..Feed::default() }
    }

    /// Checks whether readers want other events than before.
    #[inline]
    pub(crate) fn heed_watchers(&mut self, host: &Host, runs: &mut HostedRuns) {
        if host.hub.changes() != self.heeded {
            self.heed_changes(host, runs);
        }
    }

    #[cold]
    fn heed_changes(&mut self, host: &Host, runs: &mut HostedRuns) {
        self.heeded = host.hub.changes();
        runs.iter_mut().for_each(|hosted| self.heed_for(host, hosted));
    }

    /// Sets the level at which a run reports.
    pub(crate) fn heed_for(&self, host: &Host, hosted: &mut Hosted) {
        let id = hosted.run.id();
        let wanted = self.wanted.max(host.tracer.wants(id));
        let watched = match host.hub.is_awake() {
            false => Events::Off,
            true if host.hub.0.state.lock().wants_turns(hosted.task_id()) => Events::Turns,
            true => Events::Tasks,
        };
        let wanted = wanted.max(watched);
        if hosted.run.wanted_events() != wanted {
            hosted.run.want_events(wanted);
        }
    }

    /// Publishes the events that a run left in its outbox.
    pub(crate) fn tell_events(&mut self, host: &Host, hosted: &mut Hosted) {
        if !hosted.run.has_events() {
            return;
        }
        let mut events = self.take(&mut hosted.run);
        if host.tracer.is_on() {
            events.iter().for_each(|event| host.tracer.event(event));
        }
        if self.wanted == Events::All {
            self.kept.extend(events.iter().cloned());
        }
        if !host.hub.is_awake() {
            events.clear();
        }
        self.add(&host.hub, hosted.task_id(), Some(host.clock.now()), events);
        // The output of a step comes after the events before it began.
        self.hand_over(&host.hub, hosted.run.has_orders());
    }

    /// Publishes an event of a run or of a task.
    pub(crate) fn tell(
        &mut self,
        host: &Host,
        (task_id, tid): (TaskId, Option<Tid>),
        what: (Stage, impl Into<Cow<'static, str>>),
        data: Data,
    ) {
        if host.hub.is_awake() && !self.is_muted {
            self.hand_over(&host.hub, true);
            host.hub.tell(task_id, tid, host.clock.now(), what, data);
        }
    }

    /// Publishes an earlier event of a run that is being resumed.
    pub(crate) fn tell_ghost(
        &mut self,
        host: &Host,
        (task_id, ts): (TaskId, Time),
        (stage, message): (Stage, impl Into<Cow<'static, str>>),
        data: Data,
    ) {
        if host.hub.is_awake() && !self.is_muted {
            self.hand_over(&host.hub, true);
            let hub = &host.hub.0;
            let message = message.into();
            let draft = Draft { ts, tid: None, stage, message, data, ghost: true };
            let draft = draft.cleaned(hub.rules.as_deref());
            let mut state = hub.state.lock();
            state.begin_run(task_id);
            state.add(&hub.settings, task_id, draft);
            host.hub.cry(state);
        }
    }

    /// Publishes the end of a run whose outcome is durable.
    pub(crate) fn run_ends(&mut self, host: &Host, task_id: TaskId, error: Option<&RunError>) {
        let (stage, message, data) = match error {
            None => (Stage::Completed, String::new(), Data::None),
            Some(error) => {
                let is_cancelled = error.code() == ErrorKind::TaskCancelled.code();
                let stage = if is_cancelled { Stage::Cancelled } else { Stage::Failed };
                (stage, error.to_string(), Data::Error { code: error.code().into() })
            }
        };
        self.tell(host, (task_id, None), (stage, message), data);
        if host.hub.is_awake() {
            host.hub.0.state.lock().end_run(task_id);
        }
    }
}
