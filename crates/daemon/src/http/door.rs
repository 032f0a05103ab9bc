//! The door before every route: who asks, whether they may, and what is written down of it. Each route says in the table what it takes; nothing gets
//! past here without that.

use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;

use super::peers::Peer;
use super::problem::{Problem, Refused};
use crate::app::{App, Phase};
use crate::audit::Entry;
use crate::auth::{AuthError, By, Knock, Role, Who};
use crate::error::DaemonError;

/// What a route takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// The least that somebody must be; `None`: anybody may.
    pub(crate) role: Option<Role>,
    /// What is changed by it, in a word, if something is.
    pub(crate) changes: Option<&'static str>,
}

/// A route behind its door.
pub(crate) fn guarded(route: MethodRouter<App>, app: &App, takes: Takes) -> MethodRouter<App> {
    route.layer(from_fn_with_state((app.clone(), takes), door))
}

async fn door(
    State((app, takes)): State<(App, Takes)>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(role) = takes.role else { return next.run(request).await };
    if let Some(did) = takes.changes {
        return change(app, role, did, request, next).await;
    }
    let peer = request.extensions().get::<Peer>();
    let who = let_in(&app, request.headers(), peer);
    match who.and_then(|who| who.may(role).map(|()| who)) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(refused) => Problem::from(refused).into_response(),
    }
}

/// A request that changes something. It is done in a task of its own: whoever asks may leave before the answer, and what they asked for is written down all the same.
async fn change(app: App, role: Role, did: &'static str, request: Request, next: Next) -> Response {
    let change = app.change();
    match app.phase() {
        Phase::Ready => {}
        Phase::Starting => return not_now("is bringing its runs back"),
        Phase::Draining | Phase::Closing => return not_now("is ending and begins nothing new"),
    }
    let (mut parts, body) = request.into_parts();
    let signed = Signed::of(parts.extensions.get::<Peer>());
    let noted = Noted::of(RawPathParams::from_request_parts(&mut parts, &()).await.ok());
    let who = match let_in(&app, &parts.headers, parts.extensions.get::<Peer>()) {
        Ok(who) => who,
        Err(error) => {
            let entry = signed.entry(did, noted.to(), error.code().into());
            if let Err(error) = app.audit.write_stranger(&entry) {
                tracing::error!(target: "tiffany", code = error.code(), "{error}");
            }
            return Problem::from(error).into_response();
        }
    };
    if let Err(error) = app.audit.has_room() {
        return Problem::from(error).into_response();
    }
    let signed = signed.by(&who);
    let may = who.may(role);
    parts.extensions.insert(who);
    parts.extensions.insert(signed.clone());
    parts.extensions.insert(noted.clone());
    let request = Request::from_parts(parts, body);
    let done = tokio::spawn(async move {
        let _change = change;
        let response = match may {
            Ok(()) => next.run(request).await,
            Err(refused) => Problem::from(refused).into_response(),
        };
        let did = noted.did.get().copied().unwrap_or(did);
        match app.audit.write(&signed.entry(did, noted.to(), outcome(&response))) {
            Ok(()) => response,
            // What was refused changed nothing; why it was is worth more.
            Err(_) if response.status() >= StatusCode::BAD_REQUEST => response,
            Err(error) => Problem::from(error).into_response(),
        }
    });
    match done.await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => not_now("is ending"),
        },
    }
}

fn not_now(why: &'static str) -> Response {
    Problem::from(DaemonError::NotNow(why)).into_response()
}

fn let_in(app: &App, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Who, AuthError> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let by_socket = token_of_socket(headers);
    app.gate.open(Knock {
        authorization: text(header::AUTHORIZATION).or(by_socket.as_deref()),
        host: text(header::HOST),
        origin: text(header::ORIGIN),
        certificate: peer.and_then(|peer| peer.certificate.as_deref()),
    })
}

/// A page in a browser can give no header with a WebSocket, but names of protocols: `bearer.` and its token is one of them.
fn token_of_socket(headers: &HeaderMap) -> Option<String> {
    headers.get(header::UPGRADE)?;
    let names = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut names =
        names.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    names
        .find_map(|name| name.trim().strip_prefix("bearer.").map(|token| format!("Bearer {token}")))
}

/// What came of a request, in a word.
fn outcome(response: &Response) -> String {
    let refused = response.extensions().get::<Refused>().map(|Refused(code)| code.clone());
    let is_bad = response.status() >= StatusCode::BAD_REQUEST;
    let status = || is_bad.then(|| response.status().as_str().to_owned());
    refused.or_else(status).unwrap_or_else(|| "ok".into())
}

/// Who asks, as it is written down.
#[derive(Clone, Debug)]
pub(crate) struct Signed(Entry);

impl Signed {
    /// Somebody whom nobody knows yet.
    fn of(peer: Option<&Peer>) -> Signed {
        Signed(Entry {
            who: "unknown".into(),
            role: "none".into(),
            by: "nothing".into(),
            from: peer.map_or(String::new(), |peer| peer.address.to_string()),
            ..Entry::default()
        })
    }

    fn by(self, who: &Who) -> Signed {
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

/// What a handler finds out of that which is written down: it is in the body of the request, not in its path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    did: Arc<OnceLock<&'static str>>,
    to: Arc<OnceLock<String>>,
}

impl Noted {
    fn of(names: Option<RawPathParams>) -> Noted {
        let noted = Noted::default();
        let names: Vec<&str> = names.iter().flatten().map(|(_, name)| name).collect();
        if !names.is_empty() {
            noted.done_to(&names.join("/"));
        }
        noted
    }

    /// What it is done to.
    pub(crate) fn done_to(&self, to: &str) {
        let _ = self.to.set(to.into());
    }

    /// What is done, in a word.
    pub(crate) fn does(&self, did: &'static str) {
        let _ = self.did.set(did);
    }

    fn to(&self) -> Option<String> {
        self.to.get().cloned()
    }
}
