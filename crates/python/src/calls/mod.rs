//! The call classes, by family. A class defines its arguments and fills in an `Op`; `call.rs` does
//! the rest.

mod approve;
pub(crate) mod awaiter;
pub(crate) mod call;
pub(crate) mod net;
mod objects;
mod outside;
pub(crate) mod outside_work;
pub(crate) mod pending;
mod promises;
pub(crate) mod pyos_call;
pub(crate) mod repr;
mod show;
mod simple;
mod store;
mod tasks;
mod time;
pub(crate) mod together;
mod twins;

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::PyTuple;

use crate::calls::call::{Op, SystemCall};

/// Defines call classes without arguments.
macro_rules! plain {
    ($($(#[$meta:meta])* $name:ident => $op:expr),+ $(,)?) => {
        $(
            $(#[$meta])*
            #[pyclass(frozen, extends = SystemCall, module = "tiffany")]
            pub(crate) struct $name;

            #[pymethods]
            impl $name {
                #[new]
                fn new() -> PyClassInitializer<$name> {
                    of($name, $op)
                }
            }
        )+
    };
}
use plain;
pub(crate) use time::duration;

/// Reads an argument of a call, for its getters.
macro_rules! given {
    ($slf:ident, $pattern:pat => $value:expr) => {
        match &$slf.as_super().op {
            $pattern => $value,
            _ => unreachable!("a call has the op of its class"),
        }
    };
}
use given;

/// Creates a call of this class.
fn of<C>(class: C, op: Op) -> PyClassInitializer<C>
where
    C: PyClass<BaseType = SystemCall>,
{
    PyClassInitializer::from(SystemCall::of(op)).add_subclass(class)
}

/// Adds all call classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    macro_rules! add {
        ($($class:ty),+ $(,)?) => { $(module.add_class::<$class>()?;)+ };
    }
    add!(
        SystemCall,
        simple::Yield,
        simple::GetTid,
        simple::GetHandlers,
        simple::Call,
        simple::ReadWait,
        simple::WriteWait,
        simple::Charge,
        simple::Blocking,
        time::Now,
        time::Random,
        time::NewUuid,
        time::Sleep,
        time::SleepUntil,
        tasks::Spawn,
        tasks::NewTask,
        tasks::Wait,
        tasks::Gather,
        tasks::GatherSettled,
        tasks::Race,
        tasks::Cancel,
        tasks::WaitTask,
        tasks::KillTask,
        tasks::Timeout,
        promises::CreatePromise,
        promises::CompletePromise,
        promises::FailPromise,
        promises::CreateExternalPromise,
        store::Get,
        store::Put,
        store::Tell,
        store::GetLog,
        store::Ask,
        show::Show,
        objects::CreateChannel,
        objects::Send,
        objects::Receive,
        objects::CreateSemaphore,
        objects::CreateMutex,
        objects::Acquire,
        objects::CreateGroup,
        objects::JoinGroup,
        approve::Approve,
        outside::Aio,
        outside::InThread,
        outside::InProcess,
    );
    show::add(module)?;
    twins::add(module)
}

/// Creates a call of the class that belongs to its op.
pub(crate) fn object(py: Python<'_>, op: Op) -> PyResult<Py<SystemCall>> {
    macro_rules! of {
        ($($pattern:pat => $class:expr),+ $(,)?) => {
            match op {
                $($pattern => {
                    let call = Bound::new(py, of($class, op))?;
                    Ok(call.into_super().unbind())
                })+
                op => Py::new(py, SystemCall::of(op)),
            }
        };
    }
    of!(
        Op::Now => time::Now,
        Op::Random => time::Random,
        Op::NewUuid => time::NewUuid,
        Op::Sleep(_) => time::Sleep,
        Op::SleepUntil(_) => time::SleepUntil,
        Op::Approve(_) => approve::Approve,
        Op::CreatePromise => promises::CreatePromise,
        Op::CompletePromise(..) => promises::CompletePromise,
        Op::FailPromise(..) => promises::FailPromise,
        Op::CreateExternalPromise => promises::CreateExternalPromise,
        Op::ReadWait(_) => simple::ReadWait,
        Op::WriteWait(_) => simple::WriteWait,
        Op::Charge(_) => simple::Charge,
        Op::Get(..) => store::Get,
        Op::Put(..) => store::Put,
        Op::Tell(_) => store::Tell,
        Op::GetLog => store::GetLog,
        Op::Ask(_) => store::Ask,
        Op::Show(_) => show::Show,
        Op::CreateChannel(_) => objects::CreateChannel,
        Op::Send(..) => objects::Send,
        Op::Receive(..) => objects::Receive,
        Op::CreateSemaphore(_) => objects::CreateSemaphore,
        Op::CreateMutex => objects::CreateMutex,
        Op::Acquire(..) => objects::Acquire,
        Op::JoinGroup(..) => objects::JoinGroup,
        Op::Cancel(..) => tasks::Cancel,
    )
}

/// Returns the arguments, or the items of a single list, tuple or generator expression. Any other
/// generator is a program.
fn several(items: &Bound<'_, PyTuple>) -> PyResult<Vec<Py<PyAny>>> {
    if items.len() == 1 {
        let only = items.get_item(0)?;
        if !together::is_one(&only)
            && let Ok(all) = only.try_iter()
        {
            return all.map(|item| Ok(item?.unbind())).collect();
        }
    }
    Ok(items.iter().map(Bound::unbind).collect())
}
