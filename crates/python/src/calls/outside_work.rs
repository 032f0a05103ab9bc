//! Work outside the loop, as a task waits for it: asyncio coroutines and functions on executors.
//! `python/tiffany/_aio/outside.py` starts it. A cancelled task cancels its work and waits for the
//! end. This file doesn't depend on event loops or executors.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use pyo3::intern;
use pyo3::prelude::*;
use tiffany::binding::{self, Finish};
use tiffany::{Reply, TryCall};

use crate::calls::call;
use crate::calls::call::SystemCall;
use crate::process::session::Process;
use crate::values::errors;
use crate::values::value::{from_value, to_value};

/// Whether a cancelled task waits for its work to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stops {
    /// The task cancels the work and waits for its end.
    InTime,
    /// The task ends at once, and work that has started finishes by itself.
    ByItself,
}

/// Work that a task waits for.
pub(crate) struct Outside {
    name: &'static str,
    stops: Stops,
    call: TryCall<Reply>,
    work: Work,
}

/// The started work: an object with `cancel()` and `add_done_callback(done)`.
struct Work {
    object: Rc<RefCell<Option<Py<PyAny>>>>,
    process: Process,
    is_over: bool,
}

impl Outside {
    /// Creates work that the function starts. The function gets a callback to call at the end of
    /// the work, with the future that has the result.
    pub(crate) fn new(
        call: &Bound<'_, SystemCall>,
        name: &'static str,
        stops: Stops,
        begin: Py<PyAny>,
    ) -> Outside {
        let origin = Arc::new(call.clone().unbind());
        let object = Rc::new(RefCell::new(None));
        let begun = Rc::clone(&object);
        let call = binding::outside(name, origin, move |finish| {
            Python::attach(|py| {
                let begin = |done: &Bound<'_, Done>| begin.call1(py, (done,));
                *begun.borrow_mut() = Done::given_to(py, finish, begin);
            });
        });
        let work = Work { object, process: Process::current(), is_over: false };
        Outside { name, stops, call, work }
    }

    pub(crate) fn poll(
        &mut self,
        py: Python<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<PyResult<Py<PyAny>>> {
        let polled = Pin::new(&mut self.call).poll(cx);
        polled.map(|reply| {
            self.work.is_over = true;
            read(py, reply)
        })
    }

    /// Cancels the work of a cancelled task. Returns the future that decides what is raised at the
    /// task's yield.
    pub(crate) fn cancelled(mut self, py: Python<'_>) -> call::Boxed {
        let work = self.work.cancel(py).filter(|_| self.stops == Stops::InTime);
        let name = self.name;
        Box::pin(async move {
            let ended = match work {
                Some(work) => Some(ending(name, work).await),
                None => None,
            };
            Python::attach(|py| {
                let cancelled = errors::cancelled(py);
                // An exception during the cancellation is not lost.
                if let Some(Ok(Reply::Error(error)) | Err(error)) = ended {
                    let error = errors::to_python(py, &error);
                    cancelled.value(py).setattr(intern!(py, "__context__"), error.value(py))?;
                }
                Err(cancelled)
            })
        })
    }
}

fn read(py: Python<'_>, reply: Result<Reply, tiffany::TaskError>) -> PyResult<Py<PyAny>> {
    match reply {
        Ok(Reply::Value(value)) => from_value(py, value),
        Ok(Reply::Error(error)) | Err(error) => Err(errors::to_python(py, &error)),
        Ok(_) => Ok(py.None()),
    }
}

/// Waits for the end of work that was cancelled.
fn ending(name: &'static str, work: Py<PyAny>) -> TryCall<Reply> {
    // Handlers do not see this call.
    binding::outside(name, Arc::new(()), move |finish| {
        Python::attach(|py| {
            Done::given_to(py, finish, |done| {
                done.get().expects_cancel();
                work.call_method1(py, intern!(py, "add_done_callback"), (done,))
            });
        });
    })
}

impl Work {
    /// Cancels the work, if it has started and not finished.
    fn cancel(&mut self, py: Python<'_>) -> Option<Py<PyAny>> {
        let is_over = std::mem::replace(&mut self.is_over, true);
        if is_over || !self.process.is_current() {
            return None;
        }
        let work = self.object.borrow_mut().take()?;
        if let Err(error) = work.call_method0(py, intern!(py, "cancel")) {
            error.write_unraisable(py, Some(work.bind(py)));
        }
        Some(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_over {
            Python::try_attach(|py| self.cancel(py));
        }
    }
}

/// Called with the future of the work when the work has finished, on any thread.
#[pyclass(frozen, name = "_Done", module = "tiffany._core")]
struct Done(Mutex<(Option<Finish>, Cancel)>, Process);

/// How to report cancelled work: as an error, unless the task itself cancelled it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cancel {
    Error,
    Expected,
}

impl Done {
    /// Calls a function with the work's object. If that fails, the work fails.
    fn given_to(
        py: Python<'_>,
        finish: Finish,
        give: impl FnOnce(&Bound<'_, Done>) -> PyResult<Py<PyAny>>,
    ) -> Option<Py<PyAny>> {
        let done = match Bound::new(
            py,
            Done(Mutex::new((Some(finish), Cancel::Error)), Process::current()),
        ) {
            Ok(done) => done,
            Err(error) => {
                error.write_unraisable(py, None);
                return None;
            }
        };
        match give(&done) {
            Ok(given) => Some(given),
            Err(error) => {
                done.get().tell(py, Err(error));
                None
            }
        }
    }

    fn expects_cancel(&self) {
        self.lock().1 = Cancel::Expected;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<Finish>, Cancel)> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tell(&self, py: Python<'_>, result: PyResult<Bound<'_, PyAny>>) {
        let (finish, cancel) = {
            let mut inside = self.lock();
            (inside.0.take(), inside.1)
        };
        let Some(finish) = finish else { return };
        match result {
            Ok(value) => {
                let value = value.unbind();
                finish.tell(move || Ok(Python::attach(|py| to_value(value.into_bound(py)))));
            }
            Err(error) if cancel == Cancel::Expected && is_cancelled(py, &error) => {
                finish.tell(|| Ok(tiffany::Value::Unit));
            }
            Err(error) => {
                let error = errors::from_python(py, &error);
                finish.tell(move || Err(error));
            }
        }
    }
}

#[pymethods]
impl Done {
    fn __call__(&self, future: &Bound<'_, PyAny>) {
        let py = future.py();
        self.1.end_if_forked();
        self.tell(py, future.call_method0(intern!(py, "result")));
    }
}

/// Whether an exception says that a future was cancelled.
fn is_cancelled(py: Python<'_>, error: &PyErr) -> bool {
    let class = |module: &str| py.import(module)?.getattr("CancelledError");
    ["asyncio", "concurrent.futures"]
        .iter()
        .any(|module| class(module).is_ok_and(|class| error.is_instance(py, &class)))
}
