//! A detailed view of one task: its state, its store, and its call stack if its language provides
//! one. Looking changes nothing.

use std::rc::Rc;

use crate::error::Site;
use crate::outbox::CallRef;
use crate::run::{Run, TaskInfo};
use crate::value::Value;

/// A function in a task's call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The name of the function.
    pub function: String,
    /// The current line in the function.
    pub at: Site,
    /// The function's variables by name, each formatted by its language.
    pub locals: Vec<(String, String)>,
}

/// A detailed view of a task.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The task and its state.
    pub info: TaskInfo,
    /// The task's store, by key.
    pub store: Vec<(Rc<str>, Value)>,
    /// The task's call stack, the innermost function last.
    pub frames: Vec<Frame>,
}

impl Run {
    /// Returns a detailed view of every known task, ordered by number. `effect` returns the host's
    /// name for the effect of a call.
    pub fn sights(&self, effect: &dyn Fn(CallRef) -> Option<String>) -> Vec<Sight> {
        self.tasks().into_iter().map(|info| self.sight(info, effect)).collect()
    }

    fn sight(&self, mut info: TaskInfo, effect: &dyn Fn(CallRef) -> Option<String>) -> Sight {
        let tid = info.label.tid;
        let found = self.tasks.iter().find(|(_, task)| task.tid == tid);
        let task = found.map(|(_, task)| task);
        if let Some((slot, _)) = found {
            info.waits_for = self.waits_for(slot as u32, effect);
        }
        let scope = task.and_then(|task| task.scope.as_deref());
        let store = scope.map_or_else(Vec::new, |scope| {
            scope.state.iter().map(|(key, value)| (Rc::clone(key), value.clone())).collect()
        });
        let coroutine = task.and_then(|task| task.coroutine());
        let frames = coroutine.map_or_else(Vec::new, |coroutine| coroutine.frames());
        Sight { info, store, frames }
    }
}
