//! What can be asked over HTTP, and what comes of it: started, listed, shown, changed, removed; and what bad requests get.

mod kit;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kit::{Dir, House, LIMIT, read_answer, read_head, read_until, send};
use serde_json::{Value, json};
use tiffany::binding::{Language, Wanted, Way};
use tiffany::control::Function;
use tiffany::kernel::{BoxCoroutine, Frame};
use tiffany::redact::Redactions;
use tiffany::{Site, TaskError, Uuid};
use tiffany_daemon::Daemon;

#[test]
fn a_run_is_started_once_however_often_it_is_asked_for() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let first = house.submit("wait", "w-1", "null");
    assert_eq!((first.status, &first.json()["new"]), (201, &json!(true)));
    let place = first.header("location").unwrap().to_owned();
    assert_eq!(house.get(&place).json()["id"], "w-1");
    let second = house.submit("wait", "w-1", "null");
    assert_eq!((second.status, &second.json()["new"]), (200, &json!(false)));
    assert_eq!(second.json()["uuid"], first.json()["uuid"]);
    assert_eq!(house.submit("wait", "w-1", "1").problem(), (409, "TFY0037".into()));
    assert_eq!(house.submit("echo", "w-1", "null").problem(), (409, "TFY0037".into()));
    // By a key instead of an id, and by neither.
    let by_key = |input: &str| {
        let body = format!("{{\"function\":\"echo\",\"input\":{input}}}");
        house.ask("POST", "/api/v1/runs", &[("idempotency-key", "k1")], &body)
    };
    assert_eq!((by_key("1").status, by_key("1").status), (201, 200));
    assert_eq!(by_key("2").problem(), (409, "TFY0037".into()));
    let bare = || house.post("/api/v1/runs", r#"{"function":"echo"}"#).json()["id"].clone();
    assert_ne!(bare(), bare());
    let empty =
        house.ask("POST", "/api/v1/runs", &[("idempotency-key", "")], r#"{"function":"echo"}"#);
    assert_eq!(empty.problem(), (400, "TFY0156".into()));
    let list = house.post("/api/v1/runs", r#"["echo","e-1",0]"#);
    assert_eq!(list.problem(), (400, "TFY0156".into()));
    assert_eq!(house.get("/api/v1/runs").json()["total"], 4);
}

#[test]
fn only_a_whole_name_changes_a_run() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let run = house.submit("wait", "w", "null").json()["uuid"].as_str().unwrap().to_owned();
    let begins = &run[..8];
    // One may look by the beginning of a UUID.
    assert_eq!(house.get(&format!("/api/v1/runs/{begins}")).json()["id"], "w");
    let path = |what: &str| format!("/api/v1/runs/{begins}{what}");
    assert_eq!(house.post(&path("/cancel"), "").problem(), (404, "TFY0041".into()));
    let message = r#"{"name":"go","message":1}"#;
    assert_eq!(house.post(&path("/messages"), message).problem(), (404, "TFY0041".into()));
    assert_eq!(house.ask("DELETE", &path(""), &[], "").problem(), (404, "TFY0041".into()));
    assert_eq!(house.post(&path("/compact"), "").problem(), (404, "TFY0041".into()));
    assert_eq!(house.get("/api/v1/runs/w").json()["state"], "live");
    assert_eq!(house.post(&format!("/api/v1/runs/{run}/cancel"), "").status, 204);
    house.wait_for("w", "cancelled");
}

#[test]
fn an_approval_is_that_of_the_run_which_is_named_whatever_that_is_called() {
    let dir = Dir::new();
    let house = House::open(&dir);
    for id in ["team/a", "shop", "shop/2"] {
        house.submit("ask", id, "\"ship it?\"");
    }
    let open = || house.get("/api/v1/approvals").json()["approvals"].as_array().unwrap().len();
    let begun = Instant::now();
    while open() < 3 {
        assert!(begun.elapsed() < LIMIT, "not all of them ask");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(house.post("/api/v1/approvals/team%2Fa/approve", "").status, 200);
    house.wait_for("team%2Fa", "completed");
    // This could be either, so it is neither.
    let both = house.post("/api/v1/approvals/shop%2F2/approve", "");
    assert_eq!(both.problem(), (400, "TFY0156".into()));
    assert_eq!(open(), 2);
    assert_eq!(house.post("/api/v1/approvals/shop/approve", "").status, 200);
    house.wait_for("shop", "completed");
}

#[test]
fn who_is_wrong_about_a_question_keeps_nobody_from_listing_runs() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let run = house.submit("wait", "w", "null").json()["uuid"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let path = format!("/api/v1/approvals/{run}/{}/approve", 9000 + number);
            let house = &house;
            scope.spawn(move || assert_eq!(house.post(&path, "").problem().0, 404));
        }
        // Those look again and again for what may come yet, one after the other: four seconds in all.
        let begun = Instant::now();
        for _ in 0..5 {
            assert_eq!(house.get("/api/v1/runs").json()["total"], 1);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}

#[test]
fn what_is_said_of_a_bad_input_is_short() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let told = house.submit("steps", "s", &format!("\"{}\"", "x".repeat(1 << 20)));
    assert_eq!(told.problem().0, 422);
    assert!(told.body.len() < 2_000, "{} bytes", told.body.len());
}

#[test]
fn a_secret_is_taken_out_before_a_text_is_cut() {
    let dir = Dir::new();
    let rules = Redactions::new().pattern("sk-[0-9]{10}").unwrap();
    let house = House::of(&dir.0, |dir| {
        Daemon::new(kit::program().redact(rules), dir).listen(([127, 0, 0, 1], 0).into())
    });
    // Who has asked once is told of later runs from memory, where secrets are what they are.
    house.get("/api/v1/runs");
    // A message is told up to its 300th letter, which is in the middle of the key.
    house.submit("fail", "f", &format!("\"{}sk-0123456789\"", "y".repeat(294)));
    let told = house.wait_for("f", "failed")["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("y[redac…") && !told.contains("sk-"), "{told}");
}

#[test]
fn a_value_and_an_error_come_back_as_they_are() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("echo", "e", r#"{"tea":["ä\u001b[31m",1.5,null]}"#);
    let shown = house.wait_for("e", "completed");
    assert_eq!(shown["value"], json!({ "tea": ["ä\u{1b}[31m", 1.5, null] }));
    house.submit("fail", "f", "\"no luck\"");
    let shown = house.wait_for("f", "failed");
    assert_eq!(shown["error"], json!({ "code": "TFY0001", "message": "no luck" }));
    let list = house.get("/api/v1/runs?state=failed,completed&sort=id&order=asc&limit=1").json();
    assert_eq!((&list["runs"][0]["id"], &list["total"]), (&json!("e"), &json!(2)));
    let next = list["next"].as_str().unwrap();
    let page =
        house.get(&format!("/api/v1/runs?state=failed,completed&sort=id&order=asc&after={next}"));
    assert_eq!(page.json()["runs"][0]["id"], "f");
}

#[test]
fn runs_are_told_asked_and_cancelled() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    assert_eq!(house.post("/api/v1/runs/w/queries/name", "").json(), json!({ "answer": "Ada" }));
    assert_eq!(house.post("/api/v1/runs/w/queries/age", "").problem(), (404, "TFY0044".into()));
    let sent = house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":{"x":1}}"#);
    assert_eq!(sent.status, 204);
    assert_eq!(house.wait_for("w", "completed")["value"], json!({ "x": 1 }));
    let late = house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    assert_eq!(late.problem(), (409, "TFY0042".into()));
    house.submit("promise", "p", "null");
    let shown = house.get("/api/v1/runs/p").json();
    let promise = shown["promises"][0].as_str().unwrap().to_owned();
    let settle = |body: &str| house.post(&format!("/api/v1/promises/{promise}"), body);
    assert_eq!(settle("{}").problem(), (400, "TFY0156".into()));
    assert_eq!(settle(r#"{"value":7,"error":null}"#).problem(), (400, "TFY0156".into()));
    assert_eq!(settle(r#"{"value":7}"#).json()["first"], true);
    assert_eq!(house.wait_for("p", "completed")["value"], 7);
    // `null` is a value like any other.
    house.submit("promise", "n", "null");
    let shown = house.get("/api/v1/runs/n").json();
    let promise = shown["promises"][0].as_str().unwrap().to_owned();
    let settled = house.post(&format!("/api/v1/promises/{promise}"), r#"{"value":null}"#);
    assert_eq!(settled.json()["first"], true, "{settled:?}");
    assert_eq!(house.wait_for("n", "completed")["value"], Value::Null);
    house.submit("wait", "c", "null");
    assert_eq!(house.post("/api/v1/runs/c/cancel", "").status, 204);
    house.wait_for("c", "cancelled");
    assert_eq!(house.post("/api/v1/runs/c/cancel", "").problem(), (409, "TFY0042".into()));
}

#[test]
fn a_second_cancel_ends_a_run_whose_cleanup_does_not_end() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("cling", "c", "null");
    assert_eq!(house.post("/api/v1/runs/c/cancel", "").status, 204);
    // Its cleanup has begun when it has spawned another task.
    let spawned = || {
        let records = house.get("/api/v1/runs/c/records?type=TaskSpawn").json();
        records["matched"].as_u64().unwrap()
    };
    let began = Instant::now();
    while spawned() < 3 {
        assert!(began.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(house.get("/api/v1/runs/c").json()["state"], "live");
    assert_eq!(house.post("/api/v1/runs/c/cancel", "").status, 204);
    house.wait_for("c", "cancelled");
}

#[test]
fn a_person_decides_a_question() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("ask", "a", "\"ship it?\"");
    let open = house.get("/api/v1/approvals").json();
    assert_eq!(open["approvals"][0]["question"], "ship it?");
    let id = open["approvals"][0]["id"].as_str().unwrap();
    let decided =
        house.post(&format!("/api/v1/approvals/{id}/approve"), r#"{"because":"why not"}"#);
    assert_eq!(decided.json()["by"], "local", "{decided:?}");
    assert_eq!(house.wait_for("a", "completed")["value"], "yes");
    let late = |house: &House| {
        let again = house.post(&format!("/api/v1/approvals/{id}/reject"), "");
        assert_eq!((again.status, &again.json()["code"]), (409, &"TFY0182".into()), "{again:?}");
        assert!(again.body.contains("local said `yes`"), "{again:?}");
    };
    late(&house);
    house.close();
    late(&House::open(&dir));
}

#[test]
fn who_says_no_cannot_choose_something_else_by_it() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("ask", "a", "\"ship it?\"");
    let id =
        house.get("/api/v1/approvals").json()["approvals"][0]["id"].as_str().unwrap().to_owned();
    for path in [id.clone(), id.replace('/', "%2F"), "a".into()] {
        let path = format!("/api/v1/approvals/{path}/reject");
        let refused = house.post(&path, r#"{"choice":"yes"}"#);
        assert_eq!(refused.problem(), (400, "TFY0156".into()), "{path}");
    }
    assert_eq!(house.get("/api/v1/runs/a").json()["state"], "live");
    let decided = house.post(&format!("/api/v1/approvals/{id}/reject"), "").json();
    assert_eq!(decided["choice"], "no");
    assert_eq!(house.wait_for("a", "completed")["value"], "no");
}

#[test]
fn a_question_is_named_by_its_id_or_by_its_run() {
    let dir = Dir::new();
    let house = House::open(&dir);
    for (run, path) in [("a", "a/{record}"), ("b", "b"), ("c", "{run}%2F{record}")] {
        house.submit("ask", run, "\"ship it?\"");
        let open = house.get("/api/v1/approvals").json();
        let (uuid, record) = open["approvals"][0]["id"].as_str().unwrap().split_once('/').unwrap();
        let path = path.replace("{run}", uuid).replace("{record}", record);
        let decided = house.post(&format!("/api/v1/approvals/{path}/approve"), "");
        assert_eq!(decided.status, 200, "{path}: {decided:?}");
        assert_eq!(house.wait_for(run, "completed")["value"], "yes");
    }
    let over = house.post("/api/v1/approvals/a/approve", "");
    assert_eq!(over.problem(), (409, "TFY0182".into()));
    assert!(over.body.contains("`a/2` is decided: local said `yes` at 20"), "{over:?}");
    house.submit("echo", "e", "1");
    let never = house.post("/api/v1/approvals/e/approve", "");
    assert_eq!(never.problem(), (404, "TFY0181".into()));
    let nobody = house.post("/api/v1/approvals/nobody/reject", "");
    assert_eq!(nobody.problem(), (404, "TFY0041".into()));
    house.submit("ask_twice", "d", "null");
    let several = house.post("/api/v1/approvals/d/approve", "");
    assert_eq!(several.problem(), (400, "TFY0156".into()));
}

#[test]
fn null_is_a_value_for_forks_and_for_steps_in_doubt() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("work", "w", "1");
    house.wait_for("w", "completed");
    let records = house.get("/api/v1/runs/w/records").json();
    let records = records["records"].as_array().unwrap();
    let at = &records.iter().find(|one| one["type"] == "EffectResult").unwrap()["seq"];
    // It has another shape than the answer that was there: so it was not left out.
    let body = format!("{{\"at\":{at},\"id\":\"f\",\"value\":null}}");
    let refused = house.post("/api/v1/runs/w/forks", &body);
    assert_eq!(refused.status, 422, "{refused:?}");
    // Such a step there is not, but it is not the value that is missed.
    let decided = house.post("/api/v1/doubts", r#"{"key":"x","done":null}"#);
    assert_eq!(decided.problem(), (422, "TFY0032".into()));
}

#[test]
fn those_who_wait_for_a_run_leave_the_loop_alone() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    let count = |name: &str| {
        let metrics = house.get("/metrics").body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{metrics}")).parse::<f64>().unwrap()
    };
    let mut lines: Vec<_> = (0..8).map(|_| house.connect()).collect();
    for line in &mut lines {
        // Not all at once: those who look at the same moment wake it once.
        std::thread::sleep(Duration::from_millis(7));
        send(line, "GET", "/api/v1/runs/w?wait=30", &[], "");
    }
    let begun = Instant::now();
    while count("tiffany_event_readers") < 8.0 {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = count("tiffany_loop_waits_total");
    std::thread::sleep(Duration::from_millis(500));
    let woken = count("tiffany_loop_waits_total") - before;
    assert!(woken < 30.0, "{woken}");
    // The end is told at once.
    house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    for line in &mut lines {
        assert_eq!(read_answer(line).json()["state"], "completed");
    }
}

/// Whether any file of a directory has this.
fn is_anywhere(dir: &std::path::Path, secret: &str) -> bool {
    std::fs::read_dir(dir).unwrap().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => is_anywhere(&path, secret),
        path => {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(secret)
        }
    })
}

#[test]
fn a_removed_run_is_erased_from_every_file_soon_after() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("steps", "s", "30");
    house.wait_for("s", "completed");
    let run = house.get("/api/v1/runs/s").json()["uuid"].as_str().unwrap().to_owned();
    let lines = format!("\"task_id\":\"{run}\"");
    assert!(is_anywhere(&dir.0, &lines));
    assert_eq!(house.ask("DELETE", "/api/v1/runs/s", &[], "").status, 204);
    let begun = std::time::Instant::now();
    while is_anywhere(&dir.0, &lines) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "it is still there");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_run_is_forked_compacted_pruned_and_removed() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("steps", "s", "30");
    house.wait_for("s", "completed");
    let forked = house.post("/api/v1/runs/s/forks", r#"{"at":3,"id":"fork"}"#);
    assert_eq!((forked.status, &forked.json()["id"]), (201, &json!("fork")), "{forked:?}");
    house.wait_for("fork", "completed");
    let forks = house.get("/api/v1/runs?parent=s").json();
    assert_eq!(forks["runs"][0]["parent"]["at"], 3);
    assert_eq!(house.post("/api/v1/runs/s/compact", "").json()["compacted"], 1);
    assert_eq!(house.get("/api/v1/runs/s").json()["value"], 30);
    let plan = house.post("/api/v1/prune", r#"{"keep":0,"dry_run":true}"#).json();
    assert_eq!((plan["remove"].as_array().unwrap().len(), &plan["done"]), (2, &Value::Null));
    assert_eq!(house.ask("DELETE", "/api/v1/runs/s", &[], "").status, 204);
    for path in ["/api/v1/runs/s", "/api/v1/runs/s/records", "/api/v1/runs/s/events"] {
        assert_eq!(house.get(path).problem(), (410, "TFY0130".into()), "{path}");
    }
    assert_eq!(house.post("/api/v1/prune", r#"{"keep":0}"#).json()["done"]["removed"], 1);
    assert_eq!(house.get("/api/v1/runs").json()["total"], 0);
    assert_eq!(house.get("/api/v1/runs?state=removed").json()["total"], 2);
}

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
    // As a browser goes on.
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
fn what_makes_no_sense_is_told_so() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let cases = [
        ("GET", "/api/v1/runs/nobody", "", 404, "TFY0041"),
        ("GET", "/api/v1/runs/%00", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs/a%0Ab", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs/%1b%5b31m", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs/%ff%fe", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs/..%2f..%2fetc%2fpasswd", "", 404, "TFY0041"),
        ("GET", "/api/v1/runs/../../../etc/passwd", "", 404, "TFY0162"),
        ("GET", "/api/v1/runs?limit=0", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?limit=99999999999999999999999", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?limit=-1", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?colour=red", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?state=happy", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?since=yesterday", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?sort=size", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?after=zzz", "", 400, "TFY0156"),
        ("GET", "/api/v1/runs?parent=nobody", "", 404, "TFY0041"),
        ("GET", "/api/v1/runs/nobody/events", "", 404, "TFY0041"),
        ("POST", "/api/v1/runs", "", 400, "TFY0156"),
        ("POST", "/api/v1/runs", "{", 400, "TFY0156"),
        ("POST", "/api/v1/runs", "[]", 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":1}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","inputs":1}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","id":""}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","id":"a\u001bb"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","id":"a\u202eb"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","id":"a\u2066b"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"nothing"}"#, 422, "TFY0038"),
        ("POST", "/api/v1/runs", r#"{"function":"fail","input":7}"#, 422, "TFY0035"),
        ("POST", "/api/v1/promises/no-uuid", r#"{"value":1}"#, 400, "TFY0156"),
        (
            "POST",
            "/api/v1/promises/00000000-0000-4000-8000-000000000000",
            r#"{"value":1}"#,
            404,
            "TFY0010",
        ),
        ("POST", "/api/v1/doubts", r#"{"key":"x","again":true}"#, 422, "TFY0032"),
        ("POST", "/api/v1/doubts", r#"{"key":"x"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/prune", "{}", 400, "TFY0156"),
        ("POST", "/api/v1/prune", r#"{"older_than":"soon"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"a\u0007","input":1}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs", r#"{"function":"echo","id":null}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/x/messages", r#"{"name":"a\u001b","message":1}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/x/messages", r#"{"name":"go"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/x/forks", r#"{"at":1,"id":"a\u0000"}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/x/forks", r#"{"at":1.5}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/x/forks", r#"{"at":-1}"#, 400, "TFY0156"),
        ("POST", "/api/v1/runs/..%2f..%2fwal/cancel", "", 404, "TFY0041"),
        ("DELETE", "/api/v1/runs/%2e%2e", "", 404, "TFY0041"),
        ("POST", "/api/v1/approvals/../1/approve", "", 404, "TFY0041"),
        ("PUT", "/api/v1/runs", "", 405, "TFY0163"),
        ("GET", "/api/v2/runs", "", 404, "TFY0162"),
    ];
    for (method, path, body, status, code) in cases {
        let answer = house.ask(method, path, &[], body);
        assert_eq!(
            answer.problem(),
            (status, code.to_owned()),
            "{method} {path} {body}: {answer:?}"
        );
    }
    let long = "x".repeat(600);
    let answer = house.submit("echo", &long, "1");
    assert_eq!(answer.problem(), (400, "TFY0156".into()));
    let typo = house.post("/api/v1/runs", r#"{"function":"ecko"}"#).json();
    assert!(typo["title"].as_str().unwrap().ends_with("did you mean `echo`?"), "{typo}");
    assert!(typo["next"].as_str().unwrap().contains("GET /api/v1/status"), "{typo}");
    let nested = "[".repeat(100_000);
    let answer = house.post("/api/v1/runs", &format!("{{\"function\":\"echo\",\"input\":{nested}"));
    assert_eq!(answer.problem(), (400, "TFY0156".into()));
    assert_eq!(house.get("/readyz").status, 200);
}

#[test]
fn every_route_is_in_the_document_and_does_what_it_says() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let document = house.get("/openapi.json").json();
    let mut routes = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let place = path.replace(['{', '}'], "");
        for (method, operation) in operations.as_object().unwrap() {
            routes += 1;
            if path == "/api/v1/events" {
                // It has no end.
                let mut line = house.connect();
                send(&mut line, "GET", path, &[], "");
                assert!(read_head(&mut line).starts_with("HTTP/1.1 200"));
                continue;
            }
            let answer = house.ask(&method.to_uppercase(), &place, &[("connection", "close")], "");
            // Whatever it says, the path and the method are known, and nothing breaks.
            let known =
                answer.status < 500 && answer.status != 405 && !answer.body.contains("TFY0162");
            assert!(known, "{method} {place}: {answer:?}");
            let status = answer.status.to_string();
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key(&status) || answer.problem().0 >= 400, "{answer:?}");
        }
    }
    assert!(routes > 20, "{routes}");
    let page = house.get("/docs");
    assert!(
        page.body.contains("/openapi.json")
            && !page.body.contains("http://")
            && !page.body.contains("https://")
    );
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
}

#[test]
fn the_daemon_ends_in_good_order_and_its_runs_go_on_in_the_next() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("work", "w", "700");
    house.submit("wait", "v", "null");
    let mut follows = house.connect();
    send(&mut follows, "GET", "/api/v1/runs/v/records", &[("accept", "text/event-stream")], "");
    let mut seen = String::new();
    read_head(&mut follows);
    read_until(&mut follows, &mut seen, "event: record");
    assert!(house.close(), "no step is cut off");
    read_until(&mut follows, &mut seen, "event: end\ndata: {\"reason\":\"the daemon is ending\"}");
    let house = House::open(&dir);
    assert_eq!(house.wait_for("w", "completed")["value"], 700);
    let records = house.get("/api/v1/runs/v/records").json();
    let kinds: Vec<&str> = records["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"ShutdownMarker"), "{kinds:?}");
    // The step was done once.
    let records = house.get("/api/v1/runs/w/records").json();
    let starts =
        records["records"].as_array().unwrap().iter().filter(|one| one["type"] == "EffectStart");
    assert_eq!(starts.count(), 1);
    house.post("/api/v1/runs/v/messages", r#"{"name":"go","message":1}"#);
    house.wait_for("v", "completed");
}

/// A language whose functions are counted whenever they are listed.
struct Counted(Arc<AtomicUsize>);

impl Language for Counted {
    fn start(&self, _: &str, _: &str, _: Wanted) -> Option<Result<BoxCoroutine, TaskError>> {
        None
    }
    fn name(&self) -> &'static str {
        "counted"
    }
    fn functions(&self) -> Vec<Function> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Vec::new()
    }
    fn has(&self, _: &str) -> bool {
        false
    }
    fn note(&self) -> String {
        "null".into()
    }
    fn suspects(&self, _: &str) -> Option<String> {
        None
    }
    fn source(&self, _: &Site) -> Option<String> {
        None
    }
    fn patched(&self, _: &str, _: Way) -> Vec<String> {
        Vec::new()
    }
    fn shown(&self, _: &tiffany::Value) -> Option<String> {
        None
    }
    fn frames(&self, _: &TaskError) -> Vec<Frame> {
        Vec::new()
    }
    fn post_mortem(&self, _: &TaskError) -> bool {
        false
    }
    fn paused(&self, _: Uuid, _: &TaskError) {}
}

#[test]
fn whether_it_is_ready_is_told_without_listing_anything() {
    let (dir, count) = (Dir::new(), Arc::new(AtomicUsize::new(0)));
    let counts = Arc::clone(&count);
    let house = House::of(&dir.0, move |dir| {
        Daemon::new(kit::program().language(Rc::new(Counted(counts))), dir)
    });
    house.get("/api/v1/status");
    let before = count.load(Ordering::SeqCst);
    assert!(before > 0, "the status lists them");
    assert_eq!(house.get("/readyz").json(), json!({ "status": "ready" }));
    assert_eq!(count.load(Ordering::SeqCst), before);
}

#[test]
fn metrics_and_health_are_there() {
    let dir = Dir::new();
    let house = House::open(&dir);
    assert_eq!(house.get("/healthz").json(), json!({ "status": "ok" }));
    assert_eq!(house.get("/readyz").json(), json!({ "status": "ready" }));
    let metrics = house.get("/metrics");
    assert!(metrics.body.contains("# TYPE tiffany_runs_started_total counter"), "{metrics:?}");
    let status = house.get("/api/v1/status").json();
    assert_eq!(status["pid"], std::process::id());
    let work =
        json!({ "name": "work", "language": "rust", "takes": "u64", "input": null, "doc": null });
    assert!(status["functions"].as_array().unwrap().contains(&work), "{status}");
    assert_eq!(status["limits"]["body_bytes"], 8 << 20);
    assert_eq!(status["limits"]["header_time"], 15.0);
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
    // Blobs come to their files behind the log.
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
        // A message is in what follows it, too.
        let message = format!("\"m-{number}\"");
        let body = format!("{{\"name\":\"other\",\"message\":{message}}}");
        send(&mut line, "POST", &format!("/api/v1/runs/w-{number}/messages"), &[], &body);
        assert_eq!(read_answer(&mut line).status, 204);
        send(&mut line, "GET", &path, &[], "");
        let page = read_answer(&mut line).body;
        assert!(page.contains(&message), "{number}: {page:?}");
    }
}

/// Changes one letter in the middle of a run's file.
fn damage(dir: &Dir, run: &str) {
    let path = dir.0.join(format!("wal/{run}.wal"));
    let mut bytes = std::fs::read(&path).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_damaged_run_that_is_over_is_listed_as_damaged() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut runs = Vec::new();
    for (id, function, input) in [("small", "echo", "1"), ("large", "steps", "500")] {
        let uuid = house.submit(function, id, input).json()["uuid"].as_str().unwrap().to_owned();
        house.wait_for(id, "completed");
        runs.push(uuid);
    }
    house.close();
    runs.iter().for_each(|run| damage(&dir, run));
    let house = House::open(&dir);
    let states = || {
        let list = house.get("/api/v1/runs?sort=started").json();
        let runs = list["runs"].as_array().unwrap().iter();
        let mut states: Vec<(String, String)> = runs
            .map(|run| {
                (run["uuid"].as_str().unwrap().into(), run["state"].as_str().unwrap().into())
            })
            .collect();
        states.sort();
        states
    };
    // A small file is checked when it is listed, and a large one when its run is shown.
    let small = states().into_iter().find(|(run, _)| *run == runs[0]).unwrap();
    assert_eq!(small.1, "damaged");
    for run in &runs {
        let shown = house.get(&format!("/api/v1/runs/{run}"));
        assert_eq!((shown.status, &shown.json()["state"]), (200, &"damaged".into()), "{shown:?}");
        assert_eq!(shown.json()["error"]["code"], "TFY0107", "{shown:?}");
    }
    assert!(states().iter().all(|(_, state)| state == "damaged"), "{:?}", states());
}

#[test]
fn an_id_that_is_the_uuid_of_another_run_is_refused() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let first = house.submit("wait", "a", "null").json()["uuid"].as_str().unwrap().to_owned();
    assert_eq!(house.submit("wait", &first, "null").problem(), (409, "TFY0037".into()));
    assert_eq!(house.post(&format!("/api/v1/runs/{first}/cancel"), "").status, 204);
    assert_eq!(house.get("/api/v1/runs").json()["total"], 1);
}

/// JSON that no program could read.
fn unreadable() -> Vec<String> {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut unreadable: Vec<String> =
        ["1e999", "\"\\ud800\"", "{\"a\":[\"\\udc00\"]}", "{\"a\":1,\"\\u0061\":2}"]
            .map(str::to_owned)
            .into();
    unreadable.extend([deep(101), deep(100_000)]);
    unreadable
}

#[test]
fn what_no_program_could_read_is_refused_before_it_is_acknowledged() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    house.submit("promise", "p", "null");
    let shown = house.get("/api/v1/runs/p").json();
    let promise = shown["promises"][0].as_str().unwrap().to_owned();
    for json in unreadable() {
        let refused = (422, "TFY0220".to_owned());
        let message = house
            .post("/api/v1/runs/w/messages", &format!("{{\"name\":\"go\",\"message\":{json}}}"));
        assert_eq!(message.problem(), refused);
        let settled =
            house.post(&format!("/api/v1/promises/{promise}"), &format!("{{\"value\":{json}}}"));
        assert_eq!(settled.problem(), refused);
        assert_eq!(house.submit("echo", "never", &json).problem(), refused);
        let asked = house.post("/api/v1/runs/w/queries/name", &format!("{{\"input\":{json}}}"));
        assert_eq!(asked.problem(), refused);
    }
    assert_eq!(house.get("/api/v1/runs/w").json()["state"], "live");
    assert_eq!(house.get("/api/v1/runs/p").json()["state"], "live");
    assert_eq!(house.get("/api/v1/runs/never").problem().0, 404);
    house.end();
}

#[test]
fn any_other_json_is_received_as_it_was_sent() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut deepest = json!({ "$x": [] });
    for _ in 0..49 {
        deepest = json!([{ "$x": deepest }]);
    }
    let values = [
        json!({ "$ref": "#/x" }),
        json!({ "$plain": { "$plain": 1 } }),
        json!({ "$json": { "$blob": "00", "len": 1 } }),
        json!({ "$blob": "0".repeat(64), "len": 3 }),
        json!({ "$base64": "aGk=" }),
        json!([{ "a": { "$dict": [["a", 1]] } }]),
        deepest,
    ];
    for (at, value) in values.iter().enumerate() {
        let (waits, echoes) = (format!("w-{at}"), format!("e-{at}"));
        house.submit("wait", &waits, "null");
        let message = json!({ "name": "go", "message": value }).to_string();
        let sent = house.post(&format!("/api/v1/runs/{waits}/messages"), &message);
        assert_eq!(sent.status, 204);
        assert_eq!(house.wait_for(&waits, "completed")["value"], *value);
        house.submit("echo", &echoes, &value.to_string());
        assert_eq!(house.wait_for(&echoes, "completed")["value"], *value);
    }
    house.end();
}
