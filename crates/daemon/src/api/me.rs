//! Returns the client's name, role and permissions.

use axum::Extension;
use axum::response::IntoResponse;
use serde_json::json;

use crate::auth::{By, Who};
use crate::http::Answered;

pub(super) async fn me(Extension(who): Extension<Who>) -> Answered {
    let by = match who.by {
        By::Token(_) => "token",
        By::Certificate => "certificate",
        By::Loopback => "loopback",
    };
    Ok(axum::Json(json!({ "name": who.name, "role": who.role.word(), "by": by })).into_response())
}
