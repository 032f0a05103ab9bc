//! The events of one run, or of all runs: notable events, turns while a reader wants them, and the
//! readers that wait for more.

use std::sync::Arc;

use tiffany_kernel::{BlockReason, Stage, Tid, Time};

use crate::activity::ring::{Kept, Ring};
use crate::activity::sleeper::Sleeper;
use tiffany_records::activity::{Activity, Data, TaskId};

/// The events of one run, or of all runs.
pub(crate) struct Lane {
    pub(crate) notable: Ring<Arc<Activity>>,
    pub(crate) turns: Ring<Turn>,
    pub(crate) readers: usize,
    pub(crate) turn_readers: usize,
    /// Readers that wait for notable events, and readers that wait for any event.
    pub(crate) waiting: Vec<Arc<Sleeper>>,
    pub(crate) waiting_for_turns: Vec<Arc<Sleeper>>,
    /// Whether the run is finished.
    pub(crate) is_over: bool,
}

/// A turn event: a task runs, waits or is woken. It is converted to an [`Activity`] when it is
/// read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) task_id: TaskId,
    pub(crate) seq: u64,
    pub(crate) ts: Time,
    pub(crate) tid: Tid,
    pub(crate) stage: Stage,
    pub(crate) reason: Option<BlockReason>,
    pub(crate) ghost: bool,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane {
            notable: Ring::new(),
            turns: Ring::new(),
            readers: 0,
            turn_readers: 0,
            waiting: Vec::new(),
            waiting_for_turns: Vec::new(),
            is_over: false,
        }
    }

    pub(crate) fn wants_turns(&self) -> bool {
        self.turn_readers > 0
    }
}

impl Kept for Arc<Activity> {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn is_ghost(&self) -> bool {
        self.ghost
    }

    fn bytes(&self) -> usize {
        Activity::bytes(self)
    }
}

impl Kept for Turn {
    #[inline]
    fn seq(&self) -> u64 {
        self.seq
    }

    #[inline]
    fn is_ghost(&self) -> bool {
        self.ghost
    }

    #[inline]
    fn bytes(&self) -> usize {
        size_of::<Turn>()
    }
}

impl From<Turn> for Activity {
    fn from(turn: Turn) -> Activity {
        let Turn { task_id, seq, ts, tid, stage, reason, ghost } = turn;
        let data = reason.map_or(Data::None, |reason| Data::Blocked { reason });
        let (tid, message) = (Some(tid), "".into());
        Activity { seq, ts, task_id, tid, stage, message, ghost, cut: None, data }
    }
}
