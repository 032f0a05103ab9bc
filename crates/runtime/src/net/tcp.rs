//! TCP listeners and streams.

use std::future::Future;
use std::io;
use std::net::{self, SocketAddr};
use std::panic::Location;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use tiffany_kernel::Interest;

use crate::host::reactor::Assume;
use crate::io::source::{Attempt, Source, accept, nonblocking_socket, refuse_durable, refused};
use crate::io::source::{has_descriptor, stream_reads, stream_sides, stream_writes};
use crate::net::addr::{ToSocketAddrs, resolve};

/// Accepts TCP connections.
///
/// ```
/// use tiffany::net::{TcpListener, TcpStream};
/// use tiffany::spawn;
///
/// tiffany::try_run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let address = listener.local_addr()?;
///     let server = spawn(async move {
///         let (stream, _peer) = listener.accept().await?;
///         stream.write_all(b"hello").await
///     })
///     .await;
///
///     let stream = TcpStream::connect(address).await?;
///     let mut text = Vec::new();
///     stream.read_to_end(&mut text).await?;
///     assert_eq!(text, b"hello");
///     server.await.unwrap()
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct TcpListener {
    source: Source<net::TcpListener>,
}

impl TcpListener {
    /// Listens on the first of the addresses that is available. Port 0 takes any free port.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> impl Future<Output = io::Result<TcpListener>> {
        let at = Location::caller();
        let addresses = resolve(address);
        async move {
            refuse_durable("a socket", at)?;
            let addresses = addresses.await?;
            let bound = net::TcpListener::bind(&addresses[..]);
            TcpListener::from_std(bound.map_err(|error| refused(&error, "bind", &addresses, at))?)
        }
    }

    /// Takes ownership of a listener of the standard library.
    #[track_caller]
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        Ok(TcpListener { source: Source::new(listener)? })
    }

    /// Waits for the next connection. Connections that were aborted before they were accepted are
    /// skipped; errors of the process (too many open files) are returned.
    #[track_caller]
    pub fn accept(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> {
        let at = Location::caller();
        async move {
            let accept = self.source.operate(Interest::Read, at, |listener| {
                let (stream, address) = accept(listener)?;
                Ok(Attempt::Done((net::TcpStream::from(stream), SocketAddr::try_from(address)?)))
            });
            let (stream, address) = accept.await?;
            Ok((TcpStream { source: Source::new(stream)? }, address))
        }
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.source.get().local_addr()
    }
}

/// A TCP connection. It is read and written through `&self`, so that tasks can share it in an `Rc`;
/// see also [`split`](TcpStream::split).
///
/// ```
/// use tiffany::net::{TcpListener, TcpStream};
///
/// tiffany::try_run(async {
///     let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
///     let near = TcpStream::connect(listener.local_addr()?).await?;
///     let (far, _) = listener.accept().await?;
///     near.write_all(b"ping").await?;
///     let mut bytes = [0; 4];
///     far.read_exact(&mut bytes).await?;
///     assert_eq!(&bytes, b"ping");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct TcpStream {
    source: Source<net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first of the addresses that answers.
    #[track_caller]
    pub fn connect(address: impl ToSocketAddrs) -> impl Future<Output = io::Result<TcpStream>> {
        let at = Location::caller();
        let addresses = resolve(address);
        async move {
            refuse_durable("a socket", at)?;
            let mut failure = None;
            for address in addresses.await? {
                match TcpStream::connect_to(address, at).await {
                    Ok(stream) => return Ok(stream),
                    // A task's own error contains its line; the system's does not.
                    Err(error) if error.get_ref().is_some() => failure = Some(error),
                    Err(error) => failure = Some(refused(&error, "connect", address, at)),
                }
            }
            Err(failure.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()))
        }
    }

    async fn connect_to(
        address: SocketAddr,
        at: &'static Location<'static>,
    ) -> io::Result<TcpStream> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = nonblocking_socket(family, SocketType::STREAM)?;
        // Before it is registered: a socket that never began to connect counts as hung up.
        let assume = match rustix::net::connect(&socket, &address) {
            Ok(()) => Assume::Writable,
            Err(Errno::INPROGRESS | Errno::INTR) => Assume::Nothing,
            Err(errno) => return Err(errno.into()),
        };
        let source = Source::assuming(net::TcpStream::from(socket), assume)?;
        if assume == Assume::Nothing {
            source.operate(Interest::Write, at, connected).await?;
        }
        Ok(TcpStream { source })
    }

    /// Sets whether small writes are sent at once instead of being combined.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.source.get().set_nodelay(nodelay)
    }
}

/// Whether the connection is established: it is, if it has a peer; it failed, if it has an error.
fn connected(stream: &net::TcpStream) -> io::Result<Attempt<()>> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(Attempt::Done(())),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error),
    }
}

stream_reads!(TcpStream);
stream_writes!(TcpStream);
stream_sides!(TcpStream, net::TcpStream);
has_descriptor!(TcpStream);
has_descriptor!(TcpListener);
