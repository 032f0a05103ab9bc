//! Taking a snapshot: the log of a run begins a new generation, with all that the run is. The run itself goes on as if nothing had been.

use std::collections::BTreeSet;
use std::panic::Location;

use tiffany_kernel::{CallKind, ErrorKind, Recording, TaskError};

use crate::run_log::earlier::{Continued, Earlier};
use crate::run_log::journal::Started;
use crate::run_log::snapshot::Snapshot;
use crate::runtime::Runtime;
use crate::runtime::durable_runs::{DurableRun, word};
use tiffany_records::RunError;
use tiffany_records::redact::shown;
use tiffany_records::value::Json;

/// After a failed attempt there is another when so much of what is usual was written besides.
const AGAIN_AFTER: u64 = 8;

impl Runtime {
    /// Lets the log of a run made of state machines begin anew with a snapshot, now and not only
    /// [every so many records](crate::runtime::builder::Builder::snapshot_every). Drives all runs until none can go on by itself.
    #[track_caller]
    pub fn snapshot<T>(&mut self, run: &DurableRun<T>) -> Result<(), RunError> {
        self.settle_down(Location::caller())?;
        let place = self.live(run.uuid()).map(|id| self.places[&id]).map_err(RunError::Failed)?;
        self.take_snapshot(place).map_err(|why| RunError::Failed(no_snapshot(run, &why)))?;
        self.hand_in();
        Ok(())
    }

    /// Takes one if it is time.
    pub(crate) fn snapshot_if_due(&mut self, place: usize) {
        let every = self.settings.snapshot_every;
        let hosted = &mut self.runs[place];
        let Some(hosting) = &mut hosted.hosting else { return };
        let seq = hosting.journal.chain.seq();
        let is_due = every > 0 && seq >= hosting.snapshot_at.max(every);
        let is_held = hosting.holding.error.is_some();
        if !is_due
            || is_held
            || hosting.input.is_none()
            || hosted.run.is_ready()
            || hosted.run.is_over()
        {
            return;
        }
        hosting.snapshot_at = seq + every / AGAIN_AFTER + 1;
        if let Err(why) = self.take_snapshot(place)
            && let Some(hosting) = &mut self.runs[place].hosting
            && !std::mem::replace(&mut hosting.is_warned, true)
        {
            let run = DurableRun::<()>::of(hosting.journal.run());
            let error = no_snapshot(&run, &why);
            let (uuid, code) = (run.uuid(), error.code());
            tracing::warn!(target: "tiffany", run = %uuid, code, "{}", shown(&error));
        }
    }

    /// Begins a generation with a snapshot. The error says why there is none now.
    fn take_snapshot(&mut self, place: usize) -> Result<(), String> {
        let language = self.settings.registry.language.as_ref().map(|language| language.note());
        let hosted = &mut self.runs[place];
        let (Some(hosting), Some(durable)) = (&mut hosted.hosting, &mut self.durable) else {
            return Err("it is not durable".into());
        };
        let Some(input) = hosting.input.clone() else {
            return Err("its root is no state machine that can be written down".into());
        };
        if hosting.branch.is_some() {
            return Err(
                "it is a fork, and what it may do stands in the log that would be replaced".into(),
            );
        }
        if hosting.holding.error.is_some() {
            return Err("it is held, which stands in the log that would be replaced".into());
        }
        if let Some(error) = &durable.failed {
            return Err(error.to_string());
        }
        for record in hosted.run.take_records() {
            hosting.journal.write(&mut durable.page, record);
        }
        let (tables, calls) = hosted.run.tables()?;
        if let Some(rules) = &self.settings.redactions {
            let mut keys = tables.tasks.iter().flat_map(|task| task.store.iter());
            if keys.any(|(key, _)| rules.take_from(key)) {
                return Err(
                    "a key of a store has something in it that is taken out of the log".into()
                );
            }
        }
        let settled = tables.promises.iter().filter(|promise| promise.settled.is_some());
        let settled = settled.map(|promise| promise.uuid).collect();
        let promises: BTreeSet<_> = tables.promises.iter().map(|promise| promise.uuid).collect();
        let steps = |at: usize| self.effects.begun(calls[at].call);
        let tids: Vec<_> = tables.tasks.iter().map(|task| task.tid).collect();
        let text = Snapshot::text(tables, steps)?;

        // Nothing can go wrong from here on.
        hosting.settled = settled;
        hosting.received.retain(|sender| durable.may_send(sender));
        let (page, clock) = (&mut durable.page, hosted.run.clock());
        let (before, beginning) = (hosting.journal.chain.clone(), &hosting.beginning);
        let calls_so_far = hosting.earlier.calls + hosted.run.calls_made();
        let earlier = Earlier { calls: calls_so_far, ..hosting.earlier };
        let continued =
            Continued::new(before.generation(), earlier, beginning.input, &hosting.received)
                .with_snapshot();
        let started = Started {
            id: &beginning.id,
            function: &beginning.function,
            input: &input,
            seed: hosting.seed,
            recording: word(hosted.run.recording()),
            rules: hosted.run.rules(),
            language,
            continued: Some(&continued),
        };
        let messages = hosted.run.messages();
        let is_every = hosted.run.recording() == Recording::Every;
        let calls = tids.into_iter().zip(calls);
        let calls: Vec<_> = calls.filter(|(_, call)| is_every || call.kind.is_outward()).collect();
        let lines = messages.len() + calls.len();
        let numbers = hosting.journal.begin_generation();
        hosting.journal.start(page, clock, &started);
        hosting.journal.snapshot(page, clock, (before.crc(), lines as u64), &text);
        for (name, value) in messages {
            let json = value.borrow::<Json>().map_or("null", |json| &json.0);
            hosting.journal.message(page, (clock, 0), (&name, json), None);
        }
        for (tid, call) in calls {
            let number = numbers.get(&call.call.call).copied();
            let number = number.filter(|_| call.kind == CallKind::Effect);
            hosting.journal.write_again(page, (tid, clock), call, number);
        }
        self.host.inbox.promises().keep(hosted.run.id(), &promises);
        hosting.snapshot_at = hosting.journal.chain.seq() + self.settings.snapshot_every;
        Ok(())
    }
}

fn no_snapshot<T>(run: &DurableRun<T>, why: &str) -> TaskError {
    let message = format!("run {} cannot be written down as a whole: {why}", run.uuid());
    TaskError::new(ErrorKind::NoSnapshot, message)
}
