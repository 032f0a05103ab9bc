//! The deadlock report, which says what each task waits for, and the detection of cycles in runs
//! that still have other work.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::calls::semaphore::{Lock, Semaphore, Taken};
use crate::error::{ErrorKind, Site, TaskLabel};
use crate::id::{CallId, Tid};
use crate::outbox::{CallRef, EventKind};
use crate::outstanding::{Calls, Wait};
use crate::run::{Found, Hope, Run};
use crate::state::TaskState;

/// An error for a run in which all tasks wait and nothing can wake them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlockError {
    /// Every task that waits, with what it waits for, ordered by number.
    pub waiting: Vec<Waiting>,
    /// Tasks that wait for each other in a cycle, if there is one.
    pub cycle: Vec<Tid>,
}

/// A task that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The task.
    pub task: TaskLabel,
    /// A description of what the task waits for.
    pub on: String,
    /// The line of the call.
    pub at: Option<Site>,
}

impl DeadlockError {
    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        ErrorKind::Deadlock.code()
    }
}

impl fmt::Display for DeadlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = ErrorKind::Deadlock;
        let count = self.waiting.len();
        match count {
            1 => write!(f, "deadlock: 1 task waits and nothing can wake it")?,
            _ => write!(f, "deadlock: {count} tasks wait and nothing can wake them")?,
        }
        writeln!(f, " [{}]", kind.code())?;
        for waiting in &self.waiting {
            write!(f, "  {} waits for {}", waiting.task, waiting.on)?;
            match &waiting.at {
                Some(site) => writeln!(f, " at {site}")?,
                None => writeln!(f)?,
            }
        }
        if let Some(first) = self.cycle.first() {
            let ring: Vec<String> = self.cycle.iter().map(Tid::to_string).collect();
            writeln!(f, "  cycle: task {} → {first}", ring.join(" → "))?;
        }
        f.write_str(match self.cycle.is_empty() {
            true => "settle, send or release what is waited for, or end the tasks that wait",
            false => kind.next_step(),
        })
    }
}

impl std::error::Error for DeadlockError {}

impl Run {
    /// Returns the tasks that this one needs to continue.
    fn needs(&self, slot: u32) -> Vec<u32> {
        let calls = self.tasks[slot as usize].calls();
        // If several calls are outstanding, any of them may wake the task.
        let Some(wait) = calls.and_then(Calls::only_wait) else { return Vec::new() };
        match wait {
            Wait::Join { task, .. }
            | Wait::Over { task, .. }
            | Wait::Handler { task, .. }
            | Wait::Resolve { task, .. } => vec![task],
            Wait::Gather { set } => {
                let live = |task: &u32| !self.tasks[*task as usize].state().is_terminal();
                let tasks = self.sets[set as usize].items.iter().filter_map(|item| match item.on {
                    Found::Task(task) => Some(task),
                    Found::Promise(_) => None,
                });
                tasks.filter(live).collect()
            }
            Wait::Group { group, .. } => self.rare.groups[group as usize].members().collect(),
            Wait::Acquire { semaphore, .. } => self.keeper(semaphore).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the task that holds a mutex. A permit of a semaphore may have moved to any task, but
    /// a mutex's guard stays in the task that made it.
    fn keeper(&self, semaphore: u32) -> Option<u32> {
        let entry = &self.rare.semaphores[semaphore as usize];
        let taken = entry.taken.filter(|_| entry.lock == Lock::Mutex && entry.permits == 0)?;
        self.is_live(taken).then_some(taken.slot)
    }

    fn is_live(&self, taken: Taken) -> bool {
        let task = self.tasks.get(taken.slot as usize);
        task.is_some_and(|task| task.tid == taken.tid && !task.state().is_terminal())
    }

    /// Whether something outstanding could wake a task.
    pub(crate) fn has_hope(&self) -> bool {
        let Hope { timers, descriptors, effects, externals } = self.hope;
        descriptors + effects + externals > 0 || timers > self.daemon_timers()
    }

    /// Returns the number of timers of daemon tasks that no other task waits for: these wake no
    /// other task. A daemon task that is being cancelled does not count, because its run waits for
    /// it.
    fn daemon_timers(&self) -> usize {
        if self.rare.daemons.is_empty() {
            return 0;
        }
        let timers = |slot: u32| {
            let waits = self.tasks[slot as usize].calls().into_iter().flat_map(Calls::waits);
            waits.filter(|(_, wait, _)| matches!(wait, Wait::Timer { .. })).count()
        };
        let needed = self.needed_daemons();
        let is_idle = |slot: &u32| {
            self.tasks[*slot as usize].state() != TaskState::Cancelling && !needed.contains(slot)
        };
        self.rare.daemons.iter().copied().filter(is_idle).map(timers).sum()
    }

    /// Returns the daemon tasks that another task waits for, directly or through other daemon
    /// tasks.
    fn needed_daemons(&self) -> BTreeSet<u32> {
        let (mut open, mut waits_for) = (Vec::new(), BTreeMap::<u32, Vec<u32>>::new());
        for slot in self.rare.daemons.iter().copied() {
            for waiter in self.waiting_for(slot) {
                match self.is_daemon(waiter) {
                    true => waits_for.entry(waiter).or_default().push(slot),
                    false => open.push(slot),
                }
            }
        }
        let mut needed = BTreeSet::new();
        while let Some(slot) = open.pop() {
            if needed.insert(slot) {
                open.extend(waits_for.get(&slot).into_iter().flatten());
            }
        }
        needed
    }

    /// Returns the tasks that wait for this one, directly or through others.
    pub(crate) fn dependents(&self, slot: u32) -> BTreeSet<u32> {
        let mut seen = BTreeSet::new();
        let mut open = vec![slot];
        while let Some(slot) = open.pop() {
            for waiter in self.waiting_for(slot) {
                if seen.insert(waiter) {
                    open.push(waiter);
                }
            }
        }
        seen
    }

    pub(crate) fn deadlock_report(&self) -> DeadlockError {
        let mut waiting: Vec<Waiting> = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.state().is_terminal())
            .map(|(slot, _)| self.waiting(slot as u32))
            .collect();
        waiting.sort_by_key(|waiting| waiting.task.tid);
        let cycle = self.cycles().into_iter().next().unwrap_or_default();
        let cycle = cycle.into_iter().map(|slot| self.tasks[slot as usize].tid).collect();
        DeadlockError { waiting, cycle }
    }

    /// Returns a text that says what a task waits for, if it waits. `effect` may return the name of
    /// an effect.
    pub(crate) fn waits_for(
        &self,
        slot: u32,
        effect: &dyn Fn(CallRef) -> Option<String>,
    ) -> Option<String> {
        let task = &self.tasks[slot as usize];
        let waits = task.calls().into_iter().flat_map(Calls::waits);
        let told = |call: CallId, wait: &Wait| match wait {
            Wait::Effect | Wait::Approval { .. } => effect(CallRef { run: self.id, slot, call }),
            _ => None,
        };
        let on: Vec<String> = waits
            .map(|(call, wait, _)| told(call, &wait).unwrap_or_else(|| self.describe(&wait)))
            .collect();
        match task.state() {
            _ if !on.is_empty() => Some(on.join(" or ")),
            TaskState::Blocked(_) => Some("a foreign future".into()),
            _ => None,
        }
    }

    fn waiting(&self, slot: u32) -> Waiting {
        let task = self.label(slot);
        let calls = self.tasks[slot as usize].calls();
        let waits = calls.into_iter().flat_map(Calls::waits);
        let on: Vec<String> = waits.map(|(_, wait, _)| self.describe(&wait)).collect();
        let coroutine = self.tasks[slot as usize].coroutine();
        let at = match self.tasks[slot as usize].first_wait() {
            Some((_, at)) => Some(self.site(slot, at)),
            None => coroutine.and_then(|coroutine| coroutine.line()),
        };
        let known = coroutine.and_then(|coroutine| coroutine.waits_for());
        let on = match (on.is_empty(), known, self.tasks[slot as usize].state()) {
            (false, ..) => on.join(" or "),
            (true, Some(known), _) => known.into(),
            (true, None, TaskState::Cancelling) => "the end of its cleanup".into(),
            (true, None, _) => "a foreign future whose waker is gone".into(),
        };
        Waiting { task, on, at }
    }

    /// Returns a text that says what a call waits for.
    fn describe(&self, wait: &Wait) -> String {
        let name = |slot: u32| self.task_name(slot);
        match *wait {
            Wait::Join { task, .. } | Wait::Over { task, .. } => name(task),
            Wait::Handler { task, .. } => format!("its handler ({})", name(task)),
            Wait::Resolve { task, .. } => format!("the environment ({})", name(task)),
            Wait::Promise { promise, .. } | Wait::External { promise, .. } => {
                format!("promise {}", self.promises[promise as usize].id())
            }
            Wait::Gather { set } => format!("all of {}", self.describe_set(set, name)),
            Wait::Race { set } => format!("one of {}", self.describe_set(set, name)),
            Wait::Timer { .. } => "a timer".into(),
            Wait::Io { fd } => format!("descriptor {fd}"),
            Wait::Effect => "an effect".into(),
            Wait::Approval { .. } => "a person".into(),
            Wait::Commit { .. } => "the log".into(),
            Wait::Receive { channel, .. } => {
                let channel = &self.rare.channels[channel as usize];
                match &channel.name {
                    Some(name) => format!("message {name:?}"),
                    None => format!("a message in channel {}", channel.id),
                }
            }
            Wait::Send { channel, .. } => {
                format!("room in channel {}", self.rare.channels[channel as usize].id)
            }
            Wait::Acquire { semaphore, .. } => {
                self.describe_lock(&self.rare.semaphores[semaphore as usize], name)
            }
            Wait::Group { group, .. } => {
                let members = self.in_spawn_order(self.rare.groups[group as usize].members());
                let members = some(members.into_iter().map(name));
                format!("group {} ({members})", self.rare.groups[group as usize].id())
            }
        }
    }

    /// Returns the names of the first few tasks, and how many more there are.
    pub(crate) fn name_some(&self, slots: impl ExactSizeIterator<Item = u32>) -> String {
        some(slots.map(|slot| self.task_name(slot)))
    }

    fn task_name(&self, slot: u32) -> String {
        let tid = self.tasks[slot as usize].tid;
        match self.name(slot) {
            Some(name) => format!("task {tid} `{name}`"),
            None => format!("task {tid}"),
        }
    }

    /// Describes a mutex or a semaphore, with the number of free permits and the task that took the
    /// last one.
    fn describe_lock(&self, entry: &Semaphore, name: impl Fn(u32) -> String) -> String {
        let Semaphore { id, total, permits, .. } = entry;
        let taken = entry.taken.filter(|_| permits < total).map(|taken| {
            let task = match self.is_live(taken) {
                true => name(taken.slot),
                false => format!("task {}, which is over,", taken.tid),
            };
            format!("by {task} at {}", Site::from(taken.at))
        });
        match (entry.lock, taken) {
            (Lock::Mutex, None) => format!("mutex {id}"),
            (Lock::Mutex, Some(taken)) => format!("mutex {id} (locked {taken})"),
            (Lock::Semaphore, taken) => {
                let taken = taken.map(|taken| format!(", last taken {taken}")).unwrap_or_default();
                format!("a permit of semaphore {id} ({permits} of {total} free{taken})")
            }
        }
    }

    /// Describes the items that are not finished: of a thousand, the one that hangs.
    fn describe_set(&self, set: u32, name: impl Fn(u32) -> String) -> String {
        let items = &self.sets[set as usize].items;
        let is_open = |on: Found| match on {
            Found::Task(task) => !self.tasks[task as usize].state().is_terminal(),
            Found::Promise(promise) => self.promises[promise as usize].end().is_none(),
        };
        let open: Vec<Found> = items.iter().map(|item| item.on).filter(|on| is_open(*on)).collect();
        let over = items.len() - open.len();
        let open = some(open.into_iter().map(|on| match on {
            Found::Task(task) => name(task),
            Found::Promise(promise) => {
                format!("promise {}", self.promises[promise as usize].id())
            }
        }));
        match over {
            0 => open,
            over => format!("{open} ({over} of {} over)", items.len()),
        }
    }

    /// Reports cycles of tasks that wait for each other while other tasks can run.
    pub(crate) fn report_cycles(&mut self) {
        if !self.tells_problems() || !std::mem::take(&mut self.waits_changed) {
            return;
        }
        for cycle in self.cycles() {
            let tids: Vec<Tid> = cycle.iter().map(|slot| self.tasks[*slot as usize].tid).collect();
            if self.rare.reported_cycles.insert(tids.clone()) {
                self.problem(cycle[0], EventKind::Cycle(tids));
            }
        }
    }

    /// Returns the cycles of tasks that wait for each other, each starting at its lowest slot.
    fn cycles(&self) -> Vec<Vec<u32>> {
        let mut found = BTreeSet::new();
        let mut done: BTreeSet<u32> = BTreeSet::new();
        for (start, _) in self.tasks.iter() {
            // A depth-first search; `path` is the current path, with the tasks that are left to try
            // from each task on it.
            let mut path: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut place: BTreeMap<u32, usize> = BTreeMap::new();
            let mut enter = Some(start as u32);
            loop {
                if let Some(slot) = enter.take() {
                    if let Some(at) = place.get(&slot) {
                        let ring: Vec<u32> = path[*at..].iter().map(|(slot, _)| *slot).collect();
                        let lowest = (0..ring.len()).min_by_key(|at| ring[*at]).unwrap_or(0);
                        found.insert([&ring[lowest..], &ring[..lowest]].concat());
                    } else if !done.contains(&slot) {
                        place.insert(slot, path.len());
                        path.push((slot, self.needs(slot)));
                    }
                }
                match path.last_mut() {
                    None => break,
                    Some((_, left)) if !left.is_empty() => enter = left.pop(),
                    Some((slot, _)) => {
                        done.insert(*slot);
                        place.remove(slot);
                        path.pop();
                    }
                }
            }
        }
        found.into_iter().collect()
    }
}
/// The number of tasks that are named in one text.
const MAX_NAMED: usize = 8;

/// Lists the first few names, and how many more there are. A task may wait for any number of
/// others.
fn some(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.take(MAX_NAMED).collect::<Vec<String>>().join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
