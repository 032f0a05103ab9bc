//! Encodes and decodes members of enums: by name; combinations of flags by value.

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyType};

use super::classes::{self, Known};
use super::error::Fail;
use super::form::{Form, Tag, Tagged};

pub(super) const TAGS: &[Tag] = &[Tag { name: "$enum", build }];

static ENUM: Known = Known::new("enum", "Enum");
static FLAG: Known = Known::new("enum", "Flag");

/// The name of an enum.
pub(super) struct EnumKind {
    name: Rc<str>,
}

impl EnumKind {
    pub(super) fn of(class: &Bound<'_, PyType>) -> Result<Option<EnumKind>, Fail> {
        if !class.is_subclass(ENUM.get(class.py())?)? {
            return Ok(None);
        }
        Ok(Some(EnumKind { name: classes::name_of(class)?.into() }))
    }

    pub(super) fn form<'py>(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        let py = value.py();
        let name = value.getattr(intern!(py, "_name_"))?;
        let field = match member(&value.get_type(), &name)? {
            Some(member) if member.is(value) => ("name".into(), name),
            _ => ("value".into(), value.getattr(intern!(py, "_value_"))?),
        };
        Ok(Form::Fields("$enum", Rc::clone(&self.name), vec![field]))
    }
}

fn member<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let members = class.getattr(intern!(class.py(), "__members__"))?;
    let found = members.call_method1(intern!(class.py(), "get"), (name,))?;
    Ok(Some(found).filter(|found| !found.is_none()))
}

fn build<'py>(tagged: &Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail> {
    let py = tagged.py();
    let class_name = tagged.head()?;
    let class = classes::find(py, class_name)?;
    if !class.is_subclass(ENUM.get(py)?)? {
        return Err(Fail::new(format!("`{class_name}` is not an enum any more")));
    }
    match tagged.fields_of(["name", "value"])? {
        [Some(name), None] if name.is_exact_instance_of::<PyString>() => member(&class, &name)?
            .ok_or_else(|| {
                let what = format!("`{class_name}` has no member `{name}`");
                Fail::new(what).next("restore the member, or add an alias for another one")
            }),
        [None, Some(value)]
            if class.is_subclass(FLAG.get(py)?)? && value.is_exact_instance_of::<PyInt>() =>
        {
            Ok(class.call1((value,))?)
        }
        _ => Err(Fail::new("`$enum` has the `name` of a member, or the `value` of several flags")),
    }
}
