//! ContinueAs: the run starts again, from its function with another input. The host restarts it;
//! this file checks whether the run may restart, and hands over its unread messages.

use std::rc::Rc;

use crate::calls::Answer;
use crate::config::Mode;
use crate::coroutine::Port;
use crate::error::{ErrorKind, TaskError};
use crate::id::CallId;
use crate::outbox::Order;
use crate::outstanding::Wait;
use crate::run::{Run, TaskInfo};
use crate::task::Mark;
use crate::value::Value;

impl Run {
    pub(crate) fn continue_as(
        &mut self,
        me: u32,
        id: CallId,
        input: Rc<str>,
    ) -> Result<Answer, TaskError> {
        let refused = |why: String| Err(TaskError::new(ErrorKind::CannotContinue, why));
        let root = self.root();
        if self.mode != Mode::Durable {
            return refused("`continue_as` was called in a run that is not durable".into());
        }
        if me != root.slot {
            let tid = self.tasks[me as usize].tid;
            return refused(format!(
                "task {tid} is not the root, and only the root can call `continue_as`"
            ));
        }
        if self.tasks[me as usize].marks.has(Mark::Unwinding) {
            return refused("the root is being cancelled".into());
        }
        if self.live > 1 {
            let lives = |info: &&TaskInfo| info.label.tid != root.tid && !info.state.is_terminal();
            let others = self.tasks();
            let label = others.iter().find(lives).map(|info| info.label.to_string());
            return refused(format!("{} is not finished", label.unwrap_or_default()));
        }
        self.hope.effects += 1;
        self.order(Order::Continue(self.call_ref(me, id), input));
        Ok(Answer::Later(Wait::Effect))
    }

    /// Ends the root as if it had returned, and returns the messages that no task has received, by
    /// name and in order. The run has no turn after this.
    pub fn leave(&mut self, port: &Port) -> Vec<(Rc<str>, Value)> {
        let root = self.root().slot;
        self.abandon(root, port);
        self.withdraw_all(root);
        self.take_messages()
    }
}
