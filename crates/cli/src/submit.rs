//! `submit`: starts a run in the process that owns the directory. If no process owns it and this
//! program has the function, it runs the function here to its end.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::{AboutApprovals, Submit};
use super::change::parse;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::Place;
use super::resume;
use super::watch::{Manner, see};
use tiffany::command::Entropy;
use tiffany::command::run_id;
use tiffany::control::{Answer, Control, Request, parse_literal};
use tiffany::durable::StartOptions;
use tiffany_records::RunError;

pub(super) fn submit(place: Place, out: Out, options: &Submit) -> Done {
    let approvals = options.approvals.manner(AboutApprovals::Deny)?;
    let input = read(&options.input)?;
    let id = options.id.clone().unwrap_or_else(|| drawn(&options.function));
    let manner = match (options.wait, options.follow) {
        (false, false) => None,
        (true, _) => Some(Manner::End),
        (_, true) if out.is_terminal() => Some(Manner::Tree),
        (_, true) => Some(Manner::Lines),
    };
    match place.process()? {
        Some(control) => there(&place, out, control, (options, id, input), (manner, approvals)),
        None => match manner {
            Some(manner) if place.has_program() => {
                here(place, out, (options, id, input), (manner, approvals))
            }
            _ => {
                let (function, dir) = (options.function.clone(), place.dir);
                Err(CliError::NobodyRuns { function, dir }.into())
            }
        },
    }
}

/// The run to be started.
type Wanted<'a> = (&'a Submit, String, Box<RawValue>);

fn there(
    place: &Place,
    mut out: Out,
    mut control: Control,
    (options, id, input): Wanted<'_>,
    (manner, approvals): (Option<Manner>, AboutApprovals),
) -> Done {
    let function = options.function.clone();
    let submit = Request::Submit { function, id: id.clone(), input, options: given(options) };
    let (run, is_new) = match control.ask(submit).map_err(for_who_submits)? {
        Answer::Run { run, is_new } => (run, is_new),
        other => return Err(tiffany::command::unexpected(&other).into()),
    };
    if let Some(manner) = manner {
        drop(control);
        return see(place, out, run, (manner, approvals), &AtomicBool::new(false));
    }
    match out.json {
        true => out.json(&json!({ "run": run.to_string(), "id": id, "new": is_new }))?,
        false => {
            let word = if is_new { "started" } else { "found" };
            out.text(Style::Good, &format!("{word} {run}  {id}"))?;
        }
    }
    out.end(0)
}

/// Runs the function in this process. The loop uses this thread, and another thread displays the
/// run.
fn here(
    place: Place,
    out: Out,
    (options, id, input): Wanted<'_>,
    (manner, approvals): (Manner, AboutApprovals),
) -> Done {
    let stop = resume::stop_flag()?;
    let function = place.builder.registry().meant(&options.function).map_err(for_who_submits)?;
    let run = run_id(&id);
    let dir = place.dir.clone();
    let mut runtime = place.builder.only(run).log_dir(&dir).build()?;
    let started = runtime.submit_with::<Box<RawValue>>(&function, &id, &input, &given(options));
    started.map_err(|error| match error {
        RunError::Failed(error) => for_who_submits(error),
        error => error.into(),
    })?;
    runtime.flush()?;
    let form = out.into_form()?;
    let (seen, is_over) = (Arc::clone(&stop), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let looks = move || {
        let place = Place::new(dir, tiffany::Runtime::builder());
        let ended = see(&place, form.open(), run, (manner, approvals), &seen);
        over.store(true, Ordering::Relaxed);
        ended
    };
    let watching = std::thread::Builder::new().name("tiffany-watch".into()).spawn(looks)?;
    let driven = resume::drive_one(&mut runtime, run, || {
        !stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed)
    });
    // The run's file is now complete, or never will be, and the display must not wait for that.
    drop(runtime);
    if driven.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let ended = watching.join().unwrap_or_else(|_| {
        let message = "the code that shows the run stopped because of a bug";
        Err(TaskError::new(ErrorKind::Panicked, message).into())
    });
    driven?;
    ended
}

/// The tags, the attributes and the deadline that were given.
fn given(options: &Submit) -> StartOptions {
    let mut given = StartOptions::new();
    given.deadline = options.deadline;
    given.tags.extend(options.tag.iter().cloned());
    let values = options.attribute.iter();
    given.attributes.extend(values.map(|(name, text)| (name.clone(), parse_literal(text))));
    given
}

/// Returns the error with the next step for the person who submits, rather than for the author of
/// the program.
fn for_who_submits(error: TaskError) -> Ending {
    let next = match error.kind() {
        ErrorKind::Unregistered => Some(
            "give the name of a registered function: `status` lists those of the process that owns the directory; to add one, \
             register it in the program, or in Python pass its file to `serve` with `--app`",
        ),
        ErrorKind::Unreadable => {
            Some("correct `--input`; `status --json` shows what each function takes")
        }
        _ => None,
    };
    let mut shown = Shown::from(error);
    if let Some(next) = next {
        shown.next = next.into();
    }
    Ending::Error(shown)
}

/// Reads the input of a run: JSON, a file, or standard input.
fn read(input: &str) -> Result<Box<RawValue>, Ending> {
    let no_input = |file: &Path, why: String| CliError::NoInput { file: file.to_path_buf(), why };
    let text = match input.strip_prefix('@') {
        Some(file) => {
            let file = PathBuf::from(file);
            std::fs::read_to_string(&file).map_err(|error| no_input(&file, error.to_string()))?
        }
        None if input == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| no_input(Path::new("standard input"), error.to_string()))?;
            text
        }
        None => return parse(input),
    };
    serde_json::from_str(&text).map_err(|error| {
        let file = if input == "-" { "standard input" } else { &input[1..] };
        no_input(Path::new(file), error.to_string()).into()
    })
}

/// Returns a random id for a run without one.
fn drawn(function: &str) -> String {
    format!("{function}-{:016x}", Entropy::System.seed())
}
