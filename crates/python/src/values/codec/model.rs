//! Encodes and decodes Pydantic models (version 2). Pydantic is used if the program has imported
//! it, and never imported here.
//!
//! A model is encoded field by field, each with its own type, and recreated from the fields. It is
//! not dumped and validated: that would lose the class of a model in a field of a base class or of
//! `Any`, lose fields that are excluded from dumps, and run validators on values that they have
//! already changed.

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyType};

use super::classes;
use super::error::Fail;
use super::form::{Field, Form, Tag, Tagged};
use super::record::{Given, lacks, new_object};

pub(super) const TAGS: &[Tag] = &[Tag { name: "$model", build }];

/// Additional names of a model: the fields that were set, if not all; fields that the class does
/// not declare; private attributes.
const SET: &str = "$set";
const EXTRA: &str = "$extra";
const PRIVATE: &str = "$private";

/// A model class.
pub(super) struct ModelKind<'py> {
    base: Bound<'py, PyType>,
    fields: Bound<'py, PyDict>,
    name: Rc<str>,
}

impl<'py> ModelKind<'py> {
    pub(super) fn of(class: &Bound<'py, PyType>) -> Result<Option<ModelKind<'py>>, Fail> {
        let Some(base) = base_model(class.py())? else { return Ok(None) };
        if !class.is_subclass(&base)? {
            return Ok(None);
        }
        Ok(Some(ModelKind {
            base,
            fields: fields_of(class)?,
            name: classes::name_of(class)?.into(),
        }))
    }

    pub(super) fn form(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let py = value.py();
        let state = self.base.call_method1(intern!(py, "__getstate__"), (value,))?;
        let part = |name: &str| state.get_item(name);
        let all = part("__dict__")?.cast_into::<PyDict>()?;
        let mut fields: Vec<Field<'py>> = Vec::new();
        for (name, _) in &self.fields {
            if let Some(value) = all.get_item(&name)? {
                fields.push((name.extract::<String>()?.into(), value));
            }
        }
        let given = part("__pydantic_fields_set__")?.cast_into::<PySet>()?;
        let are_all = fields.len() == given.len()
            && fields.iter().all(|(name, _)| given.contains(name.as_ref()).unwrap_or(false));
        if !are_all {
            let given = given.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let given = PyList::new(py, given)?;
            given.sort()?;
            fields.push((SET.into(), given.into_any()));
        }
        for (name, key) in [(EXTRA, "__pydantic_extra__"), (PRIVATE, "__pydantic_private__")] {
            let part = part(key)?;
            if !part.is_none() {
                fields.push((name.into(), part));
            }
        }
        Ok(Form::Fields("$model", Rc::clone(&self.name), fields))
    }
}

/// Returns `BaseModel`, if the program uses it.
fn base_model(py: Python<'_>) -> Result<Option<Bound<'_, PyType>>, Fail> {
    let Some(module) = classes::module(py, "pydantic.main")? else { return Ok(None) };
    let base = module.getattr(intern!(py, "BaseModel"))?.cast_into::<PyType>()?;
    // Models of version 1 have a different structure.
    Ok(base.hasattr("__pydantic_validator__")?.then_some(base))
}

/// Returns the fields of a class by name.
fn fields_of<'py>(class: &Bound<'py, PyType>) -> Result<Bound<'py, PyDict>, Fail> {
    Ok(class.getattr(intern!(class.py(), "model_fields"))?.cast_into::<PyDict>()?)
}

fn build<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let name = tagged.head()?;
    let class = classes::find(py, name)?;
    let base = base_model(py)?;
    let Some(base) = base.filter(|base| class.is_subclass(base).unwrap_or(false)) else {
        return Err(Fail::new(format!("`{name}` is not a pydantic model any more")));
    };
    let given = Given::of(tagged, name)?;
    let beside = |key: &str| given.take(&PyString::intern(py, key));
    let set = beside(SET)?;
    let extra = beside(EXTRA)?.map(|part| a_dict(part, EXTRA)).transpose()?;
    let private = beside(PRIVATE)?.map(|part| a_dict(part, PRIVATE)).transpose()?;

    let values = PyDict::new(py);
    let named = PySet::empty(py)?;
    for (field_name, field) in fields_of(&class)? {
        let field_name = field_name.cast_into::<PyString>()?;
        let value = match given.take(&field_name)? {
            Some(value) => {
                named.add(&field_name)?;
                value
            }
            None => default_of(&field)?.ok_or_else(|| lacks(name, &field_name))?,
        };
        values.set_item(field_name, value)?;
    }
    given.nothing_left(name)?;
    let set = match set {
        Some(set) => PySet::new(py, set.try_iter()?.collect::<PyResult<Vec<_>>>()?)?,
        None => named,
    };

    let state = PyDict::new(py);
    state.set_item("__dict__", values)?;
    state.set_item("__pydantic_fields_set__", set)?;
    state.set_item("__pydantic_extra__", extra)?;
    state.set_item("__pydantic_private__", private)?;
    let made = new_object(&class)?;
    base.call_method1(intern!(py, "__setstate__"), (&made, state))?;
    Ok(made)
}

/// Returns the default of a field; `None` if it is required.
fn default_of<'py>(field: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let py = field.py();
    if field.call_method0(intern!(py, "is_required"))?.is_truthy()? {
        return Ok(None);
    }
    let options = PyDict::new(py);
    options.set_item(intern!(py, "call_default_factory"), true)?;
    Ok(Some(field.call_method(intern!(py, "get_default"), (), Some(&options))?))
}

fn a_dict<'py>(part: Bound<'py, PyAny>, name: &str) -> Result<Bound<'py, PyAny>, Fail> {
    match part.is_exact_instance_of::<PyDict>() {
        true => Ok(part),
        false => Err(Fail::new(format!("`{name}` is not an object"))),
    }
}
