//! Handles of channels, semaphores, mutexes and groups. A handle refers to an entry in the tables
//! of its run and releases it when dropped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::PyClass;
use pyo3::exceptions::{PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use tiffany::binding::Release;
use tiffany::kernel::ObjectRef;

use crate::calls;
use crate::calls::call::{Op, SystemCall};
use crate::process::session::release;
use crate::values::argument;

/// A channel: `send` and `receive` return the calls, and `async for` receives messages until the
/// channel is closed.
///
/// >>> async def sends(channel):
/// ...     for n in range(3):
/// ...         await channel.send(n)
/// ...     channel.close()
/// >>> async def main():
/// ...     channel = await create_channel(1)
/// ...     await spawn(sends(channel))
/// ...     return [n async for n in channel]
/// >>> run(main())
/// [0, 1, 2]
#[pyclass(frozen, generic, module = "tiffany")]
pub(crate) struct Channel {
    object: ObjectRef,
    is_closed: AtomicBool,
}

impl Channel {
    pub(crate) fn new(object: ObjectRef) -> Channel {
        Channel { object, is_closed: AtomicBool::new(false) }
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }

    /// Whether the object is a channel that was closed.
    pub(crate) fn is_closed(handle: &Bound<'_, PyAny>) -> bool {
        let channel = handle.cast::<Channel>();
        channel.is_ok_and(|channel| channel.get().is_closed.load(Ordering::Relaxed))
    }
}

#[pymethods]
impl Channel {
    /// Returns the call that sends a message, waiting for room.
    fn send(slf: Py<Self>, py: Python<'_>, message: Py<PyAny>) -> PyResult<Py<SystemCall>> {
        let object = slf.get().object;
        calls::object(py, Op::Send(Some(slf.into_any()), object, message))
    }

    /// Returns the call that receives a message, waiting for one. Raises `ChannelClosedError` if
    /// the channel is closed and empty.
    fn receive(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<SystemCall>> {
        let object = slf.get().object;
        calls::object(py, Op::Receive(Some(slf.into_any()), object))
    }

    /// Closes the channel for sending. Messages in it can still be received.
    fn close(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            release(Release::Sender(self.object));
        }
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> SystemCall {
        let object = slf.get().object;
        SystemCall::ours(Op::NextMessage(slf.into_any(), object))
    }

    fn __repr__(&self) -> String {
        format!("Channel({})", self.object.id)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
        release(Release::Receiver(self.object));
    }
}

/// Ends an `async for`.
#[cold]
pub(crate) fn no_more_messages() -> PyErr {
    PyStopAsyncIteration::new_err(())
}

/// The base class of semaphores and mutexes: `Acquire` takes their permits; `async with` holds one.
#[pyclass(frozen, subclass, module = "tiffany")]
pub(crate) struct Lock {
    object: ObjectRef,
}

impl Lock {
    pub(crate) fn of<C: PyClass<BaseType = Lock>>(
        class: C,
        object: ObjectRef,
    ) -> PyClassInitializer<C> {
        PyClassInitializer::from(Lock { object }).add_subclass(class)
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

#[pymethods]
impl Lock {
    /// Returns the call that acquires this many permits, waiting for them.
    #[pyo3(signature = (permits = 1))]
    fn acquire(
        slf: Py<Self>,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::permits)] permits: usize,
    ) -> PyResult<Py<SystemCall>> {
        let object = slf.get().object;
        calls::object(py, Op::Acquire(Some(slf.into_any()), object, permits))
    }

    fn __aenter__(slf: Py<Self>) -> SystemCall {
        let object = slf.get().object;
        SystemCall::ours(Op::Enter(slf.into_any(), object))
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__(&self, _exception: &Bound<'_, PyAny>) -> SystemCall {
        release(Release::Permits(self.object, 1));
        SystemCall::ours(Op::Yield)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("{}({})", slf.get_type().name()?, slf.get().object.id))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        release(Release::Semaphore(self.object));
    }
}

/// A number of permits, handed out in the order of the requests.
///
/// >>> async def main():
/// ...     semaphore = await create_semaphore(2)
/// ...     async with semaphore:
/// ...         with await semaphore.acquire():
/// ...             return "both permits"
/// >>> run(main())
/// 'both permits'
#[pyclass(frozen, extends = Lock, module = "tiffany")]
pub(crate) struct Semaphore;

/// A lock with one permit, which the task that acquired it holds.
#[pyclass(frozen, extends = Lock, module = "tiffany")]
pub(crate) struct Mutex;

/// Acquired permits. They are released by `release`, at the end of `with`, or when this object is
/// dropped.
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Permit {
    /// Keeps the semaphore alive while its permits are held.
    _lock: Option<Py<PyAny>>,
    object: ObjectRef,
    permits: AtomicUsize,
}

impl Permit {
    pub(crate) fn new(lock: Option<Py<PyAny>>, object: ObjectRef, permits: usize) -> Permit {
        Permit { _lock: lock, object, permits: AtomicUsize::new(permits) }
    }
}

#[pymethods]
impl Permit {
    /// Releases the permits.
    fn release(&self) {
        let permits = self.permits.swap(0, Ordering::Relaxed);
        if permits > 0 {
            release(Release::Permits(self.object, permits));
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.release();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release();
    }
}

/// Tasks that end together: `Spawn(…, group=group)`. When one fails, and when the group is dropped,
/// the others are cancelled.
///
/// >>> async def work(n):
/// ...     await sleep(0.001)
/// ...     print("done", n)
/// >>> async def main():
/// ...     async with await create_group() as group:
/// ...         for n in range(2):
/// ...             await spawn(work(n), group=group)
/// ...     print("all done")
/// >>> run(main())
/// done 0
/// done 1
/// all done
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Group {
    object: ObjectRef,
    is_cancelled: AtomicBool,
}

impl Group {
    pub(crate) fn new(object: ObjectRef) -> Group {
        Group { object, is_cancelled: AtomicBool::new(false) }
    }

    /// Cancels the members. The group accepts no further ones.
    fn cancel(&self) {
        if !self.is_cancelled.swap(true, Ordering::Relaxed) {
            release(Release::Group(self.object));
        }
    }

    pub(crate) fn object(&self) -> ObjectRef {
        self.object
    }
}

#[pymethods]
impl Group {
    /// Returns the call that waits until all members have finished. The first failure cancels the
    /// rest.
    fn join(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<SystemCall>> {
        let object = slf.get().object;
        calls::object(py, Op::JoinGroup(slf.into_any(), object))
    }

    fn __aenter__(slf: Py<Self>) -> Ready {
        Ready(slf.into_any())
    }

    /// Waits for the members; after an exception they are cancelled first.
    #[pyo3(signature = (kind, *_exception))]
    fn __aexit__(
        slf: Py<Self>,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _exception: &Bound<'_, PyAny>,
    ) -> PyResult<Py<SystemCall>> {
        let group = slf.get();
        let object = group.object;
        match kind {
            None => calls::object(py, Op::JoinGroup(slf.into_any(), object)),
            Some(_) => {
                group.cancel();
                Py::new(py, SystemCall::ours(Op::LeaveGroup(object)))
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("Group({})", self.object.id)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// An awaitable with an immediate value, for an `async with` that has nothing to wait for.
#[pyclass(frozen, name = "_Ready", module = "tiffany._core")]
pub(crate) struct Ready(Py<PyAny>);

#[pymethods]
impl Ready {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<()> {
        Err(PyStopIteration::new_err((self.0.clone_ref(py),)))
    }
}

/// Adds these classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Channel>()?;
    module.add_class::<Lock>()?;
    module.add_class::<Semaphore>()?;
    module.add_class::<Mutex>()?;
    module.add_class::<Permit>()?;
    module.add_class::<Group>()
}
