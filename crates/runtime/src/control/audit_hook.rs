//! The hook for an audit: it sees what is asked through the socket and changes something, before and after it is
//! done. It knows nothing of what is done with that.

use tiffany_kernel::TaskError;

use tiffany_records::request::{Answer, Outcome, Request, user_name};

/// Sees everything that is asked through the socket and changes something: see [`Builder::audit_hook`](crate::runtime::builder::Builder::audit_hook).
pub trait AuditHook: Send + Sync {
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

/// Tells the audit hook that this is about to be done. `None`: nothing is changed by it, or nobody wants to know.
pub(crate) fn begin(
    audit_hook: Option<&dyn AuditHook>,
    uid: u32,
    request: &Request,
) -> Result<Option<Finish>, TaskError> {
    let Some((audit_hook, (did, to))) = audit_hook.zip(request.changes()) else { return Ok(None) };
    audit_hook.begins(&Change { uid, user: user_name(uid), did, to }).map(Some)
}

/// Tells the audit hook the outcome. Its error is a warning beside the answer.
pub(crate) fn finish(finish: Option<Finish>, answer: Outcome) -> Outcome {
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
