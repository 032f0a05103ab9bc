//! A client connection to the daemon: HTTP/1.1 with keep-alive, or a WebSocket that is read. It
//! does as little as possible, because it shares its cores with what is measured.

use std::net::SocketAddr;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection.
pub(super) struct Line {
    stream: TcpStream,
    came: Vec<u8>,
    /// The number of bytes in `came` that were consumed.
    taken: usize,
}

/// Formats a request with a JSON body, which may be empty.
pub(super) fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Runs a future on this thread, which the clients of a measure share.
pub(super) fn on_this_thread<T>(act: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    Ok(runtime.map_err(broken)?.block_on(act))
}

pub(super) fn broken(error: std::io::Error) -> String {
    format!("the line to the daemon: {error}")
}

impl Line {
    pub(super) async fn open(address: SocketAddr) -> Result<Line, String> {
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        Ok(Line { stream, came: Vec::new(), taken: 0 })
    }

    /// Sends a request, and returns status and body of the answer.
    pub(super) async fn ask(&mut self, request: &str) -> Result<(u16, &[u8]), String> {
        self.stream.write_all(request.as_bytes()).await.map_err(broken)?;
        let (status, length) = self.head().await?;
        while self.came.len() - self.taken < length {
            self.more().await?;
        }
        let body = self.take(length);
        Ok((status, &self.came[body]))
    }

    /// Sends a request, and returns the body of the answer if it has this status.
    pub(super) async fn expect(&mut self, request: &str, status: u16) -> Result<&[u8], String> {
        let (came, body) = self.ask(request).await?;
        match came == status {
            true => Ok(body),
            false => Err(format!("the daemon says {came}: {}", String::from_utf8_lossy(body))),
        }
    }

    /// Upgrades the connection to a WebSocket.
    pub(super) async fn upgrade(&mut self, path: &str) -> Result<(), String> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGlmZmFueS1iZW5jaC0tLQ==\r\n\r\n"
        );
        self.stream.write_all(request.as_bytes()).await.map_err(broken)?;
        match self.head().await? {
            (101, _) => Ok(()),
            (status, _) => Err(format!("the connection did not become a WebSocket: {status}")),
        }
    }

    /// Returns the next message of a WebSocket. Answers pings.
    pub(super) async fn message(&mut self) -> Result<&[u8], String> {
        loop {
            let Some((kind, payload)) = self.frame() else {
                self.more().await?;
                continue;
            };
            match kind {
                TEXT => return Ok(&self.came[payload]),
                // A mask of zeros changes nothing.
                PING => {
                    let pong = [0x80 | PONG, 0x80, 0, 0, 0, 0];
                    self.stream.write_all(&pong).await.map_err(broken)?;
                }
                CLOSE => return Err("the daemon closes the WebSocket".into()),
                _ => {}
            }
        }
    }

    /// Returns the kind of the next frame and the range of its payload, if the frame is complete.
    fn frame(&mut self) -> Option<(u8, Range<usize>)> {
        let rest = &self.came[self.taken..];
        let (head, length) = match *rest.get(1)? {
            126 => (4, usize::from(u16::from_be_bytes(rest.get(2..4)?.try_into().ok()?))),
            127 => (10, u64::from_be_bytes(rest.get(2..10)?.try_into().ok()?) as usize),
            short => (2, usize::from(short)),
        };
        let kind = rest[0] & 0x0f;
        if rest.len() < head + length {
            return None;
        }
        self.taken += head;
        Some((kind, self.take(length)))
    }

    /// Reads the head of an answer: its status, and the length of its body.
    async fn head(&mut self) -> Result<(u16, usize), String> {
        let end = loop {
            let rest = &self.came[self.taken..];
            match rest.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.more().await?,
            }
        };
        let head = self.take(end);
        let head = std::str::from_utf8(&self.came[head]).map_err(|error| error.to_string())?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(Some(0), |length| length.trim().parse().ok());
        status.zip(length).ok_or_else(|| format!("this is no answer: {head}"))
    }

    fn take(&mut self, length: usize) -> Range<usize> {
        let from = self.taken;
        self.taken += length;
        from..self.taken
    }

    /// Drops the consumed bytes, and waits for more.
    async fn more(&mut self) -> Result<(), String> {
        self.came.drain(..self.taken);
        self.taken = 0;
        match self.stream.read_buf(&mut self.came).await.map_err(broken)? {
            0 => Err("the daemon has closed the line".into()),
            _ => Ok(()),
        }
    }
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
