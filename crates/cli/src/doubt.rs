//! `doubt`: lists steps that may or may not have happened, and records decisions of people about
//! them.

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::{Decide, Doubt, DoubtCommand};
use super::dormant_runs::{Unread, dormant_runs};
use super::driver::{self, Heard};
use super::error::{CliError, Ending};
use super::out::{Out, Style};
use super::place::{Place, is_log};
use super::summary::Summary;
use super::table::{Cell, Table};
use tiffany::command::DormantRun;
use tiffany::control::{Control, Decision, Doubt as InDoubt};

/// The name of what is listed.
const WHAT: &str = "steps in doubt";

pub(super) fn doubt(place: &Place, out: Out, options: &Doubt) -> Done {
    match &options.command {
        Some(DoubtCommand::Decide(decide)) => self::decide(place, out, decide),
        None => list(place, out),
    }
}

/// Lists the steps in doubt, from the process that owns the log or from the log itself.
fn list(place: &Place, mut out: Out) -> Done {
    let view = place.look()?;
    let said = match view.holder() {
        _ if place.is_remote() => Some(place.control()?.doubts()?),
        Some(holder) => match driver::ask(&place.reach, Control::doubts)? {
            Heard::Said(doubts) => Some(doubts),
            Heard::Silent(silence) => {
                silence.warn();
                None
            }
            Heard::Nobody => {
                let message = format!("{holder} owns the directory and does not listen");
                return Err(TaskError::new(ErrorKind::Unreachable, message).into());
            }
        },
        None => None,
    };
    let (doubts, unread) = match said {
        Some(doubts) if place.is_remote() => (doubts, Unread::default()),
        Some(doubts) => (doubts, Unread::of_paused(place, &view)),
        None => {
            let (runs, unread) = dormant_runs(&view, |_| true);
            (runs.iter().flat_map(DormantRun::doubts).cloned().collect(), unread)
        }
    };
    if out.json {
        for InDoubt { key, run, step, attempt, waits, .. } in &doubts {
            let run = run.to_string();
            out.json(&json!({
                "key": key, "run": run, "step": step, "attempt": attempt, "waits": waits,
            }))?;
        }
        return unread.end(out, WHAT);
    }
    let mut table = Table::new(&["KEY", "ID", "STEP", "ATTEMPT", "ITS TASK"]);
    for InDoubt { key, run, step, attempt, waits, .. } in &doubts {
        let id = match place.is_remote() {
            true => place.id_of(*run),
            false => view.run(*run).map(|entry| Summary::read(&view, *run, entry).id),
        };
        let waits = if *waits { "waits for a decision" } else { "does not run at present" };
        table.row(vec![
            Cell::new(Style::Bad, key),
            id.unwrap_or_default().into(),
            step.into(),
            attempt.to_string().into(),
            waits.into(),
        ]);
    }
    match table.is_empty() {
        true if unread.is_empty() => out.text(Style::Good, "nothing is in doubt")?,
        true => {}
        false => {
            table.print(&mut out)?;
            let next = "find out in the world what happened, then `doubt decide KEY --done JSON`, `--failed MESSAGE` or `--again`";
            out.text(Style::Dim, next)?;
        }
    }
    unread.end(out, WHAT)
}

fn decide(place: &Place, mut out: Out, options: &Decide) -> Done {
    let decision = decision(options)?;
    is_log(&place.dir)?;
    let mut control = place.control()?;
    let word = decision.word();
    control.decide(&options.key, decision)?;
    let (key, offline) = (&options.key, control.is_offline());
    match out.json {
        true => out.json(&json!({ "key": key, "decided": word, "offline": offline }))?,
        false => {
            let when = super::change::when(&control);
            out.text(Style::Good, &format!("decided {key}: {word}{when}"))?;
        }
    }
    out.end(0)
}

fn decision(options: &Decide) -> Result<Decision, Ending> {
    match (&options.done, &options.failed, options.again) {
        (Some(json), None, false) => Ok(Decision::Done(super::change::parse(json)?)),
        (None, Some(message), false) => Ok(Decision::Failed(message.clone())),
        (None, None, true) => Ok(Decision::Again),
        _ => {
            Err(CliError::Usage("one of `--done`, `--failed` and `--again` is needed".into())
                .into())
        }
    }
}
