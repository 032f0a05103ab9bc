//! Encodes and decodes exceptions: type, args, message, notes, attributes and the chain of causes.
//!
//! An exception that is part of a value is encoded as strictly as the rest. The exception of a
//! failed step is always encoded: parts that cannot be encoded become text, and an exception whose
//! class is missing is later described by name.

use std::rc::Rc;

use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use tiffany::ErrorKind;

use super::error::{CodecError, Fail};
use super::form::{Field, Form, Missing, Tag, Tagged};
use super::path::{Path, shortened};
use super::{classes, encode, text};
use crate::values::errors::ErrorBox;

pub(super) const TAGS: &[Tag] = &[
    Tag { name: "$exception", build },
    Tag { name: "$text", build: build_text },
    Tag { name: "$parts", build: build_parts },
];

/// The longest chain of causes that is kept.
const CHAIN: usize = 16;
/// The most characters of the text of an object that cannot be encoded.
const TEXT: usize = 1000;
/// The longest list whose members are kept if it cannot be encoded; of longer ones only the text is kept.
const MAX_MEMBERS: usize = 100;
/// The most characters of an exception's message. Its args usually have all of it.
const MESSAGE: usize = 4000;
/// The type flag of classes that are defined neither by the interpreter nor by an extension.
const HEAPTYPE: u64 = 1 << 9;

/// A decoded exception.
pub(crate) enum Decoded {
    /// The exception, recreated.
    Exception(Py<PyBaseException>),
    /// The exception's class is missing, or cannot be created from the recorded data.
    Unknown {
        type_name: String,
        message: String,
        args: Py<PyTuple>,
        cause: Option<Py<PyBaseException>>,
    },
}

pub(super) mod stand_in {
    pyo3::create_exception!(
        tiffany,
        UnknownException,
        super::PyException,
        "Stands for an exception whose class is not available here. `type_name` and `message` are those that were recorded."
    );
}
use stand_in::UnknownException;

/// The name of a class of exceptions.
pub(super) struct ExceptionKind {
    name: Rc<str>,
}

impl ExceptionKind {
    pub(super) fn of(class: &Bound<'_, PyType>) -> Result<ExceptionKind, Fail> {
        Ok(ExceptionKind { name: classes::name_of(class)?.into() })
    }

    pub(super) fn form<'py>(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let py = value.py();
        let parts = Parts::of(value)?;
        let mut fields: Vec<Field<'py>> = vec![
            ("args".into(), parts.args.to_list().into_any()),
            ("message".into(), PyString::new(py, &parts.message).into_any()),
        ];
        let made_by = parts.made_by.map(|name| PyString::new(py, &name).into_any());
        fields.extend(made_by.map(|name| ("made_by".into(), name)));
        fields.extend(parts.notes.map(|notes| ("notes".into(), notes.into_any())));
        fields.extend(parts.attributes.map(|found| ("attributes".into(), found.into_any())));
        fields.extend(parts.cause.map(|cause| ("cause".into(), cause)));
        Ok(Form::Fields("$exception", Rc::clone(&self.name), fields))
    }
}

/// The parts of an exception.
struct Parts<'py> {
    args: Bound<'py, PyTuple>,
    /// The class method that takes the arguments, if it is not the class itself.
    made_by: Option<String>,
    message: String,
    notes: Option<Bound<'py, PyList>>,
    attributes: Option<Bound<'py, PyDict>>,
    cause: Option<Bound<'py, PyAny>>,
}

impl<'py> Parts<'py> {
    fn of(exception: &Bound<'py, PyAny>) -> Result<Parts<'py>, Fail> {
        let py = exception.py();
        let (args, state, made_by) = match reduced(exception)? {
            Some(parts) => parts,
            None => {
                let args = exception.getattr(intern!(py, "args"))?.cast_into::<PyTuple>()?;
                (args, exception.getattr_opt(intern!(py, "__dict__"))?, None)
            }
        };
        let attributes = match state.and_then(|state| state.cast_into::<PyDict>().ok()) {
            Some(state) => state.copy()?,
            None => PyDict::new(py),
        };
        // The kernel's error inside one of our exceptions is recreated with it.
        let own = attributes.get_item(intern!(py, "_error"))?;
        if own.is_some_and(|own| own.is_instance_of::<ErrorBox>()) {
            attributes.del_item(intern!(py, "_error"))?;
        }
        let notes = attributes.get_item(intern!(py, "__notes__"))?;
        if notes.is_some() {
            attributes.del_item(intern!(py, "__notes__"))?;
        }
        let cause = exception.getattr(intern!(py, "__cause__"))?;
        Ok(Parts {
            args,
            made_by,
            message: message_of(exception)?,
            notes: notes.and_then(|notes| notes.cast_into::<PyList>().ok()),
            attributes: (!attributes.is_empty()).then_some(attributes),
            cause: (!cause.is_none()).then_some(cause),
        })
    }
}

/// Ignores an exception in the user's code, except Ctrl-C.
fn unless_interrupted<T>(py: Python<'_>, result: PyResult<T>) -> Result<Option<T>, Fail> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the arguments and attributes with which the exception is to be recreated, as `pickle`
/// requests them.
#[allow(clippy::type_complexity)]
fn reduced<'py>(
    exception: &Bound<'py, PyAny>,
) -> Result<Option<(Bound<'py, PyTuple>, Option<Bound<'py, PyAny>>, Option<String>)>, Fail> {
    let py = exception.py();
    let reduced = exception.call_method1(intern!(py, "__reduce_ex__"), (4,));
    let Some(reduced) = unless_interrupted(py, reduced)? else { return Ok(None) };
    let Ok(reduced) = reduced.cast_into::<PyTuple>() else { return Ok(None) };
    if !(2..=3).contains(&reduced.len()) {
        return Ok(None);
    }
    let (maker, class) = (reduced.get_item(0)?, exception.get_type());
    let made_by = match maker.is(&class) {
        true => None,
        false => match class_method(&maker, &class)? {
            Some(name) => Some(name),
            None => return Ok(None),
        },
    };
    let Ok(args) = reduced.get_item(1)?.cast_into::<PyTuple>() else { return Ok(None) };
    Ok(Some((args, reduced.get_item(2).ok(), made_by)))
}

/// The name of a function, if it is a method of this class that is called on the class.
fn class_method(
    function: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
) -> Result<Option<String>, Fail> {
    let py = class.py();
    let owner = function.getattr_opt(intern!(py, "__self__"))?;
    if !owner.is_some_and(|owner| owner.is(class)) {
        return Ok(None);
    }
    let name = function.getattr_opt(intern!(py, "__name__"))?;
    Ok(name.and_then(|name| name.extract().ok()))
}

/// Returns the `str` of an exception, or a note that it failed.
fn message_of(exception: &Bound<'_, PyAny>) -> Result<String, Fail> {
    let text = unless_interrupted(exception.py(), exception.str())?;
    let Some(text) = text else { return Ok("<an exception that has no text>".into()) };
    let text = text.to_string_lossy();
    Ok(match text.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    })
}

/// Encodes the exception of a failed step as JSON text. Only Ctrl-C inside the user's code is an
/// error.
pub(crate) fn encode_exception(
    exception: &Bound<'_, PyBaseException>,
) -> Result<String, CodecError> {
    let mut out = String::new();
    write_exception(&mut out, exception.as_any(), CHAIN)
        .map_err(|fail| CodecError::at(ErrorKind::Unserializable, &Path::default(), fail))?;
    Ok(out)
}

fn write_exception(
    out: &mut String,
    exception: &Bound<'_, PyAny>,
    chain: usize,
) -> Result<(), Fail> {
    let (parts, class) = (Parts::of(exception)?, exception.get_type());
    // The main module has another name in other processes.
    let name = classes::name_of(&class).unwrap_or_else(|_| classes::shown(&class));
    out.push_str("{\"$exception\":");
    text::write_str(out, &name);
    out.push_str(",\"args\":[");
    for (at, arg) in parts.args.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        write_leniently(out, &arg, chain)?;
    }
    out.push_str("],\"message\":");
    text::write_str(out, &parts.message);
    if let Some(made_by) = parts.made_by {
        out.push_str(",\"made_by\":");
        text::write_str(out, &made_by);
    }
    if let Some(notes) = parts.notes {
        out.push_str(",\"notes\":");
        write_leniently(out, &notes, chain)?;
    }
    if let Some(attributes) = parts.attributes {
        let mut before = ",\"attributes\":{";
        for (name, value) in attributes.iter().collect::<Vec<_>>() {
            let Ok(name) = name.extract::<String>() else { continue };
            if name.starts_with('$') {
                continue;
            }
            out.push_str(before);
            before = ",";
            text::write_str(out, &name);
            out.push(':');
            write_leniently(out, &value, chain)?;
        }
        out.push_str(if before == "," { "}" } else { "" });
    }
    if let Some(cause) = parts.cause
        && chain > 0
    {
        out.push_str(",\"cause\":");
        write_exception(out, &cause, chain - 1)?;
    }
    out.push('}');
    Ok(())
}

/// Writes a part of an exception, or its text if it cannot be encoded.
fn write_leniently(out: &mut String, part: &Bound<'_, PyAny>, chain: usize) -> Result<(), Fail> {
    let py = part.py();
    if part.is_instance_of::<PyBaseException>() && chain > 0 {
        return write_exception(out, part, chain - 1);
    }
    // The members of a group have attributes of their own, which may have no form.
    let has_exceptions = part.cast_exact::<PyList>().is_ok_and(|members| {
        members.iter().any(|member| member.is_instance_of::<PyBaseException>())
    });
    if !has_exceptions {
        match encode::encode(part) {
            Ok(encoded) => {
                out.push_str(&encoded);
                return Ok(());
            }
            Err(error) => {
                unless_interrupted(py, error.cause.map_or(Ok(()), |cause| Err(*cause)))?;
            }
        }
    }
    if chain > 0 && write_members(out, part, chain - 1)? {
        return Ok(());
    }
    if let Some((name, parts)) = unless_interrupted(py, third_party::taken_apart(part))?.flatten() {
        out.push_str("{\"$parts\":");
        text::write_str(out, &name);
        out.push_str(",\"parts\":");
        write_leniently(out, &parts, chain.saturating_sub(1))?;
        out.push('}');
        return Ok(());
    }
    write_text(out, part)
}

/// The members of a list, tuple or dict that has no form as a whole, each by itself. `false`: it is
/// none of these.
fn write_members(out: &mut String, part: &Bound<'_, PyAny>, chain: usize) -> Result<bool, Fail> {
    let (members, ends) = if let Ok(list) = part.cast_exact::<PyList>() {
        (list.to_tuple(), ("[", "]"))
    } else if let Ok(tuple) = part.cast_exact::<PyTuple>() {
        (tuple.clone(), ("{\"$tuple\":[", "]}"))
    } else if let Ok(dict) = part.cast_exact::<PyDict>() {
        return write_entries(out, dict, chain);
    } else {
        return Ok(false);
    };
    let is_group = members.iter().any(|member| member.is_instance_of::<PyBaseException>());
    if members.len() > MAX_MEMBERS && !is_group {
        return Ok(false);
    }
    out.push_str(ends.0);
    for (at, member) in members.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        write_leniently(out, &member, chain)?;
    }
    out.push_str(ends.1);
    Ok(true)
}

fn write_entries(out: &mut String, dict: &Bound<'_, PyDict>, chain: usize) -> Result<bool, Fail> {
    let mut entries = Vec::new();
    for (name, value) in dict {
        match name.extract::<String>() {
            Ok(name) if !name.starts_with('$') => entries.push((name, value)),
            _ => return Ok(false),
        }
    }
    if entries.len() > MAX_MEMBERS {
        return Ok(false);
    }
    out.push('{');
    for (at, (name, value)) in entries.into_iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        text::write_str(out, &name);
        out.push(':');
        write_leniently(out, &value, chain)?;
    }
    out.push('}');
    Ok(true)
}

/// The text of a part that has no form.
fn write_text(out: &mut String, part: &Bound<'_, PyAny>) -> Result<(), Fail> {
    let py = part.py();
    // One that came out of a log is the text itself.
    let of = part.getattr_opt(intern!(py, "of_class")).ok().flatten();
    let of = of.filter(|_| part.is_instance_of::<PyString>());
    let (shown, of) = match of.and_then(|of| of.extract::<String>().ok()) {
        Some(of) => (part.cast::<PyString>()?.to_string_lossy().into_owned(), of),
        None => {
            let repr = unless_interrupted(py, part.repr())?;
            let repr = repr.map_or_else(
                || "<something that has no text>".into(),
                |repr| repr.to_string_lossy().into_owned(),
            );
            (shortened(&repr, TEXT), classes::shown(&part.get_type()))
        }
    };
    out.push_str("{\"$text\":");
    text::write_str(out, &shown);
    out.push_str(",\"of\":");
    text::write_str(out, &of);
    out.push('}');
    Ok(())
}

/// Objects of other packages that exceptions carry. `python/tiffany/_third_party.py` knows them.
mod third_party {
    use super::*;

    fn call<'py>(
        py: Python<'py>,
        function: &str,
        args: impl pyo3::call::PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        py.import("tiffany._third_party")?.getattr(function)?.call1(args)
    }

    /// The name and the parts of an object, if the parts are known.
    pub(super) fn taken_apart<'py>(
        part: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(String, Bound<'py, PyAny>)>> {
        call(part.py(), "taken_apart", (part,))?.extract()
    }

    /// An object from its parts.
    pub(super) fn put_together<'py>(
        name: &str,
        parts: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        call(parts.py(), "put_together", (name, &parts))
    }

    /// The text of an object that was not recorded.
    pub(super) fn not_recorded<'py>(
        text: &Bound<'py, PyAny>,
        of: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        call(text.py(), "not_recorded", (text, of))
    }
}

/// Decodes a recorded exception.
pub(crate) fn decode_exception(py: Python<'_>, json: &str) -> Result<Decoded, CodecError> {
    let found = super::decode::decode_with(py, json, Missing::Stands)?;
    let wrong = |fail: Fail| CodecError::at(ErrorKind::Unreadable, &Path::default(), fail);
    let exception = match found.cast_into::<PyBaseException>() {
        Ok(exception) => exception,
        Err(error) => {
            let found = classes::type_of(&error.into_inner());
            return Err(wrong(Fail::new(format!("this is a `{found}` and no exception"))));
        }
    };
    if !exception.is_instance_of::<UnknownException>() {
        return Ok(Decoded::Exception(exception.unbind()));
    }
    unknown(&exception).map_err(wrong)
}

fn unknown(exception: &Bound<'_, PyBaseException>) -> Result<Decoded, Fail> {
    let py = exception.py();
    Ok(Decoded::Unknown {
        type_name: exception.getattr(intern!(py, "type_name"))?.extract()?,
        message: exception.getattr(intern!(py, "message"))?.extract()?,
        args: exception.getattr(intern!(py, "original_args"))?.cast_into::<PyTuple>()?.unbind(),
        cause: exception.getattr(intern!(py, "__cause__"))?.extract()?,
    })
}

fn build<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let [args, message, notes, attributes, cause, made_by] =
        tagged.fields_of(["args", "message", "notes", "attributes", "cause", "made_by"])?;
    let made_by = made_by.map(|name| name.extract::<String>()).transpose()?;
    let message = match message {
        Some(message) => message.extract::<String>()?,
        None => String::new(),
    };
    let args = match args {
        Some(args) => {
            args.cast_exact::<PyList>().map_err(|_| Fail::new("`args` is not a list"))?.to_tuple()
        }
        None => PyTuple::empty(py),
    };
    let made = match &made_by {
        Some(method) => make_by(py, name, method, &args),
        None => make(py, name, &args),
    };
    let made = made.and_then(|made| set_attributes(&made, attributes).map(|()| made));
    let made = match made {
        Ok(made) => made,
        Err(fail) if tagged.missing == Missing::Stands => {
            unless_interrupted(py, fail.cause.map_or(Ok(()), |cause| Err(*cause)))?;
            let made = UnknownException::new_err(format!("{name}: {message}")).into_value(py);
            let made = made.into_bound(py).into_any();
            made.setattr("type_name", name)?;
            made.setattr("message", message)?;
            made.setattr("original_args", args)?;
            made
        }
        Err(fail) => return Err(fail),
    };
    if let Some(notes) = notes {
        made.setattr(intern!(py, "__notes__"), notes)?;
    }
    if let Some(cause) = cause {
        made.setattr(intern!(py, "__cause__"), cause)?;
    }
    Ok(made)
}

fn set_attributes<'py>(
    made: &Bound<'py, PyAny>,
    attributes: Option<Bound<'py, PyAny>>,
) -> Result<(), Fail> {
    let Some(attributes) = attributes else { return Ok(()) };
    let attributes = attributes
        .cast_exact::<PyDict>()
        .map_err(|_| Fail::new("`attributes` is not an object"))?;
    for (name, value) in attributes {
        made.setattr(name.cast::<PyString>()?, value)?;
    }
    Ok(())
}

/// An exception that a class method makes, such as those of pydantic.
fn make_by<'py>(
    py: Python<'py>,
    name: &str,
    method: &str,
    args: &Bound<'py, PyTuple>,
) -> Result<Bound<'py, PyAny>, Fail> {
    let class = classes::find(py, name)?;
    let maker = class.getattr(method)?;
    if class_method(&maker, &class)?.is_none() {
        return Err(Fail::new(format!("`{method}` is not a class method of `{name}`")));
    }
    let made = maker.call1(args)?;
    match made.is_instance(&class)? {
        true => Ok(made),
        false => Err(Fail::new(format!("`{method}` of `{name}` makes something else"))),
    }
}

/// Creates an exception of the class of this name. Its `__init__` is called only if it is the
/// interpreter's, or if the class defines how to recreate it: other `__init__` methods may take
/// other arguments, or have side effects.
fn make<'py>(
    py: Python<'py>,
    name: &str,
    args: &Bound<'py, PyTuple>,
) -> Result<Bound<'py, PyAny>, Fail> {
    let class = classes::find(py, name)?;
    if !class.is_subclass_of::<PyBaseException>()? {
        return Err(Fail::new(format!("`{name}` is not an exception any more")));
    }
    let is_native = |method: &str| -> PyResult<bool> {
        let kind = class.getattr(method)?.get_type();
        Ok(kind.name()? == "wrapper_descriptor" || kind.name()? == "method_descriptor")
    };
    let says_how = !is_native("__reduce__")? || !is_native("__reduce_ex__")?;
    if (says_how || is_native("__init__")?)
        && let Some(made) = unless_interrupted(py, class.call1(args))?
        && made.get_type().is(&class)
    {
        return Ok(made);
    }
    // The nearest class that is not written in Python creates the object.
    for base in class.mro() {
        let base = base.cast_into::<PyType>()?;
        let flags: u64 = base.getattr(intern!(py, "__flags__"))?.extract()?;
        if flags & HEAPTYPE != 0 {
            continue;
        }
        let with = |first: &Bound<'py, PyAny>| {
            let all = std::iter::once(first.clone()).chain(args.iter());
            PyTuple::new(py, all.collect::<Vec<_>>())
        };
        let new = base.getattr(intern!(py, "__new__"))?;
        let made = new.call1(with(class.as_any())?)?;
        let filled = base.getattr(intern!(py, "__init__"))?.call1(with(&made)?);
        if unless_interrupted(py, filled)?.is_none() {
            made.setattr(intern!(py, "args"), args)?;
        }
        return Ok(made);
    }
    Err(Fail::new(format!("`{name}` cannot be made")))
}

/// Creates the placeholder for an object that could not be encoded.
fn build_text<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let [of] = tagged.fields_of(["of"])?;
    tagged.head()?;
    let of = of.map(|of| of.extract::<String>()).transpose()?.unwrap_or_default();
    Ok(third_party::not_recorded(&tagged.head, &of)?)
}

/// An object of another package, or a text that stands for it.
fn build_parts<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let [Some(parts)] = tagged.fields_of(["parts"])? else {
        return Err(Fail::new("`$parts` has no `parts`"));
    };
    match unless_interrupted(py, third_party::put_together(name, parts))? {
        Some(made) => Ok(made),
        None => {
            let shown = PyString::new(py, &format!("<a {name}>")).into_any();
            Ok(third_party::not_recorded(&shown, name)?)
        }
    }
}
