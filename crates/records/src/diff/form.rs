//! Brings a record into a form that can be compared between runs. Timestamps, seeds, turns, source
//! lines and ids are left out; UUIDs that the run drew are replaced with names, a sleep with its
//! length, and an error with its message.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::record::Record;
use tiffany_log::{LogLine, Stamp};

/// Names for the UUIDs in one run.
#[derive(Default)]
pub(super) struct Names(HashMap<String, String>);

/// The number of characters in a UUID.
const UUID: usize = 36;

impl Names {
    pub(super) fn new(run: String) -> Names {
        Names([(run, "<run>".to_owned())].into())
    }

    pub(super) fn add(&mut self, uuid: String, name: String) {
        self.0.insert(uuid, name);
    }

    /// Replaces UUIDs with their names.
    pub(super) fn plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let bytes = text.as_bytes();
        let mut out = String::new();
        let mut copied = 0;
        for dash in memchr::memchr_iter(b'-', bytes) {
            // The first hyphen of a UUID is its ninth character.
            let Some(at) = dash.checked_sub(8).filter(|at| *at >= copied) else { continue };
            let Some(name) = text.get(at..at + UUID).and_then(|uuid| self.0.get(uuid)) else {
                continue;
            };
            out.push_str(&text[copied..at]);
            out.push_str(name);
            copied = at + UUID;
        }
        match copied {
            0 => Cow::Borrowed(text),
            _ => {
                out.push_str(&text[copied..]);
                Cow::Owned(out)
            }
        }
    }

    /// Returns the JSON of a field in a canonical form, so that equal values are equal texts.
    fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let plain = self.plain(text);
        match plain.starts_with('{') || plain.starts_with('[') {
            // The order of an object's members has no meaning.
            true => match serde_json::from_str::<Value>(&plain) {
                Ok(value) => Cow::Owned(value.to_string()),
                Err(_) => plain,
            },
            false => plain,
        }
    }
}

/// Returns the fields of a record to compare, in their canonical form. `of` maps the number of a
/// record to what stands for it.
pub(super) fn fields<'a>(
    line: &LogLine<'a>,
    record: &Record<'a>,
    names: &Names,
    of: impl Fn(u64) -> u64,
) -> Vec<(&'a str, Cow<'a, str>)> {
    let mut all = Vec::with_capacity(6);
    let call = match record {
        Record::TaskYield(call) => call.tag(),
        _ => Cow::Borrowed(""),
    };
    for (name, value) in line.fields() {
        let form = match name {
            "gen" | "crc" | "at" | "step" | "seed" | "retry_at" | "from" | "id" | "fork"
            | "continued" | "language" | "set" | "set_ts" | "set_by" => continue,
            "number" if call == "random" => continue,
            "time" if call == "sleep" => match length(line, record) {
                Some(length) => Cow::Owned(length),
                None => continue,
            },
            "time" => continue,
            "of" => Cow::Owned(of(value.parse().unwrap_or(0)).to_string()),
            "error" => Cow::Owned(names.plain(&error(value).to_string()).into_owned()),
            _ => names.json(value),
        };
        all.push((name, form));
    }
    all
}

/// Returns the length of a sleep in seconds.
fn length(line: &LogLine<'_>, record: &Record<'_>) -> Option<String> {
    let Record::TaskYield(call) = record else { return None };
    let until = Stamp::parse(&call.time?.get())?.unix_nanos();
    let nanos = until.checked_sub(line.stamp()?.unix_nanos())?;
    Some(format!("{}", nanos as f64 / 1e9))
}

/// Returns an error without source lines and the numbers of tasks that it passed through.
pub(super) fn error(text: &str) -> Value {
    let Ok(error) = serde_json::from_str::<Value>(text) else { return text.into() };
    match &error {
        Value::Object(object) if object.contains_key("message") => json!({
            "kind": error["kind"],
            "message": error["message"],
            "call": error["call"][0],
            "within": error["within"],
            "detail": error["detail"],
        }),
        _ => error,
    }
}

/// Hashes what is compared.
pub(super) fn digest(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_of_the_run_become_names_and_others_stay() {
        let run = "72a90ea3-da8b-4dd0-9bde-2f27314e02e2";
        let names = Names::new(run.into());
        for (text, expected) in [
            ("a - b", "a - b".to_owned()),
            (run, "<run>".to_owned()),
            (&format!("k {run}/3 {run}"), "k <run>/3 <run>".to_owned()),
            (&format!("-{run}-"), "-<run>-".to_owned()),
            ("b5e18e3f-a3b5-4ec5-8c3c-ae267504ac24", "b5e18e3f-a3b5-4ec5-8c3c-ae267504ac24".into()),
            ("grün-ü-€-", "grün-ü-€-".into()),
        ] {
            assert_eq!(names.plain(text), expected);
        }
    }

    #[test]
    fn the_order_of_names_in_an_object_makes_no_difference() {
        let names = Names::default();
        assert_eq!(
            names.json(r#"{"b":1,"a":[{"d":1,"c":2}]}"#),
            names.json(r#"{"a":[{"c":2,"d":1}],"b":1}"#)
        );
        assert_ne!(names.json(r#"{"b":1}"#), names.json(r#"{"b":2}"#));
    }
}
