//! All meters of a runtime. Any thread adds to them; `report.rs` reads them. Turns of tasks touch
//! none of them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tiffany_kernel::{CallKind, ErrorKind, TaskError};

use super::Source;
use super::disk::Disk;
use super::meter::{BYTES, Counter, Histogram, LONG_TIMES, Named, SIZES, TIMES};
use crate::activity::hub::Hub;
use crate::metrics::loop_state::Standing;
use crate::watchdog::LongTurns;
use tiffany_log::sync::{Condvar, Mutex};
use tiffany_log::{Commit, CommitObserver};
use tiffany_records::RunError;

/// How long a reader waits for the loop's state before it gets the last known one instead.
const LOOP_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct Meters {
    pub(crate) turns: Counter,
    pub(crate) calls: CallMeters,
    pub(crate) busy: Times,
    pub(crate) waits: Counter,
    pub(crate) wait_time: Counter,
    pub(crate) timer_late: Times,
    pub(crate) stuck: Arc<Counter>,
    pub(crate) long_turns: Arc<LongTurns>,
    pub(crate) started_durable: Counter,
    pub(crate) started_ephemeral: Counter,
    pub(crate) runs: Named<RunMeters>,
    pub(crate) unobserved: Counter,
    pub(crate) resumed_live: Counter,
    pub(crate) resumed_paused: Counter,
    pub(crate) resume_time: Times,
    pub(crate) divergences: Counter,
    pub(crate) effects: Named<EffectMeters>,
    pub(crate) late: Counter,
    pub(crate) ignored: Counter,
    pub(crate) waited: Waited,
    pub(crate) log: Arc<LogMeters>,
    pub(crate) disk: OnceLock<Disk>,
    pub(crate) hub: OnceLock<Hub>,
    pub(crate) sources: Mutex<Vec<Source>>,
    standing: Mutex<Told>,
    told: Condvar,
}

/// Calls by their kind.
pub(crate) struct CallMeters(pub(crate) [Counter; CallKind::ALL.len()]);

impl Default for CallMeters {
    fn default() -> CallMeters {
        CallMeters(std::array::from_fn(|_| Counter::default()))
    }
}

/// The state that the loop has reported.
#[derive(Default)]
struct Told {
    /// Whether the loop was asked and has not answered yet.
    is_asked: bool,
    /// How often the loop has answered.
    count: u64,
    last: Option<(Instant, Arc<Standing>)>,
}

/// A histogram of durations.
#[derive(Debug)]
pub(crate) struct Times(pub(crate) Histogram);

impl Default for Times {
    fn default() -> Times {
        Times(Histogram::new(&TIMES))
    }
}

/// A histogram of durations that may be days.
#[derive(Debug)]
pub(crate) struct LongTimes(pub(crate) Histogram);

impl Default for LongTimes {
    fn default() -> LongTimes {
        LongTimes(Histogram::new(&LONG_TIMES))
    }
}

/// Waiting times, by reason.
#[derive(Default)]
pub(crate) struct Waited {
    pub(crate) effect: LongTimes,
    pub(crate) queue: LongTimes,
    pub(crate) commit: LongTimes,
    pub(crate) approval: LongTimes,
}

/// Figures of the runs of one function.
#[derive(Default)]
pub(crate) struct RunMeters {
    pub(crate) outcomes: [Counter; RUN_OUTCOMES.len()],
    pub(crate) time: LongTimes,
}

pub(crate) const RUN_OUTCOMES: [&str; 5] =
    ["completed", "failed", "cancelled", "deadlock", "limit"];

impl RunMeters {
    pub(crate) fn ended(&self, error: Option<&RunError>, time: Duration) {
        let outcome = match error {
            None => 0,
            Some(RunError::Cancelled(_)) => 2,
            Some(RunError::Deadlock(_)) => 3,
            Some(RunError::Limit(_)) => 4,
            Some(_) => 1,
        };
        self.outcomes[outcome].add(1);
        self.time.0.observe_time(time);
    }
}

/// Figures of the attempts at steps with one name.
#[derive(Default)]
pub(crate) struct EffectMeters {
    pub(crate) outcomes: [Counter; ATTEMPT_OUTCOMES.len()],
    pub(crate) retries: Counter,
    pub(crate) time: Times,
}

pub(crate) const ATTEMPT_OUTCOMES: [&str; 5] =
    ["ok", "failed", "timed_out", "in_doubt", "cancelled"];

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttemptOutcome {
    Ok,
    Failed,
    TimedOut,
    InDoubt,
    Cancelled,
}

impl AttemptOutcome {
    pub(crate) fn of<T>(tried: Result<T, &TaskError>) -> AttemptOutcome {
        match tried.map_err(TaskError::kind) {
            Ok(_) => AttemptOutcome::Ok,
            Err(ErrorKind::TimedOut) => AttemptOutcome::TimedOut,
            Err(ErrorKind::InDoubt) => AttemptOutcome::InDoubt,
            Err(_) => AttemptOutcome::Failed,
        }
    }
}

impl EffectMeters {
    pub(crate) fn attempted(&self, outcome: AttemptOutcome, time: Duration) {
        self.outcomes[outcome as usize].add(1);
        self.time.0.observe_time(time);
    }
}

/// Figures of the commit log.
#[derive(Debug)]
pub(crate) struct LogMeters {
    pub(crate) time: Histogram,
    pub(crate) records: Histogram,
    pub(crate) bytes: Histogram,
}

impl Default for LogMeters {
    fn default() -> LogMeters {
        let [time, records, bytes] = [&TIMES, &SIZES, &BYTES].map(Histogram::new);
        LogMeters { time, records, bytes }
    }
}

impl CommitObserver for LogMeters {
    fn committed(&self, commit: Commit) {
        self.time.observe_time(commit.time);
        self.bytes.observe(commit.bytes);
        self.records.observe(commit.records);
    }
}

impl Meters {
    /// Sets the directory of the log.
    pub(crate) fn has_log_in(&self, dir: PathBuf) {
        drop(self.disk.set(Disk::new(dir)));
    }

    /// Stores the state that the loop reports.
    pub(crate) fn tell(&self, standing: Standing) {
        let mut told = self.standing.lock();
        told.is_asked = false;
        told.count += 1;
        told.last = Some((Instant::now(), Arc::new(standing)));
        self.told.notify_all();
    }

    /// Asks the loop for its state and waits for the answer, but not for long: the loop may be busy
    /// or not driven.
    pub(crate) fn ask(&self, ask: impl FnOnce()) {
        let mut told = self.standing.lock();
        let count = told.count;
        // One question is enough for all readers; it is sent only once while the loop does not read
        // it.
        if !std::mem::replace(&mut told.is_asked, true) {
            ask();
        }
        let until = Instant::now() + LOOP_TIMEOUT;
        while told.count == count && !self.told.wait_until(&mut told, until) {}
    }

    /// The last state that the loop reported, and its age.
    pub(crate) fn standing(&self) -> Option<(Duration, Arc<Standing>)> {
        let told = self.standing.lock();
        told.last.as_ref().map(|(when, standing)| (when.elapsed(), Arc::clone(standing)))
    }
}
