//! Support for user-defined types: functions for one type (`register`), or an object that is asked
//! about every value that JSON does not have (`plug`). They take precedence over the built-in
//! support.
//!
//! A function handles instances of exactly its type. A subclass needs its own, since it would
//! otherwise be decoded as its base.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyNone, PyString, PyType};

use super::classes;
use super::error::Fail;
use super::form::{Form, Tag, Tagged};

pub(super) const CUSTOM: &str = "$custom";
pub(super) const TAGS: &[Tag] = &[Tag { name: CUSTOM, build }];

/// The user's functions for one type.
struct Entry {
    class: Py<PyType>,
    name: String,
    encode: Py<PyAny>,
    decode: Py<PyAny>,
}

#[derive(Default)]
struct Table {
    /// The entries by the address of the type, which the entry keeps alive.
    entries: HashMap<usize, Entry>,
    names: HashMap<String, usize>,
    plugged: Vec<Py<PyAny>>,
}

/// The table of the process. No Python code runs while it is locked, so no thread waits for it and
/// for the interpreter.
static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
/// Whether the table has entries, which can be checked without a lock.
static IN_USE: AtomicBool = AtomicBool::new(false);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The user's way to encode instances of a class.
pub(super) enum Hook<'py> {
    Registered {
        name: String,
        encode: Bound<'py, PyAny>,
    },
    /// The plugged objects, which are asked in order before the built-in support.
    Plugged {
        objects: Vec<Bound<'py, PyAny>>,
        otherwise: Box<Result<super::kind::Kind<'py>, Fail>>,
    },
}

/// Registers functions for a type. They replace those for the same type, or for an earlier type of
/// the same name.
pub(super) fn register(
    class: &Bound<'_, PyAny>,
    name: &str,
    encode: &Bound<'_, PyAny>,
    decode: &Bound<'_, PyAny>,
) -> Result<(), Fail> {
    let py = class.py();
    let Ok(class) = class.cast::<PyType>() else {
        return Err(Fail::new(format!("{} is not a type", class.repr()?.to_string_lossy())));
    };
    if [py.get_type::<PyNone>(), py.get_type::<PyBool>(), py.get_type::<PyInt>()]
        .into_iter()
        .chain([py.get_type::<PyFloat>(), py.get_type::<PyString>()])
        .chain([py.get_type::<PyList>(), py.get_type::<PyDict>()])
        .any(|plain| plain.is(class))
    {
        let what = format!("`{}` is written as it is in JSON", classes::shown(class));
        return Err(Fail::new(what).next("register a type of your own"));
    }
    if name.is_empty() || name.contains(':') || name.starts_with('$') {
        let what = format!("`{name}` is not a name for a type in the log");
        return Err(Fail::new(what).next("give it a word, without a colon or a dollar sign"));
    }
    for (role, function) in [("encode", encode), ("decode", decode)] {
        if !function.is_callable() {
            return Err(Fail::new(format!("`{role}` for `{name}` cannot be called")));
        }
    }
    let address = class.as_ptr() as usize;
    let shown = classes::shown(class);
    let entry = Entry {
        class: class.clone().unbind(),
        name: name.to_owned(),
        encode: encode.clone().unbind(),
        decode: decode.clone().unbind(),
    };
    // The class that has the name is looked up without the lock.
    let holder = {
        let table = table();
        let at = table.names.get(name).copied().filter(|at| *at != address);
        at.and_then(|at| Some((at, table.entries.get(&at)?.class.clone_ref(py))))
    };
    if let Some((_, other)) = &holder {
        let other = classes::shown(other.bind(py));
        if other != shown {
            let what = format!("the name `{name}` is taken by `{other}`");
            return Err(Fail::new(what).next("give this type another name"));
        }
    }
    // Replaced entries are dropped after the table is unlocked, since that may run user code.
    let mut old = Vec::new();
    let mut table = table();
    if let Some((at, _)) = holder {
        old.extend(table.entries.remove(&at));
    }
    if let Some(before) = table.entries.insert(address, entry) {
        if before.name != name {
            table.names.remove(&before.name);
        }
        old.push(before);
    }
    table.names.insert(name.to_owned(), address);
    IN_USE.store(true, Ordering::Release);
    drop(table);
    drop(old);
    Ok(())
}

/// Adds a user-defined object that is asked about values that JSON does not have.
pub(super) fn plug(codec: &Bound<'_, PyAny>) -> Result<(), Fail> {
    for role in ["encode", "decode"] {
        let function = codec.getattr_opt(role)?;
        if !function.is_some_and(|function| function.is_callable()) {
            let what = format!("a `{}` has no method `{role}`", classes::type_of(codec));
            return Err(Fail::new(what).next("give it `encode(value)` and `decode(tag, payload)`"));
        }
    }
    let mut table = table();
    if !table.plugged.iter().any(|other| other.is(codec)) {
        table.plugged.push(codec.clone().unbind());
    }
    IN_USE.store(true, Ordering::Release);
    Ok(())
}

/// Removes such an object. Returns whether it had been added.
pub(super) fn unplug(codec: &Bound<'_, PyAny>) -> bool {
    let mut table = table();
    let at = table.plugged.iter().position(|other| other.is(codec));
    let removed = at.map(|at| table.plugged.remove(at));
    drop(table);
    removed.is_some()
}

/// Whether there are any user-defined types.
#[inline]
pub(super) fn in_use() -> bool {
    IN_USE.load(Ordering::Acquire)
}

/// Returns the user's way to encode instances of this class.
pub(super) fn of<'py>(class: &Bound<'py, PyType>) -> Option<Hook<'py>> {
    if !in_use() {
        return None;
    }
    let py = class.py();
    let table = table();
    if let Some(entry) = table.entries.get(&(class.as_ptr() as usize)) {
        let encode = entry.encode.bind(py).clone();
        return Some(Hook::Registered { name: entry.name.clone(), encode });
    }
    let objects = plugged(py, &table);
    drop(table);
    if objects.is_empty() {
        return None;
    }
    let otherwise = Box::new(super::kind::Kind::built_in(class));
    Some(Hook::Plugged { objects, otherwise })
}

fn plugged<'py>(py: Python<'py>, table: &Table) -> Vec<Bound<'py, PyAny>> {
    table.plugged.iter().map(|codec| codec.bind(py).clone()).collect()
}

impl<'py> Hook<'py> {
    pub(super) fn form(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let custom = |name: String, payload| {
            Form::Fields(CUSTOM, name.into(), vec![("value".into(), payload)])
        };
        match self {
            Hook::Registered { name, encode } => {
                let payload = encode.call1((value,)).map_err(|error| {
                    Fail::from(error).during(format!("the `encode` of `{name}` failed"))
                })?;
                Ok(custom(name.clone(), payload))
            }
            Hook::Plugged { objects, otherwise } => {
                let py = value.py();
                for codec in objects {
                    let payload =
                        codec.call_method1(intern!(py, "encode"), (value,)).map_err(|error| {
                            let codec = classes::type_of(codec);
                            Fail::from(error).during(format!("the `encode` of `{codec}` failed"))
                        })?;
                    if !payload.is(py.NotImplemented()) {
                        return Ok(custom(classes::shown(&value.get_type()), payload));
                    }
                }
                match otherwise.as_ref() {
                    Ok(kind) => kind.form(value),
                    Err(fail) => Err(fail.again(py)),
                }
            }
        }
    }
}

fn build<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let [Some(payload)] = tagged.fields_of(["value"])? else {
        return Err(Fail::new(format!("`{CUSTOM}` has no `value`")));
    };
    let (entry, objects) = {
        let table = table();
        let entry = table.names.get(name).and_then(|at| table.entries.get(at));
        let entry =
            entry.map(|entry| (entry.class.bind(py).clone(), entry.decode.bind(py).clone()));
        (entry, plugged(py, &table))
    };
    if let Some((class, decode)) = entry {
        let made = decode.call1((payload,)).map_err(|error| {
            Fail::from(error).during(format!("the `decode` of `{name}` failed"))
        })?;
        if !made.get_type().is(&class) {
            let (made, class) = (classes::type_of(&made), classes::shown(&class));
            let what = format!("the `decode` of `{name}` returned a `{made}` and not a `{class}`");
            return Err(Fail::new(what).next("return the value that `encode` was called with"));
        }
        return Ok(made);
    }
    for codec in objects {
        let made =
            codec.call_method1(intern!(py, "decode"), (name, &payload)).map_err(|error| {
                let codec = classes::type_of(&codec);
                Fail::from(error).during(format!("the `decode` of `{codec}` failed"))
            })?;
        if !made.is(py.NotImplemented()) {
            return Ok(made);
        }
    }
    let next = "call `tiffany.codec.register` or `plug` before the run is resumed, as the program did that wrote it";
    Err(Fail::new(format!("no codec is registered for the type `{name}`")).next(next))
}
