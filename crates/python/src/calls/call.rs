//! `SystemCall`: the object that a task yields or awaits. Each call class fills in an `Op`. `start`
//! begins the call, and `answer` converts its answer to a Python object.

use std::cell::Cell;
use std::ffi::CString;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use tiffany::binding::Release;
use tiffany::durable::AttributeChange;
use tiffany::kernel::{GatherMode, ObjectRef, TaskRef, Waitable as Target};
use tiffany::pal::Shown;
use tiffany::{Claim, ErrorKind, Reply, SystemCall as KernelCall, Tid, Time, Uuid, Value, binding};

use crate::calls::approve::Asks;
use crate::calls::awaiter::awaiter;
use crate::calls::pending::Pending;
use crate::calls::together::Together;
use crate::handles::objects::{Channel, Group, Lock, Mutex, Permit, Semaphore, no_more_messages};
use crate::handles::{ExternalPromise, Promise, RaceResult, Task};
use crate::process::session;
use crate::tasks::{handler, spawn};
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::value::{from_value, to_value};
use crate::values::{approvals, errors, names};

/// A request to the scheduler: yield it, or await it. Derive from it to define your own calls,
/// which handlers answer.
///
/// >>> class Add(SystemCall):
/// ...     def __init__(self, a, b):
/// ...         self.a, self.b = a, b
/// >>> def adder(call, tid):
/// ...     if isinstance(call, Add):
/// ...         return Answer(call.a + call.b)
/// >>> async def main():
/// ...     return await Add(2, 3)
/// >>> run(main(), handlers=[adder])
/// 5
#[pyclass(frozen, subclass, generic, name = "SystemCall", module = "tiffany")]
pub(crate) struct SystemCall {
    pub(crate) op: Op,
    /// Whether the call was made. A call that is dropped without having been made causes a warning.
    is_made: AtomicBool,
}

/// The request.
pub(crate) enum Op {
    Yield,
    GetTid,
    Now,
    Random,
    NewUuid,
    GetHandlers,
    Spawn(Box<spawn::Spawning>),
    Wait(Py<PyAny>, Target),
    WaitTask(u64),
    KillTask(u64),
    Gather(Vec<Py<PyAny>>, Vec<Target>, GatherMode),
    Race(Vec<Py<PyAny>>, Vec<Target>),
    /// A wait, gather or race with arguments that have to become tasks first.
    Together(Box<Together>),
    Cancel(Option<Py<Task>>, TaskRef),
    CreatePromise,
    CompletePromise(ObjectRef, Py<PyAny>),
    FailPromise(ObjectRef, Py<PyAny>),
    CreateExternalPromise,
    Sleep(Duration),
    SleepUntil(Time),
    Approve(Asks),
    ReadWait(i32),
    WriteWait(i32),
    Get(String, Py<PyAny>),
    Put(String, Py<PyAny>),
    Tell(Py<PyAny>),
    GetLog,
    Ask(String),
    CreateChannel(Option<usize>),
    Send(Option<Py<PyAny>>, ObjectRef, Py<PyAny>),
    #[expect(dead_code, reason = "the handle lives while the call waits")]
    Receive(Option<Py<PyAny>>, ObjectRef),
    /// Receives a message for `async for`.
    #[expect(dead_code, reason = "the handle lives while the call waits")]
    NextMessage(Py<PyAny>, ObjectRef),
    CreateSemaphore(usize),
    CreateMutex,
    Acquire(Option<Py<PyAny>>, ObjectRef, usize),
    /// Acquires a lock for `async with`, and returns the lock.
    Enter(Py<PyAny>, ObjectRef),
    CreateGroup,
    JoinGroup(Py<PyAny>, ObjectRef),
    /// Waits for a group at the end of `async with` after an exception, which takes precedence.
    LeaveGroup(ObjectRef),
    Show(Box<Shown>),
    Charge(u64),
    SetAttributes(Vec<AttributeChange>),
    ReceiveMessage(String),
    Patched(String),
    /// Restarts the run's function with these arguments.
    ContinueAs(Py<PyTuple>, Py<PyDict>),
    /// Runs a program in the same task.
    Call(Py<PyAny>),
    /// A call of a user-defined class.
    Custom(Py<PyType>),
    /// A call that is performed by its own future.
    Other(Box<dyn Perform>),
}

impl Op {
    /// Shows the garbage collector the objects that a call holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Op::Spawn(spawning) => spawning.traverse(visit),
            Op::Wait(object, _)
            | Op::CompletePromise(_, object)
            | Op::FailPromise(_, object)
            | Op::Get(_, object)
            | Op::Put(_, object)
            | Op::Tell(object)
            | Op::Call(object) => visit.call(object),
            Op::Gather(items, ..) | Op::Race(items, _) => {
                items.iter().try_for_each(|item| visit.call(item))
            }
            Op::Together(together) => together.traverse(visit),
            Op::Custom(class) => visit.call(class),
            Op::Send(channel, _, message) => {
                visit.call(channel)?;
                visit.call(message)
            }
            Op::ContinueAs(args, kwargs) => {
                visit.call(args)?;
                visit.call(kwargs)
            }
            Op::Other(perform) => perform.traverse(visit),
            _ => Ok(()),
        }
    }
}

/// A call that is implemented in another file of this crate.
pub(crate) trait Perform: Send + Sync {
    /// Shows the garbage collector the objects that the call holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }

    /// The name of the call.
    fn name(&self, py: Python<'_>) -> String;

    /// Converts the call for a state machine. Returns `None` if it is not a call of the kernel.
    fn request(&self, call: &Bound<'_, SystemCall>) -> PyResult<Option<KernelCall>> {
        let _ = call;
        Ok(None)
    }

    /// Begins the call. The line is the task's current one.
    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending>;
}

impl SystemCall {
    /// Creates a call that the program has to make.
    #[inline]
    pub(crate) fn of(op: Op) -> SystemCall {
        SystemCall { op, is_made: AtomicBool::new(false) }
    }

    /// Creates a call on behalf of the package, which causes no warning if it is never made.
    pub(crate) fn ours(op: Op) -> SystemCall {
        SystemCall { op, is_made: AtomicBool::new(true) }
    }

    /// Marks the call as made.
    #[inline]
    pub(crate) fn made(&self) {
        self.is_made.store(true, Ordering::Relaxed);
    }
}

impl Drop for SystemCall {
    #[inline]
    fn drop(&mut self) {
        if !*self.is_made.get_mut() {
            never_made(&self.op);
        }
    }
}

thread_local! {
    /// Whether programs are being closed, in which case Python discards what they yield.
    static CLOSES: Cell<bool> = const { Cell::new(false) };
}

/// Closes programs. A call that one of them yields instead of ending causes no warning of its own:
/// the warning is that the program did not end.
pub(crate) fn while_closing(close: impl FnOnce()) {
    let was = CLOSES.replace(true);
    close();
    CLOSES.set(was);
}

/// Warns about a call that a task discarded, at the line where it did: an `await` may be missing.
#[cold]
fn never_made(op: &Op) {
    if CLOSES.get() || !binding::in_task() {
        return;
    }
    Python::attach(|py| {
        // The call may be dropped while an exception propagates.
        let passing = PyErr::take(py);
        let name = crate::calls::repr::name(py, op);
        let next = ErrorKind::NeverMade.next_step();
        let text = format!("call '{name}' was never awaited or yielded [TFY0055]; {next}");
        let text = CString::new(text).unwrap_or_default();
        let warned = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1);
        if let Err(error) = warned {
            error.write_unraisable(py, None);
        }
        if let Some(passing) = passing {
            passing.restore(py);
        }
    });
}

#[pymethods]
impl SystemCall {
    #[new]
    #[classmethod]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(
        class: &Bound<'_, PyType>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> SystemCall {
        SystemCall::of(Op::Custom(class.clone().unbind()))
    }

    fn __await__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        awaiter(py, slf)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.op.traverse(&visit)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        crate::calls::repr::of(slf)
    }
}

/// Begins a call.
#[inline]
pub(crate) fn start(
    call: &Bound<'_, SystemCall>,
    at: impl Fn() -> Option<Line>,
) -> PyResult<Pending> {
    let (py, op) = (call.py(), &call.get().op);
    call.get().made();
    Ok(match op {
        Op::Yield => Pending::Yield(tiffany::yield_now()),
        Op::Wait(_, target) => Pending::wait(*target),
        Op::Spawn(spawning) => return spawning.start(call, at()),
        Op::Other(perform) => return perform.start(call, &at),
        Op::Together(together) => return together.start(call, &at),
        Op::Send(Some(channel), ..) if Channel::is_closed(channel.bind(py)) => {
            return Err(TiffanyError::ChannelClosed.err(py, "the channel was closed"));
        }
        Op::ReceiveMessage(_) if !binding::is_durable() => {
            let message = "a message was waited for in a run that is not durable, so none can come";
            return Err(TiffanyError::NotDurable.err(py, message));
        }
        Op::Call(_) => unreachable!("the driver pushes what is called"),
        _ => Pending::Call(binding::call(kernel_call(call)), call.clone().unbind()),
    })
}

/// Converts a call of a state machine to the kernel's call. Its answer must be serializable, since
/// the state machine keeps nothing else of it.
pub(crate) fn request(call: &Bound<'_, SystemCall>) -> PyResult<KernelCall> {
    call.get().made();
    let wanted = match &call.get().op {
        Op::Yield
        | Op::Now
        | Op::Random
        | Op::NewUuid
        | Op::Sleep(_)
        | Op::SleepUntil(_)
        | Op::Approve(_)
        | Op::Charge(_)
        | Op::SetAttributes(_)
        | Op::ReceiveMessage(_) => Some(kernel_call(call)),
        Op::Other(perform) => perform.request(call)?,
        _ => None,
    };
    wanted.ok_or_else(|| {
        let name = crate::calls::repr::name(call.py(), &call.get().op);
        let message = format!(
            "a state machine cannot want `{name}`; it can want a step, a message, an approval, the time, a random number or identity, a sleep or a turn"
        );
        TiffanyError::NotACall.err(call.py(), message)
    })
}

/// Converts a call to the kernel's call. Returns nothing for calls that begin in another way.
pub(crate) fn kernel_call(call: &Bound<'_, SystemCall>) -> KernelCall {
    let py = call.py();
    let value = |object: &Py<PyAny>| to_value(object.bind(py).clone());
    match &call.get().op {
        Op::GetTid => KernelCall::GetTid,
        Op::Now => KernelCall::Now,
        Op::Random => KernelCall::Random,
        Op::NewUuid => KernelCall::NewUuid(Uuid(0)),
        Op::GetHandlers => KernelCall::GetHandlers,
        Op::WaitTask(tid) => KernelCall::WaitTask(Tid(*tid)),
        Op::KillTask(tid) => KernelCall::KillTask(Tid(*tid)),
        Op::Gather(_, targets, mode) => KernelCall::Gather(targets.clone(), *mode, Claim::Share),
        Op::Race(_, targets) => KernelCall::Race(targets.clone(), Claim::Share),
        Op::Cancel(_, task) => KernelCall::Cancel(*task),
        Op::CreatePromise => KernelCall::CreatePromise,
        Op::CompletePromise(promise, object) => {
            KernelCall::CompletePromise(*promise, value(object))
        }
        Op::FailPromise(promise, error) => {
            let error = PyErr::from_value(error.bind(py).clone());
            KernelCall::FailPromise(*promise, errors::from_python(py, &error))
        }
        Op::CreateExternalPromise => KernelCall::CreateExternalPromise(Uuid(0)),
        Op::Sleep(duration) => KernelCall::Sleep(*duration),
        Op::SleepUntil(time) => KernelCall::SleepUntil(*time),
        Op::Approve(asks) => KernelCall::Approve(Box::new(asks.asking())),
        Op::ReadWait(fd) => KernelCall::ReadWait(*fd),
        Op::WriteWait(fd) => KernelCall::WriteWait(*fd),
        Op::Get(key, _) => KernelCall::Get(key.as_str().into()),
        Op::Put(key, object) => KernelCall::Put(key.as_str().into(), value(object)),
        Op::Tell(object) => KernelCall::Tell(value(object)),
        Op::GetLog => KernelCall::GetLog,
        Op::Ask(key) => KernelCall::Ask(key.as_str().into()),
        Op::CreateChannel(capacity) => KernelCall::CreateChannel(*capacity),
        Op::Send(_, channel, object) => KernelCall::Send(*channel, value(object)),
        Op::Receive(_, channel) | Op::NextMessage(_, channel) => KernelCall::Receive(*channel),
        Op::CreateSemaphore(permits) => KernelCall::CreateSemaphore(*permits),
        Op::CreateMutex => KernelCall::CreateMutex,
        Op::Acquire(_, semaphore, permits) => KernelCall::Acquire(*semaphore, *permits),
        Op::Enter(_, semaphore) => KernelCall::Acquire(*semaphore, 1),
        Op::CreateGroup => KernelCall::CreateGroup,
        Op::JoinGroup(_, group) | Op::LeaveGroup(group) => KernelCall::JoinGroup(*group),
        Op::Show(shown) => KernelCall::Show(shown.clone()),
        Op::Charge(cost) => KernelCall::Charge(*cost),
        Op::SetAttributes(changes) => KernelCall::SetAttributes(changes.clone()),
        Op::ReceiveMessage(name) => KernelCall::ReceiveMessage(name.as_str().into()),
        Op::Patched(id) => KernelCall::Patched(id.as_str().into(), true),
        // The root of a durable run restarts in another way; other tasks are refused.
        Op::ContinueAs(..) => KernelCall::ContinueAs("{}".into()),
        Op::Custom(_) | Op::Other(_) => {
            let name = call.get_type().name().map_or("custom".into(), |name| name.to_string());
            KernelCall::Custom(names::name(&name), to_value(call.clone().into_any()))
        }
        Op::Yield | Op::Spawn(_) | Op::Call(_) | Op::Together(_) => KernelCall::Yield,
        Op::Wait(_, target) => KernelCall::Wait(*target, Claim::Share),
    }
}

/// Converts the answer of a call to a Python object.
pub(crate) fn answer(call: &Bound<'_, SystemCall>, reply: Reply) -> PyResult<Py<PyAny>> {
    let (py, op) = (call.py(), &call.get().op);
    let object = |made: PyResult<Bound<'_, PyAny>>| made.map(Bound::unbind);
    Ok(match (op, reply) {
        (Op::LeaveGroup(_), _) => py.None(),
        (_, Reply::Error(error)) => return Err(errors::to_python(py, &error)),
        (Op::Get(_, default), Reply::Nothing) => default.clone_ref(py),
        (Op::NextMessage(..), Reply::Nothing) => return Err(no_more_messages()),
        (Op::Receive(..), Reply::Nothing) => {
            return Err(TiffanyError::ChannelClosed.err(py, "the channel is closed and empty"));
        }
        (_, Reply::Unit | Reply::Nothing) => py.None(),
        (Op::Random, Reply::Number(number)) => {
            // A float has 53 significant bits.
            return object(((number >> 11) as f64 / (1u64 << 53) as f64).into_bound_py_any(py));
        }
        (Op::Approve(_), Reply::Value(value)) => return approvals::answered(py, value),
        (_, Reply::Value(value)) => return from_value(py, value),
        (_, Reply::Message(message)) => return from_value(py, message.value),
        (_, Reply::Flag(flag)) => return object(flag.into_bound_py_any(py)),
        (_, Reply::Tid(tid)) => return object(tid.0.into_bound_py_any(py)),
        (_, Reply::Number(number)) => return object(number.into_bound_py_any(py)),
        (_, Reply::Time(time)) => {
            return object((time.as_nanos() as f64 / 1e9).into_bound_py_any(py));
        }
        (Op::Spawn(spawning), Reply::Task(task)) if spawning.by_number => {
            session::release(Release::Task(task));
            return object(task.tid.0.into_bound_py_any(py));
        }
        (_, Reply::Task(task)) => return object(Task::new(task).into_bound_py_any(py)),
        (Op::CreatePromise, Reply::Object(made)) => {
            return object(Promise::new(made).into_bound_py_any(py));
        }
        (Op::CreateChannel(_), Reply::Object(made)) => {
            return object(Channel::new(made).into_bound_py_any(py));
        }
        (Op::CreateSemaphore(_), Reply::Object(made)) => {
            return object(Bound::new(py, Lock::of(Semaphore, made)).map(Bound::into_any));
        }
        (Op::CreateMutex, Reply::Object(made)) => {
            let mutex = Bound::new(py, Lock::of(Mutex, made));
            return object(mutex.map(Bound::into_any));
        }
        (Op::CreateGroup, Reply::Object(made)) => {
            return object(Group::new(made).into_bound_py_any(py));
        }
        // `__aenter__` returns the lock.
        (Op::Enter(lock, _), Reply::Permits(_)) => lock.clone_ref(py),
        (Op::Acquire(lock, semaphore, _), Reply::Permits(permits)) => {
            let lock = lock.as_ref().map(|lock| lock.clone_ref(py));
            let permit = Permit::new(lock, *semaphore, permits.count as usize);
            return object(permit.into_bound_py_any(py));
        }
        (_, Reply::External(made)) => {
            return object(ExternalPromise::new(py, made.0, made.1)?.into_bound_py_any(py));
        }
        (_, Reply::Values(values)) => {
            let values = values.into_iter().map(|value| from_value(py, value));
            return object(values.collect::<PyResult<Vec<_>>>()?.into_bound_py_any(py));
        }
        (_, Reply::Results(results)) => return crate::handles::results(py, results),
        (Op::Race(items, _), Reply::Race(won)) => {
            return object(RaceResult::new(py, items, won.0, won.1)?.into_bound_py_any(py));
        }
        (Op::Together(together), Reply::Race(won)) => {
            let items = together.items();
            return object(RaceResult::new(py, items, won.0, won.1)?.into_bound_py_any(py));
        }
        (_, Reply::Handlers(chain)) => return handler::list(py, &chain),
        _ => {
            return Err(
                TiffanyError::WrongType.err(py, "a handler returned an answer of another kind")
            );
        }
    })
}

/// Wraps any future as a pending call.
pub(crate) type Boxed = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>>>>;

/// Converts the result of a wait to a Python object.
pub(crate) fn waited(
    py: Python<'_>,
    result: Result<Value, tiffany::TaskError>,
) -> PyResult<Py<PyAny>> {
    match result {
        Ok(value) => from_value(py, value),
        Err(error) => Err(errors::to_python(py, &error)),
    }
}
