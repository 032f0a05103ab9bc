//! Requests about one run in a runtime, where the run is in memory or dormant.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use tiffany_kernel::{CallRef, Completion, ErrorKind, RunId, TaskError, Time, Uuid, Value};

use crate::control::asked_run::{AskedDormantRun, AskedRun, AskedRuns, Settling};
use crate::host::inbox::unknown;
use crate::program::run_limits::RunLimits;
use crate::run_log::dormant_run::DormantRun;
use crate::run_log::hold::{Hold, held};
use crate::run_log::page::Page;
use crate::runtime::Runtime;
use crate::runtime::approvals::Decided;
use crate::runtime::doubts::Ruled;
use crate::runtime::durable_runs::Known;
use tiffany_records::json::compact;
use tiffany_records::key::Key;
use tiffany_records::request::{
    Approval, Decision, Ruling, Settlement, decided_already, no_such_approval,
};
use tiffany_records::value::Json;

/// A run in memory.
struct RunningRun<'a> {
    runtime: &'a mut Runtime,
    id: RunId,
    run: Uuid,
}

/// A run that is not in memory. It gets messages and answers when it is resumed.
struct PausedRun<'a> {
    runtime: &'a mut Runtime,
    run: Uuid,
}

impl RunningRun<'_> {
    fn place(&self) -> usize {
        self.runtime.runs.place_of_live(self.id)
    }
}

impl AskedRun for RunningRun<'_> {
    fn is_held(&self) -> bool {
        self.runtime.view().hold_of(self.run).is_some()
    }

    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError> {
        self.runtime.hold_live(self.place(), hold);
        Ok(())
    }

    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        self.runtime.release_live(self.place(), (by, why))
    }

    fn cancel(&mut self) -> Result<Option<String>, TaskError> {
        if !self.is_held() || !self.runtime.cancel_held(self.place())? {
            self.runtime.cancel_run(self.id);
        }
        Ok(None)
    }

    fn send(&mut self, name: &str, message: &RawValue) -> Result<(), TaskError> {
        let message = compact(message.get());
        let limits = self.runtime.settings.run_limits;
        let place = self.place();
        self.runtime.runs[place].refuse_message(limits.as_ref(), &message)?;
        let message = Value::new(Json::new(message));
        self.runtime.complete(self.id, Completion::Message(name.into(), message));
        Ok(())
    }

    fn allow(&mut self, names: &BTreeSet<String>) -> Result<(), TaskError> {
        self.runtime.allow_effects(self.run, names)
    }

    fn settle(
        &mut self,
        promise: Uuid,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError> {
        self.runtime.claim(promise, Some(self.id), result)
    }

    fn decide(&mut self, key: Key, decision: &Decision) -> Result<bool, TaskError> {
        let (steps, mut parts) = self.runtime.steps();
        Ok(match steps.decide(&mut parts, &key.to_string(), decision) {
            Ruled::Unknown => false,
            Ruled::Again => true,
            Ruled::Answered(call, result) => {
                self.runtime.complete(call.run, Completion::Call(call, result));
                true
            }
        })
    }

    fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        let Runtime { approvals, runs, .. } = &*self.runtime;
        let asking = Key::parse(approval).and_then(|key| approvals.asking(runs, self.id, key));
        self.runtime.resolve_call(asking, approval, ruling)
    }
}

impl AskedDormantRun for PausedRun<'_> {
    fn dormant(&self) -> &DormantRun {
        match self.known() {
            Some(Known::Paused(_, Some(dormant))) => dormant,
            _ => unreachable!("a paused run was found, and stays one while it is asked"),
        }
    }

    fn is_held(&self) -> bool {
        matches!(self.known(), Some(Known::Paused(error, _)) if error.kind() == ErrorKind::RunHeld)
    }

    fn open(&mut self) -> Result<(&mut DormantRun, &mut Page, Time), TaskError> {
        let now = self.runtime.host.clock.now();
        let durable = self.runtime.durable_mut();
        match durable.runs.get_mut(&self.run) {
            // The end of a long log is not read, so it is not known whether a change fits.
            Some(Known::Paused(error, Some(dormant))) if dormant.is_bare() => Err(error.clone()),
            Some(Known::Paused(_, Some(dormant))) => Ok((dormant, &mut durable.page, now)),
            _ => unreachable!("a paused run was found, and stays one while it is asked"),
        }
    }

    fn limits(&self) -> Option<RunLimits> {
        self.runtime.settings.run_limits
    }

    fn hold(&mut self, hold: &Hold) -> Result<(), TaskError> {
        let now = self.runtime.host.clock.now();
        let durable = self.runtime.durable_mut();
        if let Some(Known::Paused(error, Some(dormant))) = durable.runs.get_mut(&self.run) {
            dormant.hold(&mut durable.page, now, hold);
            *error = held(self.run, &hold.why());
            durable.held_deadlines.note(self.run, dormant.deadline());
        }
        Ok(())
    }

    fn release(&mut self, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        self.resume_after(|dormant, page, now| dormant.release(page, now, (by, why)));
        Ok(())
    }

    fn cancel(&mut self) -> Result<Option<String>, TaskError> {
        let run = self.run;
        if let Some(chain) = self.runtime.durable_mut().cancelled_dormant(run)? {
            return self.runtime.force_end_of_log(run, chain).map(|()| None);
        }
        if AskedDormantRun::is_held(self) {
            self.resume_after(|dormant, page, now| {
                dormant.cancel(page, now);
                dormant.release(page, now, ("cancel", None));
            });
            return Ok(None);
        }
        let (dormant, page, now) = self.open()?;
        dormant.cancel(page, now);
        Ok(Some(format!(
            "run {run} is paused, so it is cancelled when it can be resumed; to end it now without its cleanup, cancel it again"
        )))
    }
}

impl PausedRun<'_> {
    fn known(&self) -> Option<&Known> {
        self.runtime.durable.as_ref()?.runs.get(&self.run)
    }

    /// Writes to its log and resumes it.
    fn resume_after(&mut self, write: impl FnOnce(&mut DormantRun, &mut Page, Time)) {
        let now = self.runtime.host.clock.now();
        let durable = self.runtime.durable_mut();
        if let Some(Known::Paused(_, Some(dormant))) = durable.runs.get_mut(&self.run) {
            write(dormant, &mut durable.page, now);
            let chain = dormant.chain().clone();
            self.runtime.bring_back_from_log(self.run, chain);
        }
    }
}

impl AskedRuns for Runtime {
    fn find(&mut self, run: Uuid) -> Result<Box<dyn AskedRun + '_>, TaskError> {
        match self.live(run) {
            Ok(id) => Ok(Box::new(RunningRun { runtime: self, id, run })),
            Err(error) => {
                let durable = self.durable.as_ref();
                match durable.and_then(|durable| durable.runs.get(&run)) {
                    Some(Known::Paused(_, Some(_))) => {
                        Ok(Box::new(PausedRun { runtime: self, run }))
                    }
                    _ => Err(error),
                }
            }
        }
    }

    fn not_found(&self, _: TaskError, otherwise: TaskError) -> TaskError {
        otherwise
    }

    fn settle_any(
        &mut self,
        promise: Uuid,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError> {
        if let Some(settled) = self.claim(promise, None, result)? {
            return Ok(Some(settled));
        }
        let now = self.host.clock.now();
        let Some(durable) = &mut self.durable else { return Ok(None) };
        let page = &mut durable.page;
        let settle =
            |_, dormant: &mut DormantRun| dormant.settle(page, now, (promise, false), result);
        Ok(durable.runs.find_dormant(settle))
    }

    /// If the promise was settled before, the new answer is ignored; a promise that a fork has too is
    /// left to the fork.
    fn settle_late(&self, promise: Uuid, why: TaskError) -> Result<Settlement, TaskError> {
        if self.durable.is_none() {
            return Err(why);
        }
        let promises = self.host.inbox.promises();
        match promises.was_settled(promise).filter(|_| promises.sharing(promise).is_empty()) {
            Some(true) => Ok(self.ignored()),
            Some(false) => Err(nobody_waits(promise)),
            None => {
                drop(promises);
                match why.kind() {
                    ErrorKind::UnknownPromise => Err(self.unknown_promise(promise)),
                    _ => Err(why),
                }
            }
        }
    }

    fn resolve_other(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        let asking = self.approvals.asking_ephemeral(&self.runs, approval);
        self.resolve_call(asking, approval, ruling)
    }

    fn why_not_open(&self, approval: &str) -> TaskError {
        match self.approvals.earlier(approval) {
            Some(first) => decided_already(approval, first),
            None => no_such_approval(approval),
        }
    }
}

impl Runtime {
    /// Answers the question that a call asks.
    fn resolve_call(
        &mut self,
        asking: Option<CallRef>,
        approval: &str,
        ruling: Ruling,
    ) -> Result<Approval, TaskError> {
        let call = asking.ok_or_else(|| no_such_approval(approval))?;
        let (questions, mut parts) = self.questions();
        let decided = questions.decide(&mut parts, call, (approval, ruling))?;
        let Decided { approval, call, value } = decided;
        self.complete(call.run, Completion::Decided(call, Ok(value)));
        Ok(approval)
    }

    /// Settles a promise of a run in memory, of this one if it is named. `None`: none of them has it.
    fn claim(
        &mut self,
        promise: Uuid,
        of: Option<RunId>,
        result: &Settling,
    ) -> Result<Option<Settlement>, TaskError> {
        let has_log = self.durable.is_some();
        let claimed = self.host.inbox.promises().claim(promise, of, has_log);
        let Some((run, settlement)) = claimed else { return Ok(None) };
        match (self.view().has_ended(run), settlement) {
            (true, Settlement::Accepted) => return Err(nobody_waits(promise)),
            (true, Settlement::Ignored) => {}
            (false, _) => {
                let result = match result {
                    Ok(value) => Ok(Value::new(Json::new(compact(value.get())))),
                    Err(error) => Err(error.clone()),
                };
                self.complete(run, Completion::Settle(promise, result));
            }
        }
        Ok(Some(match settlement {
            Settlement::Accepted => settlement,
            Settlement::Ignored => self.ignored(),
        }))
    }

    /// Counts an answer that came too late.
    fn ignored(&self) -> Settlement {
        self.host.inbox.meters.ignored.add(1);
        Settlement::Ignored
    }

    /// The error for a promise that is not known, which names the forks that have it.
    fn unknown_promise(&self, promise: Uuid) -> TaskError {
        let forks = self.host.inbox.promises().sharing(promise).into_iter();
        let forks = forks.filter_map(|id| Some(self.runs.durable_state(id)?.uuid().to_string()));
        let forks: Vec<String> = forks.collect();
        match forks.is_empty() {
            true => unknown(promise),
            false => {
                let forks = forks.join(", ");
                let message = format!(
                    "the run that made promise {promise} is finished; name the fork whose promise is to be settled: {forks}"
                );
                TaskError::new(ErrorKind::UnknownPromise, message)
            }
        }
    }
}

/// The error for an answer that no task waits for any more.
fn nobody_waits(promise: Uuid) -> TaskError {
    let message =
        format!("the run of promise {promise} is finished, and no task waits for it any more");
    TaskError::new(ErrorKind::UnknownPromise, message)
}
