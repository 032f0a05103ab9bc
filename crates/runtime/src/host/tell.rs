//! How an answer reaches the thread that asked, on whatever thread it is produced.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use tiffany_records::RunError;
use tiffany_records::redact::Redactions;
use tiffany_records::request::Outcome;

/// A callback for an answer, called when the answer is durable. It runs on the thread that has the
/// answer and must not block. If it is dropped, there will never be an answer.
pub(crate) struct Tell(Box<dyn FnOnce(Outcome) + Send>);

/// A callback for the outcome of a durable run, as JSON. It is called on the thread of the loop and
/// must not block. If it is dropped, the runtime ended before the run did.
pub(crate) type TellOutcome = Box<dyn FnOnce(Result<Arc<str>, RunError>) + Send>;

impl Tell {
    pub(crate) fn by(callback: impl FnOnce(Outcome) + Send + 'static) -> Tell {
        Tell(Box::new(callback))
    }

    /// A callback whose answer a thread waits for.
    pub(crate) fn waited_for() -> (Tell, Receiver<Outcome>) {
        let (tell, told) = sync_channel(1);
        // The thread that asked may be gone.
        (Tell::by(move |answer| drop(tell.try_send(answer))), told)
    }

    pub(crate) fn tell(self, answer: Outcome) {
        (self.0)(answer);
    }
}

impl Tell {
    /// A callback that gets the answer after redaction.
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
