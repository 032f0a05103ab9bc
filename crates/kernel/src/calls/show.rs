//! Show: passes progress, log lines, output or stages of a task to watchers. It changes nothing in
//! the run.

use crate::call::Reply;
use crate::calls::Answer;
use crate::outbox::EventKind;
use crate::run::Run;
use crate::shown::Shown;

impl Run {
    pub(crate) fn show(&mut self, me: u32, shown: Box<Shown>) -> Answer {
        self.problem(me, EventKind::Shown(shown));
        Answer::Now(Reply::Unit)
    }
}
