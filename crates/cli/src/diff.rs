//! `diff`: shows where two runs diverge.

use serde_json::{Value, json};

use super::Done;
use super::args::Diff as Options;
use super::error::{Ending, exit};
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find};
use super::summary::count;
use super::table::cut;
use tiffany_records::{Call, Change, Diff, DiffSettings, Difference, DifferenceKind, Side, diff};

/// The most characters of a value; `--json` prints all of it.
const MAX_VALUE_CHARS: usize = 200;
/// How many characters are shown before the place where two texts diverge.
const CONTEXT: usize = 12;

pub(super) fn diff_runs(place: &Place, mut out: Out, options: &Options) -> Done {
    let names: &[&str] = match &options.other {
        Some(_) => &[&options.a],
        None => &[&options.a, &options.b],
    };
    let sight = place.look_anyhow_for(names)?;
    sight.warn();
    let other = match &options.other {
        Some(dir) => {
            let other = Place::new(dir.clone(), tiffany::Runtime::builder());
            let other = other.look_anyhow_for(&[&options.b])?;
            other.warn();
            Some(other)
        }
        None => None,
    };
    let other = other.as_ref().unwrap_or(&sight);
    let a = (&sight.view, find(&sight.view, &options.a)?);
    let b = (&other.view, find(&other.view, &options.b)?);
    let limit = if options.all { usize::MAX } else { options.limit };
    let diff = diff(a, b, DiffSettings::limit(limit))?;
    match out.json {
        true => print_json(&mut out, &diff)?,
        false => Print { out: &mut out }.all(&diff)?,
    }
    let is_read = diff.a.unread.is_none() && diff.b.unread.is_none();
    out.end(if diff.is_same() && is_read { 0 } else { exit::FAILED })
}

fn print_json(out: &mut Out, diff: &Diff) -> Result<(), Ending> {
    out.json(&json!({ "a": diff.a, "b": diff.b }))?;
    out.json(&json!({ "same_records": diff.same_records, "parting": diff.parting }))?;
    for difference in &diff.differences {
        out.json(&json!({ "difference": difference }))?;
    }
    let told = diff.differences.len() as u64;
    out.json(&json!({ "summary": {
        "same": diff.is_same(),
        "differences": told + diff.more,
        "told": told,
        "tasks": diff.tasks,
        "differing_tasks": diff.differing_tasks,
    } }))
}

struct Print<'a> {
    out: &'a mut Out,
}

impl Print<'_> {
    fn all(&mut self, diff: &Diff) -> Result<(), Ending> {
        self.side("a", &diff.a)?;
        self.side("b", &diff.b)?;
        let Some(parting) = &diff.parting else {
            let text = format!("the same: {}", count(diff.same_records, "record"));
            return self.out.text(Style::Good, &text);
        };
        let same = match diff.same_records {
            0 => "they differ from the first record on".to_owned(),
            1 => "the first record is the same, then they part:".to_owned(),
            many => format!("the first {many} records are the same, then they part:"),
        };
        self.out.text(Style::Plain, &same)?;
        self.call("  ", "a", parting.a.as_ref(), "has no more records")?;
        self.call("  ", "b", parting.b.as_ref(), "has no more records")?;
        self.changes("    ", &parting.changes, parting.more_changes)?;
        let mut before = None;
        for difference in &diff.differences {
            if before.replace(difference.task) != Some(difference.task) {
                self.out.line("")?;
                self.out.text(Style::Head, &task(difference))?;
            }
            self.difference(difference)?;
        }
        self.out.line("")?;
        self.summary(diff)
    }

    fn summary(&mut self, diff: &Diff) -> Result<(), Ending> {
        let told = diff.differences.len() as u64;
        let all = told + diff.more;
        if all == 0 {
            let text = "task by task nothing differs: only the order, or calls that do not concern the world";
            return self.out.text(Style::Good, text);
        }
        let tasks = format!("{} of {}", diff.differing_tasks, count(diff.tasks, "task"));
        self.out.text(Style::Plain, &format!("{} in {tasks}", count(all, "difference")))?;
        match diff.more {
            0 => Ok(()),
            more => self
                .out
                .text(Style::Dim, &format!("{more} of them are not shown; --all shows them")),
        }
    }

    fn side(&mut self, name: &str, side: &Side) -> Result<(), Ending> {
        let state = if side.is_over { "over" } else { "live" };
        let records = count(side.records, "record");
        let Side { run, id, function, .. } = side;
        self.out
            .text(Style::Dim, &format!("{name}  {run}  {id}  {function}  {state}  {records}"))?;
        if side.generation > 1 {
            let text =
                format!("   generation {}: what was before it is not in the log", side.generation);
            self.out.text(Style::Busy, &text)?;
        }
        match &side.unread {
            Some(why) => self.out.text(Style::Bad, &format!("   not all can be read: {why}")),
            None => Ok(()),
        }
    }

    fn difference(&mut self, difference: &Difference) -> Result<(), Ending> {
        use DifferenceKind::*;
        let (a, b) = (difference.a.as_ref(), difference.b.as_ref());
        let number = difference.call.map_or_else(String::new, |call| format!("call {call}: "));
        let only = if a.is_some() { "only in a: " } else { "only in b: " };
        let (head, shows_both) = match difference.kind {
            Input => ("given something else".into(), false),
            Call if a.map(|a| &a.text) != b.map(|b| &b.text) => {
                (format!("{number}another call"), true)
            }
            Call => (format!("{number}{}", text(a)), false),
            Result => (format!("{number}{}, with another result", text(a)), false),
            Attempts => (format!("{number}{}, with other attempts", text(a)), false),
            Only => (format!("{number}{only}{}", text(a.or(b))), false),
            End => ("its end".into(), a.map(|a| &a.kind) != b.map(|b| &b.kind)),
            Message => (format!("{} is another", text(a.or(b))), a.is_none() || b.is_none()),
            #[allow(unreachable_patterns, reason = "kinds may be added")]
            _ => (text(a.or(b)), true),
        };
        let place = a.or(b).and_then(|call| call.at.clone()).filter(|_| !shows_both);
        let place = place.map_or_else(String::new, |at| format!(" at {at}"));
        let records = match (a, b) {
            (Some(a), Some(b)) if !shows_both => {
                format!(" (records {} and {})", a.record, b.record)
            }
            (Some(one), None) | (None, Some(one)) if !shows_both => {
                format!(" (record {})", one.record)
            }
            _ => String::new(),
        };
        self.out.text(Style::Plain, &format!("  {head}{place}{records}"))?;
        if shows_both {
            let lacks = if difference.kind == End { "is not finished" } else { "has none" };
            self.call("    ", "a", a, lacks)?;
            self.call("    ", "b", b, lacks)?;
        }
        self.changes("    ", &difference.changes, difference.more_changes)
    }

    fn call(
        &mut self,
        indent: &str,
        side: &str,
        call: Option<&Call>,
        none: &str,
    ) -> Result<(), Ending> {
        let text = match call {
            Some(call) => {
                let Call { record, task, kind, text, at, .. } = call;
                let at = at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
                format!("{indent}{side}  record {record}, task {task}: {kind}, {text}{at}")
            }
            None => format!("{indent}{side}  {none}"),
        };
        self.out.text(Style::Plain, &text)
    }

    /// Prints changes such as `/items/2/price: 42 → 43`, with the old and the new value in
    /// different colours.
    fn changes(&mut self, indent: &str, changes: &[Change], more: u64) -> Result<(), Ending> {
        for change in changes {
            let path = clean(&change.path).into_owned();
            if error(&change.a).or_else(|| error(&change.b)).is_some() {
                // Error messages are shown in full.
                let (a, b) = shown(change, usize::MAX);
                self.out.whole(Style::Plain, &format!("{indent}{path}: {a} → {b}"), 6)?;
                continue;
            }
            let room = self.out.width.map_or(MAX_VALUE_CHARS, |width| {
                let used = indent.len() + path.chars().count() + 6;
                (width.saturating_sub(used) / 2).max(12)
            });
            let (a, b) = shown(change, room);
            let (a, b) = (cut(&clean(&a), room), cut(&clean(&b), room));
            let colour = self.out.colour;
            let (a, b) = (paint(colour, Style::Bad, &a), paint(colour, Style::Good, &b));
            self.out.line(&format!("{indent}{path}: {a} → {b}"))?;
        }
        match more {
            0 => Ok(()),
            more => self.out.text(Style::Dim, &format!("{indent}and {more} more places")),
        }
    }
}

/// Returns both values; of long texts only the part around the place where they diverge.
fn shown(change: &Change, room: usize) -> (String, String) {
    if let (Some(Value::String(a)), Some(Value::String(b))) = (&change.a, &change.b)
        && a.chars().count().max(b.chars().count()) > room
    {
        let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
        let skip = same.saturating_sub(CONTEXT);
        let rest = |text: &str| {
            let rest: String = text.chars().skip(skip).collect();
            let quoted = Value::from(rest).to_string();
            if skip > 0 { format!("…{}", quoted.trim_start_matches('"')) } else { quoted }
        };
        return (rest(a), rest(b));
    }
    let side = |value: &Option<Value>| match (error(value), value) {
        (Some(error), _) => error.to_owned(),
        (None, Some(value)) => value.to_string(),
        (None, None) => "nothing".into(),
    };
    (side(&change.a), side(&change.b))
}

/// Returns the message of an error in the form of the comparison; `None` for another value.
fn error(value: &Option<Value>) -> Option<&str> {
    let error = value.as_ref()?;
    error.get("kind")?.as_str().filter(|_| error.get("within").is_some())?;
    error.get("message")?.as_str()
}

fn text(call: Option<&Call>) -> String {
    call.map(|call| call.text.clone()).unwrap_or_default()
}

fn task(difference: &Difference) -> String {
    let name = difference.name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
    match (difference.task.a, difference.task.b) {
        (Some(a), Some(b)) if a == b => format!("task {a}{name}"),
        (Some(a), Some(b)) => format!("task {a} in a, {b} in b{name}"),
        (Some(a), None) => format!("task {a}{name}, only in a"),
        (None, Some(b)) => format!("task {b}{name}, only in b"),
        (None, None) => "the run".into(),
    }
}
