//! A run that differs from its log, and the likely reason. The cause is found by trying which of
//! the usual edits of a program explains most of the log.

use tiffany_kernel::{About, CallRecord, ErrorKind, Site, TaskError, Tid};

use crate::program::language::Language;
use crate::run_log::replay::decoded_log::{Beginning, DecodedLog, Recorded};
use crate::run_log::replay::matcher::{about_text, differs};
use tiffany_records::call_words::call_shown;
use tiffany_records::redact::Redactions;

/// The point at which a replay and its log differ.
#[derive(Clone, Debug)]
pub(crate) struct Divergence {
    pub(crate) tid: Tid,
    /// The call that the task makes now; `None` if it makes none.
    pub(crate) made: Option<Made>,
    /// The call that the log has; `None` if the task had ended there.
    pub(crate) recorded: Option<Recorded>,
    /// The record that is the same as the call that is made now.
    pub(crate) later: Option<u64>,
    /// The difference between the two.
    pub(crate) difference: String,
}

/// A call that is made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    tag: &'static str,
    name: Option<&'static str>,
    about: String,
    at: Site,
}

impl Made {
    pub(crate) fn new(call: &CallRecord) -> Made {
        // The end of a sleep depends on when this is tried.
        let about = match &call.about {
            About::Time(_) => String::new(),
            about => about_text(about),
        };
        Made { tag: call.kind.tag(), name: call.name, about, at: call.at.clone() }
    }

    /// Its name, or its kind.
    pub(crate) fn called(&self) -> &str {
        self.name.unwrap_or(self.tag)
    }

    pub(crate) fn at(&self) -> &Site {
        &self.at
    }
}

/// The likely edit of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Renamed,
    Reordered,
    Removed,
    Added,
    Argument,
    Unsteady,
}

impl Cause {
    fn text(self) -> &'static str {
        match self {
            Cause::Renamed => "the call was renamed",
            Cause::Reordered => "calls changed places",
            Cause::Removed => "a call was removed",
            Cause::Added => "a call was added",
            Cause::Argument => "the input of the call changed",
            Cause::Unsteady => {
                "the code is not the same twice: it asks the time, a random source or the environment directly"
            }
        }
    }
}

/// How far a replay came, with the log as it is or as an edit would have left it.
#[derive(Default)]
pub(crate) struct Trial {
    pub(crate) matched: usize,
    pub(crate) stopped: Option<Divergence>,
    /// Calls that were made where the log has no more.
    pub(crate) beyond: Vec<Made>,
}

impl Divergence {
    /// Whether another replay parted at the same place in the same way.
    pub(crate) fn is_same(&self, other: &Divergence) -> bool {
        let record = |this: &Divergence| this.recorded.as_ref().map(|recorded| recorded.seq);
        self.tid == other.tid && self.made == other.made && record(self) == record(other)
    }

    /// The edits that could explain it, each with the log as that edit would have left it.
    pub(crate) fn suspects(&self, decoded: &DecodedLog) -> Vec<(Cause, DecodedLog)> {
        let (Some(made), Some(recorded)) = (&self.made, &self.recorded) else { return Vec::new() };
        let mut suspects = Vec::new();
        if made.tag == recorded.kind.tag() && recorded.has_name(made.name) {
            suspects.push((Cause::Argument, decoded.accepting(recorded.seq)));
        } else if made.tag == recorded.kind.tag() {
            suspects.push((Cause::Renamed, decoded.accepting(recorded.seq)));
        }
        if let Some(later) = self.later {
            suspects.push((Cause::Reordered, decoded.moving(self.tid, later, recorded.seq)));
            suspects.push((Cause::Removed, decoded.without(self.tid, recorded.seq)));
        }
        suspects
    }

    /// The edit that explains most, given how far each of them came and how far the replay came without.
    pub(crate) fn judge(&self, matched: usize, trials: &[(Cause, Trial)]) -> Cause {
        let (Some(_), Some(recorded)) = (&self.made, &self.recorded) else {
            return if self.made.is_some() { Cause::Added } else { Cause::Removed };
        };
        // A call that was added before the recorded one is taken for it, and then that one is made too.
        let made_after_all = |trial: &Trial| {
            let stopped = trial.stopped.iter().filter_map(|divergence| divergence.made.as_ref());
            stopped
                .chain(&trial.beyond)
                .any(|made| made.tag == recorded.kind.tag() && recorded.has_name(made.name))
        };
        let fits = |(cause, trial): &&(Cause, Trial)| match cause {
            Cause::Renamed => !made_after_all(trial),
            _ => true,
        };
        let best = trials.iter().filter(fits).max_by_key(|(_, trial)| trial.matched);
        match best {
            Some((cause, trial)) if trial.matched > matched => *cause,
            _ => Cause::Added,
        }
    }

    /// Converts it to an error without the cause.
    pub(crate) fn into_plain_error(self, language: Option<&dyn Language>) -> TaskError {
        TaskError::new(ErrorKind::Diverged, self.describe(language))
    }

    /// Converts it to an error with its likely causes: the edit, and the differences in the
    /// environment in which the run began.
    pub(crate) fn into_error(
        self,
        cause: Cause,
        language: Option<&dyn Language>,
        beginning: &Beginning,
    ) -> TaskError {
        let mut what = format!("{}; likely {}", self.describe(language), cause.text());
        let note = beginning.language.as_deref();
        if let Some(suspect) =
            language.zip(note).and_then(|(language, note)| language.suspects(note))
        {
            what.push_str(&format!(", or {suspect}"));
        }
        TaskError::new(ErrorKind::Diverged, what)
    }

    fn describe(self, language: Option<&dyn Language>) -> String {
        let is = self.made.as_ref().map(|made| {
            let reads = language.and_then(|language| language.source(&made.at));
            let reads = reads.map_or(String::new(), |text| format!(" (`{text}`)"));
            format!("makes {} at {}{reads}", call_shown(made.tag, made.name), made.at)
        });
        let was = self.recorded.as_ref().map(|was| {
            let (what, at) = was.shown();
            let place =
                at.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
            let reads = language
                .zip(place)
                .and_then(|(language, (file, line))| language.source_then(file, line, was.clock));
            let reads = reads.map_or(String::new(), |text| format!(" (`{text}`)"));
            format!("record {} has {what} at {at}{reads}", was.seq)
        });
        let (tid, difference) = (self.tid, self.difference);
        match (is, was) {
            (Some(is), Some(was)) => format!("task {tid} now {is}, where {was}: {difference}"),
            (Some(is), None) => format!("task {tid} now {is}, where its log says that it ended"),
            (None, Some(was)) => format!("{was} by task {tid}, which is not made any more"),
            (None, None) => "the log has a call that is not made any more".into(),
        }
    }
}

/// Where a call is not the recorded one.
pub(crate) fn part(
    tid: Tid,
    call: &CallRecord,
    (recorded, rules): (Recorded, Option<&Redactions>),
    rest: Option<&std::collections::VecDeque<Recorded>>,
    difference: String,
) -> Divergence {
    let is_it = |recorded: &&Recorded| differs(call, recorded, rules).is_none();
    let later = rest.into_iter().flatten().find(is_it).map(|recorded| recorded.seq);
    Divergence { tid, made: Some(Made::new(call)), recorded: Some(recorded), later, difference }
}
