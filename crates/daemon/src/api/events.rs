//! What runs do while they do it: the activity log over SSE and WebSocket, on the same path. A reader that is too slow loses the oldest and is told how
//! many; no run waits for one. Each event is made text once, however many read it, and what a reader can be
//! sent at once leaves in one piece.

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

/// Which events are wanted.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    from: Option<u64>,
    epoch: Option<u64>,
    all: bool,
    ghosts: Option<bool>,
    ends: bool,
}

/// So many events are sent in one piece.
const HANDFUL: usize = 64;
/// What is kept to read into, for each WebSocket. Clients say little more than that they are there.
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
    // A run of which nothing is left has no events.
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
        DaemonError::BadRequest(format!("no WebSocket comes of this: {}", error.body_text()))
    })?;
    let place = events.app.stream()?;
    let most = events.app.limits.message_bytes;
    let upgrade = upgrade.max_message_size(most).max_frame_size(most).protocols([PROTOCOL]);
    let upgrade = upgrade.read_buffer_size(READ_BYTES).write_buffer_size(WRITE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| over_socket(socket, events, place)))
}

/// Where to begin, and whether the process that the reader knew is another one now: then its numbers mean nothing here.
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

/// A subscription on its way out.
struct Events {
    hello: Option<String>,
    epoch: u64,
    events: Subscription,
    app: App,
    guest: Guest,
    /// The client knows that the log has failed.
    is_failed: bool,
    is_over: bool,
}

/// What is sent next.
enum Next {
    Told(Vec<Told>),
    /// The log has failed, and no run continues before a restart. Steps that are under way may still tell something.
    Failed(Value),
    /// It is over, and why, for a WebSocket and for people.
    End(u16, &'static str),
}

impl Events {
    /// Waits for something to send.
    async fn next(&mut self) -> Next {
        const ENDING: Next = Next::End(GOING_AWAY, "the daemon is ending");
        if self.app.phase() == Phase::Closing {
            return ENDING;
        }
        let first = tokio::select! {
            // What is there is not waited for, but nobody is told more than they may be.
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
        let Some(first) = first else { return Next::End(GOING_AWAY, "the runtime is gone") };
        let mut told = vec![first];
        while told.len() < HANDFUL
            && let Some(more) = self.events.try_next()
        {
            told.push(more);
        }
        Next::Told(told)
    }
}

/// The next event, or the error of a log that has failed if the client does not know it.
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
            // A line that is dead is noticed by what is sent there.
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

/// What is spoken over a WebSocket. A browser that names its token there, for want of a header, wants to be told one of the names that it gave.
const PROTOCOL: &str = "tiffany.v1";

/// Why a WebSocket is closed.
const GOING_AWAY: u16 = 1001;
const NOT_UNDERSTOOD: u16 = 1002;
const BROKEN_RULE: u16 = 1008;
const TOO_LONG: u16 = 1009;
/// How long somebody who has said something wrong has to read why.
const FAREWELL: Duration = Duration::from_millis(200);

async fn over_socket(mut socket: WebSocket, mut events: Events, _place: OwnedSemaphorePermit) {
    let (code, why) = match talk(&mut socket, &mut events).await {
        Some(end) => end,
        // The other side is gone.
        None => return,
    };
    let frame = CloseFrame { code, reason: why.into() };
    let farewell = async {
        drop(socket.send(Message::Close(Some(frame))).await);
        // Nothing can be read any more where it is not known what comes next.
        if matches!(code, NOT_UNDERSTOOD | TOO_LONG) {
            return tokio::time::sleep(FAREWELL).await;
        }
        // The other side answers, and then the line is closed in good order.
        while let Some(Ok(_)) = socket.recv().await {}
    };
    drop(timeout(Duration::from_secs(1), farewell).await);
}

/// What was wrong with what came. `None`: nobody is there any more.
fn wrong(error: axum::Error) -> Option<(u16, &'static str)> {
    let error = error.into_inner().downcast::<tungstenite::Error>().ok()?;
    match *error {
        tungstenite::Error::Capacity(_) => Some((TOO_LONG, "the message is too long [TFY0157]")),
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) => {
            Some((NOT_UNDERSTOOD, "this is not as WebSockets are [TFY0156]"))
        }
        _ => None,
    }
}

/// Sends events until there is a reason not to. `None`: there is nobody to tell it to.
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
                    // All of them leave together.
                    let sent = async {
                        for told in &all {
                            socket.feed(events.message(told)).await?;
                        }
                        socket.flush().await
                    };
                    tokio::select! {
                        // A client that takes nothing for so long is gone.
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
