//! Turns and rounds. A round resumes each ready task once; the calls that a task made are accepted
//! when it returns; an answer makes a task ready again. Task states change only here and in
//! `calls/cancel.rs`.

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
    /// Runs rounds, in which every ready task has one turn, until this number of turns is reached
    /// or there is an order for the host; events and records can wait. Returns the number of turns.
    /// If the host does not set the clock here, the first coroutine of a round that needs it does.
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

    /// Begins a round whose turns are taken one by one with `step_round`.
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

    /// Whether a round whose turns are taken one by one is unfinished.
    pub fn is_in_round(&self) -> bool {
        self.ready.is_in_round()
    }

    /// Runs the next task of the round. Returns `false` if the round is finished.
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

    /// Fires the timers that are due, ordered by deadline and then by when they were armed.
    pub fn advance(&mut self, now: Time) {
        self.set_clock(now);
        while let Some(due) = self.timers.pop_due(self.clock) {
            match due {
                Due::Call { task, call } => self.fire(task, call),
                Due::Answer { task, call } => self.unanswered(task, call),
                Due::Grace { task, tid } => self.end_grace(task, Tid(tid)),
                Due::Limit => self.over_time(),
                Due::Deadline => self.past_deadline(),
            }
        }
    }

    /// Delivers a completion from the host.
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
            Completion::PastDeadline => self.pass_deadline(),
            Completion::Message(name, value) => self.deliver(&name, value),
            Completion::Decided(call, answer) => self.decided(call, answer),
            Completion::Settle(uuid, result) => self.settle_external(uuid, result),
            Completion::Wake(task) => self.wake_foreign(task),
        }
    }

    /// Fails the run with a list of what each task waits for, if nothing can wake it. Returns
    /// whether it did. The host is asked last whether it has news, because a waker may just have
    /// been used and dropped on another thread.
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

    /// Runs one turn of one task.
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

    /// Runs a turn that is watched, or of a task with special marks.
    #[cold]
    fn watched_turn(&mut self, slot: u32, port: &Port) -> Next {
        if self.careful || !self.watched_turns || !self.tasks[slot as usize].begin_plain_turn() {
            return self.special_turn(slot, port);
        }
        self.turn_event(slot, EventKind::Running);
        self.plain_turn(slot, port)
    }

    /// Runs a turn of a task that continues and has no special marks.
    #[inline(always)]
    fn plain_turn(&mut self, slot: u32, port: &Port) -> Next {
        let task = &mut self.tasks[slot as usize];
        let step = task.resume(self.id, slot, port);
        match step {
            Step::Pending if port.only_yielded() => {
                // By far the most common turn. The step has nothing to drop.
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

    /// Runs a turn of a task that has a name, is watched or does not continue.
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

    /// Sets the clock, if the coroutine was the first in the round to need it.
    #[cold]
    fn take_clock(&mut self, port: &Port) {
        if let Some(now) = port.new_clock() {
            self.set_clock(now);
        }
    }

    /// Ends a durable task that was woken by a foreign future.
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

    /// Reports the turn to watchers, and gives the coroutine its name.
    #[cold]
    fn show_turn(&mut self, slot: u32, port: &Port) {
        port.set_name(self.name(slot));
        self.turn_event(slot, EventKind::Running);
    }

    /// Runs the turn of a task that does not continue: it is unwound, or was cancelled while
    /// queued.
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

    /// Ends a task after its cleanup. Replies that it did not take are returned.
    #[cold]
    fn after_unwinding(&mut self, slot: u32, port: &Port, end: End) {
        self.keep_untaken(slot, port);
        self.accept(slot, port);
        self.finish(slot, end);
    }

    /// Queues or blocks a task after a turn that was not its last.
    fn after_turn(&mut self, slot: u32, port: &Port) -> Next {
        self.keep_untaken(slot, port);
        self.accept(slot, port);
        self.line_up(slot)
    }

    /// Handles the end of a turn that only released handles and then made one common call. It does
    /// what `dispatch` would do without moving the call; the task has no special marks.
    #[inline]
    fn after_common_call(&mut self, slot: u32, port: &Port) -> Next {
        // Handles that these drop in turn are released after the call.
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
        // The call may have dropped handles, or answered another call of the task.
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
                // The task may wait in an older call too.
                let reason = task.first_wait().map_or(wait.reason(), |(first, _)| first.reason());
                task.block(reason);
                self.turn_event(slot, EventKind::Blocked(reason));
                Next::Others
            }
        }
    }

    /// Queues or blocks a task after its calls were accepted.
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
            // During its cleanup the task stays Cancelling.
            TaskState::Cancelling if !task.marks.has(Mark::Queued) => self.requeue(slot),
            _ => {}
        }
        Next::Others
    }

    /// Puts a task that was answered into the queue, or lets it continue at once.
    #[inline]
    fn go_on(&mut self, slot: u32) -> Next {
        // If no other task is ready, it may continue at once, unless the host has orders to execute
        // first: the task may rely on their effect. A task whose timer is due now counts as ready.
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

    /// Ends a task after its last turn.
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

    /// Drops the coroutine of a task between rounds, and accepts the handles that it releases.
    pub(crate) fn abandon(&mut self, slot: u32, port: &Port) {
        self.enter(port, None);
        if let Some(mut coroutine) = self.tasks[slot as usize].drop_coroutine() {
            coroutine.as_mut().end();
        }
        self.accept(slot, port);
        self.end_round(port);
    }

    /// Blocks a task that was not answered.
    fn settle_down(&mut self, slot: u32) {
        let task = &mut self.tasks[slot as usize];
        if task.state() == TaskState::Cancelling {
            // During its cleanup the task has another turn when one of its calls is answered.
            return;
        }
        if task.marks.has(Mark::CancelRequested) {
            // The task cancelled itself, and waits without having made another call.
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

    /// Accepts the calls and handles that a coroutine left in the port, in their order.
    fn accept(&mut self, slot: u32, port: &Port) {
        self.accept_releases(port);
        if let Some(call) = port.take_first() {
            let (_, id, at) = port.end_first();
            self.accept_call(slot, id, call, at);
        }
        self.accept_listed(Some(slot), port);
    }

    /// Accepts the lists of the port. This can drop coroutines, which release handles too.
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

    /// Accepts handles that were left in the port while no task was running on this thread: they
    /// were dropped elsewhere, or with a value that was not taken.
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

    /// Performs a call.
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

    /// Stores the answer to a call of the running task.
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

    /// Stores a reply to a call of the running task that was answered at once.
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

    /// Answers a call that waits. Its task becomes ready if it was not.
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

    /// Wakes a task whose foreign future was woken.
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
            // The task is in its cleanup.
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
    let message = "a durable task awaited a future that is not a system call";
    TaskError::new(ErrorKind::NotDurable, message)
}

/// A placeholder for a coroutine that was dropped to cut its cleanup short.
struct Nothing;

impl Coroutine for Nothing {
    fn resume(self: Pin<&mut Self>, _: &Port) -> Step {
        Step::Done(Value::Unit)
    }
}

/// The continuation after a task's turn.
enum Next {
    /// The task continues at once, because no other task is ready. It is not in the queue.
    GoOn,
    /// The task is in the queue, waits, or has ended.
    Others,
}

impl Task {
    /// Resumes the coroutine with the replies that its task has.
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

    /// Takes the coroutine for its unwinding, and moves the task's replies into the port.
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
