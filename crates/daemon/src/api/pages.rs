//! The OpenAPI document, and a page that shows it without requests to other servers.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::openapi::document;

pub(super) async fn openapi() -> Response {
    axum::Json(document()).into_response()
}

pub(super) async fn docs() -> Response {
    let only_ours = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(only_ours)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, include_str!("docs.html")).into_response()
}
