//! Finds the process that drives the runs of a directory, asks it on behalf of read-only commands,
//! and explains what to do without one. A run whose process has ended is still `live` in its log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::error::Shown;
use super::remote::Remote;
use tiffany::control::Control;
use tiffany_daemon::shell_word;
use tiffany_log::lasting_holder;

/// How long a read-only command waits for the process before it reads the files.
pub(super) const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a command waits for the reason of the delay, which is answered without the loop.
const REASON_TIMEOUT: Duration = Duration::from_millis(200);

/// How the process is reached that drives the runs.
#[derive(Clone)]
pub(super) enum Reach {
    /// By the socket in its directory.
    Dir(PathBuf),
    /// Over HTTP.
    Daemon(Arc<Remote>),
}

impl Reach {
    /// The process, if there is one.
    pub(super) fn connect(&self) -> Result<Option<Control>, TaskError> {
        match self {
            Reach::Dir(dir) => Control::connect(dir),
            Reach::Daemon(remote) => remote.control().map(Some),
        }
    }
}

/// The result of asking the process.
pub(super) enum Heard<T> {
    /// No process listens.
    Nobody,
    Said(T),
    /// The process doesn't answer in time.
    Silent(Silence),
}

/// A process that doesn't answer, and the reason as far as it is known.
#[derive(Clone)]
pub(super) struct Silence {
    pub(super) pid: Option<u32>,
    why: String,
    next: String,
}

/// Asks the process that owns the log. If it doesn't answer in time, the caller reads the files.
pub(super) fn ask<T>(
    reach: &Reach,
    ask: impl FnOnce(&mut Control) -> Result<T, TaskError>,
) -> Result<Heard<T>, TaskError> {
    let dir = match reach {
        Reach::Dir(dir) => dir,
        // There are no files to look at instead.
        Reach::Daemon(remote) => return ask(&mut remote.control()?).map(Heard::Said),
    };
    let heard = match Control::connect_within(dir, LOOK_TIMEOUT) {
        Ok(None) => return Ok(Heard::Nobody),
        Ok(Some(mut control)) => ask(&mut control),
        Err(error) => Err(error),
    };
    match heard {
        Ok(said) => Ok(Heard::Said(said)),
        Err(error) if error.kind() == ErrorKind::Unreachable => {
            Ok(Heard::Silent(Silence::of(dir, &error)))
        }
        Err(error) => Err(error),
    }
}

impl Silence {
    /// Describes a process stopped by a signal; `None` if it isn't stopped.
    pub(super) fn of_stopped(pid: u32) -> Option<Silence> {
        is_stopped(pid).then(|| Silence {
            pid: Some(pid),
            why: format!("process {pid} owns the directory and is stopped"),
            next: format!("`kill -CONT {pid}` continues it"),
        })
    }

    pub(super) fn of(dir: &Path, error: &TaskError) -> Silence {
        let pid = lasting_holder(dir).map(|holder| holder.pid);
        let name = pid.map_or_else(|| "the process".into(), |pid| format!("process {pid}"));
        if let Some(stopped) = pid.and_then(Silence::of_stopped) {
            return stopped;
        }
        let turn = || {
            let mut control = Control::connect_within(dir, REASON_TIMEOUT).ok()??;
            control.long_turns().ok()?.pop().filter(|turn| !turn.is_over)
        };
        let (why, next) = match turn() {
            Some(turn) => (
                format!("{name} owns the directory and does not answer: {turn}"),
                "let that task await something now and then, or do the work in a step",
            ),
            None => (format!("{name} owns the directory: {}", error.message()), "try again later"),
        };
        Silence { pid, why, next: next.into() }
    }

    /// Prints on standard error that only the files were read.
    pub(super) fn warn(&self) {
        self.say("this is what the files say");
    }

    /// Prints on standard error that the process doesn't answer, and what the command does instead.
    fn say(&self, so: &str) {
        let why = super::out::clean(&self.why).into_owned();
        let code = ErrorKind::Unreachable.code();
        eprintln!("warning[{code}]: {why}; {so}");
        eprintln!("  next: {}", self.next);
    }

    /// Returns one line with the reason and the next step.
    pub(super) fn text(&self) -> String {
        format!("{}, so the run makes no progress; {}", self.why, self.next)
    }

    /// Adds the reason to a JSON object.
    pub(super) fn note(this: Option<&Silence>, object: &mut Value) {
        if let Some(silence) = this {
            object["unanswered"] = silence.why.clone().into();
        }
    }

    pub(super) fn shown(&self, exit: u8) -> Shown {
        Shown {
            code: ErrorKind::Unreachable.code().into(),
            message: self.why.clone(),
            next: self.next.clone(),
            exit,
        }
    }
}

/// Prints on standard error why the process doesn't answer, while the command waits.
pub(super) fn say_that_it_waits(dir: &Path) {
    let error = TaskError::new(ErrorKind::Unreachable, "it does not answer");
    Silence::of(dir, &error).say("waiting half a minute at most for its answer");
}

/// Returns whether a process was stopped by a signal.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain any character, including parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Returns the id of the process that owns the log, and so drives its runs. A command that only
/// appends to the log doesn't count.
pub(super) fn process(reach: &Reach) -> Option<u32> {
    let dir = match reach {
        Reach::Dir(dir) => dir,
        Reach::Daemon(remote) => return remote.control().ok()?.status().ok().map(|it| it.pid),
    };
    let holder = lasting_holder(dir).map(|holder| holder.pid);
    // The lock of a process in another container is invisible, but its socket answers.
    holder.or_else(|| Control::connect_within(dir, LOOK_TIMEOUT).ok().flatten()?.peer())
}

/// Returns the runs that the process doesn't drive, and why: in their logs they are live. If the
/// process doesn't answer, that is printed on standard error.
pub(super) fn paused(reach: &Reach) -> (BTreeMap<Uuid, TaskError>, Option<Silence>) {
    match ask(reach, Control::status) {
        Ok(Heard::Said(status)) => {
            let paused = status.paused.into_iter().map(|paused| (paused.run, paused.error));
            (paused.collect(), None)
        }
        Ok(Heard::Silent(silence)) => {
            silence.warn();
            (BTreeMap::new(), Some(silence))
        }
        Ok(Heard::Nobody) | Err(_) => (BTreeMap::new(), None),
    }
}

/// Returns the next step if no process drives the runs.
pub(super) fn start(dir: &Path) -> String {
    let dir = dir.display().to_string();
    format!(
        "start `tiffany serve --app FILE --dir {}` (Python), or the program that has the functions (by its own `serve`, if it has one)",
        shell_word(&dir)
    )
}
