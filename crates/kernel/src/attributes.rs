//! Tags and typed attributes: what a run says about itself, so that people find it among others.
//! This file knows their types, their limits and how they change; the host stores them.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::Reply;
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::run::Run;
use crate::time::Time;

/// The value of an attribute. Its type belongs to the value: the attributes of one name may have
/// different types in different runs.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A finite number.
    Float(f64),
    /// Yes or no.
    Flag(bool),
    /// A moment.
    Time(Time),
}

/// Floats are finite, so every value is equal to itself.
impl Eq for AttributeValue {}

macro_rules! from {
    ($($type:ty => $made:expr),+ $(,)?) => {
        $(impl From<$type> for AttributeValue {
            fn from(value: $type) -> AttributeValue {
                $made(value)
            }
        })+
    };
}

from! {
    String => AttributeValue::Text,
    &str => |text: &str| AttributeValue::Text(text.to_owned()),
    i64 => AttributeValue::Integer,
    i32 => |number: i32| AttributeValue::Integer(number.into()),
    u32 => |number: u32| AttributeValue::Integer(number.into()),
    f64 => AttributeValue::Float,
    bool => AttributeValue::Flag,
    Time => AttributeValue::Time,
}

/// The tags and attributes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The tags.
    pub tags: BTreeSet<String>,
    /// The attributes, by name.
    pub values: BTreeMap<String, AttributeValue>,
}

/// One change of the tags and attributes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeChange {
    /// The attribute has this value from now on.
    Set(String, AttributeValue),
    /// The attribute is removed, if it is there.
    Remove(String),
    /// The tag is added.
    AddTag(String),
    /// The tag is removed, if it is there.
    RemoveTag(String),
}

impl Attributes {
    /// How many tags a run may have.
    pub const MAX_TAGS: usize = 64;
    /// How many attributes a run may have.
    pub const MAX_ATTRIBUTES: usize = 64;
    /// How many bytes the name of an attribute may have.
    pub const MAX_NAME_BYTES: usize = 64;
    /// How many bytes a tag may have.
    pub const MAX_TAG_BYTES: usize = 128;
    /// How many bytes a text may have.
    pub const MAX_TEXT_BYTES: usize = 1024;
    /// How many bytes all tags, names and texts of a run may have together.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Whether there are neither tags nor attributes.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.values.is_empty()
    }

    /// Returns an error if a tag or an attribute is not allowed, or if there are too many.
    pub fn check(&self) -> Result<(), TaskError> {
        self.tags.iter().try_for_each(|tag| check_tag(tag))?;
        for (name, value) in &self.values {
            check_name(name)?;
            check_value(name, value)?;
        }
        self.check_size()
    }

    /// Makes all of these changes, or none if the result is not allowed.
    pub fn change(&mut self, changes: Vec<AttributeChange>) -> Result<(), TaskError> {
        let mut changed = self.clone();
        for change in changes {
            match change {
                AttributeChange::Set(name, value) => {
                    check_name(&name)?;
                    check_value(&name, &value)?;
                    changed.values.insert(name, value);
                }
                AttributeChange::Remove(name) => drop(changed.values.remove(&name)),
                AttributeChange::AddTag(tag) => {
                    check_tag(&tag)?;
                    changed.tags.insert(tag);
                }
                AttributeChange::RemoveTag(tag) => drop(changed.tags.remove(&tag)),
            }
        }
        changed.check_size()?;
        *self = changed;
        Ok(())
    }

    fn check_size(&self) -> Result<(), TaskError> {
        let (tags, values) = (self.tags.len(), self.values.len());
        if tags > Self::MAX_TAGS {
            return bad(format!("a run has at most {} tags, not {tags}", Self::MAX_TAGS));
        }
        if values > Self::MAX_ATTRIBUTES {
            let most = Self::MAX_ATTRIBUTES;
            return bad(format!("a run has at most {most} attributes, not {values}"));
        }
        let text = |value: &AttributeValue| match value {
            AttributeValue::Text(text) => text.len(),
            _ => size_of::<u64>(),
        };
        let tags: usize = self.tags.iter().map(String::len).sum();
        let values: usize = self.values.iter().map(|(name, value)| name.len() + text(value)).sum();
        if tags + values > Self::MAX_BYTES {
            let (is, most) = (tags + values, Self::MAX_BYTES);
            return bad(format!("the tags and attributes have {is} bytes; {most} are allowed"));
        }
        Ok(())
    }
}

fn check_tag(tag: &str) -> Result<(), TaskError> {
    let most = Attributes::MAX_TAG_BYTES;
    match tag {
        "" => bad("a tag is empty".into()),
        _ if tag.len() > most => bad(format!("a tag has {} bytes; {most} are allowed", tag.len())),
        _ if tag.trim() != tag => bad(format!("the tag {tag:?} begins or ends with white space")),
        _ => match tag.chars().find(|c| c.is_control() || turns_text(*c)) {
            Some(wrong) => bad(format!("the tag {tag:?} has {wrong:?} in it")),
            None => Ok(()),
        },
    }
}

/// Names are plain, so that they can be written in a filter: `amount>=10`.
fn check_name(name: &str) -> Result<(), TaskError> {
    let most = Attributes::MAX_NAME_BYTES;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    match name.chars().next() {
        None => bad("the name of an attribute is empty".into()),
        _ if name.len() > most => {
            bad(format!("the name of an attribute has {} bytes; {most} are allowed", name.len()))
        }
        Some(first) if !(first.is_ascii_alphabetic() || first == '_') => {
            bad(format!("the name of an attribute, {name:?}, doesn't begin with a letter"))
        }
        _ => match name.chars().find(|c| !is_plain(*c)) {
            Some(wrong) => bad(format!(
                "the name of an attribute, {name:?}, has {wrong:?} in it; letters, digits, `_`, `.` and `-` are allowed"
            )),
            None => Ok(()),
        },
    }
}

fn check_value(name: &str, value: &AttributeValue) -> Result<(), TaskError> {
    let most = Attributes::MAX_TEXT_BYTES;
    match value {
        AttributeValue::Text(text) if text.len() > most => {
            bad(format!("the attribute `{name}` has {} bytes; {most} are allowed", text.len()))
        }
        AttributeValue::Float(number) if !number.is_finite() => {
            bad(format!("the attribute `{name}` is {number}, which is not a finite number"))
        }
        _ => Ok(()),
    }
}

/// Whether a character changes the direction of the text around it, so that a tag would look like
/// another one.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn bad<T>(message: String) -> Result<T, TaskError> {
    Err(TaskError::new(ErrorKind::BadAttribute, message))
}

impl Run {
    /// The tags and attributes of the run; `None` if it has none.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.rare.attributes.as_deref()
    }

    /// Changes the tags and attributes of the run.
    pub(crate) fn set_attributes(&mut self, changes: Vec<AttributeChange>) -> Answer {
        let mut changed = self.attributes().cloned().unwrap_or_default();
        match changed.change(changes) {
            Ok(()) => {
                self.rare.attributes = Some(changed.into());
                Answer::Now(Reply::Unit)
            }
            Err(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: impl Into<AttributeValue>) -> AttributeChange {
        AttributeChange::Set(name.into(), value.into())
    }

    #[test]
    fn what_is_not_allowed_changes_nothing_and_says_why() {
        let long = "x".repeat(1025);
        let rows = [
            (set("", 1), "is empty"),
            (set("a b", 1), "' '"),
            (set("a\u{7}", 1), "'\\u{7}'"),
            (set("1a", 1), "doesn't begin with a letter"),
            (set(&"n".repeat(65), 1), "65 bytes"),
            (set("a", long.as_str()), "1025 bytes"),
            (set("a", f64::NAN), "not a finite number"),
            (AttributeChange::AddTag(String::new()), "is empty"),
            (AttributeChange::AddTag("a\nb".into()), "'\\n'"),
            (AttributeChange::AddTag(" a".into()), "white space"),
            (AttributeChange::AddTag("a\u{202e}b".into()), "'\\u{202e}'"),
            (AttributeChange::AddTag("t".repeat(129)), "129 bytes"),
        ];
        for (change, why) in rows {
            let mut attributes = Attributes::default();
            let shown = format!("{change:?}");
            let error = attributes.change(vec![set("ok", 1), change]).unwrap_err();
            assert_eq!(error.code(), "TFY0270", "{shown}");
            assert!(error.message().contains(why), "{shown}: {}", error.message());
            assert!(attributes.is_empty(), "{shown}");
        }
    }

    #[test]
    fn there_are_limits_on_how_many_and_how_much() {
        let mut attributes = Attributes::default();
        let tags = |count: usize| (0..count).map(|n| AttributeChange::AddTag(n.to_string()));
        attributes.change(tags(64).collect()).unwrap();
        let error = attributes.change(vec![AttributeChange::AddTag("more".into())]).unwrap_err();
        assert!(error.message().contains("at most 64 tags"), "{error}");
        let same =
            vec![AttributeChange::RemoveTag("0".into()), AttributeChange::AddTag("more".into())];
        attributes.change(same).unwrap();

        let values = |count: usize| (0..count).map(|n| set(&format!("a{n}"), 1));
        let error = Attributes::default().change(values(65).collect()).unwrap_err();
        assert!(error.message().contains("at most 64 attributes"), "{error}");

        let text = "x".repeat(1024);
        let values = |count: usize| (0..count).map(|n| set(&format!("a{n}"), text.as_str()));
        Attributes::default().change(values(15).collect()).unwrap();
        let error = Attributes::default().change(values(16).collect()).unwrap_err();
        assert!(error.message().contains("16384 are allowed"), "{error}");
    }
}
