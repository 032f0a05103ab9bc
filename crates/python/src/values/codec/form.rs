//! The forms that values have which JSON does not: objects whose first name is a tag. A file of this folder that knows
//! a kind of value turns it into a `Form`, and makes it again from a `Tagged`; `encode.rs` and `decode.rs` know forms only.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::error::Fail;
use super::{classes, enums, exception, hook, model, record, stdlib};

/// How a value is written that JSON does not have.
pub(super) enum Form<'py> {
    /// `{"$tag":"text"}`
    Text(&'static str, String),
    /// `{"$tag":value}`
    Value(&'static str, Bound<'py, PyAny>),
    /// `{"$tag":[…]}`
    Items(&'static str, Vec<Bound<'py, PyAny>>),
    /// Items in the order of their texts: a set has no order that is the same in every process.
    Unordered(&'static str, Vec<Bound<'py, PyAny>>),
    /// `{"$tag":"head","name":value,…}`
    Fields(&'static str, Rc<str>, Vec<Field<'py>>),
}

/// A name and what stands under it.
pub(super) type Field<'py> = (Rc<str>, Bound<'py, PyAny>);

/// An object with a tag, read.
pub(super) struct Tagged<'py> {
    pub(super) tag: &'static Tag,
    /// What stands under the tag.
    pub(super) head: Bound<'py, PyAny>,
    /// What stands under the other names.
    pub(super) fields: Option<Bound<'py, PyDict>>,
    /// What happens to an exception whose class is not here.
    pub(super) missing: Missing,
    pub(super) plans: Rc<Plans<'py>>,
}

/// What was found out about the dataclasses in a text, by name.
pub(super) type Plans<'py> = RefCell<HashMap<String, Rc<record::Plan<'py>>>>;

/// What is done about an exception whose class is not here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The value cannot be read.
    Fails,
    /// Another exception stands for it, which has its name and message.
    Stands,
}

/// A tag, and how to make the value that it stands for.
pub(super) struct Tag {
    pub(super) name: &'static str,
    pub(super) build: for<'py> fn(&Tagged<'py>) -> Result<Bound<'py, PyAny>, Fail>,
}

/// The tags, the commonest first.
static TAGS: &[&[Tag]] =
    &[record::TAGS, stdlib::TAGS, enums::TAGS, model::TAGS, exception::TAGS, hook::TAGS];

/// The tag of this name.
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

    /// What is wrong with the text: it has not this form.
    pub(super) fn wrong(&self, wanted: &str) -> Fail {
        let found = classes::type_of(&self.head);
        Fail::new(format!("`{}` comes before {wanted}, not before this `{found}`", self.tag.name))
    }

    /// There is nothing but what stands under the tag.
    pub(super) fn alone(&self) -> Result<&Bound<'py, PyAny>, Fail> {
        self.fields_of([])?;
        Ok(&self.head)
    }

    /// A text under the tag, and nothing else.
    pub(super) fn text(&self) -> Result<&Bound<'py, PyString>, Fail> {
        self.alone()?.cast_exact().map_err(|_| self.wrong("a text"))
    }

    /// The text under the tag.
    pub(super) fn head(&self) -> Result<&str, Fail> {
        let head = self.head.cast_exact::<PyString>().map_err(|_| self.wrong("a text"))?;
        Ok(head.to_str()?)
    }

    /// A list under the tag, and nothing else.
    pub(super) fn list(&self) -> Result<&Bound<'py, PyList>, Fail> {
        self.alone()?.cast_exact().map_err(|_| self.wrong("a list"))
    }

    /// A list of `N` elements under the tag, and nothing else.
    pub(super) fn items<const N: usize>(&self) -> Result<[Bound<'py, PyAny>; N], Fail> {
        let items: Vec<_> = self.list()?.iter().collect();
        items.try_into().map_err(|_| self.wrong(&format!("a list of {N}")))
    }

    /// What stands under these names. Others are an error.
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
