//! Encodes and decodes classes with named fields: dataclasses and named tuples.
//!
//! A value is recreated from its fields without calling its `__init__`, which may have side
//! effects, and ran when the value was created.

use std::rc::Rc;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::classes::{self, Known};
use super::error::Fail;
use super::form::{Field, Form, Tag, Tagged};

pub(super) const TAGS: &[Tag] = &[
    Tag { name: "$dataclass", build: build_dataclass },
    Tag { name: "$namedtuple", build: build_namedtuple },
];

/// The member with the attributes that are not fields.
const ATTRIBUTES: &str = "$attributes";

static FIELDS: Known = Known::new("dataclasses", "fields");
static MISSING: Known = Known::new("dataclasses", "MISSING");
static CACHED_PROPERTY: Known = Known::new("functools", "cached_property");
static OBJECT: Known = Known::new("builtins", "object");

/// The name of a field, as a Python string and as Rust text.
type FieldName<'py> = (Bound<'py, PyString>, Rc<str>);

/// A dataclass: its name, and the names of its fields.
pub(super) struct DataclassKind<'py> {
    class: Bound<'py, PyType>,
    name: Rc<str>,
    fields: Vec<FieldName<'py>>,
}

impl<'py> DataclassKind<'py> {
    pub(super) fn of(class: &Bound<'py, PyType>) -> Result<Option<DataclassKind<'py>>, Fail> {
        if !is_dataclass(class)? {
            return Ok(None);
        }
        let name = classes::name_of(class)?.into();
        let fields = fields_of(class)?.iter().map(|field| with_text(name_of_field(&field)?));
        let fields = fields.collect::<Result<_, Fail>>()?;
        Ok(Some(DataclassKind { class: class.clone(), name, fields }))
    }

    pub(super) fn form(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let mut fields = Vec::with_capacity(self.fields.len() + 1);
        for (name, text) in &self.fields {
            // A field with `init=False` may have no value yet.
            if let Some(value) = value.getattr_opt(name)? {
                fields.push((Rc::clone(text), value));
            }
        }
        fields.extend(other_attributes(value, &self.class, &self.fields)?);
        Ok(Form::Fields("$dataclass", Rc::clone(&self.name), fields))
    }
}

fn with_text(name: Bound<'_, PyString>) -> Result<FieldName<'_>, Fail> {
    let text = name.to_str()?.into();
    Ok((name, text))
}

fn is_dataclass(class: &Bound<'_, PyType>) -> Result<bool, Fail> {
    Ok(class.getattr_opt(intern!(class.py(), "__dataclass_fields__"))?.is_some())
}

fn fields_of<'py>(class: &Bound<'py, PyType>) -> Result<Bound<'py, PyTuple>, Fail> {
    Ok(FIELDS.get(class.py())?.call1((class,))?.cast_into()?)
}

fn name_of_field<'py>(field: &Bound<'py, PyAny>) -> Result<Bound<'py, PyString>, Fail> {
    Ok(field.getattr(intern!(field.py(), "name"))?.cast_into()?)
}

/// How to recreate the instances of a dataclass.
pub(super) struct Plan<'py> {
    class: Bound<'py, PyType>,
    fields: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
}

impl<'py> Plan<'py> {
    fn of(py: Python<'py>, name: &str) -> Result<Plan<'py>, Fail> {
        let class = classes::find(py, name)?;
        if !is_dataclass(&class)? {
            return Err(Fail::new(format!("`{name}` is not a dataclass any more")));
        }
        let fields = fields_of(&class)?.iter().map(|field| Ok((name_of_field(&field)?, field)));
        let fields = fields.collect::<Result<_, Fail>>()?;
        Ok(Plan { class, fields })
    }
}

fn build_dataclass<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let known = tagged.plans.borrow().get(name).cloned();
    let plan = match known {
        Some(plan) => plan,
        None => {
            let plan = Rc::new(Plan::of(py, name)?);
            tagged.plans.borrow_mut().insert(name.to_owned(), Rc::clone(&plan));
            plan
        }
    };
    let made = new_object(&plan.class)?;
    let given = Given::of(tagged, name)?;
    for (field_name, field) in &plan.fields {
        let value = match given.take(field_name)? {
            Some(value) => value,
            None => match default_of(field)? {
                Some(value) => value,
                None if !field.getattr(intern!(py, "init"))?.is_truthy()? => continue,
                None => return Err(lacks(name, field_name)),
            },
        };
        set_attribute(&made, field_name, &value)?;
    }
    given.set_attributes(&made)?;
    given.nothing_left(name)?;
    Ok(made)
}

/// Returns the default of a field.
fn default_of<'py>(field: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let py = field.py();
    let missing = MISSING.get(py)?;
    let default = field.getattr(intern!(py, "default"))?;
    if !default.is(missing) {
        return Ok(Some(default));
    }
    let factory = field.getattr(intern!(py, "default_factory"))?;
    if factory.is(missing) { Ok(None) } else { Ok(Some(factory.call0()?)) }
}

/// A named tuple: its name, and the names of its fields.
pub(super) struct NamedTupleKind<'py> {
    class: Bound<'py, PyType>,
    name: Rc<str>,
    fields: Vec<FieldName<'py>>,
}

impl<'py> NamedTupleKind<'py> {
    pub(super) fn of(class: &Bound<'py, PyType>) -> Result<Option<NamedTupleKind<'py>>, Fail> {
        let Some(fields) = tuple_fields(class)? else { return Ok(None) };
        let fields = fields.into_iter().map(with_text).collect::<Result<_, Fail>>()?;
        let name = classes::name_of(class)?.into();
        Ok(Some(NamedTupleKind { class: class.clone(), name, fields }))
    }

    pub(super) fn form(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let items = value.cast::<PyTuple>()?;
        if items.len() != self.fields.len() {
            let what = format!("a `{}` with {} elements", self.name, items.len());
            return Err(Fail::new(what));
        }
        let mut fields: Vec<Field<'py>> = Vec::with_capacity(items.len());
        for ((_, text), item) in self.fields.iter().zip(items) {
            fields.push((Rc::clone(text), item));
        }
        fields.extend(other_attributes(value, &self.class, &[])?);
        Ok(Form::Fields("$namedtuple", Rc::clone(&self.name), fields))
    }
}

/// Returns the names of the fields, if the class is a named tuple.
fn tuple_fields<'py>(
    class: &Bound<'py, PyType>,
) -> Result<Option<Vec<Bound<'py, PyString>>>, Fail> {
    if !class.is_subclass_of::<PyTuple>()? {
        return Ok(None);
    }
    let Some(fields) = class.getattr_opt(intern!(class.py(), "_fields"))? else { return Ok(None) };
    let Ok(fields) = fields.cast_into::<PyTuple>() else { return Ok(None) };
    let fields: Result<Vec<_>, _> =
        fields.iter().map(|name| name.cast_into::<PyString>()).collect();
    Ok(fields.ok())
}

fn build_namedtuple<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let class = classes::find(py, name)?;
    let Some(fields) = tuple_fields(&class)? else {
        return Err(Fail::new(format!("`{name}` is not a named tuple any more")));
    };
    let given = Given::of(tagged, name)?;
    let defaults = class.getattr_opt(intern!(py, "_field_defaults"))?;
    let defaults = defaults.and_then(|defaults| defaults.cast_into::<PyDict>().ok());
    let mut items = Vec::with_capacity(fields.len());
    for field in &fields {
        let value = match (given.take(field)?, &defaults) {
            (None, Some(defaults)) => defaults.get_item(field)?,
            (value, _) => value,
        };
        items.push(value.ok_or_else(|| lacks(name, field))?);
    }
    let items = PyTuple::new(py, items)?;
    let made = py.get_type::<PyTuple>().call_method1(intern!(py, "__new__"), (&class, items))?;
    given.set_attributes(&made)?;
    given.nothing_left(name)?;
    Ok(made)
}

/// The decoded fields, which are taken one by one.
pub(super) struct Given<'py>(Bound<'py, PyDict>);

impl<'py> Given<'py> {
    pub(super) fn of(tagged: &Tagged<'py>, name: &str) -> Result<Given<'py>, Fail> {
        let fields = match &tagged.fields {
            Some(fields) => fields.clone(),
            None => PyDict::new(tagged.py()),
        };
        let given = Given(fields);
        if let Some(odd) = given.0.get_item(ATTRIBUTES)?
            && !odd.is_exact_instance_of::<PyDict>()
        {
            return Err(Fail::new(format!("`{ATTRIBUTES}` of `{name}` is not an object")));
        }
        Ok(given)
    }

    pub(super) fn take(
        &self,
        name: &Bound<'py, PyString>,
    ) -> Result<Option<Bound<'py, PyAny>>, Fail> {
        let found = self.0.get_item(name)?;
        if found.is_some() {
            self.0.del_item(name)?;
        }
        Ok(found)
    }

    /// Sets the attributes that are not fields.
    fn set_attributes(&self, made: &Bound<'py, PyAny>) -> Result<(), Fail> {
        let name = PyString::intern(made.py(), ATTRIBUTES);
        let Some(attributes) = self.take(&name)? else { return Ok(()) };
        for (name, value) in attributes.cast::<PyDict>()? {
            set_attribute(made, name.cast::<PyString>()?, &value)?;
        }
        Ok(())
    }

    /// Returns an error if the class lacks a field that the text has.
    pub(super) fn nothing_left(&self, class: &str) -> Result<(), Fail> {
        let Some((field, _)) = self.0.iter().next() else { return Ok(()) };
        let what = format!("`{class}` has no field `{}`", field.str()?.to_string_lossy());
        Err(Fail::new(what).next("correct the input, or restore the field"))
    }
}

pub(super) fn lacks(class: &str, field: &Bound<'_, PyString>) -> Fail {
    let field = field.to_string_lossy();
    let what = format!("the text has no field `{field}`, which `{class}` needs");
    Fail::new(what).next(format!("correct the input, or give `{field}` a default"))
}

/// Creates an instance without attributes; no code of the class runs.
pub(super) fn new_object<'py>(class: &Bound<'py, PyType>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = class.py();
    Ok(OBJECT.get(py)?.call_method1(intern!(py, "__new__"), (class,))?)
}

/// Sets an attribute as `object.__setattr__` does, also of frozen instances.
fn set_attribute<'py>(
    of: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
) -> Result<(), Fail> {
    // SAFETY: all three are live objects, and the interpreter is attached. The function takes over
    // no reference.
    let done = unsafe { ffi::PyObject_GenericSetAttr(of.as_ptr(), name.as_ptr(), value.as_ptr()) };
    match done {
        0 => Ok(()),
        _ => Err(PyErr::fetch(of.py()).into()),
    }
}

/// Returns the attributes of an instance that are not fields, without cached properties.
fn other_attributes<'py>(
    value: &Bound<'py, PyAny>,
    class: &Bound<'py, PyType>,
    fields: &[FieldName<'py>],
) -> Result<Option<Field<'py>>, Fail> {
    let py = value.py();
    let Some(all) = value.getattr_opt(intern!(py, "__dict__"))? else { return Ok(None) };
    let Ok(all) = all.cast_into::<PyDict>() else { return Ok(None) };
    if all.len() <= fields.len()
        && fields.iter().all(|(field, _)| all.contains(field).unwrap_or(false))
    {
        return Ok(None);
    }
    let others = all.copy()?;
    for (field, _) in fields {
        if others.contains(field)? {
            others.del_item(field)?;
        }
    }
    for name in others.keys() {
        let name = name.cast_into::<PyString>()?;
        let in_class = class.getattr_opt(&name)?;
        let cached = CACHED_PROPERTY.get(py)?;
        let is_cached = in_class.is_some_and(|found| found.is_instance(cached).unwrap_or(false));
        if is_cached || name.to_string_lossy().starts_with("__") {
            others.del_item(name)?;
        }
    }
    Ok((!others.is_empty()).then(|| (ATTRIBUTES.into(), others.into_any())))
}
