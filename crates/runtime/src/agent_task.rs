//! State machines as tasks: a value with a `poll` method instead of an `async` block. Their whole state
//! is in the value, so it can be looked at, saved and restored.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;

use tiffany_kernel::{
    CallId, Coroutine, Port, Reply, Step, SystemCall, TaskError, Tid, Unwind, Value,
};

use crate::call::Decode;
use crate::context;
use crate::future_task::panic_error;

/// A task written as a state machine.
///
/// `poll` is called when the task has its turn. It looks at the answer to its last call, changes its
/// state, and says what it wants next.
///
/// ```
/// use tiffany::{AgentTask, Direct, SystemCall, TaskContext, TaskStatus, Tid, spawn_agent};
///
/// enum WhoAmI { Start, Asked }
///
/// impl AgentTask for WhoAmI {
///     type Output = Tid;
///
///     fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<Tid> {
///         match self {
///             WhoAmI::Start => {
///                 *self = WhoAmI::Asked;
///                 TaskStatus::Waiting(SystemCall::GetTid)
///             }
///             WhoAmI::Asked => match ctx.reply::<Tid, Direct>() {
///                 Ok(tid) => TaskStatus::Completed(tid),
///                 Err(error) => TaskStatus::Failed(error),
///             },
///         }
///     }
/// }
///
/// tiffany::try_run(async {
///     let task = spawn_agent(WhoAmI::Start).await;
///     assert_eq!(task.tid(), task.await?);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub trait AgentTask {
    /// What it returns in the end.
    type Output: 'static;

    /// Goes on as far as it can without waiting.
    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<Self::Output>;

    /// Cleans up after a cancellation, with calls if need be: polled like `poll`, until it answers
    /// `Completed` or `Failed`. By default there is nothing to do.
    fn cancel(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<()> {
        let _ = ctx;
        TaskStatus::Completed(())
    }
}

/// What a state machine wants next.
pub enum TaskStatus<T> {
    /// To have another turn, after the others.
    Ready,
    /// The answer to this call.
    Waiting(SystemCall),
    /// Nothing: this is its value.
    Completed(T),
    /// Nothing: this is its error.
    Failed(TaskError),
}

/// What a state machine has at its turn.
pub struct TaskContext<'a> {
    tid: Tid,
    reply: &'a mut Option<Reply>,
}

impl TaskContext<'_> {
    /// The task's number.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The answer to the last call, decoded. Without one it is `()`.
    pub fn reply<R, D: Decode<R>>(&mut self) -> Result<R, TaskError> {
        match self.reply.take().unwrap_or(Reply::Unit) {
            Reply::Error(error) => Err(error),
            reply => D::decode(reply),
        }
    }
}

/// A state machine as a coroutine.
pub(crate) struct StateMachine<A> {
    /// Dropped where a panic in it is caught.
    agent: Option<A>,
    call: Option<CallId>,
    at: &'static Location<'static>,
}

impl<A> StateMachine<A> {
    #[track_caller]
    pub(crate) fn new(agent: A) -> StateMachine<A> {
        StateMachine { agent: Some(agent), call: None, at: Location::caller() }
    }

    /// One turn: poll, and make the call it asks for.
    fn turn<T: 'static>(
        &mut self,
        port: &Port,
        poll: impl FnOnce(&mut A, &mut TaskContext<'_>) -> TaskStatus<T>,
    ) -> Step {
        let traced = context::with(|context| context.begin_turn());
        let span = traced.then(|| context::with(|context| context.task_span())).flatten();
        let _in_span = span.as_ref().map(|span| span.enter());
        let tid = port.tid().unwrap_or(Tid(0));
        let mut reply = self.call.take().and_then(|call| port.take_reply(call));
        if reply.is_some() {
            context::with(|context| context.returned_from(self.at));
        }
        let agent = self.agent.as_mut().expect("a task that is over has no turn");
        let status = catch_unwind(AssertUnwindSafe(|| {
            poll(agent, &mut TaskContext { tid, reply: &mut reply })
        }));
        let call = match status {
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
        if call.kind().reads_clock() {
            context::with(|context| context.set_clock());
        }
        self.call = Some(port.call(call, self.at));
        Step::Pending
    }
}

impl<A> StateMachine<A> {
    /// Drops the agent; a panic in that is the task's and not the loop's.
    fn drop_agent(&mut self) -> Result<(), TaskError> {
        let agent = self.agent.take();
        catch_unwind(AssertUnwindSafe(|| drop(agent)))
            .map_err(|payload| panic_error(payload, "panicked while being dropped"))
    }
}

impl<A> Drop for StateMachine<A> {
    fn drop(&mut self) {
        // Its cleanup was cut short, or it failed before. The panic hook has shown the panic.
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

/// The agent itself is never pinned.
impl<A> Unpin for StateMachine<A> {}
