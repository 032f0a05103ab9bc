//! Unix sockets: streams, their listeners, and datagrams.

use std::future::Future;
use std::io;
use std::os::unix::net::{self, SocketAddr};
use std::panic::Location;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use tiffany_kernel::{Interest, SystemCall};

use crate::calls::call::TryCall;
use crate::io::source::{
    Attempt, Source, accept, into_io_error, nonblocking_socket, refuse_durable, refused,
};
use crate::io::source::{datagrams, has_descriptor, stream_reads, stream_sides, stream_writes};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Waits before checking again whether a full receiver has room: the system can't report when.
async fn pause(length: &mut Duration, at: &'static Location<'static>) -> io::Result<()> {
    let slept = TryCall::<()>::new_at(SystemCall::Sleep(*length), at).await;
    *length = (*length * 2).min(MAX_PAUSE);
    slept.map_err(into_io_error)
}

/// Creates a socket at a path. In a durable run nothing is created, not even for a moment.
#[track_caller]
fn bind<S>(path: &Path, make: impl FnOnce(&Path) -> io::Result<S>) -> io::Result<S> {
    let at = Location::caller();
    refuse_durable("a socket", at)?;
    make(path).map_err(|error| refused(&error, "bind", path, at))
}

/// Accepts Unix connections at a path. The file stays when the listener is dropped.
///
/// ```
/// use tiffany::net::{UnixListener, UnixStream};
///
/// tiffany::try_run(async {
///     let path = std::env::temp_dir().join(format!("tiffany-doc-{}.sock", std::process::id()));
///     let listener = UnixListener::bind(&path)?;
///     let near = UnixStream::connect(&path).await?;
///     let far = listener.accept().await?;
///     near.write_all(b"hello").await?;
///     let mut bytes = [0; 5];
///     far.read_exact(&mut bytes).await?;
///     std::fs::remove_file(&path)
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct UnixListener {
    source: Source<net::UnixListener>,
}

impl UnixListener {
    /// Listens at this path, which must not exist yet.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::from_std(bind(path.as_ref(), |path| net::UnixListener::bind(path))?)
    }

    /// Takes ownership of a listener of the standard library.
    #[track_caller]
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        listener.set_nonblocking(true)?;
        Ok(UnixListener { source: Source::new(listener)? })
    }

    /// Waits for the next connection. Clients rarely have an address of their own; see
    /// [`UnixStream::peer_addr`].
    #[track_caller]
    pub fn accept(&self) -> impl Future<Output = io::Result<UnixStream>> {
        let at = Location::caller();
        async move {
            let accept = self
                .source
                .operate(Interest::Read, at, |listener| Ok(Attempt::Done(accept(listener)?.0)));
            let stream = net::UnixStream::from(accept.await?);
            Ok(UnixStream { source: Source::new(stream)? })
        }
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.source.get().local_addr()
    }
}

/// A Unix connection, used like a [`TcpStream`](crate::net::tcp::TcpStream).
///
/// ```
/// use tiffany::net::UnixStream;
///
/// tiffany::try_run(async {
///     let (near, far) = UnixStream::pair()?;
///     near.write_all(b"ping").await?;
///     let mut bytes = [0; 4];
///     far.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"ping");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct UnixStream {
    source: Source<net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at this path; waits if its queue is full.
    #[track_caller]
    pub fn connect(path: impl AsRef<Path>) -> impl Future<Output = io::Result<UnixStream>> {
        let at = Location::caller();
        let path = path.as_ref().to_owned();
        async move {
            refuse_durable("a socket", at)?;
            let refused = |errno: Errno| refused(&errno.into(), "connect", &path, at);
            let address = SocketAddrUnix::new(&path).map_err(refused)?;
            let mut length = FIRST_PAUSE;
            let socket = nonblocking_socket(AddressFamily::UNIX, SocketType::STREAM)?;
            loop {
                match rustix::net::connect(&socket, &address) {
                    Ok(()) => break,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => pause(&mut length, at).await?,
                    Err(errno) => return Err(refused(errno)),
                }
            }
            Ok(UnixStream { source: Source::new(net::UnixStream::from(socket))? })
        }
    }

    /// Two streams that are connected to each other.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, two) = net::UnixStream::pair()?;
        Ok((UnixStream::from_std(one)?, UnixStream::from_std(two)?))
    }
}

/// A Unix datagram socket.
///
/// ```
/// use tiffany::net::UnixDatagram;
///
/// tiffany::try_run(async {
///     let (one, two) = UnixDatagram::pair()?;
///     one.send(b"hello").await?;
///     let mut bytes = [0; 16];
///     assert_eq!(two.recv(&mut bytes).await?, 5);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct UnixDatagram {
    source: Source<net::UnixDatagram>,
}

impl UnixDatagram {
    /// Receives at this path, which must not exist yet.
    #[track_caller]
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(bind(path.as_ref(), |path| net::UnixDatagram::bind(path))?)
    }

    /// A socket without a path of its own, for sending.
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        UnixDatagram::from_std(net::UnixDatagram::unbound()?)
    }

    /// Two sockets that are connected to each other.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, two) = net::UnixDatagram::pair()?;
        Ok((UnixDatagram::from_std(one)?, UnixDatagram::from_std(two)?))
    }

    /// Sets the path for [`send`](UnixDatagram::send).
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.source.get().connect(path)
    }

    /// Sends a datagram to the socket at this path; waits while that one has no room.
    #[track_caller]
    pub fn send_to(
        &self,
        bytes: &[u8],
        path: impl AsRef<Path>,
    ) -> impl Future<Output = io::Result<usize>> {
        let at = Location::caller();
        async move {
            let mut length = FIRST_PAUSE;
            loop {
                // A full receiver says nothing about the readiness of this socket.
                match self.source.get().send_to(bytes, path.as_ref()) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        pause(&mut length, at).await?;
                    }
                    sent => return sent,
                }
            }
        }
    }
}

stream_reads!(UnixStream);
stream_writes!(UnixStream);
stream_sides!(UnixStream, net::UnixStream);
datagrams!(UnixDatagram, net::UnixDatagram);
has_descriptor!(UnixListener);
has_descriptor!(UnixStream);
has_descriptor!(UnixDatagram);
