//! Replaces the answers that hyper sends itself, to requests that it cannot parse: a bare status
//! becomes an answer with our code and next step. All other bytes pass unchanged.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::problem::Problem;
use crate::error::DaemonError;

/// A connection whose bare answers are replaced.
pub(super) struct Explained<S> {
    line: S,
    header_bytes: usize,
    /// The answer sent instead of a bare one, and how many of its bytes have been written.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Explained<S> {
    pub(super) fn new(line: S, header_bytes: usize) -> Explained<S> {
        Explained { line, header_bytes, instead: None }
    }
}

/// Returns the error behind a bare answer. hyper writes such an answer in one piece, and our own
/// answers have a body.
fn meant(piece: &[u8], header_bytes: usize) -> Option<DaemonError> {
    let text = std::str::from_utf8(piece.get(..piece.len().min(300))?).ok()?;
    let status = text.strip_prefix("HTTP/1.1 4")?.get(..2)?;
    let is_bare = text.len() == piece.len()
        && text.ends_with("\r\n\r\n")
        && text.contains("\r\ncontent-length: 0\r\n");
    match status {
        "00" if is_bare => {
            Some(DaemonError::BadRequest("this is not a readable HTTP request".into()))
        }
        "14" | "31" if is_bare => Some(DaemonError::HeadTooLarge { most: header_bytes }),
        _ => None,
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        piece: &[u8],
    ) -> Poll<Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none()
            && let Some(error) = meant(piece, this.header_bytes)
        {
            this.instead = Some((Problem::from(error).raw().into_bytes(), 0));
        }
        let Some((text, said)) = &mut this.instead else {
            return Pin::new(&mut this.line).poll_write(cx, piece);
        };
        while *said < text.len() {
            match ready!(Pin::new(&mut this.line).poll_write(cx, &text[*said..]))? {
                0 => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                count => *said += count,
            }
        }
        this.instead = None;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.line).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        match pieces {
            [piece] => self.poll_write(cx, piece),
            pieces => Pin::new(&mut self.line).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.line).poll_read(cx, into)
    }
}
