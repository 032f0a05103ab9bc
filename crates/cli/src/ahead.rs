//! `replay --ahead`: runs an unfinished run with the current code beyond the end of its log, to
//! show what it would do next. No effect begins and nothing is written. If the code diverges from
//! the log, it proposes a line that supports both.

use serde_json::{Value, json};

use super::Done;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_kept};
use super::prospect::{now, would_happen};
use super::show::read;
use super::summary::count;
use tiffany::durable::{Proposal, Trial};
use tiffany_log::{LogError, RunState};
use tiffany_records::call_words::call_word;
use tiffany_records::tasks::Tasks;

pub(super) fn ahead(place: Place, mut out: Out, name: &str) -> Done {
    place.need_program("looking ahead in a run")?;
    let view = place.look_for(&[name])?;
    let run = find_kept(&view, name)?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    if entry.state != RunState::Live {
        return Err(CliError::IsOver(name.to_owned()).into());
    }
    let tried = Trial::in_room(place.rehearsal_room()?, &view, run)?;
    let apart = tried.error.clone().map(Shown::from);
    let mut tasks = Tasks::default();
    read(&view, run, &mut tasks)?;
    let first = First::of(&tried, &tasks);
    match out.json {
        true => out.json(&to_json(&tried, &first, apart.as_ref()))?,
        false => print(&mut out, &tried, &first)?,
    }
    out.flush()?;
    match apart {
        Some(apart) => Err(Ending::Error(apart)),
        None => out.end(0),
    }
}

/// The first events after the end of the log: what would happen to the calls that have no answer
/// yet.
#[derive(Default)]
struct First {
    would: Vec<String>,
    /// Whether one of the waiting calls would complete at once.
    goes_on: bool,
}

impl First {
    fn of(tried: &Trial, tasks: &Tasks) -> First {
        let mut first = First::default();
        // Code that diverged from the log doesn't reach these calls.
        if tried.error.is_some() || tried.outcome.is_some() {
            return first;
        }
        let now = now();
        for (tid, _, waiting) in tasks.waits() {
            let (would, at_once) = would_happen(waiting, tid, &now);
            first.goes_on |= at_once && !waiting.maybe_over;
            first.would.push(would);
        }
        first
    }
}

fn print(out: &mut Out, tried: &Trial, first: &First) -> Result<(), Ending> {
    let calls = count(tried.calls as u64, "call");
    let they = if tried.calls == 1 { "it" } else { "them" };
    out.text(Style::Head, &format!("{}  {}  {}", tried.run, tried.id, tried.function))?;
    out.text(Style::Plain, &format!("{calls} to the world as the log has {they}"))?;
    for would in &first.would {
        out.text(Style::Busy, would)?;
    }
    for call in &tried.upcoming {
        let name = call.name.map_or(String::new(), |name| format!(" `{name}`"));
        let word = call_word(call.call);
        let next = format!("task {} would make {word}{name} at {}", call.tid, call.at);
        out.text(Style::Busy, &next)?;
    }
    let is_apart = tried.error.is_some();
    match &tried.outcome {
        Some(Ok(value)) => out.text(Style::Good, &format!("it would end with {value}"))?,
        Some(Err(error)) => out.text(Style::Bad, &format!("it would fail: {error}"))?,
        None if tried.upcoming.is_empty() && !is_apart && !first.goes_on => {
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

fn to_json(tried: &Trial, first: &First, apart: Option<&Shown>) -> Value {
    let upcoming: Vec<Value> = tried
        .upcoming
        .iter()
        .map(|call| json!({ "tid": call.tid.0, "call": call.call, "name": call.name, "at": call.at }))
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
        "would": first.would,
        "upcoming": upcoming,
        "outcome": outcome,
        "error": apart.map(Shown::json),
        "proposal": proposal,
    })
}
