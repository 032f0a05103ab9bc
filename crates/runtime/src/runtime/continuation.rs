//! Runs that start again: the function is called with another input, and the log begins a new
//! generation, which replaces the previous one. So the log of a run that never ends does not grow.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_kernel::{CallRef, Completion, ErrorKind, Mode, TaskError};

use crate::host::entropy::mixed;
use crate::program::language::Wanted;
use crate::run_log::earlier::{Continued, Earlier};
use crate::run_log::hold::Holding;
use crate::run_log::journal::{Journal, Started};
use crate::runtime::Runtime;
use crate::runtime::durable::DurableState;
use crate::runtime::durable_runs::{Ending, Known, word};
use tiffany_records::value::Json;

impl Runtime {
    /// Starts a run again with another input.
    pub(crate) fn continue_run(&mut self, place: usize, call: CallRef, input: &str) {
        let hosted = &self.runs[place];
        let Some(durable_state) = &hosted.durable_state else { return };
        if durable_state.journal.seq_of(call).is_none() {
            return; // It was cancelled in the same breath.
        }
        if durable_state.branch.is_some() {
            let message = "a fork cannot call `continue_as`: the steps that it may do are in the log that would be replaced";
            let error = TaskError::new(ErrorKind::CannotContinue, message);
            return self.complete(call.run, Completion::Call(call, Err(error)));
        }
        let function = durable_state.beginning.function.clone();
        let root = match self.settings.registry.start(&function, input, Wanted::Again) {
            Ok(root) => root,
            Err(error) => return self.complete(call.run, Completion::Call(call, Err(error))),
        };
        let (recording, now) =
            (hosted.run.recording(), self.host.clock.now().max(hosted.run.clock()));
        let calls = durable_state.earlier.calls + hosted.run.calls_made();
        let earlier = Earlier { calls, ..durable_state.earlier };
        let seed = mixed(durable_state.seed.wrapping_add(1));
        let terms = durable_state.terms.now(hosted.run.attributes());
        let mut config = self.settings.run_config(root.at);
        (config.mode, config.recording, config.seed) = (Mode::Durable, recording, seed);
        terms.apply(&mut config);
        let is_agent = root.is_agent;
        let messages = self.replace_run(place, root.coroutine, config, now);
        if let Some(durable_state) = &mut self.runs[place].durable_state {
            durable_state.terms = terms;
        }
        self.begin_generation(place, input, seed, earlier);
        if let Some(durable_state) = &mut self.runs[place].durable_state {
            durable_state.input = is_agent.then(|| input.into());
        }
        for (name, value) in messages {
            let hosted = &mut self.runs[place];
            let (Some(durable_state), Some(durable)) =
                (&mut hosted.durable_state, &mut self.durable)
            else {
                return;
            };
            let json = value.borrow::<Json>().map_or("null", |json| &json.0);
            let mut lines = durable_state.journal.lines_without_turn(&mut durable.page, now);
            lines.message((&name, json), None);
            hosted.run.complete(Completion::Message(name, value));
        }
        self.empty_outbox(place);
        self.line_up(place);
    }

    /// Writes the first line of a new generation.
    fn begin_generation(&mut self, place: usize, input: &str, seed: u64, earlier: Earlier) {
        let language = self.settings.registry.language.as_ref().map(|language| language.note());
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return;
        };
        // A finished sender sends nothing again.
        durable_state.received.retain(|sender| durable.may_send(sender));
        let (before, beginning) = (&durable_state.journal.chain, &durable_state.beginning);
        let continued =
            Continued::new(before.generation(), earlier, beginning.input, &durable_state.received);
        let started = Started {
            id: &beginning.id,
            function: &beginning.function,
            input,
            seed,
            recording: word(hosted.run.recording()),
            rules: hosted.run.rules(),
            language,
            continued: Some(&continued),
            terms: &durable_state.terms,
        };
        let mut journal = Journal::new(before.next_generation());
        journal.start(&mut durable.page, hosted.run.clock(), &started);
        durable.runs.insert(journal.run(), Known::Live(hosted.run.id()));
        **durable_state = DurableState {
            journal,
            beginning: beginning.clone(),
            earlier,
            input: None,
            snapshot_at: 0,
            is_warned: false,
            settled: BTreeSet::new(),
            seed,
            begun: BTreeMap::new(),
            received: std::mem::take(&mut durable_state.received),
            replay: None,
            branch: None,
            ending: Ending::No,
            is_over: false,
            holding: Holding::default(),
            terms: std::mem::take(&mut durable_state.terms),
        };
    }
}
