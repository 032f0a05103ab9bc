//! Unfinished runs according to their logs, for commands that list what waits for a person. Logs
//! that cannot be read are kept apart, since their content is unknown.

use serde_json::json;
use tiffany_kernel::Uuid;

use super::Done;
use super::driver;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::Place;
use super::summary::count;
use tiffany::command::{DormantRun, decode_run, fetch};
use tiffany_log::{LogError, Payload, RunState, View};

/// The runs whose logs cannot be read completely, and why.
#[derive(Default)]
pub(super) struct Unread(Vec<(Uuid, LogError)>);

/// Reads the unfinished runs that the caller wants.
pub(super) fn dormant_runs(view: &View, wants: impl Fn(Uuid) -> bool) -> (Vec<DormantRun>, Unread) {
    let (mut runs, mut unread) = (Vec::new(), Vec::new());
    for (run, entry) in view.runs().filter(|(_, entry)| entry.state == RunState::Live) {
        if !wants(run) {
            continue;
        }
        match decode_run(view, run) {
            Ok(decoded) => {
                let fetch = |payload: &Payload<'_>| fetch(&**view.disk(), view.root(), payload);
                let read = DormantRun::new(entry.chain(run), &decoded, &fetch);
                unread.extend(read.unreadable().iter().map(|error| (run, error.clone())));
                runs.push(read);
            }
            // An unreadable run doesn't prevent listing the others.
            Err(error) => unread.push((run, error)),
        }
    }
    (runs, Unread(unread))
}

impl Unread {
    /// Reads the paused runs of a log that a process owns; the process knows its other runs from
    /// memory.
    pub(super) fn of_paused(place: &Place, view: &View) -> Unread {
        let (paused, _) = driver::paused(&place.reach);
        dormant_runs(view, |run| paused.contains_key(&run)).1
    }

    /// Keeps only what concerns this run.
    pub(super) fn retain(&mut self, run: Uuid) {
        self.0.retain(|(of, _)| *of == run);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends a list of `what`: with an error if something could not be read.
    pub(super) fn end(self, mut out: Out, what: &str) -> Done {
        let Unread(unread) = self;
        for (run, error) in &unread {
            self::tell(&mut out, *run, &Shown::from(error.clone()))?;
        }
        out.flush()?;
        match unread.len() {
            0 => out.end(0),
            many => {
                let problems = count(many as u64, "problem");
                let message = format!("this may not be all {what}: {problems} in the logs");
                Err(CliError::Damage(message).into())
            }
        }
    }
}

fn tell(out: &mut Out, run: Uuid, error: &Shown) -> Result<(), Ending> {
    match out.json {
        true => out.json(&json!({ "run": run.to_string(), "error": error.json() })),
        false => {
            let (message, code) = (&error.message, &error.code);
            let line = format!("can't read all of run {run}: {message} [{code}]");
            out.text(Style::Bad, &line)
        }
    }
}
