//! Taking turns. A round resumes each ready task once; what a task asks for is accepted when it
//! returns; an answer makes a task ready again. States change here, and in `calls/cancel.rs`.

use std::panic::Location;
use std::pin::Pin;

use crate::call::{CallKind, Reply, SystemCall};
use crate::calls::Answer;
use crate::config::Mode;
use crate::coroutine::{BoxCoroutine, Coroutine, First, Port, Post, Step, Unwind};
use crate::ending::End;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, RunId, TaskRef, Tid};
use crate::outbox::{Completion, EventKind};
use crate::outstanding::Wait;
use crate::record::{About, CallRecord};
use crate::run::{Run, RunFailure};
use crate::state::{BlockReason, TaskState};
use crate::task::{Body, Mark, Task};
use crate::time::Time;
use crate::timer::Due;
use crate::value::Value;

impl Run {
    /// Gives every ready task one turn, and again, round after round, until there have been so many turns
    /// or there is something for the host to do; what it only has to tell or to write down can wait. Answers how many turns there were. The host either sets
    /// the clock here, or leaves that to the first coroutine of a round that needs it.
    pub fn rounds(&mut self, port: &Port, now: Option<Time>, turns: usize) -> usize {
        let mut taken = 0;
        self.enter(port, now);
        loop {
            self.line_up_round(port);
            while let Some(slot) = self.ready.next() {
                taken += 1;
                while let Next::GoOn = self.turn(slot, port) {
                    if taken >= turns {
                        self.requeue(slot);
                        break;
                    }
                    taken += 1;
                }
            }
            self.accept_strays(port);
            self.end_round(port);
            if taken >= turns
                || !self.is_ready()
                || self.has_orders()
                || self.next_deadline().is_some()
            {
                return taken;
            }
            port.begin_round(now);
        }
    }

    /// Begins a round that `step_round` goes through by single steps.
    pub fn begin_round(&mut self, port: &Port, now: Option<Time>) {
        self.enter(port, now);
        self.line_up_round(port);
    }

    #[inline]
    fn line_up_round(&mut self, port: &Port) {
        self.accept_strays(port);
        self.ready.begin_round();
        if self.policy.is_some() {
            self.plan_round();
        }
    }

    /// Whether a round that is gone through by single steps is not over.
    pub fn is_in_round(&self) -> bool {
        self.ready.is_in_round()
    }

    /// Gives the next task of the round its turn. `false`: the round is over.
    pub fn step_round(&mut self, port: &Port, now: Option<Time>) -> bool {
        self.enter(port, now);
        let Some(slot) = self.ready.next() else {
            self.accept_strays(port);
            return false;
        };
        let next = self.turn(slot, port);
        self.end_round(port);
        if let Next::GoOn = next {
            self.requeue(slot);
        }
        true
    }

    fn enter(&mut self, port: &Port, now: Option<Time>) {
        if let Some(now) = now {
            self.set_clock(now);
        }
        port.begin(self.next_call, now, self.mode == Mode::Durable);
    }

    fn end_round(&mut self, port: &Port) {
        self.next_call = port.next_call();
    }

    /// Fires the timers that are due, by deadline and then by the order they were armed in.
    pub fn advance(&mut self, now: Time) {
        self.set_clock(now);
        while let Some(due) = self.timers.pop_due(self.clock) {
            match due {
                Due::Call { task, call } => self.fire(task, call),
                Due::Answer { task, call } => self.unanswered(task, call),
                Due::Grace { task, tid } => self.end_grace(task, Tid(tid)),
                Due::Limit => self.over_time(),
            }
        }
    }

    /// Takes in what the outside has to tell.
    pub fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Call(at, result) => self.complete_call(at, result),
            Completion::Timer(at) => self.complete_timer(at),
            Completion::CutShort(tid) => {
                if let Some(slot) = self.slot_of(tid) {
                    self.end_grace(slot, tid);
                }
            }
            Completion::OverTime => self.over_time(),
            Completion::Message(name, value) => self.deliver(&name, value),
            Completion::Decided(call, answer) => self.decided(call, answer),
            Completion::Settle(uuid, result) => self.settle_external(uuid, result),
            Completion::Wake(task) => self.wake_foreign(task),
        }
    }

    /// Fails the run, with a list of who waits for what, if nothing is left that could wake it; tells
    /// whether it did. The host is asked last whether it has news: a waker may have been used and dropped
    /// on another thread just now.
    pub fn check_deadlock(&mut self, has_news: impl FnOnce() -> bool) -> bool {
        let alive = self.is_ready() || self.is_over() || self.awaits_message() || self.has_hope();
        if alive || self.grace_may_end() || self.foreign_may_wake() || has_news() {
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
    #[inline(always)]
    fn turn(&mut self, slot: u32, port: &Port) -> Next {
        self.running_answered = false;
        self.steps += 1;
        let task = &mut self.tasks[slot as usize];
        task.marks.clear(Mark::Queued);
        if self.watched_turns || !task.begin_plain_turn() {
            return self.watched_turn(slot, port);
        }
        self.plain_turn(slot, port)
    }

    /// A turn that somebody watches, or of a task that is special.
    #[cold]
    fn watched_turn(&mut self, slot: u32, port: &Port) -> Next {
        if self.careful || !self.watched_turns || !self.tasks[slot as usize].begin_plain_turn() {
            return self.special_turn(slot, port);
        }
        self.turn_event(slot, EventKind::Running);
        self.plain_turn(slot, port)
    }

    /// A turn of a task that runs on, and of which nothing special is known.
    #[inline(always)]
    fn plain_turn(&mut self, slot: u32, port: &Port) -> Next {
        let task = &mut self.tasks[slot as usize];
        let step = task.resume(self.id, slot, port);
        match step {
            Step::Pending if port.only_yielded() => {
                // By far the commonest turn. The step has nothing to drop.
                std::mem::forget(step);
                let (_, id, at) = port.end_first();
                task.calls_mut().add_done(id, at);
                task.suspend();
                self.calls_made += 1;
                return self.go_on(slot);
            }
            _ if port.has_new_clock() => self.take_clock(port),
            _ => {}
        }
        match step {
            Step::Pending => std::mem::forget(step),
            Step::Done(value) => return self.last_turn(slot, port, End::Completed(value)),
            Step::Failed(error) => return self.last_turn(slot, port, End::Failed(error)),
        }
        match port.has_common_call() {
            true => self.after_common_call(slot, port),
            false => self.after_turn(slot, port),
        }
    }

    /// A turn of a task that has a name, that somebody watches, or that does not run on.
    #[cold]
    fn special_turn(&mut self, slot: u32, port: &Port) -> Next {
        let task = &mut self.tasks[slot as usize];
        if !task.begin_turn() {
            self.step_out(slot, port);
            return Next::Others;
        }
        if task.marks.has(Mark::Foreign) {
            self.end_foreign(slot, port);
            return Next::Others;
        }
        self.show_turn(slot, port);
        let step = self.tasks[slot as usize].resume(self.id, slot, port);
        port.set_name(None);
        self.take_clock(port);
        match step {
            Step::Pending => self.after_turn(slot, port),
            Step::Done(value) => self.last_turn(slot, port, End::Completed(value)),
            Step::Failed(error) => self.last_turn(slot, port, End::Failed(error)),
        }
    }

    /// The round's clock, if the coroutine was the first to need it.
    #[cold]
    fn take_clock(&mut self, port: &Port) {
        if let Some(now) = port.new_clock() {
            self.set_clock(now);
        }
    }

    /// A durable task was woken by something that is no system call, beside one. It ends here.
    #[cold]
    fn end_foreign(&mut self, slot: u32, port: &Port) {
        let me = self.task_ref(slot);
        let task = &mut self.tasks[slot as usize];
        let (mut coroutine, spawned_at) = (task.take_coroutine(port), task.spawned_at);
        port.enter(me, spawned_at);
        coroutine.as_mut().unwind(port, Unwind::Begin);
        drop(coroutine);
        port.leave();
        self.after_unwinding(slot, port, End::Failed(not_durable()));
    }

    /// Tells those who watch, and the coroutine, who has the turn.
    #[cold]
    fn show_turn(&mut self, slot: u32, port: &Port) {
        port.set_name(self.name(slot));
        self.turn_event(slot, EventKind::Running);
    }

    /// The turn of a task that does not run on: it is unwound, or it was cancelled in the queue.
    #[cold]
    fn step_out(&mut self, slot: u32, port: &Port) {
        let me = self.task_ref(slot);
        let task = &mut self.tasks[slot as usize];
        if task.state() != TaskState::Cancelling {
            return self.reclaim(slot);
        }
        let begun = task.marks.set(Mark::Unwinding);
        let ending = task.marks.has(Mark::Ending);
        let spawned_at = task.spawned_at;
        let mut coroutine = task.take_coroutine(port);
        self.show_turn(slot, port);
        port.enter(me, spawned_at);
        let step = match (ending, begun) {
            (true, _) => {
                drop(std::mem::replace(&mut coroutine, Box::pin(Nothing)));
                Step::Done(Value::Unit)
            }
            (false, false) => coroutine.as_mut().unwind(port, Unwind::Begin),
            (false, true) => coroutine.as_mut().unwind(port, Unwind::Continue),
        };
        port.leave();
        port.set_name(None);
        if let Some(now) = port.new_clock() {
            self.set_clock(now);
        }
        match step {
            Step::Pending => {
                self.tasks[slot as usize].put_coroutine(coroutine);
                if let Next::GoOn = self.after_turn(slot, port) {
                    self.requeue(slot);
                }
            }
            Step::Done(_) => {
                let spawned_at = coroutine.spawned_at();
                drop(coroutine);
                self.after_unwinding(slot, port, End::Cancelled(spawned_at));
            }
            Step::Failed(error) => {
                drop(coroutine);
                self.after_unwinding(slot, port, End::Failed(error));
            }
        }
    }

    /// After its cleanup a task is over. What it was answered with and did not take goes back.
    #[cold]
    fn after_unwinding(&mut self, slot: u32, port: &Port, end: End) {
        self.keep_untaken(slot, port);
        self.accept(slot, port);
        self.finish(slot, end);
    }

    /// After a turn that was not its last, a task is ready again or waits.
    fn after_turn(&mut self, slot: u32, port: &Port) -> Next {
        self.keep_untaken(slot, port);
        self.accept(slot, port);
        self.line_up(slot)
    }

    /// The same after a turn that gave handles back, perhaps, and then made one common call. It does what
    /// `dispatch` would do, without moving the call about; nothing special is known of the task.
    #[inline]
    fn after_common_call(&mut self, slot: u32, port: &Port) -> Next {
        // What these drop in turn comes after the call.
        self.accept_releases(port);
        if self.tasks[slot as usize].is_special() {
            return self.after_turn(slot, port);
        }
        self.calls_made += 1;
        let (kind, id, at) = port.end_first();
        let answer = match kind {
            First::None | First::Yield => Answer::Now(Reply::Unit),
            First::CreatePromise => self.create_promise(),
            First::WaitTask | First::WaitFuture => {
                let (on, claim) = port.target(kind);
                self.wait(slot, id, on, claim)
            }
            First::CompletePromise => {
                let (promise, value) = port.settlement();
                self.settle_promise(promise, Ok(value))
            }
            First::Spawn => self.spawn(slot, port.coroutine(), None, at),
        };
        // What was done may have dropped handles, or answered another call of the same task.
        if port.has_listed() || self.running_answered {
            self.note_answer(slot, id, answer, || (kind.call_kind(), None), at);
            self.accept_listed(Some(slot), port);
            return self.line_up(slot);
        }
        let task = &mut self.tasks[slot as usize];
        match answer {
            Answer::Now(Reply::Error(_)) => {
                self.note_answer(slot, id, answer, || (kind.call_kind(), None), at);
                self.line_up(slot)
            }
            Answer::Now(Reply::Unit) => {
                task.calls_mut().add_done(id, at);
                task.suspend();
                self.go_on(slot)
            }
            Answer::Now(reply) => {
                task.calls_mut().add_answered(id, reply, at);
                task.suspend();
                self.go_on(slot)
            }
            Answer::Later(wait) => {
                task.calls_mut().add_waiting(id, wait, at);
                // It may wait in an older call too.
                let reason = task.first_wait().map_or(wait.reason(), |(first, _)| first.reason());
                task.block(reason);
                self.turn_event(slot, EventKind::Blocked(reason));
                Next::Others
            }
        }
    }

    /// After a task's calls were accepted.
    #[inline]
    fn line_up(&mut self, slot: u32) -> Next {
        if !self.running_answered {
            self.settle_down(slot);
            return Next::Others;
        }
        let task = &mut self.tasks[slot as usize];
        match task.state() {
            TaskState::Running => {
                task.suspend();
                return self.go_on(slot);
            }
            // In cleanup: it stays Cancelling.
            TaskState::Cancelling if !task.marks.has(Mark::Queued) => self.requeue(slot),
            _ => {}
        }
        Next::Others
    }

    /// A task that was answered takes its place in the queue.
    #[inline]
    fn go_on(&mut self, slot: u32) -> Next {
        // Alone it may go on, unless the host has something to do first: it may rely on what it was answered.
        // Who sleeps until now is as good as ready.
        if self.ready.is_empty() && !self.careful && !self.has_orders() && !self.has_due_timer() {
            return Next::GoOn;
        }
        self.ready.push_yielded(slot);
        Next::Others
    }

    #[inline]
    fn has_due_timer(&self) -> bool {
        self.next_deadline().is_some_and(|deadline| deadline <= self.clock)
    }

    /// Puts a task at the back of the queue.
    #[inline]
    fn requeue(&mut self, slot: u32) {
        self.tasks[slot as usize].marks.set(Mark::Queued);
        self.ready.push_yielded(slot);
    }

    #[inline]
    fn keep_untaken(&mut self, slot: u32, port: &Port) {
        if port.has_untaken() {
            for (id, reply) in port.untaken() {
                let at = self.tasks[slot as usize].spawned_at;
                self.tasks[slot as usize].calls_mut().add_answered(id, reply, at);
            }
        }
    }

    /// After its last turn a task is over.
    fn last_turn(&mut self, slot: u32, port: &Port, end: End) -> Next {
        drop(self.tasks[slot as usize].drop_coroutine());
        if !port.is_clear() {
            self.keep_untaken(slot, port);
            self.accept(slot, port);
        }
        match end {
            End::Completed(value) if self.ends_quietly(slot) => self.complete_quietly(slot, value),
            end => self.finish(slot, end),
        }
        Next::Others
    }

    /// Drops the coroutine of a task between rounds, and accepts what it gives back.
    pub(crate) fn abandon(&mut self, slot: u32, port: &Port) {
        self.enter(port, None);
        if let Some(mut coroutine) = self.tasks[slot as usize].drop_coroutine() {
            coroutine.as_mut().end();
        }
        self.accept(slot, port);
        self.end_round(port);
    }

    /// A task that was not answered waits.
    fn settle_down(&mut self, slot: u32) {
        let task = &mut self.tasks[slot as usize];
        if task.state() == TaskState::Cancelling {
            // In cleanup: it has another turn when a call of it is answered.
            return;
        }
        if task.marks.has(Mark::CancelRequested) {
            // It cancelled itself, and now waits without having made another call.
            return self.begin_cancel(slot);
        }
        let reason = task.first_wait().map(|(wait, _)| wait.reason());
        if reason.is_none() && self.mode == Mode::Durable {
            return self.finish(slot, End::Failed(not_durable()));
        }
        let reason = reason.unwrap_or(BlockReason::Foreign);
        task.block(reason);
        self.turn_event(slot, EventKind::Blocked(reason));
    }

    /// Accepts what a coroutine left in the port, in the order it was left.
    fn accept(&mut self, slot: u32, port: &Port) {
        self.accept_releases(port);
        if let Some(call) = port.take_first() {
            let (_, id, at) = port.end_first();
            self.accept_call(slot, id, call, at);
        }
        self.accept_listed(Some(slot), port);
    }

    /// Accepts what is in the port's lists. Accepting can drop coroutines, whose handles are given back too.
    fn accept_listed(&mut self, slot: Option<u32>, port: &Port) {
        self.accept_releases(port);
        let mut at = 0;
        while let Some(post) = port.take_post(at) {
            at += 1;
            match (post, slot) {
                (Post::Call { id, call, at }, Some(slot)) => self.accept_call(slot, id, call, at),
                (Post::Withdraw(maker, id), _) => self.withdraw_by(maker, id),
                (Post::Release(release), _) => self.release(release),
                (Post::Wake, Some(_)) => self.running_answered = true,
                (Post::Nothing | Post::Wake | Post::Call { .. }, _) => {}
            }
        }
        if at > 0 {
            port.clear_posts();
        }
    }

    #[inline]
    fn accept_releases(&mut self, port: &Port) {
        let mut at = 0;
        while let Some(release) = port.released(at) {
            at += 1;
            self.release(release);
        }
        if at > 0 {
            port.clear_releases();
        }
    }

    /// What was left in the port while no task of this thread was running: handles dropped elsewhere,
    /// or with a value that nobody took.
    #[inline]
    fn accept_strays(&mut self, port: &Port) {
        if port.has_listed() {
            self.accept_listed(None, port);
        }
    }

    fn accept_call(
        &mut self,
        slot: u32,
        id: CallId,
        call: SystemCall,
        at: &'static Location<'static>,
    ) {
        self.calls_made += 1;
        if self.careful || self.tasks[slot as usize].is_special() {
            return self.accept_with_care(slot, id, call, at);
        }
        self.perform(slot, id, call, at);
    }

    /// Does what a call asks for.
    pub(crate) fn perform(
        &mut self,
        slot: u32,
        id: CallId,
        call: SystemCall,
        at: &'static Location<'static>,
    ) {
        let (kind, name) = (call.kind(), call.given_name());
        let record = self.records(kind).then(|| CallRecord {
            call: self.call_ref(slot, id),
            kind,
            name,
            about: About::call(&call, self.clock),
            at: self.site(slot, at),
            error: None,
        });
        let answer = self.dispatch(slot, id, call, at);
        if let Some(record) = record {
            self.record_call(slot, record, &answer);
        }
        self.note_answer(slot, id, answer, || (kind, name), at);
    }

    /// What came of the running task's call.
    #[inline]
    fn note_answer(
        &mut self,
        slot: u32,
        id: CallId,
        answer: Answer,
        call: impl FnOnce() -> (CallKind, Option<&'static str>),
        at: &'static Location<'static>,
    ) {
        match answer {
            Answer::Now(Reply::Error(error)) => {
                let (kind, name) = call();
                let error =
                    error.at_call(kind, name, || self.site(slot, at)).in_task(|| self.label(slot));
                self.note_reply(slot, id, Reply::Error(error), at);
            }
            Answer::Now(reply) => self.note_reply(slot, id, reply, at),
            Answer::Later(wait) => self.note_wait(slot, id, wait, at),
        }
    }

    /// The running task's call is answered at once.
    #[inline]
    pub(crate) fn note_reply(
        &mut self,
        slot: u32,
        id: CallId,
        reply: Reply,
        at: &'static Location<'static>,
    ) {
        if self.careful {
            self.note_answer_event(slot, id, &reply);
        }
        self.tasks[slot as usize].calls_mut().add_answered(id, reply, at);
        self.running_answered = true;
    }

    #[inline]
    pub(crate) fn note_wait(
        &mut self,
        slot: u32,
        id: CallId,
        wait: Wait,
        at: &'static Location<'static>,
    ) {
        self.tasks[slot as usize].calls_mut().add_waiting(id, wait, at);
    }

    #[cold]
    fn note_answer_event(&mut self, slot: u32, id: CallId, reply: &Reply) {
        let error = match reply {
            Reply::Error(error) => Some(error.code()),
            _ => None,
        };
        self.event(slot, EventKind::Answered { id, error });
    }

    /// Answers a call that waits. Its task becomes ready, if it was not.
    pub(crate) fn answer(&mut self, slot: u32, id: CallId, reply: Reply) {
        let Some(task) = self.tasks.get_mut(slot as usize) else { return };
        let error = match &reply {
            Reply::Error(error) => Some(error.code()),
            _ => None,
        };
        if !task.answer(id, reply) {
            return;
        }
        if self.careful {
            self.event(slot, EventKind::Answered { id, error });
        }
        let task = &mut self.tasks[slot as usize];
        let state = task.state();
        let queued = task.marks.has(Mark::Queued);
        match state {
            TaskState::Blocked(_) => {
                task.become_state(TaskState::Suspended);
                task.marks.set(Mark::Queued);
                self.ready.push_woken(slot);
                self.turn_event(slot, EventKind::Woken);
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
    pub(crate) fn wake_foreign(&mut self, task: TaskRef) {
        let Ok(slot) = self.find_task(task) else { return };
        let task = &mut self.tasks[slot as usize];
        if let TaskState::Blocked(_) = task.state() {
            task.become_state(TaskState::Suspended);
            task.marks.set(Mark::Queued);
            if self.mode == Mode::Durable {
                task.marks.set(Mark::Foreign);
            }
            self.ready.push_woken(slot);
            self.turn_event(slot, EventKind::Woken);
        } else if task.state() == TaskState::Cancelling && !task.marks.set(Mark::Queued) {
            // In cleanup.
            self.ready.push_woken(slot);
        }
    }
}

impl First {
    fn call_kind(self) -> CallKind {
        match self {
            First::None | First::Yield => CallKind::Yield,
            First::CreatePromise => CallKind::CreatePromise,
            First::WaitTask | First::WaitFuture => CallKind::Wait,
            First::CompletePromise => CallKind::CompletePromise,
            First::Spawn => CallKind::Spawn,
        }
    }
}

#[cold]
fn not_durable() -> TaskError {
    let message = "a durable task awaited a future that is no system call";
    TaskError::new(ErrorKind::NotDurable, message)
}

/// Stands in for a coroutine that was dropped to cut its cleanup short.
struct Nothing;

impl Coroutine for Nothing {
    fn resume(self: Pin<&mut Self>, _: &Port) -> Step {
        Step::Done(Value::Unit)
    }
}

/// What follows a task's turn.
enum Next {
    /// It can go on, and no other task is ready, so it may at once. It is not in the queue.
    GoOn,
    /// It is in the queue, or waits, or is over.
    Others,
}

impl Task {
    /// Lets the coroutine run, with the replies its task has.
    #[inline]
    fn resume(&mut self, run: RunId, slot: u32, port: &Port) -> Step {
        let Body::Live { coroutine: Some(coroutine), calls } = &mut self.body else {
            unreachable!("a task that has a turn has its coroutine")
        };
        calls.offer(port);
        port.enter(TaskRef { run, slot, tid: self.tid }, self.spawned_at);
        let step = coroutine.as_mut().resume(port);
        port.leave();
        step
    }

    /// Takes the coroutine for its unwinding, and moves the replies the task has into the port.
    fn take_coroutine(&mut self, port: &Port) -> BoxCoroutine {
        self.calls_mut().offer(port);
        self.drop_coroutine().expect("a task that is not over has its coroutine")
    }

    fn put_coroutine(&mut self, back: BoxCoroutine) {
        if let Body::Live { coroutine, .. } = &mut self.body {
            *coroutine = Some(back);
        }
    }

    #[inline]
    fn drop_coroutine(&mut self) -> Option<BoxCoroutine> {
        match &mut self.body {
            Body::Live { coroutine, .. } => coroutine.take(),
            Body::Over { .. } => None,
        }
    }
}
