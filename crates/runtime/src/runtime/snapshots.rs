//! Taking a snapshot: the log of a run begins a new generation, with the whole state of the run.
//! The run continues as if nothing had happened.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiffany_kernel::{CallKind, ErrorKind, Recording, Tables, TaskError, Uuid};

use crate::host::Host;
use crate::run_log::earlier::{Continued, Earlier};
use crate::run_log::journal::Started;
use crate::run_log::snapshot::Snapshot;
use crate::runtime::builder::Builder;
use crate::runtime::durable::{Durable, DurableState};
use crate::runtime::durable_runs::word;
use crate::runtime::hosted_runs::Hosted;
use crate::runtime::steps::Effects;
use tiffany_records::redact::{Redactions, shown};
use tiffany_records::value::Json;

/// After a failed attempt, the next one follows after this part of the usual number of records.
const AGAIN_AFTER: u64 = 8;

/// Takes snapshots.
pub(crate) struct Snapshots<'a> {
    pub(crate) durable: &'a mut Durable,
    pub(crate) steps: &'a Effects,
    pub(crate) settings: &'a Builder,
    pub(crate) host: &'a Host,
}

impl Snapshots<'_> {
    /// Takes a snapshot if it is time.
    pub(crate) fn take_if_due(&mut self, hosted: &mut Hosted) {
        let every = self.settings.snapshot_every;
        let Some(durable_state) = &mut hosted.durable_state else { return };
        let seq = durable_state.journal.chain.seq();
        let is_due = every > 0 && seq >= durable_state.snapshot_at.max(every);
        if !is_due
            || durable_state.is_held()
            || durable_state.input.is_none()
            || hosted.run.is_ready()
            || hosted.run.is_over()
        {
            return;
        }
        durable_state.snapshot_at = seq + every / AGAIN_AFTER + 1;
        if let Err(why) = self.take(hosted)
            && let Some(durable_state) = &mut hosted.durable_state
            && !std::mem::replace(&mut durable_state.is_warned, true)
        {
            let uuid = durable_state.uuid();
            let error = no_snapshot(uuid, &why);
            let code = error.code();
            tracing::warn!(target: "tiffany", run = %uuid, code, "{}", shown(&error));
        }
    }

    /// Begins a generation with a snapshot. The error says why there is none now.
    pub(crate) fn take(&mut self, hosted: &mut Hosted) -> Result<(), String> {
        let language = self.settings.registry.language.as_ref().map(|language| language.note());
        let durable = &mut *self.durable;
        let (durable_state, input) = ready_state(&mut hosted.durable_state)?;
        if let Some(error) = &durable.failed {
            return Err(error.to_string());
        }
        durable_state.journal.write_records(&mut durable.page, &mut hosted.run);
        let (tables, calls) = hosted.run.tables()?;
        if let Some(rules) = &self.settings.redactions {
            refuse_secret_keys(&tables, rules)?;
        }
        let settled = tables.promises.iter().filter(|promise| promise.settled.is_some());
        let settled = settled.map(|promise| promise.uuid).collect();
        let promises: BTreeSet<_> = tables.promises.iter().map(|promise| promise.uuid).collect();
        let steps = |at: usize| self.steps.begun(calls[at].call);
        let tids: Vec<_> = tables.tasks.iter().map(|task| task.tid).collect();
        let text = Snapshot::text(tables, steps)?;

        // Nothing can go wrong from here on.
        durable_state.settled = settled;
        durable_state.received.retain(|sender| durable.may_send(sender));
        let (page, clock) = (&mut durable.page, hosted.run.clock());
        let (before, beginning) = (durable_state.journal.chain.clone(), &durable_state.beginning);
        let calls_so_far = durable_state.earlier.calls + hosted.run.calls_made();
        let earlier = Earlier { calls: calls_so_far, ..durable_state.earlier };
        let continued =
            Continued::new(before.generation(), earlier, beginning.input, &durable_state.received)
                .with_snapshot();
        let terms = durable_state.terms.now(hosted.run.attributes());
        let started = Started {
            id: &beginning.id,
            function: &beginning.function,
            input: &input,
            seed: durable_state.seed,
            recording: word(hosted.run.recording()),
            rules: hosted.run.rules(),
            language,
            continued: Some(&continued),
            terms: &terms,
        };
        let messages = hosted.run.messages();
        let is_every = hosted.run.recording() == Recording::Every;
        let calls = tids.into_iter().zip(calls);
        let calls: Vec<_> = calls.filter(|(_, call)| is_every || call.kind.is_outward()).collect();
        let lines = messages.len() + calls.len();
        let numbers = durable_state.journal.begin_generation();
        durable_state.journal.start(page, clock, &started);
        durable_state.terms = terms;
        durable_state.journal.snapshot(page, clock, (before.crc(), lines as u64), &text);
        for (name, value) in messages {
            let json = value.borrow::<Json>().map_or("null", |json| &json.0);
            durable_state.journal.lines_without_turn(page, clock).message((&name, json), None);
        }
        for (tid, call) in calls {
            let number = numbers.get(&call.call.call).copied();
            let number = number.filter(|_| call.kind == CallKind::Effect);
            durable_state.journal.write_again(page, (tid, clock), call, number);
        }
        self.host.inbox.promises().keep(hosted.run.id(), &promises);
        durable_state.snapshot_at =
            durable_state.journal.chain.seq() + self.settings.snapshot_every;
        Ok(())
    }
}

/// The durable side of a run and its input. An error if the run, as it is now, has no snapshots.
fn ready_state(
    durable_state: &mut Option<Box<DurableState>>,
) -> Result<(&mut DurableState, Arc<str>), String> {
    let Some(durable_state) = durable_state else { return Err("it is not durable".into()) };
    let Some(input) = durable_state.input.clone() else {
        return Err("its root is not a serializable state machine".into());
    };
    if durable_state.branch.is_some() {
        let why =
            "it is a fork, and the steps that it may do are in the log that would be replaced";
        return Err(why.into());
    }
    if durable_state.is_held() {
        return Err("it is held, which is recorded in the log that would be replaced".into());
    }
    Ok((durable_state, input))
}

/// An error if the rules would take something out of a key of a store, which could not be restored.
fn refuse_secret_keys(tables: &Tables, rules: &Redactions) -> Result<(), String> {
    let mut keys = tables.tasks.iter().flat_map(|task| task.store.iter());
    match keys.any(|(key, _)| rules.take_from(key)) {
        true => Err("a key of a store has something in it that is taken out of the log".into()),
        false => Ok(()),
    }
}

pub(crate) fn no_snapshot(run: Uuid, why: &str) -> TaskError {
    let message = format!("run {run} cannot be saved as a snapshot: {why}");
    TaskError::new(ErrorKind::NoSnapshot, message)
}
