//! `await call`: an iterator that yields its call once and returns the value it is sent.
//!
//! One is created for every `await`, so it is a raw type of the C API and not a class of pyo3: with
//! `am_send` the answer is returned without an exception that carries it, and since an awaiter
//! cannot be part of a cycle, the garbage collector does not track it. This file needs `unsafe` for
//! that.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::calls::call::SystemCall;
use crate::values::errors::{Raise, TiffanyError};

/// The iterator. It holds its call until it has yielded it.
#[repr(C)]
struct Awaiter {
    base: ffi::PyObject,
    call: *mut ffi::PyObject,
}

/// Returns the iterator for `__await__` of a call.
#[inline]
pub(crate) fn awaiter(py: Python<'_>, call: Py<SystemCall>) -> PyResult<Py<PyAny>> {
    // The awaiting code receives the call's result.
    call.get().made();
    let class = class(py)?;
    // SAFETY: the type was created below, its objects are `Awaiter`s, and a new one is zeroed. The
    // call's reference moves into it.
    unsafe {
        let object = ffi::PyType_GenericAlloc(class.as_ptr().cast(), 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        (*object.as_ptr().cast::<Awaiter>()).call = call.into_ptr();
        Ok(object.unbind())
    }
}

/// Yields the call, and then returns the value that is sent.
unsafe extern "C" fn send(
    slf: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: the interpreter calls this with an object of this type and a place for the result,
    // which is a new reference.
    unsafe {
        let call = std::mem::replace(&mut (*slf.cast::<Awaiter>()).call, null_mut());
        if !call.is_null() {
            *result = in_task(call);
            return match (*result).is_null() {
                true => ffi::PySendResult::PYGEN_ERROR,
                false => ffi::PySendResult::PYGEN_NEXT,
            };
        }
        ffi::Py_INCREF(value);
        *result = value;
        ffi::PySendResult::PYGEN_RETURN
    }
}

/// The method `send`. The interpreter calls it by name under a tracer (a debugger or a coverage
/// tool), and since Python 3.12 whenever the answer is not `None`.
unsafe extern "C" fn send_method(
    slf: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let mut result = null_mut();
    // SAFETY: the interpreter calls this with an object of this type, and expects a new reference
    // or an exception.
    unsafe {
        match send(slf, value, &raw mut result) {
            ffi::PySendResult::PYGEN_RETURN => Python::attach(|py| {
                let value = Bound::from_owned_ptr(py, result);
                PyStopIteration::new_err((value.unbind(),)).restore(py);
                null_mut()
            }),
            _ => result,
        }
    }
}

/// `__next__`: returns the call, and then ends.
unsafe extern "C" fn next(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with an object of this type. Null without an exception
    // means the end.
    unsafe {
        let call = std::mem::replace(&mut (*slf.cast::<Awaiter>()).call, null_mut());
        if call.is_null() { call } else { in_task(call) }
    }
}

/// Returns the call if a task awaits it, and null with an exception if something other than the
/// scheduler runs the coroutine.
#[inline]
fn in_task(call: *mut ffi::PyObject) -> *mut ffi::PyObject {
    match tiffany::binding::in_task() {
        true => call,
        false => outside(call),
    }
}

#[cold]
fn outside(call: *mut ffi::PyObject) -> *mut ffi::PyObject {
    Python::attach(|py| {
        let message = "a call was awaited where no task runs; give the coroutine to `tiffany.run`";
        TiffanyError::OutsideTask.err(py, message).restore(py);
        // SAFETY: the reference was the awaiter's, and the interpreter is attached.
        unsafe { ffi::Py_DECREF(call) };
        null_mut()
    })
}

unsafe extern "C" fn itself(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with an object of this type, and expects a new reference.
    unsafe { ffi::Py_INCREF(slf) };
    slf
}

unsafe extern "C" fn dealloc(slf: *mut ffi::PyObject) {
    // SAFETY: no references to this object are left. Its type is a heap type, to which it holds a
    // reference.
    unsafe {
        ffi::Py_XDECREF((*slf.cast::<Awaiter>()).call);
        let class = ffi::Py_TYPE(slf);
        ffi::PyObject_Free(slf.cast());
        ffi::Py_DECREF(class.cast());
    }
}

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let slot = |slot: c_int, function: *mut c_void| ffi::PyType_Slot { slot, pfunc: function };
        let method = ffi::PyMethodDef {
            ml_name: c"send".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: send_method },
            ml_flags: ffi::METH_O,
            ml_doc: null_mut(),
        };
        // The type refers to the methods, and lives as long as the interpreter.
        let methods = Box::leak(Box::new([method, ffi::PyMethodDef::zeroed()]));
        let mut slots = [
            slot(ffi::Py_am_send, send as *mut c_void),
            slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
            slot(ffi::Py_tp_iter, itself as *mut c_void),
            slot(ffi::Py_tp_iternext, next as *mut c_void),
            slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
            slot(0, null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"tiffany._core._Awaiter".as_ptr(),
            basicsize: size_of::<Awaiter>() as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION) as u32,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the specification is complete, and the interpreter copies what it keeps of it.
        let made =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}
