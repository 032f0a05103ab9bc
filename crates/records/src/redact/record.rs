//! Redacts records. Most records contain no secrets, so a quick search comes first; only a record
//! that may contain one is parsed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tiffany_kernel::TaskError;

use super::kind::{Kind, is_moment, moment};
use super::tree::Node;
use super::walk::{Area, Leaf, Reach, Walk, text_of};
use super::{PLACEHOLDER, Redactions};
use crate::{json::compact, key::Key};
use tiffany_log::{
    Fields, Redactor, end_of_value, parse_base64, parse_string, push_base64, push_string,
};

impl Redactor for Redactions {
    /// Redacts the fields of a record, given as the text between its braces; `None` if nothing
    /// changes. `head` is the part of the line before them.
    fn fields(&self, head: &[u8], fields: &str) -> Option<String> {
        if !self.may_find(fields) {
            return None;
        }
        let is_message = memchr::memmem::find(head, b"\"type\":\"Message\"").is_some();
        let call = call_in(fields);
        let (mut out, mut changed) = (Vec::with_capacity(fields.len()), false);
        for (name, json) in (Fields { rest: fields }) {
            let area = match name {
                // Messages are received by name. A name that is secret is refused when the message
                // is sent.
                "name" if is_message => None,
                name => area_of(name, call, json),
            };
            let cleaned = area.and_then(|area| self.cleaned(name, area, json));
            changed |= cleaned.is_some();
            out.push(b',');
            push_string(&mut out, name);
            out.push(b':');
            out.extend_from_slice(cleaned.as_deref().unwrap_or(json).as_bytes());
        }
        changed.then(|| String::from_utf8(out).expect("made of texts"))
    }

    /// Redacts a payload that is about to become a blob; `None` if nothing changes. `before` are
    /// the fields before it.
    fn payload(&self, before: &str, field: &str, json: &str) -> Option<String> {
        if !self.may_find(json) && !self.names.iter().any(|name| name == field) {
            return None;
        }
        let area = area_of(field, call_in(before), json).unwrap_or(Area::Value);
        self.cleaned(field, area, json)
    }

    /// Redacts bytes; `None` if nothing changes.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.patterns.bytes(bytes)
    }
}

impl Redactions {
    /// Redacts a value given as JSON.
    pub fn json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        match self.payload("", "", json) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => Cow::Borrowed(json),
        }
    }

    /// Redacts the `about` field of a call.
    pub fn about<'a>(&self, call: &str, json: &'a str) -> Cow<'a, str> {
        match self.payload(&format!(",\"call\":\"{call}\""), "about", json) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => Cow::Borrowed(json),
        }
    }

    /// Redacts an error. Its form in another language is dropped.
    pub fn error(&self, error: TaskError) -> TaskError {
        let Ok(json) = serde_json::to_string(&error) else { return error };
        let cleaned = self.cleaned("error", Area::Error, &json);
        cleaned.and_then(|cleaned| serde_json::from_str(&cleaned).ok()).unwrap_or(error)
    }

    /// Returns whether this JSON may contain something to redact, without parsing it.
    fn may_find(&self, json: &str) -> bool {
        if self.any_name {
            return true;
        }
        let bytes = json.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let Some(end) = end_of_value(bytes, at) else { return true };
                    let is_name = bytes.get(end) == Some(&b':');
                    if self.finds_text(&json[at..end], is_name) {
                        return true;
                    }
                    at = end;
                }
                b'-' | b'0'..=b'9' => {
                    let Some(end) = end_of_value(bytes, at) else { return true };
                    if self.patterns.find_in(&bytes[at..end]) {
                        return true;
                    }
                    at = end;
                }
                _ => at += 1,
            }
        }
        false
    }

    /// Returns whether a text, given with its quotation marks, may contain something to redact.
    fn finds_text(&self, raw: &str, is_name: bool) -> bool {
        let inner = &raw[1..raw.len() - 1];
        let text = match inner.contains('\\') {
            false => Cow::Borrowed(inner),
            true => match parse_string(raw) {
                Some(text) => text,
                None => return true,
            },
        };
        // Bytes have to be decoded first.
        let is_meant = || {
            matches!(&*text, "$bytes" | "$bytearray" | "$base64")
                || self.names.iter().any(|name| *name == *text)
        };
        (is_name && is_meant()) || self.patterns.find_in(text.as_bytes())
    }

    fn cleaned(&self, field: &str, area: Area, json: &str) -> Option<String> {
        let json = compact(json);
        let Some(was) = Node::parse(&json) else {
            // It is nested too deeply to be parsed.
            return Some(format!("\"{PLACEHOLDER}\""));
        };
        let mut node = was.clone();
        let mut used = BTreeSet::new();
        let mut walk = Walk {
            places: &self.places,
            used: &mut used,
            path: Vec::new(),
            reach: Reach::Everything,
        };
        walk.field(&mut node, field, area, &mut |leaf, node, marked| {
            if let Some(made) = self.instead(leaf, text_of(node), marked) {
                *node = match node {
                    Node::Text(_) => Node::Text(Cow::Owned(made)),
                    _ => Node::Plain(Cow::Owned(made)),
                };
            }
        });
        (node != was).then(|| node.json())
    }

    /// Returns the replacement for a leaf; `None` if it stays as it is.
    fn instead(&self, leaf: Leaf, text: &str, marked: bool) -> Option<String> {
        let is_taken = || marked || self.patterns.find_in(text.as_bytes());
        match leaf {
            Leaf::Words => self.patterns.cleaned(text),
            Leaf::Value(Kind::Flag) => marked.then(|| "false".into()),
            Leaf::Value(Kind::Number) => is_taken().then(|| match text.contains(['.', 'e', 'E']) {
                true => "0.0".into(),
                false => "0".into(),
            }),
            Leaf::Value(Kind::Moment) if is_moment(text) => is_taken().then(|| moment(text, 0)),
            Leaf::Value(Kind::Bytes) => self.bytes_instead(text, marked),
            Leaf::Value(_) if is_uuid(text) => is_taken().then(|| NO_UUID.into()),
            // A floating-point number that is not finite.
            Leaf::Value(_) if marked && matches!(text, "nan" | "inf" | "-inf") => None,
            Leaf::Value(_) if marked => Some(PLACEHOLDER.into()),
            Leaf::Value(_) => self.patterns.cleaned(text),
        }
    }

    fn bytes_instead(&self, text: &str, marked: bool) -> Option<String> {
        let Some(bytes) = parse_base64(text) else {
            return if marked { Some(PLACEHOLDER.into()) } else { self.patterns.cleaned(text) };
        };
        let cleaned = match marked {
            true => PLACEHOLDER.as_bytes().to_vec(),
            false => self.patterns.bytes(&bytes)?,
        };
        let mut out = Vec::new();
        push_base64(&mut out, &cleaned);
        String::from_utf8(out).ok()
    }
}

const NO_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// Returns whether a text has the form of a UUID, which it must keep.
fn is_uuid(text: &str) -> bool {
    text.len() == NO_UUID.len()
        && text.bytes().zip(NO_UUID.bytes()).all(|(byte, shape)| match shape {
            b'-' => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Returns the tag of the call that a record is about.
fn call_in(fields: &str) -> &str {
    let call = Fields { rest: fields }.find(|(name, _)| *name == "call");
    call.map_or("", |(_, call)| call)
}

/// Returns the kind of a field's contents; `None` if they are only the log's own. A field that is
/// not known has a value of the program.
fn area_of(field: &str, call: &str, json: &str) -> Option<Area> {
    let is_blob = json.starts_with("{\"$blob\":");
    match field {
        _ if is_blob || OWN.contains(&field) => None,
        "name" | "allow" | "why" => Some(Area::Words),
        // Either the key of a call, or a name that the program chose.
        "key" if parse_string(json).is_some_and(|key| Key::parse(&key).is_some()) => None,
        "key" => Some(Area::Words),
        "about" if matches!(call, "\"continue_as\"" | "\"approve\"") => Some(Area::Value),
        "about" => Some(Area::About),
        "error" if !json.starts_with('{') => None,
        "error" => Some(Area::Error),
        "tables" => Some(Area::Tables),
        _ => Some(Area::Value),
    }
}

/// Fields that contain only words of the log itself, or names by which runs are found, which are
/// refused if they are secret.
const OWN: &[&str] = &[
    "after",
    "at",
    "attempt",
    "bytes",
    "call",
    "child",
    "continued",
    "count",
    "deadline",
    "decided",
    "fork",
    "from",
    "function",
    "gen",
    "id",
    "instruction",
    "instruction_gen",
    "items",
    "language",
    "lines",
    "namespace",
    "number",
    "object",
    "of",
    "of_gen",
    "promise",
    "received",
    "recording",
    "records",
    "retry_at",
    "run",
    "seed",
    "set",
    "set_ts",
    "step",
    "task",
    "time",
    "uuid",
];

#[cfg(test)]
mod tests;
