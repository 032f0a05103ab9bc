//! Brings a task into any of its states, lets another make a call on it, and tells what came of it.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Candidate, ErrorKind, ExternalPromise, Permit, Policy, Promise, Receiver, Semaphore,
    Sender, SystemCall, Task, TaskContext, TaskStatus, Tid, approve, blocking, cancel, channel,
    external_promise, gather, kill_task, promise, race, read_wait, semaphore, sleep, spawn,
    spawn_agent, try_spawn, wait, wait_task, yield_now,
};

use super::common::{Flag, brief, quiet, secs, turns};

/// The states another task can find one in; `Running` is for those that meet themselves. Commit is not
/// here: only a run with a log waits for one.
pub(crate) const STATES: &[&str] = &[
    "Pending",
    "Suspended",
    "Blocked(io)",
    "Blocked(sleep)",
    "Blocked(join)",
    "Blocked(gather)",
    "Blocked(race)",
    "Blocked(promise)",
    "Blocked(external)",
    "Blocked(effect)",
    "Blocked(approval)",
    "Blocked(lock)",
    "Blocked(message)",
    "Blocked(foreign)",
    "Cancelling",
    "Completed",
    "Failed",
    "Cancelled",
];

/// What came of one call on a task in one state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The state the task was in when the call was made.
    pub(crate) before: String,
    /// The state of the caller after the call: over, or what it is blocked on.
    pub(crate) caller: String,
    /// The state of the task after the call, before it had another turn.
    pub(crate) after: String,
    /// What the call gave in the end.
    pub(crate) result: String,
    /// What the task itself came to.
    pub(crate) end: String,
}

/// What the target waits for, and the means to let it go on.
struct Gates {
    promise: Promise<u32>,
    external: ExternalPromise<u32>,
    semaphore: Semaphore,
    permit: Cell<Option<Permit>>,
    sender: Sender<u32>,
    receiver: RefCell<Option<Receiver<u32>>>,
    pipe: (UnixStream, UnixStream),
    foreign: Cell<Option<tokio::sync::oneshot::Sender<()>>>,
    foreign_end: Cell<Option<tokio::sync::oneshot::Receiver<()>>>,
    effect: mpsc::Sender<()>,
    effect_end: Cell<Option<mpsc::Receiver<()>>>,
    other: Rc<Task<u32>>,
    go: Flag,
}

impl Gates {
    async fn new() -> Gates {
        let promise = promise::<u32>().await;
        let future = promise.future();
        let semaphore = semaphore(1).await;
        let permit = semaphore.acquire().await.unwrap();
        let (sender, receiver) = channel(1).await;
        let (foreign, foreign_end) = tokio::sync::oneshot::channel();
        let (effect, effect_end) = mpsc::channel();
        Gates {
            promise,
            external: external_promise().await,
            semaphore,
            permit: Cell::new(Some(permit)),
            sender,
            receiver: RefCell::new(Some(receiver)),
            pipe: UnixStream::pair().unwrap(),
            foreign: Cell::new(Some(foreign)),
            foreign_end: Cell::new(Some(foreign_end)),
            effect,
            effect_end: Cell::new(Some(effect_end)),
            other: Rc::new(try_spawn(async move { future.await }).await),
            go: Flag::default(),
        }
    }

    /// Lets the target go on, whatever it waits for. A timer lets it go when all are idle.
    async fn open(&self) {
        self.go.set(true);
        self.promise.complete(1).await.unwrap();
        self.external.complete(1).unwrap();
        self.permit.take();
        drop(self.sender.send(1).await);
        (&self.pipe.1).write_all(b"x").unwrap();
        let _ = self.foreign.take().unwrap().send(());
        let _ = self.effect.send(());
    }
}

/// What the target does: gets into the state, and returns 7 when it is let go.
async fn target(state: &'static str, gates: Rc<Gates>) -> Result<u32, &'static str> {
    match state {
        "Pending" | "Completed" => {}
        "Suspended" => {
            while !gates.go.get() {
                yield_now().await;
            }
        }
        "Blocked(io)" => read_wait(&gates.pipe.0).await.unwrap(),
        "Blocked(sleep)" | "Cancelled" => sleep(secs(3600)).await,
        "Blocked(join)" => assert_eq!(wait(&*gates.other).await, Ok(1)),
        "Blocked(gather)" => drop(gather([&*gates.other, &*gates.other]).await.unwrap()),
        "Blocked(race)" => drop(race([&*gates.other, &*gates.other]).await.unwrap()),
        "Blocked(promise)" => assert_eq!(gates.promise.future().await, Ok(1)),
        "Blocked(external)" => assert_eq!(gates.external.future().await, Ok(1)),
        "Blocked(effect)" => {
            let end = gates.effect_end.take().unwrap();
            blocking(move || end.recv()).await.unwrap().unwrap();
        }
        // Nobody answers, so a timer lets it go.
        "Blocked(approval)" => {
            let asked = approve("May I?").timeout(secs(3600)).await;
            assert_eq!(asked.unwrap_err().kind(), ErrorKind::ApprovalTimedOut);
        }
        "Blocked(lock)" => drop(gates.semaphore.acquire().await.unwrap()),
        "Blocked(message)" => {
            let receiver = gates.receiver.take().unwrap();
            receiver.receive().await.unwrap();
        }
        "Blocked(foreign)" => gates.foreign_end.take().unwrap().await.unwrap(),
        "Failed" => return Err("its own error"),
        other => unreachable!("{other}"),
    }
    Ok(7)
}

/// A state machine that waits for long, and needs ten seconds for its cleanup.
pub(crate) struct SlowCleanup {
    cleaning: bool,
}

impl SlowCleanup {
    pub(crate) fn new() -> SlowCleanup {
        SlowCleanup { cleaning: false }
    }
}

impl AgentTask for SlowCleanup {
    type Output = u32;

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<u32> {
        TaskStatus::Waiting(SystemCall::Sleep(Duration::from_secs(3600)))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match std::mem::replace(&mut self.cleaning, true) {
            false => TaskStatus::Waiting(SystemCall::Sleep(secs(10))),
            true => TaskStatus::Completed(()),
        }
    }
}

/// Leaves one task out of every round, so that it stays as it is.
struct Hold(Rc<Cell<Option<Tid>>>);

impl Policy for Hold {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        plan.extend(candidates.iter().map(|c| c.tid).filter(|tid| Some(*tid) != self.0.get()));
    }
}

/// The call, in a few words what it gave.
async fn hit(call: &'static str, task: Rc<Task<u32>>) -> String {
    match call {
        "wait" => brief(wait(task).await),
        "wait_task" => brief(wait_task(task.tid()).await),
        "gather" => brief(gather([task]).await),
        "race" => brief(race([task]).await.map(|won| won.value)),
        "cancel" => format!("{:?}", cancel(&*task).await),
        "kill_task" => format!("{:?}", kill_task(task.tid()).await),
        other => unreachable!("{other}"),
    }
}

const TARGET: Tid = Tid(3);
const CALLER: Tid = Tid(4);

/// Makes a call on a task in a state.
pub(crate) fn observe(state: &'static str, call: &'static str) -> Seen {
    let held = Rc::new(Cell::new((state == "Pending").then_some(TARGET)));
    let policy_held = Rc::clone(&held);
    let settings = quiet().policy(move || Hold(Rc::clone(&policy_held)));
    let mut test = super::common::scheduler(settings);
    let (there, made) = (Flag::default(), Flag::default());
    let (is_there, is_made) = (Rc::clone(&there), Rc::clone(&made));
    let run = test.start(async move {
        let gates = Rc::new(Gates::new().await);
        let task = match state {
            "Cancelling" => spawn_agent(SlowCleanup::new()).await,
            _ => try_spawn(target(state, Rc::clone(&gates))).await,
        };
        let task = Rc::new(task);
        turns(4).await;
        if matches!(state, "Cancelling" | "Cancelled") {
            cancel(&*task).await;
        }
        turns(4).await;
        held.set(Some(TARGET));
        is_there.set(true);
        yield_now().await;
        let caller = spawn(hit(call, Rc::clone(&task))).await;
        turns(4).await;
        is_made.set(true);
        yield_now().await;
        held.set(None);
        gates.open().await;
        let result = caller.await.unwrap();
        (result, brief(wait(&*task).await))
    });
    let state_of = |test: &TestScheduler, tid| {
        test.task_state(tid).map_or("gone".to_string(), |state| state.to_string())
    };
    super::common::step_until(&mut test, &there);
    let before = state_of(&test, TARGET);
    super::common::step_until(&mut test, &made);
    let (after, caller) = (state_of(&test, TARGET), state_of(&test, CALLER));
    let (result, end) = test.finish(run).unwrap();
    Seen { before, caller, after, result, end }
}
