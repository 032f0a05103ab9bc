//! The types of record fields. Values are parsed only on access, and nothing is copied.

use std::borrow::Cow;
use std::sync::Arc;

use tiffany_log::{BlobHash, Line, Payload, parse_string};

/// The conversion of a field from and to a line.
pub trait Field<'a>: Sized {
    /// Reads the field's JSON.
    fn read(json: &'a str) -> Self;

    /// Writes the field, unless it is absent.
    fn write(&self, line: &mut Line<'_>, name: &str);
}

/// A text.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// A raw JSON string, with quotation marks and escapes.
    Json(&'a str),
    /// The text itself.
    Plain(&'a str),
    /// A text that needs no escaping.
    Safe(&'a str),
}

impl<'a> Text<'a> {
    /// Returns the text itself; empty if the line has another kind of value.
    pub fn get(&self) -> Cow<'a, str> {
        match self {
            Text::Json(json) => parse_string(json).unwrap_or_default(),
            Text::Plain(text) | Text::Safe(text) => Cow::Borrowed(text),
        }
    }

    /// Returns the text as an owned string.
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

/// Returns the text of a field; empty if the field is absent.
pub fn owned(text: Option<Text<'_>>) -> String {
    text.map(|text| text.owned()).unwrap_or_default()
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        match self {
            // Usually there are no escapes.
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

/// A number that is written as text, because some JSON readers don't keep 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits<'a> {
    /// A raw JSON string, with quotation marks.
    Json(&'a str),
    /// The number itself.
    Number(u64),
}

impl Digits<'_> {
    /// Returns the number; `None` if the line has another kind of value.
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

/// A Boolean that is written only if it is true.
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

/// JSON about the run. A long value becomes a blob.
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

/// JSON that never becomes a blob, however long it is.
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

/// A value of the program, or an error. A long value becomes a blob. Objects whose first name
/// begins with `$` have a meaning in the log, so a program's value of that form is wrapped.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// As in the line: possibly wrapped, or a reference to a blob.
    Written(&'a str),
    /// As in the program.
    Plain(&'a str),
    /// A shared value, with its hash if that is known.
    Shared(&'a Arc<str>, Option<&'a BlobHash>),
}

impl<'a> Value<'a> {
    /// Returns the value, its bytes, or the reference to its blob.
    pub fn payload(&self) -> Option<Payload<'a>> {
        match self {
            Value::Written(json) => Payload::parse(json),
            Value::Plain(json) => Some(Payload::Json(json)),
            Value::Shared(json, _) => Some(Payload::Json(json)),
        }
    }

    /// Returns the raw JSON.
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

/// Returns whether a program's value looks like one that has a meaning in the log.
fn is_marked(json: &str) -> bool {
    let inside = json.trim_start().strip_prefix('{');
    inside.is_some_and(|inside| inside.trim_start().starts_with("\"$"))
}
