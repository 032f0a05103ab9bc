//! Encodes and decodes the types of Python itself and of its standard library.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple, PyType,
};

use super::classes::{self, Known};
use super::error::Fail;
use super::form::{Form, Tag, Tagged};
use super::text;
use super::time;

/// A function that encodes the values of one type.
pub(super) type ToForm = for<'py> fn(&Bound<'py, PyAny>) -> Result<Form<'py>, Fail>;

/// The types, by module and name. Subclasses are not included.
const TYPES: &[(&str, &str, ToForm)] = &[
    ("builtins", "tuple", |value| Ok(tuple(value.cast()?))),
    ("builtins", "bytes", |value| base64("$bytes", value)),
    ("builtins", "bytearray", |value| base64("$bytearray", value)),
    ("builtins", "set", |value| Ok(Form::Unordered("$set", items_of(value)?))),
    ("builtins", "frozenset", |value| Ok(Form::Unordered("$frozenset", items_of(value)?))),
    ("builtins", "complex", |value| attributes("$complex", value, &["real", "imag"])),
    ("builtins", "range", |value| attributes("$range", value, &["start", "stop", "step"])),
    ("datetime", "datetime", time::datetime),
    ("datetime", "date", time::date),
    ("datetime", "time", time::time),
    ("datetime", "timedelta", time::timedelta),
    ("datetime", "timezone", time::timezone),
    ("zoneinfo", "ZoneInfo", time::zoneinfo),
    ("decimal", "Decimal", |value| as_text("$decimal", value)),
    ("fractions", "Fraction", |v| attributes("$fraction", v, &["numerator", "denominator"])),
    ("uuid", "UUID", |value| as_text("$uuid", value)),
    ("pathlib", "PosixPath", |value| as_text("$path", value)),
    ("pathlib", "WindowsPath", |value| as_text("$path", value)),
    ("pathlib", "PurePosixPath", |value| as_text("$pure_posix_path", value)),
    ("pathlib", "PureWindowsPath", |value| as_text("$pure_windows_path", value)),
];

/// Types whose subclasses would be decoded as the base type.
pub(super) const BASES: &[(&str, &str)] = &[
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("uuid", "UUID"),
    ("pathlib", "PurePath"),
];

pub(super) const TAGS: &[Tag] = &[
    Tag { name: "$tuple", build: |tagged| Ok(tagged.list()?.to_tuple().into_any()) },
    Tag { name: "$dict", build: dict },
    Tag { name: "$set", build: set },
    Tag { name: "$frozenset", build: frozenset },
    Tag { name: "$bytes", build: |tagged| Ok(bytes(tagged)?.into_any()) },
    Tag { name: "$bytearray", build: bytearray },
    Tag { name: "$datetime", build: time::build_datetime },
    Tag { name: "$date", build: time::build_date },
    Tag { name: "$time", build: time::build_time },
    Tag { name: "$timedelta", build: time::build_timedelta },
    Tag { name: "$timezone", build: time::build_timezone },
    Tag { name: "$zoneinfo", build: time::build_zoneinfo },
    Tag { name: "$decimal", build: |tagged| from_text(tagged, &DECIMAL) },
    Tag { name: "$fraction", build: fraction },
    Tag { name: "$uuid", build: |tagged| from_text(tagged, &UUID) },
    Tag { name: "$path", build: |tagged| from_text(tagged, &PATH) },
    Tag { name: "$pure_posix_path", build: |tagged| from_text(tagged, &PURE_POSIX_PATH) },
    Tag { name: "$pure_windows_path", build: |tagged| from_text(tagged, &PURE_WINDOWS_PATH) },
    Tag { name: "$complex", build: complex },
    Tag { name: "$range", build: range },
    Tag { name: "$float", build: float },
    Tag { name: "$int", build: int },
    Tag { name: "$str", build: surrogates },
];

static DECIMAL: Known = Known::new("decimal", "Decimal");
static FRACTION: Known = Known::new("fractions", "Fraction");
static UUID: Known = Known::new("uuid", "UUID");
static PATH: Known = Known::new("pathlib", "Path");
static PURE_POSIX_PATH: Known = Known::new("pathlib", "PurePosixPath");
static PURE_WINDOWS_PATH: Known = Known::new("pathlib", "PureWindowsPath");
static RANGE: Known = Known::new("builtins", "range");
static TO_BASE64: Known = Known::new("binascii", "b2a_base64");
static FROM_BASE64: Known = Known::new("binascii", "a2b_base64");

/// Returns the function that encodes instances of this class, if it is one of these types.
pub(super) fn of(class: &Bound<'_, PyType>) -> Result<Option<ToForm>, Fail> {
    let name = classes::shown(class);
    let Some((module, name)) = name.split_once(':') else { return Ok(None) };
    // Newer versions of Python define paths in an internal module.
    let module = if module == "pathlib._local" { "pathlib" } else { module };
    let Some(found) = TYPES.iter().find(|known| known.1 == name && known.0 == module) else {
        return Ok(None);
    };
    // Any class may have this name.
    let real =
        classes::module(class.py(), module)?.map(|module| module.getattr(name)).transpose()?;
    Ok(real.is_some_and(|real| real.is(class)).then_some(found.2))
}

/// The form of a whole number that does not fit into 64 bits. Up to about 300 digits it is written
/// as it is; beyond that many JSON parsers fail, and so does Python at 4,300.
pub(super) fn big_int<'py>(value: &Bound<'py, PyInt>) -> Result<BigInt<'py>, Fail> {
    let py = value.py();
    let bits: usize = value.call_method0(intern!(py, "bit_length"))?.extract()?;
    if bits <= 1000 {
        return Ok(BigInt::Digits(value.str()?));
    }
    let hex = value.call_method1(intern!(py, "__format__"), (intern!(py, "#x"),))?;
    Ok(BigInt::Form(Form::Text("$int", hex.extract()?)))
}

pub(super) enum BigInt<'py> {
    Digits(Bound<'py, PyString>),
    Form(Form<'py>),
}

/// Returns the form of a number that JSON does not have.
pub(super) fn odd_float<'py>(number: f64) -> Form<'py> {
    let text = match number {
        n if n.is_nan() => "nan",
        n if n > 0.0 => "inf",
        _ => "-inf",
    };
    Form::Text("$float", text.into())
}

/// Returns the form of a text that cannot be UTF-8, because it has lone surrogates.
pub(super) fn odd_str<'py>(value: &Bound<'py, PyString>) -> Result<Form<'py>, Fail> {
    let py = value.py();
    let arguments = (intern!(py, "utf-8"), intern!(py, "surrogatepass"));
    let bytes = value.call_method1(intern!(py, "encode"), arguments)?;
    let bytes = bytes.cast::<PyBytes>()?;
    Ok(Form::Text("$str", text::escape_surrogates(bytes.as_bytes())))
}

/// Returns the elements of a collection.
fn items_of<'py>(value: &Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>, Fail> {
    Ok(value.try_iter()?.collect::<PyResult<_>>()?)
}

/// Returns the form of a value as a list of attributes.
fn attributes<'py>(
    tag: &'static str,
    value: &Bound<'py, PyAny>,
    names: &[&str],
) -> Result<Form<'py>, Fail> {
    let items = names.iter().map(|name| value.getattr(*name)).collect::<PyResult<_>>()?;
    Ok(Form::Items(tag, items))
}

/// Returns the form of a value as its `str`.
fn as_text<'py>(tag: &'static str, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    Ok(Form::Value(tag, value.str()?.into_any()))
}

fn from_text<'py>(tagged: &Tagged<'py>, class: &Known) -> Result<Bound<'py, PyAny>, Fail> {
    let text = tagged.text()?;
    let made = class.get(tagged.py())?.call1((text,));
    made.map_err(|error| Fail::from(error).during(format!("`{}`", tagged.tag.name)))
}

fn base64<'py>(tag: &'static str, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
    let py = value.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "newline"), false)?;
    let text = TO_BASE64.get(py)?.call((value,), Some(&options))?;
    let text =
        std::str::from_utf8(text.cast::<PyBytes>()?.as_bytes()).unwrap_or_default().to_owned();
    Ok(Form::Text(tag, text))
}

fn bytes<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyBytes>, Fail> {
    let py = tagged.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "strict_mode"), true)?;
    let made = FROM_BASE64.get(py)?.call((tagged.text()?,), Some(&options));
    Ok(made.map_err(|error| Fail::from(error).during("base64"))?.cast_into()?)
}

fn bytearray<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    Ok(PyByteArray::new(tagged.py(), bytes(tagged)?.as_bytes()).into_any())
}

fn twice(what: &str) -> Fail {
    Fail::new(format!("{what} occurs twice"))
}

fn set<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let list = tagged.list()?;
    let set = PySet::new(tagged.py(), list)?;
    if set.len() != list.len() { Err(twice("an element of the set")) } else { Ok(set.into_any()) }
}

fn frozenset<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let list = tagged.list()?;
    let set = PyFrozenSet::new(tagged.py(), list)?;
    if set.len() != list.len() { Err(twice("an element of the set")) } else { Ok(set.into_any()) }
}

/// Creates a dict from pairs. Dicts are written so if a key is not a string, or begins with `$`.
fn dict<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let dict = PyDict::new(tagged.py());
    for (count, pair) in tagged.list()?.iter().enumerate() {
        let pair = pair.cast_exact::<PyList>().ok().filter(|pair| pair.len() == 2);
        let pair = pair.ok_or_else(|| tagged.wrong("a list of pairs"))?;
        dict.set_item(pair.get_item(0)?, pair.get_item(1)?)?;
        if dict.len() != count + 1 {
            return Err(twice("a key of the dict"));
        }
    }
    Ok(dict.into_any())
}

fn fraction<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let [above, below] = tagged.items()?;
    ints(tagged, [&above, &below])?;
    Ok(FRACTION.get(tagged.py())?.call1((above, below))?)
}

fn range<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let [start, stop, step] = tagged.items()?;
    ints(tagged, [&start, &stop, &step])?;
    Ok(RANGE.get(tagged.py())?.call1((start, stop, step))?)
}

/// Returns whole numbers, or an error.
pub(super) fn ints<const N: usize>(
    tagged: &Tagged<'_>,
    items: [&Bound<'_, PyAny>; N],
) -> Result<(), Fail> {
    match items.iter().all(|item| item.is_exact_instance_of::<PyInt>()) {
        true => Ok(()),
        false => Err(tagged.wrong("whole numbers")),
    }
}

fn complex<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let part = |part: &Bound<'py, PyAny>| match part.cast_exact::<PyFloat>() {
        Ok(part) => Ok(part.value()),
        Err(_) => Err(tagged.wrong("two numbers with a point")),
    };
    let [real, imag] = tagged.items()?;
    Ok(PyComplex::from_doubles(tagged.py(), part(&real)?, part(&imag)?).into_any())
}

fn float<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    tagged.alone()?;
    let number = match tagged.head()? {
        "nan" => f64::NAN,
        "inf" => f64::INFINITY,
        "-inf" => f64::NEG_INFINITY,
        _ => return Err(Fail::new("`$float` is `nan`, `inf` or `-inf`")),
    };
    Ok(PyFloat::new(tagged.py(), number).into_any())
}

fn int<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    tagged.alone()?;
    let text = tagged.head()?;
    let digits = text.strip_prefix('-').unwrap_or(text).strip_prefix("0x").unwrap_or("");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Fail::new("`$int` is a number in hex, like `0x1f`"));
    }
    Ok(tagged.py().get_type::<PyInt>().call1((text, 16))?)
}

fn surrogates<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    tagged.alone()?;
    let bytes = text::unescape_surrogates(tagged.head()?)
        .ok_or_else(|| Fail::new("`$str` has a bad escape: it may be `\\\\` or `\\udc80`"))?;
    let bytes = PyBytes::new(py, &bytes);
    let arguments = (intern!(py, "utf-8"), intern!(py, "surrogatepass"));
    Ok(bytes.call_method1(intern!(py, "decode"), arguments)?)
}

/// Returns the form of a tuple.
pub(super) fn tuple<'py>(value: &Bound<'py, PyTuple>) -> Form<'py> {
    Form::Items("$tuple", value.iter().collect())
}
