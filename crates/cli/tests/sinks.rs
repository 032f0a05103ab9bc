//! A daemon in a real process that forwards its activity to real servers, which are missing at
//! first, start, are killed and restart: runs continue, nothing waits, and the events in between
//! arrive.

#[path = "../../daemon/tests/sinks/server.rs"]
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::kit::served::Served;
use crate::kit::{Home, orders};
use server::{LIMIT, SECRET, Server};

/// Starts a daemon with this section in its configuration, and returns its log too.
fn serve(home: &Home, sink: &str) -> Served {
    let config =
        format!("listen = '127.0.0.1:0'\nnode = 'blade-1'\n[log]\nlevel = 'warn'\n{sink}\n");
    std::fs::write(home.0.join("tiffany.toml"), config).unwrap();
    Served::start(home, &orders(), &["--config", "tiffany.toml"])
}

/// Starts a run and waits until it ends, which no sink may delay.
fn work(served: &Served, id: &str) {
    let begun = Instant::now();
    let body = format!("{{\"function\":\"echo\",\"id\":\"{id}\",\"input\":\"{id}\"}}");
    assert_eq!(served.ask("POST", "/api/v1/runs", &body).0, 201);
    let (_, shown) = served.ask("GET", &format!("/api/v1/runs/{id}?wait=30"), "");
    assert_eq!(shown["state"], "completed", "{shown}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{id} took {:?}", begun.elapsed());
    assert_eq!(served.ask("GET", "/readyz", "").0, 200);
}

/// Returns a value from the Prometheus metrics.
fn metric(served: &Served, name: &str) -> f64 {
    let mut line = TcpStream::connect(&served.address).unwrap();
    line.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    line.read_to_string(&mut text).unwrap();
    let mut values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let value = values.next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns everything in the stream of all runs; nothing while the server loads its data after a
/// restart.
fn in_redis(server: &Server) -> String {
    let mut line = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    write!(line, "AUTH {SECRET}\r\nXRANGE tiffany - +\r\nPING\r\n").unwrap();
    line.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"+PONG\r\n") {
        // The server reports that it is loading before it answers anything else.
        if text.windows(8).any(|part| part == b"-LOADING") {
            return String::new();
        }
        let mut piece = [0; 4096];
        match line.read(&mut piece).unwrap() {
            0 => panic!("{}", String::from_utf8_lossy(&text)),
            count => text.extend(&piece[..count]),
        }
    }
    String::from_utf8(text).unwrap()
}

fn ends_well(mut served: Served) {
    served.signal("-TERM");
    let mut said = String::new();
    served.lines.read_to_string(&mut said).unwrap();
    assert!(!said.contains(SECRET), "{said}");
    assert_eq!(served.end(), Some(0));
}

#[test]
fn redis_may_come_and_go() {
    let mut server = Server::redis();
    server.kill();
    let home = Home::new();
    let port = server.port;
    let served =
        serve(&home, &format!("[sinks.redis]\nurl = 'redis://:{SECRET}@127.0.0.1:{port}'"));
    work(&served, "before");
    until("it is not noticed", || metric(&served, "tiffany_sink_failures_total") > 0.0);
    assert_eq!(metric(&served, "tiffany_sink_connected"), 0.0);
    server.run();
    // Events from before the server started arrive too.
    until("nothing arrives", || in_redis(&server).contains("\"before\""));
    work(&served, "between");
    until("it does not arrive", || in_redis(&server).contains("\"between\""));
    server.kill();
    work(&served, "away");
    server.run();
    work(&served, "after");
    let all = ["\"before\"", "\"between\"", "\"away\"", "\"after\""];
    until("something is missing", || all.iter().all(|id| in_redis(&server).contains(id)));
    assert_eq!(metric(&served, "tiffany_sink_connected"), 1.0);
    assert_eq!(metric(&served, "tiffany_sink_lost_total"), 0.0);
    // Without a server, shutting down is quick as well.
    server.kill();
    work(&served, "last");
    ends_well(served);
}

/// Receives messages that are published from now on.
struct Subscriber(TcpStream, String);

impl Subscriber {
    fn new(server: &Server) -> Subscriber {
        let mut line = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let who = format!("{{\"user\":\"ada\",\"pass\":\"{SECRET}\",\"verbose\":false}}");
        write!(line, "CONNECT {who}\r\nSUB tiffany.> 1\r\nPING\r\n").unwrap();
        line.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut subscriber = Subscriber(line, String::new());
        until("it does not answer", || subscriber.has("PONG\r\n"));
        subscriber
    }

    fn has(&mut self, what: &str) -> bool {
        let mut piece = [0; 4096];
        if let Ok(count) = self.0.read(&mut piece) {
            self.1.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
        self.1.contains(what)
    }
}

#[test]
fn nats_may_come_and_go() {
    let mut server = Server::nats();
    server.kill();
    let home = Home::new();
    let port = server.port;
    let served =
        serve(&home, &format!("[sinks.nats]\nurl = 'nats://ada:{SECRET}@127.0.0.1:{port}'"));
    work(&served, "before");
    until("it is not noticed", || metric(&served, "tiffany_sink_failures_total") > 0.0);
    for id in ["between", "after"] {
        server.run();
        let mut subscriber = Subscriber::new(&server);
        until("it does not come back", || metric(&served, "tiffany_sink_connected") > 0.0);
        work(&served, id);
        until("it does not arrive", || subscriber.has(&format!("\"{id}\"")));
        assert!(subscriber.1.contains("MSG tiffany.blade-1."), "{}", subscriber.1);
        server.kill();
        work(&served, &format!("away-{id}"));
    }
    ends_well(served);
}
