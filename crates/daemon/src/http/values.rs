//! In which form the values of a request are: plain JSON, or made by the codec of a language, which a client library says in a header.

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use tiffany::control::Request;

use super::problem::Problem;
use crate::app::App;
use crate::error::DaemonError;

/// The header that says so.
const HEADER: &str = "tiffany-values";

/// The form of the values of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Plain,
    Encoded,
}

impl FromRequestParts<App> for Values {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Values, Problem> {
        match parts.headers.get(HEADER).map(HeaderValue::as_bytes) {
            None | Some(b"plain") => Ok(Values::Plain),
            Some(b"encoded") => Ok(Values::Encoded),
            Some(_) => {
                let message = "the header `Tiffany-Values` is `plain` or `encoded`";
                Err(DaemonError::BadRequest(message.into()).into())
            }
        }
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
