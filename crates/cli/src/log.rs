//! `log`: prints the records of a run in order, and new ones as they are written.

use std::time::{Duration, Instant};
use tiffany_records::Record;

use tiffany_kernel::{ErrorKind, Uuid};

use super::Done;
use super::args::Log;
use super::driver;
use super::error::{Ending, exit};
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find_kept};
use tiffany::control::Request;
use tiffany_log::{Checker, Follower, LogError, LogLine, RecordType, RunState, View};
use tiffany_records::call_words::call_word;
use tiffany_records::tasks::{Tasks, error_text, trace_lines};
use tiffany_records::{ChangedAnswer, has_failed};

/// How often the file of a run is checked for new records.
const PACE: Duration = Duration::from_millis(100);
/// How often the process is asked whether it can still write the log.
const LOOK: Duration = Duration::from_secs(1);

/// Below this number of columns a terminal counts as narrow.
const NARROW: usize = 80;

pub(super) fn log(place: &Place, mut out: Out, options: &Log) -> Done {
    let kinds = known_types(options)?;
    let sight = place.look_anyhow_for(&[&options.run])?;
    sight.warn();
    let run = find_kept(&sight.view, &options.run)?;
    let lines =
        Lines { options, kinds, digits: sight.view.run(run).map_or(1, |run| digits(run.seq)) };
    let mut tasks = Tasks::default();
    let mut reader = sight.view.reader(run)?;
    if !out.json {
        lines.head(&mut out)?;
    }
    while let Some(record) = reader.next() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                // The records before the error are printed first.
                out.flush()?;
                return Err(error.into());
            }
        };
        if options.follow {
            tasks.add(&record, &Record::read(&record));
        }
        if lines.is_beyond(&record) {
            return out.end(0);
        }
        lines.print(&mut out, &record)?;
    }
    if let Some(error) = sight.view.refused(run) {
        out.flush()?;
        return Err(error.clone().into());
    }
    if options.follow && !is_finished(&sight.view, run) {
        let checker = reader.checker().clone();
        follow(place, &mut out, &lines, run, checker, tasks)?;
    }
    out.end(if sight.trouble.is_some() { exit::FAILED } else { 0 })
}

fn is_finished(view: &View, run: Uuid) -> bool {
    view.run(run).is_some_and(|entry| entry.state == RunState::Finished)
}

/// Prints new records until the run ends.
fn follow(
    place: &Place,
    out: &mut Out,
    lines: &Lines<'_>,
    run: Uuid,
    checker: Checker,
    mut tasks: Tasks,
) -> Result<(), Ending> {
    place.follow(run);
    let mut follower = Follower::new(&place.dir, run, checker);
    let mut looked = Instant::now();
    loop {
        out.flush()?;
        if tasks.is_over() {
            return Ok(());
        }
        std::thread::sleep(PACE);
        while let Some(record) = follower.next()? {
            tasks.add(&record, &Record::read(&record));
            if lines.is_beyond(&record) {
                return Ok(());
            }
            lines.print(out, &record)?;
        }
        if !place.dir.is_dir() {
            return Err(LogError::Vanished { act: "follow", path: place.dir.clone() }.into());
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Err(error) = driver::ask(&place.reach, |control| control.ask(Request::Health))
                && error.kind() == ErrorKind::LogFailed
            {
                return Err(error.into());
            }
        }
    }
}

/// Returns the requested types; an unknown type is an error.
fn known_types(options: &Log) -> Result<Vec<RecordType>, Ending> {
    let known = |name: &String| {
        let all = RecordType::ALL.iter().copied();
        all.clone().find(|kind| kind.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names: Vec<&str> = all.map(RecordType::name).collect();
            let message =
                format!("there is no record type `{name}`; there are {}", names.join(", "));
            super::CliError::Usage(message).into()
        })
    };
    options.kind.iter().map(known).collect()
}

/// The filter and the format of printed records.
struct Lines<'a> {
    options: &'a Log,
    kinds: Vec<RecordType>,
    digits: usize,
}

impl Lines<'_> {
    fn is_beyond(&self, record: &LogLine<'_>) -> bool {
        self.options.to.is_some_and(|to| record.seq > to)
    }

    fn is_wanted(&self, record: &LogLine<'_>) -> bool {
        let Log { task, from, failed, .. } = self.options;
        let of_type = || record.record_type().is_some_and(|kind| self.kinds.contains(&kind));
        (task.is_empty() || task.contains(&record.tid.0))
            && (self.kinds.is_empty() || of_type())
            && from.is_none_or(|from| record.seq >= from)
            && (!failed || has_failed(&Record::read(record)))
    }

    /// Returns the widths of the number and of the time. In a narrow terminal the time has no date.
    fn widths(&self, out: &Out) -> (usize, usize) {
        let time = if out.width.is_some_and(|limit| limit < NARROW) { 12 } else { 23 };
        (self.digits.max(3), time)
    }

    fn head(&self, out: &mut Out) -> Result<(), Ending> {
        let (width, time) = self.widths(out);
        let head =
            format!("{:>width$}  {:<time$}  {:>4}  {:<14}  WHAT", "SEQ", "TIME", "TASK", "TYPE");
        out.text(Style::Head, &head)
    }

    fn print(&self, out: &mut Out, record: &LogLine<'_>) -> Result<(), Ending> {
        if !self.is_wanted(record) {
            return Ok(());
        }
        if out.json {
            return out.json_text(record.json);
        }
        let (width, time_width) = self.widths(out);
        let time = record.ts.get(23 - time_width..23).unwrap_or(record.ts).replace('T', " ");
        let (seq, tid, kind) = (record.seq, record.tid.0, clean(record.kind));
        let head = format!("{seq:>width$}  {}  {tid:>4}  ", clean(&time));
        let kind = format!("{kind:<14}  ");
        let used = width + time_width + 26;
        let room = out.width.map_or(usize::MAX, |limit| limit.saturating_sub(used));
        let what = super::table::cut(&clean(&what(record)), room.max(1));
        let style = if has_failed(&Record::read(record)) { Style::Bad } else { Style::Plain };
        let dim = paint(out.colour, Style::Dim, &head);
        let line = format!("{dim}{kind}{}", paint(out.colour, style, &what));
        out.line(line.trim_end())?;
        match self.options.failed {
            true => print_trace(out, record),
            false => Ok(()),
        }
    }
}

/// Prints the traceback of a failure below its record.
fn print_trace(out: &mut Out, record: &LogLine<'_>) -> Result<(), Ending> {
    let Some(error) = record.get("error") else { return Ok(()) };
    let room = out.width.map_or(usize::MAX, |limit| limit.saturating_sub(5).max(1));
    for line in trace_lines(&super::json::value(error)) {
        let line = super::table::cut(&clean(&line), room);
        out.line(&paint(out.colour, Style::Dim, &format!("     {line}")))?;
    }
    Ok(())
}

fn digits(mut number: u64) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

/// Describes the fields of a record as text.
pub(super) fn what(record: &LogLine<'_>) -> String {
    let mut parts = Vec::new();
    let is_step = record.str("call").is_some_and(|call| call == "effect");
    for (name, value) in record.fields() {
        match name {
            "gen" | "crc" | "set_ts" | "set_by" => {}
            "set" => parts.extend(
                ChangedAnswer::of(&Record::read(record)).map(|changed| changed.to_string()),
            ),
            "error" => {
                let error = super::json::value(value);
                parts.push(match &error {
                    serde_json::Value::String(code) => format!("refused with {code}"),
                    error => error_text(error),
                });
            }
            "call" => parts.push(call_word(value.trim_matches('"')).to_owned()),
            "name" if is_step => parts.push(format!("`{}`", value.trim_matches('"'))),
            "name" | "id" | "function" => parts.push(format!("{name}={value}")),
            "at" => parts.push(format!("at {}", value.trim_matches('"'))),
            _ => parts.push(format!("{name}={}", value.trim_matches('"'))),
        }
    }
    parts.join(" ")
}
