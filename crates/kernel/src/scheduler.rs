//! Taking turns. A round resumes each ready task once; what a task asks for is accepted when it
//! returns; an answer makes a task ready again. This is the only place where states change.

use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;

use crate::call::{Reply, SystemCall};
use crate::calls::Answer;
use crate::config::Mode;
use crate::coroutine::{BoxCoroutine, Coroutine, Port, Post, Step, Unwind};
use crate::error::{ErrorKind, TaskError};
use crate::handler::Verdict;
use crate::id::{CallId, TaskRef, Tid};
use crate::outbox::{Completion, EventKind};
use crate::policy::Candidate;
use crate::run::{Run, RunFailure};
use crate::state::{BlockReason, TaskState};
use crate::store::Scope;
use crate::task::{Body, Calls, Mark, Outcome, Outstanding, Progress, Wait};
use crate::time::Time;
use crate::timer::Due;
use crate::value::Value;

impl Run {
    /// Gives every ready task one turn and answers how many had it. The host either sets the round's
    /// clock here, or leaves that to the first coroutine that needs it.
    pub fn round(&mut self, port: &Port, now: Option<Time>) -> usize {
        self.begin_round(port, now);
        let mut steps = 0;
        while let Some(slot) = self.ready.next() {
            self.step(slot, port);
            steps += 1;
        }
        self.end_round(port);
        steps
    }

    /// Begins a round that `step_round` goes through by single steps.
    pub fn begin_round(&mut self, port: &Port, now: Option<Time>) {
        self.enter(port, now);
        self.accept_strays(port);
        self.ready.begin_round();
        if self.policy.is_some() {
            self.plan_round();
        }
    }

    /// Gives the next task of the round its turn. `false`: the round is over.
    pub fn step_round(&mut self, port: &Port, now: Option<Time>) -> bool {
        self.enter(port, now);
        let Some(slot) = self.ready.next() else { return false };
        self.step(slot, port);
        self.end_round(port);
        true
    }

    fn enter(&mut self, port: &Port, now: Option<Time>) {
        if let Some(now) = now {
            self.set_clock(now);
        }
        port.begin(self.next_call, now);
    }

    fn end_round(&mut self, port: &Port) {
        self.next_call = port.next_call();
    }

    /// Fires the timers that are due, by deadline and then by the order they were armed in.
    pub fn advance(&mut self, now: Time) {
        self.set_clock(now);
        while let Some(due) = self.timers.pop_due(self.clock) {
            match due {
                Due::Call { task, call } => {
                    self.hope.timers -= 1;
                    self.answer(task, call, Reply::Unit);
                }
                Due::Grace { task, tid } => self.end_grace(task, Tid(tid)),
                Due::Limit => self.over_time(),
            }
        }
    }

    /// Takes in what the outside has to tell.
    pub fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Call(at, result) => self.complete_call(at, result),
            Completion::Settle(uuid, result) => self.settle_external(uuid, result),
            Completion::Wake(task) => self.wake_foreign(task),
        }
    }

    /// Whether nothing but the host can make a task ready, and the host cannot either. Then the run
    /// fails with a list of who waits for what.
    pub fn check_deadlock(&mut self) -> bool {
        let hopeless = self.hope.timers == 0
            && self.hope.descriptors == 0
            && self.hope.effects == 0
            && self.hope.externals == 0;
        let hopeless = hopeless && !self.grace_may_end();
        if self.is_ready() || self.is_over() || !hopeless || self.foreign_may_wake() {
            self.report_cycles();
            return false;
        }
        let report = self.deadlock_report();
        self.fail(RunFailure::Deadlock(report));
        true
    }

    /// Whether a cleanup that never ends by itself has a deadline.
    fn grace_may_end(&self) -> bool {
        self.cancel_grace.is_some_and(|grace| self.clock.checked_add(grace).is_some())
            && self.tasks.iter().any(|(_, task)| task.state() == TaskState::Cancelling)
    }

    fn foreign_may_wake(&self) -> bool {
        self.tasks.iter().any(|(_, task)| match &task.body {
            Body::Live { coroutine: Some(coroutine), .. } => coroutine.may_be_woken(),
            _ => false,
        })
    }

    /// One turn of one task.
    fn step(&mut self, slot: u32, port: &Port) {
        let task = &mut self.tasks[slot as usize];
        task.marks.clear(Mark::Queued);
        let cancelling = match task.state() {
            TaskState::Cancelling => true,
            state if state.is_ready() => {
                task.become_state(TaskState::Running);
                false
            }
            _ => return self.reclaim(slot),
        };
        let me = TaskRef { run: self.id, slot, tid: task.tid };
        let (phase, ending) = match (task.marks.has(Mark::Unwinding), task.marks.has(Mark::Ending))
        {
            (_, true) => (Unwind::Begin, true),
            (false, _) => (Unwind::Begin, false),
            (true, _) => (Unwind::Continue, false),
        };
        if cancelling {
            task.marks.set(Mark::Unwinding);
        }
        let Body::Live { coroutine, calls } = &mut task.body else {
            unreachable!("a task that has a turn is not over")
        };
        let mut coroutine = coroutine.take().expect("a task that has a turn has its coroutine");
        offer_replies(calls, port);
        let named = task.marks.has(Mark::Extra);
        self.event(slot, EventKind::Running);

        port.enter(me);
        if named {
            port.set_name(self.name(slot));
        }
        let step = match (cancelling, ending) {
            (false, _) => coroutine.as_mut().resume(port),
            (true, false) => coroutine.as_mut().unwind(port, phase),
            (true, true) => {
                drop(coroutine);
                coroutine = Box::pin(Nothing);
                Step::Done(Value::Unit)
            }
        };
        port.leave();
        if named {
            port.set_name(None);
        }

        if let Some(now) = port.clock() {
            self.set_clock(now);
        }
        let Body::Live { coroutine: place, calls } = &mut self.tasks[slot as usize].body else {
            unreachable!("only its own step ends a running task")
        };
        while let Some((id, reply)) = port.untaken() {
            calls.add(Outstanding { id, progress: Progress::Answered(reply) });
        }
        match step {
            Step::Pending => {
                *place = Some(coroutine);
                self.accept_posts(slot, port);
                self.settle_down(slot);
                if self.mode == Mode::Durable {
                    self.accept_strays(port);
                }
            }
            Step::Done(value) => {
                drop(coroutine);
                self.accept_posts(slot, port);
                let end = if cancelling { End::Cancelled } else { End::Completed(value) };
                self.finish(slot, end);
                self.accept_strays(port);
            }
            Step::Failed(error) => {
                drop(coroutine);
                self.accept_posts(slot, port);
                self.finish(slot, End::Failed(error));
                self.accept_strays(port);
            }
        }
    }

    /// After its turn a task is ready again, or waits.
    fn settle_down(&mut self, slot: u32) {
        let answered = std::mem::take(&mut self.running_answered);
        let task = &mut self.tasks[slot as usize];
        if task.state() == TaskState::Cancelling {
            // In cleanup: it stays Cancelling, and has another turn when a call of it is answered.
            if answered && !task.marks.has(Mark::Queued) {
                task.marks.set(Mark::Queued);
                self.ready.push_yielded(slot);
            }
            return;
        }
        if answered {
            task.become_state(TaskState::Suspended);
            task.marks.set(Mark::Queued);
            self.ready.push_yielded(slot);
            return;
        }
        if task.marks.has(Mark::CancelRequested) {
            // It cancelled itself, and now waits without having made another call.
            return self.begin_cancel(slot);
        }
        let reason = task.calls().first_wait().map(|wait| wait.reason());
        if reason.is_none() && self.mode == Mode::Durable {
            let error = TaskError::new(
                ErrorKind::NotDurable,
                "a durable task awaited a future that is no system call",
            );
            return self.finish(slot, End::Failed(error));
        }
        let reason = reason.unwrap_or(BlockReason::Foreign);
        task.become_state(TaskState::Blocked(reason));
        self.event(slot, EventKind::Blocked(reason));
    }

    /// Accepts what a coroutine left in the port, in the order it was left.
    fn accept_posts(&mut self, slot: u32, port: &Port) {
        self.running_answered = false;
        if let Some(post) = port.next_post() {
            self.accept_post(slot, post);
        }
        while port.has_more() {
            for post in port.take_more() {
                self.accept_post(slot, post);
            }
        }
    }

    /// What was left in the port while no task of this thread was running: handles dropped elsewhere, or
    /// with the result of a task that has just ended. Giving one back may drop others.
    #[inline]
    fn accept_strays(&mut self, port: &Port) {
        loop {
            let first = port.next_post();
            if first.is_none() && !port.has_more() {
                return;
            }
            for post in first.into_iter().chain(port.take_more()) {
                match post {
                    Post::Release(release) => self.release(release),
                    Post::Withdraw(maker, id) => self.withdraw_by(maker, id),
                    Post::Call { .. } | Post::Wake => {}
                }
            }
        }
    }

    #[inline]
    fn accept_post(&mut self, slot: u32, post: Post) {
        match post {
            Post::Call { id, call, at } => self.accept_call(slot, id, call, at),
            Post::Withdraw(maker, id) => self.withdraw_by(maker, id),
            Post::Release(release) => self.release(release),
            Post::Wake => self.running_answered = true,
        }
    }

    #[inline]
    fn accept_call(
        &mut self,
        slot: u32,
        id: CallId,
        call: SystemCall,
        at: &'static Location<'static>,
    ) {
        self.calls_made += 1;
        let task = &mut self.tasks[slot as usize];
        task.called_at = at;
        if task.marks.has(Mark::CancelRequested) && !task.marks.has(Mark::Unwinding) {
            if task.state() == TaskState::Running {
                self.begin_cancel(slot);
            }
            return;
        }
        let ended = !matches!(task.body, Body::Live { coroutine: Some(_), .. });
        let hooded = task.scope.as_ref().is_some_and(|scope| scope.handlers.is_some());
        if ended || hooded || self.watched() || self.limits.max_calls.is_some() {
            return self.accept_with_care(slot, id, call, at);
        }
        self.perform(slot, id, call, at);
    }

    /// The way of a call when somebody watches, handles or limits it.
    #[cold]
    fn accept_with_care(
        &mut self,
        slot: u32,
        id: CallId,
        mut call: SystemCall,
        at: &'static Location<'static>,
    ) {
        if matches!(self.tasks[slot as usize].body, Body::Live { coroutine: None, .. }) {
            return; // Made in the same breath as the task's end: nobody will take the answer.
        }
        if self.watched() {
            let kind = call.kind();
            self.event(slot, EventKind::Called { id, kind, call: call.to_string(), at: at.into() });
        }
        if self.limits.max_calls.is_some_and(|limit| self.calls_made > limit) {
            let message = format!("the run made more than {} calls", self.calls_made - 1);
            let error = TaskError::new(ErrorKind::CallLimit, message)
                .at_call(call.kind(), call.given_name(), at)
                .in_task(|| self.label(slot));
            self.fail(RunFailure::Limit(error));
            if self.tasks[slot as usize].state() == TaskState::Running {
                self.begin_cancel(slot);
            }
            return;
        }
        if !call.kind().is_scheduling() {
            let caller = self.tasks[slot as usize].tid;
            let mut link =
                self.tasks[slot as usize].scope.as_ref().and_then(|scope| scope.handlers.clone());
            while let Some(here) = link {
                match here.handler.handle(&mut call, caller) {
                    Verdict::Pass => link = here.outer.clone(),
                    Verdict::Answer(reply) => return self.note_reply(slot, id, reply),
                    Verdict::Refuse(why) => {
                        let message = format!("handler `{}` refused: {why}", here.handler.name());
                        let error = TaskError::new(ErrorKind::Refused, message)
                            .at_call(call.kind(), call.given_name(), at)
                            .in_task(|| self.label(slot));
                        return self.note_reply(slot, id, Reply::Error(error));
                    }
                    Verdict::Run(coroutine) => {
                        let wait = self.run_handler(slot, id, coroutine, here.outer.clone(), at);
                        return self.note_wait(slot, id, wait);
                    }
                }
            }
        }
        self.perform(slot, id, call, at);
    }

    /// Does what a call asks for.
    #[inline]
    fn perform(&mut self, slot: u32, id: CallId, call: SystemCall, at: &'static Location<'static>) {
        if let SystemCall::Yield = call {
            return self.note_reply(slot, id, Reply::Unit);
        }
        let (kind, name) = (call.kind(), call.given_name());
        match self.dispatch(slot, id, call, at) {
            Answer::Now(Reply::Error(error)) => {
                let error = error.at_call(kind, name, at).in_task(|| self.label(slot));
                self.note_reply(slot, id, Reply::Error(error));
            }
            Answer::Now(reply) => self.note_reply(slot, id, reply),
            Answer::Later(wait) => self.note_wait(slot, id, wait),
        }
    }

    /// The running task's call is answered at once.
    #[inline]
    fn note_reply(&mut self, slot: u32, id: CallId, reply: Reply) {
        if self.watched() {
            self.note_answer_event(slot, id, &reply);
        }
        self.tasks[slot as usize]
            .calls_mut()
            .add(Outstanding { id, progress: Progress::Answered(reply) });
        self.running_answered = true;
    }

    fn note_wait(&mut self, slot: u32, id: CallId, wait: Wait) {
        self.tasks[slot as usize]
            .calls_mut()
            .add(Outstanding { id, progress: Progress::Waiting(wait) });
    }

    #[cold]
    fn note_answer_event(&mut self, slot: u32, id: CallId, reply: &Reply) {
        let error = match reply {
            Reply::Error(error) => Some(error.code()),
            _ => None,
        };
        self.event(slot, EventKind::Answered { id, error });
    }

    /// Runs a handler's coroutine as a task of its own, which sees only the handlers outside.
    fn run_handler(
        &mut self,
        slot: u32,
        id: CallId,
        coroutine: BoxCoroutine,
        outer: crate::store::Chain,
        at: &'static Location<'static>,
    ) -> Wait {
        let caller = &self.tasks[slot as usize];
        let parent = caller.tid;
        let scope = caller.scope.as_deref().cloned().unwrap_or_default();
        let scope = Rc::new(Scope { handlers: outer, ..scope });
        let child = self.add_task(coroutine, at, Some(scope), None);
        self.tasks[child as usize].marks.clear(Mark::Held);
        self.announce_spawn(child, Some(parent));
        let node = self.wait_for_task(child, slot, id, 0);
        Wait::Handler { task: child, node }
    }

    /// Answers a call that waits. Its task becomes ready, if it was not.
    pub(crate) fn answer(&mut self, slot: u32, id: CallId, reply: Reply) {
        let Some(task) = self.tasks.get_mut(slot as usize) else { return };
        let Body::Live { calls, .. } = &mut task.body else { return };
        let Some(call) = calls.get_mut(id) else { return };
        call.progress = Progress::Answered(reply);
        let state = task.state();
        let queued = task.marks.has(Mark::Queued);
        match state {
            TaskState::Blocked(_) => {
                task.become_state(TaskState::Suspended);
                task.marks.set(Mark::Queued);
                self.ready.push_woken(slot);
                self.event(slot, EventKind::Woken);
            }
            TaskState::Running => self.running_answered = true,
            TaskState::Cancelling if !queued => {
                task.marks.set(Mark::Queued);
                self.ready.push_woken(slot);
            }
            _ => {}
        }
    }

    /// A foreign future of this task can go on.
    fn wake_foreign(&mut self, task: TaskRef) {
        let Ok(slot) = self.find_task(task) else { return };
        let task = &mut self.tasks[slot as usize];
        if let TaskState::Blocked(_) = task.state() {
            task.become_state(TaskState::Suspended);
            task.marks.set(Mark::Queued);
            self.ready.push_woken(slot);
            self.event(slot, EventKind::Woken);
        }
    }

    /// Ends a task: tells its waiters, its group and the run.
    pub(crate) fn finish(&mut self, slot: u32, end: End) {
        self.withdraw_all(slot);
        let label = |run: &Run| run.label(slot);
        let (state, outcome) = match end {
            End::Completed(value) => (TaskState::Completed, Outcome::Value(value)),
            End::Failed(error) => {
                (TaskState::Failed, Outcome::Error(error.through_task(label(self))))
            }
            End::Cancelled => {
                let tid = self.tasks[slot as usize].tid;
                let message = format!("task {tid} was cancelled");
                let error = TaskError::new(ErrorKind::TaskCancelled, message);
                (TaskState::Cancelled, Outcome::Error(error.in_task(|| label(self))))
            }
        };
        let task = &mut self.tasks[slot as usize];
        task.become_state(state);
        self.live -= 1;
        if self.watched() {
            let kind = match (&outcome, state) {
                (_, TaskState::Cancelled) => EventKind::Cancelled,
                (Outcome::Error(error), _) => EventKind::Failed(error.clone()),
                _ => EventKind::Completed,
            };
            self.event(slot, kind);
        }
        self.root_ended(slot, &outcome);
        let ended = self.next_end();
        let task = &mut self.tasks[slot as usize];
        task.body = Body::Over { outcome, ended };
        if task.marks.has(Mark::Extra) {
            self.end_extra(slot);
        }
        if !self.tasks[slot as usize].waiters.is_empty() {
            self.tell_task_waiters(slot);
        }
        self.reclaim(slot);
    }

    /// Forgets a task that is over, that nobody holds and that is not in the queue.
    pub(crate) fn reclaim(&mut self, slot: u32) {
        let task = &self.tasks[slot as usize];
        if task.marks.has(Mark::Held) || task.marks.has(Mark::Queued) || !task.state().is_terminal()
        {
            return;
        }
        let task = self.tasks.remove(slot as usize);
        self.tids.remove(task.tid);
        if task.marks.has(Mark::Extra) {
            self.extras.remove(&slot);
        }
        if task.state() == TaskState::Failed
            && !task.marks.has(Mark::Observed)
            && let Body::Over { outcome: Outcome::Error(error), .. } = task.body
        {
            self.keep_unobserved(error);
        }
    }

    /// Lets the policy choose from the round's tasks.
    fn plan_round(&mut self) {
        let mut round = self.ready.take_round();
        round.retain(|slot| {
            let over = self.tasks[*slot as usize].state().is_terminal();
            if over {
                self.tasks[*slot as usize].marks.clear(Mark::Queued);
                self.ages.remove(slot);
                self.reclaim(*slot);
            }
            !over
        });
        let candidates: Vec<Candidate> = round
            .iter()
            .map(|slot| {
                let task = &self.tasks[*slot as usize];
                Candidate {
                    tid: task.tid,
                    priority: task.priority,
                    dependents: self.dependents(*slot),
                    age: self.ages.get(slot).copied().unwrap_or(0),
                }
            })
            .collect();
        let mut plan = Vec::new();
        if let Some(policy) = &mut self.policy {
            policy.plan(&candidates, &mut plan);
        }
        let mut left: BTreeMap<Tid, u32> =
            candidates.iter().map(|candidate| candidate.tid).zip(round.iter().copied()).collect();
        let mut chosen = Vec::new();
        for tid in plan {
            match left.remove(&tid) {
                Some(slot) => chosen.push(slot),
                None => self.report_not_ready(tid),
            }
        }
        if chosen.is_empty() {
            chosen = std::mem::take(&mut round);
        }
        let keep: Vec<u32> = round
            .into_iter()
            .filter(|slot| left.contains_key(&self.tasks[*slot as usize].tid))
            .collect();
        for slot in &chosen {
            self.ages.remove(slot);
        }
        for slot in &keep {
            *self.ages.entry(*slot).or_default() += 1;
        }
        self.ready.set_round(chosen, keep);
    }

    #[cold]
    fn report_not_ready(&mut self, tid: Tid) {
        if let Some(slot) = self.tids.get(tid) {
            self.event(slot, EventKind::NotReady);
        }
    }
}

/// How a task ends.
pub(crate) enum End {
    Completed(Value),
    Failed(TaskError),
    Cancelled,
}

/// Stands in for a coroutine that was dropped to cut its cleanup short.
struct Nothing;

impl Coroutine for Nothing {
    fn resume(self: Pin<&mut Self>, _: &Port) -> Step {
        Step::Done(Value::Unit)
    }
}

/// Moves the replies a task has into the port.
#[inline]
fn offer_replies(calls: &mut Calls, port: &Port) {
    match calls {
        Calls::None => {}
        Calls::One(Outstanding { progress: Progress::Answered(_), .. }) => {
            if let Calls::One(Outstanding { id, progress: Progress::Answered(reply) }) =
                std::mem::replace(calls, Calls::None)
            {
                port.offer(id, reply);
            }
        }
        Calls::One(_) => {}
        Calls::Many(all) => {
            for call in std::mem::take(&mut **all) {
                match call.progress {
                    Progress::Answered(reply) => port.offer(call.id, reply),
                    Progress::Waiting(..) => all.push(call),
                }
            }
            if all.is_empty() {
                *calls = Calls::None;
            }
        }
    }
}
