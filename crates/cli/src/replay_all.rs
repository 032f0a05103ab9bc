//! `replay --all`: replays every unfinished run against its log with the current code, and reports
//! which of them would not continue, where, and why.

use serde_json::{Value, json};

use super::Done;
use super::error::{CliError, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_all};
use super::progress::Progress;
use super::summary::count;
use tiffany::durable::{Check, Checked};

pub(super) fn replay_all(place: Place, mut out: Out, named: &[String]) -> Done {
    place.need_program("replaying runs")?;
    let view = place.look()?;
    let named = match named.is_empty() {
        true => None,
        false => Some(find_all(&view, named)?),
    };
    let mut runs = Check::in_room(place.rehearsal_room()?, view);
    if let Some(named) = named {
        runs = runs.only(named)?;
    }
    let (mut fit, mut apart) = (0, 0);
    let mut progress = Progress::new(&out, "checking", runs.len() as u64);
    for Checked { run, id, function, error, .. } in runs {
        progress.add(1);
        let trouble = error.map(Shown::from);
        let verdict = if trouble.is_some() { "differs" } else { "ok" };
        match &trouble {
            Some(_) => apart += 1,
            None => fit += 1,
        }
        if out.json {
            let error = trouble.as_ref().map_or(Value::Null, Shown::json);
            out.json(&json!({
                "run": run.to_string(), "id": id, "function": function,
                "verdict": verdict, "error": error,
            }))?;
        } else if let Some(trouble) = &trouble {
            let head = format!("{run}  {id}  {function}");
            out.text(Style::Head, &head)?;
            out.text(Style::Bad, &format!("  {} [{}]", trouble.message, trouble.code))?;
            out.text(Style::Plain, &format!("  next: {}", trouble.next))?;
        }
    }
    drop(progress);
    let runs = |number: u64| count(number, "run");
    if !out.json {
        let style = if apart > 0 { Style::Bad } else { Style::Good };
        let text = format!("{} can continue with this program, {apart} cannot", runs(fit));
        out.text(style, &text)?;
    }
    out.flush()?;
    match apart {
        0 => out.end(0),
        _ => Err(CliError::WouldDiverge(format!("{} would stop", runs(apart))).into()),
    }
}
