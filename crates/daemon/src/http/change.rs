//! A request that changes something, as the audit sees it: its intent is written before the first thing is done,
//! its outcome after the last. It is known to the task that serves the request, so no handler can pass it by.

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

/// The header of an answer whose change was made, but is not completely in the audit.
const WARNING: HeaderName = HeaderName::from_static("tiffany-warning");

/// One request that changes something.
#[derive(Clone)]
pub(super) struct Change {
    audit: Arc<Audit>,
    signed: Signed,
    noted: Noted,
    /// What the route changes, in a word.
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

    /// Does it, and writes the outcome.
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

    /// Here, if that needs no waiting; otherwise where nobody else waits for it.
    async fn write_outcome(
        &self,
        intent: Option<Intent>,
        outcome: String,
    ) -> Result<(), AuthError> {
        let audit = Arc::clone(&self.audit);
        let Some(intent) = intent else {
            // It was refused before anything was done.
            let refused = self.entry(None, &outcome);
            return at_leisure(move || audit.write(&refused)).await;
        };
        match audit.finish_at_once(&intent, &outcome) {
            Some(written) => written,
            None => at_leisure(move || audit.finish(intent, &outcome)).await,
        }
    }

    /// Writes an intent: here if that needs no waiting, otherwise where no other request waits for
    /// it.
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

/// Does what waits for the disk or for another process, on a thread where nobody else waits for it. It is done to its
/// end, even if the request is given up meanwhile.
pub(crate) async fn at_leisure<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The threads are ending, and this one with them.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Writes the intent of the change that this task makes; once, however much is done for it. After an error
/// nothing may be done.
pub(crate) async fn begin(to: Option<String>) -> Result<(), Problem> {
    // A route that changes something says so in the table of routes.
    let Ok(change) = CHANGE.try_with(Change::clone) else {
        return Err(DaemonError::Start("a change without an audit".into()).into());
    };
    if change.intent().is_none() {
        let begun = change.write_intent(to).await?;
        *change.intent() = Some(begun);
    }
    Ok(())
}

/// What came of a request, in a word.
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
    /// A client that has not said who it is.
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

/// A part of the audit line that only the handler knows, because it is in the body of the request and not in its path.
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
