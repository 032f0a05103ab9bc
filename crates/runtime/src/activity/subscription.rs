//! Reading events: who wants which, and where it stands. A reader takes many at once out of the hub and gives them out one by one.

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

/// What a reader is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// This happened.
    Event(Arc<Activity>),
    /// The reader was too slow, or came too late: so many events before the next one are gone.
    Lost {
        /// How many.
        count: u64,
    },
}

/// Somebody who reads events. It may be taken to any thread. Dropped, it wants nothing any more.
///
/// It is also an [`Iterator`] that waits for the next one, until the runtime is gone.
pub struct Subscription {
    hub: Hub,
    wanted: Wanted,
    notable: Cursor,
    turns: Cursor,
    sleeper: Arc<Sleeper>,
    taken: VecDeque<Taken>,
    lost: u64,
}

/// What was taken out of the hub, as it is there.
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

    /// What it wants.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Whether the runtime is gone. There may be events left to read.
    pub fn is_closed(&self) -> bool {
        self.hub.is_closed()
    }

    /// The error of the runtime's log, once that has failed. There may be events left to read.
    pub fn failure(&self) -> Option<&TaskError> {
        self.hub.failure()
    }

    /// How many events it has lost so far, told or about to be.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The next event, waiting for it. `None`: the runtime is gone, and there is nothing more.
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

    /// The same, waiting so long at most. `Err`: that is over, and nothing came.
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

    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<Told> {
        if self.taken.is_empty() {
            self.take(None);
        }
        self.give()
    }

    /// The same for who waits in an executor: if there is none, the waker is woken when there is. `None`: the runtime is gone, and there is nothing
    /// more.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Told>> {
        if self.taken.is_empty() {
            let is_closed = self.take(Some(cx.waker()));
            if self.taken.is_empty() {
                return if is_closed { Poll::Ready(None) } else { Poll::Pending };
            }
        }
        Poll::Ready(self.give())
    }

    /// Takes a handful out of the hub; if there is nothing, it waits there from now on. `true`: the hub is closed.
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
            Detail::Notable => take_notable(lane, &mut self.notable, ghosts, &mut self.taken),
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

fn take_notable(lane: &Lane, cursor: &mut Cursor, ghosts: bool, into: &mut VecDeque<Taken>) {
    while into.len() < HANDFUL
        && let Some(event) = lane.notable.peek(cursor)
    {
        cursor.pass(event);
        if ghosts || !event.ghost {
            into.push_back(Taken::Event(Arc::clone(event)));
        }
    }
}

/// Notable events and turns, in the order in which they happened.
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

/// Nothing came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing came in time")]
pub struct Timeout;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}
