//! A replay that halts at a record: everything that the log has up to there has happened, and
//! nothing after the turn in which it did. From there it can continue to a later record.

use std::collections::BTreeMap;

use tiffany_kernel::{CallKind, CallRef, Order, RunId, TaskError, Tid};

use crate::run_log::replay::halt::Halt;
use crate::run_log::replay::matcher::Replay;
use crate::runtime::Runtime;
use crate::time_travel::travel::history::History;
use tiffany_records::call_words::call_shown;
use tiffany_records::request::Question;
use tiffany_records::value::decode;

impl Runtime {
    /// Starts a run again, before its first record.
    pub(crate) fn begin_travel(&mut self, history: &History) -> Result<RunId, TaskError> {
        self.start_again(history.chain(), history.decoded().clone(), Some(Halt::default()))
    }

    /// Continues from one record to a later one. A run that does not get there is forgotten.
    pub(crate) fn travel_on(
        &mut self,
        id: RunId,
        history: &History,
        (from, to): (u64, u64),
    ) -> Result<(), TaskError> {
        if let Some(halt) = self.travelling(id).and_then(|replay| replay.halt.as_mut()) {
            history.lines(from, to).for_each(|line| halt.advance(line.tid, line.means));
        }
        let error = match self.go_on_replaying(id) {
            Ok(None) => return Ok(()),
            Ok(Some(divergence)) => {
                divergence.into_plain_error(self.settings.registry.language.as_deref())
            }
            Err(error) => error,
        };
        self.forget_run(id);
        Err(error)
    }

    /// Whether the code does what the log has next, as far as is known.
    pub(crate) fn can_travel_on(&mut self, id: RunId) -> bool {
        let halt = self.travelling(id).and_then(|replay| replay.halt.as_ref());
        halt.is_some_and(|halt| !halt.is_apart())
    }

    /// The errors that tasks have failed with so far.
    pub(crate) fn failures(&mut self, id: RunId) -> BTreeMap<Tid, TaskError> {
        self.travelling(id).map(|replay| replay.failed.clone()).unwrap_or_default()
    }

    /// The steps that wait for their answers, as text.
    pub(crate) fn waiting_steps(&mut self, id: RunId) -> BTreeMap<CallRef, String> {
        let orders = self.travelling(id).into_iter().flat_map(|replay| &replay.orders);
        let steps = orders.filter_map(|order| match order {
            Order::Start(call, work) => {
                Some((*call, call_shown(CallKind::Effect.tag(), Some(work.name))))
            }
            Order::Ask(call, asked) => {
                let question = decode::<Question>(&asked.about).ok()?.question;
                Some((*call, call_shown(CallKind::Approve.tag(), Some(&question))))
            }
            _ => None,
        });
        steps.collect()
    }

    fn travelling(&mut self, id: RunId) -> Option<&mut Replay> {
        let durable_state = self.runs[*self.places.get(&id)?].durable_state.as_mut()?;
        durable_state.replay.as_deref_mut()
    }
}
