//! Socket addresses from text. Only names need the resolver, which blocks and so runs on the pool.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::calls::sys::blocking;
use crate::io::source::into_io_error;

/// Whatever can be used as an address: an address, `"host:port"`, or a host and a port.
///
/// ```
/// use tiffany::net::{TcpListener, TcpStream};
///
/// tiffany::try_run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let port = listener.local_addr()?.port();
///     TcpStream::connect(("localhost", port)).await?;
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub trait ToSocketAddrs: sealed::Target {}

pub(crate) mod sealed {
    pub trait Target {
        fn target(self) -> super::Where;
    }
}

/// An address, or one that is still to be looked up.
pub enum Where {
    Known(Vec<SocketAddr>),
    Name(String),
    NameAndPort(String, u16),
}

/// The addresses, in the order in which to try them.
#[track_caller]
pub(crate) fn resolve(
    target: impl ToSocketAddrs,
) -> impl Future<Output = io::Result<Vec<SocketAddr>>> {
    let target = match target.target() {
        Where::Known(addresses) => Ok(addresses),
        name => Err(blocking(move || look_up(&name))),
    };
    async move {
        let addresses = match target {
            Ok(known) => known,
            Err(call) => call.await.map_err(into_io_error)??,
        };
        if addresses.is_empty() {
            let message = "there is no address to try; check the name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(addresses)
    }
}

fn look_up(target: &Where) -> io::Result<Vec<SocketAddr>> {
    use std::net::ToSocketAddrs as Resolve;
    match target {
        Where::Known(addresses) => Ok(addresses.clone()),
        Where::Name(name) => name.to_socket_addrs().map(Vec::from_iter),
        Where::NameAndPort(name, port) => {
            (name.as_str(), *port).to_socket_addrs().map(Vec::from_iter)
        }
    }
}

macro_rules! known {
    ($($kind:ty),+ $(,)?) => {
        $(impl ToSocketAddrs for $kind {}

        impl sealed::Target for $kind {
            fn target(self) -> Where {
                Where::Known(vec![self.into()])
            }
        })+
    };
}

known! {
    SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16),
}

impl ToSocketAddrs for &[SocketAddr] {}

impl sealed::Target for &[SocketAddr] {
    fn target(self) -> Where {
        Where::Known(self.to_vec())
    }
}

impl ToSocketAddrs for &str {}

impl sealed::Target for &str {
    fn target(self) -> Where {
        match self.parse() {
            Ok(address) => Where::Known(vec![address]),
            Err(_) => Where::Name(self.to_owned()),
        }
    }
}

impl ToSocketAddrs for String {}

impl sealed::Target for String {
    fn target(self) -> Where {
        self.as_str().target()
    }
}

impl ToSocketAddrs for (&str, u16) {}

impl sealed::Target for (&str, u16) {
    fn target(self) -> Where {
        match self.0.parse::<IpAddr>() {
            Ok(address) => Where::Known(vec![(address, self.1).into()]),
            Err(_) => Where::NameAndPort(self.0.to_owned(), self.1),
        }
    }
}
