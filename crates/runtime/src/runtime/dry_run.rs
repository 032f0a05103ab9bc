//! Replays a run without its effects, to the end of its log or further.

use crate::activity::hub::Hub;
use crate::calls::context;
use crate::calls::context::Entered;
use crate::run_log::journal::{failure_error, waits};
use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::replay::divergence::Divergence;
use crate::run_log::replay::dry_run::AHEAD;
use crate::run_log::replay::dry_run::Act;
use crate::run_log::replay::dry_run::DryRun;
use crate::run_log::replay::dry_run::TO_THE_END;
use crate::run_log::replay::dry_run::Until;
use crate::run_log::replay::dry_run::Upcoming;
use crate::run_log::replay::matcher::Replay;
use crate::run_log::replay::proposal;
use crate::runtime::Runtime;
use crate::runtime::feed::Feed;
use crate::runtime::hosted_runs::Hosted;
use crate::runtime::resume::nested;
use tiffany_kernel::{CallKind, Order, RecordKind, TaskError, Tid};
use tiffany_log::Chain;
use tiffany_records::redact::Redactions;
use tiffany_records::value::Json;

/// Replays a run against its log.
pub(crate) fn dry_run(
    room: &mut Runtime,
    chain: &Chain,
    decoded: DecodedLog,
    until: Until,
) -> Result<DryRun, TaskError> {
    let decoded = decoded.traced();
    let (id, stopped) = room.try_replay(chain, decoded.clone())?;
    let place = room.runs.place_of_live(id);
    if let Some(divergence) = stopped {
        let (acts, matched) = take_trace(&mut room.runs[place]);
        room.end_trial(id, None);
        let cause = room.find_cause(chain, &decoded, &divergence, matched)?;
        let language = room.settings.registry.language.as_deref();
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
        true => {
            let _entered = Entered::new(&room.host).ok_or_else(nested)?;
            look_ahead(&mut room.runs[place], &room.host.hub, &mut room.feed, is_finished).err()
        }
        false => None,
    };
    // In the form of the log, with which it is compared.
    let rules = room.settings.redactions.as_deref();
    let mut dry_run = sum_up(&mut room.runs[place], rules);
    let language = room.settings.registry.language.as_deref();
    dry_run.apart = apart.map(|divergence| divergence.into_plain_error(language));
    room.forget_run(id);
    Ok(dry_run)
}

/// Lets a run continue at the end of its log, without executing anything for it.
fn look_ahead(
    hosted: &mut Hosted,
    hub: &Hub,
    feed: &mut Feed,
    is_finished: bool,
) -> Result<(), Box<Divergence>> {
    let Some(durable_state) = &mut hosted.durable_state else { return Ok(()) };
    let uuid = durable_state.uuid();
    let Some(replay) = &mut durable_state.replay else { return Ok(()) };
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
        feed.add_ghosts(hub, uuid.into(), run);
        for record in run.take_records() {
            replay.compare(record)?;
        }
    }
    Ok(())
}

fn take_trace(hosted: &mut Hosted) -> (Vec<(Tid, Act)>, usize) {
    let durable_state = hosted.durable_state.as_mut();
    match durable_state.and_then(|durable_state| durable_state.replay.as_mut()) {
        Some(replay) => (replay.trace.take().unwrap_or_default(), replay.matched),
        None => (Vec::new(), 0),
    }
}

fn sum_up(hosted: &mut Hosted, rules: Option<&Redactions>) -> DryRun {
    let (acts, matched) = take_trace(hosted);
    let outcome = hosted.run.is_over().then(|| hosted.run.take_outcome()).flatten();
    let outcome = outcome.map(|outcome| match outcome {
        Ok(value) => {
            let json = value.borrow::<Json>().map_or("null", |json| &json.0);
            Ok(rules.map_or(json.into(), |rules| rules.json(json)).into_owned())
        }
        Err(failure) => Err(failure_error(&failure)),
    });
    let replay = hosted.durable_state.as_ref().and_then(|state| state.replay.as_ref());
    let upcoming = replay.map(|replay| upcoming(replay)).unwrap_or_default();
    let tasks = hosted.run.tasks();
    DryRun { matched, acts, tasks, upcoming, outcome, ..DryRun::default() }
}

/// The calls that a run makes behind the end of its log.
fn upcoming(replay: &Replay) -> Vec<Upcoming> {
    let asked = replay.orders.iter().filter_map(|order| match order {
        Order::Start(call, _) | Order::Commit(call) => Some(*call),
        _ => None,
    });
    let asked: Vec<_> = asked.collect();
    let calls = replay.later.iter().filter_map(|record| {
        let RecordKind::Called(call) = &record.kind else { return None };
        let waits = waits(call.kind) || call.kind == CallKind::ReceiveMessage;
        let is_asked = asked.contains(&call.call) || call.kind != CallKind::Effect;
        (waits && is_asked).then(|| Upcoming {
            tid: record.tid,
            call: call.kind.tag(),
            name: call.name,
            at: call.at.to_string(),
        })
    });
    calls.collect()
}
