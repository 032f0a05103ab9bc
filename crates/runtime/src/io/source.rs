//! An owned descriptor: non-blocking, registered once, with the loop through which everything in
//! this crate reads and writes. It tries the system call if the descriptor should be ready, and
//! waits only if it is not. The files around this one define the calls.

use std::cell::Cell;
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::panic::Location;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};
use tiffany_kernel::{ErrorKind, Interest, SystemCall, TaskError};

use crate::calls::call::TryCall;
use crate::calls::context;
use crate::host::Host;
use crate::host::reactor::{Assume, Readiness};

/// How many operations tasks may do in a row before one of them lets the others run.
const OPERATIONS_PER_TURN: u8 = 32;

thread_local! {
    /// The operations since a task last waited. There is one count for all descriptors, so that a
    /// task with many ready ones yields too.
    static OPERATIONS: Cell<u8> = const { Cell::new(0) };

    /// The buffer for reads of streams without one of their own.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The maximum bytes of such a read.
const SHARED_BUFFER: usize = 64 * 1024;

/// A descriptor and its readiness in the reactor.
pub(crate) struct Source<T: AsFd> {
    /// `None` only while it is taken apart.
    io: Option<T>,
    readiness: Rc<Readiness>,
    host: Rc<Host>,
}

/// The result of an attempt.
pub(crate) enum Attempt<R> {
    Done(R),
    /// Done, and now there is nothing more.
    UsedUp(R),
}

impl<T: AsFd> Source<T> {
    /// Registers a non-blocking descriptor with the reactor of the running task.
    #[track_caller]
    pub(crate) fn new(io: T) -> io::Result<Source<T>> {
        Source::assuming(io, Assume::Writable)
    }

    #[track_caller]
    pub(crate) fn assuming(io: T, assume: Assume) -> io::Result<Source<T>> {
        let host = context::with(|context| context.host()).ok_or_else(outside_task)?;
        refuse_durable("a descriptor", Location::caller())?;
        let readiness = host.reactor.borrow_mut().add_owned(io.as_fd(), assume)?;
        Ok(Source { io: Some(io), readiness, host })
    }

    #[inline]
    pub(crate) fn get(&self) -> &T {
        let Some(io) = &self.io else { unreachable!("it is there until it is taken apart") };
        io
    }

    /// Removes the descriptor from the reactor. Calls that wait for it learn that it is closed.
    pub(crate) fn into_inner(mut self) -> T {
        self.deregister();
        let Some(io) = self.io.take() else { unreachable!("it is taken apart once") };
        io
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.get().as_fd().as_raw_fd()
    }

    /// Waits until the descriptor is ready, and asks the reactor even if it should be.
    pub(crate) async fn ready(
        &self,
        interest: Interest,
        at: &'static Location<'static>,
    ) -> io::Result<()> {
        let waited = TryCall::<()>::new_at(wait_call(self.as_raw_fd(), interest), at).await;
        OPERATIONS.set(0);
        waited.map_err(into_io_error)
    }

    /// Tries until the system does not answer that it would block, and waits between attempts.
    pub(crate) async fn operate<R>(
        &self,
        interest: Interest,
        at: &'static Location<'static>,
        mut attempt: impl FnMut(&T) -> io::Result<Attempt<R>>,
    ) -> io::Result<R> {
        let mut woken = false;
        loop {
            let call = if !woken && !self.readiness.is_ready(interest) {
                wait_call(self.as_raw_fd(), interest)
            } else if OPERATIONS.get() >= OPERATIONS_PER_TURN {
                SystemCall::Yield
            } else {
                OPERATIONS.set(OPERATIONS.get() + 1);
                match self.attempt(interest, &mut attempt) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        woken = false;
                        continue;
                    }
                    result => return result,
                }
            };
            let answered = TryCall::<()>::new_at(call, at).await;
            OPERATIONS.set(0);
            answered.map_err(into_io_error)?;
            woken = true;
        }
    }

    /// One attempt, whatever the known readiness is; updates the readiness.
    #[inline]
    pub(crate) fn attempt<R>(
        &self,
        interest: Interest,
        mut attempt: impl FnMut(&T) -> io::Result<Attempt<R>>,
    ) -> io::Result<R> {
        loop {
            match attempt(self.get()) {
                Ok(Attempt::Done(result)) => return Ok(result),
                Ok(Attempt::UsedUp(result)) => {
                    self.readiness.used_up(interest);
                    return Ok(result);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() == io::ErrorKind::WouldBlock {
                        self.readiness.would_block(interest);
                    }
                    return Err(error);
                }
            }
        }
    }

    fn deregister(&mut self) {
        if let Some(io) = &self.io {
            self.host.reactor.borrow_mut().remove_owned(io.as_fd());
        }
    }
}

/// Byte streams: a transfer shorter than asked for means that there is nothing more, so the next
/// one waits without asking the system again. For datagrams that would be wrong.
impl<T: AsFd> Source<T> {
    pub(crate) fn read(
        &self,
        buffer: &mut [u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>>
    where
        for<'a> &'a T: Read,
    {
        self.operate(Interest::Read, at, move |mut io| {
            let count = io.read(buffer)?;
            Ok(transferred(count, buffer.len()))
        })
    }

    /// Reads into a buffer that all streams of this thread share.
    pub(crate) fn read_map<R>(
        &self,
        most: usize,
        mut take: impl FnMut(&[u8]) -> R,
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<R>>
    where
        for<'a> &'a T: Read,
    {
        let most = most.min(SHARED_BUFFER);
        self.operate(Interest::Read, at, move |mut io| {
            // Taken out while it is in use, because `take` is user code and may read too.
            let mut buffer = BUFFER.take();
            if buffer.is_empty() {
                buffer = vec![0; SHARED_BUFFER];
            }
            let read = io.read(&mut buffer[..most]).map(|count| match transferred(count, most) {
                Attempt::Done(_) => Attempt::Done(take(&buffer[..count])),
                Attempt::UsedUp(_) => Attempt::UsedUp(take(&buffer[..count])),
            });
            BUFFER.set(buffer);
            read
        })
    }

    pub(crate) fn write(
        &self,
        bytes: &[u8],
        at: &'static Location<'static>,
    ) -> impl Future<Output = io::Result<usize>>
    where
        for<'a> &'a T: Write,
    {
        self.operate(Interest::Write, at, move |mut io| {
            let count = io.write(bytes)?;
            Ok(transferred(count, bytes.len()))
        })
    }
}

fn transferred(count: usize, wanted: usize) -> Attempt<usize> {
    match count {
        // The end of the stream stays readable.
        0 => Attempt::Done(0),
        count if count < wanted => Attempt::UsedUp(count),
        count => Attempt::Done(count),
    }
}

impl<T: AsFd> Drop for Source<T> {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl<T: AsFd + std::fmt::Debug> std::fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

fn wait_call(fd: RawFd, interest: Interest) -> SystemCall {
    match interest {
        Interest::Read => SystemCall::ReadWait(fd),
        Interest::Write => SystemCall::WriteWait(fd),
    }
}

/// A task's error as the error of an operation. The task's error is inside, with its code and line.
pub(crate) fn into_io_error(error: TaskError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::DescriptorClosed => io::ErrorKind::NotConnected,
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        ErrorKind::NotDurable => io::ErrorKind::Unsupported,
        ErrorKind::Refused => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cold]
fn outside_task() -> io::Error {
    let message = "a descriptor was registered outside a task";
    into_io_error(TaskError::new(ErrorKind::OutsideTask, message))
}

/// The system's error, with the operation and the line.
pub(crate) fn refused(
    error: &io::Error,
    verb: &str,
    what: impl std::fmt::Debug,
    at: &'static Location<'static>,
) -> io::Error {
    let place = format!("{}:{}", at.file(), at.line());
    io::Error::new(error.kind(), format!("cannot {verb} {what:?}: {error}, in `{verb}` at {place}"))
}

/// Fails in a durable run, before anything is done in the outside world.
pub(crate) fn refuse_durable(what: &str, at: &'static Location<'static>) -> io::Result<()> {
    if !context::with(|context| context.port.is_durable() && context.port.task().is_some()) {
        return Ok(());
    }
    let message = format!("a durable task used {what}");
    let mut error = TaskError::new(ErrorKind::NotDurable, message);
    context::place(&mut error, "open", at);
    Err(into_io_error(error))
}

/// Makes a descriptor non-blocking.
pub(crate) fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// A new socket, non-blocking from the start.
pub(crate) fn nonblocking_socket(family: AddressFamily, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// Accepts a connection that is non-blocking from the start, which saves a system call.
pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddrAny)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    loop {
        match rustix::net::acceptfrom_with(&listener, flags) {
            Ok((stream, Some(address))) => return Ok((stream, address)),
            Ok((stream, None)) => {
                return Ok((stream, SocketAddrUnix::new_unnamed().into()));
            }
            Err(Errno::CONNABORTED) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The `read` family of a public type whose field `source` is a stream.
macro_rules! stream_reads {
    ($name:ty) => {
        impl $name {
            /// Reads the available bytes, at most as many as `buffer` holds. Returns 0 at the end
            /// of the stream.
            #[track_caller]
            pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
                self.source.read(buffer, Location::caller())
            }

            /// Reads the available bytes, at most 64 KiB and at most `most`, and returns what
            /// `take` makes of them; `take` gets none at the end of the stream. The buffer is
            /// shared by all streams of the thread, so that a waiting task has none.
            #[track_caller]
            pub fn read_map<R>(
                &self,
                most: usize,
                take: impl FnMut(&[u8]) -> R,
            ) -> impl Future<Output = io::Result<R>> {
                self.source.read_map(most, take, Location::caller())
            }

            /// Fills `buffer`. If the stream ends before, the error is of kind `UnexpectedEof`.
            #[track_caller]
            pub fn read_exact(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
                crate::io::read_exact(self, buffer, Location::caller())
            }

            /// Reads to the end of the stream, and returns how many bytes were added to `bytes`.
            #[track_caller]
            pub fn read_to_end(
                &self,
                bytes: &mut Vec<u8>,
            ) -> impl Future<Output = io::Result<usize>> {
                crate::io::read_to_end(self, bytes, Location::caller())
            }
        }

        impl crate::io::AsyncRead for $name {
            fn read_at(
                &self,
                buffer: &mut [u8],
                at: &'static Location<'static>,
            ) -> impl Future<Output = io::Result<usize>> {
                self.source.read(buffer, at)
            }
        }
    };
}

/// The `write` family of a public type whose field `source` is a stream.
macro_rules! stream_writes {
    ($name:ty) => {
        impl $name {
            /// Writes as much as there is room for, and returns how much that was.
            #[track_caller]
            pub fn write(&self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
                self.source.write(bytes, Location::caller())
            }

            /// Writes all bytes.
            #[track_caller]
            pub fn write_all(&self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> {
                crate::io::write_all(self, bytes, Location::caller())
            }
        }

        impl crate::io::AsyncWrite for $name {
            fn write_at(
                &self,
                bytes: &[u8],
                at: &'static Location<'static>,
            ) -> impl Future<Output = io::Result<usize>> {
                self.source.write(bytes, at)
            }
        }
    };
}

/// The other methods of a public type whose field `source` is a stream of the standard library.
macro_rules! stream_sides {
    ($name:ident, $std:ty) => {
        impl $name {
            /// Takes ownership of a stream of the standard library.
            #[track_caller]
            pub fn from_std(stream: $std) -> io::Result<$name> {
                stream.set_nonblocking(true)?;
                Ok($name { source: Source::new(stream)? })
            }

            /// Splits the stream in two sides, so that one task can read while another writes. See
            /// [`ReadHalf`](crate::io::split::ReadHalf).
            pub fn split(
                self,
            ) -> (crate::io::split::ReadHalf<$name>, crate::io::split::WriteHalf<$name>) {
                crate::io::split::split(self)
            }

            /// Shuts down reading, writing, or both. Never blocks.
            pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
                self.source.get().shutdown(how)
            }

            /// The address of the peer.
            pub fn peer_addr(&self) -> io::Result<SocketAddr> {
                self.source.get().peer_addr()
            }

            /// The local address.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.source.get().local_addr()
            }
        }

        impl crate::io::split::Stream for $name {
            fn end_writing(&self) -> io::Result<()> {
                self.shutdown(std::net::Shutdown::Write)
            }
        }
    };
}

/// The methods of a public type whose field `source` is a datagram socket of the standard library.
macro_rules! datagrams {
    ($name:ident, $std:ty) => {
        impl $name {
            /// Takes ownership of a socket of the standard library.
            #[track_caller]
            pub fn from_std(socket: $std) -> io::Result<$name> {
                socket.set_nonblocking(true)?;
                Ok($name { source: Source::new(socket)? })
            }

            /// Sends a datagram to the connected address; waits while there is no room.
            #[track_caller]
            pub fn send(&self, bytes: &[u8]) -> impl Future<Output = io::Result<usize>> {
                let send = move |io: &$std| io.send(bytes).map(Attempt::Done);
                self.source.operate(Interest::Write, Location::caller(), send)
            }

            /// Receives a datagram; if the socket is connected, only from that address.
            #[track_caller]
            pub fn recv(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
                let receive = move |io: &$std| io.recv(buffer).map(Attempt::Done);
                self.source.operate(Interest::Read, Location::caller(), receive)
            }

            /// Receives a datagram, and returns the address that it came from.
            #[track_caller]
            pub fn recv_from(
                &self,
                buffer: &mut [u8],
            ) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
                let receive = move |io: &$std| io.recv_from(buffer).map(Attempt::Done);
                self.source.operate(Interest::Read, Location::caller(), receive)
            }

            /// The local address.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                self.source.get().local_addr()
            }
        }
    };
}

/// The descriptor of a public type whose field `source` has one, for `read_wait` and system calls.
macro_rules! has_descriptor {
    ($name:ty) => {
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.source.get().as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.source.as_raw_fd()
            }
        }
    };
}

pub(crate) use {datagrams, has_descriptor, stream_reads, stream_sides, stream_writes};
