//! The dashboard: a page and its files, embedded in the program. The same page is served under all
//! of its paths, and reads the address itself to choose what to show. It needs no role, because all
//! data comes from requests that do.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::error::DaemonError;
use crate::http::Named;
use crate::http::{Answered, Problem};

/// All embedded files, by name.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The paths under which the page is served.
const PATHS: &[&str] =
    &["/", "/runs", "/runs/{*rest}", "/compare/{*rest}", "/system", "/approvals"];

/// The content security policy: only resources from this origin.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// An embedded file with its headers.
struct File {
    name: &'static str,
    bytes: &'static [u8],
    tag: HeaderValue,
}

static ALL: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |(name, bytes): &(&'static str, &'static [u8])| {
        let hash = Sha256::digest(bytes);
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("\"{hash}\"")).ok()?;
        Some(File { name, bytes, tag })
    };
    FILES.iter().filter_map(file).collect()
});

/// Returns the routes of the dashboard.
pub(super) fn routes() -> Router<App> {
    let router = PATHS.iter().fold(Router::new(), |router, path| router.route(path, get(page)));
    router.route("/assets/{name}", get(asset))
}

async fn page(uri: Uri, headers: HeaderMap) -> Answered {
    file("index.html", &uri, &headers)
}

/// Returns the page for an unknown path; the page itself reports that nothing is there.
pub(super) fn nowhere(uri: &Uri) -> Response {
    let mut response = file("index.html", uri, &HeaderMap::new()).into_response();
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

async fn asset(Named(name): Named<String>, uri: Uri, headers: HeaderMap) -> Answered {
    file(&name, &uri, &headers)
}

fn file(name: &str, uri: &Uri, headers: &HeaderMap) -> Answered {
    let Some(file) = ALL.iter().find(|file| file.name == name) else {
        let path = uri.path().chars().take(200).collect();
        return Err(Problem::from(DaemonError::NoPath(path)));
    };
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|tags| tags.to_str().ok()).flat_map(|tags| tags.split(','));
    let is_known = known.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == file.tag.as_bytes()
    });
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Response::new(Body::from(file.bytes)),
    };
    let headers = response.headers_mut();
    if !is_known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind(name)));
    }
    headers.insert(header::ETAG, file.tag.clone());
    let fixed = [
        // Revalidated on every load; an unchanged file is answered with its tag alone.
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
