//! Errors as `application/problem+json`: code, status, what happened and what to do.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tiffany::{ErrorKind, TaskError, redact};

use crate::auth::AuthError;
use crate::error::DaemonError;

/// An error as it is sent to a client.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: String,
    status: u16,
    title: String,
    next: String,
    retry_after: Option<Duration>,
}

/// The error code of a refused request, for the audit file.
#[derive(Clone, Debug)]
pub(crate) struct Refused(pub(crate) String);

impl Problem {
    /// Splits the text of an error: `message [CODE]; next step`. The text may quote the request,
    /// and so may contain secrets.
    pub(crate) fn new(code: &str, status: u16, text: &str) -> Problem {
        let mark = format!(" [{code}]");
        let (title, next) = match text.rsplit_once(&mark) {
            Some((title, next)) => (title, next.trim_start_matches("; ")),
            None => (text, ""),
        };
        Problem {
            code: code.into(),
            status,
            title: redact::clean(title).into_owned(),
            next: next.into(),
            retry_after: None,
        }
    }

    /// Returns the problem with another next step.
    pub(crate) fn with_next(self, next: &str) -> Problem {
        Problem { next: next.into(), ..self }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        json!({
            "type": format!("urn:tiffany:error:{}", self.code),
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "next": self.next,
        })
    }

    /// Returns the whole response as text, for a client whose request is not read.
    pub(crate) fn raw(&self) -> String {
        let body = self.json().to_string();
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let retry = self
            .retry_after
            .map_or(String::new(), |wait| format!("retry-after: {}\r\n", seconds(wait)));
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\n{retry}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or(""),
            body.len(),
        )
    }
}

fn seconds(wait: Duration) -> u64 {
    wait.as_secs_f64().ceil().max(1.0) as u64
}

impl From<DaemonError> for Problem {
    fn from(error: DaemonError) -> Problem {
        let problem = Problem::new(error.code(), error.status(), &error.to_string());
        Problem { retry_after: error.retry_after(), ..problem }
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Problem {
        let error = error.without_places();
        Problem::new(error.code(), error.status(), &error.to_string())
    }
}

impl From<TaskError> for Problem {
    fn from(error: TaskError) -> Problem {
        if let Some((kind, next)) = kind_in(&error) {
            let text = match next {
                "" => format!("{}; {}", error.message(), kind.next_step()),
                _ => error.message().to_owned(),
            };
            return Problem::new(kind.code(), status_of(kind), &text);
        }
        if error.kind() == ErrorKind::LogFailed {
            return log_failed(&error);
        }
        let mut problem = Problem::new(error.code(), status_of(error.kind()), &error.to_string());
        if problem.next.is_empty() {
            // Only the author of the program knows what its own error means.
            problem = problem.with_next(OWN_ERROR);
        }
        let passes = matches!(error.kind(), ErrorKind::InboxFull | ErrorKind::Host);
        let retry_after = passes.then_some(SHORT_WAIT);
        Problem { retry_after, ..problem }
    }
}

/// The next step for an error raised by the program itself.
const OWN_ERROR: &str =
    "this error is the program's own: see its code, and the run with `GET /api/v1/runs/{run}`";

/// When to retry a request that failed because something is full or unavailable.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Returns the error kind that an error from another language names after its message, and its next
/// step, if it has one.
fn kind_in(error: &TaskError) -> Option<(ErrorKind, &str)> {
    let (_, marked) = error.message().rsplit_once(" [TFY")?;
    let (number, next) = marked.split_once(']')?;
    let next = if next.is_empty() { next } else { next.strip_prefix("; ")? };
    let known =
        ErrorKind::ALL.iter().find(|kind| kind.code().strip_prefix("TFY") == Some(number))?;
    (error.kind() == ErrorKind::Failed).then_some((*known, next))
}

fn status_of(kind: ErrorKind) -> u16 {
    use ErrorKind::*;
    match kind {
        NoSuchRun | UnknownPromise | NoSuchQuestion | NoSuchKey | NoSuchApproval => 404,
        OtherRun | RunOver | NotOver | NeededByFork | MayBeNeeded | NotDamaged | ReadTooEarly
        | AlreadySettled | NotAllowed | RunCompacted | Diverged | ApprovalDecided | RunHeld
        | NotHeld => 409,
        InboxFull => 429,
        RunRemoved => 410,
        // The process lacks a resource, such as a thread, whatever the client requested.
        LogFailed | Unreachable | Host => 503,
        Interrupted => 504,
        _ => 422,
    }
}

/// Returns the problem for a failed log, with the log's own message.
fn log_failed(error: &TaskError) -> Problem {
    let text = error.message();
    let code = text.rfind("[TFY").and_then(|at| text.get(at + 1..at + 8));
    match code {
        Some("TFY0103") => Problem::new("TFY0103", 507, text),
        Some(code) => Problem::new(code, 503, text),
        None => Problem::new(error.code(), 503, &error.to_string()),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds(wait).into());
        }
        if self.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Refused(self.code));
        response
    }
}

/// The result of a handler.
pub(crate) type Answered = Result<Response, Problem>;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, code: &str, title: &str, next: &str) {
        let problem = Problem::from(TaskError::failed(message.to_owned()));
        assert_eq!((problem.code.as_str(), problem.title.as_str()), (code, title));
        assert_eq!(problem.next, next);
    }

    #[test]
    fn an_error_of_another_language_keeps_its_code_and_its_next_step() {
        let usual = ErrorKind::Unreadable.next_step();
        check("no `a` [TFY0035]", "TFY0035", "no `a`", usual);
        check("no `a` [TFY0035]; let it take less", "TFY0035", "no `a`", "let it take less");
        // A text that only looks like a code comes from a program.
        check("see [TFY0035] for more", "TFY0001", "see [TFY0035] for more", OWN_ERROR);
        check("no `a` [TFY9999]", "TFY0001", "no `a` [TFY9999]", OWN_ERROR);
    }
}
