//! The door before every route: who asks, whether they may, and what is written down of it. Each route says in the table what it takes; nothing gets
//! past here without that.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;

use super::peers::Peer;
use super::problem::{Problem, Refused};
use crate::app::{App, Phase};
use crate::audit::Entry;
use crate::auth::{By, Knock, Role, Who};
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
    let peer = request.extensions().get::<Peer>().cloned();
    let who = match let_in(&app, request.headers(), peer.as_ref()) {
        Ok(who) => who,
        Err(problem) => return problem.into_response(),
    };
    let may = who.may(role);
    let Some(did) = takes.changes else {
        if let Err(refused) = may {
            return Problem::from(refused).into_response();
        }
        request.extensions_mut().insert(who);
        return next.run(request).await;
    };
    if matches!(app.phase(), Phase::Draining | Phase::Closing) {
        return Problem::from(DaemonError::NotNow("is ending and begins nothing new"))
            .into_response();
    }
    if let Err(error) = app.audit.has_room() {
        return Problem::from(error).into_response();
    }
    let path = request.uri().path().to_owned();
    request.extensions_mut().insert(who.clone());
    let response = match may {
        Ok(()) => next.run(request).await,
        Err(refused) => Problem::from(refused).into_response(),
    };
    match written_down(&app, &who, peer.as_ref(), (did, &path), &response) {
        Ok(()) => response,
        // What was refused changed nothing; why it was is worth more.
        Err(_) if response.status().as_u16() >= 400 => response,
        Err(problem) => problem.into_response(),
    }
}

fn let_in(app: &App, headers: &HeaderMap, peer: Option<&Peer>) -> Result<Who, Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let by_socket = token_of_socket(headers);
    Ok(app.gate.open(Knock {
        authorization: text(header::AUTHORIZATION).or(by_socket.as_deref()),
        host: text(header::HOST),
        origin: text(header::ORIGIN),
        certificate: peer.and_then(|peer| peer.certificate.as_deref()),
    })?)
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

/// Writes down what was done before its answer leaves.
fn written_down(
    app: &App,
    who: &Who,
    peer: Option<&Peer>,
    (did, path): (&str, &str),
    response: &Response,
) -> Result<(), Problem> {
    let made = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
    let refused = response.extensions().get::<Refused>().map(|Refused(code)| code.clone());
    let is_bad = response.status().as_u16() >= StatusCode::BAD_REQUEST.as_u16();
    let outcome = refused.or_else(|| is_bad.then(|| response.status().as_str().to_owned()));
    app.audit.write(&Entry {
        who: who.name.clone(),
        role: who.role.to_string(),
        by: match &who.by {
            By::Token(id) => format!("token:{id}"),
            By::Certificate => "certificate".into(),
            By::Loopback => "loopback".into(),
        },
        from: peer.map_or(String::new(), |peer| peer.address.to_string()),
        did: did.into(),
        to: Some(made.unwrap_or(path).into()),
        outcome: outcome.unwrap_or_else(|| "ok".into()),
    })?;
    Ok(())
}
