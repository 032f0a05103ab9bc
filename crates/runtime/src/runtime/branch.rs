//! The effects of a fork: each gets its parent's answer, or an attempt of its own if that is
//! allowed, and otherwise waits until it is allowed.

use std::collections::{BTreeMap, BTreeSet};

use tiffany_kernel::{
    CallRef, Completion, EffectWork, ErrorKind, Order, TaskError, Tid, Uuid, Value,
};

use crate::run_log::dormant_run::is_at_most_once;
use crate::run_log::fork::inheritance::{Answer, Calls, Inheritance, Read, Unread, effects};
use crate::run_log::fork::{ALL, no_fork};
use crate::run_log::replay::decoded_log::{DecodedLog, ForkPoint};
use crate::run_log::replay::read::fetch;
use crate::runtime::Runtime;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;
use tiffany_log::{LogError, Payload};
use tiffany_records::key::LogEnd;
use tiffany_records::redact::shown;

/// The state of a run that is a fork.
pub(crate) struct Branch {
    point: ForkPoint,
    allowed: BTreeSet<String>,
    /// The effects it has asked for, and the answers that its parent got.
    calls: Calls,
    answers: Inheritance,
    /// Effects whose answers can't be read. Earlier permissions don't apply to them, because they
    /// may have been carried out.
    unread: Option<Unread>,
    /// Promises that it shares with its parent.
    promises: BTreeSet<Uuid>,
    /// Answers of the parent that are about to be given, in the order in which the parent had them.
    due: BTreeMap<(usize, usize), (CallRef, Result<Value, TaskError>)>,
    /// The call that is being answered with one.
    pub(crate) answering: Option<CallRef>,
    /// The effects that it needs and is not allowed to carry out.
    refused: Vec<(CallRef, EffectWork)>,
    /// Where its parent's log ended when it was read; `None` if that isn't known.
    read_to: Option<LogEnd>,
    /// Steps that wait until the parent's log is read again, because the parent has continued
    /// since.
    unsure: Vec<(CallRef, EffectWork)>,
}

impl Branch {
    /// The state for the fork with this log; `None` if its run is not a fork.
    pub(crate) fn of(decoded: &DecodedLog, durable: &Durable) -> Option<Box<Branch>> {
        let point = decoded.forks.last()?.clone();
        let calls = effects(decoded);
        // A running parent is ahead of its file; that is read when the fork needs it.
        let read_to = end_of_finished(durable, point.parent);
        let (answers, unread) = inheritance(&point, &calls, durable);
        let allowed = match unread {
            None => decoded.allowed.clone(),
            Some(_) => BTreeSet::new(),
        };
        Some(Box::new(Branch {
            answers,
            unread,
            point,
            calls,
            allowed,
            promises: decoded.inherited.clone(),
            due: BTreeMap::new(),
            answering: None,
            refused: Vec::new(),
            read_to,
            unsure: Vec::new(),
        }))
    }

    /// The run that it is a fork of.
    pub(crate) fn parent(&self) -> Uuid {
        self.point.parent
    }

    /// The record up to which they are the same.
    pub(crate) fn at(&self) -> u64 {
        self.point.at
    }

    /// Whether it shares a promise with its parent. Such a promise is settled only by naming the
    /// fork.
    pub(crate) fn shares(&self, promise: Uuid) -> bool {
        self.promises.contains(&promise)
    }

    fn allows(&self, name: &str) -> bool {
        self.allowed.contains(name) || self.allowed.contains(ALL)
    }

    /// Why the fork does not continue, if it waits only for a permission.
    pub(crate) fn refusal(&self, run: Uuid) -> Option<TaskError> {
        (!self.refused.is_empty() && self.due.is_empty()).then(|| self.error(run))
    }

    fn error(&self, run: Uuid) -> TaskError {
        let mut names: Vec<&str> = self.refused.iter().map(|(_, effect)| effect.name).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.join("`, `");
        let message = match &self.unread {
            None => format!(
                "fork {run} needs `{names}`, for which its parent has no answer and which is not allowed"
            ),
            Some(Unread { parent, why }) => format!(
                "fork {run} needs `{names}`; whether that was done is in the log of run {parent}, which can't be read ({why}). \
                 A step that is allowed now is executed, perhaps for the second time"
            ),
        };
        TaskError::new(ErrorKind::NotAllowed, message)
    }
}

fn inheritance(
    fork: &ForkPoint,
    calls: &Calls,
    durable: &Durable,
) -> (Inheritance, Option<Unread>) {
    let read = |parent| match durable.runs.get(&parent) {
        Some(Known::Removed) => Err("it was removed".to_owned()),
        // The rest of it may look whole.
        Some(Known::Paused(damage, None)) => Err(damage.message().to_owned()),
        _ => read_parent(durable, parent).map_err(|error| error.to_string()),
    };
    match Inheritance::of(fork, calls, &read) {
        Ok(answers) => (answers, None),
        Err(unread) => (Inheritance::default(), Some(unread)),
    }
}

fn read_parent(durable: &Durable, parent: Uuid) -> Result<Read, LogError> {
    let decoded = durable.read(parent, |_| false)?;
    let fetch = |payload: &Payload<'_>| fetch(&*durable.disk, &durable.root, payload);
    let mut in_doubt = BTreeSet::new();
    for call in decoded.calls.values().flatten() {
        let is_open = decoded.begun.get(&call.seq).is_some_and(|begun| begun.is_open);
        if is_open && is_at_most_once(call.field("about").unwrap_or_default(), &fetch)? {
            in_doubt.insert(call.seq);
        }
    }
    Ok(Read { decoded, in_doubt })
}

/// The end of the log of a run that has ended.
fn end_of_finished(durable: &Durable, run: Uuid) -> Option<LogEnd> {
    match durable.runs.get(&run) {
        Some(Known::Over(end, _)) => Some(*end),
        _ => None,
    }
}

impl Runtime {
    /// The present end of the log of a run, as far as it is known without reading the log.
    fn end_of_log(&self, run: Uuid) -> Option<LogEnd> {
        let durable = self.durable.as_ref()?;
        match durable.runs.get(&run)? {
            Known::Live(id) => {
                let hosted = self.runs.of(*id)?;
                Some(LogEnd::of(&hosted.durable_state.as_ref()?.journal.chain))
            }
            Known::Paused(_, Some(dormant)) => Some(dormant.stand()),
            _ => end_of_finished(durable, run),
        }
    }

    /// Handles the call of an effect. Returns the effect if it is to be carried out.
    pub(crate) fn ask_parent(
        &mut self,
        place: usize,
        call: CallRef,
        effect: EffectWork,
    ) -> Option<EffectWork> {
        let durable_state = self.runs[place].durable_state.as_ref();
        let parent = durable_state.and_then(|it| it.branch.as_ref()).map(|it| it.parent());
        let parents_end = parent.and_then(|parent| self.end_of_log(parent));
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return Some(effect);
        };
        let Some(branch) = &mut durable_state.branch else { return Some(effect) };
        let Some(record) = durable_state.journal.seq_of(call) else { return Some(effect) };
        let tid = hosted.run.caller(call).unwrap_or(Tid(1));
        let about = effect.about.as_deref().unwrap_or_default();
        let what = (effect.name, about);
        if !branch.answers.has((record, tid), what, &branch.calls) && branch.read_to != parents_end
        {
            branch.unsure.push((call, effect));
            return None;
        }
        let answer = branch.answers.take((record, tid), what, &mut branch.calls);
        let is_allowed = branch.allows(effect.name);
        match answer {
            Some(Answer { order, result, is_in_doubt }) if is_allowed || !is_in_doubt => {
                branch.due.insert(order, (call, result));
                return None;
            }
            None if is_allowed => return Some(effect),
            _ => {}
        }
        let begun = durable_state.begun.entry(record).or_default();
        if !std::mem::replace(&mut begun.is_refused, true) {
            let (run, name) = (durable_state.journal.run(), effect.name);
            let mut lines = durable_state.journal.lines_after(&mut durable.page, &mut hosted.run);
            lines.effect_refused(tid, record, name);
            tracing::warn!(
                target: "tiffany", %run, code = ErrorKind::NotAllowed.code(),
                "fork {run} needs `{}`, which is not allowed", shown(name),
            );
        }
        branch.refused.push((call, effect));
        None
    }

    /// Forgets an effect that no task waits for any more.
    pub(crate) fn leave_parent(&mut self, place: usize, call: CallRef) {
        let durable_state = self.runs[place].durable_state.as_mut();
        if let Some(branch) = durable_state.and_then(|durable_state| durable_state.branch.as_mut())
        {
            branch.due.retain(|_, (waits, _)| *waits != call);
            branch.refused.retain(|(waits, _)| *waits != call);
            branch.unsure.retain(|(waits, _)| *waits != call);
        }
    }

    /// Answers a fork that has nothing else to do with the next answer of its parent.
    pub(crate) fn inherit(&mut self, place: usize) {
        self.ask_parent_again(place);
        while let Some(hosted) = self.runs.get_mut(place)
            && !hosted.run.is_ready()
            && let Some(branch) = hosted
                .durable_state
                .as_mut()
                .and_then(|durable_state| durable_state.branch.as_mut())
            && let Some((_, (call, result))) = branch.due.pop_first()
        {
            branch.answering = Some(call);
            self.complete(call.run, Completion::Call(call, result));
        }
    }

    /// Allows effects of a fork in memory, and starts the ones that it waited for. Its parent may
    /// have answers by now, too.
    pub(crate) fn allow_effects(
        &mut self,
        run: Uuid,
        names: &BTreeSet<String>,
    ) -> Result<(), TaskError> {
        let id = self.live(run)?;
        let place = self.runs.place_of_live(id);
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let (Some(durable_state), Some(durable)) = (&mut hosted.durable_state, &mut self.durable)
        else {
            return Err(no_fork(run));
        };
        let Some(branch) = &mut durable_state.branch else { return Err(no_fork(run)) };
        let mut lines = durable_state.journal.lines_now(&mut durable.page, &mut hosted.run, now);
        lines.effects_allowed(names);
        let refused = std::mem::take(&mut branch.refused);
        self.look_at_parent_again(place);
        let branch = self.runs[place].durable_state.as_mut().and_then(|it| it.branch.as_mut());
        branch.into_iter().for_each(|branch| branch.allowed.extend(names.iter().cloned()));
        self.start_where_parent_has_none(place, refused);
        self.inherit(place);
        self.hand_in();
        Ok(())
    }

    /// Reads the parent's log again for the steps that wait for it.
    fn ask_parent_again(&mut self, place: usize) {
        let branch = self.runs.get_mut(place).and_then(|hosted| {
            hosted.durable_state.as_mut().and_then(|durable_state| durable_state.branch.as_mut())
        });
        let unsure = branch.map(|branch| std::mem::take(&mut branch.unsure)).unwrap_or_default();
        if !unsure.is_empty() {
            self.look_at_parent_again(place);
            self.start_where_parent_has_none(place, unsure);
            self.hand_in();
        }
    }

    fn start_where_parent_has_none(&mut self, place: usize, steps: Vec<(CallRef, EffectWork)>) {
        for (call, effect) in steps {
            if let Some(effect) = self.ask_parent(place, call, effect) {
                self.execute(call.run, Order::Start(call, effect));
            }
        }
    }

    /// A parent that is running may have answers that it did not have when the fork was made.
    fn look_at_parent_again(&mut self, place: usize) {
        self.hand_in();
        let parent = self.runs[place].durable_state.as_ref().and_then(|it| it.branch.as_ref());
        let read_to = parent.map(|branch| branch.parent()).and_then(|run| self.end_of_log(run));
        let (Some(durable_state), Some(durable)) =
            (&mut self.runs[place].durable_state, &mut self.durable)
        else {
            return;
        };
        if let Some(branch) = &mut durable_state.branch
            && durable.log.catch_up().is_ok()
        {
            let was_read = branch.unread.is_none();
            (branch.answers, branch.unread) = inheritance(&branch.point, &branch.calls, durable);
            branch.read_to = read_to;
            if was_read && branch.unread.is_some() {
                branch.allowed.clear();
            }
        }
    }
}
