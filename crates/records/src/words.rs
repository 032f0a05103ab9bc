//! Short descriptions of records, and the parts of records that both `diff` and `export` read.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use tiffany_kernel::CallKind;

use crate::call_words::call_word;
use crate::record::Record;
use crate::record::owned;
use tiffany_log::{BlobForm, LogError, Payload, View, to_the_second};

/// Returns whether a record is a call to the outside world. Only these are compared between runs,
/// because the others follow from them.
pub(super) fn is_outward(record: &Record<'_>) -> bool {
    match record {
        Record::TaskSpawn(_) => true,
        // A call that this version does not know counts as one.
        Record::TaskYield(call) => call.kind().is_none_or(CallKind::is_outward),
        _ => false,
    }
}

/// Describes a record without its time and task. `kind` is the name of its type.
pub(super) fn describe(kind: &str, record: &Record<'_>) -> String {
    let of = record.of().map_or_else(String::new, |of| format!(" of record {of}"));
    let set = if record.change().is_some() { ", changed in the fork" } else { "" };
    match record {
        Record::RunStart(start) => format!("the start of `{}`", owned(start.function)),
        Record::TaskSpawn(spawn) => match spawn.name {
            Some(name) => format!("spawn of `{}`", name.get()),
            None => "spawn".into(),
        },
        Record::TaskYield(call) => {
            let tag = call.tag();
            let word = call_word(&tag);
            match (call.name.or(call.key), call.task) {
                (Some(name), _) => format!("{word} `{}`", name.get()),
                (None, Some(task)) => format!("{word} for task {task}"),
                (None, None) => word.to_owned(),
            }
        }
        Record::TaskWake(wake) => match wake.why {
            Some(why) => format!("woken: {}", why.get()),
            None => format!("the end{of}"),
        },
        Record::EffectStart(start) => format!("attempt {}{of}", start.attempt.unwrap_or(1)),
        Record::EffectResult(result) => match result.retry_at {
            Some(_) => format!("attempt {} failed{of}", result.attempt.unwrap_or(1)),
            None => format!("the result{of}{set}"),
        },
        Record::ApprovalDecided(_) => format!("the answer{of}{set}"),
        Record::ApprovalWithdrawn(_) => format!("the question{of} withdrawn"),
        Record::PromiseSettled(it) => format!("promise {} settled{set}", owned(it.promise)),
        Record::Message(message) => format!("message `{}`{set}", owned(message.name)),
        Record::Forked(forked) => {
            let at = forked.at.map_or_else(String::new, |at| at.to_string());
            format!("the fork begins, after record {at}")
        }
        Record::EffectRefused(refused) => {
            format!("step `{}` refused: the fork may not do it", owned(refused.name))
        }
        Record::EffectAllowed(_) => "more steps allowed in the fork".into(),
        Record::RunHeld(held) => format!("held {}", owned(held.why)),
        Record::RunReleased(released) => format!("released by {}", owned(released.by)),
        Record::Attributes(_) => "tags and attributes".into(),
        Record::TaskExit(_) => "returned".into(),
        Record::TaskAbort(_) => "failed".into(),
        Record::TaskCancel(_) => "cancelled".into(),
        record => match record.annotation() {
            Some(annotated) => {
                let of = annotated.of.map_or_else(String::new, |of| format!(" of record {of}"));
                format!("note: {kind}{of}")
            }
            None => kind.to_owned(),
        },
    }
}

/// An answer that replaced the parent's in a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedAnswer {
    /// When it was changed; `None` in logs of earlier versions.
    pub when: Option<String>,
    /// The person who changed it, if known.
    pub by: Option<String>,
}

impl ChangedAnswer {
    /// Returns the change in this record; `None` if the answer is the original one.
    pub fn of(record: &Record<'_>) -> Option<ChangedAnswer> {
        let (when, by) = record.change()?;
        Some(ChangedAnswer { when: when.map(|text| text.owned()), by: by.map(|text| text.owned()) })
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

/// Returns the value of a field, unwrapped, and read from its blob if it is in one. Bytes stay
/// encoded as in the log.
pub(super) fn resolve(view: &View, json: &str) -> Result<Value, LogError> {
    match Payload::parse(json) {
        Some(Payload::Blob { hash, form, .. }) => {
            let bytes = view.blob(hash)?;
            Ok(match form {
                BlobForm::Json => plain(json_value(&String::from_utf8_lossy(&bytes))),
                // Bytes are represented by their hash and length.
                _ => serde_json::json!({ "$bytes_of": hash.to_string(), "len": bytes.len() }),
            })
        }
        _ => Ok(plain(json_value(json))),
    }
}

/// Parses JSON of a log; text that is not JSON becomes a string.
pub fn json_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Unwraps a value that was wrapped because its first name begins with `$`, or because it came from
/// outside the program.
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

/// Returns whether the record reports a failure.
pub fn has_failed(record: &Record<'_>) -> bool {
    match record {
        Record::TaskAbort(_) => true,
        Record::TaskCancel(_) => false,
        record => record.error().is_some(),
    }
}
