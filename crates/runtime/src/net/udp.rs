//! UDP sockets.

use std::future::Future;
use std::io;
use std::net::{self, SocketAddr};
use std::panic::Location;

use tiffany_kernel::Interest;

use crate::io::source::{Attempt, Source, refuse_durable, refused};
use crate::io::source::{datagrams, has_descriptor};
use crate::net::addr::{ToSocketAddrs, resolve};

/// A UDP socket. A datagram that is longer than the buffer it is received into is truncated.
///
/// ```
/// use tiffany::net::UdpSocket;
///
/// tiffany::try_run(async {
///     let one = UdpSocket::bind("127.0.0.1:0").await?;
///     let two = UdpSocket::bind("127.0.0.1:0").await?;
///     one.send_to(b"hello", two.local_addr()?).await?;
///     let mut bytes = [0; 16];
///     let (count, from) = two.recv_from(&mut bytes).await?;
///     assert_eq!(&bytes[..count], b"hello");
///     assert_eq!(from, one.local_addr()?);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    source: Source<net::UdpSocket>,
}

impl UdpSocket {
    /// Binds to the first of the addresses that is available. Port 0 takes any free port.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> impl Future<Output = io::Result<UdpSocket>> {
        let at = Location::caller();
        let addresses = resolve(address);
        async move {
            refuse_durable("a socket", at)?;
            let addresses = addresses.await?;
            let bound = net::UdpSocket::bind(&addresses[..]);
            UdpSocket::from_std(bound.map_err(|error| refused(&error, "bind", &addresses, at))?)
        }
    }

    /// Sets the address for [`send`](UdpSocket::send); only datagrams from this address are
    /// received then.
    #[track_caller]
    pub fn connect(&self, address: impl ToSocketAddrs) -> impl Future<Output = io::Result<()>> {
        let addresses = resolve(address);
        async move { self.source.get().connect(&addresses.await?[..]) }
    }

    /// Sends a datagram to this address, or the first one if there are several.
    #[track_caller]
    pub fn send_to(
        &self,
        bytes: &[u8],
        to: impl ToSocketAddrs,
    ) -> impl Future<Output = io::Result<usize>> {
        let at = Location::caller();
        let addresses = resolve(to);
        async move {
            let to = addresses.await?[0];
            let send = |io: &net::UdpSocket| io.send_to(bytes, to).map(Attempt::Done);
            self.source.operate(Interest::Write, at, send).await
        }
    }

    /// The connected address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.source.get().peer_addr()
    }
}

datagrams!(UdpSocket, net::UdpSocket);
has_descriptor!(UdpSocket);
