//! Effects and their attempts, with their times and results.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::EffectEnd;
use crate::record::{EffectResult, EffectStart, Record, TaskYield};
use crate::record::{Json, owned};
use crate::run_index::index::Index;
use crate::run_index::lines::{Going, Lines, Moved};
use crate::run_index::task_list::ErrorStanding;
use crate::words::{ChangedAnswer, json_value};
use tiffany_log::{Fields, LogLine};

/// The state of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Queued,
    Running,
    Retrying,
    Refused,
    Completed,
    Failed,
    /// The task ended before the effect had a result.
    Left,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Retrying => "retrying",
            State::Refused => "refused",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Left => "left",
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum End {
    Open,
    Ok,
    Failed,
    TimedOut,
    InDoubt,
    Left,
}

impl End {
    fn word(self) -> Option<&'static str> {
        Some(match self {
            End::Open => return None,
            End::Ok => "ok",
            End::Failed => "failed",
            End::TimedOut => "timed_out",
            End::InDoubt => "in_doubt",
            End::Left => "left",
        })
    }

    fn of(error: Option<&str>) -> End {
        let Some(error) = error else { return End::Ok };
        let mut fields = Fields { rest: error.strip_prefix('{').unwrap_or("") };
        match fields.find(|(name, _)| *name == "kind").map(|(_, kind)| kind) {
            Some("\"TimedOut\"") => End::TimedOut,
            Some("\"InDoubt\"") => End::InDoubt,
            _ => End::Failed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tried {
    begin: u64,
    end: u64,
    number: u32,
    /// The record of its result.
    result: u32,
    outcome: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Effect {
    at: u64,
    record: u32,
    tid: u32,
    /// The indices of its name and kind in `words`.
    name: u32,
    kind: u32,
    /// The record of its result; 0 if there is none.
    result: u32,
    state: State,
    /// Whether its result was changed in a fork.
    is_changed: bool,
    tried: Vec<Tried>,
}

/// All effects of a generation, in the order of their calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    all: Vec<Effect>,
    tried: usize,
    words: Vec<String>,
    places: BTreeMap<String, u32>,
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Effects {
    pub(crate) fn memory(&self) -> usize {
        let words: usize = self.words.iter().map(|word| 2 * word.len() + 64).sum();
        // Each list of attempts is a memory allocation of its own.
        self.all.capacity() * size_of::<Effect>()
            + self.tried * size_of::<Tried>()
            + self.all.len() * 16
            + words
    }

    fn word(&mut self, word: String) -> u32 {
        if let Some(place) = self.places.get(&word) {
            return *place;
        }
        let place = small(self.words.len() as u64);
        self.words.push(word.clone());
        self.places.insert(word, place);
        place
    }

    fn of(&mut self, record: u64) -> Option<&mut Effect> {
        let place = self.all.binary_search_by_key(&small(record), |effect| effect.record).ok()?;
        self.all.get_mut(place)
    }

    pub(crate) fn add(&mut self, line: &LogLine<'_>, record: &Record<'_>, at: u64) {
        match record {
            Record::TaskYield(call) => self.called(line, call, at),
            Record::EffectStart(start) => self.begun(start, at),
            Record::EffectResult(result) => {
                self.ended(line.seq, result, record.change().is_some(), at);
            }
            Record::EffectRefused(refused) => {
                if let Some(effect) = self.of(refused.of.unwrap_or(0)) {
                    effect.state = State::Refused;
                }
            }
            Record::EffectAllowed(allowed) => {
                let allowed = allowed.names();
                let refused = self.all.iter_mut().filter(|effect| effect.state == State::Refused);
                for effect in refused {
                    let name = &self.words[effect.name as usize];
                    if allowed.iter().any(|allowed| allowed == "*" || allowed == name) {
                        effect.state = State::Queued;
                    }
                }
            }
            _ => {}
        }
    }

    fn called(&mut self, line: &LogLine<'_>, call: &TaskYield<'_>, at: u64) {
        let is_effect = call.call.is_some_and(|tag| tag == *"effect");
        if !is_effect || call.error.is_some() {
            return;
        }
        let about = call.about.map_or("", |Json(about)| about.strip_prefix('{').unwrap_or(""));
        let kind = Fields { rest: about }.find(|(name, _)| *name == "kind");
        let kind = kind.map_or("idempotent", |(_, kind)| kind.trim_matches('"')).to_owned();
        let (name, kind) = (self.word(owned(call.name)), self.word(kind));
        self.all.push(Effect {
            at,
            record: small(line.seq),
            tid: small(line.tid.0),
            name,
            kind,
            result: 0,
            state: State::Queued,
            is_changed: false,
            tried: Vec::new(),
        });
    }

    fn begun(&mut self, start: &EffectStart, at: u64) {
        let Some(effect) = self.of(start.of.unwrap_or(0)) else { return };
        let number = start.attempt.unwrap_or(effect.tried.len() as u64 + 1);
        effect.state = State::Running;
        // An attempt that was interrupted by the end of its process has no result.
        if let Some(last) = effect.tried.last_mut().filter(|last| last.outcome == End::Open) {
            (last.outcome, last.end) = (End::Left, at);
        }
        effect.tried.reserve_exact(1);
        let (number, outcome) = (small(number), End::Open);
        effect.tried.push(Tried { begin: at, end: 0, number, result: 0, outcome });
        self.tried += 1;
    }

    fn ended(&mut self, seq: u64, result: &EffectResult<'_>, is_changed: bool, at: u64) {
        let Some(effect) = self.of(result.of.unwrap_or(0)) else { return };
        let end = result.end();
        let outcome = match end {
            EffectEnd::Again => End::Left,
            _ => End::of(result.error.map(|error| error.json())),
        };
        if let Some(last) = effect.tried.last_mut().filter(|last| last.outcome == End::Open) {
            (last.outcome, last.end, last.result) = (outcome, at, small(seq));
        }
        effect.state = match (end, outcome) {
            (EffectEnd::Over(_), End::Ok) => State::Completed,
            (EffectEnd::Over(_), _) => State::Failed,
            (EffectEnd::Again, _) => State::Queued,
            (EffectEnd::Retry(_), _) => State::Retrying,
        };
        if let EffectEnd::Over(_) = end {
            effect.result = small(seq);
            effect.is_changed = is_changed;
        }
    }

    /// Handles the end of a task: its effects without a result are left.
    pub(crate) fn left<'a>(&mut self, records: impl Iterator<Item = &'a u64>, at: u64) {
        for record in records {
            let Some(effect) = self.of(*record).filter(|effect| effect.result == 0) else {
                continue;
            };
            effect.state = State::Left;
            if let Some(last) = effect.tried.last_mut().filter(|last| last.outcome == End::Open) {
                (last.outcome, last.end) = (End::Left, at);
            }
        }
    }

    pub(crate) fn page(
        &self,
        query: &EffectQuery,
        index: &Index,
        lines: &Lines<'_>,
    ) -> Result<EffectPage, Moved> {
        let fits = |effect: &&Effect| {
            query.task.is_none_or(|task| small(task) == effect.tid)
                && query.name.as_ref().is_none_or(|name| *name == self.words[effect.name as usize])
                && query.state.as_ref().is_none_or(|state| state == effect.state.word())
        };
        let before = query.before.map_or(u32::MAX, small);
        let before = self.all.partition_point(|effect| effect.record < before);
        let matched = self.all.iter().filter(fits).count() as u64;
        let limit = query.limit.max(1);
        let mut wanted: Vec<&Effect> =
            self.all[..before].iter().rev().filter(fits).take(limit + 1).collect();
        // The next page begins before the last effect of this one.
        let has_more = wanted.len() > limit;
        wanted.truncate(limit);
        let next = wanted.last().filter(|_| has_more).map(|last| last.record.into());
        let mut effects = Vec::with_capacity(wanted.len());
        for effect in wanted {
            effects.push(self.shown(effect, index, lines)?);
        }
        Ok(EffectPage {
            total: self.all.len() as u64,
            matched,
            effects,
            next,
            by_name: self.by_name(),
        })
    }

    fn shown(
        &self,
        effect: &Effect,
        index: &Index,
        lines: &Lines<'_>,
    ) -> Result<EffectSeen, Moved> {
        let mut attempts = Vec::with_capacity(effect.tried.len());
        for tried in &effect.tried {
            let has_failed = !matches!(tried.outcome, End::Open | End::Ok | End::Left);
            let mut error = None;
            if has_failed && tried.result > 0 {
                let seq = tried.result.into();
                lines.each(index, seq, seq, |line| {
                    let found = Record::read(line);
                    error = found.error().map(|error| ErrorStanding::of(json_value(error), lines));
                    Going::Enough
                })?;
            }
            attempts.push(Attempt {
                attempt: tried.number.into(),
                begin: tried.begin,
                end: (tried.outcome != End::Open).then_some(tried.end),
                outcome: tried.outcome.word(),
                error,
            });
        }
        let mut changed = None;
        if effect.is_changed {
            let seq = effect.result.into();
            lines.each(index, seq, seq, |line| {
                changed = ChangedAnswer::of(&Record::read(line));
                Going::Enough
            })?;
        }
        Ok(EffectSeen {
            record: effect.record.into(),
            tid: effect.tid.into(),
            name: self.words[effect.name as usize].clone(),
            kind: self.words[effect.kind as usize].clone(),
            state: effect.state.word(),
            at: effect.at,
            attempts,
            result_record: (effect.result > 0).then_some(effect.result.into()),
            changed,
        })
    }

    fn by_name(&self) -> Vec<EffectsOfName> {
        let mut by_name: BTreeMap<u32, (EffectsOfName, u64)> = BTreeMap::new();
        for effect in &self.all {
            let (sum, micros) = by_name.entry(effect.name).or_default();
            sum.count += 1;
            sum.attempts += effect.tried.len() as u64;
            sum.failed += u64::from(effect.state == State::Failed);
            *micros += effect
                .tried
                .iter()
                .filter(|tried| tried.outcome != End::Open)
                .map(|tried| tried.end.saturating_sub(tried.begin))
                .sum::<u64>();
        }
        let sums = by_name.into_iter().map(|(name, (sum, micros))| EffectsOfName {
            name: self.words[name as usize].clone(),
            seconds: micros as f64 / 1e6,
            ..sum
        });
        let mut sums: Vec<EffectsOfName> = sums.collect();
        sums.sort_by(|a, b| a.name.cmp(&b.name));
        sums
    }
}

/// A query for effects. All conditions must be met.
#[derive(Clone, Debug, Default)]
pub struct EffectQuery {
    /// Only effects of this task.
    pub task: Option<u64>,
    /// Only effects with this name.
    pub name: Option<String>,
    /// Only effects in this state: queued, running, retrying, refused, completed, failed or left.
    pub state: Option<String>,
    /// Only effects whose call is before this record.
    pub before: Option<u64>,
    /// The maximum number of effects; 0 means 1.
    pub limit: usize,
}

impl EffectQuery {
    /// The names of the states.
    pub const STATES: &[&str] =
        &["queued", "running", "retrying", "refused", "completed", "failed", "left"];
}

/// A page of effects, the newest first.
#[derive(Clone, Debug, Serialize)]
pub struct EffectPage {
    /// The number of effects in the run.
    pub total: u64,
    /// The number of effects that match the query.
    pub matched: u64,
    /// The effects on this page, the newest first.
    pub effects: Vec<EffectSeen>,
    /// The value of `before` for the next page; `None` if this is the last one.
    pub next: Option<u64>,
    /// Statistics about all effects, by name.
    pub by_name: Vec<EffectsOfName>,
}

/// An effect.
#[derive(Clone, Debug, Serialize)]
pub struct EffectSeen {
    /// The record of the call.
    pub record: u64,
    /// The task that made the call.
    pub tid: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its state; `left` means that its task ended first.
    pub state: &'static str,
    /// When it was called, in microseconds since the first record.
    pub at: u64,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// The record of its result, if it has one.
    pub result_record: Option<u64>,
    /// The change of its result, if it was changed in a fork.
    pub changed: Option<ChangedAnswer>,
}

/// An attempt.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u64,
    /// When it began, in microseconds since the first record.
    pub begin: u64,
    /// When it ended, in microseconds since the first record.
    pub end: Option<u64>,
    /// The outcome: ok, failed, timed_out, in_doubt, or left, if its task or its process ended
    /// first.
    pub outcome: Option<&'static str>,
    /// The error, if it failed.
    pub error: Option<ErrorStanding>,
}

/// Statistics about the effects with one name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EffectsOfName {
    /// The name.
    pub name: String,
    /// The number of effects.
    pub count: u64,
    /// The number of attempts.
    pub attempts: u64,
    /// The number of effects that failed in the end.
    pub failed: u64,
    /// The duration of all finished attempts together, in seconds.
    pub seconds: f64,
}
