//! The forms of values that JSON does not have: objects whose first name is a tag. Each file of
//! this folder that handles a kind of value converts it to a `Form`, and recreates it from a
//! `Tagged`; `encode.rs` and `decode.rs` only handle forms.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::error::Fail;
use super::{classes, enums, exception, hook, model, record, stdlib};

/// The form of a value that JSON does not have.
pub(super) enum Form<'py> {
    /// `{"$tag":"text"}`
    Text(&'static str, String),
    /// `{"$tag":value}`
    Value(&'static str, Bound<'py, PyAny>),
    /// `{"$tag":[…]}`
    Items(&'static str, Vec<Bound<'py, PyAny>>),
    /// Items sorted by their texts: a set has no order that is the same in every process.
    Unordered(&'static str, Vec<Bound<'py, PyAny>>),
    /// `{"$tag":"head","name":value,…}`
    Fields(&'static str, Rc<str>, Vec<Field<'py>>),
}

/// A name and its value.
pub(super) type Field<'py> = (Rc<str>, Bound<'py, PyAny>);

/// A decoded object with a tag.
pub(super) struct Tagged<'py> {
    pub(super) tag: &'static Tag,
    /// The value of the tag.
    pub(super) head: Bound<'py, PyAny>,
    /// The values of the other names.
    pub(super) fields: Option<Bound<'py, PyDict>>,
    /// How to handle an exception whose class is missing.
    pub(super) missing: Missing,
    pub(super) plans: Rc<Plans<'py>>,
}

/// The plans of the dataclasses in a text, by name.
pub(super) type Plans<'py> = RefCell<HashMap<String, Rc<record::Plan<'py>>>>;

/// How to handle an exception whose class is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Decoding the value fails.
    Fails,
    /// Another exception replaces it, with its name and message.
    Stands,
}

/// A tag, and the function that creates its values.
pub(super) struct Tag {
    pub(super) name: &'static str,
    pub(super) build: for<'py> fn(&Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail>,
}

/// The tags, the most common first.
static TAGS: &[&[Tag]] =
    &[record::TAGS, stdlib::TAGS, enums::TAGS, model::TAGS, exception::TAGS, hook::TAGS];

/// Returns the tag of this name.
pub(super) fn tag(name: &str) -> Result<&'static Tag, Fail> {
    TAGS.iter().copied().flatten().find(|tag| tag.name == name).ok_or_else(|| {
        let name = super::path::shortened(name, 60);
        let what = format!("`{name}` is not a tag that this version knows");
        Fail::new(what)
            .next("a dict with such a name is written as pairs: {\"$dict\":[[name,value]]}")
    })
}

impl<'py> Tagged<'py> {
    pub(super) fn py(&self) -> Python<'py> {
        self.head.py()
    }

    /// Returns the failure for a text that doesn't have this form.
    pub(super) fn wrong(&self, wanted: &str) -> Fail {
        let found = classes::type_of(&self.head);
        Fail::new(format!("`{}` comes before {wanted}, not before this `{found}`", self.tag.name))
    }

    /// Returns the value of the tag, which must have no other names beside it.
    pub(super) fn alone(&self) -> Result<&Bound<'py, PyAny>, Fail> {
        self.fields_of([])?;
        Ok(&self.head)
    }

    /// Returns the string of the tag, which must have no other names beside it.
    pub(super) fn text(&self) -> Result<&Bound<'py, PyString>, Fail> {
        self.alone()?.cast_exact().map_err(|_| self.wrong("a text"))
    }

    /// Returns the string of the tag.
    pub(super) fn head(&self) -> Result<&str, Fail> {
        let head = self.head.cast_exact::<PyString>().map_err(|_| self.wrong("a text"))?;
        Ok(head.to_str()?)
    }

    /// Returns the list of the tag, which must have no other names beside it.
    pub(super) fn list(&self) -> Result<&Bound<'py, PyList>, Fail> {
        self.alone()?.cast_exact().map_err(|_| self.wrong("a list"))
    }

    /// Returns the `N` elements of the tag's list, which must have no other names beside it.
    pub(super) fn items<const N: usize>(&self) -> Result<[Bound<'py, PyAny>; N], Fail> {
        let items: Vec<_> = self.list()?.iter().collect();
        items.try_into().map_err(|_| self.wrong(&format!("a list of {N}")))
    }

    /// Returns the values of these names. Other names are an error.
    pub(super) fn fields_of<const N: usize>(
        &self,
        names: [&str; N],
    ) -> Result<[Option<Bound<'py, PyAny>>; N], Fail> {
        let mut found = [const { None }; N];
        for (name, value) in self.fields.iter().flatten() {
            let name = name.cast::<PyString>()?;
            match names.iter().position(|known| name == known) {
                Some(at) => found[at] = Some(value),
                None => {
                    let what = format!("`{}` has no `{name}`", self.tag.name);
                    return Err(Fail::new(what));
                }
            }
        }
        Ok(found)
    }
}
