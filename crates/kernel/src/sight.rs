//! A close look at one task: where it stands, what it has stored, and its frames, where its language has some. Looking changes nothing.

use std::rc::Rc;

use crate::error::Site;
use crate::outbox::CallRef;
use crate::run::{Run, TaskInfo};
use crate::value::Value;

/// A function that a task is inside of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name.
    pub function: String,
    /// The line it stands at.
    pub at: Site,
    /// Its variables by name, each as its language shows it.
    pub locals: Vec<(String, String)>,
}

/// What a close look at a task shows.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Where it stands.
    pub info: TaskInfo,
    /// What it has stored, by key.
    pub store: Vec<(Rc<str>, Value)>,
    /// The functions it is inside of, the innermost last.
    pub frames: Vec<Frame>,
}

impl Run {
    /// A close look at every task that is known, in the order of their numbers. `effect` says what a host calls the effect of a call.
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
