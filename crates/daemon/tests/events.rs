//! The activity log over SSE and WebSocket: events arrive in order, a client that reconnects
//! continues where it was, and a client that floods or doesn't answer is disconnected.

use std::io::{Read, Write};
use std::time::Duration;

use crate::kit::{Dir, House, LIMIT, program, read_head, read_until, send};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tiffany_daemon::auth::{Role, Tokens};
use tiffany_daemon::config::Config;
use tiffany_daemon::{Daemon, Limits};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

fn with_tokio<T>(work: impl Future<Output = T>) -> T {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(LIMIT, work).await };
    threads.block_on(limited).unwrap()
}

async fn watch(house: &House, path: &str) -> Socket {
    let address = format!("ws://{}{path}", house.address);
    let (socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
    socket
}

/// Returns the next text message, as JSON.
async fn next(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Close(frame) => panic!("closed: {frame:?}"),
            _ => {}
        }
    }
}

#[test]
fn a_watcher_sees_a_run_from_its_beginning_to_its_end() {
    let dir = Dir::new();
    let house = House::open(&dir);
    with_tokio(async {
        let mut socket = watch(&house, "/api/v1/events").await;
        let hello = next(&mut socket).await;
        let first = hello["streaming"]["next_seq"].as_u64().unwrap();
        // JavaScript can represent the number exactly.
        assert!(hello["streaming"]["epoch"].as_u64().unwrap() < 1 << 53, "{hello}");
        house.submit("progress", "p", "5");
        let (mut stages, mut seqs) = (Vec::new(), Vec::new());
        loop {
            let event = next(&mut socket).await["event"].clone();
            seqs.push(event["seq"].as_u64().unwrap());
            stages.push(event["stage"].as_str().unwrap().to_owned());
            if stages.last().is_some_and(|stage| stage == "Completed") {
                break;
            }
        }
        assert_eq!(stages[0], "ReceivedInstruction");
        assert_eq!(stages.iter().filter(|stage| *stage == "Progress").count(), 5, "{stages:?}");
        assert!(seqs[0] >= first && seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
        // A late client receives one run from the beginning.
        let mut late = watch(&house, "/api/v1/runs/p/events?from=1").await;
        next(&mut late).await;
        assert_eq!(next(&mut late).await["event"]["stage"], "ReceivedInstruction");
    });
}

#[test]
fn a_browser_goes_on_where_it_was() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut line = house.connect();
    send(&mut line, "GET", "/api/v1/events", &[], "");
    read_head(&mut line);
    let mut seen = String::new();
    read_until(&mut line, &mut seen, "event: streaming");
    house.submit("echo", "a", "1");
    read_until(&mut line, &mut seen, "\"Completed\"");
    let first_id = seen.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    let ids: Vec<&str> = seen.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    drop(line);
    let mut line = house.connect();
    send(&mut line, "GET", "/api/v1/events", &[("last-event-id", &first_id)], "");
    read_head(&mut line);
    let mut again = String::new();
    read_until(&mut line, &mut again, "\"Completed\"");
    let second = again.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    assert_eq!(second, ids[1]);
    // After a restart, only the events of the new process are available.
    drop(line);
    let mut line = house.connect();
    send(&mut line, "GET", "/api/v1/events", &[("last-event-id", "1-999999")], "");
    read_head(&mut line);
    let mut other = String::new();
    read_until(&mut line, &mut other, "\"restarted\":true");
    read_until(&mut line, &mut other, "ReceivedInstruction");
}

#[test]
fn the_end_of_the_daemon_is_told() {
    let dir = Dir::new();
    let house = House::open(&dir);
    with_tokio(async {
        let mut socket = watch(&house, "/api/v1/events").await;
        next(&mut socket).await;
        house.end();
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Close(frame) => {
                    let frame = frame.unwrap();
                    assert_eq!(frame.code, CloseCode::Away);
                    assert!(frame.reason.contains("ending"), "{frame:?}");
                    break;
                }
                other => assert!(!other.is_text(), "{other:?}"),
            }
        }
    });
}

#[test]
fn who_floods_is_closed_with_a_reason() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { messages_per_second: 10, ..Limits::default() });
    with_tokio(async {
        let mut socket = watch(&house, "/api/v1/events").await;
        for _ in 0..100 {
            if socket.send(Message::Text("x".into())).await.is_err() {
                break;
            }
        }
        let mut closed = None;
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                closed = frame;
            }
        }
        assert_eq!(closed.unwrap().code, CloseCode::Policy);
        // Other clients are unaffected.
        let mut third = watch(&house, "/api/v1/events").await;
        assert!(next(&mut third).await["streaming"].is_object());
    });
}

#[test]
fn what_is_too_long_or_no_message_is_closed_with_a_reason() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let wish = "GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // The header of a message of a gigabyte; a message without a mask.
    let long = [0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4];
    for (said, code) in [(&long[..], 1009_u16), (&[0x81, 1, b'x'], 1002)] {
        let mut line = house.connect();
        line.write_all(wish.as_bytes()).unwrap();
        assert!(read_head(&mut line).starts_with("HTTP/1.1 101"));
        line.write_all(said).unwrap();
        let mut heard = Vec::new();
        line.read_to_end(&mut heard).unwrap();
        let close = heard.windows(4).find(|frame| frame[0] == 0x88).unwrap();
        assert_eq!(u16::from_be_bytes([close[2], close[3]]), code, "{heard:?}");
    }
}

#[test]
fn who_does_not_answer_a_ping_is_closed() {
    let dir = Dir::new();
    let house = House::with(&dir, Limits { ping: Duration::from_millis(200), ..Limits::default() });
    // A client that upgrades and then sends nothing more.
    let mut line = house.connect();
    let headers = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    send(&mut line, "GET", "/api/v1/events", &headers, "");
    assert!(read_head(&mut line).starts_with("HTTP/1.1 101"));
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut line, &mut rest).unwrap();
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("no answer to a ping"), "{text}");
    let half = [("upgrade", "websocket")];
    assert_eq!(house.ask("GET", "/api/v1/events", &half, "").problem(), (400, "TFY0156".into()));
}

#[test]
fn who_has_no_good_token_any_more_is_told_nothing_more() {
    let dir = Dir::new();
    let house = House::of(&dir.0, |dir| {
        let config = Config::parse("require_token = true", &dir.join("t.toml")).unwrap();
        let limits = Limits { ping: Duration::from_millis(100), ..Limits::default() };
        Daemon::new(program(), dir).config(config).limits(limits)
    });
    let tokens = Tokens::at(&dir.0);
    let bearer =
        |name: &str| format!("Bearer {}", tokens.add(name, Role::Operator, None).unwrap().reveal());
    let (ada, bob) = (bearer("ada"), bearer("bob"));
    let body = "{\"function\":\"wait\",\"id\":\"w\"}";
    assert_eq!(house.ask("POST", "/api/v1/runs", &[("authorization", &ada)], body).status, 201);
    let open = |token: &str, path: &str| {
        let mut line = house.connect();
        let headers = [("authorization", token), ("accept", "text/event-stream")];
        send(&mut line, "GET", path, &headers, "");
        assert!(read_head(&mut line).starts_with("HTTP/1.1 200"));
        line
    };
    let mut events = open(&ada, "/api/v1/events");
    let mut records = open(&ada, "/api/v1/runs/w/records");
    let mut stays = open(&bob, "/api/v1/events");
    with_tokio(async {
        let address = format!("ws://{}/api/v1/events", house.address);
        let mut request = address.into_client_request().unwrap();
        request.headers_mut().insert("authorization", ada.parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        next(&mut socket).await;
        tokens.remove("ada").unwrap();
        let frame = loop {
            if let Message::Close(frame) = socket.next().await.unwrap().unwrap() {
                break frame.unwrap();
            }
        };
        assert_eq!(frame.code, CloseCode::Policy);
        assert!(frame.reason.contains("TFY0171"), "{frame:?}");
    });
    for line in [&mut events, &mut records] {
        let mut seen = String::new();
        read_until(line, &mut seen, "event: end");
        assert!(seen.contains("[TFY0171]"), "{seen}");
    }
    let body = "{\"function\":\"progress\",\"id\":\"p\",\"input\":1}";
    assert_eq!(house.ask("POST", "/api/v1/runs", &[("authorization", &bob)], body).status, 201);
    read_until(&mut stays, &mut String::new(), "Completed");
}
