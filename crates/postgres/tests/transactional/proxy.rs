//! A proxy for connections to the server, which cuts one of them at the first `COMMIT` that passes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::server::Server;

/// The moment at which the connection is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    BeforeTheServerHasIt,
    BeforeTheAnswer,
}

/// Starts a proxy, and returns the parameters for connecting through it.
pub(crate) fn proxy(server: &Server, cut: Cut) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let dir = server.dir.join(format!("line-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(&dir).expect("it can be made");
    let listener = UnixListener::bind(dir.join(".s.PGSQL.5432")).expect("it can be made");
    let (to, is_cut) = (server.dir.join("data/.s.PGSQL.5432"), Arc::new(AtomicBool::new(false)));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = UnixStream::connect(&to) else { return };
            let is_cut = Arc::clone(&is_cut);
            std::thread::spawn(move || pass(&client, &server, cut, &is_cut));
        }
    });
    format!("host={} user=tiffany dbname=postgres", dir.display())
}

fn pass(mut client: &UnixStream, mut server: &UnixStream, cut: Cut, is_cut: &AtomicBool) {
    let back = (client.try_clone().expect("it is open"), server.try_clone().expect("it is open"));
    let cuts = Arc::new(AtomicBool::new(false));
    let holds = Arc::clone(&cuts);
    let answers = std::thread::spawn(move || {
        let (mut client, mut server) = back;
        let mut bytes = [0; 8192];
        while let Ok(length @ 1..) = server.read(&mut bytes) {
            // The server has answered, but the answer is dropped.
            if holds.load(Ordering::SeqCst) || client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 8192];
    while let Ok(length @ 1..) = client.read(&mut bytes) {
        let commits = bytes[..length].windows(7).any(|bytes| bytes == b"COMMIT\0");
        if commits && !is_cut.swap(true, Ordering::SeqCst) {
            match cut {
                Cut::BeforeTheServerHasIt => break,
                Cut::BeforeTheAnswer => cuts.store(true, Ordering::SeqCst),
            }
        }
        if server.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
    let _ = answers.join();
}
