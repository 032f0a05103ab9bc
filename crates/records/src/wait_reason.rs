//! A call without an answer: what it is, what it waits for, and in words. It is made from one record and knows no
//! other.

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
    /// What it is about.
    pub about: About,
    /// The line of code.
    pub at: String,
    /// When it was made.
    pub since: String,
    /// The task has done something since: it may have taken this back.
    pub maybe_over: bool,
    /// Where its step stands, if it is one.
    pub step: Option<StepSeen>,
    /// Of what it waits for together, so many are over, from the first on.
    pub passed: usize,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub enum About {
    /// The record names nothing.
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
    /// A question to a person, and until when it waits.
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
    /// The call in words.
    pub fn what(&self) -> String {
        self.words(None)
    }

    /// The call in words, with the time that is left at `now` instead of the end of the wait.
    pub fn what_at(&self, now: Time) -> String {
        self.words(Some(now))
    }

    /// When the wait ends, if that is known.
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

    /// The tasks and promises it waits for.
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

    /// Whether nobody could know what became of it, if its process is gone.
    pub fn would_be_in_doubt(&self) -> bool {
        self.kind == "at_most_once" && self.is_open
    }
}

/// So many of those that are waited for at once are named: there may be any number of them.
const NAMED: usize = 8;

/// A moment to the second, of which whoever shows it elsewhere knows the time zone.
fn clock(ts: &str) -> String {
    format!("{}Z", to_the_second(ts))
}

/// What is left of a time that is over.
const NOTHING: &str = "0.0 s";

/// How long it is until a moment, for people: `3.2 s`, `4m05s`.
fn left(until: &str, now: Time) -> Option<String> {
    let until = Time::from_nanos(Stamp::parse(until)?.unix_nanos());
    let left = until.saturating_since(now);
    Some(match left.as_secs() {
        0..60 => format!("{:.1} s", left.as_secs_f64()),
        seconds => age(seconds),
    })
}

/// A length of time for people, in two units at most: `1m05s`.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Whether the log has a record for the answer to a call with this tag.
pub fn is_answered_in_log(call: &str) -> bool {
    matches!(
        call,
        "effect" | "approve" | "sleep" | "sleep_until" | "create_external_promise" | "continue_as"
    )
}

/// Whether a call with this tag can wait.
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

/// What a call is about.
pub fn about(call: &TaskYield<'_>) -> About {
    if call.call.is_some_and(|tag| tag == *"approve") {
        return About::Question(question(call).0, call.time.map(|time| time.owned()));
    }
    // The order is that of their meaning.
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

/// Tasks and promises that are waited for together.
fn items(json: &str) -> Arc<[Target]> {
    let items: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
    let item = |item: &Value| match (item["task"].as_u64(), item["object"].as_u64()) {
        (Some(tid), _) => Some(Target::Task(tid)),
        (None, Some(id)) => Some(Target::Object(id)),
        _ => None,
    };
    items.iter().filter_map(item).collect()
}

/// The question and the choices of a call that asks a person.
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
    fn a_moment_is_told_to_the_second_and_a_wait_by_how_long_it_goes_on() {
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
