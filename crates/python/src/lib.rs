//! Tiffany for Python: the module `tiffany._core`. The package around it is in `python/tiffany`.
//!
//! Rust and Python tasks can share a scheduler: [`Program`] makes a Rust program available to
//! Python tasks, and [`coroutine`] makes a Python program available to Rust tasks. [`module`] is
//! for processes that embed the interpreter.

mod calls;
mod cli;
mod durable;
mod handles;
mod history;
mod process;
mod pyos;
mod runtime;
mod tasks;
mod testing;
mod values;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::kernel::BoxCoroutine;

use crate::calls::net;
use crate::handles::objects;
use crate::process::{session, signals};
use crate::runtime::{activity, requests, settings};
pub use crate::tasks::program::Program;
use crate::tasks::{asyncgens, handler, spawn};
pub use crate::values::value::{from_value, to_value};
use crate::values::{codec, errors, line};

/// Returns the module `tiffany._core`, for a process that embeds the interpreter and puts it into
/// `sys.modules`.
pub fn module(py: Python<'_>) -> Bound<'_, PyAny> {
    pyo3::wrap_pymodule!(self::core)(py).into_bound(py).into_any()
}

/// Turns a Python generator or coroutine into a coroutine for the scheduler.
pub fn coroutine(program: &Bound<'_, PyAny>) -> PyResult<BoxCoroutine> {
    spawn::check(program)?;
    spawn::coroutine(program, line::Line::of_program(program))
}

/// The compiled part of `tiffany`. Programs import `tiffany`.
#[pymodule(name = "_core")]
fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    in_main_interpreter(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    calls::add(module)?;
    codec::register(module)?;
    handles::add(module)?;
    objects::add(module)?;
    handler::add(module)?;
    net::add(module)?;
    durable::add(module)?;
    history::add(module)?;
    pyos::add(module)?;
    module.add_class::<errors::ErrorBox>()?;
    module.add_function(wrap_pyfunction!(errors::redacted, module)?)?;
    module.add_class::<Program>()?;
    module.add_class::<settings::Lazy>()?;
    module.add_class::<runtime::Runtime>()?;
    module.add_class::<activity::Events>()?;
    module.add_class::<requests::Requests>()?;
    module.add_class::<requests::Answer>()?;
    signals::add(module)?;
    asyncgens::add(module)?;
    cli::add(module)?;
    testing::add(module)?;
    module.add_function(wrap_pyfunction!(session::is_looping, module)?)?;
    tell_of_forks(module.py())?;
    Ok(())
}

/// Returns an error in a sub-interpreter, because threads attach to the main interpreter and the
/// statics hold objects of the main interpreter.
fn in_main_interpreter(_: Python<'_>) -> PyResult<()> {
    // SAFETY: the interpreter is attached.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match number {
        0 => Ok(()),
        _ => Err(PyImportError::new_err("a subinterpreter cannot have this module")),
    }
}

/// Has the interpreter call `session::forked` in every forked child.
fn tell_of_forks(py: Python<'_>) -> PyResult<()> {
    let told = PyDict::new(py);
    told.set_item("after_in_child", wrap_pyfunction!(session::forked, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&told))?;
    Ok(())
}
