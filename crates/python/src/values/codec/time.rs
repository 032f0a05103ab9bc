//! Encodes and decodes datetimes, dates, durations and time zones.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use super::classes::Known;
use super::error::Fail;
use super::form::{Field, Form, Tagged};
use super::stdlib::ints;

static DATETIME: Known = Known::new("datetime", "datetime");
static DATE: Known = Known::new("datetime", "date");
static TIME: Known = Known::new("datetime", "time");
static TIMEDELTA: Known = Known::new("datetime", "timedelta");
static TIMEZONE: Known = Known::new("datetime", "timezone");
static TZINFO: Known = Known::new("datetime", "tzinfo");
static ZONEINFO: Known = Known::new("zoneinfo", "ZoneInfo");

pub(super) fn datetime<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    moment("$datetime", value)
}

pub(super) fn time<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    moment("$time", value)
}

/// Returns a datetime in ISO 8601. A plain offset is part of the text; any other zone is written
/// beside it, and the text is local time.
fn moment<'py>(tag: &'static str, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    let py = value.py();
    let mut fields: Vec<Field<'py>> = Vec::new();
    let zone = value.getattr(intern!(py, "tzinfo"))?;
    let mut local = Cow::Borrowed(value);
    if !zone.is_none() && !is_offset(&zone)? {
        let options = PyDict::new(py);
        options.set_item(intern!(py, "tzinfo"), py.None())?;
        local = Cow::Owned(value.call_method(intern!(py, "replace"), (), Some(&options))?);
        fields.push(("tzinfo".into(), zone));
    }
    let fold = value.getattr(intern!(py, "fold"))?;
    if fold.is_truthy()? {
        fields.push(("fold".into(), fold));
    }
    let text: String = local.call_method0(intern!(py, "isoformat"))?.extract()?;
    Ok(Form::Fields(tag, text.into(), fields))
}

/// Whether a zone is an offset from UTC without a name of its own.
fn is_offset(zone: &Bound<'_, PyAny>) -> Result<bool, Fail> {
    let py = zone.py();
    Ok(zone.get_type().is(TIMEZONE.get(py)?) && init_args(zone)?.len()? == 1)
}

/// Returns the arguments of a `timezone`: its offset, and its name if it has one.
fn init_args<'py>(zone: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Fail> {
    Ok(zone.call_method0(intern!(zone.py(), "__getinitargs__"))?)
}

pub(super) fn date<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    Ok(Form::Text("$date", value.call_method0(intern!(value.py(), "isoformat"))?.extract()?))
}

pub(super) fn timedelta<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    let part = |name: &str| value.getattr(name);
    Ok(Form::Items("$timedelta", vec![part("days")?, part("seconds")?, part("microseconds")?]))
}

pub(super) fn timezone<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    let parts = init_args(value)?.try_iter()?.collect::<PyResult<_>>()?;
    Ok(Form::Items("$timezone", parts))
}

pub(super) fn zoneinfo<'py>(value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    let key = value.getattr(intern!(value.py(), "key"))?;
    if key.is_none() {
        let what = "a time zone without a key, from a file, could not be found again";
        return Err(Fail::new(what).next("make it by its key: `ZoneInfo(\"Europe/Berlin\")`"));
    }
    Ok(Form::Value("$zoneinfo", key))
}

pub(super) fn build_datetime<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    build_moment(tagged, &DATETIME)
}

pub(super) fn build_time<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    build_moment(tagged, &TIME)
}

fn build_moment<'py>(tagged: &Tagged<'py>, class: &Known) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let [zone, fold] = tagged.fields_of(["tzinfo", "fold"])?;
    let local = from_iso(tagged, class)?;
    let changes = PyDict::new(py);
    if let Some(zone) = zone {
        if !zone.is_instance(TZINFO.get(py)?)? {
            return Err(Fail::new("`tzinfo` is not a time zone"));
        }
        changes.set_item(intern!(py, "tzinfo"), zone)?;
    }
    if let Some(fold) = fold {
        if !fold.is_exact_instance_of::<PyInt>() {
            return Err(Fail::new("`fold` is 0 or 1"));
        }
        changes.set_item(intern!(py, "fold"), fold)?;
    }
    match changes.is_empty() {
        true => Ok(local),
        false => Ok(local.call_method(intern!(py, "replace"), (), Some(&changes))?),
    }
}

pub(super) fn build_date<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    tagged.alone()?;
    from_iso(tagged, &DATE)
}

fn from_iso<'py>(tagged: &Tagged<'py>, class: &Known) -> Result<Bound<'py, PyAny>, Fail> {
    let class = class.get(tagged.py())?;
    Ok(class.call_method1(intern!(tagged.py(), "fromisoformat"), (tagged.head()?,))?)
}

pub(super) fn build_timedelta<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let [days, seconds, micros] = tagged.items()?;
    ints(tagged, [&days, &seconds, &micros])?;
    Ok(TIMEDELTA.get(tagged.py())?.call1((days, seconds, micros))?)
}

pub(super) fn build_timezone<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let parts = tagged.list()?.to_tuple();
    Ok(TIMEZONE.get(tagged.py())?.call1(parts)?)
}

pub(super) fn build_zoneinfo<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let key: &Bound<'py, PyString> = tagged.text()?;
    let made = ZONEINFO.get(tagged.py())?.call1((key,));
    made.map_err(|error| {
        let next = "install the time zones of the system, or the package `tzdata`";
        Fail::from(error).next(next)
    })
}
