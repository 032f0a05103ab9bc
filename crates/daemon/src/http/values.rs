//! In which form the values of a request are: plain JSON, or made by the codec of a language, which a client library says in a header.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tiffany::control::Request;

use crate::app::App;

/// The header that says so.
const HEADER: &str = "tiffany-values";

/// The form of the values of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Plain,
    Encoded,
}

impl FromRequestParts<App> for Values {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Values, Infallible> {
        let given = parts.headers.get(HEADER);
        Ok(match given.is_some_and(|form| form.as_bytes().eq_ignore_ascii_case(b"encoded")) {
            true => Values::Encoded,
            false => Values::Plain,
        })
    }
}

impl Values {
    /// The request as it goes to the runtime.
    pub(crate) fn of(self, request: Request) -> Request {
        match self {
            Values::Encoded if request.carries_value() => Request::Encoded(Box::new(request)),
            _ => request,
        }
    }
}
