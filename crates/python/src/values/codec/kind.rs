//! The kind of value of a class's instances, determined once for each class in a value.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{
    PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple, PyType,
};

use super::enums::EnumKind;
use super::error::Fail;
use super::exception::ExceptionKind;
use super::form::Form;
use super::hook::Hook;
use super::model::ModelKind;
use super::record::{DataclassKind, NamedTupleKind};
use super::{classes, hook, stdlib};

/// A kind of value that JSON does not have.
pub(super) enum Kind<'py> {
    /// A user-defined type.
    Hook(Hook<'py>),
    /// A type that is built in or belongs to the standard library.
    Standard(stdlib::ToForm),
    Enum(EnumKind),
    NamedTuple(NamedTupleKind<'py>),
    Dataclass(DataclassKind<'py>),
    Model(ModelKind<'py>),
    Exception(ExceptionKind),
}

impl<'py> Kind<'py> {
    pub(super) fn of(class: &Bound<'py, PyType>) -> Result<Kind<'py>, Fail> {
        if let Some(hook) = hook::of(class) {
            return Ok(Kind::Hook(hook));
        }
        Kind::built_in(class)
    }

    /// Returns the kind without user-defined types.
    pub(super) fn built_in(class: &Bound<'py, PyType>) -> Result<Kind<'py>, Fail> {
        if let Some(to_form) = stdlib::of(class)? {
            return Ok(Kind::Standard(to_form));
        }
        if class.is_subclass_of::<PyBaseException>()? {
            return Ok(Kind::Exception(ExceptionKind::of(class)?));
        }
        if let Some(kind) = EnumKind::of(class)? {
            return Ok(Kind::Enum(kind));
        }
        if let Some(kind) = NamedTupleKind::of(class)? {
            return Ok(Kind::NamedTuple(kind));
        }
        if let Some(base) = plain_base(class)? {
            let name = classes::shown(class);
            let what =
                format!("`{name}` is a subclass of `{base}`, and would come back as a `{base}`");
            let next = format!(
                "make it a plain `{base}`, or teach the codec this type with `tiffany.codec.register`"
            );
            return Err(Fail::new(what).next(next));
        }
        if let Some(kind) = ModelKind::of(class)? {
            return Ok(Kind::Model(kind));
        }
        if let Some(kind) = DataclassKind::of(class)? {
            return Ok(Kind::Dataclass(kind));
        }
        let name = classes::shown(class);
        let name = name.strip_prefix("builtins:").unwrap_or(&name);
        Err(Fail::new(format!("a `{name}` has no form in JSON")))
    }

    pub(super) fn form(&self, value: &Bound<'py, PyAny>) -> Result<Form<'py>, Fail> {
        match self {
            Kind::Hook(hook) => hook.form(value),
            Kind::Standard(to_form) => to_form(value),
            Kind::Enum(kind) => kind.form(value),
            Kind::NamedTuple(kind) => kind.form(value),
            Kind::Dataclass(kind) => kind.form(value),
            Kind::Model(kind) => kind.form(value),
            Kind::Exception(kind) => kind.form(value),
        }
    }
}

/// Returns the built-in base type whose content a subclass would lose.
fn plain_base(class: &Bound<'_, PyType>) -> Result<Option<&'static str>, Fail> {
    macro_rules! first_of {
        ($($base:ty => $name:literal),* $(,)?) => {
            $(if class.is_subclass_of::<$base>()? { return Ok(Some($name)); })*
        };
    }
    first_of! {
        PyInt => "int", PyString => "str", PyFloat => "float", PyList => "list", PyDict => "dict",
        PyTuple => "tuple", PySet => "set", PyFrozenSet => "frozenset", PyBytes => "bytes",
        PyByteArray => "bytearray", PyComplex => "complex",
    }
    for known in stdlib::BASES {
        // A program without this module has no subclass of the type.
        let Some(module) = classes::module(class.py(), known.0)? else { continue };
        let base = module.getattr(known.1)?;
        if class.is_subclass(&base)? {
            return Ok(Some(known.1));
        }
    }
    Ok(None)
}
