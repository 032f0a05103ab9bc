//! UDP over loopback.

use std::io;
use std::time::Duration;

use crate::bounded::check;
use tiffany::net::UdpSocket;
use tiffany::{sleep, spawn, timeout};

#[test]
fn datagrams_keep_their_borders() {
    check(async {
        let one = UdpSocket::bind("127.0.0.1:0").await?;
        let two = UdpSocket::bind("127.0.0.1:0").await?;
        // A datagram shorter than the buffer does not mean that there is no other.
        for text in ["a", "bb", "ccc"] {
            one.send_to(text.as_bytes(), two.local_addr()?).await?;
        }
        let mut bytes = [0; 64];
        for text in ["a", "bb", "ccc"] {
            let (count, from) = two.recv_from(&mut bytes).await?;
            assert_eq!((&bytes[..count], from), (text.as_bytes(), one.local_addr()?));
        }
        one.send_to(b"0123456789", two.local_addr()?).await?;
        assert_eq!(two.recv(&mut bytes[..4]).await?, 4);
        assert!(timeout(Duration::from_millis(5), two.recv(&mut bytes)).await.is_err());
        Ok(())
    });
}

#[test]
fn a_connected_socket_hears_only_its_peer() {
    check(async {
        let one = UdpSocket::bind("127.0.0.1:0").await?;
        let two = UdpSocket::bind("127.0.0.1:0").await?;
        let stranger = UdpSocket::bind("127.0.0.1:0").await?;
        one.connect(two.local_addr()?).await?;
        two.connect(one.local_addr()?).await?;
        assert_eq!(one.peer_addr()?, two.local_addr()?);
        let near = one.local_addr()?;
        let waits = spawn(async move {
            let mut bytes = [0; 16];
            one.recv(&mut bytes).await.map(|count| bytes[..count].to_vec())
        })
        .await;
        sleep(Duration::from_millis(5)).await;
        stranger.send_to(b"psst", near).await?;
        two.send(b"hello").await?;
        assert_eq!(waits.await.unwrap()?, b"hello");
        Ok(())
    });
}

#[test]
fn a_port_nobody_has_is_an_error_once_and_not_a_hang() {
    check(async {
        let one = UdpSocket::bind("127.0.0.1:0").await?;
        let gone = UdpSocket::bind("127.0.0.1:0").await?.local_addr()?;
        one.connect(gone).await?;
        one.send(b"anybody?").await?;
        let mut bytes = [0; 16];
        let error = one.recv(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        // The error is no news the second time: the socket just has nothing to read.
        assert!(timeout(Duration::from_millis(5), one.recv(&mut bytes)).await.is_err());
        Ok(())
    });
}
