//! How an answer reaches whoever asked, on whatever thread it is made.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use tiffany_records::redact::Redactions;
use tiffany_records::request::Outcome;

/// Who wants to know, told when the answer is safe. It is called on the thread that has the answer, which must not be kept waiting.
/// Dropped, it says that nobody will ever answer.
pub(crate) struct Tell(Box<dyn FnOnce(Outcome) + Send>);

impl Tell {
    pub(crate) fn by(callback: impl FnOnce(Outcome) + Send + 'static) -> Tell {
        Tell(Box::new(callback))
    }

    /// One whose answer is waited for by a thread.
    pub(crate) fn waited_for() -> (Tell, Receiver<Outcome>) {
        let (tell, told) = sync_channel(1);
        // Who asked may have gone away.
        (Tell::by(move |answer| drop(tell.try_send(answer))), told)
    }

    pub(crate) fn tell(self, answer: Outcome) {
        (self.0)(answer);
    }
}

impl Tell {
    /// The same, told without what the rules take out.
    pub(crate) fn redacting(self, rules: &Arc<Redactions>) -> Tell {
        let rules = Arc::clone(rules);
        Tell::by(move |answer| {
            self.tell(match answer {
                Ok(answer) => Ok(answer.redacted(&rules)),
                Err(error) => Err(rules.error(error)),
            });
        })
    }
}
