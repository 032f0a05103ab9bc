//! The records of a run: one page of them, or a stream from a record on. They are read from the
//! run's file on a blocking thread, no faster than the client reads.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tiffany::Uuid;
use tiffany::control::State as RunState;
use tiffany::history::{RecordPage, RecordQuery, RunIndex};
use tiffany::wal::{Checker, Follower, Growth, LogError, RecordType};
use tokio::sync::OwnedSemaphorePermit;

use super::look::detail;
use super::run_index::json;
use crate::app::{App, Guest, Recorded};
use crate::auth::Who;
use crate::error::DaemonError;
use crate::http::Peer;
use crate::http::{Answered, Problem};
use crate::http::{Named, Query};
use crate::run_indexes::FILE_TIMEOUT;

/// Query parameters that select records.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Wanted {
    from: Option<u64>,
    limit: Option<u64>,
    follow: Option<bool>,
    order: Option<String>,
    before: Option<u64>,
    task: Option<u64>,
    #[serde(rename = "type")]
    types: Option<String>,
    failed: Option<bool>,
    text: Option<String>,
}

impl Wanted {
    /// Returns the name of a parameter that is set and only applies to pages.
    fn of_page(&self) -> Option<&'static str> {
        let given = [
            ("order", self.order.is_some()),
            ("before", self.before.is_some()),
            ("task", self.task.is_some()),
            ("type", self.types.is_some()),
            ("failed", self.failed.is_some()),
            ("text", self.text.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    fn query(self, from: Option<u64>) -> Result<RecordQuery, Problem> {
        let bad = |message: String| Problem::from(DaemonError::BadRequest(message));
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(bad(format!("`limit` is between 1 and {MAX_LIMIT}")));
        }
        let is_descending = match self.order.as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(other) => return Err(bad(format!("`order` is asc or desc, and not `{other}`"))),
        };
        let names = self.types.iter().flat_map(|names| names.split(',').map(str::trim));
        let types: Vec<String> = names.map(str::to_owned).collect();
        if let Some(other) = types.iter().find(|name| RecordType::parse(name).is_none()) {
            let known: Vec<&str> = RecordType::ALL.iter().map(|kind| kind.name()).collect();
            return Err(bad(format!("`type` is one of {}, and not `{other}`", known.join(", "))));
        }
        Ok(RecordQuery {
            from,
            before: self.before,
            is_descending,
            task: self.task,
            types,
            failed: self.failed.unwrap_or(false),
            text: self.text,
            limit: usize::try_from(limit).unwrap_or(1),
        })
    }
}

const LIMIT: u64 = 1000;
const MAX_LIMIT: u64 = 10_000;
/// The most bytes in one piece of a stream.
const PIECE: usize = 64 << 10;
/// How soon the end of a run is checked after a new record. The interval grows while nothing is
/// written; new records are signalled separately.
const SOON: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(5);
/// How often a stream without new records sends something, so that a dead connection is detected.
const SIGN: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Page,
    Lines,
    Events,
}

impl Form {
    fn wanted(headers: &HeaderMap) -> Form {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let accept = accept.unwrap_or("");
        match () {
            () if accept.contains("text/event-stream") => Form::Events,
            () if accept.contains("application/x-ndjson") => Form::Lines,
            () => Form::Page,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Form::Page => "application/json",
            Form::Lines => "application/x-ndjson",
            Form::Events => "text/event-stream",
        }
    }
}

pub(super) async fn records(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Named(name): Named<String>,
    Query(wanted): Query<Wanted>,
) -> Answered {
    let run = app.find(&name).await?;
    // A run that was removed entirely has no records.
    let recorded = app.recorded(run).await?;
    let form = Form::wanted(&headers);
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    let from = wanted.from.or(last.map(|last| last.saturating_add(1)));
    match form {
        Form::Page => {
            if wanted.follow == Some(true) {
                let message = "records are followed as lines or as events: give `Accept: application/x-ndjson` or `text/event-stream`";
                return Err(DaemonError::BadRequest(message.into()).into());
            }
            page(&app, recorded, wanted.query(from)?).await
        }
        form => {
            if let Some(name) = wanted.of_page() {
                let message =
                    format!("`{name}` is for a page: give no `Accept`, or application/json");
                return Err(DaemonError::BadRequest(message).into());
            }
            let reader = Reader { follower: follower(&app, run), from: from.unwrap_or(1) };
            let follow = wanted.follow.unwrap_or(form == Form::Events);
            let left = wanted.limit.unwrap_or(u64::MAX);
            let place = app.stream()?;
            let growth = app.runtime()?.growth(run);
            let stream = Stream {
                guest: Guest::new(&app, who, &peer),
                app,
                growth,
                recorded,
                begun: Instant::now(),
                reader: Some(reader),
                form,
                follow,
                left,
                is_over: false,
                pace: SOON,
                quiet: Duration::ZERO,
                _place: place,
            };
            Ok(streamed(form, stream))
        }
    }
}

fn follower(app: &App, run: Uuid) -> Follower {
    Follower::new(&app.dir, run, Checker::new(Some(run)))
}

/// Reads a run's file from a given record on.
struct Reader {
    follower: Follower,
    from: u64,
}

/// Lines of the log with their record numbers.
type Piece = Vec<(u64, String)>;

impl Reader {
    /// Returns whether the reader has reached this durable record.
    fn has_reached(&self, recorded: Recorded) -> bool {
        let chain = self.follower.checker().chain();
        let at = chain.map_or((0, 0), |chain| (chain.generation(), chain.seq()));
        at >= (recorded.generation, recorded.seq)
    }

    /// Returns the next lines: at most `most`, and about [`PIECE`] bytes.
    fn read(&mut self, most: u64) -> Result<Piece, LogError> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while bytes < PIECE && (lines.len() as u64) < most {
            let record = match self.follower.next() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                // A run that was just started is durable before its file exists.
                Err(LogError::Vanished { .. }) => break,
                Err(error) => return Err(error),
            };
            if record.seq >= self.from {
                bytes += record.json.len();
                lines.push((record.seq, record.json.to_owned()));
            }
        }
        Ok(lines)
    }
}

async fn read(mut reader: Reader, most: u64) -> Result<(Reader, Piece), Problem> {
    let read = tokio::task::spawn_blocking(move || {
        let piece = reader.read(most);
        (reader, piece)
    });
    match read.await {
        Ok((reader, Ok(piece))) => Ok((reader, piece)),
        Ok((_, Err(error))) => Err(Problem::new(error.code(), 500, &error.to_string())),
        Err(error) => Err(DaemonError::Start(error.to_string()).into()),
    }
}

async fn page(app: &App, recorded: Recorded, query: RecordQuery) -> Answered {
    let ask = move |run_index: &mut RunIndex| {
        let page = run_index.records(&query)?;
        Ok(page_text(&query, &page))
    };
    Ok(json(app.ask_run_index(recorded, ask).await?))
}

fn page_text(query: &RecordQuery, page: &RecordPage) -> Vec<u8> {
    // Where the next page begins. Ascending pages can continue with records that are yet to be
    // written; descending pages continue with `before`.
    let next = match query.is_descending {
        true => page.next.map(|next| next + 1),
        false => Some(page.next.unwrap_or(query.from.unwrap_or(1).max(page.total + 1))),
    };
    let facts = serde_json::json!({
        "total": page.total,
        "matched": page.matched,
        "next": next,
        "more": page.next.is_some(),
        "over": page.is_over,
        "unread": page.unread,
    });
    let facts = facts.to_string();
    format!("{{\"records\":[{}],{}", page.records.join(","), &facts[1..]).into_bytes()
}

/// A response that streams records to a client.
struct Stream {
    app: App,
    growth: Growth,
    guest: Guest,
    /// The last durable record when the stream began.
    recorded: Recorded,
    begun: Instant,
    reader: Option<Reader>,
    form: Form,
    follow: bool,
    left: u64,
    is_over: bool,
    pace: Duration,
    quiet: Duration,
    _place: OwnedSemaphorePermit,
}

fn streamed(form: Form, stream: Stream) -> Response {
    let body = stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((Ok::<_, Infallible>(piece), stream))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(form.kind())),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(body)).into_response()
}

impl Stream {
    /// Returns the next piece, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let reader = self.reader.take()?;
            if self.guest.has_to_go() {
                return Some(self.end(Guest::WHY));
            }
            if self.left == 0 {
                return Some(self.end("limit"));
            }
            let (reader, piece) = match read(reader, self.left).await {
                Ok(read) => read,
                Err(problem) => return Some(self.failed(&problem)),
            };
            self.left -= piece.len() as u64;
            if !piece.is_empty() {
                (self.reader, self.pace) = (Some(reader), SOON);
                self.quiet = Duration::ZERO;
                return Some(self.formed(&piece));
            }
            // The end was known before the last read, so no record follows.
            if self.is_over || !self.follow {
                if reader.has_reached(self.recorded) {
                    return Some(self.end("over"));
                }
                // Durable records reach the run's file soon.
                if self.begun.elapsed() > FILE_TIMEOUT {
                    let late = DaemonError::NoAnswer { patience: FILE_TIMEOUT, turn: None };
                    return Some(self.failed(&late.into()));
                }
                self.pace = SOON;
            }
            self.reader = Some(reader);
            if let Some(piece) = self.wait().await {
                return Some(piece);
            }
        }
    }

    /// Waits for new records. Returns a piece to send if the stream was quiet for long or has to
    /// end.
    async fn wait(&mut self) -> Option<Bytes> {
        tokio::select! {
            () = tokio::time::sleep(self.pace) => {}
            () = self.growth.wait() => {
                self.pace = SOON;
                return None;
            }
            () = self.guest.gone() => return Some(self.end(Guest::WHY)),
            () = self.app.closing() => return Some(self.end("the daemon is ending")),
        }
        self.quiet += self.pace;
        self.pace = (self.pace * 2).min(LATER);
        match detail(&self.app, self.recorded.run).await {
            Ok(detail) => {
                let goes_on = [RunState::Live, RunState::Ending, RunState::Paused, RunState::Held];
                self.is_over = !goes_on.contains(&detail.summary.state);
            }
            Err(problem) => return Some(self.failed(&problem)),
        }
        if self.quiet < SIGN {
            return None;
        }
        self.quiet = Duration::ZERO;
        Some(Bytes::from_static(if self.form == Form::Events { b":\n\n" } else { b"\n" }))
    }

    fn formed(&self, lines: &[(u64, String)]) -> Bytes {
        let one = |(seq, line): &(u64, String)| match self.form {
            Form::Events => format!("id: {seq}\nevent: record\ndata: {line}\n\n"),
            _ => format!("{line}\n"),
        };
        lines.iter().map(one).collect::<String>().into()
    }

    /// Returns the last piece, with the reason for the end.
    fn end(&mut self, why: &str) -> Bytes {
        self.reader = None;
        match self.form {
            Form::Events => {
                format!("event: end\ndata: {}\n\n", serde_json::json!({ "reason": why })).into()
            }
            // NDJSON carries no marker for these reasons: the client knows them from its query and
            // from the run.
            _ if matches!(why, "over" | "limit") => Bytes::new(),
            _ => format!("{}\n", serde_json::json!({ "end": why })).into(),
        }
    }

    fn failed(&mut self, problem: &Problem) -> Bytes {
        self.reader = None;
        let problem = problem.json();
        match self.form {
            Form::Events => format!("event: error\ndata: {problem}\n\n").into(),
            _ => format!("{}\n", serde_json::json!({ "error": problem })).into(),
        }
    }
}
