//! The calls for channels, semaphores, mutexes and groups.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;

use super::{given, of, plain};
use crate::calls::call::{Op, SystemCall};
use crate::handles::objects::{Channel, Group, Lock};
use crate::values::argument;

plain! {
    /// Creates a `Mutex`.
    CreateMutex => Op::CreateMutex,
    /// Creates a `Group` of tasks.
    CreateGroup => Op::CreateGroup,
}

/// Creates a `Channel` with room for this many messages; without a number, its capacity is
/// unlimited.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct CreateChannel;

#[pymethods]
impl CreateChannel {
    #[new]
    #[pyo3(signature = (capacity = None))]
    fn new(
        #[pyo3(from_py_with = argument::capacity)] capacity: Option<usize>,
    ) -> PyClassInitializer<CreateChannel> {
        of(CreateChannel, Op::CreateChannel(capacity))
    }
}

/// Sends a message to a channel, waiting for room.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Send;

#[pymethods]
impl Send {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::channel)] channel: Bound<'_, Channel>,
        message: Py<PyAny>,
    ) -> PyClassInitializer<Send> {
        let object = channel.get().object();
        let op = Op::Send(Some(channel.into_any().unbind()), object, message);
        of(Send, op)
    }

    /// The message.
    #[getter]
    fn message(slf: PyRef<'_, Self>, py: Python<'_>) -> Py<PyAny> {
        given!(slf, Op::Send(_, _, message) => message.clone_ref(py))
    }
}

/// Receives a message from a channel, waiting for one. Raises `ChannelClosedError` if the channel
/// is closed and empty.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Receive;

#[pymethods]
impl Receive {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::channel)] channel: Bound<'_, Channel>,
    ) -> PyClassInitializer<Receive> {
        let object = channel.get().object();
        of(Receive, Op::Receive(Some(channel.into_any().unbind()), object))
    }
}

/// Creates a `Semaphore` with this many permits.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct CreateSemaphore;

#[pymethods]
impl CreateSemaphore {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::permits)] permits: usize,
    ) -> PyClassInitializer<CreateSemaphore> {
        of(CreateSemaphore, Op::CreateSemaphore(permits))
    }
}

/// Acquires permits of a semaphore, or the permit of a mutex, waiting for them.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Acquire;

#[pymethods]
impl Acquire {
    #[new]
    #[pyo3(signature = (semaphore, permits = 1))]
    fn new(
        #[pyo3(from_py_with = argument::semaphore)] semaphore: Bound<'_, Lock>,
        #[pyo3(from_py_with = argument::permits)] permits: usize,
    ) -> PyClassInitializer<Acquire> {
        let object = semaphore.get().object();
        let op = Op::Acquire(Some(semaphore.into_any().unbind()), object, permits);
        of(Acquire, op)
    }
}

/// Waits until all members of a group have finished. The first failure cancels the rest.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct JoinGroup;

#[pymethods]
impl JoinGroup {
    #[new]
    fn new(
        #[pyo3(from_py_with = argument::group)] group: Bound<'_, Group>,
    ) -> PyClassInitializer<JoinGroup> {
        let object = group.get().object();
        of(JoinGroup, Op::JoinGroup(group.into_any().unbind(), object))
    }
}
