//! A run in one line, from the beginning and the end of its file: no more is read, and nothing is checked.

use std::collections::BTreeSet;

use tiffany_kernel::Uuid;

use super::args::State;
use crate::wal::{Fields, LogError, RunEntry, RunState, View};

/// How much is read of each end, at first.
const PIECE: usize = 2048;
/// Beyond this the whole file is read.
const MOST: usize = 1 << 17;

/// What `ls` tells of a run.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) run: Uuid,
    pub(super) entry: RunEntry,
    pub(super) state: State,
    pub(super) id: String,
    pub(super) function: String,
    /// The run it was forked from, and the record there.
    pub(super) fork: Option<(Uuid, u64)>,
    pub(super) started: String,
    pub(super) changed: String,
    /// How many calls it made in earlier generations.
    pub(super) calls_before: u64,
}

impl Summary {
    pub(super) fn read(view: &View, run: Uuid, entry: RunEntry) -> Summary {
        let mut summary = Summary {
            run,
            entry,
            state: State::Removed,
            id: String::new(),
            function: String::new(),
            fork: None,
            started: String::new(),
            changed: String::new(),
            calls_before: 0,
        };
        if entry.state == RunState::Removed {
            return summary;
        }
        let peeked = summary.peek(view);
        if peeked.is_err() || view.refused(run).is_some() {
            summary.state = State::Damaged;
        }
        summary
    }

    fn peek(&mut self, view: &View) -> Result<(), LogError> {
        let mut bytes = PIECE;
        loop {
            let (head, tail) = view.ends(self.run, bytes)?;
            let is_whole = bytes as u64 >= self.entry.len;
            let has_head = self.read_head(&String::from_utf8_lossy(&head));
            let has_tail = self.read_tail(&String::from_utf8_lossy(&tail), is_whole);
            if (has_head && has_tail) || is_whole {
                return Ok(());
            }
            bytes = if bytes >= MOST { usize::MAX } else { bytes * 8 };
        }
    }

    /// Reads the first line, as far as it is there.
    fn read_head(&mut self, head: &str) -> bool {
        let text = |value: &str| serde_json::from_str::<String>(value).ok();
        let mut fields = Fields { rest: head.strip_prefix('{').unwrap_or("") };
        while let Some((name, value)) = fields.next() {
            match name {
                "ts" => self.started = text(value).unwrap_or_default(),
                "id" => self.id = text(value).unwrap_or_default(),
                "function" => {
                    self.function = text(value).unwrap_or_default();
                    // A fork says so next, before what may be long; a later generation knows what was before it.
                    let says_fork = FORK.starts_with(fields.rest) || fields.rest.starts_with(FORK);
                    if self.entry.generation == 1 && !says_fork {
                        return true;
                    }
                }
                "fork" => {
                    self.fork = fork(value);
                    if self.entry.generation == 1 {
                        return true;
                    }
                }
                "continued" => {
                    if let Ok(continued) = serde_json::from_str::<serde_json::Value>(value) {
                        self.calls_before = continued["calls"].as_u64().unwrap_or(0);
                        if let Some(since) = continued["since"].as_str() {
                            self.started = since.to_owned();
                        }
                    }
                    return true;
                }
                "input" => return true,
                _ => {}
            }
        }
        false
    }

    /// Reads the last lines: when something last happened, and how the root ended.
    fn read_tail(&mut self, tail: &str, is_whole: bool) -> bool {
        self.state = State::Live;
        let mut lines: Vec<&str> = tail.lines().collect();
        if !is_whole && !lines.is_empty() {
            lines.remove(0);
        }
        let mut last = true;
        for line in lines.iter().rev() {
            let get = |wanted: &str| {
                let mut fields = Fields { rest: line.strip_prefix('{').unwrap_or("") };
                fields.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"'))
            };
            if std::mem::take(&mut last) {
                self.changed = get("ts").unwrap_or_default().to_owned();
            }
            // The root of a run that goes on may have ended too: others of its tasks are left.
            if self.entry.state == RunState::Live {
                if self.fork.is_some() && is_paused(&lines) {
                    self.state = State::Paused;
                }
                return true;
            }
            let state = match get("type") {
                Some("TaskExit") => State::Completed,
                Some("TaskAbort") => State::Failed,
                Some("TaskCancel") => State::Cancelled,
                _ => continue,
            };
            if get("tid") == Some("1") {
                self.state = state;
                return true;
            }
        }
        false
    }
}

/// How the field begins that says what a run was forked from.
const FORK: &str = ",\"fork\":";

fn fork(json: &str) -> Option<(Uuid, u64)> {
    let fork: serde_json::Value = serde_json::from_str(json).ok()?;
    Some((Uuid::parse(fork["run"].as_str()?)?, fork["at"].as_u64()?))
}

/// Whether the last lines of a fork say that it may not do what it needs.
fn is_paused(lines: &[&str]) -> bool {
    let (mut over, mut allowed) = (BTreeSet::new(), BTreeSet::new());
    for line in lines.iter().rev() {
        let get = |wanted: &str| {
            let mut fields = Fields { rest: line.strip_prefix('{').unwrap_or("") };
            fields.find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        match get("type") {
            Some("\"EffectStart\"" | "\"EffectResult\"" | "\"TaskWake\"") => {
                over.extend(get("of"));
            }
            Some("\"EffectAllowed\"") => {
                let names = get("allow").and_then(|json| serde_json::from_str(json).ok());
                allowed.extend(names.into_iter().flat_map(|names: Vec<String>| names));
            }
            Some("\"EffectRefused\"") => {
                let name = get("name").and_then(|json| serde_json::from_str::<String>(json).ok());
                let is_allowed =
                    allowed.contains("*") || name.is_some_and(|name| allowed.contains(&name));
                if !is_allowed && get("of").is_some_and(|of| !over.contains(of)) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// A moment for people: `2026-11-05 09:41:00`.
pub(super) fn moment(ts: &str) -> String {
    ts.get(..19).unwrap_or(ts).replace('T', " ")
}

/// A length for people.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// A number of things: `1 record`, `4 records`.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
