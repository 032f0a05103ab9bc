//! A request to a collector: HTTP/1.1, with a connection per request and limits on time and size.
//! Collectors are close by, and batches are rare.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::otlp::settings::{OtlpError, Settings};

/// How long connecting, sending and receiving may take.
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a response that are read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// The address of a collector.
#[derive(Clone)]
pub(super) struct Endpoint {
    host: String,
    path: String,
    headers: String,
}

/// Why a collector did not accept a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A temporary failure, which is worth a retry.
    ForNow(String),
    /// A permanent failure.
    ForGood(String),
}

impl Endpoint {
    pub(super) fn parse(settings: &Settings) -> Result<Endpoint, OtlpError> {
        let failed = |why: &str| Err(OtlpError(why.to_owned()));
        let Some(rest) = settings.endpoint.strip_prefix("http://") else {
            return failed(
                "its address does not begin with http:// (TLS is a collector's business)",
            );
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |text: &str| !text.contains(|char: char| char.is_control() || char == ' ');
        if host.is_empty() || host.contains('@') || !is_plain(host) || !is_plain(path) {
            return failed("its address has no host, or more than a host, a port and a path");
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:4318") };
        let mut headers = String::new();
        for (name, value) in &settings.headers {
            let is_name = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name || value.contains(|char: char| char.is_control()) {
                return failed(&format!("the header `{}` is none", name.escape_debug()));
            }
            headers += &format!("{name}: {value}\r\n");
        }
        Ok(Endpoint { host, path: path.trim_end_matches('/').to_owned(), headers })
    }

    /// Returns the name of the collector in log lines.
    pub(super) fn name(&self) -> &str {
        &self.host
    }

    /// Posts JSON to one of the collector's paths.
    pub(super) fn post(&self, what: &str, body: &str) -> Result<(), Refused> {
        let sent = self.send(what, body).map_err(|error| Refused::ForNow(error.to_string()))?;
        match sent {
            200..300 => Ok(()),
            // The statuses that the specification allows to retry.
            429 | 502 | 503 | 504 => Err(Refused::ForNow(format!("it answered {sent}"))),
            other => Err(Refused::ForGood(format!("it answered {other}"))),
        }
    }

    fn send(&self, what: &str, body: &str) -> std::io::Result<u16> {
        let mut last = std::io::Error::other("its name has no address");
        for address in self.host.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, COLLECTOR_TIMEOUT) {
                Ok(stream) => return self.exchange(stream, what, body),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn exchange(&self, mut stream: TcpStream, what: &str, body: &str) -> std::io::Result<u16> {
        stream.set_read_timeout(Some(COLLECTOR_TIMEOUT))?;
        stream.set_write_timeout(Some(COLLECTOR_TIMEOUT))?;
        let Endpoint { host, path, headers } = self;
        let head = format!(
            "POST {path}{what} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n{headers}\r\n",
            body.len(),
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut status = String::new();
        let mut answer = BufReader::new(stream.take(MAX_ANSWER_BYTES));
        answer.read_line(&mut status)?;
        let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        // The rest of the response is read so that the collector is not cut off; its content is
        // ignored.
        let _ = std::io::copy(&mut answer, &mut std::io::sink());
        code.ok_or_else(|| std::io::Error::other("it does not speak HTTP"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        let parsed = |endpoint: &str| Endpoint::parse(&Settings::new(endpoint));
        let endpoint = parsed("http://collector/otlp/").ok().unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.path.as_str()), ("collector:4318", "/otlp"));
        assert_eq!(parsed("http://[::1]:99").ok().unwrap().host, "[::1]:99");
        for bad in ["", "https://x", "http://", "http:///v1", "http://a:b@c", "http://a b", "x"] {
            let error = parsed(bad).err().unwrap_or_else(|| panic!("{bad}")).to_string();
            assert!(error.contains("[TFY0197]") && !error.contains("a:b"), "{error}");
        }
        let mut settings = Settings::new("http://x");
        settings.headers.insert("a".into(), "b\r\nc: d".into());
        assert!(Endpoint::parse(&settings).is_err(), "no header smuggles another in");
    }
}
