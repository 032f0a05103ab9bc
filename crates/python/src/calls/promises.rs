//! The calls for promises.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use tiffany::kernel::ObjectRef;

use super::{of, plain};
use crate::calls::call::{Op, SystemCall};
use crate::handles::Promise;
use crate::values::errors;
use crate::values::errors::{Raise, TiffanyError};

plain! {
    /// Creates a `Promise`. Any task that has it can settle it, once; tasks wait for its `future`.
    ///
    /// >>> async def child(promise):
    /// ...     await complete_promise(promise, "done")
    /// >>> async def main():
    /// ...     promise = await create_promise()
    /// ...     await spawn(child(promise))
    /// ...     return await promise.future
    /// >>> run(main())
    /// 'done'
    CreatePromise => Op::CreatePromise,
    /// Creates an `ExternalPromise`, which is settled from outside.
    ///
    /// >>> import threading
    /// >>> async def main():
    /// ...     promise = await create_external_promise()
    /// ...     threading.Thread(target=complete_by_uuid, args=(promise.uuid, "yes")).start()
    /// ...     return await promise.future
    /// >>> run(main())
    /// 'yes'
    CreateExternalPromise => Op::CreateExternalPromise,
}

fn object(promise: &Bound<'_, PyAny>) -> PyResult<ObjectRef> {
    match promise.cast::<Promise>() {
        Ok(promise) => Ok(promise.get().object()),
        Err(_) => {
            let name = promise.get_type().name()?.to_string();
            let hint = match name.as_str() {
                "ExternalPromise" => "; settle this one with its own `complete` and `fail`",
                _ => "",
            };
            let message = format!("`{name}` is not a Promise{hint}");
            Err(TiffanyError::BadArgument.err(promise.py(), message))
        }
    }
}

/// Settles a promise with a value. Settling it twice is an error, and the first value stays.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct CompletePromise;

#[pymethods]
impl CompletePromise {
    #[new]
    #[pyo3(signature = (promise, value = None))]
    fn new(
        promise: Bound<'_, PyAny>,
        value: Option<Py<PyAny>>,
    ) -> PyResult<PyClassInitializer<CompletePromise>> {
        let value = value.unwrap_or_else(|| promise.py().None());
        Ok(of(CompletePromise, Op::CompletePromise(object(&promise)?, value)))
    }
}

/// Settles a promise with an exception, which is raised in the tasks that wait for it.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct FailPromise;

#[pymethods]
impl FailPromise {
    #[new]
    fn new(
        promise: Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
    ) -> PyResult<PyClassInitializer<FailPromise>> {
        let object = object(&promise)?;
        errors::check_exception(&error)?;
        Ok(of(FailPromise, Op::FailPromise(object, error.unbind())))
    }
}
