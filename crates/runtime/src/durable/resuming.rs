//! Bringing durable runs back when the log is opened: their functions run again, and everything that the log has
//! happens again; then they go on live.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::rc::Rc;

use tiffany_kernel::{
    CallKind, Completion, ErrorKind, Mode, RecordKind, Recording, RunFailure, TaskError, Tid, Uuid,
    Value,
};

use super::hosting::{Beginning, Durable, Hosting, Known};
use super::journal::Journal;
use super::replay::{Replay, Sources};
use super::script::{Script, What};
use crate::context::{self, Entered};
use crate::error::RunError;
use crate::runtime::Runtime;
use crate::wal::{Chain, LogError, Payload, RunReader, read_blob};

impl Runtime {
    /// Brings a run back to where its log ends.
    pub(super) fn resume(&mut self, uuid: Uuid, chain: Chain) -> Result<(), TaskError> {
        let script = self.durable_mut().read(uuid, |_| false).map_err(log_failed)?;
        let beginning = script.beginning.clone();
        let root = self.settings.registry.start(&beginning.function, &beginning.input)?;
        let mut config = self.settings.run_config(Location::caller());
        (config.mode, config.recording) = (Mode::Durable, recording(&beginning.recording));
        config.seed = beginning.seed;
        let sources = Rc::new(Sources::new(&script));
        let hosting = Hosting {
            journal: Journal::new(chain),
            beginning: Beginning::new(&beginning.function, &beginning.input),
            settled: BTreeSet::new(),
            seed: beginning.seed,
            begun: BTreeMap::new(),
            replay: Some(Replay::new(script)),
            is_over: false,
        };
        let id = self.add_run(root, config, Some(Box::new(hosting)), beginning.started);
        let place = self.places[&id];
        let replayed = self.replay(place, &sources);
        context::with(|context| context.sources.take());
        match replayed {
            Ok(()) => {
                self.durable_mut().runs.insert(uuid, Known::Live(id));
                self.go_live(place);
                Ok(())
            }
            Err(error) => {
                self.forget_run(id);
                Err(error)
            }
        }
    }

    /// Lets everything that the log has happen again.
    fn replay(&mut self, place: usize, sources: &Rc<Sources>) -> Result<(), TaskError> {
        let Some(_entered) = Entered::new(&self.host) else {
            let message = "a runtime was built inside a task of another runtime";
            return Err(TaskError::new(ErrorKind::NestedRuntime, message));
        };
        context::with(|context| *context.sources.borrow_mut() = Some(Rc::clone(sources)));
        loop {
            let hosted = &mut self.runs[place];
            let (run, Some(hosting)) = (&mut hosted.run, &mut hosted.hosting) else {
                return Ok(());
            };
            let Hosting { journal, replay: Some(replay), settled, .. } = &mut **hosting else {
                return Ok(());
            };
            if replay.is_over() {
                return Ok(());
            }
            let told = replay.script.told.front();
            let asked = told.is_some_and(|told| replay.matched >= told.after);
            let is_turn = told.is_some_and(|told| run.steps() >= told.step);
            if asked && (is_turn || !run.is_ready()) {
                let Some(told) = replay.script.told.pop_front() else { continue };
                run.set_clock(told.clock);
                if let What::Settled { promise, .. } = &told.what {
                    settled.insert(*promise);
                }
                if let Some(completion) = again(told.what, replay, journal) {
                    run.complete(completion);
                } else {
                    run.cancel_all();
                }
                continue;
            }
            if !run.is_ready() {
                return Err(replay.missing());
            }
            context::with(|context| run.rounds(&context.port, None, 1));
            run.take_orders().into_iter().for_each(|order| replay.keep(order));
            drop(run.take_events());
            for record in run.take_records() {
                if let RecordKind::Withdrawn(call) = record.kind {
                    journal.over(call);
                }
                if let Some((call, seq)) = replay.compare(record, sources)? {
                    journal.adopt(call, seq);
                }
            }
        }
    }

    /// The log has nothing more: from here on the run is written down.
    fn go_live(&mut self, place: usize) {
        let Some(hosting) = &mut self.runs[place].hosting else { return };
        let Some(replay) = hosting.replay.take() else { return };
        let durable = self.durable.as_mut().expect("a durable run has a log");
        hosting.begun = replay.script.begun;
        for record in replay.later {
            hosting.journal.write(&mut durable.batch, record);
        }
        for order in replay.orders {
            self.execute_durable(place, order);
        }
        self.empty_outbox(place);
        self.line_up(place);
    }
}

/// What was told, as the kernel is told it; `None` if the run was cancelled.
fn again(what: What, replay: &mut Replay, journal: &mut Journal) -> Option<Completion> {
    let mut call_of = |of: u64| {
        let (call, kind) = replay.calls.remove(&of)?;
        journal.over(call);
        replay.done(call);
        Some((call, kind))
    };
    Some(match what {
        What::Woken { of } => match call_of(of) {
            Some((call, CallKind::Sleep | CallKind::SleepUntil)) => Completion::Timer(call),
            Some((call, _)) => Completion::Call(call, Ok(Value::Unit)),
            None => Completion::CutShort(Tid(0)),
        },
        What::Effect { of, result } => match call_of(of) {
            Some((call, _)) => Completion::Call(call, result),
            None => Completion::CutShort(Tid(0)),
        },
        What::Settled { promise, result } => Completion::Settle(promise, result),
        What::Message { name, value } => Completion::Message(name, value),
        What::CutShort(tid) => Completion::CutShort(tid),
        What::OverTime => Completion::OverTime,
        What::Cancel => return None,
    })
}

impl Durable {
    /// Reads a run's log, to its end or as far as it is wanted.
    pub(super) fn read(
        &self,
        uuid: Uuid,
        enough: impl Fn(&Script) -> bool,
    ) -> Result<Script, LogError> {
        let mut reader = RunReader::open(&*self.disk, &self.root, uuid, None)?;
        let fetch = |payload: &Payload<'_>| match payload {
            Payload::Blob { hash, .. } => {
                let bytes = read_blob(&*self.disk, &self.root, *hash)?;
                String::from_utf8(bytes).map_err(|_| LogError::DamagedBlob(*hash))
            }
            _ => Ok("null".to_owned()),
        };
        let mut script = Script::default();
        while let Some(record) = reader.next() {
            script.add(&record?, &fetch)?;
            if enough(&script) {
                break;
            }
        }
        Ok(script)
    }

    /// The outcome of a run that ended in an earlier process.
    pub(super) fn read_outcome(&self, uuid: Uuid) -> Result<Rc<str>, RunError> {
        let script = self.read(uuid, |_| false)?;
        match script.outcome {
            Some(Ok(json)) => Ok(json.into()),
            Some(Err(error)) => Err(RunFailure::Root(error).into()),
            None => Ok("null".into()),
        }
    }
}

fn recording(word: &str) -> Recording {
    match word {
        "outward" => Recording::Outward,
        _ => Recording::Every,
    }
}

fn log_failed(error: LogError) -> TaskError {
    TaskError::new(ErrorKind::LogFailed, error.to_string())
}
