//! A record in a few words, and the parts of it that both `diff` and `export` read.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use tiffany_kernel::CallKind;

use crate::call_words::call_word;
use crate::record::Record;
use crate::record::owned;
use tiffany_log::{BlobForm, LogError, Payload, View, to_the_second};

/// Whether a record is a call that concerns the world: those are matched, the others follow from them.
pub(super) fn is_outward(record: &Record<'_>) -> bool {
    match record {
        Record::TaskSpawn(_) => true,
        // A call that this version does not know is taken for one.
        Record::TaskYield(call) => call.kind().is_none_or(CallKind::is_outward),
        _ => false,
    }
}

/// What a record says, without its moment and its task. `kind` is the name of its type.
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
    match record {
        Record::TaskAbort(_) => true,
        Record::TaskCancel(_) => false,
        record => record.error().is_some(),
    }
}
