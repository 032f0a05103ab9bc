//! A replay that halts at a record: everything that the log has up to there has happened, and
//! nothing after the turn in which it did. From there it can continue to a later record.

use std::collections::BTreeMap;

use tiffany_kernel::{CallKind, CallRef, Order, RunId, TaskError, Tid};

use crate::run_log::replay::halt::Halt;
use crate::run_log::replay::matcher::Replay;
use crate::time_travel::travel::TimeTravel;
use tiffany_records::call_words::call_shown;
use tiffany_records::request::Question;
use tiffany_records::value::decode;

impl TimeTravel {
    /// Starts the run again, before its first record.
    pub(super) fn begin(&mut self) -> Result<RunId, TaskError> {
        let (chain, decoded) = (self.history.chain(), self.history.decoded().clone());
        self.room.start_again(chain, decoded, Some(Halt::default()))
    }

    /// Continues from one record to a later one. A run that does not get there is forgotten.
    pub(super) fn go_on(&mut self, id: RunId, (from, to): (u64, u64)) -> Result<(), TaskError> {
        let state = self.room.runs.durable_state_mut(id);
        let replay = state.and_then(|state| state.replay.as_deref_mut());
        if let Some(halt) = replay.and_then(|replay| replay.halt.as_mut()) {
            self.history.lines(from, to).for_each(|line| halt.advance(line.tid, line.means));
        }
        let error = match self.room.go_on_replaying(id) {
            Ok(None) => return Ok(()),
            Ok(Some(divergence)) => {
                divergence.into_plain_error(self.room.settings.registry.language.as_deref())
            }
            Err(error) => error,
        };
        self.room.forget_run(id);
        Err(error)
    }

    /// Whether the code does what the log has next, as far as is known.
    pub(super) fn can_go_on(&self, id: RunId) -> bool {
        let halt = self.replay(id).and_then(|replay| replay.halt.as_ref());
        halt.is_some_and(|halt| !halt.is_apart())
    }

    /// The errors that tasks have failed with so far.
    pub(super) fn failures(&self, id: RunId) -> BTreeMap<Tid, TaskError> {
        self.replay(id).map(|replay| replay.failed.clone()).unwrap_or_default()
    }

    /// The steps that wait for their answers, as text.
    pub(super) fn waiting_steps(&self, id: RunId) -> BTreeMap<CallRef, String> {
        let orders = self.replay(id).into_iter().flat_map(|replay| &replay.orders);
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

    fn replay(&self, id: RunId) -> Option<&Replay> {
        self.room.runs.durable_state(id)?.replay.as_deref()
    }
}
