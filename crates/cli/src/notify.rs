//! Reports the daemon's state to systemd if that started it as `Type=notify`: sends datagrams to
//! the socket that the environment names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports that the daemon is ready.
pub(crate) fn ready(url: &str) {
    tell(&format!("READY=1\nSTATUS=serving {url}"));
}

/// Reports that the daemon is stopping.
pub(crate) fn stopping() {
    tell("STOPPING=1\nSTATUS=running steps finish");
}

fn tell(state: &str) {
    let Some(place) = std::env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty()) else {
        return;
    };
    let address = match place.as_bytes() {
        // An abstract socket name.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&place),
    };
    let sent = address.and_then(|address| {
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
    });
    if let Err(error) = sent {
        tracing::warn!(target: "tiffany", "the state cannot be reported to the service manager: {error}");
    }
}
