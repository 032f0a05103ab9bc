//! Limits of the server's resources. The defaults are meant for one machine.

use std::time::Duration;

use serde_json::{Value, json};
use tiffany::units;

/// Limits of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes in a body.
    pub body_bytes: usize,
    /// The most bytes in the headers of a request, of which there may be a hundred; at least 8 kB.
    pub header_bytes: usize,
    /// How long the headers may take, and how long a connection may be idle between two requests.
    pub header_time: Duration,
    /// How long receiving a body may take.
    pub body_time: Duration,
    /// The most connections in total.
    pub connections: usize,
    /// The most connections from one address.
    pub connections_per_peer: usize,
    /// The most requests per second from one address, and the size of a burst.
    pub requests_per_second: u32,
    /// The most requests that wait for the runtime at the same time.
    pub waiting: usize,
    /// How long the runtime has to answer a request.
    pub answer_time: Duration,
    /// The most streams (WebSocket, SSE, followed records) at the same time. It should exceed the
    /// connections of one address, or that address could keep all others out.
    pub streams: usize,
    /// The most bytes in a WebSocket message from a client.
    pub message_bytes: usize,
    /// The most WebSocket messages per second from a client.
    pub messages_per_second: u32,
    /// How often a client is pinged. A client that hasn't answered by the next ping is
    /// disconnected.
    pub ping: Duration,
    /// The most processes that run the code of a program at the same time, for `step` and `replay`;
    /// 0 disables both.
    pub children: usize,
    /// How long a process for `step` or `replay` may run.
    pub child_time: Duration,
}

/// Returns an error if a number is out of its range.
pub(crate) fn in_range(name: &str, value: u64, (least, most): (u64, u64)) -> Result<(), String> {
    match value {
        value if (least..=most).contains(&value) => Ok(()),
        // The configuration contained a number too large for the type.
        u64::MAX => Err(format!("`{name}` is too large: it may be from {least} to {most}")),
        value => Err(format!("`{name}` is {value}, and may be from {least} to {most}")),
    }
}

/// Returns an error if a size is out of its range.
pub(crate) fn size_in_range(name: &str, value: u64, range: (u64, u64)) -> Result<(), String> {
    let (least, most) = (units::size(range.0), units::size(range.1));
    match value {
        value if value > range.1 => {
            Err(format!("`{name}` is too large: it may be from {least} to {most}"))
        }
        value if value < range.0 => {
            let value = units::size(value);
            Err(format!("`{name}` is {value}, and may be from {least} to {most}"))
        }
        _ => Ok(()),
    }
}

/// Returns an error if a time is out of its range.
pub(crate) fn time_in_range(
    name: &str,
    value: Duration,
    (least, most): (Duration, Duration),
) -> Result<(), String> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => {
            let [value, least, most] = [value, least, most].map(units::span);
            Err(format!("`{name}` is {value}, and may be from {least} to {most}"))
        }
    }
}

/// The largest value of any count.
const MAX_LIMIT: u64 = 1_000_000;
const GIGABYTE: u64 = 1 << 30;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Limits {
    /// Returns an error that names the first limit out of its range, and the range.
    pub(crate) fn check(&self) -> Result<(), String> {
        let number = |name, value: usize, least, most| in_range(name, value as u64, (least, most));
        let rate = |name, value: u32| number(name, value as usize, 1, MAX_LIMIT);
        let size =
            |name, value: usize, least, most| size_in_range(name, value as u64, (least, most));
        let time = |name, value| time_in_range(name, value, (Duration::from_millis(1), DAY));
        size("body_bytes", self.body_bytes, 1, GIGABYTE)?;
        size("header_bytes", self.header_bytes, 8 << 10, 16 << 20)?;
        time("header_time", self.header_time)?;
        time("body_time", self.body_time)?;
        number("connections", self.connections, 1, MAX_LIMIT)?;
        number("connections_per_peer", self.connections_per_peer, 1, MAX_LIMIT)?;
        rate("requests_per_second", self.requests_per_second)?;
        number("waiting", self.waiting, 1, MAX_LIMIT)?;
        time("answer_time", self.answer_time)?;
        number("streams", self.streams, 1, MAX_LIMIT)?;
        size("message_bytes", self.message_bytes, 1, GIGABYTE)?;
        rate("messages_per_second", self.messages_per_second)?;
        time("ping", self.ping)?;
        number("children", self.children, 0, 1000)?;
        time("child_time", self.child_time)
    }

    /// Returns these limits adapted to a process with this many descriptors: a quarter each for
    /// connections, for the files of runs and for the control socket; the rest is for steps, the
    /// log and everything else.
    pub(crate) fn within(mut self, descriptors: usize) -> Limits {
        let most = (descriptors / 4).max(1);
        if self.connections > most {
            self.connections = most;
            // A single address must not keep all others out.
            self.connections_per_peer = self.connections_per_peer.min(most.div_ceil(2));
        }
        self
    }

    /// Returns the limits as JSON for clients: bytes, numbers, and times in seconds.
    pub(crate) fn told(&self) -> Value {
        json!({
            "body_bytes": self.body_bytes,
            "header_bytes": self.header_bytes,
            "header_time": self.header_time.as_secs_f64(),
            "body_time": self.body_time.as_secs_f64(),
            "connections": self.connections,
            "connections_per_peer": self.connections_per_peer,
            "requests_per_second": self.requests_per_second,
            "waiting": self.waiting,
            "answer_time": self.answer_time.as_secs_f64(),
            "streams": self.streams,
            "message_bytes": self.message_bytes,
            "messages_per_second": self.messages_per_second,
            "ping": self.ping.as_secs_f64(),
            "children": self.children,
            "child_time": self.child_time.as_secs_f64(),
        })
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 8 << 20,
            header_bytes: 16 << 10,
            header_time: Duration::from_secs(15),
            body_time: Duration::from_secs(30),
            connections: 4096,
            connections_per_peer: 2048,
            requests_per_second: 20_000,
            waiting: 4096,
            answer_time: Duration::from_secs(30),
            streams: 3072,
            message_bytes: 64 << 10,
            messages_per_second: 50,
            ping: Duration::from_secs(15),
            children: 2,
            child_time: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_three_quarters_of_the_descriptors_to_others() {
        let connections = |limits: Limits, descriptors| {
            let limits = limits.within(descriptors);
            (limits.connections, limits.connections_per_peer)
        };
        let small = Limits { connections: 20, connections_per_peer: 20, ..Limits::default() };
        assert_eq!(connections(Limits::default(), 65_536), (4096, 2048));
        assert_eq!(connections(Limits::default(), 1024), (256, 128));
        assert_eq!(connections(small, 1024), (20, 20));
        assert_eq!(connections(Limits::default(), 1), (1, 1));
    }
}
