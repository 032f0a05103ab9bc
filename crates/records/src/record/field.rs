//! The types of record fields. Values are parsed only when they are asked for, and nothing is copied.

use std::borrow::Cow;
use std::sync::Arc;

use tiffany_log::{BlobHash, Line, Payload, parse_string};

/// How a field is read from a line and written into one.
pub trait Field<'a>: Sized {
    /// Reads the field's JSON.
    fn read(json: &'a str) -> Self;

    /// Writes the field, unless it is absent.
    fn write(&self, line: &mut Line<'_>, name: &str);
}

/// A text.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// As the line has it: with its quotes and what is escaped.
    Json(&'a str),
    /// As people read it.
    Plain(&'a str),
    /// A text with nothing in it that must be escaped.
    Safe(&'a str),
}

impl<'a> Text<'a> {
    /// The text as people read it; empty if the line has something else there.
    pub fn get(&self) -> Cow<'a, str> {
        match self {
            Text::Json(json) => parse_string(json).unwrap_or_default(),
            Text::Plain(text) | Text::Safe(text) => Cow::Borrowed(text),
        }
    }

    /// The text as an owned string.
    pub fn owned(&self) -> String {
        self.get().into_owned()
    }
}

impl Text<'_> {
    #[inline]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        match self {
            Text::Json(json) => line.put_verbatim(name, json),
            Text::Plain(text) => line.put_str(name, text),
            Text::Safe(text) => line.put_plain(name, text),
        }
    }
}

/// A text that is there, or an empty one.
pub fn owned(text: Option<Text<'_>>) -> String {
    text.map(|text| text.owned()).unwrap_or_default()
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        match self {
            // Mostly there is nothing to escape.
            Text::Json(json) if !json.contains('\\') => {
                json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(other)
            }
            text => text.get() == other,
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Text<'a> {
        Text::Plain(text)
    }
}

impl<'a> Field<'a> for Option<Text<'a>> {
    #[inline]
    fn read(json: &'a str) -> Self {
        json.starts_with('"').then_some(Text::Json(json))
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Some(text) = self {
            text.write(line, name);
        }
    }
}

impl Field<'_> for Option<u64> {
    #[inline]
    fn read(json: &str) -> Self {
        json.parse().ok()
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Some(number) = self {
            line.put_uint(name, *number);
        }
    }
}

/// A number that is written as text, because not every reader of JSON keeps 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits<'a> {
    /// As the line has it: with its quotes.
    Json(&'a str),
    /// The number.
    Number(u64),
}

impl Digits<'_> {
    /// The number; `None` if the line has something else there.
    pub fn get(&self) -> Option<u64> {
        match self {
            Digits::Json(json) => json.strip_prefix('"')?.strip_suffix('"')?.parse().ok(),
            Digits::Number(number) => Some(*number),
        }
    }
}

impl<'a> Field<'a> for Option<Digits<'a>> {
    #[inline]
    fn read(json: &'a str) -> Self {
        Some(Digits::Json(json))
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        match self {
            Some(Digits::Number(number)) => line.put_digits(name, *number),
            Some(Digits::Json(json)) => line.put_verbatim(name, json),
            None => {}
        }
    }
}

/// Something that is so, or is not mentioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flag(pub bool);

impl Field<'_> for Flag {
    fn read(json: &str) -> Self {
        Flag(json == "true")
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Flag(true) = self {
            line.put_flag(name, true);
        }
    }
}

/// JSON that tells something of the run. What is long becomes a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(pub &'a str);

impl<'a> Field<'a> for Option<Json<'a>> {
    #[inline]
    fn read(json: &'a str) -> Self {
        Some(Json(json))
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Some(Json(json)) = self {
            line.put_json(name, json);
        }
    }
}

/// JSON that is never a blob, however long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<'a>(pub &'a str);

impl<'a> Field<'a> for Option<Inline<'a>> {
    #[inline]
    fn read(json: &'a str) -> Self {
        Some(Inline(json))
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Some(Inline(json)) = self {
            line.put_verbatim(name, json);
        }
    }
}

/// A value of the program's, or an error. What is long becomes a blob. Objects whose first name begins with `$` have a
/// meaning in the log, so one that is a value is wrapped.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// As the line has it: wrapped, or the name of a blob.
    Written(&'a str),
    /// As the program has it.
    Plain(&'a str),
    /// A shared value, whose hash may be known.
    Shared(&'a Arc<str>, Option<&'a BlobHash>),
}

impl<'a> Value<'a> {
    /// What the line has: the value, its bytes, or the name of its blob.
    pub fn payload(&self) -> Option<Payload<'a>> {
        match self {
            Value::Written(json) => Payload::parse(json),
            Value::Plain(json) => Some(Payload::Json(json)),
            Value::Shared(json, _) => Some(Payload::Json(json)),
        }
    }

    /// The JSON as it stands there.
    pub fn json(&self) -> &'a str {
        match self {
            Value::Written(json) | Value::Plain(json) => json,
            Value::Shared(json, _) => json,
        }
    }
}

impl<'a> Field<'a> for Option<Value<'a>> {
    #[inline]
    fn read(json: &'a str) -> Self {
        Some(Value::Written(json))
    }

    #[inline(always)]
    fn write(&self, line: &mut Line<'_>, name: &str) {
        if let Some(value) = self {
            value.write(line, name);
        }
    }
}

impl Value<'_> {
    fn write(&self, line: &mut Line<'_>, name: &str) {
        match *self {
            Value::Written(json) => line.put_verbatim(name, json),
            new if is_marked(new.json()) => {
                line.put_json(name, &format!("{{\"$json\":{}}}", new.json()))
            }
            Value::Plain(json) => line.put_json(name, json),
            Value::Shared(json, hash) => line.put_shared_json(name, json, hash.copied()),
        }
    }
}

/// Whether a value of the program's looks like something that has a meaning in the log.
fn is_marked(json: &str) -> bool {
    let inside = json.trim_start().strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with("\"$"))
}
