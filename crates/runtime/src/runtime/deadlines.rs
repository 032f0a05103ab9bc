//! Deadlines of runs: what happens to a run whose deadline has passed. The kernel fails a run that is in memory; a held
//! one gets turns again so that it can end, whether it is in memory or not. A run that is paused for another reason fails
//! when it can be resumed.

use tiffany_kernel::{ErrorKind, TaskError, Time, Uuid};

use crate::run_log::dormant_run::DormantRun;
use crate::runtime::Runtime;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;
use tiffany_log::{LogError, RunReader};
use tiffany_records::record::Record;

/// Who releases a held run at its deadline, as its log says.
const RELEASED_BY: &str = "deadline";

impl Runtime {
    /// Sees to a run in memory whose timers have fired.
    pub(crate) fn after_timers(&mut self, place: usize) {
        let hosted = &mut self.runs[place];
        let Some(durable_state) = &mut hosted.durable_state else { return };
        if !hosted.run.is_past_deadline() || durable_state.is_cancelled() {
            return;
        }
        durable_state.holding.cancelled_at = Some(hosted.run.steps());
        let (is_held, is_broken) =
            (durable_state.holding.error.is_some(), durable_state.is_broken());
        self.make_room(place);
        if is_held {
            let (id, clock) = (self.runs[place].run.id(), self.host.clock.now());
            let hosted = &mut self.runs[place];
            if let (true, Some(durable_state), Some(durable)) =
                (is_broken, &mut hosted.durable_state, &mut self.durable)
            {
                // Recorded before it is replayed, so that no limit stops the replay.
                let (page, run) = (&mut durable.page, &mut hosted.run);
                durable_state.journal.lines_now(page, run, clock).past_deadline();
                self.forget_steps(id);
            }
            // It has no steps under way that it would wait for.
            if let Err(error) = self.release_live(place, (RELEASED_BY, None)) {
                tracing::warn!(target: "tiffany", "a held run is past its deadline: {error}");
            }
        }
    }

    /// Notes the deadline of a run that is held and not in memory.
    pub(crate) fn note_held_deadline(&mut self, uuid: Uuid, deadline: Option<Time>) {
        let deadline = deadline.map(|deadline| (deadline, uuid));
        self.durable_mut().held_deadlines.extend(deadline);
    }

    /// When the next deadline of such a run passes.
    pub(crate) fn next_held_deadline(&self) -> Option<Time> {
        self.durable.as_ref()?.held_deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Resumes held runs whose deadlines have passed: they fail at once.
    #[cold]
    pub(crate) fn resume_past_deadline(&mut self) {
        let clock = self.host.clock.now();
        while let Some(durable) = &mut self.durable
            && let Some((deadline, uuid)) = durable.held_deadlines.first().copied()
            && deadline <= clock
        {
            durable.held_deadlines.remove(&(deadline, uuid));
            let Some(Known::Paused(error, Some(dormant))) = durable.runs.get_mut(&uuid) else {
                continue;
            };
            // It was released or ended meanwhile, and perhaps resumed.
            if error.kind() != ErrorKind::RunHeld || dormant.deadline() != Some(deadline) {
                continue;
            }
            dormant.past_deadline(&mut durable.page, clock);
            dormant.release(&mut durable.page, clock, (RELEASED_BY, None));
            let chain = dormant.chain().clone();
            self.bring_back_from_log(uuid, chain);
        }
    }
}

impl Durable {
    /// A run that is held, of whose log only the beginning is read.
    pub(crate) fn bare_dormant(
        &self,
        chain: tiffany_log::Chain,
    ) -> Result<Box<DormantRun>, TaskError> {
        let deadline = self.read_deadline(chain.run());
        let deadline = deadline.map_err(tiffany_records::errors::log_failed)?;
        Ok(DormantRun::bare(chain).with_deadline(deadline))
    }

    fn read_deadline(&self, uuid: Uuid) -> Result<Option<Time>, LogError> {
        let mut reader = RunReader::open(&*self.disk, &self.root, uuid, None)?;
        let Some(first) = reader.next() else { return Ok(None) };
        let Record::RunStart(start) = Record::read(&first?) else { return Ok(None) };
        Ok(crate::run_log::terms::Terms::read(&start).deadline)
    }
}
