//! The echo servers. Each connection has a task that reads into its own buffer and writes back what
//! it received. The raw one is a level-triggered epoll loop with one read and one write per event.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::runtimes;

/// The number of bytes per read of a server.
const BUFFER: usize = 1024;

pub(super) const NAMES: [&str; 5] = ["tiffany", "tokio", "smol", "monoio", "raw"];

/// Listens, prints its process ID and port for the parent, and serves forever.
pub(super) fn serve(name: &str) -> io::Result<()> {
    super::server_process::allow_many_descriptors();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    // The standard library lets only 128 connections queue; one more would wait a second before it
    // tries again.
    rustix::net::listen(&listener, 1024)?;
    println!("{} {}", std::process::id(), listener.local_addr()?.port());
    match name {
        "tiffany" => runtimes::tiffany(tiffany(listener)),
        "tokio" => runtimes::tokio(tokio(listener)),
        "smol" => runtimes::smol(|executor| smol(executor, listener)),
        "monoio" => runtimes::monoio(monoio(listener)),
        "raw" => raw(&listener),
        other => Err(io::Error::other(format!("there is no server `{other}`"))),
    }
}

async fn tiffany(listener: TcpListener) -> io::Result<()> {
    let listener = tiffany::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = tiffany::spawn(async move {
            let mut buffer = [0; BUFFER];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
        drop(connection.await);
    }
}

async fn tokio(listener: TcpListener) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut buffer = [0; BUFFER];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn smol(
    executor: Rc<async_executor::LocalExecutor<'static>>,
    listener: TcpListener,
) -> io::Result<()> {
    use futures_lite::io::{AsyncReadExt, AsyncWriteExt};
    let listener = async_io::Async::new(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let connection = executor.spawn(async move {
            let mut buffer = [0; BUFFER];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        });
        connection.detach();
    }
}

async fn monoio(listener: TcpListener) -> io::Result<()> {
    use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
    let listener = monoio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let connection = monoio::spawn(async move {
            let mut buffer: Vec<u8> = Vec::with_capacity(BUFFER);
            loop {
                let (read, filled) = stream.read(buffer).await;
                if !matches!(read, Ok(1..)) {
                    return;
                }
                let (written, mut empty) = stream.write_all(filled).await;
                if written.is_err() {
                    return;
                }
                empty.clear();
                buffer = empty;
            }
        });
        drop(connection);
    }
}

fn raw(listener: &TcpListener) -> io::Result<()> {
    const LISTENER: u64 = u64::MAX;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener.as_fd(), EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = [0; BUFFER];
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                let data = EventData::new_u64(connections.len() as u64);
                epoll::add(&epoll, &stream, data, EventFlags::IN)?;
                connections.push(Some(stream));
            } else if let Some(stream) = &mut connections[token as usize] {
                match stream.read(&mut buffer) {
                    Ok(count @ 1..) => stream.write_all(&buffer[..count])?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    _ => connections[token as usize] = None,
                }
            }
        }
    }
}
