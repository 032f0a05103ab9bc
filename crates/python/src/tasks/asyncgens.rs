//! Async generators that are left before their end, as in `async for item in items(): break`. Their
//! `finally` blocks have to run, and may make calls.
//!
//! A generator that a task drops is closed in that task, before its next call or its end. That
//! place is the same in every run, so a replay closes it there too. A generator that the garbage
//! collector finds is closed when the collector runs, which differs from run to run, so it must not
//! make calls; neither may generators that are left at the end of a run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use tiffany::{RunId, binding};

thread_local! {
    /// Generators that the task being resumed has dropped.
    static LEFT: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
    /// The started generators of ephemeral runs, in weak sets.
    static BEGUN: RefCell<BTreeMap<RunId, Py<PyAny>>> = const { RefCell::new(BTreeMap::new()) };
    /// Whether the garbage collector is running on this thread.
    static COLLECTS: Cell<bool> = const { Cell::new(false) };
}

/// The number of generators in `LEFT` on all threads. A task checks it after every turn.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Takes over async generators that start on this thread while it exists.
pub(crate) struct Hooks<'py> {
    sys: Bound<'py, PyAny>,
    was: Bound<'py, PyAny>,
}

impl<'py> Hooks<'py> {
    pub(crate) fn new(py: Python<'py>) -> PyResult<Hooks<'py>> {
        let sys = py.import("sys")?.into_any();
        let was = sys.call_method0("get_asyncgen_hooks")?;
        let (begun, left) = functions(py)?;
        sys.call_method1("set_asyncgen_hooks", (begun, left))?;
        Ok(Hooks { sys, was })
    }
}

impl Drop for Hooks<'_> {
    fn drop(&mut self) {
        let hooks = (self.was.get_item(0), self.was.get_item(1));
        let restored = match hooks {
            (Ok(begun), Ok(left)) => self.sys.call_method1("set_asyncgen_hooks", (begun, left)),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if let Err(error) = restored {
            error.write_unraisable(self.sys.py(), None);
        }
    }
}

/// The hooks that Python calls when a generator starts and when it is dropped.
fn functions(py: Python<'_>) -> PyResult<&'static (Py<PyAny>, Py<PyAny>)> {
    static FUNCTIONS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    FUNCTIONS.get_or_try_init(py, || {
        let core = PyModule::new(py, "tiffany._core")?;
        let begun = wrap_pyfunction!(begun, &core)?.into_any().unbind();
        let left = wrap_pyfunction!(left, &core)?.into_any().unbind();
        Ok((begun, left))
    })
}

#[pyfunction]
fn begun(generator: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = generator.py();
    watch_collector(py)?;
    let Some(task) = binding::current_task().filter(|_| !binding::is_durable()) else {
        return Ok(());
    };
    let known = BEGUN.with_borrow(|begun| begun.get(&task.run).map(|set| set.clone_ref(py)));
    let set = match known {
        Some(set) => set.into_bound(py),
        None => {
            let set = py.import("weakref")?.call_method0("WeakSet")?;
            BEGUN.with_borrow_mut(|begun| begun.insert(task.run, set.clone().unbind()));
            set
        }
    };
    set.call_method1("add", (generator,)).map(drop)
}

#[pyfunction]
fn left(generator: &Bound<'_, PyAny>) -> PyResult<()> {
    if !binding::in_task() || COLLECTS.get() {
        return close_now(generator);
    }
    LEFT.with_borrow_mut(|left| left.push(generator.clone().unbind()));
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Registers a callback with the garbage collector, before the first generator.
fn watch_collector(py: Python<'_>) -> PyResult<()> {
    static WATCHED: PyOnceLock<()> = PyOnceLock::new();
    let watch = || {
        let core = PyModule::new(py, "tiffany._core")?;
        let collecting = wrap_pyfunction!(collecting, &core)?;
        py.import("gc")?.getattr("callbacks")?.call_method1("append", (collecting,)).map(drop)
    };
    WATCHED.get_or_try_init(py, watch).map(|&()| ())
}

#[pyfunction]
fn collecting(phase: &str, info: &Bound<'_, PyAny>) {
    let _ = info;
    COLLECTS.set(phase == "start");
}

/// Whether a task may have dropped a generator.
#[inline]
pub(crate) fn any_left() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Generators that the task being resumed has dropped.
pub(crate) fn take() -> Vec<Py<PyAny>> {
    let left = LEFT.take();
    COUNT.fetch_sub(left.len(), Ordering::Relaxed);
    left
}

/// Returns a program that closes generators and then makes the call.
pub(crate) fn close_before(
    py: Python<'_>,
    generators: Vec<Py<PyAny>>,
    call: Py<PyAny>,
) -> PyResult<Py<PyAny>> {
    let closing = py.import("tiffany._aio.asyncgens")?.getattr("close_before")?;
    Ok(closing.call1((generators, call))?.unbind())
}

/// Returns a program that closes generators.
pub(crate) fn close_all(py: Python<'_>, generators: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let closing = py.import("tiffany._aio.asyncgens")?.getattr("close_all")?;
    Ok(closing.call1((generators,))?.unbind())
}

/// Closes a generator that must not make calls.
pub(crate) fn close_now(generator: &Bound<'_, PyAny>) -> PyResult<()> {
    let close = generator.py().import("tiffany._aio.asyncgens")?.getattr("close_now")?;
    close.call1((generator,)).map(drop)
}

/// Closes the generators dropped by a task that gets no more turns.
#[cold]
pub(crate) fn close_left(py: Python<'_>) {
    for generator in take() {
        let generator = generator.bind(py);
        if let Err(error) = close_now(generator) {
            error.write_unraisable(py, Some(generator));
        }
    }
}

/// The generators of an ephemeral run. Dropping it closes those that are left.
pub(crate) struct OfRun(pub(crate) RunId);

impl Drop for OfRun {
    fn drop(&mut self) {
        let Some(set) = BEGUN.with_borrow_mut(|begun| begun.remove(&self.0)) else { return };
        Python::attach(|py| {
            let close_each = || -> PyResult<()> {
                let all = py.import("builtins")?.call_method1("list", (set,))?;
                all.try_iter()?.try_for_each(|generator| close_now(&generator?))
            };
            if let Err(error) = close_each() {
                error.write_unraisable(py, None);
            }
        });
    }
}

/// Prints an exception that cannot be caught.
#[pyfunction]
fn _show_unraisable(error: &Bound<'_, PyBaseException>, object: &Bound<'_, PyAny>) {
    PyErr::from_value(error.clone().into_any()).write_unraisable(error.py(), Some(object));
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_show_unraisable, module)?)
}
