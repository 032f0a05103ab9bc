//! Records of a run, and the long values that they name.

use serde_json::{Value, json};

use crate::kit::{Dir, House, read_answer, read_head, read_until, send};

#[test]
fn records_come_as_a_page_as_lines_and_as_events_from_any_on() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    let page = house.get("/api/v1/runs/w/records").json();
    assert_eq!(page["records"][0]["type"], "RunStart");
    let next = page["next"].as_u64().unwrap();
    let mut follows = house.connect();
    let accept = [("accept", "text/event-stream")];
    send(&mut follows, "GET", &format!("/api/v1/runs/w/records?from={next}"), &accept, "");
    assert!(read_head(&mut follows).contains("text/event-stream"));
    house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    let mut seen = String::new();
    read_until(&mut follows, &mut seen, "event: end\ndata: {\"reason\":\"over\"}");
    assert!(
        seen.starts_with(&format!("id: {next}\nevent: record\ndata: {{\"v\":1,\"seq\":{next},")),
        "{seen}"
    );
    let lines = house.ask(
        "GET",
        "/api/v1/runs/w/records?from=2&limit=2",
        &[("accept", "application/x-ndjson")],
        "",
    );
    let seqs: Vec<u64> = lines
        .body
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [2, 3]);
    // The headers of a browser that reconnects.
    let again = [("accept", "text/event-stream"), ("last-event-id", "1")];
    let events = house.ask("GET", "/api/v1/runs/w/records", &again, "");
    assert!(events.body.starts_with("id: 2\n"), "{}", events.body);
    let last = house.get(&format!("/api/v1/runs/w/records?from={}", u64::MAX)).json();
    assert_eq!((last["records"].as_array().unwrap().len(), &last["over"]), (0, &json!(true)));
}

#[test]
fn lines_that_are_followed_end_with_a_reason_if_the_run_goes_on() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    let mut follows = house.connect();
    let lines = [("accept", "application/x-ndjson")];
    send(&mut follows, "GET", "/api/v1/runs/w/records?follow=true", &lines, "");
    read_head(&mut follows);
    let mut seen = String::new();
    read_until(&mut follows, &mut seen, "\"seq\":1,");
    house.end();
    read_until(&mut follows, &mut seen, "{\"end\":\"the daemon is ending\"}\n");
}

#[test]
fn a_long_value_is_read_by_its_hash() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let long = "long ".repeat(40_000);
    house.submit("echo", "e", &format!("{{\"text\":\"{long}\"}}"));
    house.wait_for("e", "completed");
    let input =
        house.get("/api/v1/runs/e/records?from=1&limit=1").json()["records"][0]["input"].clone();
    let hash = input["$blob"].as_str().unwrap();
    let path = format!("/api/v1/runs/e/blobs/{hash}");
    // Blobs reach their files after the log.
    let mut told = house.get(&path);
    for _ in 0..500 {
        if told.status == 200 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        told = house.get(&path);
    }
    assert_eq!(told.header("content-type"), Some("application/json"));
    assert_eq!(told.json()["text"], long);
    let other = "0".repeat(hash.len());
    assert_eq!(
        house.get(&format!("/api/v1/runs/e/blobs/{other}")).problem(),
        (404, "TFY0111".into())
    );
    for bad in ["x", "..%2f..%2ftokens", "%00"] {
        assert_eq!(house.get(&format!("/api/v1/runs/e/blobs/{bad}")).problem().0, 400, "{bad}");
    }
    assert_eq!(house.get(&format!("/api/v1/runs/nobody/blobs/{hash}")).problem().0, 404);
}

#[test]
fn what_was_acknowledged_is_in_the_records_that_are_read_next() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut line = house.connect();
    for number in 0..300 {
        let body = format!("{{\"function\":\"wait\",\"id\":\"w-{number}\",\"input\":null}}");
        send(&mut line, "POST", "/api/v1/runs", &[], &body);
        assert_eq!(read_answer(&mut line).status, 201);
        let path = format!("/api/v1/runs/w-{number}/records");
        let lines = ("accept", "application/x-ndjson");
        send(&mut line, "GET", &path, &[lines], "");
        let read = read_answer(&mut line).body;
        assert!(read.contains("\"RunStart\""), "{number}: {read:?}");
        // A message also occurs in the record that follows it.
        let message = format!("\"m-{number}\"");
        let body = format!("{{\"name\":\"other\",\"message\":{message}}}");
        send(&mut line, "POST", &format!("/api/v1/runs/w-{number}/messages"), &[], &body);
        assert_eq!(read_answer(&mut line).status, 204);
        send(&mut line, "GET", &path, &[], "");
        let page = read_answer(&mut line).body;
        assert!(page.contains(&message), "{number}: {page:?}");
    }
}
