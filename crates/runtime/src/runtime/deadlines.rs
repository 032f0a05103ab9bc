//! Deadlines of durable runs. The kernel fails a run that is in memory. A held run is released, so that it can end,
//! whether it is in memory or not. A run that is paused for another reason fails when it can be resumed. Nothing here
//! resumes a run.

use std::collections::BTreeSet;

use tiffany_kernel::{ErrorKind, TaskError, Time, Uuid};

use crate::run_log::dormant_run::DormantRun;
use crate::run_log::terms::Terms;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;
use crate::runtime::hosted_runs::Hosted;
use crate::runtime::parts::Parts;
use tiffany_log::{Chain, LogError, RunReader};
use tiffany_records::errors::log_failed;
use tiffany_records::record::Record;

/// The name in the log of what releases a held run at its deadline.
pub(crate) const RELEASED_BY: &str = "deadline";

/// The deadlines of held runs that are not in memory.
#[derive(Default)]
pub(crate) struct HeldDeadlines(BTreeSet<(Time, Uuid)>);

impl HeldDeadlines {
    /// Notes the deadline of a run, if it has one.
    pub(crate) fn note(&mut self, run: Uuid, deadline: Option<Time>) {
        self.0.extend(deadline.map(|deadline| (deadline, run)));
    }

    /// When the next deadline passes.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(deadline, _)| *deadline)
    }

    /// Takes the first deadline that has passed.
    fn take_passed(&mut self, now: Time) -> Option<(Time, Uuid)> {
        let first = self.0.first().copied().filter(|(deadline, _)| *deadline <= now)?;
        self.0.remove(&first);
        Some(first)
    }
}

/// What is to be done about a run in memory whose deadline has passed.
pub(crate) enum PastDeadline {
    /// It has turns, and fails in the next one.
    Running,
    /// It is released.
    Held,
    /// It is released, and continues from its log. Its steps are forgotten.
    Interrupted,
}

impl Hosted {
    /// Notes that the deadline of a durable run has passed. `None`: it has not, or that was noted before.
    pub(crate) fn pass_deadline(&mut self) -> Option<PastDeadline> {
        let durable_state = self.durable_state.as_mut()?;
        if !self.run.is_past_deadline() || durable_state.is_cancelled() {
            return None;
        }
        durable_state.holding.cancelled_at = Some(self.run.steps());
        Some(match (durable_state.is_held(), durable_state.is_broken()) {
            (false, _) => PastDeadline::Running,
            (true, false) => PastDeadline::Held,
            (true, true) => PastDeadline::Interrupted,
        })
    }
}

impl Parts<'_> {
    /// Records that the deadline of a run in memory has passed.
    pub(crate) fn record_past_deadline(&mut self, place: usize) {
        let (now, hosted) = (self.host.clock.now(), &mut self.runs[place]);
        if let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        {
            let (page, run) = (&mut durable.page, &mut hosted.run);
            durable_state.journal.lines_now(page, run, now).past_deadline();
        }
    }
}

impl Durable {
    /// Releases the next held run whose deadline has passed and that is not in memory. Returns the run, and where its
    /// log ends.
    pub(crate) fn release_past_deadline(&mut self, now: Time) -> Option<(Uuid, Chain)> {
        while let Some((deadline, uuid)) = self.held_deadlines.take_passed(now) {
            let Some(Known::Paused(error, Some(dormant))) = self.runs.get_mut(&uuid) else {
                continue;
            };
            // It was released or has ended in the meantime, and perhaps was resumed.
            if error.kind() != ErrorKind::RunHeld || dormant.deadline() != Some(deadline) {
                continue;
            }
            dormant.past_deadline(&mut self.page, now);
            dormant.release(&mut self.page, now, (RELEASED_BY, None));
            return Some((uuid, dormant.chain().clone()));
        }
        None
    }

    /// A run that is held, with only the beginning of its log read.
    pub(crate) fn bare_dormant(&self, chain: Chain) -> Result<Box<DormantRun>, TaskError> {
        let deadline = self.read_deadline(chain.run());
        let deadline = deadline.map_err(log_failed)?;
        Ok(DormantRun::bare(chain).with_deadline(deadline))
    }

    fn read_deadline(&self, uuid: Uuid) -> Result<Option<Time>, LogError> {
        let mut reader = RunReader::open(&*self.disk, &self.root, uuid, None)?;
        let Some(first) = reader.next() else { return Ok(None) };
        let Record::RunStart(start) = Record::read(&first?) else { return Ok(None) };
        Ok(Terms::read(&start).deadline)
    }
}
