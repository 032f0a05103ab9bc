//! Each limit has its error, over a real socket: nothing hangs, other clients are unaffected, and a
//! client that waits and retries is served.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::kit::{self, Dir, House, LIMIT, read_answer, read_head, read_until, send};
use tiffany_daemon::{Daemon, Limits};

fn limits() -> Limits {
    Limits::default()
}

/// Reads until the other side closes the connection.
fn rest(line: &mut std::net::TcpStream) -> String {
    let mut text = Vec::new();
    let _ = line.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { body_bytes: 1000, ..limits() });
    let body = format!("{{\"function\":\"echo\",\"input\":\"{}\"}}", "x".repeat(2000));
    assert_eq!(house.post("/api/v1/runs", &body).problem(), (413, "TFY0157".into()));
    assert_eq!(house.submit("echo", "e", "1").status, 201);
}

#[test]
fn a_body_that_is_said_to_be_too_long_is_refused_before_it_comes() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut line = house.connect();
    let head =
        "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
    line.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut line).problem(), (413, "TFY0157".into()));
}

#[test]
fn limits_that_make_no_sense_are_named() {
    let dir = Dir::new();
    for (limits, what) in [
        (Limits { waiting: usize::MAX, ..limits() }, "`waiting`"),
        (Limits { ping: Duration::ZERO, ..limits() }, "`ping`"),
        (Limits { connections: 0, ..limits() }, "`connections`"),
    ] {
        let daemon = Daemon::new(kit::program(), &dir.0).limits(limits);
        let error = daemon.listen("127.0.0.1:0".parse().unwrap()).open().err().unwrap();
        assert!(error.to_string().contains(what) && error.code() == "TFY0167", "{error}");
    }
}

#[test]
fn a_body_that_never_ends_is_given_up() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { body_time: Duration::from_millis(300), ..limits() });
    let mut line = house.connect();
    let head = "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{";
    line.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut line).problem(), (400, "TFY0156".into()));
}

#[test]
fn headers_that_never_end_and_lines_that_say_nothing_are_closed() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { header_time: Duration::from_millis(300), ..limits() });
    let mut slow = house.connect();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: local").unwrap();
    let mut silent = house.connect();
    let mut idle = house.connect();
    send(&mut idle, "GET", "/healthz", &[], "");
    assert_eq!(read_answer(&mut idle).status, 200);
    let begun = Instant::now();
    for line in [&mut slow, &mut silent, &mut idle] {
        assert!(!rest(line).contains("200 OK"));
    }
    assert!(begun.elapsed() < LIMIT);
    assert_eq!(house.get("/healthz").status, 200);
}

#[test]
fn headers_that_are_too_long_are_refused() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { header_bytes: 8 << 10, ..limits() });
    let long = "x".repeat(9 << 10);
    let mut line = house.connect();
    let _ = line
        .write_all(format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n").as_bytes());
    assert_eq!(read_answer(&mut line).problem(), (431, "TFY0168".into()));
    let many = "x: y\r\n".repeat(101);
    let mut line = house.connect();
    line.write_all(format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n").as_bytes()).unwrap();
    assert_eq!(read_answer(&mut line).problem(), (431, "TFY0168".into()));
    assert_eq!(house.get("/healthz").status, 200);
}

#[test]
fn what_is_no_http_is_told_so() {
    let dir = Dir::new();
    let house = House::open(&dir);
    for said in ["hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\u{1} HTTP/1.1\r\n\r\n"] {
        let mut line = house.connect();
        line.write_all(said.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut line).problem(), (400, "TFY0156".into()), "{said:?}");
    }
}

#[test]
fn who_takes_nothing_of_a_stream_gives_its_place_back() {
    let dir = Dir::new();
    let short = Duration::from_millis(200);
    let house = House::with(&dir, Limits { streams: 1, ping: short, ..limits() });
    let mut stuck = house.connect();
    send(&mut stuck, "GET", "/api/v1/events?all=true", &[], "");
    assert!(read_head(&mut stuck).contains("200 OK"));
    assert_eq!(house.get("/api/v1/events").problem(), (503, "TFY0161".into()));
    // More events than fit in the socket's buffers, and the client reads none.
    let begun = Instant::now();
    for number in 0.. {
        house.submit("steps", &format!("s{number}"), "200");
        let mut line = house.connect();
        send(&mut line, "GET", "/api/v1/events", &[], "");
        if read_head(&mut line).contains("200 OK") {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "the place does not come back");
    }
    drop(stuck);
}

#[test]
fn connections_beyond_the_limit_are_told_to_come_back() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { connections_per_peer: 2, ..limits() });
    let mut lines: Vec<_> = (0..2).map(|_| house.connect()).collect();
    for line in &mut lines {
        send(line, "GET", "/healthz", &[], "");
        assert_eq!(read_answer(line).status, 200);
    }
    let mut third = house.connect();
    let refused = read_answer(&mut third);
    assert_eq!(refused.problem(), (429, "TFY0158".into()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    lines.clear();
    let begun = Instant::now();
    loop {
        let mut line = house.connect();
        send(&mut line, "GET", "/healthz", &[], "");
        if read_answer(&mut line).status == 200 {
            break;
        }
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn requests_beyond_the_rate_are_told_how_long_to_wait() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { requests_per_second: 5, ..limits() });
    let mut line = house.connect();
    let mut ask = || {
        send(&mut line, "GET", "/healthz", &[], "");
        read_answer(&mut line)
    };
    let refused = (0..50).map(|_| ask()).find(|answer| answer.status != 200).unwrap();
    assert_eq!(refused.problem(), (429, "TFY0158".into()));
    assert!(refused.header("retry-after").is_some());
    let begun = Instant::now();
    while ask().status != 200 {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn streams_beyond_the_limit_are_refused_and_their_places_come_back() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { streams: 1, ..limits() });
    let mut first = house.connect();
    send(&mut first, "GET", "/api/v1/events", &[], "");
    assert!(read_head(&mut first).contains("200 OK"));
    let mut seen = String::new();
    read_until(&mut first, &mut seen, "event: streaming");
    let refused = house.get("/api/v1/events");
    assert_eq!(refused.problem(), (503, "TFY0161".into()));
    assert_eq!(refused.json()["title"], "more than 1 streams are open");
    drop(first);
    // A dead connection is detected only when something is sent.
    let begun = Instant::now();
    loop {
        house.submit("echo", &format!("e{}", begun.elapsed().as_nanos()), "1");
        let mut line = house.connect();
        send(&mut line, "GET", "/api/v1/events", &[], "");
        if read_head(&mut line).contains("200 OK") {
            break;
        }
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_page_of_somebody_else_does_not_get_in() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let evil = [("origin", "http://evil.example")];
    let body = r#"{"function":"echo"}"#;
    assert_eq!(house.ask("POST", "/api/v1/runs", &evil, body).problem(), (403, "TFY0174".into()));
    let mut line = house.connect();
    line.write_all(b"GET /api/v1/runs HTTP/1.1\r\nhost: evil.example\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut line).problem(), (403, "TFY0174".into()));
    // A link on another page sends no origin, and must not run code.
    for site in ["cross-site", "same-site"] {
        let refused = house.ask("GET", "/api/v1/runs/x/step", &[("sec-fetch-site", site)], "");
        assert_eq!(refused.problem(), (403, "TFY0174".into()));
    }
    let own = [("sec-fetch-site", "same-origin")];
    let absent = house.ask("GET", "/api/v1/runs/x/step", &own, "");
    assert_eq!(absent.problem(), (404, "TFY0041".into()));
    let bad = [("authorization", "Bearer nonsense")];
    let refused = house.ask("GET", "/api/v1/runs", &bad, "");
    assert_eq!(refused.problem(), (401, "TFY0171".into()));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
}

#[test]
fn what_is_no_json_is_refused() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut line = house.connect();
    let head = "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/xml\r\ncontent-length: 4\r\n\r\n<a/>";
    line.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_answer(&mut line).problem(), (415, "TFY0166".into()));
}

/// A request names its host once, and only in its header: anything else could be another host's.
#[test]
fn a_request_with_an_ambiguous_head_is_refused() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let cases = [
        "GET /api/v1/runs HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
        "GET http://evil.example/api/v1/runs HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET http://localhost/api/v1/runs HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /api/v1/runs/x/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\ncontent-type: application/json\r\ncontent-type: text/plain\r\n\r\n",
        "GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n\r\n",
    ];
    for said in cases {
        let mut line = house.connect();
        line.write_all(said.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut line).problem(), (400, "TFY0156".into()), "{said:?}");
    }
    // HTTP/1.0 has no `Host` header, and some health checks use it.
    let mut line = house.connect();
    line.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut line).status, 200);
}

#[test]
fn an_error_of_the_program_has_a_next_step() {
    let dir = Dir::new();
    let house = House::of(&dir.0, |dir| {
        let program = kit::program().register("grumpy", |(): ()| async {
            let _answers =
                tiffany::durable::on_question("name", |(): ()| Err::<(), _>("go away".to_owned()))?;
            tiffany::durable::receive::<()>("go").await
        });
        Daemon::new(program, dir)
    });
    assert_eq!(house.submit("grumpy", "g", "null").status, 201);
    let begun = Instant::now();
    let answer = loop {
        let answer = house.post("/api/v1/runs/g/queries/name", "");
        if answer.body.contains("go away") {
            break answer;
        }
        assert!(begun.elapsed() < LIMIT, "{answer:?}");
    };
    assert_eq!(answer.problem().1, "TFY0001");
}
