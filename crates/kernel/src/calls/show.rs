//! Show: what a task wants those who watch to see. It changes nothing.

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
