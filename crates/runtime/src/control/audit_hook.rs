//! The hook for an audit: it is called before and after each change that is requested through the socket. It knows
//! nothing about what the audit does with the calls.

use tiffany_kernel::TaskError;

use tiffany_records::request::{Answer, Outcome, Request, user_name};

/// Is called for every change that is requested through the socket: see
/// [`Builder::audit_hook`](crate::runtime::builder::Builder::audit_hook).
pub trait AuditHook: Send + Sync {
    /// Called before a change. The change is made after this returns, and not at all if it returns an error. The
    /// returned function is called with the outcome, before the client gets the answer.
    fn begins(&self, change: &Change) -> Result<Finish, TaskError>;
}

/// Takes the outcome of a change: `None`, or why it was refused; of several runs, why the first was refused. An
/// error says that the change was made and could not be noted; the client gets it as a warning.
pub type Finish = Box<dyn FnOnce(Option<&TaskError>) -> Result<(), TaskError> + Send>;

/// A change that was requested.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change {
    /// The number of the user who requested it, as the system reports it.
    pub uid: u32,
    /// The name of that user on this machine; the number, if the name is not known.
    pub user: String,
    /// The kind of change, in a word.
    pub did: &'static str,
    /// The target of the change: a run, a promise, a step, an approval.
    pub to: Option<String>,
}

/// Calls the audit hook before a request is carried out. `None`: the request changes nothing, or there is no hook.
pub(crate) fn begin(
    audit_hook: Option<&dyn AuditHook>,
    uid: u32,
    request: &Request,
) -> Result<Option<Finish>, TaskError> {
    let Some((audit_hook, (did, to))) = audit_hook.zip(request.changes()) else { return Ok(None) };
    audit_hook.begins(&Change { uid, user: user_name(uid), did, to }).map(Some)
}

/// Passes the outcome to the audit hook. An error of the hook becomes a warning beside the answer.
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
