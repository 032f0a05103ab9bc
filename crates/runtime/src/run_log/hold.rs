//! Why runs are held, and the text of that in the log. It holds nothing itself.

use crate::program::run_limits::Overrun;
use crate::run_log::replay::decoded_log::DecodedLog;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_records::record::{Record, RunHeld, Text, Wake, owned};

/// Why a run is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Person {
        by: String,
        why: Option<String>,
    },
    Limit(Overrun),
    /// A task kept its turn for this many seconds.
    Turn {
        tid: u64,
        secs: u64,
    },
    /// The number of processes that died in its turns.
    Deaths(u64),
}

impl Hold {
    /// Whether a release doubles what the run may use.
    pub(crate) fn is_limit(&self) -> bool {
        !matches!(self, Hold::Person { .. })
    }

    /// The hold in a log. `why` is the text of [`Hold::why`].
    pub(crate) fn record<'a>(&'a self, why: &'a str) -> RunHeld<'a> {
        let mut held = RunHeld { why: Some(Text::Plain(why)), ..RunHeld::default() };
        match self {
            Hold::Person { by, .. } => held.by = Some(Text::Plain(by)),
            Hold::Limit(Overrun { limit, used, allowed }) => {
                held.limit = Some(Text::Plain(limit));
                (held.used, held.allowed) = (Some(*used), Some(*allowed));
            }
            Hold::Turn { tid, secs } => {
                held.limit = Some(Text::Safe("turn"));
                (held.task, held.used) = (Some(*tid), Some(*secs));
            }
            Hold::Deaths(deaths) => {
                (held.limit, held.used) = (Some(Text::Safe("deaths")), Some(*deaths));
            }
        }
        held
    }

    /// Who holds it and why, as it follows "the run is held".
    pub(crate) fn why(&self) -> String {
        match self {
            Hold::Person { by, why: None } => format!("by {by}"),
            Hold::Person { by, why: Some(why) } => format!("by {by}: {why}"),
            Hold::Limit(overrun) => format!("by a limit: {}", overrun.why()),
            Hold::Turn { tid, secs } => format!(
                "by a limit: its task {tid} kept its turn for {secs} s without a call, so that no other run could continue"
            ),
            Hold::Deaths(deaths) => format!(
                "by a limit: the process died {deaths} times in a row in a turn of this run, which came no further meanwhile"
            ),
        }
    }
}

/// The error for a request to a held run.
pub(crate) fn held(run: Uuid, why: &str) -> TaskError {
    TaskError::new(ErrorKind::RunHeld, format!("run {run} is held {why}"))
}

/// Whether a log says that its run is held, and how often it was released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HoldState {
    pub(crate) held: Option<String>,
    /// How often it was released from a limit's hold.
    pub(crate) releases: u32,
    pub(crate) is_by_limit: bool,
    /// A person or its deadline cancelled it: no limit keeps it from ending.
    pub(crate) is_cancelled: bool,
    /// Its progress. Attempts that only begin, and messages and answers from outside, are not
    /// progress.
    pub(crate) progress: u64,
}

impl HoldState {
    /// Adds the next record.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let is_progress = record.is_end()
            || matches!(
                record,
                Record::TaskSpawn(_)
                    | Record::TaskYield(_)
                    | Record::TaskWake(_)
                    | Record::EffectResult(_)
            );
        self.progress += u64::from(is_progress);
        match record {
            Record::RunHeld(held) => {
                self.held = Some(owned(held.why));
                self.is_by_limit = held.limit.is_some();
            }
            Record::RunReleased(_) => {
                self.held = None;
                let counts = std::mem::take(&mut self.is_by_limit);
                self.releases = self.releases.saturating_add(u32::from(counts));
            }
            Record::TaskWake(wake) => {
                self.is_cancelled |= matches!(wake.wake(), Wake::Cancel { .. } | Wake::Deadline);
            }
            _ => {}
        }
    }
}

/// The hold of a run that is in memory.
#[derive(Default)]
pub(crate) struct Holding {
    /// Why it is held, if it is.
    pub(crate) error: Option<TaskError>,
    pub(crate) is_by_limit: bool,
    pub(crate) releases: u32,
    /// How many turns it had had when a person cancelled it.
    pub(crate) cancelled_at: Option<u64>,
    /// How many tasks and messages it had when its memory was last estimated, and the estimate.
    pub(crate) measured: (usize, u64),
    /// An upper bound of the bytes of its unread messages.
    pub(crate) message_bytes: usize,
}

impl Holding {
    /// The state at the end of a log.
    pub(crate) fn of(decoded: &DecodedLog) -> Holding {
        let cancelled_at = decoded.is_cancelled().then_some(0);
        // Its unread messages are weighed when the next one comes.
        let (releases, message_bytes) = (decoded.hold.releases, usize::MAX);
        Holding { releases, cancelled_at, message_bytes, ..Holding::default() }
    }
}

/// The error for a run that can't be released.
pub(crate) fn not_held(run: Uuid) -> TaskError {
    TaskError::new(ErrorKind::NotHeld, format!("run {run} is not held"))
}
