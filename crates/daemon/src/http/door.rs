//! The access check before every route: identifies the client and compares its role with the one
//! that the table of routes requires. Requests that change something continue in `change.rs`.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;

use super::change::{Change, Noted, Signed, at_leisure};
use super::peers::Peer;
use super::problem::Problem;
use super::read::is_json;
use crate::app::{App, Phase};
use crate::auth::AuthError;
use crate::auth::Role;
use crate::auth::{Knock, Who};
use crate::error::DaemonError;

/// The access that a route requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Takes {
    /// The least role that is required; `None` if the route is public.
    pub(crate) role: Option<Role>,
    /// A word for what the route changes, if it changes something.
    pub(crate) changes: Option<&'static str>,
}

/// Wraps a route in its access check.
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

/// Runs a request that changes something in its own task: the client may disconnect before the
/// answer, and the change is recorded all the same.
async fn change(app: App, role: Role, did: &'static str, request: Request, next: Next) -> Response {
    let change = app.change();
    match app.phase() {
        Phase::Ready => {}
        Phase::Starting => return not_now("is resuming its runs"),
        Phase::Draining | Phase::Closing => return not_now("is ending and begins nothing new"),
    }
    let (mut parts, body) = request.into_parts();
    let signed = Signed::of(parts.extensions.get::<Peer>());
    let noted = Noted::of(RawPathParams::from_request_parts(&mut parts, &()).await.ok());
    let who = match let_in(&app, &parts.headers, parts.extensions.get::<Peer>()) {
        Ok(who) => who,
        Err(error) => {
            let entry = signed.entry(did, noted.to(), error.code().into());
            let audit = Arc::clone(&app.audit);
            if let Err(error) = at_leisure(move || audit.write_stranger(&entry)).await {
                tracing::error!(target: "tiffany", code = error.code(), "{error}");
            }
            return Problem::from(error).into_response();
        }
    };
    let signed = signed.by(&who);
    let may = who.may(role).map_err(Problem::from).and_then(|()| no_form(&parts.headers));
    parts.extensions.insert(who);
    parts.extensions.insert(signed.clone());
    parts.extensions.insert(noted.clone());
    let request = Request::from_parts(parts, body);
    let audited = Change::new(&app.audit, signed, noted, did);
    let done = tokio::spawn(async move {
        let _change = change;
        let work = async {
            match may {
                Ok(()) => next.run(request).await,
                Err(refused) => refused.into_response(),
            }
        };
        audited.audited(work).await
    });
    match done.await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => not_now("is ending"),
        },
    }
}

/// Returns an error for an HTML form. Its body may be empty, so the request would otherwise
/// succeed.
fn no_form(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.contains_key(header::CONTENT_TYPE) {
        true => Ok(is_json(headers)?),
        false => Ok(()),
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

/// Returns the token of a WebSocket's subprotocols. A page in a browser cannot set headers on a
/// WebSocket, but it can offer the subprotocol `bearer.TOKEN`.
fn token_of_socket(headers: &HeaderMap) -> Option<String> {
    headers.get(header::UPGRADE)?;
    let names = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut names =
        names.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    names
        .find_map(|name| name.trim().strip_prefix("bearer.").map(|token| format!("Bearer {token}")))
}
