//! `try`: an unfinished run in the code of today, to see what it would do next. No effect begins and nothing is written. Where the code has
//! parted from the log, it proposes the line that lets both live together.

use serde_json::{Value, json};

use super::Done;
use super::args::Try;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_kept};
use super::summary::count;
use crate::durable::{Proposal, Trial};
use crate::wal::{LogError, RunState};

pub(super) fn try_run(place: Place, mut out: Out, options: &Try) -> Done {
    place.need_program("try a run in this program")?;
    let view = place.look()?;
    let run = find_kept(&view, &options.run)?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    if entry.state != RunState::Live {
        return Err(CliError::IsOver(options.run.clone()).into());
    }
    let tried = Trial::in_room(place.rehearsal_room()?, &view, run)?;
    let apart = tried.error.clone().map(Shown::from);
    match out.json {
        true => out.json(&to_json(&tried, apart.as_ref()))?,
        false => print(&mut out, &tried)?,
    }
    out.flush()?;
    match apart {
        Some(apart) => Err(Ending::Error(apart)),
        None => out.end(0),
    }
}

fn print(out: &mut Out, tried: &Trial) -> Result<(), Ending> {
    let calls = count(tried.calls as u64, "call");
    out.text(Style::Head, &format!("{}  {}  {}", tried.run, tried.id, tried.function))?;
    out.text(Style::Plain, &format!("{calls} to the world as the log has them"))?;
    for call in &tried.upcoming {
        let name = call.name.map_or(String::new(), |name| format!(" `{name}`"));
        let next = format!("task {} would make {}{name} at {}", call.tid, call.call, call.at);
        out.text(Style::Busy, &next)?;
    }
    let is_apart = tried.error.is_some();
    match &tried.outcome {
        Some(Ok(value)) => out.text(Style::Good, &format!("it would end with {value}"))?,
        Some(Err(error)) => out.text(Style::Bad, &format!("it would fail: {error}"))?,
        None if tried.upcoming.is_empty() && !is_apart => {
            out.text(Style::Busy, "it would wait, as it does now")?;
        }
        None => {}
    }
    if let Some(Proposal { at, lines, why, .. }) = &tried.proposal {
        out.text(Style::Plain, &format!("at {at}, {why}:"))?;
        for line in lines {
            out.text(Style::Good, &format!("    {line}"))?;
        }
    }
    Ok(())
}

fn to_json(tried: &Trial, apart: Option<&Shown>) -> Value {
    let upcoming: Vec<Value> = tried
        .upcoming
        .iter()
        .map(|call| json!({ "task": call.tid.0, "call": call.call, "name": call.name, "at": call.at }))
        .collect();
    let outcome = match &tried.outcome {
        Some(Ok(value)) => json!({ "value": super::json::value(value) }),
        Some(Err(error)) => json!({ "error": error }),
        None => Value::Null,
    };
    let proposal = tried.proposal.as_ref().map(|proposal| {
        json!({
            "at": proposal.at.to_string(), "id": proposal.id, "lines": proposal.lines, "why": proposal.why,
        })
    });
    json!({
        "run": tried.run.to_string(),
        "calls": tried.calls,
        "upcoming": upcoming,
        "outcome": outcome,
        "error": apart.map(Shown::json),
        "proposal": proposal,
    })
}
