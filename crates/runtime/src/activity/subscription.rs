//! Subscriptions: which events a reader wants, and its position. A reader takes events from the hub
//! in batches and returns them one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tiffany_kernel::TaskError;
use tiffany_records::activity::{Activity, Detail, Wanted};

use crate::activity::hub::Hub;
use crate::activity::lane::{Lane, Turn};
use crate::activity::ring::{Cursor, Kept};
use crate::activity::sleeper::Sleeper;

/// How many events a reader takes at once.
const HANDFUL: usize = 128;

/// What a reader receives.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An event.
    Event(Arc<Activity>),
    /// Events before the next one are gone, because the reader was too slow or subscribed too late.
    Lost {
        /// The number of lost events.
        count: u64,
    },
}

/// A reader of events. It can be moved to any thread. Dropping it ends the subscription.
///
/// It is also an [`Iterator`], which waits for the next event until the runtime is gone.
pub struct Subscription {
    hub: Hub,
    wanted: Wanted,
    notable: Cursor,
    turns: Cursor,
    sleeper: Arc<Sleeper>,
    taken: VecDeque<Taken>,
    lost: u64,
}

/// What was taken out of the hub, in the hub's form.
enum Taken {
    Event(Arc<Activity>),
    Turn(Turn),
    Lost(u64),
}

impl Subscription {
    pub(crate) fn new(hub: Hub, wanted: Wanted) -> Subscription {
        let mut guard = hub.0.state.lock();
        let state = &mut *guard;
        state.readers += 1;
        let (next_seq, mut is_first) = (state.next_seq, false);
        let lane = match wanted.run {
            None => &mut state.all,
            Some(run) => state.lane(run, &hub.0.settings),
        };
        lane.readers += 1;
        if wanted.detail == Detail::All {
            lane.turn_readers += 1;
            is_first = lane.turn_readers == 1;
        }
        let from = wanted.from.unwrap_or(next_seq);
        let (notable, gone) = lane.notable.from(from, wanted.ghosts);
        let (turns, _) = lane.turns.from(from, wanted.ghosts);
        state.turn_lanes += usize::from(is_first);
        drop(guard);
        let taken = (gone > 0).then_some(Taken::Lost(gone)).into_iter().collect();
        let sleeper = Arc::new(Sleeper::new());
        Subscription { hub, wanted, notable, turns, sleeper, taken, lost: gone }
    }

    /// The events that this subscription is for.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether the runtime is gone. There may still be events to read.
    pub fn is_closed(&self) -> bool {
        self.hub.is_closed()
    }

    /// The error of the runtime's log, if it has failed. There may still be events to read.
    pub fn failure(&self) -> Option<&TaskError> {
        self.hub.failure()
    }

    /// How many events the reader has lost so far, including those that it is about to be told of.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits for the next event. Returns `None` when the runtime is gone and all events were read.
    #[allow(clippy::should_implement_trait)] // It is one, too; this way it needs no import.
    pub fn next(&mut self) -> Option<Told> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match self.poll_next(&mut Context::from_waker(&waker)) {
                Poll::Ready(told) => return told,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Waits for the next event, but not longer than `time`. Returns `Err` if that has passed and
    /// no event came.
    pub fn next_timeout(&mut self, time: Duration) -> Result<Option<Told>, Timeout> {
        let until = Instant::now() + time;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Poll::Ready(told) = self.poll_next(&mut Context::from_waker(&waker)) {
                return Ok(told);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Timeout);
            }
            std::thread::park_timeout(left);
        }
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Told> {
        if self.taken.is_empty() {
            self.take(None);
        }
        self.give()
    }

    /// The next event, for readers in an executor: if there is none, the waker is woken when one
    /// comes. `None` means that the runtime is gone and all events were read.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        if self.taken.is_empty() {
            let is_closed = self.take(Some(cx.waker()));
            if self.taken.is_empty() {
                return if is_closed { Poll::Ready(None) } else { Poll::Pending };
            }
        }
        Poll::Ready(self.give())
    }

    /// Takes a batch out of the hub. If there is nothing to take, the reader is listed as waiting.
    /// Returns `true` if the hub is closed.
    fn take(&mut self, waker: Option<&Waker>) -> bool {
        let mut guard = self.hub.0.state.lock();
        let state = &mut *guard;
        let lane = match self.wanted.run {
            None => &mut state.all,
            Some(run) => match state.runs.get_mut(&run) {
                Some(lane) => lane,
                None => unreachable!("a run that is read is not forgotten"),
            },
        };
        let ghosts = self.wanted.ghosts;
        let mut lost = lane.notable.catch_up(&mut self.notable, ghosts);
        if self.wanted.detail == Detail::All {
            lost += lane.turns.catch_up(&mut self.turns, ghosts);
        }
        if lost > 0 {
            self.taken.push_back(Taken::Lost(lost));
            self.lost += lost;
            state.lost += lost;
        }
        match self.wanted.detail {
            Detail::Notable => {
                take_notable(lane, &mut self.notable, &self.wanted, &mut self.taken);
            }
            Detail::All => {
                let cursors = (&mut self.notable, &mut self.turns);
                take_all(lane, cursors, ghosts, &mut self.taken);
            }
        }
        if let Some(waker) = waker
            && self.taken.is_empty()
            && self.sleeper.waits(waker)
        {
            match self.wanted.detail {
                Detail::Notable => lane.waiting.push(Arc::clone(&self.sleeper)),
                Detail::All => lane.waiting_for_turns.push(Arc::clone(&self.sleeper)),
            }
        }
        state.is_closed
    }

    fn give(&mut self) -> Option<Told> {
        Some(match self.taken.pop_front()? {
            Taken::Event(event) => Told::Event(event),
            Taken::Turn(turn) => Told::Event(Arc::new(turn.into())),
            Taken::Lost(count) => Told::Lost { count },
        })
    }
}

fn take_notable(lane: &Lane, cursor: &mut Cursor, wanted: &Wanted, into: &mut VecDeque<Taken>) {
    while into.len() < HANDFUL
        && let Some(event) = lane.notable.peek(cursor)
    {
        cursor.pass(event);
        if wanted.takes(event) {
            into.push_back(Taken::Event(Arc::clone(event)));
        }
    }
}

/// Takes notable events and turns, in the order in which they happened.
fn take_all(
    lane: &Lane,
    (notable, turns): (&mut Cursor, &mut Cursor),
    ghosts: bool,
    into: &mut VecDeque<Taken>,
) {
    while into.len() < HANDFUL {
        match (lane.notable.peek(notable), lane.turns.peek(turns)) {
            (Some(event), turn) if turn.is_none_or(|turn| event.seq < turn.seq) => {
                notable.pass(event);
                if ghosts || !event.ghost {
                    into.push_back(Taken::Event(Arc::clone(event)));
                }
            }
            (_, Some(turn)) => {
                turns.pass(turn);
                if ghosts || !turn.is_ghost() {
                    into.push_back(Taken::Turn(*turn));
                }
            }
            _ => return,
        }
    }
}

impl Iterator for Subscription {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        Subscription::next(self)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut guard = self.hub.0.state.lock();
        let state = &mut *guard;
        state.readers -= 1;
        let lane = match self.wanted.run {
            None => Some(&mut state.all),
            Some(run) => state.runs.get_mut(&run),
        };
        if let Some(lane) = lane {
            lane.readers -= 1;
            let is_other = |sleeper: &Arc<Sleeper>| !Arc::ptr_eq(sleeper, &self.sleeper);
            match self.wanted.detail {
                Detail::Notable => lane.waiting.retain(is_other),
                Detail::All => {
                    lane.waiting_for_turns.retain(is_other);
                    lane.turn_readers -= 1;
                    if lane.turn_readers == 0 {
                        lane.turns.clear();
                        state.turn_lanes -= 1;
                    }
                }
            }
        }
        if let Some(run) = self.wanted.run {
            state.left(run);
        }
        drop(guard);
        if self.wanted.detail == Detail::All {
            self.hub.note_change();
        }
    }
}

/// The error of a wait that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing came in time")]
pub struct Timeout;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}
