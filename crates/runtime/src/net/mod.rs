//! Sockets: TCP, UDP and Unix. Each is registered with the reactor once and is non-blocking; a call
//! on a ready socket costs one system call and no turn of the scheduler. Sockets are for ephemeral
//! runs: in a durable run, waiting for a descriptor is an error (TFY0020).

mod addr;
mod tcp;
mod udp;
mod unix;

pub use crate::io::split::{ReadHalf, WriteHalf};
pub use addr::ToSocketAddrs;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
