//! Cancelling runs from outside. The first cancel lets the tasks of a durable run clean up. The
//! second one forces the end: no task has another turn, because a cleanup that never ends would
//! keep its run alive forever.

use std::panic::Location;
use std::sync::Arc;

use tiffany_kernel::{
    LogLevel, Record, RecordKind, Run, RunFailure, RunId, Stage, TaskError, TaskLabel, Tid, Uuid,
    forced_end,
};

use crate::run_log::cancel::Cancel;
use crate::run_log::journal::Journal;
use crate::runtime::Runtime;
use crate::runtime::durable::DurableState;
use crate::runtime::durable_runs::{Beginning, Ended};
use crate::runtime::hosted_runs::Hosted;
use tiffany_log::Chain;
use tiffany_records::RunError;
use tiffany_records::activity::Data;
use tiffany_records::errors::log_failed;
use tiffany_records::key::LogEnd;
use tiffany_records::request::Parent;

/// A cancel of a run that is not running is recorded at the end of its log, and names no turn.
const AT_THE_END: u64 = 0;

impl Hosted {
    /// The effect of the next cancel. A request that is repeated before the cleanup had a turn
    /// changes nothing.
    fn next_cancel(&self) -> Cancel {
        let cancelled_at = self
            .durable_state
            .as_ref()
            .and_then(|durable_state| durable_state.holding.cancelled_at);
        let is_unwinding = cancelled_at.is_some_and(|turns| self.run.steps() > turns);
        if is_unwinding || self.run.is_ending() { Cancel::Forces } else { Cancel::Unwinds }
    }
}

impl Runtime {
    /// Cancels a run that is in memory.
    pub(crate) fn cancel_run(&mut self, id: RunId) {
        match self.runs.durable_place(id) {
            Some(place) => self.cancel_durable(place),
            None => self.with_run(id, Run::cancel_all),
        }
    }

    /// Cancels a durable run, and records that.
    fn cancel_durable(&mut self, place: usize) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        if self.durable.is_none()
            || hosted.durable_state.as_ref().is_none_or(|durable_state| durable_state.is_over)
        {
            return;
        }
        let how = hosted.next_cancel();
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return;
        };
        let mut lines = durable_state.journal.lines_now(&mut durable.page, &mut hosted.run, now);
        lines.cancelled(how);
        let turn = lines.turn();
        let uuid = durable_state.uuid();
        let is_first = !durable_state.is_cancelled();
        match how {
            Cancel::Unwinds => {
                durable_state.holding.cancelled_at.get_or_insert(turn);
                hosted.run.cancel_all();
                if is_first {
                    self.make_room(place);
                }
            }
            Cancel::Forces => {
                let left = hosted.run.force_end();
                self.tell_forced(uuid, &left);
            }
        }
        self.empty_outbox(place);
        self.line_up(place);
        if how == Cancel::Forces {
            self.deliver_parked(uuid);
        }
    }

    /// Ends a run without its code, which is not in memory or was interrupted in the middle of a turn.
    pub(crate) fn force_end_of_log(&mut self, uuid: Uuid, chain: Chain) -> Result<(), TaskError> {
        self.hand_in();
        let clock = self.host.clock.now();
        let durable = self.durable_mut();
        durable.log.catch_up().map_err(log_failed)?;
        let decoded = durable.read_whole(&chain).map_err(log_failed)?;
        let left = decoded.tasks_left();
        let named = name_some(&left);
        let place = self.settings.registry.place(&decoded.beginning.function);
        let spawned_at = place.unwrap_or_else(|| Location::caller()).into();
        let error = forced_end(&named, TaskLabel { tid: Tid(1), name: None, spawned_at });
        let durable = self.durable_mut();
        let mut journal = Journal::new(chain);
        journal.lines_without_turn(&mut durable.page, clock).cancelled(Cancel::Forces);
        let ends = left.into_iter().map(|tid| {
            let kind = RecordKind::Cancelled((tid == Tid(1)).then(|| error.clone()));
            Record { tid, clock, step: AT_THE_END, kind }
        });
        journal.write_all(&mut durable.page, ends);
        if decoded.attributes != decoded.beginning.terms.attributes {
            let mut lines = journal.lines_without_turn(&mut durable.page, clock);
            lines.last_attributes(&decoded.attributes);
        }
        durable.page.batch.finish(&journal.chain);
        self.hand_in();
        self.durable_mut().log.catch_up().map_err(log_failed)?;
        self.tell_forced(uuid, &named);
        let function = self.settings.registry.name(&decoded.beginning.function);
        let outcome = match decoded.outcome {
            Some(Ok(json)) => Ok(Arc::from(json)),
            Some(Err(error)) => Err(RunError::from(RunFailure::Root(error))),
            None => Err(RunError::from(RunFailure::Root(error))),
        };
        let time = clock.saturating_since(decoded.beginning.started);
        let meters = &self.host.inbox.meters;
        meters.runs.of(&decoded.beginning.function).ended(outcome.as_ref().err(), time);
        self.feed.run_ends(&self.host, uuid.into(), outcome.as_ref().err());
        let parent = decoded.forks.last().map(|fork| Parent { run: fork.parent, at: fork.at });
        let beginning = Beginning::read(&decoded.beginning, function);
        let (attributes, deadline) =
            (Box::new(decoded.attributes), decoded.beginning.terms.deadline);
        let ended = Box::new(Ended { beginning, outcome, attributes, deadline });
        let stand = LogEnd::of(&journal.chain);
        self.note_over((uuid, stand), (decoded.beginning.started, parent), ended);
        self.deliver_parked(uuid);
        Ok(())
    }

    fn tell_forced(&mut self, uuid: Uuid, left: &str) {
        let message = format!("the end of the run was forced while it had {left}");
        tracing::warn!(target: "tiffany", run = %uuid, "{message}");
        let data = Data::Log { level: LogLevel::Warn, step: None };
        self.feed.tell(&self.host, (uuid.into(), None), (Stage::Log, message), data);
    }
}

impl DurableState {
    /// Whether a person has cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.holding.cancelled_at.is_some()
    }
}

/// The first few of these tasks, and how many more there are.
fn name_some(tids: &[Tid]) -> String {
    const NAMED: usize = 8;
    let named: Vec<String> = tids.iter().take(NAMED).map(|tid| format!("task {tid}")).collect();
    match tids.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
