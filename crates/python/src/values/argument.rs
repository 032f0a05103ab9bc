//! Reading arguments: numbers, texts, paths and objects of our classes. An invalid argument is a
//! `BadArgumentError` that names the argument and says what it must be. It does not know what the
//! arguments are for.
//!
//! A parameter uses it with `#[pyo3(from_py_with = argument::priority)] priority: u8`.

use std::fmt::Display;
use std::path::PathBuf;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use pyo3::{PyClass, PyTypeInfo};

use crate::values::errors::{Raise, TiffanyError};

/// A type that an argument can be read as.
pub(crate) trait Argument<'py>: Sized {
    /// Reads the argument, or returns the error that mentions it by this name.
    fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Self>;
}

macro_rules! named {
    ($($name:ident),+ $(,)?) => {
        $(
            pub(crate) fn $name<'py, T: Argument<'py>>(given: &Bound<'py, PyAny>) -> PyResult<T> {
                T::read(concat!("`", stringify!($name), "`"), given)
            }
        )+
    };
}

named!(
    as_is,
    at,
    approval,
    backup,
    by,
    capacity,
    channel,
    choice,
    choices,
    clock,
    cost,
    count,
    daemon,
    done,
    dry_run,
    end,
    every_turn,
    failed,
    force,
    format,
    from_seq,
    function,
    ghosts,
    group,
    handlers,
    host,
    id,
    key,
    level,
    limit,
    message,
    most,
    name,
    on,
    other,
    path,
    permits,
    policy,
    port,
    priority,
    question,
    queue,
    rate,
    record,
    seconds,
    semaphore,
    snapshot_every,
    stage,
    stream,
    text,
    threads,
    tid,
    to,
    total,
    wal,
    why,
);

macro_rules! whole {
    ($($number:ty),+) => {
        $(
            impl<'py> Argument<'py> for $number {
                fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<$number> {
                    number(name, given, (<$number>::MIN, <$number>::MAX))
                }
            }
        )+
    };
}
whole!(u8, u16, u64, usize);

/// Reads a whole number in a range. `True` and `False` are refused, although they are numbers in
/// Python.
fn number<'py, N>(name: &str, given: &Bound<'py, PyAny>, (first, last): (N, N)) -> PyResult<N>
where
    N: FromPyObjectOwned<'py, Error = PyErr> + PartialOrd + Display,
{
    let read = match given.is_instance_of::<PyBool>() {
        true => Err(PyTypeError::new_err(())),
        false => given.extract::<N>(),
    };
    match read {
        Ok(read) if first <= read && read <= last => Ok(read),
        read => {
            let error = read.err().unwrap_or_else(|| PyOverflowError::new_err(()));
            Err(wrong(name, given, error, || format!("a whole number from {first} to {last}")))
        }
    }
}

/// The maximum number of slots for steps, each of which may be a thread.
const MAX_STEP_SLOTS: usize = 1_000_000;

/// Reads a number of slots for steps.
pub(crate) fn step_slots(given: &Bound<'_, PyAny>) -> PyResult<usize> {
    number("`step_slots`", given, (1, MAX_STEP_SLOTS))
}

macro_rules! plain {
    ($($kind:ty => $what:literal),+ $(,)?) => {
        $(
            impl<'py> Argument<'py> for $kind {
                fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<$kind> {
                    let read = given.extract().map_err(PyErr::from);
                    read.map_err(|error| wrong(name, given, error, || $what.into()))
                }
            }
        )+
    };
}
plain!(
    f64 => "a number",
    bool => "True or False",
    PathBuf => "a path",
    Vec<Py<PyAny>> => "a list",
    Vec<String> => "a list of texts",
);

impl<'py> Argument<'py> for String {
    fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<String> {
        given.extract().map_err(|error: PyErr| {
            let is_text = error.is_instance_of::<PyUnicodeEncodeError>(given.py());
            wrong(name, given, error, || match is_text {
                true => "a text without surrogates, which are not characters".into(),
                false => "a text".into(),
            })
        })
    }
}

impl<'py, C: PyClass + PyTypeInfo> Argument<'py> for Bound<'py, C> {
    fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, C>> {
        let read = given.cast::<C>().cloned();
        read.map_err(|error| {
            wrong(name, given, error.into(), || format!("a {}", <C as PyClass>::NAME))
        })
    }
}

impl<'py, T: Argument<'py>> Argument<'py> for Option<T> {
    fn read(name: &str, given: &Bound<'py, PyAny>) -> PyResult<Option<T>> {
        match given.is_none() {
            true => Ok(None),
            false => T::read(name, given).map(Some),
        }
    }
}

/// Returns the error for an invalid argument. An exception from the user's own code stays as it is.
#[cold]
fn wrong(
    name: &str,
    given: &Bound<'_, PyAny>,
    error: PyErr,
    may_be: impl FnOnce() -> String,
) -> PyErr {
    let py = given.py();
    let is_ours = error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
        || error.is_instance_of::<PyUnicodeEncodeError>(py);
    if !is_ours {
        return error;
    }
    let message = format!("{name} is {}, not {}", may_be(), shown(given));
    TiffanyError::BadArgument.err(py, message)
}

/// Returns an error unless the object can be called.
pub(crate) fn check_callable(name: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    match given.is_callable() {
        true => Ok(()),
        false => {
            let message = format!("`{name}` is something that can be called, not {}", shown(given));
            Err(TiffanyError::BadArgument.err(given.py(), message))
        }
    }
}

/// Returns the error of the part of a dictionary that could not be read.
#[cold]
pub(crate) fn of_a_part(py: Python<'_>, mut error: PyErr) -> PyErr {
    while let Some(cause) = error.cause(py) {
        error = cause;
    }
    error
}

/// Formats an argument for a message.
pub(crate) fn shown(given: &Bound<'_, PyAny>) -> String {
    let text = given.repr().map(|text| text.to_string_lossy().into_owned());
    match text {
        Ok(text) if text.chars().count() <= SHOWN => text,
        _ => match given.get_type().name() {
            Ok(name) => format!("this `{name}`"),
            Err(_) => "that".into(),
        },
    }
}

/// Arguments with a longer `repr` are shown by their type.
const SHOWN: usize = 80;
