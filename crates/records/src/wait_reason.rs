//! A call without an answer: its kind, what it waits for, and a description. It is made from a
//! single record.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use tiffany_kernel::{CallKind, Time};

use crate::call_words::call_word;
use crate::record::TaskYield;
use crate::record::{Inline, Json};
use crate::words::json_value;
use tiffany_log::{Stamp, to_the_second};

/// Something that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A task.
    Task(u64),
    /// A channel, a lock or a promise.
    Object(u64),
}

/// A call without an answer.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The tag of the call.
    pub call: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What the call refers to.
    pub about: About,
    /// The source line.
    pub at: String,
    /// When it was made.
    pub since: String,
    /// Whether the task has been active since, and so may not wait for the answer any longer.
    pub maybe_over: bool,
    /// The state of the step, if it is one.
    pub step: Option<StepSeen>,
    /// The number of finished targets at the beginning of the list of what it waits for.
    pub passed: usize,
}

/// What a call refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// The record doesn't name anything.
    Nothing,
    /// A task.
    Task(u64),
    /// A channel, a lock or a promise.
    Object(u64),
    /// A promise: its number and its UUID.
    Promise(u64, String),
    /// Several things at once.
    Items(Arc<[Target]>),
    /// A moment.
    Until(String),
    /// A key of the store, or the name of a message.
    Key(String),
    /// Something with a UUID, such as another run.
    Uuid(String),
    /// A question to a person, and when it times out.
    Question(String, Option<String>),
    /// The run that a message is sent to.
    Receiver(String),
}

/// The state of a step.
#[derive(Clone, Debug)]
pub struct StepSeen {
    /// The kind of the step.
    pub kind: String,
    /// The number of the last attempt.
    pub attempt: u64,
    /// Whether that attempt has no result.
    pub is_open: bool,
    /// When the next attempt is due.
    pub retry_at: Option<String>,
    /// Whether the run is a fork that is not allowed to do the step.
    pub is_refused: bool,
}

impl Waiting {
    /// Describes the call.
    pub fn what(&self) -> String {
        self.words(None)
    }

    /// Describes the call, with the remaining time at `now` instead of the end of the wait.
    pub fn what_at(&self, now: Time) -> String {
        self.words(Some(now))
    }

    /// Returns when the wait ends, if that is known.
    pub fn until(&self) -> Option<&str> {
        match (&self.about, &self.step) {
            (About::Until(time) | About::Question(_, Some(time)), _) => Some(time),
            (_, Some(step)) => step.retry_at.as_deref(),
            _ => None,
        }
    }

    fn words(&self, now: Option<Time>) -> String {
        let left = |time: &str| now.and_then(|now| left(time, now));
        let call = match &self.name {
            Some(name) => format!("{} `{name}`", self.word()),
            None => self.word().to_owned(),
        };
        let about = match &self.about {
            About::Nothing => String::new(),
            About::Task(tid) => format!(" for task {tid}"),
            About::Object(id) => format!(" for object {id}"),
            About::Promise(_, uuid) => format!(" for promise {uuid}"),
            About::Items(items) => {
                let item = |item: &Target| match item {
                    Target::Task(tid) => format!("task {tid}"),
                    Target::Object(id) => format!("object {id}"),
                };
                let left = &items[self.passed.min(items.len())..];
                let named = left.iter().take(NAMED).map(item).collect::<Vec<_>>().join(", ");
                match left.len().saturating_sub(NAMED) {
                    0 if items.is_empty() => " of many".into(),
                    0 => format!(" of {named}"),
                    more => format!(" of {named} and {more} more"),
                }
            }
            About::Until(time) => match left(time) {
                Some(left) if self.call.starts_with("sleep") => {
                    return match left.as_str() {
                        NOTHING => "sleep is over".into(),
                        left => format!("sleeps {left} more"),
                    };
                }
                Some(left) => format!(", {left} more"),
                None => format!(" until {}", clock(time)),
            },
            About::Key(key) => format!(" `{key}`"),
            About::Uuid(uuid) => format!(" {uuid}"),
            About::Receiver(run) => {
                return format!(
                    "send to run {run}, not delivered yet: its inbox is full, or it is held"
                );
            }
            About::Question(question, None) => format!(" {question:?}"),
            About::Question(question, Some(until)) => match left(until) {
                Some(left) => format!(" {question:?}, {left} left"),
                None => format!(" {question:?} until {}", clock(until)),
            },
        };
        format!("{call}{about}{}", self.step.as_ref().map(|s| s.what(now)).unwrap_or_default())
    }

    /// Returns the tasks and promises that it waits for.
    pub fn targets(&self) -> Cow<'_, [Target]> {
        match (&self.about, self.call.as_str()) {
            (About::Task(tid), "wait" | "wait_task") => vec![Target::Task(*tid)].into(),
            (About::Object(id) | About::Promise(id, _), "wait") => vec![Target::Object(*id)].into(),
            (About::Items(items), "race" | "gather") => Cow::Borrowed(items),
            _ => Cow::default(),
        }
    }

    fn word(&self) -> &str {
        call_word(&self.call)
    }
}

impl StepSeen {
    fn what(&self, now: Option<Time>) -> String {
        let kind = match self.kind.as_str() {
            "idempotent" => String::new(),
            kind => format!(" ({kind})"),
        };
        if self.is_refused {
            return format!("{kind}, refused");
        }
        match (&self.retry_at, self.attempt) {
            (Some(at), attempt) => {
                let next = match now.and_then(|now| left(at, now)) {
                    Some(left) => format!("in {left}"),
                    None => format!("at {}", clock(at)),
                };
                format!("{kind}, attempt {attempt} failed, the next one {next}")
            }
            (None, 0) => format!("{kind}, in its queue"),
            (None, attempt) => format!("{kind}, attempt {attempt} begun, no result yet"),
        }
    }

    /// Returns whether the outcome of the step would be unknown if its process ended.
    pub fn would_be_in_doubt(&self) -> bool {
        self.kind == "at_most_once" && self.is_open
    }
}

/// The number of targets that are named, because a call can wait for any number of them.
const NAMED: usize = 8;

/// Formats a timestamp to the second, in UTC.
fn clock(ts: &str) -> String {
    format!("{}Z", to_the_second(ts))
}

/// The text for a wait that is due.
const NOTHING: &str = "0.0 s";

/// Formats the time until a moment: `3.2 s`, `4m05s`.
fn left(until: &str, now: Time) -> Option<String> {
    let until = Time::from_nanos(Stamp::parse(until)?.unix_nanos());
    let left = until.saturating_since(now);
    Some(match left.as_secs() {
        0..60 => format!("{:.1} s", left.as_secs_f64()),
        seconds => age(seconds),
    })
}

/// Formats a duration with at most two units: `1m05s`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Returns whether the log has a record for the answer to a call with this tag.
pub fn is_answered_in_log(call: &str) -> bool {
    matches!(
        call,
        "effect" | "approve" | "sleep" | "sleep_until" | "create_external_promise" | "continue_as"
    )
}

/// Returns whether a call with this tag can wait.
pub fn may_wait(call: &str) -> bool {
    use CallKind::*;
    let kind = CallKind::parse(call);
    is_answered_in_log(call)
        || kind.is_none_or(|kind| {
            matches!(
                kind,
                Wait | WaitTask
                    | Gather
                    | Race
                    | Receive
                    | ReceiveMessage
                    | Send
                    | Acquire
                    | JoinGroup
                    | Ask
                    | Custom
            )
        })
}

/// Returns what a call refers to.
pub fn about(call: &TaskYield<'_>) -> About {
    if call.call.is_some_and(|tag| tag == *"approve") {
        return About::Question(question(call).0, call.time.map(|time| time.owned()));
    }
    // Earlier fields take precedence over later ones.
    if let Some(task) = call.task {
        About::Task(task)
    } else if let Some(object) = call.object {
        About::Object(object)
    } else if let Some(Inline(json)) = call.items {
        About::Items(items(json))
    } else if let Some(time) = call.time {
        About::Until(time.owned())
    } else if let Some(key) = call.key {
        About::Key(key.owned())
    } else if let Some(uuid) = call.uuid {
        About::Uuid(uuid.owned())
    } else {
        About::Nothing
    }
}

/// Parses the tasks and promises that a call waits for together.
fn items(json: &str) -> Arc<[Target]> {
    let items: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
    let item = |item: &Value| match (item["task"].as_u64(), item["object"].as_u64()) {
        (Some(tid), _) => Some(Target::Task(tid)),
        (None, Some(id)) => Some(Target::Object(id)),
        _ => None,
    };
    items.iter().filter_map(item).collect()
}

/// Returns the question and the choices of a call that asks a person.
pub fn question(call: &TaskYield<'_>) -> (String, Vec<String>) {
    let about: Value = call.about.map_or(Value::Null, |Json(about)| json_value(about));
    let choices = about["choices"].as_array().into_iter().flatten();
    let choices = choices.filter_map(|choice| choice.as_str().map(str::to_owned)).collect();
    (about["question"].as_str().unwrap_or("?").to_owned(), choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(call: &str, about: About) -> Waiting {
        let (call, at, since) = (call.to_owned(), String::new(), String::new());
        Waiting { call, name: None, about, at, since, maybe_over: false, step: None, passed: 0 }
    }

    #[test]
    fn times_are_shown_to_the_second_and_waits_by_their_remaining_time() {
        const UNTIL: &str = "2026-11-05T09:41:03.250000001Z";
        let now = |text: &str| Time::from_nanos(Stamp::parse(text).unwrap().unix_nanos());
        let sleep = waiting("sleep", About::Until(UNTIL.into()));
        assert_eq!(sleep.what(), "sleep until 2026-11-05 09:41:03Z");
        assert_eq!(sleep.until(), Some(UNTIL));
        for (moment, expected) in [
            ("2026-11-05T09:41:00.000000000Z", "sleeps 3.3 s more"),
            ("2026-11-05T09:39:00.000000000Z", "sleeps 2m03s more"),
            ("2026-11-05T10:00:00.000000000Z", "sleep is over"),
        ] {
            assert_eq!(sleep.what_at(now(moment)), expected);
        }
        let asks = waiting("approve", About::Question("ship?".into(), Some(UNTIL.into())));
        assert_eq!(asks.what(), "approve \"ship?\" until 2026-11-05 09:41:03Z");
        let told = asks.what_at(now("2026-11-05T09:41:00.000000000Z"));
        assert_eq!(told, "approve \"ship?\", 3.3 s left");
    }
}
