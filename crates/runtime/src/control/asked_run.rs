//! Requests about one run, for the three places where a run can be: running, dormant in a runtime, or
//! in a log that no process has open. The functions here define what a request means; an
//! implementation of the traits finds the run in its place and writes to its log.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Time, Uuid};

use crate::host::inbox::unknown;
use crate::program::run_limits::RunLimits;
use crate::run_log::dormant_run::DormantRun;
use crate::run_log::hold::{Hold, not_held};
use crate::run_log::page::Page;
use tiffany_records::errors::not_in_doubt;
use tiffany_records::key::Key;
use tiffany_records::request::{
    Answer, Approval, Decision, Request, Ruling, Settlement, no_such_approval, parse_key,
};

/// A value or an error that a promise is settled with.
pub(crate) type Settling = Result<Box<RawValue>, TaskError>;

/// A run that is not finished.
pub(crate) trait AskedRun {
    /// Whether a person or a limit holds it.
    fn is_held(&self) -> bool;

    /// Holds it.
    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError>;

    /// Lets it continue.
    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError>;

    /// Cancels it, whether it is held or not. Returns a warning for the client, if there is one.
    fn cancel(&mut self) -> Result<Option<String>, TaskError>;

    /// Sends it a message from outside.
    fn send(&mut self, name: &str, message: &RawValue) -> Result<(), TaskError>;

    /// Lets a fork do effects of these names.
    fn allow(&mut self, names: &BTreeSet<String>) -> Result<(), TaskError>;

    /// Settles an external promise. `None`: it has no such promise.
    fn settle(&mut self, promise: Uuid, result: &Settling)
    -> Result<Option<Settlement>, TaskError>;

    /// Decides on a step in doubt. `false`: no such step waits for that.
    fn decide(&mut self, key: Key, decision: &Decision) -> Result<bool, TaskError>;

    /// Answers a question.
    fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError>;
}

/// The runs of one place.
pub(crate) trait AskedRuns {
    /// Finds a run that is not finished. The error says why there is none, or why it can't be read.
    fn find(&mut self, run: Uuid) -> Result<Box<dyn AskedRun + '_>, TaskError>;

    /// The error for a request that names a call by its key, if the run of that call isn't found: `why`,
    /// or `otherwise`, which names only the key.
    fn not_found(&self, why: TaskError, otherwise: TaskError) -> TaskError;

    /// Settles a promise whose run isn't named. `None`: none has it.
    fn settle_any(
        &mut self,
        promise: Uuid,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError>;

    /// Settles a promise of which no unfinished run is known, or returns why that is not possible.
    fn settle_late(&self, promise: Uuid, why: TaskError) -> Result<Settlement, TaskError>;

    /// Answers a question whose id isn't the key of a call.
    fn resolve_other(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError>;

    /// Why a question isn't open.
    fn why_not_open(&self, approval: &str) -> TaskError;
}

/// Does what is asked of one run. `Continue`: the request is another one.
pub(crate) fn carry_out(
    runs: &mut impl AskedRuns,
    request: Request,
) -> ControlFlow<Result<Answer, TaskError>, Request> {
    ControlFlow::Break(match request {
        Request::Hold { run, by, why } => hold(runs, run, &Hold::Person { by, why }),
        Request::Release { run, by, why } => release(runs, run, &by, why.as_deref()),
        Request::Cancel { run } => cancel(runs, run),
        Request::Send { run, name, message } => send(runs, run, &name, &message),
        Request::Allow { run, names } => allow(runs, run, &names),
        Request::Settle { run, promise, result } => settle(runs, run, promise, &result),
        Request::Decide { key, decision } => decide(runs, &key, &decision),
        Request::Resolve { approval, ruling } => {
            resolve(runs, &approval, ruling).map(Answer::Approval)
        }
        other => return ControlFlow::Continue(other),
    })
}

fn hold(runs: &mut impl AskedRuns, run: Uuid, hold: &Hold) -> Result<Answer, TaskError> {
    let mut asked = runs.find(run)?;
    if !asked.is_held() {
        asked.hold(hold)?;
    }
    Ok(Answer::Done)
}

fn release(
    runs: &mut impl AskedRuns,
    run: Uuid,
    by: &str,
    why: Option<&str>,
) -> Result<Answer, TaskError> {
    let mut asked = runs.find(run)?;
    match asked.is_held() {
        true => asked.release(by, why).map(|()| Answer::Done),
        false => Err(not_held(run)),
    }
}

fn cancel(runs: &mut impl AskedRuns, run: Uuid) -> Result<Answer, TaskError> {
    Ok(match runs.find(run)?.cancel()? {
        None => Answer::Done,
        Some(warning) => Answer::Warned { answer: Box::new(Answer::Done), warning },
    })
}

fn send(
    runs: &mut impl AskedRuns,
    run: Uuid,
    name: &str,
    message: &RawValue,
) -> Result<Answer, TaskError> {
    runs.find(run)?.send(name, message).map(|()| Answer::Done)
}

fn allow(
    runs: &mut impl AskedRuns,
    run: Uuid,
    names: &BTreeSet<String>,
) -> Result<Answer, TaskError> {
    runs.find(run)?.allow(names).map(|()| Answer::Done)
}

fn settle(
    runs: &mut impl AskedRuns,
    named: Option<Uuid>,
    promise: Uuid,
    result: &Settling,
) -> Result<Answer, TaskError> {
    let found = match named {
        None => Ok(runs.settle_any(promise, result)),
        Some(run) => runs.find(run).map(|mut asked| asked.settle(promise, result)),
    };
    let late = match found {
        Ok(settled) => match settled? {
            Some(settlement) => return Ok(Answer::Settled(settlement)),
            None => unknown(promise),
        },
        Err(error) if error.kind() == ErrorKind::RunOver => error,
        Err(error) => return Err(error),
    };
    runs.settle_late(promise, late).map(Answer::Settled)
}

fn decide(runs: &mut impl AskedRuns, key: &str, decision: &Decision) -> Result<Answer, TaskError> {
    let parsed = parse_key(key)?;
    let found = runs.find(parsed.run).map(|mut asked| asked.decide(parsed, decision));
    match found {
        Ok(decided) => match decided? {
            true => Ok(Answer::Done),
            false => Err(not_in_doubt(key)),
        },
        Err(error) => Err(runs.not_found(error, not_in_doubt(key))),
    }
}

/// Answers a question, by its id. The first answer holds.
pub(crate) fn resolve(
    runs: &mut impl AskedRuns,
    approval: &str,
    ruling: Ruling,
) -> Result<Approval, TaskError> {
    let found = match Key::parse(approval) {
        None => Ok(runs.resolve_other(approval, ruling)),
        Some(key) => runs.find(key.run).map(|mut asked| asked.resolve(approval, ruling)),
    };
    let resolved = match found {
        Ok(resolved) => resolved,
        // A finished run has no open question.
        Err(error) if error.kind() == ErrorKind::RunOver => Err(no_such_approval(approval)),
        Err(error) => Err(runs.not_found(error, no_such_approval(approval))),
    };
    resolved.map_err(|error| match error.kind() {
        ErrorKind::NoSuchApproval => runs.why_not_open(approval),
        _ => error,
    })
}

/// The names in a request. They must not contain a secret: redacted names could not be found again.
pub(crate) fn names_in(request: &Request) -> Vec<(&'static str, &str)> {
    match request {
        Request::Send { name, .. } => vec![("a message", name)],
        Request::Fork { fork, .. } => fork.names().map(|name| ("a fork", name.as_str())).collect(),
        Request::Allow { names, .. } => {
            names.iter().map(|name| ("an effect", name.as_str())).collect()
        }
        _ => Vec::new(),
    }
}

/// A dormant run. What it is told is written at the end of its log, wherever that log is.
pub(crate) trait AskedDormantRun {
    fn dormant(&self) -> &DormantRun;

    fn is_held(&self) -> bool;

    /// The run, the page for its lines, and the time. An error if its log is too long to be read: a
    /// change might not fit the run.
    fn open(&mut self) -> Result<(&mut DormantRun, &mut Page, Time), TaskError>;

    /// The limits of a run there.
    fn limits(&self) -> Option<RunLimits>;

    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError>;

    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError>;

    fn cancel(&mut self) -> Result<Option<String>, TaskError>;
}

impl<R: AskedDormantRun> AskedRun for R {
    fn is_held(&self) -> bool {
        AskedDormantRun::is_held(self)
    }

    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError> {
        AskedDormantRun::hold(self, hold)
    }

    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        AskedDormantRun::release(self, by, why)
    }

    fn cancel(&mut self) -> Result<Option<String>, TaskError> {
        AskedDormantRun::cancel(self)
    }

    fn send(&mut self, name: &str, message: &RawValue) -> Result<(), TaskError> {
        let limits = self.limits();
        let (dormant, page, clock) = self.open()?;
        dormant.send(page, clock, limits.as_ref(), (name, message))
    }

    fn allow(&mut self, names: &BTreeSet<String>) -> Result<(), TaskError> {
        let (dormant, page, clock) = self.open()?;
        dormant.allow(page, clock, names)
    }

    fn settle(
        &mut self,
        promise: Uuid,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError> {
        if self.dormant().is_bare() {
            return Ok(None);
        }
        let (dormant, page, clock) = self.open()?;
        Ok(dormant.settle(page, clock, (promise, true), result))
    }

    fn decide(&mut self, key: Key, decision: &Decision) -> Result<bool, TaskError> {
        let (dormant, page, clock) = self.open()?;
        Ok(dormant.decide(page, clock, key, decision))
    }

    fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        let (dormant, page, clock) = self.open()?;
        dormant.resolve(page, clock, approval, ruling)
    }
}
