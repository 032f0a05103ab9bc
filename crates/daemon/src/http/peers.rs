//! Connected addresses and their request rates. An address without connections takes no memory.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::error::DaemonError;
use crate::limits::Limits;

/// The remote side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The name in the certificate that the client has proved to own.
    pub(crate) certificate: Option<String>,
    /// Closes the connection, whatever is being sent on it.
    pub(crate) cut: Arc<Notify>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, certificate: Option<String>) -> Peer {
        Peer { address, certificate, cut: Arc::default() }
    }
}

/// All connected addresses.
pub(crate) struct Peers {
    connections: usize,
    per_peer: usize,
    /// The limit of requests per second.
    rate: f64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    all: usize,
    peers: HashMap<IpAddr, Seen>,
}

struct Seen {
    connections: usize,
    /// The requests that the address could make at once at the time `since`.
    tokens: f64,
    since: Instant,
}

/// A connection, counted until it is dropped.
pub(crate) struct Connected {
    peers: Arc<Peers>,
    ip: IpAddr,
}

impl Peers {
    pub(crate) fn new(limits: &Limits) -> Arc<Peers> {
        Arc::new(Peers {
            connections: limits.connections,
            per_peer: limits.connections_per_peer,
            rate: f64::from(limits.requests_per_second.max(1)),
            known: Mutex::default(),
        })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection, or returns an error if there are too many.
    pub(crate) fn connect(self: &Arc<Peers>, ip: IpAddr) -> Result<Connected, DaemonError> {
        let too_many = |what: String| DaemonError::TooMany { what, wait: Duration::from_secs(1) };
        let mut known = self.known();
        if known.all >= self.connections {
            return Err(too_many(format!("more than {} are connected", self.connections)));
        }
        let seen = known.peers.entry(ip).or_insert_with(|| Seen {
            connections: 0,
            tokens: self.rate,
            since: Instant::now(),
        });
        if seen.connections >= self.per_peer {
            let most = self.per_peer;
            return Err(too_many(format!("{ip} has more than {most} connections")));
        }
        seen.connections += 1;
        known.all += 1;
        Ok(Connected { peers: Arc::clone(self), ip })
    }

    /// Counts a request of a connected address, or returns an error if there are too many.
    pub(crate) fn ask(&self, ip: IpAddr) -> Result<(), DaemonError> {
        let now = Instant::now();
        let mut known = self.known();
        let Some(seen) = known.peers.get_mut(&ip) else { return Ok(()) };
        let gained = now.duration_since(seen.since).as_secs_f64() * self.rate;
        seen.tokens = (seen.tokens + gained).min(self.rate);
        seen.since = now;
        if seen.tokens < 1.0 {
            let what = format!("{ip} makes more than {} requests a second", self.rate);
            let wait = Duration::from_secs_f64((1.0 - seen.tokens) / self.rate);
            return Err(DaemonError::TooMany { what, wait });
        }
        seen.tokens -= 1.0;
        Ok(())
    }
}

/// How long the rate of a disconnected address is remembered.
const REMEMBERED: Duration = Duration::from_secs(1);

impl Drop for Connected {
    fn drop(&mut self) {
        let mut known = self.peers.known();
        known.all -= 1;
        if let Some(seen) = known.peers.get_mut(&self.ip) {
            seen.connections -= 1;
        }
        // Reconnecting doesn't reset the rate; after a second it is full again anyway.
        let now = Instant::now();
        if known.peers.len() > 64 || known.all == 0 {
            known.peers.retain(|_, seen| {
                seen.connections > 0 || now.duration_since(seen.since) < REMEMBERED
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(connections: usize, per_peer: usize, rate: u32) -> Arc<Peers> {
        Peers::new(&Limits {
            connections,
            connections_per_peer: per_peer,
            requests_per_second: rate,
            ..Limits::default()
        })
    }

    #[test]
    fn connections_are_counted_in_all_and_for_each_address() {
        let peers = peers(3, 2, 100);
        let ip = |last: u8| IpAddr::from([127, 0, 0, last]);
        let first = peers.connect(ip(1)).unwrap();
        let _second = peers.connect(ip(1)).unwrap();
        assert!(peers.connect(ip(1)).is_err_and(|error| error.to_string().contains("127.0.0.1")));
        let _third = peers.connect(ip(2)).unwrap();
        assert!(peers.connect(ip(3)).is_err_and(|error| error.to_string().contains("more than 3")));
        drop(first);
        peers.connect(ip(1)).unwrap();
    }

    #[test]
    fn who_asks_too_often_is_told_how_long_to_wait() {
        let peers = peers(10, 10, 5);
        let ip = IpAddr::from([127, 0, 0, 1]);
        let connected = peers.connect(ip).unwrap();
        let refused = (0..7).find_map(|_| peers.ask(ip).err()).unwrap();
        assert!(refused.retry_after().unwrap() <= Duration::from_millis(200));
        // A second connection of the address shares its rate.
        drop(connected);
        let _again = peers.connect(ip).unwrap();
        assert!(peers.ask(ip).is_err());
        peers.ask(IpAddr::from([127, 0, 0, 2])).unwrap();
    }
}
