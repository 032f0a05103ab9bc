//! The runs of a runtime and the order of their turns: the line of runs with ready tasks, the deadlines
//! of runs with timers, and the runs to be checked for a deadlock. It gives no turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};
use std::rc::Rc;

use slab::Slab;
use tiffany_kernel::{Run, RunId, Time};

use crate::runtime::durable::DurableState;
use tiffany_records::activity::TaskId;

/// A run in its runtime.
pub(crate) struct Hosted {
    pub(crate) run: Run,
    /// The durable side, if the run is durable.
    pub(crate) durable_state: Option<Box<DurableState>>,
    /// Its clock when it was added.
    since: Time,
    /// It has its turn, or is in the line for it.
    in_line: bool,
    /// Its deadline in the list of deadlines.
    armed: Option<Time>,
}

impl Hosted {
    /// Notes that it has had its turn, or has left the line without one.
    #[inline]
    pub(crate) fn leave_turn(&mut self) {
        self.in_line = false;
    }

    /// The identity of the run in live events.
    pub(crate) fn task_id(&self) -> TaskId {
        match &self.durable_state {
            Some(durable_state) => durable_state.uuid().into(),
            None => self.run.id().into(),
        }
    }

    /// Its function (ephemeral runs have none), and when it was started.
    pub(crate) fn beginning(&self) -> (Rc<str>, Time) {
        match &self.durable_state {
            Some(durable_state) => durable_state.began(),
            None => ("".into(), self.since),
        }
    }
}

/// All runs of a runtime. A run keeps its place while it exists, and its next generation takes the
/// same place.
#[derive(Default)]
pub(crate) struct HostedRuns {
    /// Each is in a box, so that a growing list does not move them, nor reserve room for as many
    /// again.
    all: Slab<Box<Hosted>>,
    places: BTreeMap<RunId, usize>,
    /// Runs with ready tasks, in the order of their turns. The next one has a place of its own, because
    /// nearly always there is just one run.
    next: Option<usize>,
    turns: VecDeque<usize>,
    /// When the next timer of each run is due.
    deadlines: BTreeSet<(Time, usize)>,
    /// Runs that have stalled since they were last checked for a deadlock.
    stalled: BTreeSet<RunId>,
}

impl Index<usize> for HostedRuns {
    type Output = Hosted;

    #[inline]
    fn index(&self, place: usize) -> &Hosted {
        &self.all[place]
    }
}

impl IndexMut<usize> for HostedRuns {
    #[inline]
    fn index_mut(&mut self, place: usize) -> &mut Hosted {
        &mut self.all[place]
    }
}

impl HostedRuns {
    /// The place of a run.
    #[inline]
    pub(crate) fn place(&self, id: RunId) -> Option<usize> {
        self.places.get(&id).copied()
    }

    /// The place of a run that is known to be here.
    pub(crate) fn place_of_live(&self, id: RunId) -> usize {
        self.places[&id]
    }

    /// The place of a run, if it is durable.
    #[inline]
    pub(crate) fn durable_place(&self, id: RunId) -> Option<usize> {
        let place = self.place(id)?;
        self.all[place].durable_state.as_ref().map(|_| place)
    }

    pub(crate) fn has(&self, id: RunId) -> bool {
        self.places.contains_key(&id)
    }

    /// The run with this number.
    pub(crate) fn of(&self, id: RunId) -> Option<&Hosted> {
        self.place(id).map(|place| &*self.all[place])
    }

    pub(crate) fn of_mut(&mut self, id: RunId) -> Option<&mut Hosted> {
        self.place(id).map(|place| &mut *self.all[place])
    }

    /// The durable side of a run, if it is durable.
    pub(crate) fn durable_state(&self, id: RunId) -> Option<&DurableState> {
        self.of(id)?.durable_state.as_deref()
    }

    pub(crate) fn durable_state_mut(&mut self, id: RunId) -> Option<&mut DurableState> {
        self.of_mut(id)?.durable_state.as_deref_mut()
    }

    /// The run at this place, which may be gone.
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Hosted> {
        self.all.get_mut(place).map(|hosted| &mut **hosted)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Hosted> {
        self.all.iter().map(|(_, hosted)| &**hosted)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Hosted> {
        self.all.iter_mut().map(|(_, hosted)| &mut **hosted)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = RunId> {
        self.places.keys().copied()
    }

    /// Adds a run.
    pub(crate) fn insert(&mut self, run: Run, durable_state: Option<Box<DurableState>>) -> usize {
        let (id, since) = (run.id(), run.clock());
        let hosted = Hosted { run, durable_state, since, in_line: false, armed: None };
        let place = self.all.insert(Box::new(hosted));
        self.places.insert(id, place);
        place
    }

    /// Puts a run at the place of another one, which is gone.
    pub(crate) fn replace(&mut self, place: usize, run: Run) {
        self.places.remove(&self.all[place].run.id());
        self.places.insert(run.id(), place);
        self.all[place].run = run;
    }

    /// Takes a run out, with its turn and its deadline.
    pub(crate) fn remove(&mut self, id: RunId) -> Option<(usize, Box<Hosted>)> {
        let place = self.places.remove(&id)?;
        let hosted = self.all.remove(place);
        if hosted.in_line {
            self.leave_line(place);
        }
        if let Some(deadline) = hosted.armed {
            self.deadlines.remove(&(deadline, place));
        }
        Some((place, hosted))
    }

    /// Drops all runs. Their numbers stay known.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// The run whose turn is next.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<usize> {
        match self.next.take() {
            Some(place) => {
                self.next = self.turns.pop_front();
                Some(place)
            }
            None => None,
        }
    }

    /// Whether a run is in line.
    #[inline]
    pub(crate) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// How many runs wait for a turn.
    pub(crate) fn in_line(&self) -> usize {
        self.turns.len() + usize::from(self.next.is_some())
    }

    /// Puts a run in line for a turn if one of its tasks is ready, and puts its deadline in the list.
    #[inline]
    pub(crate) fn line_up(&mut self, place: usize) {
        let hosted = &mut self.all[place];
        if hosted.run.is_ready() && !hosted.in_line {
            hosted.in_line = true;
            self.take_turn(place);
        }
        let hosted = &mut self.all[place];
        let deadline = hosted.run.next_deadline();
        if deadline != hosted.armed {
            let armed = std::mem::replace(&mut hosted.armed, deadline);
            if let Some(armed) = armed {
                self.deadlines.remove(&(armed, place));
            }
            if let Some(deadline) = deadline {
                self.deadlines.insert((deadline, place));
            }
        }
    }

    /// Puts a run at the end of the line.
    #[inline]
    pub(crate) fn take_turn(&mut self, place: usize) {
        match self.next {
            None => self.next = Some(place),
            Some(_) => self.turns.push_back(place),
        }
    }

    /// Takes a run out of the line. A finished run can still be in line, with finished tasks in its queue.
    #[cold]
    fn leave_line(&mut self, place: usize) {
        self.turns.retain(|other| *other != place);
        if self.next == Some(place) {
            self.next = self.turns.pop_front();
        }
    }

    /// Does something to a run, which may make it ready or change its timers.
    pub(crate) fn with(&mut self, id: RunId, act: impl FnOnce(&mut Run)) {
        if let Some(place) = self.place(id) {
            act(&mut self.all[place].run);
            self.line_up(place);
        }
    }

    /// When the next timer of a run is due.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Advances the run whose timer is due first, and returns when it was due and the place of the run. `None`: no timer is due.
    pub(crate) fn fire_timer(&mut self, now: Time) -> Option<(Time, usize)> {
        let (deadline, place) = self.deadlines.first().copied()?;
        if deadline > now {
            return None;
        }
        self.all[place].run.advance(now);
        self.line_up(place);
        Some((deadline, place))
    }

    /// Notes that a run has stalled.
    #[inline]
    pub(crate) fn stall(&mut self, id: RunId) {
        self.stalled.insert(id);
    }

    /// Returns the runs that have stalled since the last call.
    pub(crate) fn take_stalled(&mut self) -> BTreeSet<RunId> {
        std::mem::take(&mut self.stalled)
    }

    /// Forgets a run that is gone, and so cannot be deadlocked.
    pub(crate) fn forget_stalled(&mut self, id: RunId) {
        self.stalled.remove(&id);
    }
}
