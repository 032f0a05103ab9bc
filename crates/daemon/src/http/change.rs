//! A request that changes something, from the audit's point of view: its intent is recorded before
//! the change, its outcome after it. It is a task-local of the task that serves the request, so no
//! handler can bypass it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::extract::RawPathParams;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tokio::task_local;

use super::peers::Peer;
use super::problem::{Problem, Refused};
use crate::audit::{Audit, Entry, Intent};
use crate::auth::AuthError;
use crate::auth::{By, Who};
use crate::error::DaemonError;

task_local! {
    static CHANGE: Change;
}

/// The header of an answer whose change was made but is not fully recorded in the audit file.
const WARNING: HeaderName = HeaderName::from_static("tiffany-warning");

/// A request that changes something.
#[derive(Clone)]
pub(super) struct Change {
    audit: Arc<Audit>,
    signed: Signed,
    noted: Noted,
    /// A word for what the route changes.
    did: &'static str,
    intent: Arc<Mutex<Option<Intent>>>,
}

impl Change {
    pub(super) fn new(
        audit: &Arc<Audit>,
        signed: Signed,
        noted: Noted,
        did: &'static str,
    ) -> Change {
        Change { audit: Arc::clone(audit), signed, noted, did, intent: Arc::default() }
    }

    /// Runs the request, and records its outcome.
    pub(super) async fn audited(self, work: impl Future<Output = Response>) -> Response {
        let mut response = CHANGE.scope(self.clone(), work).await;
        let outcome = outcome(&response);
        let intent = self.intent().take();
        let written = self.write_outcome(intent, outcome).await;
        if let Err(error) = written {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
            // Answers keep their status: the client must not repeat a change that was made.
            let warning = error.without_places().to_string();
            if let (true, Ok(warning)) =
                (response.status().is_success(), HeaderValue::try_from(warning))
            {
                response.headers_mut().insert(WARNING, warning);
            }
        }
        response
    }

    /// Records the outcome: on this thread if that needs no waiting, otherwise on a thread where no
    /// request waits for it.
    async fn write_outcome(
        &self,
        intent: Option<Intent>,
        outcome: String,
    ) -> Result<(), AuthError> {
        let audit = Arc::clone(&self.audit);
        let Some(intent) = intent else {
            // The request was refused before any change.
            let refused = self.entry(None, &outcome);
            return at_leisure(move || audit.write(&refused)).await;
        };
        match audit.finish_at_once(&intent, &outcome) {
            Some(written) => written,
            None => at_leisure(move || audit.finish(intent, &outcome)).await,
        }
    }

    /// Records an intent: on this thread if that needs no waiting, otherwise on a thread where no
    /// other request waits for it.
    async fn write_intent(&self, to: Option<String>) -> Result<Intent, AuthError> {
        let (audit, entry) = (Arc::clone(&self.audit), self.entry(to, ""));
        match audit.begin_at_once(&entry) {
            Some(begun) => begun,
            None => at_leisure(move || audit.begin(&entry)).await,
        }
    }

    fn intent(&self) -> MutexGuard<'_, Option<Intent>> {
        self.intent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, to: Option<String>, outcome: &str) -> Entry {
        let did = self.noted.did.get().copied().unwrap_or(self.did);
        self.signed.entry(did, self.noted.to.get().cloned().or(to), outcome.into())
    }
}

/// Runs work that waits for the disk or for another process, on a blocking thread. It runs to its
/// end, even if the request is abandoned.
pub(crate) async fn at_leisure<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The threads are being shut down, and this one with them.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Records the intent of this task's change. Only the first call writes it. After an error the
/// change must not be made.
pub(crate) async fn begin(to: Option<String>) -> Result<(), Problem> {
    // Missing only if the table of routes says that this route changes nothing.
    let Ok(change) = CHANGE.try_with(Change::clone) else {
        return Err(DaemonError::Start("a change without an audit".into()).into());
    };
    if change.intent().is_none() {
        let begun = change.write_intent(to).await?;
        *change.intent() = Some(begun);
    }
    Ok(())
}

/// Returns the outcome of a request as a word.
fn outcome(response: &Response) -> String {
    let refused = response.extensions().get::<Refused>().map(|Refused(code)| code.clone());
    let is_bad = response.status() >= StatusCode::BAD_REQUEST;
    let status = || is_bad.then(|| response.status().as_str().to_owned());
    refused.or_else(status).unwrap_or_else(|| "ok".into())
}

/// The client, as the audit names it.
#[derive(Clone, Debug)]
pub(crate) struct Signed(Entry);

impl Signed {
    /// Describes a client that has not identified itself.
    pub(super) fn of(peer: Option<&Peer>) -> Signed {
        Signed(Entry {
            who: "unknown".into(),
            role: "none".into(),
            by: "nothing".into(),
            from: peer.map_or(String::new(), |peer| peer.address.to_string()),
            ..Entry::default()
        })
    }

    pub(super) fn by(self, who: &Who) -> Signed {
        Signed(Entry {
            who: who.name.clone(),
            role: who.role.to_string(),
            by: match &who.by {
                By::Token(id) => format!("token:{id}"),
                By::Certificate => "certificate".into(),
                By::Loopback => "loopback".into(),
            },
            ..self.0
        })
    }

    pub(crate) fn entry(&self, did: &str, to: Option<String>, outcome: String) -> Entry {
        Entry { did: did.into(), to, outcome, ..self.0.clone() }
    }
}

/// A part of the audit line that only the handler knows, because it is in the request's body rather
/// than in its path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    did: Arc<OnceLock<&'static str>>,
    to: Arc<OnceLock<String>>,
}

impl Noted {
    pub(super) fn of(names: Option<RawPathParams>) -> Noted {
        let noted = Noted::default();
        let names: Vec<&str> = names.iter().flatten().map(|(_, name)| name).collect();
        if !names.is_empty() {
            noted.done_to(&names.join("/"));
        }
        noted
    }

    /// Notes the target of the change.
    pub(crate) fn done_to(&self, to: &str) {
        let _ = self.to.set(to.into());
    }

    /// Notes the kind of change, in a word.
    pub(crate) fn does(&self, did: &'static str) {
        let _ = self.did.set(did);
    }

    pub(super) fn to(&self) -> Option<String> {
        self.to.get().cloned()
    }
}
