//! Splitting a stream for two tasks: one reads, the other writes.

use std::future::Future;
use std::io;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;

use crate::io::{AsyncRead, AsyncWrite};

/// The reading side of a stream that was split.
///
/// ```
/// use tiffany::net::{TcpListener, TcpStream};
///
/// tiffany::try_run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let near = TcpStream::connect(listener.local_addr()?).await?;
///     let (far, _) = listener.accept().await?;
///     let (reader, writer) = near.split();
///     writer.write_all(b"all").await?;
///     drop(writer); // ends what the other side reads
///     let mut bytes = Vec::new();
///     far.read_to_end(&mut bytes).await?;
///     assert_eq!(bytes, b"all");
///     assert!(reader.peer_addr().is_ok());
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct ReadHalf<S>(Rc<S>);

/// The writing side of a stream that was split. Dropping it ends the stream for the peer.
pub struct WriteHalf<S: Stream>(Rc<S>);

/// A stream that can be split.
pub trait Stream: AsyncRead + AsyncWrite {
    #[doc(hidden)]
    fn end_writing(&self) -> io::Result<()>;
}

pub(crate) fn split<S: Stream>(stream: S) -> (ReadHalf<S>, WriteHalf<S>) {
    let stream = Rc::new(stream);
    (ReadHalf(Rc::clone(&stream)), WriteHalf(stream))
}

impl<S: AsyncRead> ReadHalf<S> {
    /// Reads the available bytes, at most as many as `buffer` holds. Returns 0 at the end of the
    /// stream.
    #[track_caller]
    pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        self.0.read_at(buffer, Location::caller())
    }

    /// Fills `buffer`. If the stream ends before, the error is of kind `UnexpectedEof`.
    #[track_caller]
    pub fn read_exact(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        crate::io::read_exact(&*self.0, buffer, Location::caller())
    }

    /// Reads to the end of the stream, and returns how many bytes were added to `bytes`.
    #[track_caller]
    pub fn read_to_end(&self, bytes: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> {
        crate::io::read_to_end(&*self.0, bytes, Location::caller())
    }
}

impl<S: Stream> WriteHalf<S> {
    /// Writes as much as there is room for, and returns how much that was.
    #[track_caller]
    pub fn write(&self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
        self.0.write_at(bytes, Location::caller())
    }

    /// Writes all bytes.
    #[track_caller]
    pub fn write_all(&self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> {
        crate::io::write_all(&*self.0, bytes, Location::caller())
    }
}

impl<S: Stream> Drop for WriteHalf<S> {
    fn drop(&mut self) {
        // Fails only if the peer is gone already.
        let _ = self.0.end_writing();
    }
}

impl<S> Deref for ReadHalf<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: Stream> Deref for WriteHalf<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: AsyncRead> AsyncRead for ReadHalf<S> {
    fn read_at(
        &self,
        buffer: &mut [u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>> {
        self.0.read_at(buffer, at)
    }
}

impl<S: Stream> AsyncWrite for WriteHalf<S> {
    fn write_at(
        &self,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>> {
        self.0.write_at(bytes, at)
    }
}
