//! Live events of a daemon, as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use serde_json::Value;
use tiffany::control::{Beginning, EventSource, Next, Watching};
use tiffany::pal::{Detail, Told, Wanted};
use tiffany_kernel::{ErrorKind, TaskError};

use super::connection::{Connection, Piece, Sent};
use super::settings::{Remote, not_a_daemon};

/// How long the beginning of a stream may take.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

struct Stream {
    connection: Connection,
    body: Incoming,
    bytes: Vec<u8>,
    url: String,
    /// The number of the first new event, until all earlier ones have been returned.
    next_seq: Option<u64>,
}

pub(super) fn open(remote: &Arc<Remote>, wanted: &Wanted) -> Result<Watching, TaskError> {
    let mut path = match &wanted.run {
        Some(run) => format!("/api/v1/runs/{run}/events?ghosts={}", wanted.ghosts),
        None => format!("/api/v1/events?ghosts={}", wanted.ghosts),
    };
    if let Some(from) = wanted.from {
        path.push_str(&format!("&from={from}"));
    }
    if wanted.detail == Detail::All {
        path.push_str("&all=true");
    }
    if wanted.ends {
        path.push_str("&ends=true");
    }
    let mut connection = Connection::new(remote)?;
    let answer = connection.begin(&Sent::get(path).accepting("text/event-stream"))?;
    let (body, url) = (answer.into_body(), remote.url.clone());
    let mut stream = Stream { connection, body, bytes: Vec::new(), url, next_seq: None };
    let beginning = match stream.event(BEGIN_TIMEOUT)? {
        Some((name, data)) if name == "streaming" => Some(data),
        _ => None,
    };
    let beginning = beginning.and_then(|data| {
        Some(Beginning { epoch: data["epoch"].as_u64()?, next_seq: data["next_seq"].as_u64()? })
    });
    let beginning =
        beginning.ok_or_else(|| not_a_daemon(&stream.url, "its stream has no beginning"))?;
    stream.next_seq = Some(beginning.next_seq);
    Ok(Watching::over(Box::new(stream), beginning))
}

impl Stream {
    /// The next event: its name and its data. `None`: nothing came in time.
    fn event(&mut self, within: Duration) -> Result<Option<(String, Value)>, TaskError> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&text);
                let field = |name: &str| {
                    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
                };
                let Some(name) = field("event:") else { continue };
                let data = serde_json::from_str(field("data:").unwrap_or("null"));
                let data = data.map_err(|_| not_a_daemon(&self.url, "its stream is not JSON"))?;
                return Ok(Some((name.to_owned(), data)));
            }
            match self.connection.piece(&mut self.body, within)? {
                Piece::Data(data) => self.bytes.extend_from_slice(&data),
                Piece::Nothing => return Ok(None),
                Piece::End => return Ok(Some(("end".into(), Value::Null))),
            }
        }
    }

    fn is_up_to_date(&mut self) -> Next {
        self.next_seq = None;
        Next::UpToDate
    }
}

/// A daemon sends what it knows at once; after this without an event, that was all.
const KNOWN_TIMEOUT: Duration = Duration::from_millis(150);

impl EventSource for Stream {
    fn next(&mut self, time: Duration) -> Result<Next, TaskError> {
        let within = if self.next_seq.is_some() { time.min(KNOWN_TIMEOUT) } else { time };
        let Some((name, data)) = self.event(within)? else {
            return Ok(if self.next_seq.is_some() { self.is_up_to_date() } else { Next::Nothing });
        };
        match name.as_str() {
            "activity" => {
                let event = serde_json::from_str(&data.to_string());
                let event =
                    event.map_err(|_| not_a_daemon(&self.url, "its events are not known here"))?;
                Ok(Next::Told(Told::Event(Arc::new(event))))
            }
            "lost" => Ok(Next::Told(Told::Lost { count: data["count"].as_u64().unwrap_or(0) })),
            "failed" => {
                let message = data["title"].as_str().unwrap_or("the log has failed");
                Err(TaskError::new(ErrorKind::LogFailed, message.to_owned()))
            }
            _ => Ok(Next::Over),
        }
    }
}
