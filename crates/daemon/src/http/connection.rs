//! An accepted connection. Forked children do not inherit it: if this process dies, the client sees
//! the end of the connection although a child lives. This file doesn't read what is sent.

use std::io::{ErrorKind, IoSlice, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tiffany::binding::NotInherited;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// A connection that belongs to this process alone.
pub(super) struct Connection(NotInherited<TcpStream>);

impl Connection {
    /// Accepts the next connection. No child is forked before it is registered as not inherited.
    pub(super) async fn accept(listener: &TcpListener) -> Result<(Connection, SocketAddr)> {
        std::future::poll_fn(|cx| {
            let (mut address, mut is_pending) = (None, false);
            let opened = NotInherited::open(|| match listener.poll_accept(cx) {
                Poll::Ready(accepted) => {
                    let (stream, from) = accepted?;
                    address = Some(from);
                    Ok(stream)
                }
                Poll::Pending => {
                    is_pending = true;
                    Err(ErrorKind::WouldBlock.into())
                }
            });
            match (opened, address) {
                (Ok(stream), Some(address)) => Poll::Ready(Ok((Connection(stream), address))),
                (Err(_), _) if is_pending => Poll::Pending,
                (Err(error), _) => Poll::Ready(Err(error)),
                (Ok(_), None) => Poll::Ready(Err(ErrorKind::InvalidData.into())),
            }
        })
        .await
    }

    /// Returns the socket, for its settings.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.0
    }

    fn pinned(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.0.get_mut())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.pinned().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.pinned().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.pinned().poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.pinned().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.pinned().poll_shutdown(cx)
    }
}
