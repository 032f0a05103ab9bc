//! Sockets: TCP, UDP and Unix. Each is registered with the reactor once and is non-blocking; a call
//! that finds it ready costs one system call and no turn of the scheduler. They belong to ephemeral
//! runs: in a durable run a wait for a descriptor is TFY0020.

mod addr;
mod tcp;
mod udp;
mod unix;

pub use crate::io::split::{ReadHalf, WriteHalf};
pub use addr::ToSocketAddrs;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
