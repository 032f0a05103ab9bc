//! The activity log over SSE and WebSocket, on one path: the events of runs as they happen. A
//! reader that is too slow loses the oldest events and is told how many; no run waits for a reader.
//! Each event is serialized once for all readers, and events that are ready together are sent in
//! one write.

use std::convert::Infallible;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tiffany::TaskError;
use tiffany::pal::{Detail, Hub, Subscription, TaskId, Told, Wanted};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, interval_at, timeout};
use tungstenite::error::ProtocolError;

use super::look::detail;
use crate::app::{App, Guest, Phase};
use crate::auth::Who;
use crate::error::DaemonError;
use crate::http::Peer;
use crate::http::{Answered, Problem};
use crate::http::{Named, Query};

/// Query parameters that select events.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    from: Option<u64>,
    epoch: Option<u64>,
    all: bool,
    ghosts: Option<bool>,
    ends: bool,
}

/// The most events in one write.
const HANDFUL: usize = 64;
/// The size of a WebSocket's read buffer. Clients send little more than pongs.
const READ_BYTES: usize = 1 << 10;
const WRITE_BYTES: usize = 16 << 10;

pub(super) async fn of_all(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Extension(peer): Extension<Peer>,
    Query(which): Query<Which>,
    request: Request,
) -> Answered {
    let guest = Guest::new(&app, who, &peer);
    open(app, guest, None, which, request).await
}

pub(super) async fn of_run(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Extension(peer): Extension<Peer>,
    Named(name): Named<String>,
    Query(which): Query<Which>,
    request: Request,
) -> Answered {
    let run = app.find(&name).await?;
    // A run that was removed entirely has no events.
    detail(&app, run).await?;
    let guest = Guest::new(&app, who, &peer);
    open(app, guest, Some(TaskId::Durable(run)), which, request).await
}

async fn open(
    app: App,
    guest: Guest,
    run: Option<TaskId>,
    which: Which,
    request: Request,
) -> Answered {
    let hub = app.runtime()?.activity();
    let (from, restarted) = begin(&hub, &which, request.headers());
    let mut wanted = Wanted::new().ghosts(which.ghosts.unwrap_or(true));
    wanted.run = run;
    wanted.from = from;
    wanted.ends = which.ends;
    if which.all && !which.ends {
        wanted = wanted.detail(Detail::All);
    }
    let events = Events {
        hello: Some(hello(&hub, restarted)),
        epoch: hub.epoch(),
        events: hub.subscribe(wanted),
        app,
        guest,
        is_failed: false,
        is_over: false,
    };
    let (mut parts, _) = request.into_parts();
    let is_socket = parts.headers.get(header::UPGRADE).is_some();
    if !is_socket {
        let place = events.app.stream()?;
        return Ok(as_sse(events, place));
    }
    let upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection> =
        WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|error| {
        DaemonError::BadRequest(format!(
            "the connection cannot become a WebSocket: {}",
            error.body_text()
        ))
    })?;
    let place = events.app.stream()?;
    let most = events.app.limits.message_bytes;
    let upgrade = upgrade.max_message_size(most).max_frame_size(most).protocols([PROTOCOL]);
    let upgrade = upgrade.read_buffer_size(READ_BYTES).write_buffer_size(WRITE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| over_socket(socket, events, place)))
}

/// Returns the first event to send, and whether the process has restarted since the client's last
/// event. After a restart the client's event numbers mean nothing, and the events start at 1.
fn begin(hub: &Hub, which: &Which, headers: &HeaderMap) -> (Option<u64>, bool) {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.and_then(|id| {
        let (epoch, seq) = id.split_once('-')?;
        Some((epoch.parse::<u64>().ok()?, seq.parse::<u64>().ok()?))
    });
    let known = match last {
        Some((epoch, seq)) => Some((Some(epoch), seq.saturating_add(1))),
        None => which.from.map(|from| (which.epoch, from)),
    };
    match known {
        None => (None, false),
        Some((Some(epoch), _)) if epoch != hub.epoch() => (Some(1), true),
        Some((_, from)) => (Some(from.max(1)), false),
    }
}

fn hello(hub: &Hub, restarted: bool) -> String {
    let (epoch, next_seq) = (hub.epoch(), hub.next_seq());
    json!({ "epoch": epoch, "next_seq": next_seq, "restarted": restarted }).to_string()
}

/// A subscription, and the state of sending it to one client.
struct Events {
    hello: Option<String>,
    epoch: u64,
    events: Subscription,
    app: App,
    guest: Guest,
    /// Whether the client was told that the log has failed.
    is_failed: bool,
    is_over: bool,
}

/// The next thing to send.
enum Next {
    Told(Vec<Told>),
    /// The log has failed, so no run continues before a restart. Steps in progress may still report
    /// events.
    Failed(Value),
    /// The stream ends: the close code of a WebSocket, and the reason as text.
    End(u16, &'static str),
}

impl Events {
    /// Waits until there is something to send.
    async fn next(&mut self) -> Next {
        const ENDING: Next = Next::End(GOING_AWAY, "the daemon is ending");
        if self.app.phase() == Phase::Closing {
            return ENDING;
        }
        let first = tokio::select! {
            // Ready events are sent without waiting, but only after the check that the client still
            // has access.
            biased;
            () = self.guest.gone() => return Next::End(BROKEN_RULE, Guest::WHY),
            told = poll_fn(|cx| poll_told(&mut self.events, self.is_failed, cx)) => told,
            () = self.app.closing() => return ENDING,
        };
        let first = match first {
            Ok(first) => first,
            Err(error) => {
                self.is_failed = true;
                return Next::Failed(Problem::from(error).json());
            }
        };
        let Some(first) = first else { return Next::End(GOING_AWAY, "the runtime has ended") };
        let mut told = vec![first];
        while told.len() < HANDFUL
            && let Some(more) = self.events.try_next()
        {
            told.push(more);
        }
        Next::Told(told)
    }
}

/// Returns the next event, or the failure of the log if the client has not been told about it.
fn poll_told(
    events: &mut Subscription,
    is_known: bool,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Told>, TaskError>> {
    match events.poll_next(cx) {
        Poll::Pending => match events.failure().filter(|_| !is_known) {
            Some(error) => Poll::Ready(Err(error.clone())),
            None => Poll::Pending,
        },
        Poll::Ready(told) => Poll::Ready(Ok(told)),
    }
}

fn as_sse(events: Events, place: OwnedSemaphorePermit) -> Response {
    let ping = events.app.limits.ping;
    let body = stream::unfold((events, place), move |(mut events, place)| async move {
        if events.is_over {
            return None;
        }
        let piece = events.sse_piece(ping).await;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (events, place)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Body::from_stream(body)).into_response()
}

impl Events {
    async fn sse_piece(&mut self, ping: Duration) -> String {
        if let Some(hello) = self.hello.take() {
            return format!("event: streaming\ndata: {hello}\n\n");
        }
        match timeout(ping, self.next()).await {
            // Sending a comment detects a dead connection.
            Err(_) => ":\n\n".to_owned(),
            Ok(Next::End(_, why)) => {
                self.is_over = true;
                format!("event: end\ndata: {}\n\n", json!({ "reason": why }))
            }
            Ok(Next::Failed(problem)) => format!("event: failed\ndata: {problem}\n\n"),
            Ok(Next::Told(all)) => all.iter().map(|told| self.sse_event(told)).collect(),
        }
    }

    fn sse_event(&self, told: &Told) -> String {
        match told {
            Told::Event(event) => {
                let text = self.app.texts.of(event);
                let text = text.event();
                format!("id: {}-{}\nevent: activity\ndata: {text}\n\n", self.epoch, event.seq)
            }
            Told::Lost { count } => {
                format!("event: lost\ndata: {}\n\n", json!({ "count": count }))
            }
        }
    }

    fn message(&self, told: &Told) -> Message {
        match told {
            Told::Event(event) => Message::Text(self.app.texts.of(event).message()),
            Told::Lost { count } => Message::Text(json!({ "lost": count }).to_string().into()),
        }
    }
}

/// The subprotocol of the WebSocket. Browsers cannot set headers on a WebSocket, so they offer
/// their token as a subprotocol, and expect the server to select one of those that they offered.
const PROTOCOL: &str = "tiffany.v1";

/// Close codes of a WebSocket.
const GOING_AWAY: u16 = 1001;
const NOT_UNDERSTOOD: u16 = 1002;
const BROKEN_RULE: u16 = 1008;
const TOO_LONG: u16 = 1009;
/// How long a client has to read why its connection is closed after a mistake.
const FAREWELL: Duration = Duration::from_millis(200);

async fn over_socket(mut socket: WebSocket, mut events: Events, _place: OwnedSemaphorePermit) {
    let (code, why) = match talk(&mut socket, &mut events).await {
        Some(end) => end,
        // The client disconnected.
        None => return,
    };
    let frame = CloseFrame { code, reason: why.into() };
    let farewell = async {
        drop(socket.send(Message::Close(Some(frame))).await);
        // After a frame that cannot be decoded, nothing further can be read.
        if matches!(code, NOT_UNDERSTOOD | TOO_LONG) {
            return tokio::time::sleep(FAREWELL).await;
        }
        // Waits for the client's close frame, so that the connection closes cleanly.
        while let Some(Ok(_)) = socket.recv().await {}
    };
    drop(timeout(Duration::from_secs(1), farewell).await);
}

/// Returns the close code and the reason for data that was not valid. `None` if the client
/// disconnected.
fn wrong(error: axum::Error) -> Option<(u16, &'static str)> {
    let error = error.into_inner().downcast::<tungstenite::Error>().ok()?;
    match *error {
        tungstenite::Error::Capacity(_) => Some((TOO_LONG, "the message is too long [TFY0157]")),
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) => {
            Some((NOT_UNDERSTOOD, "the data does not follow the WebSocket protocol [TFY0156]"))
        }
        _ => None,
    }
}

/// Sends events until the stream has to end, and returns the reason. `None` if the client
/// disconnected.
async fn talk(socket: &mut WebSocket, events: &mut Events) -> Option<(u16, &'static str)> {
    let ping = events.app.limits.ping;
    let most = events.app.limits.messages_per_second;
    let hello = events.hello.take().unwrap_or_default();
    socket.send(Message::Text(format!("{{\"streaming\":{hello}}}").into())).await.ok()?;
    let mut guest = events.guest.clone();
    let mut pings = interval_at(Instant::now() + ping, ping);
    let mut is_awaited = false;
    let (mut second, mut said) = (Instant::now(), 0);
    loop {
        tokio::select! {
            next = events.next() => match next {
                Next::End(code, why) => return Some((code, why)),
                Next::Failed(problem) => {
                    let failed = json!({ "failed": problem }).to_string();
                    let sent = socket.send(Message::Text(failed.into()));
                    timeout(ping, sent).await.ok()?.ok()?;
                }
                Next::Told(all) => {
                    // The events are sent together.
                    let sent = async {
                        for told in &all {
                            socket.feed(events.message(told)).await?;
                        }
                        socket.flush().await
                    };
                    tokio::select! {
                        // A client that reads nothing for this long counts as disconnected.
                        sent = timeout(2 * ping, sent) => sent.ok()?.ok()?,
                        () = guest.gone() => return Some((BROKEN_RULE, Guest::WHY)),
                    }
                }
            },
            came = socket.recv() => {
                match came? {
                    Ok(Message::Close(_)) => return None,
                    Ok(_) => is_awaited = false,
                    Err(error) => return wrong(error),
                }
                if second.elapsed() > Duration::from_secs(1) {
                    (second, said) = (Instant::now(), 0);
                }
                said += 1;
                if said > most {
                    return Some((BROKEN_RULE, "too many messages a second [TFY0158]"));
                }
            }
            _ = pings.tick() => {
                if std::mem::replace(&mut is_awaited, true) {
                    return Some((GOING_AWAY, "no answer to a ping"));
                }
                let sent = socket.send(Message::Ping(Bytes::new()));
                timeout(ping, sent).await.ok()?.ok()?;
            }
        }
    }
}
