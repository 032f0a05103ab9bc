//! Tags, attributes and deadlines, from Python objects. What they may be is the kernel's to say; an object of another type
//! is an error here.

use std::collections::BTreeMap;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use tiffany::control::AttributeFilter;
use tiffany::durable::{AttributeValue, StartOptions};
use tiffany::{ErrorKind, Time};

use crate::values::errors::{Raise, to_python};

/// Reads the value of an attribute.
pub(crate) fn value(name: &str, given: &Bound<'_, PyAny>) -> PyResult<AttributeValue> {
    let py = given.py();
    let bad = |what: String| {
        let message = format!("the attribute `{name}` {what}");
        ErrorKind::BadAttribute.err(py, message)
    };
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(AttributeValue::Flag(flag.is_true()));
    }
    if given.is_instance_of::<PyInt>() {
        let number = given.extract().map_err(|_| bad("has more than 64 bits".into()))?;
        return Ok(AttributeValue::Integer(number));
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(AttributeValue::Float(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        let text = given.extract().map_err(|_| bad("has a lone surrogate".into()))?;
        return Ok(AttributeValue::Text(text));
    }
    match moment(given)? {
        Some(time) => Ok(AttributeValue::Time(time)),
        None => {
            let name = given.get_type().name()?;
            Err(bad(format!("is a `{name}`; it is a str, an int, a float, a bool or a datetime")))
        }
    }
}

/// Reads a `datetime`; `None` if the object is something else. Without a time zone it is local time, as in Python.
fn moment(given: &Bound<'_, PyAny>) -> PyResult<Option<Time>> {
    let Ok(seconds) = given.call_method0("timestamp") else { return Ok(None) };
    // Whole microseconds, which a float of today's seconds does not hold.
    let micros: i64 = given.getattr("microsecond")?.extract()?;
    let whole = seconds.extract::<f64>()?.floor();
    let nanos = whole * 1e9 + micros as f64 * 1e3;
    match (0.0..=u64::MAX as f64).contains(&nanos) {
        true => Ok(Some(Time::from_nanos(whole as u64 * 1_000_000_000 + micros as u64 * 1_000))),
        false => {
            let message = format!("{given} is before 1970 or too far away");
            Err(ErrorKind::BadAttribute.err(given.py(), message))
        }
    }
}

/// Reads attributes by name; `None` for those that are `None`.
pub(crate) fn values(
    given: &Bound<'_, PyDict>,
) -> PyResult<BTreeMap<String, Option<AttributeValue>>> {
    let mut values = BTreeMap::new();
    for (name, object) in given {
        let Ok(name) = name.extract::<String>() else {
            let message = format!("the name of an attribute is a str, not {}", name.repr()?);
            return Err(ErrorKind::BadAttribute.err(given.py(), message));
        };
        let read = if object.is_none() { None } else { Some(value(&name, &object)?) };
        values.insert(name, read);
    }
    Ok(values)
}

/// What a run is started with, as `python/tiffany` passes it on.
pub(crate) type Given<'py> = (Vec<String>, Bound<'py, PyDict>, Option<Bound<'py, PyAny>>);

/// Reads what a run is started with: a list of tags, a dict of attributes, and a datetime, a timedelta or a number of
/// seconds.
pub(crate) fn options((tags, attributes, deadline): Given<'_>) -> PyResult<StartOptions> {
    let mut options = tags.into_iter().fold(StartOptions::new(), StartOptions::tag);
    for (name, value) in values(&attributes)? {
        let none = || {
            let message = format!("the attribute `{name}` is None; leave it out");
            ErrorKind::BadAttribute.err(attributes.py(), message)
        };
        let value = value.ok_or_else(none)?;
        options = options.attribute(name, value);
    }
    let Some(deadline) = deadline else { return Ok(options) };
    if let Some(at) = moment(&deadline)? {
        return Ok(options.deadline_at(at));
    }
    let seconds = deadline.extract::<f64>().ok().or_else(|| {
        deadline.call_method0("total_seconds").and_then(|seconds| seconds.extract::<f64>()).ok()
    });
    let after = seconds.filter(|_| !deadline.is_instance_of::<PyBool>());
    match after.map(Duration::try_from_secs_f64) {
        Some(Ok(after)) => Ok(options.deadline_in(after)),
        _ => {
            let message = format!(
                "the deadline is a datetime, a timedelta or a number of seconds, not {}",
                deadline.repr()?
            );
            Err(ErrorKind::BadDeadline.err(deadline.py(), message))
        }
    }
}

/// Reads conditions: texts such as `amount>=10`.
pub(crate) fn filters(
    py: Python<'_>,
    texts: &[Bound<'_, PyAny>],
) -> PyResult<Vec<AttributeFilter>> {
    let read = |given: &Bound<'_, PyAny>| {
        let text: String = given.extract().or_else(|_| {
            let message = format!("a condition is a str, not {}", given.repr()?);
            Err(ErrorKind::BadAttribute.err(py, message))
        })?;
        AttributeFilter::parse(&text).map_err(|error| to_python(py, &error))
    };
    texts.iter().map(read).collect()
}
