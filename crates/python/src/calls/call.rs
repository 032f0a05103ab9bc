//! `SystemCall`: what a task yields or awaits. Every call class fills in an `Op`; what is done for it is decided here, in `start`, and what its
//! answer is in Python, in `answer`.

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
    /// Somebody has made it, or sees to it. One that nobody ever made is warned of.
    is_made: AtomicBool,
}

/// What is asked.
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
    /// One of these three, with something among it that is no task yet.
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
    /// The same for `async for`.
    #[expect(dead_code, reason = "the handle lives while the call waits")]
    NextMessage(Py<PyAny>, ObjectRef),
    CreateSemaphore(usize),
    CreateMutex,
    Acquire(Option<Py<PyAny>>, ObjectRef, usize),
    /// The same for `async with`.
    Enter(Py<PyAny>, ObjectRef),
    CreateGroup,
    JoinGroup(Py<PyAny>, ObjectRef),
    /// The same after an exception, which is what matters.
    LeaveGroup(ObjectRef),
    Show(Box<Shown>),
    Charge(u64),
    ReceiveMessage(String),
    Patched(String),
    /// With these arguments of the run's function.
    ContinueAs(Py<PyTuple>, Py<PyDict>),
    /// Runs a program in the same task.
    Call(Py<PyAny>),
    /// One of the user's own, of this class.
    Custom(Py<PyType>),
    /// One that is done by a future of its own.
    Other(Box<dyn Perform>),
}

impl Op {
    /// Shows the collector what a call holds.
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

/// A call that another file of this crate does.
pub(crate) trait Perform: Send + Sync {
    /// Shows the collector what it holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }

    /// What it is called.
    fn name(&self, py: Python<'_>) -> String;

    /// It as a call of the kernel, where it is one, for a state machine that wants it.
    fn request(&self, call: &Bound<'_, SystemCall>) -> PyResult<Option<KernelCall>> {
        let _ = call;
        Ok(None)
    }

    /// Begins it. The line is where the task stands.
    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending>;
}

impl SystemCall {
    /// A call that somebody wrote down, and is to make.
    #[inline]
    pub(crate) fn of(op: Op) -> SystemCall {
        SystemCall { op, is_made: AtomicBool::new(false) }
    }

    /// One that we made ourselves, so nobody need be told if it comes to nothing.
    pub(crate) fn ours(op: Op) -> SystemCall {
        SystemCall { op, is_made: AtomicBool::new(true) }
    }

    /// It is being made, or somebody sees to it.
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
    /// Programs are being closed: what they yield then is thrown away by Python.
    static CLOSES: Cell<bool> = const { Cell::new(false) };
}

/// Closes programs. Calls that they yield instead of ending are not warned of: that they did not end is what is said.
pub(crate) fn while_closing(close: impl FnOnce()) {
    let was = CLOSES.replace(true);
    close();
    CLOSES.set(was);
}

/// Warns of a call that a task threw away, at the line where it did. It may have been meant to be awaited.
#[cold]
fn never_made(op: &Op) {
    if CLOSES.get() || !binding::in_task() {
        return;
    }
    Python::attach(|py| {
        // It may be dropped while an exception passes.
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

/// Begins what a call asks for.
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

/// A call that a state machine wants, as the kernel has it. Its answer is all that the state machine gets, so it is one that can be written down.
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

/// The call as the kernel has it. Those that are begun in another way have none.
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
        Op::ReceiveMessage(name) => KernelCall::ReceiveMessage(name.as_str().into()),
        Op::Patched(id) => KernelCall::Patched(id.as_str().into(), true),
        // Who is the root of a durable run makes it in another way; others are refused.
        Op::ContinueAs(..) => KernelCall::ContinueAs("{}".into()),
        Op::Custom(_) | Op::Other(_) => {
            let name = call.get_type().name().map_or("custom".into(), |name| name.to_string());
            KernelCall::Custom(names::name(&name), to_value(call.clone().into_any()))
        }
        Op::Yield | Op::Spawn(_) | Op::Call(_) | Op::Together(_) => KernelCall::Yield,
        Op::Wait(_, target) => KernelCall::Wait(*target, Claim::Share),
    }
}

/// The answer of a call as Python has it.
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
            // As many bits as a float has.
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
        // `__aexit__` gives it back.
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
            return Err(TiffanyError::WrongType.err(py, "a handler gave an answer of another kind"));
        }
    })
}

/// Any future as something a call waits for.
pub(crate) type Boxed = Pin<Box<dyn Future<Output = PyResult<Py<PyAny>>>>>;

/// The value of a wait.
pub(crate) fn waited(
    py: Python<'_>,
    result: Result<Value, tiffany::TaskError>,
) -> PyResult<Py<PyAny>> {
    match result {
        Ok(value) => from_value(py, value),
        Err(error) => Err(errors::to_python(py, &error)),
    }
}
