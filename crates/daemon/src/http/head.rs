//! Checks the head of every request before its path is read: the host and the length of the body
//! must be stated once and unambiguously. Otherwise a proxy or a browser could read the request
//! differently.

use axum::http::{HeaderName, Request, Version, header};

use crate::error::DaemonError;

/// Headers that decide about access, or about how a body is read, and may occur once.
const ONCE: [HeaderName; 4] =
    [header::HOST, header::CONTENT_TYPE, header::AUTHORIZATION, header::ORIGIN];

/// An error if the head is ambiguous.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), DaemonError> {
    let bad = |message: String| Err(DaemonError::BadRequest(message));
    for name in ONCE {
        let count = request.headers().get_all(&name).iter().count();
        if count > 1 {
            return bad(format!(
                "the header `{name}` is there {count} times, and may be there once"
            ));
        }
    }
    // HTTP/1.0 has no `Host` header.
    if request.version() >= Version::HTTP_11 && !request.headers().contains_key(header::HOST) {
        return bad("the header `Host` is missing, which every request of HTTP/1.1 has".into());
    }
    if request.uri().authority().is_some() {
        return bad("the request names a host in its first line; send the path alone there".into());
    }
    Ok(())
}
