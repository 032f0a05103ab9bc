//! The calls for work outside the loop: asyncio coroutines, and functions on threads and in
//! processes.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::{PyDict, PyTuple};

use super::of;
use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::outside_work::{Outside, Stops};
use crate::calls::pending::Pending;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;

/// The work that a function in `python/tiffany/_aio/outside.py` starts.
struct Begun {
    name: &'static str,
    stops: Stops,
    begin: Py<PyAny>,
    /// Whether starting it uses up the call, as with a coroutine.
    once: Option<AtomicBool>,
    in_durable: &'static str,
}

impl Begun {
    /// Creates a call whose work this function of `outside.py` starts, after checking the
    /// arguments.
    fn prepared(function: &str, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let prepare = args.py().import("tiffany._aio.outside")?.getattr(function)?;
        Ok(prepare.call1(args)?.unbind())
    }
}

impl Perform for Begun {
    fn name(&self, _py: Python<'_>) -> String {
        self.name.into()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        _at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        if tiffany::binding::is_durable() {
            let message =
                format!("`{}` was called in a durable run; {}", self.name, self.in_durable);
            return Err(TiffanyError::NotDurable.err(py, message));
        }
        if self.once.as_ref().is_some_and(|once| once.swap(true, Ordering::Relaxed)) {
            let message = "this coroutine was given to asyncio before";
            return Err(TiffanyError::Begun.err(py, message));
        }
        // The context here is the task's.
        let begin = self.begin.bind(py).call0()?.unbind();
        Ok(Pending::Outside(Box::new(Outside::new(call, self.name, self.stops, begin))))
    }
}

/// Runs an asyncio coroutine and returns its value: on the event loop that runs this program
/// (`arun`), or on one in a thread.
///
/// >>> import asyncio
/// >>> async def main():
/// ...     return await aio(asyncio.sleep(0.001, "slept"))
/// >>> run(main())
/// 'slept'
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct Aio {
    /// The coroutine.
    #[pyo3(get)]
    coroutine: Py<PyAny>,
}

#[pymethods]
impl Aio {
    #[new]
    fn new(coroutine: Bound<'_, PyAny>) -> PyResult<PyClassInitializer<Aio>> {
        let args = PyTuple::new(coroutine.py(), [&coroutine])?;
        let begin = Begun::prepared("coroutine", &args)?;
        let begun = Begun {
            name: "aio",
            stops: Stops::InTime,
            begin,
            once: Some(AtomicBool::new(false)),
            in_durable: "make it a step: a function that is `async def` under `@step`",
        };
        Ok(of(Aio { coroutine: coroutine.unbind() }, Op::Other(Box::new(begun))))
    }
}

macro_rules! on_executor {
    ($($name:ident $tag:literal $doc:literal),+ $(,)?) => {
        $(
            #[doc = $doc]
            #[pyclass(frozen, extends = SystemCall, get_all, module = "tiffany")]
            pub(crate) struct $name {
                /// The executor, or `None` for the shared one.
                executor: Py<PyAny>,
                /// The function that is called.
                function: Py<PyAny>,
                /// The positional arguments.
                args: Py<PyTuple>,
                /// The keyword arguments.
                kwargs: Option<Py<PyDict>>,
            }

            #[pymethods]
            impl $name {
                #[new]
                #[pyo3(signature = (*args, **kwargs))]
                fn new(
                    args: &Bound<'_, PyTuple>,
                    kwargs: Option<&Bound<'_, PyDict>>,
                ) -> PyResult<PyClassInitializer<$name>> {
                    let split = args.py().import("tiffany._aio.outside")?.getattr("split")?;
                    let split = split.call1((stringify!($name), args))?;
                    let (executor, function, args) =
                        split.extract::<(Py<PyAny>, Py<PyAny>, Bound<'_, PyTuple>)>()?;
                    let given = (&executor, &function, &args, kwargs).into_pyobject(args.py())?;
                    let begun = Begun {
                        name: $tag,
                        stops: Stops::ByItself,
                        begin: Begun::prepared($tag, &given)?,
                        once: None,
                        in_durable: "make it a step: a function under `@step` runs on a thread",
                    };
                    let (args, kwargs) = (args.unbind(), kwargs.cloned().map(Bound::unbind));
                    let call = $name { executor, function, args, kwargs };
                    Ok(of(call, Op::Other(Box::new(begun))))
                }
            }
        )+
    };
}

on_executor! {
    InThread "in_thread" "Calls a function on a thread of an executor and returns its value. Without an executor, a shared one is used.

>>> async def main():
...     return await in_thread(pow, 2, 10)
>>> run(main())
1024",
    InProcess "in_process" "Calls a function in a process of an executor and returns its value. Without an executor, a shared one is used.

The processes are started afresh (not forked), and arguments and results are pickled.

>>> async def main():
...     return await in_process(pow, 2, 10)
>>> run(main())
1024",
}
