//! The hook for an audit: it sees what is asked through the socket and changes something, before and after it is
//! done. It knows nothing of what is done with that.

use tiffany_kernel::TaskError;

use super::request::{Answer, Outcome, Request};
use crate::approval::user_name;

/// Sees everything that is asked through the socket and changes something: see [`Builder::witness`](crate::Builder::witness).
pub trait Witness: Send + Sync {
    /// Something is about to be changed. It is done once this returns, and not at all after an error. What is
    /// returned is called with the outcome, before the answer is given.
    fn begins(&self, change: &Change) -> Result<Finish, TaskError>;
}

/// Takes the outcome of a change: `None`, or why it was refused; of several runs, why the first was refused. An
/// error says that the change was made and could not be noted; it reaches whoever asked as a warning.
pub type Finish = Box<dyn FnOnce(Option<&TaskError>) -> Result<(), TaskError> + Send>;

/// Something that was asked and changes something.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change {
    /// The number of the user who asked, as the system says.
    pub uid: u32,
    /// What that user is called on this machine; the number, if that is not known.
    pub user: String,
    /// What was asked for, in a word.
    pub did: &'static str,
    /// What it is done to: a run, a promise, a step, an approval.
    pub to: Option<String>,
}

impl Request {
    /// What is changed by it, in a word, and of what. `None`: nothing is.
    pub fn changes(&self) -> Option<(&'static str, Option<String>)> {
        let all = |runs: &mut dyn Iterator<Item = String>| Some(runs.collect::<Vec<_>>().join(" "));
        Some(match self {
            Request::Status
            | Request::Health
            | Request::Runs(_)
            | Request::Find { .. }
            | Request::Show { .. }
            | Request::Recorded { .. }
            | Request::Question { .. }
            | Request::Events(_)
            | Request::Metrics
            | Request::LongTurns
            | Request::Doubts
            // Nobody misses a blob that no run names.
            | Request::Collect { .. }
            | Request::Approvals => return None,
            Request::Submit { id, .. } => ("submit", Some(id.clone())),
            Request::Send { run, .. } => ("send", Some(run.to_string())),
            Request::Settle { promise, .. } => ("settle", Some(promise.to_string())),
            Request::Cancel { run } => ("cancel", Some(run.to_string())),
            Request::Hold { run, .. } => ("hold", Some(run.to_string())),
            Request::Release { run, .. } => ("release", Some(run.to_string())),
            Request::Fork { run, .. } => ("fork", Some(run.to_string())),
            Request::Allow { run, .. } => ("allow", Some(run.to_string())),
            Request::Remove { runs } => ("remove", all(&mut runs.iter().map(ToString::to_string))),
            Request::RemoveDamaged { run } => ("remove_damaged", Some(run.to_string())),
            Request::Compact { remains } => {
                ("compact", all(&mut remains.iter().map(|one| one.run.to_string())))
            }
            Request::Decide { key, .. } => ("decide", Some(key.clone())),
            Request::Resolve { approval, ruling } => (ruling.word(), Some(approval.clone())),
            Request::Encoded(request) => return request.changes(),
        })
    }
}

/// Tells the witness that this is about to be done. `None`: nothing is changed by it, or nobody wants to know.
pub(super) fn begin(
    witness: Option<&dyn Witness>,
    uid: u32,
    request: &Request,
) -> Result<Option<Finish>, TaskError> {
    let Some((witness, (did, to))) = witness.zip(request.changes()) else { return Ok(None) };
    witness.begins(&Change { uid, user: user_name(uid), did, to }).map(Some)
}

/// Tells the witness the outcome. Its error is a warning beside the answer.
pub(super) fn finish(finish: Option<Finish>, answer: Outcome) -> Outcome {
    let Some(finish) = finish else { return answer };
    let refused = match &answer {
        Err(error) => Some(error),
        Ok(Answer::Each(each)) => each.iter().find_map(|one| one.as_ref().err()),
        Ok(_) => None,
    };
    match (finish(refused), answer) {
        (Err(error), Ok(answer)) => {
            Ok(Answer::Warned { answer: Box::new(answer), warning: error.message().to_owned() })
        }
        (_, answer) => answer,
    }
}
