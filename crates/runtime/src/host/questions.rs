//! What runs can be asked: the closures that answer, by run and name. It calls none of them.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use tiffany_kernel::{RunId, TaskError};

/// A closure that answers.
pub(crate) type Answer = dyn Fn(&str) -> Result<String, TaskError>;
pub(crate) type Answers = Rc<Answer>;

/// What the runs of a runtime can be asked.
#[derive(Default)]
pub(crate) struct Questions(RefCell<BTreeMap<RunId, BTreeMap<Rc<str>, Answers>>>);

impl Questions {
    /// The answers of all runs.
    pub(crate) fn all(&self) -> RefMut<'_, BTreeMap<RunId, BTreeMap<Rc<str>, Answers>>> {
        self.0.borrow_mut()
    }

    /// The answers of a run.
    pub(crate) fn of_run(&self, run: RunId) -> BTreeMap<Rc<str>, Answers> {
        self.0.borrow().get(&run).cloned().unwrap_or_default()
    }

    /// The run is over.
    pub(crate) fn forget_run(&self, run: RunId) {
        let gone = self.0.borrow_mut().remove(&run);
        // What it holds may have something to say when it goes.
        drop(gone);
    }
}
