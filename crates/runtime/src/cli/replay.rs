//! `replay`: a run once more against its log, with the code of today. No effect begins and nothing is written.

use serde_json::json;
use tiffany_kernel::{CallKind, Tid, Uuid};

use super::Done;
use super::args::Replay;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find, script};
use super::progress::Progress;
use crate::durable::{Act, Rehearsal, Until};
use crate::wal::{LogError, Record, RecordType, View};

pub(super) fn replay(place: Place, mut out: Out, options: &Replay) -> Done {
    place.need_program("replay a run")?;
    let view = place.look()?;
    let run = find(&view, &options.run)?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    let recorded = acts(&out, &view, run, entry.seq)?;
    let script = script(&view, run)?;
    let was = script.outcome.clone();
    let mut runtime = place.rehearsal_room()?;
    let rehearsal = runtime.rehearse(&entry.chain(run), script, Until::TheEnd)?;
    let finding = judge(&rehearsal, &recorded, was);
    match out.json {
        true => out.json(&json!({
            "run": run.to_string(),
            "verdict": finding.verdict,
            "records": entry.seq,
            "calls": rehearsal.matched,
            "differs_at": finding.differs_at,
            "error": finding.error.as_ref().map(Shown::json),
        }))?,
        false => {
            let style = Style::of_state(finding.verdict);
            let calls = rehearsal.matched;
            let head = format!(
                "{run}: {} ({} records, {calls} calls to the world)",
                finding.verdict, entry.seq
            );
            out.text(style, &head)?;
            if let Some(note) = &finding.note {
                out.text(Style::Plain, note)?;
            }
        }
    }
    out.flush()?;
    match finding.error {
        Some(error) => Err(Ending::Error(error)),
        None => out.end(0),
    }
}

struct Finding {
    /// `identical`, `same calls` or `differs`.
    verdict: &'static str,
    note: Option<String>,
    /// The first record that is not the same.
    differs_at: Option<u64>,
    error: Option<Shown>,
}

type Outcome = Option<Result<String, tiffany_kernel::TaskError>>;

fn judge(rehearsal: &Rehearsal, recorded: &[(u64, Tid, Act)], was: Outcome) -> Finding {
    let differs = |error: Shown| Finding {
        verdict: "differs",
        note: None,
        differs_at: None,
        error: Some(error),
    };
    if let Some(apart) = &rehearsal.apart {
        return differs(apart.clone().into());
    }
    if let Some(was) = &was {
        let is = rehearsal.outcome.as_ref();
        let same = match (is, was) {
            (Some(Ok(is)), Ok(was)) => super::json::value(is) == super::json::value(was),
            (Some(Err(is)), Err(was)) => is.code() == was.code(),
            _ => false,
        };
        if !same {
            let words = |outcome: &Result<String, tiffany_kernel::TaskError>| match outcome {
                Ok(value) => format!("the value {value}"),
                Err(error) => format!("the error {}: {}", error.code(), error.message()),
            };
            let is = is.map_or("no end".to_owned(), words);
            let message = format!("the run now comes to {is}, and came to {}", words(was));
            return differs(CliError::OtherOutcome(message).into());
        }
    }
    // The log of a run that goes on may be ahead of a replay, which stops when all calls to the world are made, or
    // behind it.
    let made = rehearsal.acts.iter().copied();
    let first = recorded
        .iter()
        .zip(made)
        .find(|((_, tid, act), now)| (*tid, *act) != *now)
        .map(|((seq, ..), _)| *seq);
    let longer = was.is_some() && recorded.len() != rehearsal.acts.len();
    let past = longer.then(|| recorded.get(rehearsal.acts.len()).map_or(0, |(seq, ..)| *seq));
    match first.or(past) {
        None => Finding { verdict: "identical", note: None, differs_at: None, error: None },
        at => Finding {
            verdict: "same calls",
            note: Some(format!(
                "all calls to the world are the same; between them something changed at record {}, which does no harm",
                at.unwrap_or(0)
            )),
            differs_at: at,
            error: None,
        },
    }
}

/// What the log says that tasks did.
fn acts(out: &Out, view: &View, run: Uuid, total: u64) -> Result<Vec<(u64, Tid, Act)>, LogError> {
    if let Some(error) = view.refused(run) {
        return Err(error.clone());
    }
    let mut progress = Progress::new(out, "reading", total);
    let mut acts = Vec::new();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        let record = record?;
        progress.add(1);
        if let Some(act) = act(&record) {
            acts.push((record.seq, record.tid, act));
        }
    }
    // The error of a run that is not its root's own comes after the root's end, and no task did it.
    let ends: Vec<usize> = acts
        .iter()
        .enumerate()
        .filter(|(_, (_, tid, act))| *tid == Tid(1) && !matches!(act, Act::Called(_)))
        .map(|(at, _)| at)
        .collect();
    if let [_, .., last] = ends[..] {
        acts.remove(last);
    }
    Ok(acts)
}

fn act(record: &Record<'_>) -> Option<Act> {
    Some(match record.record_type()? {
        RecordType::TaskSpawn => Act::Called(CallKind::Spawn),
        RecordType::TaskYield => {
            let kind = CallKind::parse(&record.str("call")?)?;
            Act::Called((kind != CallKind::Yield).then_some(kind)?)
        }
        RecordType::TaskExit => Act::Exited,
        RecordType::TaskAbort => Act::Aborted,
        RecordType::TaskCancel => Act::Cancelled,
        _ => return None,
    })
}
