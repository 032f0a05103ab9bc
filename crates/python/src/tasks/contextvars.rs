//! Context variables: each task has its own copy of the context of the task that spawned it, as in
//! asyncio.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

type Copy = unsafe extern "C" fn() -> *mut PyObject;
type Move = unsafe extern "C" fn(*mut PyObject) -> c_int;

/// The interpreter's functions for contexts. They exist since 3.7 but are not part of the stable
/// ABI, so they are looked up by name.
struct Api {
    copy: Copy,
    enter: Move,
    exit: Move,
}

impl Api {
    /// Returns `None` for an interpreter without these functions, where all tasks share one
    /// context.
    fn get(py: Python<'_>) -> Option<&'static Api> {
        static API: PyOnceLock<Option<Api>> = PyOnceLock::new();
        API.get_or_init(py, Api::find).as_ref()
    }

    fn find() -> Option<Api> {
        let (copy, enter, exit) = (
            symbol(c"PyContext_CopyCurrent")?,
            symbol(c"PyContext_Enter")?,
            symbol(c"PyContext_Exit")?,
        );
        // SAFETY: these functions have had these signatures in every version that has them.
        unsafe {
            Some(Api {
                copy: transmute::<*mut c_void, Copy>(copy),
                enter: transmute::<*mut c_void, Move>(enter),
                exit: transmute::<*mut c_void, Move>(exit),
            })
        }
    }
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero; nothing is called here.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// A task's own context.
pub(crate) struct TaskContext(Option<Py<PyAny>>);

impl TaskContext {
    /// Returns a copy of the current context.
    #[inline]
    pub(crate) fn copy(py: Python<'_>) -> TaskContext {
        let Some(api) = Api::get(py) else { return TaskContext(None) };
        // SAFETY: the interpreter is attached; the result is a new reference or an error.
        let copied = unsafe { Bound::from_owned_ptr_or_err(py, (api.copy)()) };
        TaskContext(copied.ok().map(Bound::unbind))
    }

    /// Enters this context until the returned guard is dropped.
    #[inline]
    pub(crate) fn enter<'py>(&self, py: Python<'py>) -> Option<Inside<'py>> {
        let context = self.0.as_ref()?.clone_ref(py).into_bound(py);
        let api = Api::get(py)?;
        // SAFETY: the interpreter is attached, and this is a context.
        match unsafe { (api.enter)(context.as_ptr()) } {
            0 => Some(Inside { context, api }),
            _ => {
                // Only this task enters it. If entering fails, the task runs without it.
                drop(PyErr::take(py));
                None
            }
        }
    }
}

/// The guard of an entered context.
pub(crate) struct Inside<'py> {
    context: Bound<'py, PyAny>,
    api: &'static Api,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the interpreter is attached, and this context was entered last.
        let failed = unsafe { (self.api.exit)(self.context.as_ptr()) } != 0;
        if failed {
            drop(PyErr::take(self.context.py()));
        }
    }
}
