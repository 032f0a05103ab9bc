//! The common parts of byte streams, lines from them, and [`Async`], with which a task can wait for
//! any descriptor. Streams are read and written through `&self`, so that one in an `Rc` can be
//! shared.

pub(crate) mod source;
pub(crate) mod split;

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::panic::Location;

use tiffany_kernel::Interest;

use crate::io::source::{Attempt, Source, set_nonblocking};

/// How many bytes a reader asks for at once.
const CHUNK: usize = 8 * 1024;

/// A source of bytes.
pub trait AsyncRead {
    /// Reads the available bytes, on behalf of this line. Streams offer `read`, which calls it.
    #[doc(hidden)]
    fn read_at(
        &self,
        buffer: &mut [u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>>;
}

/// A sink for bytes.
pub trait AsyncWrite {
    /// Writes as much as there is room for, on behalf of this line. Streams offer `write`, which
    /// calls it.
    #[doc(hidden)]
    fn write_at(
        &self,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>>;
}

impl<R: AsyncRead + ?Sized> AsyncRead for &R {
    fn read_at(
        &self,
        buffer: &mut [u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>> {
        (**self).read_at(buffer, at)
    }
}

impl<W: AsyncWrite + ?Sized> AsyncWrite for &W {
    fn write_at(
        &self,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>> {
        (**self).write_at(bytes, at)
    }
}

pub(crate) async fn read_exact(
    from: &impl AsyncRead,
    mut buffer: &mut [u8],
    at: &'static Location<'static>,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match from.read_at(buffer, at).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer = &mut buffer[count..],
        }
    }
    Ok(())
}

pub(crate) async fn read_to_end(
    from: &impl AsyncRead,
    bytes: &mut Vec<u8>,
    at: &'static Location<'static>,
) -> io::Result<usize> {
    let before = bytes.len();
    let mut filled = before;
    loop {
        if bytes.len() == filled {
            // Doubled, so that a long stream is read in few pieces.
            bytes.resize(filled + CHUNK.max(filled - before), 0);
        }
        match from.read_at(&mut bytes[filled..], at).await {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => {
                bytes.truncate(filled);
                return Err(error);
            }
        }
    }
    bytes.truncate(filled);
    Ok(filled - before)
}

pub(crate) async fn write_all(
    to: &impl AsyncWrite,
    mut bytes: &[u8],
    at: &'static Location<'static>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write_at(bytes, at).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Copies all bytes of one stream to another, and returns how many there were.
///
/// ```
/// use tiffany::net::UnixStream;
///
/// tiffany::try_run(async {
///     let (one, far_one) = UnixStream::pair()?;
///     let (two, far_two) = UnixStream::pair()?;
///     far_one.write_all(b"through both").await?;
///     drop(far_one);
///     assert_eq!(tiffany::io::copy(&one, &two).await?, 12);
///     let mut text = [0; 12];
///     far_two.read_exact(&mut text).await?;
///     assert_eq!(&text, b"through both");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn copy(from: &impl AsyncRead, to: &impl AsyncWrite) -> impl Future<Output = io::Result<u64>> {
    let at = Location::caller();
    async move {
        let mut buffer = vec![0; CHUNK];
        let mut copied = 0;
        loop {
            match from.read_at(&mut buffer, at).await? {
                0 => return Ok(copied),
                count => {
                    write_all(to, &buffer[..count], at).await?;
                    copied += count as u64;
                }
            }
        }
    }
}

/// The lines of a stream, one by one as they arrive.
///
/// Dropping the future of [`next_line`](Lines::next_line) loses nothing.
///
/// ```
/// use tiffany::io::Lines;
/// use tiffany::net::UnixStream;
///
/// tiffany::try_run(async {
///     let (near, far) = UnixStream::pair()?;
///     far.write_all(b"one\ntwo\r\nrest").await?;
///     drop(far);
///     let mut lines = Lines::new(near);
///     assert_eq!(lines.next_line().await?.as_deref(), Some("one"));
///     assert_eq!(lines.next_line().await?.as_deref(), Some("two"));
///     assert_eq!(lines.next_line().await?.as_deref(), Some("rest"));
///     assert_eq!(lines.next_line().await?, None);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    /// The start of the bytes that are not a complete line yet.
    start: usize,
    /// How far they were searched for an end of line.
    searched: usize,
}

impl<R: AsyncRead> Lines<R> {
    /// The lines of that stream.
    pub fn new(from: R) -> Lines<R> {
        Lines { from, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The next line without its end, or `None` at the end of the stream. A line that is not UTF-8
    /// is an error of kind `InvalidData`; the line after it can be read.
    #[track_caller]
    pub fn next_line(&mut self) -> impl Future<Output = io::Result<Option<String>>> {
        let at = Location::caller();
        async move {
            loop {
                if let Some(line) = self.buffered() {
                    return into_text(line).map(Some);
                }
                if self.fill(at).await? == 0 {
                    let rest = self.buffer.split_off(self.start);
                    (self.buffer, self.start, self.searched) = (Vec::new(), 0, 0);
                    return if rest.is_empty() { Ok(None) } else { into_text(rest).map(Some) };
                }
            }
        }
    }

    /// Takes a whole line out of the buffer.
    fn buffered(&mut self) -> Option<Vec<u8>> {
        match self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let end = self.searched + at;
                let mut line = self.buffer[self.start..end].to_vec();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                (self.start, self.searched) = (end + 1, end + 1);
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    /// Reads more bytes and appends them to the buffer.
    async fn fill(&mut self, at: &'static Location<'static>) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        // Not directly into the buffer, because a read that is dropped must leave nothing there.
        let mut chunk = [0; 1024];
        let count = self.from.read_at(&mut chunk, at).await?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    }
}

fn into_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Any descriptor, made non-blocking and registered once: a pipe, a timer, a device, a socket of
/// another library. Dropping it closes the descriptor.
///
/// ```
/// use std::io::{Read, Write};
/// use tiffany::io::Async;
///
/// tiffany::try_run(async {
///     let (reader, mut writer) = std::io::pipe()?;
///     let reader = Async::new(reader)?;
///     writer.write_all(b"hi")?;
///     let mut bytes = [0; 8];
///     let count = reader.read_with(|mut pipe| pipe.read(&mut bytes)).await?;
///     assert_eq!(&bytes[..count], b"hi");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct Async<T: AsFd> {
    source: Source<T>,
}

impl<T: AsFd> Async<T> {
    /// Takes ownership of the descriptor. A regular file can't be waited for (it is always ready),
    /// and is an error of kind `PermissionDenied`; use [`fs`](crate::fs).
    pub fn new(io: T) -> io::Result<Async<T>> {
        set_nonblocking(&io)?;
        Ok(Async { source: Source::new(io)? })
    }

    /// The inner value.
    pub fn get_ref(&self) -> &T {
        self.source.get()
    }

    /// Returns the descriptor. It stays non-blocking.
    pub fn into_inner(self) -> T {
        self.source.into_inner()
    }

    /// Waits until the descriptor is readable.
    #[track_caller]
    pub fn readable(&self) -> impl Future<Output = io::Result<()>> {
        self.source.ready(Interest::Read, Location::caller())
    }

    /// Waits until the descriptor is writable.
    #[track_caller]
    pub fn writable(&self) -> impl Future<Output = io::Result<()>> {
        self.source.ready(Interest::Write, Location::caller())
    }

    /// Calls `read` until it returns something other than `WouldBlock`, and waits between the
    /// attempts.
    #[track_caller]
    pub fn read_with<R>(
        &self,
        mut read: impl FnMut(&T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let at = Location::caller();
        self.source.operate(Interest::Read, at, move |io| read(io).map(Attempt::Done))
    }

    /// Calls `write` until it returns something other than `WouldBlock`, and waits between the
    /// attempts.
    #[track_caller]
    pub fn write_with<R>(
        &self,
        mut write: impl FnMut(&T) -> io::Result<R>,
    ) -> impl Future<Output = io::Result<R>> {
        let at = Location::caller();
        self.source.operate(Interest::Write, at, move |io| write(io).map(Attempt::Done))
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.get().as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.source.as_raw_fd()
    }
}
