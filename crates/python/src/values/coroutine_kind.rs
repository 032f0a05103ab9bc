//! Recognises the interpreter's generators and coroutines by their type. It knows nothing of calls
//! or tasks.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Whether an object is a coroutine of the interpreter.
#[inline]
pub(crate) fn is_coroutine(object: &Bound<'_, PyAny>) -> bool {
    object.get_type_ptr().cast() == plain_kinds(object.py())[1].as_ptr()
}

/// Whether an object is a generator or a coroutine of the interpreter.
#[inline]
pub(crate) fn is_plain_program(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type_ptr().cast();
    let [generator, coroutine] = plain_kinds(object.py());
    class == generator.as_ptr() || class == coroutine.as_ptr()
}

/// Returns the two types: generators and coroutines.
#[inline]
fn plain_kinds(py: Python<'_>) -> &'static [Py<PyType>; 2] {
    static KINDS: PyOnceLock<[Py<PyType>; 2]> = PyOnceLock::new();
    KINDS.get_or_init(py, || {
        ["GeneratorType", "CoroutineType"].map(|name| {
            let types = py.import("types").expect("the standard library is there");
            let class = types.getattr(name).expect("it has these types");
            class.cast_into::<PyType>().expect("a type").unbind()
        })
    })
}
