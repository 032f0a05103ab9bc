//! `check`: every run that is not over, once more against its log with the code of today. Which of them would not go on, where, and why.

use serde_json::{Value, json};
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::Check;
use super::error::{CliError, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_all, script};
use super::progress::Progress;
use super::summary::{Summary, count};
use crate::durable::Until;
use crate::wal::RunState;

pub(super) fn check(place: Place, mut out: Out, options: &Check) -> Done {
    place.need_program("check runs against this program")?;
    let view = place.look()?;
    let named = !options.runs.is_empty();
    let runs = find_all(&view, &options.runs)?;
    let registry = place.builder.registry.clone();
    let mut room = place.rehearsal_room()?;
    let live: Vec<_> = runs
        .into_iter()
        .filter_map(|run| Some((run, view.run(run)?)))
        .filter(|(_, entry)| named || entry.state == RunState::Live)
        .collect();
    let (mut fit, mut apart) = (0, 0);
    let mut progress = Progress::new(&out, "checking", live.len() as u64);
    for (run, entry) in live {
        progress.add(1);
        let summary = Summary::read(&view, run, entry);
        let trouble: Option<Shown> = match script(&view, run) {
            Err(error) => Some(error.into()),
            Ok(_) if !registry.has(&summary.function) => {
                let message = format!("no function `{}` is registered", summary.function);
                Some(TaskError::new(ErrorKind::Unregistered, message).into())
            }
            Ok(script) => match room.rehearse(&entry.chain(run), script, Until::TheEnd) {
                Ok(rehearsal) => rehearsal.apart.map(Shown::from),
                Err(error) => Some(error.into()),
            },
        };
        let verdict = if trouble.is_some() { "differs" } else { "ok" };
        match &trouble {
            Some(_) => apart += 1,
            None => fit += 1,
        }
        if out.json {
            let error = trouble.as_ref().map_or(Value::Null, Shown::json);
            out.json(&json!({
                "run": run.to_string(), "id": summary.id, "function": summary.function,
                "verdict": verdict, "error": error,
            }))?;
        } else if let Some(trouble) = &trouble {
            let head = format!("{run}  {}  {}", summary.id, summary.function);
            out.text(Style::Head, &head)?;
            out.text(Style::Bad, &format!("  {} [{}]", trouble.message, trouble.code))?;
            out.text(Style::Plain, &format!("  next: {}", trouble.next))?;
        }
    }
    drop(progress);
    let runs = |number: u64| count(number, "run");
    if !out.json {
        let style = if apart > 0 { Style::Bad } else { Style::Good };
        let would = if fit == 1 { "goes" } else { "go" };
        let not = if apart == 1 { "does" } else { "do" };
        let text = format!("{} {would} on with this program, {} {not} not", runs(fit), apart);
        out.text(style, &text)?;
    }
    out.flush()?;
    match apart {
        0 => out.end(0),
        _ => Err(CliError::WouldDiverge(format!("{} would stop", runs(apart))).into()),
    }
}
