//! What is said of a replay: whether a run came again as its log has it, record by record. It knows nothing of where the records are, nor of how that is
//! shown.

use tiffany_kernel::{CallKind, ErrorKind, TaskError, Tid};

use crate::run_log::replay::dry_run::{Act, DryRun};
use tiffany_log::LogLine;
use tiffany_records::record::Record;
use tiffany_records::value::is_same;

/// Whether a run came again as its log has it.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Every record came again.
    Identical,
    /// All calls that concern the world did. Between them something changed, from this record on.
    SameCalls(u64),
    /// The program and the log part.
    Apart(TaskError),
    /// The calls are the same, and the end is another.
    OtherEnd(String),
}

impl Verdict {
    /// What it says of a dry_run of a run with these records, which came to this end.
    pub fn of(
        dry_run: &DryRun,
        recorded: &Deeds,
        was: Option<&Result<String, TaskError>>,
    ) -> Verdict {
        if let Some(apart) = &dry_run.apart {
            return Verdict::Apart(apart.clone());
        }
        if let Some(message) = other_end(dry_run, was) {
            return Verdict::OtherEnd(message);
        }
        match first_difference(recorded.of_tasks(), &dry_run.acts, was.is_some()) {
            None => Verdict::Identical,
            Some(at) => Verdict::SameCalls(at),
        }
    }

    /// The error, if the run is not the same.
    pub(crate) fn into_error(self) -> Option<TaskError> {
        match self {
            Verdict::Identical | Verdict::SameCalls(_) => None,
            Verdict::Apart(error) => Some(error),
            Verdict::OtherEnd(message) => Some(TaskError::new(ErrorKind::Diverged, message)),
        }
    }
}

/// How a run ends otherwise than its log says, if it does.
fn other_end(dry_run: &DryRun, was: Option<&Result<String, TaskError>>) -> Option<String> {
    let (is, was) = (dry_run.outcome.as_ref(), was?);
    let same = match (is, was) {
        (Some(Ok(is)), Ok(was)) => is_same(is, was),
        (Some(Err(is)), Err(was)) => is.code() == was.code(),
        _ => false,
    };
    let words = |outcome: &Result<String, TaskError>| match outcome {
        Ok(value) => format!("the value {value}"),
        Err(error) => format!("the error {}: {}", error.code(), error.message()),
    };
    (!same).then(|| {
        let is = is.map_or("no end".to_owned(), words);
        format!("the run now ends with {is}, and ended with {}", words(was))
    })
}

/// What the log says that tasks did.
#[derive(Default)]
pub struct Deeds(Vec<(u64, Tid, Deed)>);

impl Deeds {
    /// Takes in the next record.
    pub fn add(&mut self, record: &LogLine<'_>) {
        if let Some(deed) = deed(&Record::read(record)) {
            self.0.push((record.seq, record.tid, deed));
        }
    }

    /// Without the error of a run that is not its root's own: it comes after the root's end, and no task did it.
    fn of_tasks(&self) -> impl Iterator<Item = &(u64, Tid, Deed)> {
        let is_root_end = |(_, tid, deed): &(u64, Tid, Deed)| *tid == Tid(1) && is_end(*deed);
        let mut ends = self.0.iter().rev().filter(|deed| is_root_end(deed));
        let last = ends.next().map(|(seq, ..)| *seq);
        let left_out = ends.next().and(last);
        self.0.iter().filter(move |(seq, ..)| Some(*seq) != left_out)
    }
}

/// The first record that a replay does not have. A resumed run writes the records after its last
/// completion again, so the log may go back to there at any record.
fn first_difference<'a>(
    recorded: impl IntoIterator<Item = &'a (u64, Tid, Deed)>,
    made: &[(Tid, Act)],
    is_finished: bool,
) -> Option<u64> {
    // Where in the replay this record may be, and where the log may go back to from there.
    let mut places = vec![(0, 0)];
    let mut last = 0;
    for (seq, tid, deed) in recorded {
        last = *seq;
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
                    // The log of a running run can be ahead of a replay, which stops where nothing
                    // outward is left.
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
    (!complete).then_some(last)
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

fn is_end(deed: Deed) -> bool {
    matches!(deed, Deed::Did(Act::Exited | Act::Aborted | Act::Cancelled))
}

fn deed(record: &Record<'_>) -> Option<Deed> {
    let step = match record {
        Record::TaskSpawn(_) => return Some(Deed::Did(Act::Called(CallKind::Spawn))),
        Record::TaskYield(call) => {
            let kind = call.kind().filter(|kind| *kind != CallKind::Yield)?;
            return Some(Deed::Did(Act::Called(kind)));
        }
        Record::TaskExit(_) => return Some(Deed::Did(Act::Exited)),
        Record::TaskAbort(_) => return Some(Deed::Did(Act::Aborted)),
        Record::TaskCancel(_) => return Some(Deed::Did(Act::Cancelled)),
        Record::TaskWake(wake) => wake.step,
        Record::EffectResult(result) => result.step,
        Record::ApprovalDecided(decided) => decided.step,
        Record::PromiseSettled(settled) => settled.step,
        Record::Message(message) => message.step,
        _ => None,
    };
    // What was said while the run was not running is told as soon as its calls to the world are made.
    step.filter(|step| *step > 0).map(|_| Deed::Told)
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
