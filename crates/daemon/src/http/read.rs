//! Reads the parts of a request: its body, its query and the names in its path. Input that cannot
//! be read is answered with the reason.

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use super::problem::Problem;
use crate::app::App;
use crate::error::DaemonError;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

/// A JSON body that may be missing.
pub(crate) struct Given<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Json<T>, Problem> {
        is_json(request.headers())?;
        let body = body(request, app).await?;
        parse(&body).map(Json)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for Given<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Given<T>, Problem> {
        let is_json = is_json(request.headers());
        let body = body(request, app).await?;
        match body.is_empty() {
            true => Ok(Given(T::default())),
            false => is_json.map_err(Problem::from).and_then(|()| parse(&body)).map(Given),
        }
    }
}

/// Checks that a body is declared as JSON. Pages of other sites can send forms without permission,
/// but not this content type. Programs may leave the type out.
pub(super) fn is_json(headers: &HeaderMap) -> Result<(), DaemonError> {
    let is_page = headers.contains_key(header::ORIGIN);
    let Some(given) = headers.get(header::CONTENT_TYPE) else {
        return if is_page { Err(DaemonError::NotJson("not declared".into())) } else { Ok(()) };
    };
    let given = String::from_utf8_lossy(given.as_bytes());
    let kind = given.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match &*kind {
        "application/json" => Ok(()),
        kind if kind.ends_with("+json") => Ok(()),
        _ => {
            let given: String = given.chars().take(100).collect();
            Err(DaemonError::NotJson(format!("`{given}`")))
        }
    }
}

async fn body(request: Request, app: &App) -> Result<Bytes, Problem> {
    let most = app.limits.body_bytes;
    // A client that announces a body that is too large need not send it.
    if request.body().size_hint().lower() > most as u64 {
        return Err(DaemonError::TooLarge { most }.into());
    }
    let body = Limited::new(request.into_body(), most).collect();
    match tokio::time::timeout(app.limits.body_time, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(DaemonError::TooLarge { most }.into())
        }
        Ok(Err(error)) => {
            Err(DaemonError::BadRequest(format!("the body broke off: {error}")).into())
        }
        Err(_) => {
            let message = format!("the body took longer than {:?}", app.limits.body_time);
            Err(DaemonError::BadRequest(message).into())
        }
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // Only an object is accepted: serde would also read a list as the fields in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| *byte == b'[') {
        return Err(DaemonError::BadRequest("the body is a list, and no object".into()).into());
    }
    serde_json::from_slice(body)
        .map_err(|error| DaemonError::BadRequest(format!("the body: {error}")).into())
}

/// Deserializes an optional field that is present as its own type, so that `null` is a value where
/// the type allows it, and an error elsewhere.
pub(crate) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Deserializes a whole number in any notation: in JSON, `3.0` is one too.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    let is_whole = |number: &f64| number.fract() == 0.0 && (0.0..u64::MAX as f64).contains(number);
    let whole = number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|it| it as u64));
    whole.ok_or_else(|| D::Error::custom(format!("{number} is not a whole number from 0 on")))
}

/// The query of a URL.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Query<T>, Problem> {
        let read: Result<axum::extract::Query<T>, QueryRejection> =
            axum::extract::Query::try_from_uri(&parts.uri);
        match read {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(error) => {
                let why = error.body_text();
                let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
                Err(DaemonError::BadRequest(format!("the query: {why}")).into())
            }
        }
    }
}

/// The names in a path, unescaped: `%20` is a space.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Named<T>, Problem> {
        let read: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, app).await;
        match read {
            Ok(Path(names)) => Ok(Named(names)),
            Err(error) => {
                Err(DaemonError::BadRequest(format!("the path: {}", error.body_text())).into())
            }
        }
    }
}
