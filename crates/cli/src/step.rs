//! `replay --step`: moves through a run record by record, forwards and backwards, by means of a
//! replay: no effect begins, nothing is written, and no code of the run is unwound.

use std::io::{BufRead, IsTerminal};
use tiffany_records::Record;

use serde_json::{Map, Value, json};
use tiffany_kernel::Tid;

use super::Done;
use super::args::StepPlace;
use super::error::{CliError, Ending};
use super::log::what;
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find_kept};
use tiffany::durable::{Moment, TaskMoment, TimeTravel};
use tiffany_log::LogLine;
use tiffany_records::has_failed;
use tiffany_records::redact;
use tiffany_records::tasks::error_text;

pub(super) fn step(place: Place, mut out: Out, name: &str, options: &StepPlace) -> Done {
    place.need_program("stepping through a run")?;
    let view = place.look_for(&[name])?;
    let run = find_kept(&view, name)?;
    let mut travel = TimeTravel::in_room(place.rehearsal_room()?, &view, run)?;
    let wants_failure = options.failure || options.pdb;
    let at = match (options.at, travel.failure()) {
        (Some(at), _) => at,
        (None, None) if wants_failure => {
            return Err(CliError::NotFailed(name.to_owned()).into());
        }
        (None, Some(failure)) if wants_failure => failure,
        _ => travel.records(),
    };
    let mut moment = travel.seek(at)?;
    if options.pdb {
        return post_mortem(&travel, &moment, out);
    }
    print(&mut out, &travel, &moment)?;
    let asks = options.at.is_none() && !out.json && out.is_terminal();
    if !asks || !std::io::stdin().is_terminal() {
        return out.end(0);
    }
    let mut before = String::from("back");
    let mut prompt = "step (h for help)> ";
    loop {
        out.part(std::mem::replace(&mut prompt, "step> "))?;
        let mut typed = String::new();
        if std::io::stdin().lock().read_line(&mut typed)? == 0 {
            out.line("")?;
            return out.end(0);
        }
        // Enter alone repeats the last command.
        if !typed.trim().is_empty() {
            typed.trim().clone_into(&mut before);
        }
        match Go::parse(&before) {
            Ok(Go::End) => return out.end(0),
            Ok(Go::Help) => out.whole(Style::Plain, HELP, 0)?,
            Ok(go) => match go.target(&travel, moment.record) {
                Some(target) => match travel.seek(target) {
                    Ok(there) => {
                        moment = there;
                        print(&mut out, &travel, &moment)?;
                    }
                    Err(error) => out.whole(Style::Bad, &error.to_string(), 0)?,
                },
                None => out.text(Style::Busy, "there is no such record")?,
            },
            Err(what) => {
                out.whole(Style::Bad, &format!("`{what}` is nothing to do here; {HELP}"), 0)?
            }
        }
    }
}

const HELP: &str = "n next, b back, a number: that record, t N: the next record of task N, f: the failure, q: the end; Enter does the last one again";

/// Where to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    Next,
    Back,
    To(u64),
    Task(Tid),
    Failure,
    Help,
    End,
}

impl Go {
    fn parse(typed: &str) -> Result<Go, &str> {
        let (word, rest) = typed.split_once(' ').unwrap_or((typed, ""));
        let number = || rest.trim().parse().map_err(|_| typed);
        Ok(match word {
            "n" | "next" => Go::Next,
            "b" | "back" => Go::Back,
            "g" | "go" => Go::To(number()?),
            "t" | "task" => Go::Task(Tid(number()?)),
            "f" | "failure" => Go::Failure,
            "h" | "?" | "help" => Go::Help,
            "q" | "quit" | "exit" => Go::End,
            other => Go::To(other.parse().map_err(|_| typed)?),
        })
    }

    fn target(self, travel: &TimeTravel, here: u64) -> Option<u64> {
        match self {
            Go::Next => Some(here + 1).filter(|next| *next <= travel.records()),
            Go::Back => Some(here - 1).filter(|before| *before > 0),
            Go::To(record) => Some(record),
            Go::Task(tid) => travel.next_of(tid, here),
            Go::Failure => travel.failure(),
            Go::Help | Go::End => None,
        }
    }
}

fn post_mortem(travel: &TimeTravel, moment: &Moment, mut out: Out) -> Done {
    // The task of the record if it failed there; other tasks may have failed before.
    let of_record = LogLine::of_checked(&moment.line).and_then(|record| moment.task(record.tid));
    let failed = of_record.into_iter().chain(&moment.tasks).find_map(|task| task.error.as_ref());
    out.flush()?;
    drop(out);
    match failed.is_some_and(|error| travel.post_mortem(error)) {
        true => Ok(0),
        false => Err(CliError::NoDebugger.into()),
    }
}

/// Returns a moment that is redacted: the memory of tasks contains what is redacted in the log.
fn without_secrets(moment: &Moment) -> Moment {
    let mut moment = moment.clone();
    let Some(rules) = redact::known() else { return moment };
    for task in &mut moment.tasks {
        for text in task.name.iter_mut().chain(&mut task.waits_for) {
            *text = rules.text(text).into_owned();
        }
        let locals = task.frames.iter_mut().flat_map(|frame| &mut frame.locals);
        for (name, value) in locals.chain(&mut task.store) {
            *value = rules.named_text(name, value).into_owned();
        }
        task.error = task.error.take().map(|error| rules.error(error));
    }
    moment
}

fn print(out: &mut Out, travel: &TimeTravel, moment: &Moment) -> Result<(), Ending> {
    let moment = &without_secrets(moment);
    if out.json {
        return out.json(&to_json(travel, moment));
    }
    let (seq, records) = (moment.record, travel.records());
    out.text(Style::Head, &format!("record {seq} of {records}"))?;
    if let Some(record) = LogLine::of_checked(&moment.line) {
        let (time, kind, tid) = (record.ts, record.kind, record.tid);
        let text = format!("{time}  task {tid}  {kind}  {}", what(&record));
        match has_failed(&Record::read(&record)) {
            true => out.whole(Style::Dim, &text, 4)?,
            false => out.text(Style::Dim, &text)?,
        }
    }
    for task in &moment.tasks {
        print_task(out, task)?;
    }
    out.flush()
}

fn print_task(out: &mut Out, task: &TaskMoment) -> Result<(), Ending> {
    let name = task.name.as_ref().map_or(String::new(), |name| format!(" `{name}`"));
    let waits = task.waits_for.as_ref().map_or(String::new(), |what| format!("  {what}"));
    let at = task.waits_at.as_ref().map_or(String::new(), |at| format!(" at {at}"));
    let state = paint(out.colour, Style::of_state(task.state), task.state);
    let head = format!("task {}{}  {state}{}{}", task.tid, clean(&name), clean(&waits), clean(&at));
    out.line(&head)?;
    if let Some(error) = &task.error {
        let error = serde_json::to_value(error).unwrap_or(Value::Null);
        out.whole(Style::Bad, &format!("    {}", error_text(&error)), 4)?;
    }
    for (key, value) in &task.store {
        out.text(Style::Plain, &format!("    {key}: {value}"))?;
    }
    for frame in &task.frames {
        out.text(Style::Dim, &format!("    {} in {}", frame.at, frame.function))?;
        for (name, value) in &frame.locals {
            out.text(Style::Plain, &format!("      {name} = {value}"))?;
        }
    }
    Ok(())
}

fn to_json(travel: &TimeTravel, moment: &Moment) -> Value {
    let table = |pairs: &[(String, String)]| {
        pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>()
    };
    let task = |task: &TaskMoment| {
        let frames: Vec<Value> = task
            .frames
            .iter()
            .map(|frame| {
                json!({
                    "function": frame.function,
                    "file": frame.at.file,
                    "line": frame.at.line,
                    "locals": table(&frame.locals),
                })
            })
            .collect();
        json!({
            "tid": task.tid.0,
            "name": task.name,
            "spawned_at": task.spawned_at.to_string(),
            "state": task.state,
            "waits_for": task.waits_for,
            "waits_at": task.waits_at.as_ref().map(ToString::to_string),
            "store": table(&task.store),
            "frames": frames,
            "error": task.error,
        })
    };
    json!({
        "run": travel.run().to_string(),
        "record": moment.record,
        "records": travel.records(),
        "line": super::json::value(&moment.line),
        "tasks": moment.tasks.iter().map(task).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_understood_or_given_back() {
        for (typed, expected) in [
            ("n", Ok(Go::Next)),
            ("back", Ok(Go::Back)),
            ("17", Ok(Go::To(17))),
            ("g 17", Ok(Go::To(17))),
            ("t 2", Ok(Go::Task(Tid(2)))),
            ("t two", Err("t two")),
            ("-1", Err("-1")),
            ("", Err("")),
            ("q", Ok(Go::End)),
        ] {
            assert_eq!(Go::parse(typed), expected, "{typed}");
        }
    }
}
