//! A dormant run as plain data, and a run restored from that. A run can be saved if every task is a
//! serializable state machine that waits in one call, which its state can make again. The host
//! decides how the data is stored.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::call::{CallKind, SystemCall};
use crate::calls::promise::Promise;
use crate::config::RunConfig;
use crate::coroutine::BoxCoroutine;
use crate::error::TaskError;
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid, Uuid};
use crate::outstanding::Wait;
use crate::record::{About, CallRecord};
use crate::run::Run;
use crate::state::TaskState;
use crate::store::Scope;
use crate::task::{Body, Mark, Outcome, Task};
use crate::time::Time;
use crate::value::Value;

/// The state of a coroutine, from which it can be restored.
pub struct Saved {
    /// The name of the state machine's type.
    pub agent: Rc<str>,
    /// The state, as JSON.
    pub state: String,
    /// The call that the coroutine makes in this state.
    pub wants: SystemCall,
}

/// The tables of a dormant run.
pub struct Tables {
    /// The number of turns that the tasks have taken.
    pub steps: u64,
    /// The state of the random number generator.
    pub random: u64,
    /// The number of the next task.
    pub next_tid: u64,
    /// The number of the next promise or channel.
    pub next_object: u64,
    /// The number of tasks and promises that have ended.
    pub ends: u64,
    /// The number of calls so far.
    pub calls: u64,
    /// The cost of all calls so far.
    pub cost: u64,
    /// The branch that the run takes at each change of the program.
    pub patches: Vec<(Rc<str>, bool)>,
    /// The live tasks, in the order in which they began to wait.
    pub tasks: Vec<LiveTask>,
    /// Ended tasks whose results may be requested.
    pub ended: Vec<EndedTask>,
    /// The external promises.
    pub promises: Vec<HeldPromise>,
    /// Failures that were not delivered to any task.
    pub unobserved: Vec<TaskError>,
}

/// A task that waits.
pub struct LiveTask {
    /// The task's number.
    pub tid: Tid,
    /// The name of the state machine's type.
    pub agent: Rc<str>,
    /// The task's state, as JSON.
    pub state: String,
    /// The task's name.
    pub name: Option<Rc<str>>,
    /// The task's priority.
    pub priority: u8,
    /// Whether the task's handle exists.
    pub is_held: bool,
    /// The length of the task's log when it was spawned.
    pub log_base: u32,
    /// The task's store.
    pub store: Vec<(Rc<str>, Value)>,
    /// The task's log.
    pub log: Vec<Value>,
    /// When the task's sleep ends, if it sleeps.
    pub until: Option<Time>,
    /// Whether the task is a daemon task.
    pub daemon: bool,
}

/// A task that has ended.
pub struct EndedTask {
    /// The task's number.
    pub tid: Tid,
    /// The task's final state.
    pub state: TaskState,
    /// The task's error, or its value unless that was taken.
    pub outcome: Result<Option<Value>, TaskError>,
    /// The task's position in the order in which tasks and promises ended.
    pub ended: u64,
    /// Whether the task's failure was delivered to a task.
    pub is_observed: bool,
}

/// An external promise.
pub struct HeldPromise {
    /// The promise's number.
    pub id: u64,
    /// The promise's UUID.
    pub uuid: Uuid,
    /// The result that the promise was settled with, and its position in the order in which tasks
    /// and promises ended.
    pub settled: Option<(Result<Value, TaskError>, u64)>,
    /// Whether a task has the promise's handle.
    pub is_held: bool,
}

/// The references that the tasks and promises of a restored run will have.
pub struct Names {
    run: RunId,
    tasks: BTreeMap<Tid, u32>,
    promises: BTreeMap<u64, u32>,
}

impl Names {
    /// Returns the reference of a task, by its number.
    pub fn task(&self, tid: Tid) -> Option<TaskRef> {
        self.tasks.get(&tid).map(|slot| TaskRef { run: self.run, slot: *slot, tid })
    }

    /// Returns the reference of a promise, by its number.
    pub fn promise(&self, id: u64) -> Option<ObjectRef> {
        self.promises.get(&id).map(|slot| ObjectRef { run: self.run, slot: *slot, id })
    }
}

impl Tables {
    /// Returns the references that all objects will have in the run with this number.
    pub fn names(&self, run: RunId) -> Names {
        let tids =
            self.tasks.iter().map(|task| task.tid).chain(self.ended.iter().map(|task| task.tid));
        let tasks = tids.zip(0..).collect();
        let promises = self.promises.iter().map(|promise| promise.id).zip(0..).collect();
        Names { run, tasks, promises }
    }
}

/// A live task with its slot, its call and what the call waits for.
struct Found {
    slot: u32,
    call: CallId,
    wait: Wait,
}

impl Run {
    /// Returns the tables of this run, and the call that each live task waits in. The error says
    /// why the run can't be saved now.
    pub fn tables(&self) -> Result<(Tables, Vec<CallRecord>), String> {
        self.stands_still()?;
        let mut live = self.live_calls()?;
        live.sort_by_key(|found| found.call);
        let deadlines = self.timers.deadlines();
        let (mut tasks, mut calls) = (Vec::new(), Vec::new());
        let mut in_making = Vec::new();
        for Found { slot, call, wait } in live {
            let until = match wait {
                Wait::Timer { timer } => deadlines.get(&timer).copied(),
                Wait::Commit { promise } => {
                    in_making.push(promise as usize);
                    None
                }
                _ => None,
            };
            let (task, record) = self.save_task(slot, call, wait, until)?;
            tasks.push(task);
            calls.push(record);
        }
        let mut promises = Vec::new();
        for (slot, promise) in self.promises.iter().filter(|(slot, _)| !in_making.contains(slot)) {
            let uuid = promise.uuid().ok_or("it has a promise that is not external")?;
            let settled = promise.end().map(|(outcome, ended)| (outcome.share(), ended));
            let is_held = self.promises[slot].writer;
            promises.push(HeldPromise { id: promise.id(), uuid, settled, is_held });
        }
        let tables = Tables {
            steps: self.steps,
            random: self.random,
            next_tid: self.next_tid,
            next_object: self.next_object,
            ends: self.next_end,
            calls: self.calls_made,
            cost: self.cost,
            patches: self.rare.patches.iter().map(|(id, way)| (Rc::clone(id), *way)).collect(),
            tasks,
            ended: self.ended_tasks(),
            promises,
            unobserved: self.rare.unobserved.clone(),
        };
        Ok((tables, calls))
    }

    /// Returns the messages from outside that no task has received, by name and in order.
    pub fn messages(&self) -> Vec<(Rc<str>, Value)> {
        self.waiting_messages()
    }

    fn stands_still(&self) -> Result<(), String> {
        let no = |why: &str| Err(why.to_owned());
        if self.is_ready() {
            return no("a task is ready");
        }
        if self.failure().is_some() || self.tasks[self.root as usize].end().is_some() {
            return no("its root is finished");
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= self.clock) {
            return no("a timer is due");
        }
        if self.rare.channels.len() > self.rare.inboxes.len()
            || !self.rare.semaphores.is_empty()
            || !self.rare.groups.is_empty()
        {
            return no("it has a channel, a lock or a group");
        }
        if self.env.is_resolved() {
            return no("it has found out a part of its environment");
        }
        Ok(())
    }

    fn live_calls(&self) -> Result<Vec<Found>, String> {
        let mut live = Vec::new();
        for (slot, task) in self.tasks.iter() {
            let Body::Live { calls, .. } = &task.body else { continue };
            let TaskState::Blocked(_) = task.state() else {
                return Err(format!("task {} is {}", task.tid, task.state()));
            };
            let (call, wait, _) = calls.only_call().ok_or("a task waits in several calls")?;
            if let Wait::Handler { .. } | Wait::Resolve { .. } | Wait::Io { .. } = wait {
                return Err(format!("task {} waits for another than itself", task.tid));
            }
            if let Wait::Approval { .. } = wait {
                return Err(format!("task {} waits for a person", task.tid));
            }
            live.push(Found { slot: slot as u32, call, wait });
        }
        Ok(live)
    }

    fn save_task(
        &self,
        slot: u32,
        call: CallId,
        wait: Wait,
        until: Option<Time>,
    ) -> Result<(LiveTask, CallRecord), String> {
        let task = &self.tasks[slot as usize];
        let tid = task.tid;
        let saved = task.coroutine().and_then(|coroutine| coroutine.save());
        let saved =
            saved.ok_or_else(|| format!("task {tid} is not a serializable state machine"))?;
        let Saved { agent, state, wants } =
            saved.map_err(|error| format!("task {tid}: {}", error.message()))?;
        let (_, _, at) = task.calls().and_then(|calls| calls.only_call()).ok_or("it waits")?;
        let wants = match until {
            Some(until) => SystemCall::SleepUntil(until),
            None => wants,
        };
        let kind = wants.kind();
        if !suits(kind, wait) {
            return Err(format!(
                "task {tid} says that it wants `{}`, and waits for something else",
                kind.tag()
            ));
        }
        let about = match wait {
            // The UUID of the promise was drawn when the call was made.
            Wait::Commit { promise } => {
                self.promises[promise as usize].uuid().map_or(About::Nothing, About::Uuid)
            }
            _ => About::call(&wants, self.clock),
        };
        let record = CallRecord {
            call: self.call_ref(slot, call),
            kind,
            name: wants.given_name(),
            about,
            at: self.site(slot, at),
            error: None,
        };
        let scope = task.scope.as_deref();
        if scope.is_some_and(|scope| scope.handlers.is_some()) {
            return Err(format!("task {tid} has handlers"));
        }
        let store = scope.map_or(Vec::new(), |scope| {
            scope.state.iter().map(|(key, value)| (Rc::clone(key), value.clone())).collect()
        });
        let log = scope.map_or(Vec::new(), |scope| scope.log.iter().cloned().collect());
        let (name, priority, log_base) = (self.name(slot), task.priority, task.log_base);
        let is_held = task.marks.has(Mark::Held);
        let daemon = self.is_daemon(slot);
        let task = LiveTask {
            tid,
            agent,
            state,
            name,
            priority,
            is_held,
            log_base,
            store,
            log,
            until,
            daemon,
        };
        Ok((task, record))
    }

    fn ended_tasks(&self) -> Vec<EndedTask> {
        let ended = self.tasks.iter().filter_map(|(_, task)| {
            let (outcome, ended) = task.end()?;
            let outcome = match outcome {
                Outcome::Value(value) => Ok(Some(value.clone())),
                Outcome::Taken => Ok(None),
                Outcome::Error(error) => Err(error.clone()),
            };
            let (tid, state, is_observed) =
                (task.tid, task.state(), task.marks.has(Mark::Observed));
            Some(EndedTask { tid, state, outcome, ended, is_observed })
        });
        ended.collect()
    }

    /// Restores a run from tables. Each of its live tasks is ready, and makes the call again that
    /// it waited in; `coroutines` are in the order of the tables' live tasks. Its clock is `now`,
    /// and its time limit counts from `since`, which is later than `now` in a fork.
    pub fn restore(
        id: RunId,
        tables: Tables,
        coroutines: Vec<BoxCoroutine>,
        config: RunConfig,
        (since, now): (Time, Time),
    ) -> Run {
        let at = config.started_at;
        let mut run = Run::without_tasks(id, config, since);
        run.clock = now;
        // Each task has a turn to make its call again, which was counted before.
        let count = tables.tasks.len() as u64;
        (run.steps, run.calls_made) =
            (tables.steps - count.min(tables.steps), tables.calls - count.min(tables.calls));
        for (task, coroutine) in tables.tasks.into_iter().zip(coroutines) {
            run.next_tid = task.tid.0;
            let scope = (!task.store.is_empty() || !task.log.is_empty()).then(|| {
                let (state, log) =
                    (task.store.into_iter().collect(), task.log.into_iter().collect());
                Rc::new(Scope { state, log, ..Scope::default() })
            });
            let slot = run.add_task(coroutine, at, scope, Some(task.priority));
            let entry = &mut run.tasks[slot as usize];
            entry.log_base = task.log_base;
            if !task.is_held {
                entry.marks.clear(Mark::Held);
            }
            if task.tid == Tid(1) {
                run.root = slot;
            }
            if task.daemon {
                run.rare.daemons.insert(slot);
            }
            if let Some(name) = task.name {
                run.set_name(slot, name);
            }
        }
        for task in tables.ended {
            let outcome = match task.outcome {
                Ok(Some(value)) => Outcome::Value(value),
                Ok(None) => Outcome::Taken,
                Err(error) => Outcome::Error(error),
            };
            let mut over = Task::over(task.tid, task.state, outcome, task.ended, at);
            if task.is_observed {
                over.marks.set(Mark::Observed);
            }
            run.tasks.insert(over);
        }
        for promise in tables.promises {
            let settled = promise.settled.map(|(result, ended)| match result {
                Ok(value) => (Outcome::Value(value), ended),
                Err(error) => (Outcome::Error(error), ended),
            });
            let entry = Promise::restored(promise.id, promise.uuid, settled, promise.is_held);
            let slot = run.promises.insert(entry) as u32;
            run.rare.externals.insert(promise.uuid, slot);
        }
        (run.next_tid, run.next_object) = (tables.next_tid, tables.next_object);
        (run.next_end, run.random, run.cost) = (tables.ends, tables.random, tables.cost);
        if !tables.patches.is_empty() {
            run.rare.patches = tables.patches.into_iter().collect();
        }
        if !tables.unobserved.is_empty() {
            run.rare.unobserved = tables.unobserved;
        }
        run
    }
}

/// Whether a call of this kind can wait in this way.
fn suits(kind: CallKind, wait: Wait) -> bool {
    match wait {
        Wait::Timer { .. } => matches!(kind, CallKind::Sleep | CallKind::SleepUntil),
        Wait::Effect => kind == CallKind::Effect,
        Wait::Commit { .. } => kind == CallKind::CreateExternalPromise,
        Wait::Receive { .. } => kind == CallKind::ReceiveMessage,
        Wait::Join { .. } | Wait::External { .. } => kind == CallKind::Wait,
        Wait::Over { .. } => kind == CallKind::WaitTask,
        Wait::Gather { .. } => kind == CallKind::Gather,
        Wait::Race { .. } => kind == CallKind::Race,
        _ => false,
    }
}
