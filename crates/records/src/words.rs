//! A record in a few words, and the parts of it that both `diff` and `export` read.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;
use tiffany_kernel::CallKind;

use crate::call_words::call_word;
use tiffany_log::{BlobForm, LogError, Payload, Record, RecordType, View, to_the_second};

/// Whether a call concerns the world: those are matched, the others follow from them.
pub(super) fn is_outward(record: &Record<'_>) -> bool {
    match record.record_type() {
        Some(RecordType::TaskSpawn) => true,
        Some(RecordType::TaskYield) => {
            let call = record.str("call").unwrap_or_default();
            // A call that this version does not know is taken for one.
            CallKind::parse(&call).is_none_or(CallKind::is_outward)
        }
        _ => false,
    }
}

/// What a record says, without its moment and its task.
pub(super) fn describe(record: &Record<'_>) -> String {
    let text = |field: &str| record.str(field).unwrap_or(Cow::Borrowed(""));
    let of = || record.uint("of").map_or_else(String::new, |of| format!(" of record {of}"));
    let set = || if ChangedAnswer::of(record).is_some() { ", changed in the fork" } else { "" };
    let text_of = |field: &str| record.get(field).unwrap_or_default();
    match record.record_type() {
        Some(RecordType::RunStart) => format!("the start of `{}`", text("function")),
        Some(RecordType::TaskSpawn) => match record.str("name") {
            Some(name) => format!("spawn of `{name}`"),
            None => "spawn".into(),
        },
        Some(RecordType::TaskYield) => {
            let call = text("call");
            let word = call_word(&call);
            let name = record.str("name").or_else(|| record.str("key"));
            match (name, record.uint("task")) {
                (Some(name), _) => format!("{word} `{name}`"),
                (None, Some(task)) => format!("{word} for task {task}"),
                (None, None) => word.to_owned(),
            }
        }
        Some(RecordType::TaskWake) => match record.str("why") {
            Some(why) => format!("woken: {why}"),
            None => format!("the end{}", of()),
        },
        Some(RecordType::EffectStart) => {
            format!("attempt {}{}", record.uint("attempt").unwrap_or(1), of())
        }
        Some(RecordType::EffectResult) if record.get("retry_at").is_some() => {
            format!("attempt {} failed{}", record.uint("attempt").unwrap_or(1), of())
        }
        Some(RecordType::EffectResult) => format!("the result{}{}", of(), set()),
        Some(RecordType::ApprovalDecided) => format!("the answer{}{}", of(), set()),
        Some(RecordType::ApprovalWithdrawn) => format!("the question{} withdrawn", of()),
        Some(RecordType::PromiseSettled) => {
            format!("promise {} settled{}", text("promise"), set())
        }
        Some(RecordType::Message) => format!("message `{}`{}", text("name"), set()),
        Some(RecordType::Forked) => format!("the fork begins, after record {}", text_of("at")),
        Some(RecordType::EffectRefused) => {
            format!("step `{}` refused: the fork may not do it", text("name"))
        }
        Some(RecordType::EffectAllowed) => "more steps allowed in the fork".into(),
        Some(RecordType::RunHeld) => format!("held {}", text("why")),
        Some(RecordType::RunReleased) => format!("released by {}", text("by")),
        Some(RecordType::TaskExit) => "returned".into(),
        Some(RecordType::TaskAbort) => "failed".into(),
        Some(RecordType::TaskCancel) => "cancelled".into(),
        _ => record.kind.to_owned(),
    }
}

/// An answer that was given to a fork in place of its parent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedAnswer {
    /// When it was changed; unknown in logs of earlier versions.
    pub when: Option<String>,
    /// Who changed it, if that is known.
    pub by: Option<String>,
}

impl ChangedAnswer {
    /// The change that this record has; `None` if its answer is the one that the run was given.
    pub fn of(record: &Record<'_>) -> Option<ChangedAnswer> {
        record.get("set")?;
        let text = |field: &str| record.str(field).map(Cow::into_owned);
        Some(ChangedAnswer { when: text("set_ts"), by: text("set_by") })
    }
}

impl fmt::Display for ChangedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("changed in the fork")?;
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        match &self.when {
            Some(when) => write!(f, " at {}", to_the_second(when)),
            None => Ok(()),
        }
    }
}

/// A field with its blob read, if it is in one, and unwrapped. Bytes stay as the log has them.
pub(super) fn resolve(view: &View, json: &str) -> Result<Value, LogError> {
    match Payload::parse(json) {
        Some(Payload::Blob { hash, form, .. }) => {
            let bytes = view.blob(hash)?;
            Ok(match form {
                BlobForm::Json => plain(json_value(&String::from_utf8_lossy(&bytes))),
                // As one names it who has its bytes.
                _ => serde_json::json!({ "$bytes_of": hash.to_string(), "len": bytes.len() }),
            })
        }
        _ => Ok(plain(json_value(json))),
    }
}

/// The JSON of a log as a value; text where it is no JSON.
pub fn json_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// A value without what it was wrapped in: because its first name begins with `$`, and because it came from outside the program.
pub(super) fn plain(mut value: Value) -> Value {
    for mark in ["$json", "$plain"] {
        value = match value {
            Value::Object(mut object) if object.len() == 1 && object.contains_key(mark) => {
                object.remove(mark).unwrap_or(Value::Null)
            }
            value => value,
        };
    }
    value
}

/// Whether something failed there.
pub fn has_failed(record: &Record<'_>) -> bool {
    match record.record_type() {
        Some(RecordType::TaskAbort) => true,
        Some(RecordType::TaskCancel) => false,
        _ => record.get("error").is_some(),
    }
}
