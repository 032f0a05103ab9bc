//! Summaries of runs, and queries for them: filter, order and page. It knows neither files nor the
//! loop.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{AttributeValue, Attributes, ErrorKind, TaskError, Time, Uuid};

use super::uuid_text::{maybe_text, text, texts};
use crate::attributes::AttributeFilter;
use crate::key::run_id;
use crate::outline::Outcome;
use crate::redact;
use tiffany_log::Stamp;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is not finished: it makes progress if a process owns the log.
    Live,
    /// Its outcome is fixed and reported, and its remaining tasks are being cancelled.
    Ending,
    /// It cannot continue with the program that owns the log, or is not allowed to.
    Paused,
    /// A person or a limit holds it, until a person releases it.
    Held,
    /// It is finished, with its value.
    Completed,
    /// It is finished, with an error.
    Failed,
    /// It is finished, because it was cancelled.
    Cancelled,
    /// Its log cannot be read.
    Damaged,
    /// It was removed: only its UUID is known.
    Removed,
}

impl State {
    /// All states, in order.
    pub const ALL: [State; 9] = [
        State::Live,
        State::Ending,
        State::Paused,
        State::Held,
        State::Completed,
        State::Failed,
        State::Cancelled,
        State::Damaged,
        State::Removed,
    ];

    /// Returns its name: `live`, `ending`, `paused`, `held`, `completed`, `failed`, `cancelled`,
    /// `damaged` or `removed`.
    pub fn word(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Ending => "ending",
            State::Paused => "paused",
            State::Held => "held",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Damaged => "damaged",
            State::Removed => "removed",
        }
    }

    /// Returns the state of a run that cannot continue because of this error.
    pub fn stopped_by(error: &TaskError) -> State {
        match error.kind() {
            ErrorKind::RunHeld => State::Held,
            _ => State::Paused,
        }
    }

    /// Returns the state with this name.
    pub fn parse(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns whether a run in this state has tasks that a process drives: it is live or ending.
    pub fn is_driven(self) -> bool {
        matches!(self, State::Live | State::Ending)
    }

    /// Returns whether a run in this state is finished.
    pub fn is_over(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::Cancelled)
    }
}

impl From<Outcome> for State {
    fn from(outcome: Outcome) -> State {
        match outcome {
            Outcome::Completed => State::Completed,
            Outcome::Failed => State::Failed,
            Outcome::Cancelled => State::Cancelled,
        }
    }
}

/// A summary of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Its UUID.
    #[serde(with = "text")]
    pub uuid: Uuid,
    /// The id that it was started with. The id and the function are empty if they cannot be read.
    pub id: String,
    /// Its function.
    pub function: String,
    /// Its state.
    pub state: State,
    /// When it started, in RFC 3339.
    pub started: String,
    /// When it ended, if it is finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The reason why it failed or cannot continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
    /// The number of its unfinished tasks, if it is live.
    #[serde(default)]
    pub tasks: usize,
    /// Descriptions of what they wait for: the first few, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<String>,
    /// The run and record that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its attributes, by name.
    #[serde(
        default,
        with = "crate::attributes::values",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub attributes: BTreeMap<String, AttributeValue>,
    /// When it fails if it has not ended, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
}

impl RunSummary {
    /// Its tags and attributes.
    pub fn all_attributes(&self) -> Attributes {
        Attributes { tags: self.tags.iter().cloned().collect(), values: self.attributes.clone() }
    }
}

/// A summary of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// Its code.
    pub code: String,
    /// Its message, or the beginning of a long one.
    pub message: String,
}

/// The maximum number of characters of a message.
const MAX_MESSAGE_CHARS: usize = 300;

impl From<&TaskError> for ErrorSummary {
    fn from(error: &TaskError) -> ErrorSummary {
        // Secrets are redacted before the text is cut, because no rule would match the beginning of
        // one.
        let whole = redact::clean(error.message());
        let mut message: String = whole.chars().take(MAX_MESSAGE_CHARS).collect();
        if message.len() < whole.len() {
            message.push('…');
        }
        ErrorSummary { code: error.code().into(), message }
    }
}

/// The run and record that a fork was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// The record up to which the two runs are the same.
    pub at: u64,
}

/// A run with its tasks and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunDetail {
    /// The summary of the run.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Its tasks whose results are kept, if it is live.
    #[serde(default, rename = "task_list")]
    pub tasks: Vec<TaskSummary>,
    /// External promises that are not settled yet, if it is live.
    #[serde(default, with = "texts")]
    pub promises: Vec<Uuid>,
    /// Its value, if it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<RawValue>>,
    /// Its value or its whole error as the log has them, from which a program makes objects of its own again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Result<Box<RawValue>, TaskError>>,
}

/// A summary of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// Its number.
    pub tid: u64,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its state.
    pub state: String,
    /// A description of what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The source line of the call in which it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A query for runs: filter, order and page size.
///
/// ```
/// use tiffany_records::request::{RunQuery, SortBy, State};
///
/// let failed = RunQuery { states: vec![State::Failed], limit: 20, ..RunQuery::default() };
/// assert_eq!(failed.sort, SortBy::Started);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunQuery {
    /// Only these states; an empty list stands for all but removed.
    pub states: Vec<State>,
    /// Only runs of this function.
    pub function: Option<String>,
    /// Only runs with this text in their id, function or UUID, in upper or lower case.
    pub text: Option<String>,
    /// Only runs that started at this moment or later.
    pub since: Option<Time>,
    /// Only runs that started before this moment.
    pub before: Option<Time>,
    /// Only forks of this run.
    #[serde(with = "maybe_text", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Uuid>,
    /// Only those that have all of these tags.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Only those that fulfil all of these conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeFilter>,
    /// The sort key.
    pub sort: SortBy,
    /// Whether the order is reversed.
    pub descending: bool,
    /// The maximum number of runs, up to [`RunQuery::MAX_LIMIT`].
    pub limit: usize,
    /// Only runs after the previous page: its [`next`](RunPage::next).
    pub after: Option<String>,
}

impl Default for RunQuery {
    fn default() -> RunQuery {
        RunQuery {
            states: Vec::new(),
            function: None,
            text: None,
            since: None,
            before: None,
            parent: None,
            tags: Vec::new(),
            attributes: Vec::new(),
            sort: SortBy::Started,
            descending: true,
            limit: 100,
            after: None,
        }
    }
}

/// The sort key of runs. Runs with equal keys are sorted by their UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SortBy {
    /// The start.
    #[default]
    Started,
    /// The end; live runs come after the others.
    Ended,
    /// The id.
    Id,
    /// The function.
    Function,
}

impl SortBy {
    /// All sort keys, in order.
    pub const ALL: [SortBy; 4] = [SortBy::Started, SortBy::Ended, SortBy::Id, SortBy::Function];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            SortBy::Started => "started",
            SortBy::Ended => "ended",
            SortBy::Id => "id",
            SortBy::Function => "function",
        }
    }
}

/// A page of runs, and the cursor for the next one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// The number of all runs that match the query.
    pub total: u64,
    /// The cursor to pass as [`after`](RunQuery::after) for the next page; `None` if this was the
    /// last one. Runs that are added or removed between pages don't affect the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run as a query sees it, with a value that belongs to the caller.
#[derive(Clone, Debug)]
pub struct Row<'a, T> {
    /// The run.
    pub uuid: Uuid,
    /// The id it was started with.
    pub id: &'a str,
    /// The function.
    pub function: &'a str,
    /// Its state.
    pub state: State,
    /// When it started.
    pub started: Time,
    /// When it ended, if it is finished.
    pub ended: Option<Time>,
    /// The run that it was forked from, if it is a fork.
    pub parent: Option<Uuid>,
    /// Its tags and attributes, if it has some.
    pub attributes: Option<&'a Attributes>,
    /// The caller's value.
    pub what: T,
}

/// A value of the sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Time(Time),
    Text(std::borrow::Cow<'a, str>),
}

/// A query that was checked and parsed.
pub struct Looked<'a> {
    query: &'a RunQuery,
    states: BTreeSet<State>,
    text: Option<String>,
    after: Option<(Key<'static>, Uuid)>,
}

impl RunQuery {
    /// The maximum number of runs in a page.
    pub const MAX_LIMIT: usize = 10_000;

    /// Parses the states, text and cursor of the query. Fails if they are invalid.
    pub fn look(&self) -> Result<Looked<'_>, TaskError> {
        let states = match self.states.is_empty() {
            true => State::ALL.into_iter().filter(|state| *state != State::Removed).collect(),
            false => self.states.iter().copied().collect(),
        };
        let after = self.after.as_deref().map(|cursor| self.parse(cursor)).transpose()?;
        let text = self.text.as_ref().map(|text| text.to_lowercase());
        Ok(Looked { query: self, states, text, after })
    }

    /// Returns whether the query selects runs in this state.
    pub fn wants(&self, state: State) -> bool {
        match self.states.is_empty() {
            true => state != State::Removed,
            false => self.states.contains(&state),
        }
    }

    fn letter(&self) -> char {
        match self.sort {
            SortBy::Started => 's',
            SortBy::Ended => 'e',
            SortBy::Id => 'i',
            SortBy::Function => 'f',
        }
    }

    fn parse(&self, cursor: &str) -> Result<(Key<'static>, Uuid), TaskError> {
        let bad = || {
            let message = "this is not a place to continue from in a list in this order; give the `next` of an earlier page";
            TaskError::new(ErrorKind::BadArgument, message)
        };
        let rest = cursor.strip_prefix(self.letter()).ok_or_else(bad)?;
        let (key, uuid) = rest.rsplit_once('.').ok_or_else(bad)?;
        let uuid = (uuid.len() == 32).then(|| u128::from_str_radix(uuid, 16).ok()).flatten();
        let uuid = Uuid(uuid.ok_or_else(bad)?);
        let key = match self.sort {
            SortBy::Started | SortBy::Ended => {
                Key::Time(Time::from_nanos(u64::from_str_radix(key, 16).map_err(|_| bad())?))
            }
            SortBy::Id | SortBy::Function => Key::Text(from_hex(key).ok_or_else(bad)?.into()),
        };
        Ok((key, uuid))
    }
}

fn from_hex(text: &str) -> Option<String> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_even = digits.len().is_multiple_of(2);
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    String::from_utf8(bytes.filter(|_| is_even)?).ok()
}

impl Looked<'_> {
    fn is_wanted<T>(&self, row: &Row<'_, T>) -> bool {
        let RunQuery { function, since, before, parent, tags, attributes, .. } = self.query;
        let has_tag = |tag: &String| row.attributes.is_some_and(|of| of.tags.contains(tag));
        let has = |text: &String| {
            let within = |other: &str| other.to_lowercase().contains(text);
            within(row.id) || within(row.function) || row.uuid.to_string().contains(text)
        };
        self.states.contains(&row.state)
            && function.as_ref().is_none_or(|function| function == row.function)
            && since.is_none_or(|since| row.started >= since)
            && before.is_none_or(|before| row.started < before)
            && parent.is_none_or(|parent| row.parent == Some(parent))
            && self.text.as_ref().is_none_or(has)
            && tags.iter().all(has_tag)
            && attributes.iter().all(|filter| filter.fits(row.attributes))
    }

    fn key<'r, T>(&self, row: &Row<'r, T>) -> Key<'r> {
        match self.query.sort {
            SortBy::Started => Key::Time(row.started),
            SortBy::Ended => Key::Time(row.ended.unwrap_or(Time::from_nanos(u64::MAX))),
            SortBy::Id => Key::Text(row.id.into()),
            SortBy::Function => Key::Text(row.function.into()),
        }
    }

    fn compare(&self, a: (&Key<'_>, Uuid), b: (&Key<'_>, Uuid)) -> Ordering {
        let order = a.cmp(&b);
        if self.query.descending { order.reverse() } else { order }
    }

    /// Returns all rows that match the query, in order.
    pub fn all<'r, T>(&self, rows: impl Iterator<Item = Row<'r, T>>) -> Vec<Row<'r, T>> {
        let mut wanted: Vec<Row<'r, T>> = rows.filter(|row| self.is_wanted(row)).collect();
        wanted.sort_by(|a, b| self.compare((&self.key(a), a.uuid), (&self.key(b), b.uuid)));
        wanted
    }

    /// Returns the first rows after the cursor, in order, up to one more than the page size; and
    /// the number of all matching rows.
    pub fn pick<'r, T>(&self, rows: impl Iterator<Item = Row<'r, T>>) -> (Vec<Row<'r, T>>, u64) {
        let mut total = 0;
        let mut picked: Vec<(Key<'r>, Row<'r, T>)> = Vec::new();
        for row in rows.filter(|row| self.is_wanted(row)) {
            total += 1;
            let key = self.key(&row);
            let is_after = self.after.as_ref().is_none_or(|(after, uuid)| {
                self.compare((&key, row.uuid), (after, *uuid)) == Ordering::Greater
            });
            if is_after {
                picked.push((key, row));
            }
        }
        let by_order = |a: &(Key<'r>, Row<'r, T>), b: &(Key<'r>, Row<'r, T>)| {
            self.compare((&a.0, a.1.uuid), (&b.0, b.1.uuid))
        };
        let most = self.limit() + 1;
        if picked.len() > most {
            picked.select_nth_unstable_by(most - 1, by_order);
            picked.truncate(most);
        }
        picked.sort_unstable_by(by_order);
        (picked.into_iter().map(|(_, row)| row).collect(), total)
    }

    /// Returns the maximum number of runs in a page.
    pub fn limit(&self) -> usize {
        self.query.limit.clamp(1, RunQuery::MAX_LIMIT)
    }

    /// Returns the cursor for the page after this row.
    pub fn cursor<T>(&self, row: &Row<'_, T>) -> String {
        let letter = self.query.letter();
        let key = match self.key(row) {
            Key::Time(time) => format!("{:x}", time.as_nanos()),
            Key::Text(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        };
        format!("{letter}{key}.{:032x}", row.uuid.0)
    }
}

/// The minimum number of digits of a UUID that name a run, so that a single letter does not name
/// one by chance.
pub const SHORTEST: usize = 4;

/// Finds the run with this UUID, id, or beginning of a UUID.
pub fn find_named<I: Iterator<Item = Uuid>>(
    name: &str,
    known: impl Fn(&Uuid) -> bool,
    between: impl FnOnce(Uuid, Uuid) -> I,
) -> Result<Uuid, TaskError> {
    let exact = [Uuid::parse(name), Some(run_id(name))];
    if let Some(run) = exact.into_iter().flatten().find(known) {
        return Ok(run);
    }
    let none = || {
        let name: String = name.chars().take(100).collect();
        TaskError::new(ErrorKind::NoSuchRun, format!("there is no run `{name}`"))
    };
    let digits: String = name.chars().filter(|c| *c != '-').collect();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || !(SHORTEST..=32).contains(&digits.len()) {
        return Err(none());
    }
    let number = |filler: &str| {
        let text = format!("{digits}{}", filler.repeat(32 - digits.len()));
        u128::from_str_radix(&text, 16).map(Uuid).map_err(|_| none())
    };
    let mut fitting = between(number("0")?, number("f")?);
    match (fitting.next(), fitting.next()) {
        (None, _) => Err(none()),
        (Some(run), None) => Ok(run),
        (Some(a), Some(b)) => {
            let message = format!(
                "`{digits}` is the beginning of several runs, {a} and {b} among them; give more of the UUID"
            );
            Err(TaskError::new(ErrorKind::BadArgument, message))
        }
    }
}

/// Formats a time for the API.
pub fn moment(time: Time) -> String {
    Stamp::from_unix_nanos(time.as_nanos()).as_str().to_owned()
}

/// Parses a time in RFC 3339 and UTC, of which the end may be left out: `2026-11-05`,
/// `2026-11-05T09:41Z`.
///
/// ```
/// use tiffany_records::request::parse_moment;
///
/// assert_eq!(parse_moment("2026-11-05"), parse_moment("2026-11-05T00:00:00.000000000Z"));
/// assert!(parse_moment("2026-11-05T09:41Z") < parse_moment("2026-11-05T09:41:00.5Z"));
/// assert_eq!(parse_moment("yesterday"), None);
/// ```
pub fn parse_moment(text: &str) -> Option<Time> {
    const WHOLE: &str = "0000-00-00T00:00:00.000000000Z";
    let text = text.strip_suffix('Z').unwrap_or(text);
    if !text.is_ascii() || text.len() < 10 || text.len() >= WHOLE.len() {
        return None;
    }
    let stamp = Stamp::parse(&format!("{text}{}", &WHOLE[text.len()..]))?;
    Some(Time::from_nanos(stamp.unix_nanos()))
}
