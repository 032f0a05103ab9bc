//! The questions that runs answer: the closures that answer them, by run and name. It calls none of
//! them.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use tiffany_kernel::{RunId, TaskError};

/// A closure that answers.
pub(crate) type Answer = dyn Fn(&str) -> Result<String, TaskError>;
pub(crate) type Answers = Rc<Answer>;

/// The questions that the runs of a runtime answer.
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

    /// Removes the questions of a run that has ended.
    pub(crate) fn forget_run(&self, run: RunId) {
        let gone = self.0.borrow_mut().remove(&run);
        // Dropping what the closures hold may run code.
        drop(gone);
    }
}
