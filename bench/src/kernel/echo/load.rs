//! The load generator: connections with one request of 64 bytes in progress each, on one thread
//! with epoll.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const MESSAGE: [u8; 64] = [7; 64];

pub(super) struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    /// The number of bytes of the answer that have been received.
    received: usize,
}

impl Load {
    pub(super) fn connect(port: u16, connections: usize) -> io::Result<Load> {
        super::server_process::allow_many_descriptors();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut all = Vec::with_capacity(connections);
        for n in 0..connections {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(n as u64), EventFlags::IN)?;
            all.push(Connection { stream, received: 0 });
        }
        Ok(Load { epoll, connections: all })
    }

    /// Sends this number of requests, spread over the connections, and receives all answers.
    pub(super) fn requests(&mut self, requests: usize) -> io::Result<()> {
        let (mut sent, mut answered) = (0, 0);
        for connection in self.connections.iter_mut().take(requests) {
            connection.stream.write_all(&MESSAGE)?;
            sent += 1;
        }
        let mut events = Vec::with_capacity(256);
        while answered < requests {
            events.clear();
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None)?;
            for event in &events {
                let connection = &mut self.connections[event.data.u64() as usize];
                if !connection.receive()? {
                    continue;
                }
                answered += 1;
                if sent < requests {
                    connection.stream.write_all(&MESSAGE)?;
                    sent += 1;
                }
            }
        }
        Ok(())
    }
}

impl Connection {
    /// Reads the available bytes. Returns `true` when the answer is complete.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MESSAGE.len()];
        let wanted = MESSAGE.len() - self.received;
        match self.stream.read(&mut buffer[..wanted]) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the server hung up")),
            Ok(count) => {
                self.received += count;
                let complete = self.received == MESSAGE.len();
                if complete {
                    self.received = 0;
                }
                Ok(complete)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}
