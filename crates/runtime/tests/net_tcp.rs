//! TCP over loopback: what partial transfers, ends of streams, refusals and sharing must look like.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::bounded::check;
use tiffany::net::{TcpListener, TcpStream};
use tiffany::{
    Handler, SystemCall, Tid, Verdict, cancel, gather, sleep, spawn, timeout, try_spawn, yield_now,
};

async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let (far, peer) = listener.accept().await?;
    assert_eq!(peer, near.local_addr()?);
    Ok((near, far))
}

#[test]
fn a_read_gives_what_is_there_and_the_next_one_the_rest() {
    check(async {
        let (near, far) = pair().await?;
        near.write_all(b"0123456789").await?;
        let mut small = [0; 4];
        assert_eq!(far.read(&mut small).await?, 4);
        assert_eq!(&small, b"0123");
        let mut large = [0; 100];
        assert_eq!(far.read(&mut large).await?, 6);
        assert_eq!(&large[..6], b"456789");
        Ok(())
    });
}

#[test]
fn a_megabyte_passes_through_a_small_buffer() {
    check(async {
        let (near, far) = pair().await?;
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 4096)?;
        let sent: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writer = try_spawn(async move {
            near.write_all(&sent).await?;
            near.shutdown(Shutdown::Write)
        })
        .await;
        let mut received = Vec::new();
        far.read_to_end(&mut received).await?;
        assert!(received == expected);
        writer.await.unwrap();
        Ok(())
    });
}

#[test]
fn the_end_of_the_stream_is_seen_with_data_in_front_of_it() {
    check(async {
        let (near, far) = pair().await?;
        // Data and end arrive together: a short read must not forget the end.
        near.write_all(b"last words").await?;
        drop(near);
        sleep(Duration::from_millis(20)).await;
        let mut bytes = [0; 64];
        assert_eq!(far.read(&mut bytes).await?, 10);
        assert_eq!(far.read(&mut bytes).await?, 0);
        assert_eq!(far.read(&mut bytes).await?, 0, "the end stays");
        Ok(())
    });
}

#[test]
fn an_end_wakes_one_who_waits() {
    check(async {
        let (near, far) = pair().await?;
        let reader = try_spawn(async move {
            let error = far.read_exact(&mut [0; 4]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            Ok::<(), io::Error>(())
        })
        .await;
        near.write_all(b"ab").await?;
        sleep(Duration::from_millis(10)).await;
        drop(near);
        reader.await.unwrap();
        Ok(())
    });
}

#[test]
fn a_refused_connection_is_an_error() {
    check(async {
        let address = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let error = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn connect_tries_all_addresses_of_a_name() {
    check(async {
        // Of the two addresses of this name only one has a listener.
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let dead =
            format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port());
        let both = [dead.parse().unwrap(), listener.local_addr()?];
        TcpStream::connect(&both[..]).await?;
        TcpStream::connect(format!("localhost:{port}")).await?;
        assert!(TcpStream::connect("not an address").await.is_err());
        Ok(())
    });
}

#[test]
fn ipv6_works_where_there_is_any() {
    check(async {
        let Ok(listener) = TcpListener::bind("[::1]:0").await else { return Ok(()) };
        let near = TcpStream::connect(listener.local_addr()?).await?;
        let (far, _) = listener.accept().await?;
        near.write_all(b"six").await?;
        let mut bytes = [0; 3];
        far.read_exact(&mut bytes).await
    });
}

#[test]
fn one_task_reads_while_another_writes() {
    check(async {
        let (near, far) = pair().await?;
        near.set_nodelay(true)?;
        let echo = try_spawn(async move {
            let mut bytes = [0; 1024];
            loop {
                match far.read(&mut bytes).await? {
                    0 => return Ok::<(), io::Error>(()),
                    count => far.write_all(&bytes[..count]).await?,
                }
            }
        })
        .await;
        let (reader, writer) = near.split();
        let reads = try_spawn(async move {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).await.map(|_| all)
        })
        .await;
        let writes = try_spawn(async move {
            for number in 0..100u8 {
                writer.write_all(&[number; 1000]).await?;
                yield_now().await;
            }
            Ok::<(), io::Error>(()) // The half is dropped here, which ends the stream.
        })
        .await;
        writes.await.unwrap();
        let all = reads.await.unwrap();
        echo.await.unwrap();
        assert!(all == (0..100u8).flat_map(|number| [number; 1000]).collect::<Vec<u8>>());
        Ok(())
    });
}

#[test]
fn readers_of_one_stream_are_served_in_the_order_they_came() {
    check(async {
        let (near, far) = pair().await?;
        let far = Rc::new(far);
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut readers = Vec::new();
        for name in 0..5 {
            let (far, order) = (Rc::clone(&far), Rc::clone(&order));
            readers.push(
                try_spawn(async move {
                    let mut byte = [0];
                    far.read_exact(&mut byte).await?;
                    order.borrow_mut().push((name, byte[0]));
                    Ok::<(), io::Error>(())
                })
                .await,
            );
        }
        sleep(Duration::from_millis(5)).await;
        // All at once: each reader takes one byte, and none is left waiting.
        near.write_all(&[10, 11, 12, 13, 14]).await?;
        gather(readers).await.unwrap();
        assert_eq!(*order.borrow(), [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14)]);
        Ok(())
    });
}

#[test]
fn a_cancelled_reader_loses_nothing() {
    check(async {
        let (near, far) = pair().await?;
        let far = Rc::new(far);
        let first = Rc::clone(&far);
        let blocked = spawn(async move { first.read(&mut [0; 8]).await.map(|_| ()) }).await;
        sleep(Duration::from_millis(5)).await;
        // The bytes come first, then the cancel: they may be on their way to the blocked task.
        near.write_all(b"for whom?").await?;
        cancel(&blocked).await;
        assert!(blocked.await.unwrap_err().is_cancelled());
        let mut bytes = [0; 9];
        far.read_exact(&mut bytes).await?;
        assert_eq!(&bytes, b"for whom?");
        Ok(())
    });
}

#[test]
fn a_read_in_a_timeout_can_be_repeated() {
    check(async {
        let (near, far) = pair().await?;
        let mut bytes = [0; 4];
        for _ in 0..3 {
            assert!(timeout(Duration::from_millis(2), far.read(&mut bytes)).await.is_err());
        }
        near.write_all(b"now!").await?;
        assert_eq!(far.read(&mut bytes).await?, 4);
        Ok(())
    });
}

#[test]
fn two_hundred_clients_are_echoed_at_once() {
    check(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let echo = try_spawn(async move {
                    let mut bytes = [0; 64];
                    loop {
                        match stream.read(&mut bytes).await? {
                            0 => return Ok::<(), io::Error>(()),
                            count => stream.write_all(&bytes[..count]).await?,
                        }
                    }
                });
                drop(echo.await);
            }
        })
        .await;
        let mut clients = Vec::new();
        for number in 0..200u64 {
            clients.push(
                try_spawn(async move {
                    let stream = TcpStream::connect(address).await?;
                    for round in 0..20u64 {
                        let sent = (number * 1000 + round).to_ne_bytes();
                        stream.write_all(&sent).await?;
                        let mut back = [0; 8];
                        stream.read_exact(&mut back).await?;
                        assert_eq!(back, sent);
                    }
                    Ok::<(), io::Error>(())
                })
                .await,
            );
        }
        gather(clients).await.unwrap();
        cancel(&server).await;
        Ok(())
    });
}

#[test]
fn a_task_that_always_finds_its_socket_ready_starves_nobody() {
    check(async {
        let (near, far) = pair().await?;
        near.write_all(&vec![7; 64 * 1024]).await?;
        drop(near);
        let stop = Rc::new(Cell::new(false));
        let began = Instant::now();
        let seen = Rc::clone(&stop);
        let greedy = try_spawn(async move {
            let mut byte = [0];
            // Data first, then the end for ever: every read is ready at once.
            while !seen.get() && began.elapsed() < Duration::from_secs(3) {
                far.read(&mut byte).await?;
            }
            Ok::<(), io::Error>(())
        })
        .await;
        for _ in 0..3 {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(1));
        stop.set(true);
        greedy.await.unwrap();
        Ok(())
    });
}

#[test]
fn an_error_names_the_line_of_the_call() {
    tiffany::run(async {
        let (near, _far) = pair().await.unwrap();
        let raw = std::os::fd::AsRawFd::as_raw_fd(&near);
        let waits = spawn(async move {
            struct Number(i32);
            impl std::os::fd::AsRawFd for Number {
                fn as_raw_fd(&self) -> i32 {
                    self.0
                }
            }
            tiffany::read_wait(&Number(raw)).await
        })
        .await;
        sleep(Duration::from_millis(5)).await;
        drop(near);
        let error = timeout(Duration::from_secs(1), waits).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.code(), "TFY0012");
        assert!(error.call_site().unwrap().file.ends_with("net_tcp.rs"));
    })
    .unwrap();
}

#[test]
fn a_socket_outside_a_task_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = TcpListener::from_std(listener).unwrap_err();
    assert!(error.to_string().contains("TFY0004"), "{error}");
}

#[test]
fn a_socket_can_move_to_another_runtime() {
    let (near, far) = tiffany::run(pair()).unwrap().unwrap();
    check(async move {
        let reader = try_spawn(async move {
            let mut bytes = [0; 5];
            far.read_exact(&mut bytes).await.map(|()| bytes)
        })
        .await;
        sleep(Duration::from_millis(5)).await;
        near.write_all(b"again").await?;
        assert_eq!(&reader.await.unwrap(), b"again");
        Ok(())
    });
}

/// Does not let its tasks wait for anything to read.
struct NoReading;

impl Handler for NoReading {
    fn name(&self) -> &str {
        "no reading"
    }

    fn handle(&self, call: &mut SystemCall, _: Tid) -> Verdict {
        match call {
            SystemCall::ReadWait(_) => Verdict::Refuse("not here".into()),
            _ => Verdict::Pass,
        }
    }
}

#[test]
fn a_refused_wait_is_an_error_that_keeps_its_code_and_line() {
    check(async {
        let (_near, far) = pair().await?;
        let line = line!() + 1;
        let reads = try_spawn(async move { far.read(&mut [0; 4]).await });
        let error = reads.handlers(vec![Rc::new(NoReading)]).await.await.unwrap_err();
        assert_eq!(error.code(), "TFY0019");
        assert_eq!(error.call_site().unwrap().line, line, "{error}");
        Ok(())
    });
}

#[test]
fn a_refusal_of_the_system_names_the_address_and_the_line() {
    check(async {
        let first = TcpListener::bind("127.0.0.1:0").await?;
        let address = first.local_addr()?;
        let (error, line) = (TcpListener::bind(address).await.unwrap_err(), line!());
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot bind [{address}]: ")), "{text}");
        assert!(text.ends_with(&format!("in `bind` at {}:{line}", file!())), "{text}");
        drop(first);
        let error = TcpStream::connect(address).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot connect {address}: ")), "{error}");
        Ok(())
    });
}
