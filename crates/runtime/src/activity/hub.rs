//! The hub: the events of all runs of a runtime, and where readers subscribe to them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tiffany_kernel::{Showing, Shown, Stage, TaskError, Tid, Time};

use crate::activity::settings::Settings;
use crate::activity::state::{Draft, State};
use crate::activity::subscription::Subscription;
use crate::activity::waker_thread::WakerThread;
use crate::clock::Steady;
use tiffany_log::sync::{Mutex, MutexGuard};
use tiffany_records::activity::{Data, Detail, TaskId, Wanted};
use tiffany_records::redact::Redactions;

/// The events of all runs of a runtime. [`Runtime::activity`](crate::runtime::Runtime::activity)
/// and [`RuntimeHandle::activity`](crate::handle::RuntimeHandle::activity) return it. Clones share
/// the same events and can be moved to any thread.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) epoch: u64,
    pub(crate) settings: Settings,
    /// The time for events without their own; if there is no such clock, the time of the last event
    /// is used.
    clock: Option<Arc<Steady>>,
    /// The redaction rules for events.
    pub(crate) rules: Option<Arc<Redactions>>,
    pub(crate) state: Mutex<State>,
    pub(crate) crier: Arc<WakerThread>,
    /// Whether events are kept, because there may be a reader.
    is_awake: AtomicBool,
    /// Grows whenever readers want other events than before.
    changes: AtomicU64,
    /// Why the runtime's log has failed.
    failure: OnceLock<TaskError>,
}

/// Counts of a hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events that were published.
    pub published: u64,
    /// Events that were dropped before their readers had read them. Events that were gone before a
    /// reader subscribed are reported to it, but not counted here.
    pub lost: u64,
    /// The present number of readers.
    pub readers: usize,
    /// The present number of bytes that are kept.
    pub bytes: usize,
}

impl Hub {
    pub(crate) fn new(
        settings: Settings,
        epoch: u64,
        clock: Option<Arc<Steady>>,
        rules: Option<Arc<Redactions>>,
    ) -> Hub {
        Hub(Arc::new(Shared {
            epoch,
            settings,
            clock,
            rules,
            state: Mutex::new(State::new()),
            crier: Arc::default(),
            is_awake: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            failure: OnceLock::new(),
        }))
    }

    /// Drawn when the hub was created, below 2^53. Event numbers of different epochs can't be
    /// compared: a reader that reconnects and finds another epoch starts from the beginning.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// The number that the next event will have. They begin with 1.
    pub fn next_seq(&self) -> u64 {
        self.0.state.lock().next_seq
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let state = self.0.state.lock();
        Counts {
            published: state.next_seq - 1,
            lost: state.lost,
            readers: state.readers,
            bytes: state.bytes(),
        }
    }

    /// Whether the runtime is gone, so that no more events will come.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().is_closed
    }

    /// Subscribes to events: from now on, or also to earlier ones that are still kept.
    pub fn subscribe(&self, wanted: Wanted) -> Subscription {
        self.wake();
        let subscription = Subscription::new(self.clone(), wanted);
        if subscription.wanted().detail == Detail::All {
            self.note_change();
        }
        subscription
    }

    /// Begins to keep events. A runtime with a log does so from the start, other runtimes when the
    /// hub is first asked for.
    pub(crate) fn wake(&self) {
        if !self.0.is_awake.swap(true, Ordering::SeqCst) {
            self.note_change();
        }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.0.is_awake.load(Ordering::Relaxed)
    }

    pub(crate) fn note_change(&self) {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often the wanted events have changed.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }

    /// Publishes one event, from any thread.
    pub(crate) fn tell(
        &self,
        task_id: TaskId,
        tid: Option<Tid>,
        ts: Time,
        (stage, message): (Stage, impl Into<std::borrow::Cow<'static, str>>),
        data: Data,
    ) {
        if !self.is_awake() {
            return;
        }
        let draft = Draft { ts, tid, stage, message: message.into(), data, ghost: false };
        let draft = draft.cleaned(self.0.rules.as_deref());
        let mut state = self.0.state.lock();
        state.add(&self.0.settings, task_id, draft);
        self.cry(state);
    }

    /// Publishes what the work of a step shows, from its thread.
    pub(crate) fn show(&self, task_id: TaskId, tid: Tid, step: &'static str, shown: Shown) {
        if !self.is_awake() {
            return;
        }
        let stage = shown.stage();
        let (message, data) = (shown.message, data_of(shown.what, Some(step)));
        let ts = self.0.clock.as_ref().map_or_else(|| self.0.state.lock().now, |clock| clock.now());
        let draft = Draft { ts, tid: Some(tid), stage, message, data, ghost: false };
        let draft = draft.cleaned(self.0.rules.as_deref());
        let mut state = self.0.state.lock();
        state.add(&self.0.settings, task_id, draft);
        self.cry(state);
    }

    /// Has the waker thread wake the readers that wait for the new events.
    pub(crate) fn cry(&self, mut state: MutexGuard<'_, State>) {
        if state.awake.is_empty() {
            return;
        }
        let mut awake = std::mem::take(&mut state.awake);
        drop(state);
        self.0.crier.wake(&mut awake);
    }

    /// The error of the runtime's log, if it has failed. No durable run continues then before a
    /// restart.
    pub fn failure(&self) -> Option<&TaskError> {
        self.0.failure.get()
    }

    /// Notes that the log has failed. Waiting readers are woken and see [`failure`](Hub::failure).
    pub(crate) fn fail(&self, error: TaskError) {
        drop(self.0.failure.set(error));
        self.wake_all(self.0.state.lock());
    }

    /// Notes that the runtime is gone. Waiting readers are told that no more events will come.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        self.wake_all(state);
    }

    /// Wakes all waiting readers.
    fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        let State { all, runs, awake, .. } = &mut *state;
        for lane in std::iter::once(all).chain(runs.values_mut()) {
            awake.append(&mut lane.waiting);
            awake.append(&mut lane.waiting_for_turns);
        }
        self.cry(state);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("epoch", &self.0.epoch).finish_non_exhaustive()
    }
}

/// The event data of something that was shown.
pub(crate) fn data_of(what: Showing, step: Option<&'static str>) -> Data {
    match what {
        Showing::Progress { done, total } => Data::Progress { done, total, step },
        Showing::Log(level) => Data::Log { level, step },
        Showing::Output(stream) => Data::Output { stream, step },
        _ => Data::None,
    }
}
