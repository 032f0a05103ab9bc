//! The slow path of calls that are watched, limited or handled. Other calls bypass it.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::rc::Rc;

use crate::call::{Reply, SystemCall};
use crate::coroutine::BoxCoroutine;
use crate::error::{ErrorKind, TaskError, panic_text};
use crate::handler::Verdict;
use crate::id::{CallId, Tid};
use crate::outbox::EventKind;
use crate::outstanding::Wait;
use crate::run::{Run, RunFailure};
use crate::state::TaskState;
use crate::store::{Link, Scope};
use crate::task::{Body, Mark};

impl Run {
    /// Accepts a call that is watched, handled or limited.
    #[cold]
    pub(crate) fn accept_with_care(
        &mut self,
        slot: u32,
        id: CallId,
        mut call: SystemCall,
        at: &'static Location<'static>,
    ) {
        let task = &mut self.tasks[slot as usize];
        if matches!(task.body, Body::Live { coroutine: None, .. }) {
            return; // The task ended in the same turn, so the answer would not be taken.
        }
        if task.marks.has(Mark::CancelRequested) && !task.marks.has(Mark::Unwinding) {
            if task.state() == TaskState::Running {
                self.begin_cancel(slot);
            }
            return;
        }
        if self.watched() {
            let kind = call.kind();
            self.event(
                slot,
                EventKind::Called { id, kind, call: call.to_string(), at: self.site(slot, at) },
            );
        }
        if self.rare.limits.max_calls.is_some_and(|limit| self.calls_made > limit) {
            let message = format!("the run made more than {} calls", self.calls_made - 1);
            let error = TaskError::new(ErrorKind::CallLimit, message)
                .at_call(call.kind(), call.given_name(), || self.site(slot, at))
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
                match self.ask_handler(&here, &mut call, caller) {
                    Err(panic) => {
                        let error = panic
                            .at_call(call.kind(), call.given_name(), || self.site(slot, at))
                            .in_task(|| self.label(slot));
                        return self.note_reply(slot, id, Reply::Error(error), at);
                    }
                    Ok(Verdict::Pass) => link = here.outer.clone(),
                    Ok(Verdict::Answer(reply)) => return self.note_reply(slot, id, reply, at),
                    Ok(Verdict::Refuse(why)) => {
                        let message = format!("handler `{}` refused: {why}", here.handler.name());
                        let error = TaskError::new(ErrorKind::Refused, message)
                            .at_call(call.kind(), call.given_name(), || self.site(slot, at))
                            .in_task(|| self.label(slot));
                        return self.note_reply(slot, id, Reply::Error(error), at);
                    }
                    Ok(Verdict::Run(coroutine)) => {
                        if let Err(error) = self.room_for_task() {
                            let error = error
                                .at_call(call.kind(), call.given_name(), || self.site(slot, at))
                                .in_task(|| self.label(slot));
                            return self.note_reply(slot, id, Reply::Error(error), at);
                        }
                        let wait = self.run_handler(slot, id, coroutine, here.outer.clone(), at);
                        return self.note_wait(slot, id, wait, at);
                    }
                }
            }
        }
        self.perform(slot, id, call, at);
    }

    /// Passes a call to one handler. If the handler panics, the call fails; the loop does not.
    fn ask_handler(
        &self,
        link: &Link,
        call: &mut SystemCall,
        caller: Tid,
    ) -> Result<Verdict, TaskError> {
        catch_unwind(AssertUnwindSafe(|| link.handler.handle(call, caller))).map_err(|payload| {
            let text = panic_text(payload);
            let message = format!("handler `{}` panicked: {text}", link.handler.name());
            TaskError::new(ErrorKind::Panicked, message)
        })
    }

    /// Runs a handler's coroutine as a separate task, whose calls only the outer handlers see.
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
        self.inherit_daemon(child, slot, false);
        self.announce_spawn(child, Some(parent));
        Wait::Handler { task: child, place: self.wait_for_task(child, slot, id) }
    }
}
