//! Runs a run again without its effects, as far as its log goes or further.

use crate::calls::context;
use crate::calls::context::Entered;
use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::replay::divergence::Divergence;
use crate::run_log::replay::dry_run::AHEAD;
use crate::run_log::replay::dry_run::Act;
use crate::run_log::replay::dry_run::DryRun;
use crate::run_log::replay::dry_run::TO_THE_END;
use crate::run_log::replay::dry_run::Until;
use crate::run_log::replay::dry_run::Upcoming;
use crate::run_log::replay::proposal;
use crate::runtime::Runtime;
use tiffany_kernel::{CallKind, Order, RecordKind, TaskError, Tid};
use tiffany_log::Chain;
use tiffany_records::value::Json;

impl Runtime {
    /// Runs a run again against its log.
    pub fn dry_run(
        &mut self,
        chain: &Chain,
        decoded: DecodedLog,
        until: Until,
    ) -> Result<DryRun, TaskError> {
        let decoded = decoded.traced();
        let (id, stopped) = self.try_replay(chain, decoded.clone())?;
        let place = self.places[&id];
        if let Some(divergence) = stopped {
            let (acts, matched) = self.take_trace(place);
            self.end_trial(id, None);
            let cause = self.find_cause(chain, &decoded, &divergence, matched)?;
            let language = self.settings.registry.language.as_deref();
            let proposal = divergence.proposal(cause, &|id, way| match language {
                Some(language) => language.patched(id, way),
                None => proposal::rust(id, way),
            });
            let parting = Some(divergence.clone().into_plain_error(language));
            let apart = Some(divergence.into_error(cause, language, &decoded.beginning));
            let none = DryRun::default();
            return Ok(DryRun { matched, apart, parting, acts, proposal, ..none });
        }
        let is_finished = decoded.outcome.is_some();
        let apart = match is_finished || until == Until::TheNextCalls {
            true => self.look_ahead(place, is_finished)?.err(),
            false => None,
        };
        let mut dry_run = self.sum_up(place);
        let language = self.settings.registry.language.as_deref();
        dry_run.apart = apart.map(|divergence| divergence.into_plain_error(language));
        self.forget_run(id);
        Ok(dry_run)
    }

    /// Lets a run go on where its log ends, without doing anything for it.
    fn look_ahead(
        &mut self,
        place: usize,
        is_finished: bool,
    ) -> Result<Result<(), Box<Divergence>>, TaskError> {
        let _entered = Entered::new(&self.host).ok_or_else(crate::runtime::resume::nested)?;
        let hosted = &mut self.runs[place];
        let Some(durable_state) = &mut hosted.durable_state else { return Ok(Ok(())) };
        let uuid = durable_state.uuid();
        let Some(replay) = &mut durable_state.replay else { return Ok(Ok(())) };
        let run = &mut hosted.run;
        let shown: u64 = replay.decoded.shown.values().sum();
        let most = match is_finished {
            true => TO_THE_END.saturating_add(usize::try_from(shown).unwrap_or(usize::MAX)),
            false => AHEAD,
        };
        for _ in 0..most {
            let goes_on = run.is_ready() || (is_finished && run.check_deadlock(|| false));
            if !goes_on {
                break;
            }
            context::with(|context| run.rounds(&context.port, None, 1));
            run.take_orders().into_iter().for_each(|order| replay.keep(order));
            self.feed.add_ghosts(&self.host.hub, uuid.into(), run);
            for record in run.take_records() {
                if let Err(divergence) = replay.compare(record) {
                    return Ok(Err(divergence));
                }
            }
        }
        Ok(Ok(()))
    }

    fn take_trace(&mut self, place: usize) -> (Vec<(Tid, Act)>, usize) {
        let durable_state = self.runs[place].durable_state.as_mut();
        match durable_state.and_then(|durable_state| durable_state.replay.as_mut()) {
            Some(replay) => (replay.trace.take().unwrap_or_default(), replay.matched),
            None => (Vec::new(), 0),
        }
    }

    fn sum_up(&mut self, place: usize) -> DryRun {
        let (acts, matched) = self.take_trace(place);
        // As the log would have it, which it is compared with.
        let rules = self.settings.redactions.as_deref();
        let hosted = &mut self.runs[place];
        let outcome = hosted.run.is_over().then(|| hosted.run.take_outcome()).flatten();
        let outcome = outcome.map(|outcome| match outcome {
            Ok(value) => {
                let json = value.borrow::<Json>().map_or("null", |json| &json.0);
                Ok(rules.map_or(json.into(), |rules| rules.json(json)).into_owned())
            }
            Err(failure) => Err(crate::run_log::journal::failure_error(&failure)),
        });
        let mut upcoming = Vec::new();
        if let Some(replay) =
            hosted.durable_state.as_ref().and_then(|durable_state| durable_state.replay.as_ref())
        {
            let asked = replay.orders.iter().filter_map(|order| match order {
                Order::Start(call, _) | Order::Commit(call) => Some(*call),
                _ => None,
            });
            let asked: Vec<_> = asked.collect();
            for record in &replay.later {
                let RecordKind::Called(call) = &record.kind else { continue };
                let waits = crate::run_log::journal::waits(call.kind)
                    || call.kind == CallKind::ReceiveMessage;
                if waits && (asked.contains(&call.call) || call.kind != CallKind::Effect) {
                    upcoming.push(Upcoming {
                        tid: record.tid,
                        call: call.kind.tag(),
                        name: call.name,
                        at: call.at.to_string(),
                    });
                }
            }
        }
        let tasks = hosted.run.tasks();
        DryRun { matched, acts, tasks, upcoming, outcome, ..DryRun::default() }
    }
}
