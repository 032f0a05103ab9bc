//! Who sees what is asked through the socket and changes something: an audit, say. It knows nothing of what is done with that.

use tiffany_kernel::TaskError;

use super::request::{Answer, Request};
use crate::approval::user_name;

/// Sees everything that is asked through the socket and changes something: see [`Builder::witness`](crate::Builder::witness).
pub trait Witness: Send + Sync {
    /// An error, if nothing may be changed now: then it is not done.
    fn may(&self) -> Result<(), TaskError>;

    /// Something was asked, and this came of it. The answer is given after this.
    fn saw(&self, seen: &Seen<'_>);
}

/// Something that was asked and changes something.
#[derive(Debug)]
#[non_exhaustive]
pub struct Seen<'a> {
    /// The number of the user who asked, as the system says.
    pub uid: u32,
    /// What that user is called on this machine; the number, if that is not known.
    pub user: String,
    /// What was asked for, in a word.
    pub did: &'static str,
    /// What it was done to: a run, a promise, a step, an approval.
    pub to: Option<String>,
    /// Why it was not done; of several, why the first was not that was not.
    pub refused: Option<&'a TaskError>,
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
            Request::Compact { remains } => {
                ("compact", all(&mut remains.iter().map(|one| one.run.to_string())))
            }
            Request::Decide { key, .. } => ("decide", Some(key.clone())),
            Request::Resolve { approval, ruling } => (ruling.word(), Some(approval.clone())),
        })
    }
}

/// Asks, and lets it be seen.
pub(super) fn seen(
    witness: Option<&dyn Witness>,
    uid: u32,
    request: Request,
    ask: impl FnOnce(Request) -> Result<Answer, TaskError>,
) -> Result<Answer, TaskError> {
    let Some((witness, (did, to))) = witness.zip(request.changes()) else { return ask(request) };
    witness.may()?;
    let answer = ask(request);
    let user = user_name(uid);
    let refused = match &answer {
        Err(error) => Some(error),
        Ok(Answer::Each(each)) => each.iter().find_map(|one| one.as_ref().err()),
        Ok(_) => None,
    };
    witness.saw(&Seen { uid, user, did, to, refused });
    answer
}
