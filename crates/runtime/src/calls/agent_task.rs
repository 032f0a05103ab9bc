//! State machines as tasks: a value with a `poll` method instead of an `async` block. The whole
//! state is in the value, so it can be inspected, saved and restored.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::time::Duration;

use tiffany_kernel::{
    CallId, CallKind, Claim, Coroutine, Permits, Port, Reply, Step, SystemCall, TaskError, TaskRef,
    Tid, Unwind, Value,
};

use crate::calls::call::{Decode, Direct, Moved, complete};
use crate::calls::channel::{Received, Receiver, Sender};
use crate::calls::context;
use crate::calls::handler::CustomCall;
use crate::calls::sync::{Permit, Semaphore};
use crate::calls::sys::Spawn;
use crate::calls::task::{Task, Waitable};
use crate::host::panics::panic_error;

/// A task written as a state machine.
///
/// `poll` is called when the task has its turn. It reads the reply to its last call, changes its
/// state, and returns what it wants next. [`TaskStatus`] has a function for each of the usual
/// calls, and [`TaskContext`] one for its reply.
///
/// ```
/// use std::time::Duration;
/// use tiffany::{AgentTask, Permit, Receiver, Semaphore, TaskContext, TaskError, TaskStatus};
/// use tiffany::{channel, semaphore, spawn_agent};
///
/// /// Adds up what comes, with a pause after each, and has a permit meanwhile.
/// struct Adder {
///     state: State,
///     numbers: Receiver<u32>,
///     permits: Semaphore,
///     sum: u32,
/// }
///
/// enum State {
///     Start,
///     Acquiring,
///     Receiving(Permit),
///     Pausing(Permit),
/// }
///
/// impl Adder {
///     fn step(&mut self, ctx: &mut TaskContext<'_>) -> Result<TaskStatus<u32>, TaskError> {
///         let (state, status) = match std::mem::replace(&mut self.state, State::Start) {
///             State::Start => (State::Acquiring, TaskStatus::acquire(&self.permits)),
///             State::Acquiring => {
///                 let permit = ctx.permit(&self.permits)?;
///                 (State::Receiving(permit), TaskStatus::receive(&self.numbers))
///             }
///             State::Receiving(permit) => match ctx.message(&self.numbers)? {
///                 Some(number) => {
///                     self.sum += number;
///                     (State::Pausing(permit), TaskStatus::sleep(Duration::from_millis(1)))
///                 }
///                 None => return Ok(TaskStatus::Completed(self.sum)),
///             },
///             State::Pausing(permit) => {
///                 (State::Receiving(permit), TaskStatus::receive(&self.numbers))
///             }
///         };
///         self.state = state;
///         Ok(status)
///     }
/// }
///
/// impl AgentTask for Adder {
///     type Output = u32;
///
///     fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<u32> {
///         self.step(ctx).unwrap_or_else(TaskStatus::Failed)
///     }
/// }
///
/// tiffany::try_run(async {
///     let (sender, numbers) = channel(8).await;
///     let permits = semaphore(1).await;
///     let adder = spawn_agent(Adder { state: State::Start, numbers, permits, sum: 0 }).await;
///     for number in 1..=3 {
///         sender.send(number).await?;
///     }
///     drop(sender);
///     assert_eq!(adder.await?, 6);
///     Ok::<(), TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub trait AgentTask {
    /// The type of its value.
    type Output: 'static;

    /// Runs as far as possible without waiting.
    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<Self::Output>;

    /// Cleans up after a cancellation, with calls if necessary: it is polled like `poll`, until it
    /// returns `Completed` or `Failed`. By default it does nothing.
    fn cancel(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<()> {
        let _ = ctx;
        TaskStatus::Completed(())
    }
}

/// What a state machine wants next.
pub enum TaskStatus<T> {
    /// Another turn, after the other tasks.
    Ready,
    /// The reply to this call.
    Waiting(SystemCall),
    /// Nothing: it ends with this value.
    Completed(T),
    /// Nothing: it ends with this error.
    Failed(TaskError),
}

impl<T> TaskStatus<T> {
    /// Sleeps for this duration.
    pub fn sleep(duration: Duration) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Sleep(duration))
    }

    /// Waits for a task or a promise: [`TaskContext::output`].
    pub fn wait<W: Waitable>(on: &W) -> TaskStatus<T> {
        // The handle stays with the state machine.
        let claim = match W::claim() {
            Claim::Consume => Claim::Take,
            claim => claim,
        };
        TaskStatus::Waiting(SystemCall::Wait(on.target(), claim))
    }

    /// Receives the next message of a channel: [`TaskContext::message`].
    pub fn receive<M>(from: &Receiver<M>) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Receive(from.object()))
    }

    /// Sends a message, and waits while the channel is full: [`TaskContext::done`] reports whether
    /// the receiver is gone.
    pub fn send<M: 'static>(to: &Sender<M>, message: M) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Send(to.object(), Value::new(message)))
    }

    /// Acquires a permit of a semaphore: [`TaskContext::permit`].
    pub fn acquire(semaphore: &Semaphore) -> TaskStatus<T> {
        TaskStatus::acquire_many(semaphore, 1)
    }

    /// Acquires several permits at once: [`TaskContext::permit`].
    pub fn acquire_many(semaphore: &Semaphore, permits: usize) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Acquire(semaphore.object(), permits))
    }

    /// Spawns a task, prepared with `spawn`, `try_spawn` or `spawn_agent`: [`TaskContext::task`].
    pub fn spawn<R>(task: Spawn<R>) -> TaskStatus<T> {
        TaskStatus::Waiting(task.into_call())
    }

    /// Makes a custom call: [`TaskContext::answer`].
    pub fn call<C: CustomCall>(request: C) -> TaskStatus<T> {
        TaskStatus::Waiting(SystemCall::Custom(C::NAME, Value::new(request)))
    }
}

/// The context of a state machine in its turn.
///
/// Whatever the state machine does not take from a reply is returned: a message to the front of its
/// channel, a permit to its semaphore.
pub struct TaskContext<'a> {
    tid: Tid,
    port: &'a Port,
    /// The call that was answered, until its reply is taken.
    answered: Option<CallId>,
}

impl TaskContext<'_> {
    /// The task's number.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The reply to the last call, decoded. If there was no call, it is `()`.
    pub fn reply<R, D: Decode<R>>(&mut self) -> Result<R, TaskError> {
        match self.any_reply() {
            Reply::Error(error) => Err(error),
            reply => D::decode(reply),
        }
    }

    /// The reply to the last call, not decoded. If there was no call, it is `Unit`.
    pub(crate) fn any_reply(&mut self) -> Reply {
        let reply = self.answered.take().and_then(|call| self.port.take_reply(call));
        reply.unwrap_or(Reply::Unit)
    }

    /// Whether the last call succeeded, for calls without a value.
    pub fn done(&mut self) -> Result<(), TaskError> {
        self.reply::<(), Direct>()
    }

    /// The result of [`TaskStatus::wait`].
    pub fn output<W: Waitable>(&mut self, _: &W) -> Result<W::Output, TaskError> {
        self.reply::<Value, Direct>().and_then(W::output)
    }

    /// The received message, or `None` if all senders are gone.
    pub fn message<M: 'static>(&mut self, _: &Receiver<M>) -> Result<Option<M>, TaskError> {
        self.reply::<Option<M>, Received>()
    }

    /// The permits that were acquired from this semaphore. Dropping them returns them.
    pub fn permit(&mut self, semaphore: &Semaphore) -> Result<Permit, TaskError> {
        self.reply::<Permits, Direct>().map(|permits| semaphore.permit(permits))
    }

    /// The task that was spawned.
    pub fn task<T>(&mut self) -> Result<Task<T>, TaskError> {
        self.reply::<TaskRef, Direct>().map(Task::new)
    }

    /// The answer to a custom call.
    pub fn answer<C: CustomCall>(&mut self) -> Result<C::Answer, TaskError> {
        self.reply::<C::Answer, Moved>()
    }
}

/// A state machine as a coroutine.
pub(crate) struct StateMachine<A> {
    /// Dropped where a panic in its `drop` is caught.
    agent: Option<A>,
    call: Option<(CallId, CallKind)>,
    at: &'static Location<'static>,
}

impl<A> StateMachine<A> {
    #[track_caller]
    pub(crate) fn new(agent: A) -> StateMachine<A> {
        StateMachine { agent: Some(agent), call: None, at: Location::caller() }
    }

    /// The state machine, unless it has ended.
    pub(crate) fn agent(&self) -> Option<&A> {
        self.agent.as_ref()
    }

    /// Runs one turn: polls the state machine, and makes the call that it asks for.
    fn turn<T: 'static>(
        &mut self,
        port: &Port,
        poll: impl FnOnce(&mut A, &mut TaskContext<'_>) -> TaskStatus<T>,
    ) -> Step {
        let traced = context::with(|context| context.begin_turn());
        let span = traced.then(|| context::with(|context| context.task_span())).flatten();
        let _in_span = span.as_ref().map(|span| span.enter());
        let tid = port.tid().unwrap_or(Tid(0));
        let call = self.call.take();
        if call.is_some() {
            context::with(|context| context.returned_from(self.at));
        }
        let agent = self.agent.as_mut().expect("a task that is over has no turn");
        let mut ctx = TaskContext { tid, port, answered: call.map(|(id, _)| id) };
        let status = catch_unwind(AssertUnwindSafe(|| poll(agent, &mut ctx)));
        if let (Some(id), Some((_, kind))) = (ctx.answered, call) {
            give_back(port, id, kind);
        }
        let mut call = match status {
            Ok(TaskStatus::Ready) => SystemCall::Yield,
            Ok(TaskStatus::Waiting(call)) => call,
            Ok(TaskStatus::Completed(value)) => {
                return match self.drop_agent() {
                    Ok(()) => Step::Done(Value::new(value)),
                    Err(panic) => Step::Failed(panic),
                };
            }
            Ok(TaskStatus::Failed(error)) => return Step::Failed(error),
            Err(payload) => return Step::Failed(panic_error(payload, "panicked")),
        };
        complete(&mut call);
        let kind = call.kind();
        self.call = Some((port.call(call, self.at), kind));
        Step::Pending
    }
}

/// Returns what was in a reply that was not taken to where it came from.
fn give_back(port: &Port, call: CallId, kind: CallKind) {
    use CallKind::*;
    match (kind, port.task()) {
        (
            Receive
            | Acquire
            | Spawn
            | CreatePromise
            | CreateExternalPromise
            | CreateChannel
            | CreateSemaphore
            | CreateMutex
            | CreateGroup,
            Some(maker),
        ) => port.withdraw(maker, call),
        _ => drop(port.take_reply(call)),
    }
}

impl<A> StateMachine<A> {
    /// Drops the agent. A panic in that is an error of the task and doesn't reach the loop.
    fn drop_agent(&mut self) -> Result<(), TaskError> {
        let agent = self.agent.take();
        catch_unwind(AssertUnwindSafe(|| drop(agent)))
            .map_err(|payload| panic_error(payload, "panicked while being dropped"))
    }
}

impl<A> Drop for StateMachine<A> {
    fn drop(&mut self) {
        // Its cleanup was cut short, or it failed before. The panic hook has reported the panic.
        let _ = self.drop_agent();
    }
}

impl<A: AgentTask> Coroutine for StateMachine<A> {
    fn resume(self: Pin<&mut Self>, port: &Port) -> Step {
        self.get_mut().turn(port, A::poll)
    }

    fn unwind(self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Step {
        let this = self.get_mut();
        if phase == Unwind::Begin {
            this.call = None;
        }
        this.turn(port, A::cancel)
    }
}

/// The agent is never pinned.
impl<A> Unpin for StateMachine<A> {}
