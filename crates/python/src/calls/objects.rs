//! Channels, semaphores, mutexes and groups.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;

use super::{given, of, plain};
use crate::argument;
use crate::call::{Op, SystemCall};
use crate::objects::{Channel, Group, Lock};

plain! {
    /// A new `Mutex`.
    CreateMutex => Op::CreateMutex,
    /// A new `Group` of tasks.
    CreateGroup => Op::CreateGroup,
}

/// A new `Channel` with room for so many messages; without a number, for as many as there are.
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

/// Puts a message into a channel, waiting for room.
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

/// Takes a message out of a channel, waiting for one. `ChannelClosedError` when there will be none.
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

/// A new `Semaphore` with so many permits.
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

/// Takes permits of a semaphore or the one of a mutex, waiting for them.
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

/// Waits until all members of a group are over. The first failure cancels the rest.
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
