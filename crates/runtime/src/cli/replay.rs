//! `replay`: a run once more against its log, with the code of today. No effect begins and nothing is written.

use serde_json::json;
use tiffany_kernel::{CallKind, TaskError, Tid, Uuid};

use super::Done;
use super::args::Replay;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find};
use super::progress::Progress;
use super::summary::count;
use crate::durable::{Act, Rehearsal, Until, script};
use crate::wal::{LogError, Record, RecordType, View};

pub(super) fn replay(place: Place, mut out: Out, options: &Replay) -> Done {
    place.need_program("replay a run")?;
    let view = place.look()?;
    let run = find(&view, &options.run)?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    let recorded = deeds(&out, &view, run, entry.seq)?;
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
            let records = count(entry.seq, "record");
            let calls = count(rehearsal.matched as u64, "call");
            let verdict = finding.verdict;
            let head = format!("{run}: {verdict} ({records}, {calls} to the world)");
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

type Outcome = Option<Result<String, TaskError>>;

fn judge(rehearsal: &Rehearsal, recorded: &[(u64, Tid, Deed)], was: Outcome) -> Finding {
    let differs = |error: Shown| Finding {
        verdict: "differs",
        note: None,
        differs_at: None,
        error: Some(error),
    };
    if let Some(apart) = &rehearsal.apart {
        return differs(apart.clone().into());
    }
    if let Some(message) = other_outcome(rehearsal, was.as_ref()) {
        return differs(CliError::OtherOutcome(message).into());
    }
    match first_difference(recorded, &rehearsal.acts, was.is_some()) {
        None => Finding { verdict: "identical", note: None, differs_at: None, error: None },
        Some(at) => Finding {
            verdict: "same calls",
            note: Some(format!(
                "all calls to the world are the same; between them something changed at record {at}, which does no harm"
            )),
            differs_at: Some(at),
            error: None,
        },
    }
}

/// How a run ends otherwise than its log says, if it does.
pub(crate) fn other_outcome(
    rehearsal: &Rehearsal,
    was: Option<&Result<String, TaskError>>,
) -> Option<String> {
    let (is, was) = (rehearsal.outcome.as_ref(), was?);
    let same = match (is, was) {
        (Some(Ok(is)), Ok(was)) => super::json::value(is) == super::json::value(was),
        (Some(Err(is)), Err(was)) => is.code() == was.code(),
        _ => false,
    };
    let words = |outcome: &Result<String, TaskError>| match outcome {
        Ok(value) => format!("the value {value}"),
        Err(error) => format!("the error {}: {}", error.code(), error.message()),
    };
    (!same).then(|| {
        let is = is.map_or("no end".to_owned(), words);
        format!("the run now comes to {is}, and came to {}", words(was))
    })
}

/// The first record that a replay does not have. A run that was brought back writes once more what it did after
/// the last thing the world knew of, so that the log may go back to there at any record.
fn first_difference(
    recorded: &[(u64, Tid, Deed)],
    made: &[(Tid, Act)],
    is_finished: bool,
) -> Option<u64> {
    // Where in the replay this record may be, and where the log may go back to from there.
    let mut places = vec![(0, 0)];
    for (seq, tid, deed) in recorded {
        match deed {
            Deed::Told => places.iter_mut().for_each(|(at, anchor)| *anchor = *at),
            Deed::Did(act) => {
                let fits = |at: &usize| made.get(*at) == Some(&(*tid, *act));
                let mut next: Vec<(usize, usize)> = Vec::new();
                for (at, anchor) in places {
                    for from in [at, anchor] {
                        let to = (from + 1, if is_outward(*act) { from + 1 } else { anchor });
                        if fits(&from) && !next.contains(&to) {
                            next.push(to);
                        }
                    }
                    // The log of a run that goes on can be ahead of a replay, which stops where nothing is left
                    // that concerns the world.
                    if !is_finished
                        && at == made.len()
                        && !is_outward(*act)
                        && !next.contains(&(at, anchor))
                    {
                        next.push((at, anchor));
                    }
                }
                if next.is_empty() {
                    return Some(*seq);
                }
                places = next;
            }
        }
    }
    let complete = !is_finished || places.iter().any(|(at, _)| *at == made.len());
    (!complete).then(|| recorded.last().map_or(0, |(seq, ..)| *seq))
}

fn is_outward(act: Act) -> bool {
    matches!(act, Act::Called(kind) if kind.is_outward())
}

/// A record as far as a replay is compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Did(Act),
    /// The world told the run something.
    Told,
}

/// What the log says that tasks did.
fn deeds(out: &Out, view: &View, run: Uuid, total: u64) -> Result<Vec<(u64, Tid, Deed)>, LogError> {
    if let Some(error) = view.refused(run) {
        return Err(error.clone());
    }
    let mut progress = Progress::new(out, "reading", total);
    let mut deeds = Vec::new();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        let record = record?;
        progress.add(1);
        if let Some(deed) = deed(&record) {
            deeds.push((record.seq, record.tid, deed));
        }
    }
    // The error of a run that is not its root's own comes after the root's end, and no task did it.
    let ends: Vec<usize> = deeds
        .iter()
        .enumerate()
        .filter(|(_, (_, tid, deed))| *tid == Tid(1) && is_end(*deed))
        .map(|(at, _)| at)
        .collect();
    if let [_, .., last] = ends[..] {
        deeds.remove(last);
    }
    Ok(deeds)
}

fn is_end(deed: Deed) -> bool {
    matches!(deed, Deed::Did(Act::Exited | Act::Aborted | Act::Cancelled))
}

fn deed(record: &Record<'_>) -> Option<Deed> {
    Some(Deed::Did(match record.record_type()? {
        RecordType::TaskSpawn => Act::Called(CallKind::Spawn),
        RecordType::TaskYield => {
            let kind = CallKind::parse(&record.str("call")?)?;
            Act::Called((kind != CallKind::Yield).then_some(kind)?)
        }
        RecordType::TaskExit => Act::Exited,
        RecordType::TaskAbort => Act::Aborted,
        RecordType::TaskCancel => Act::Cancelled,
        RecordType::TaskWake
        | RecordType::EffectResult
        | RecordType::PromiseSettled
        | RecordType::Message => {
            // What was said while the run was not running is told as soon as its calls to the world are made.
            return record.uint("step").filter(|step| *step > 0).map(|_| Deed::Told);
        }
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a log such as `s e! a | a x.`: calls by letter, `!` told, `.` the end, `|` a process that ended.
    fn log(text: &str) -> Vec<(u64, Tid, Deed)> {
        let deeds = text.chars().filter(|c| !matches!(c, ' ' | '|')).map(|c| match c {
            '!' => Deed::Told,
            c => Deed::Did(act_of(c)),
        });
        deeds.enumerate().map(|(at, deed)| (at as u64 + 1, Tid(1), deed)).collect()
    }

    fn act_of(c: char) -> Act {
        match c {
            's' => Act::Called(CallKind::Sleep),
            'e' => Act::Called(CallKind::Effect),
            'a' => Act::Called(CallKind::GetTid),
            'b' => Act::Called(CallKind::Get),
            '.' => Act::Exited,
            c => panic!("{c} is nothing that a task does"),
        }
    }

    #[test]
    fn what_a_run_did_again_after_it_was_brought_back_is_no_difference() {
        for (recorded, made, expected) in [
            ("a s ! b e ! .", "asbe.", None),
            ("a s ! b | b | b e ! .", "asbe.", None),
            ("s ! a | a a e ! .", "saae.", None),
            ("s ! a a | a a b | a a b e ! .", "saabe.", None),
            ("a s ! b e ! .", "asae.", Some(4)),
            ("a s ! b | a e ! .", "asbe.", Some(5)),
            ("a s ! b e ! .", "asbe", Some(7)),
            ("a s ! b e !", "asbe.", Some(6)),
        ] {
            let made: Vec<(Tid, Act)> = made.chars().map(|c| (Tid(1), act_of(c))).collect();
            assert_eq!(first_difference(&log(recorded), &made, true), expected, "{recorded}");
        }
    }

    #[test]
    fn the_log_of_a_run_that_goes_on_may_be_ahead_or_behind() {
        for (recorded, made, expected) in [
            ("a s ! b b", "asb", None),
            ("a s !", "asbe", None),
            ("a s ! e", "asb", Some(4)),
            ("b s !", "as", Some(1)),
        ] {
            let made: Vec<(Tid, Act)> = made.chars().map(|c| (Tid(1), act_of(c))).collect();
            assert_eq!(first_difference(&log(recorded), &made, false), expected, "{recorded}");
        }
    }
}
