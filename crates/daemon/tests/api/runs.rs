//! Requests about runs: start, show, change, remove.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::{Dir, House, LIMIT, read_answer, send};

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
    // With a key instead of an id, and with neither.
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
    // Read-only requests accept a prefix of a UUID.
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
    // Its cleanup has begun once it has spawned another task.
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
        // Spread out in time: requests at the same moment would wake the run only once.
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
    // The end is reported at once.
    house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    for line in &mut lines {
        assert_eq!(read_answer(line).json()["state"], "completed");
    }
}

/// Whether any file of a directory contains the secret.
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
    // A small file is checked when it is listed, a large one when its run is shown.
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

/// An error that is a blob in the log is reported like any other.
#[test]
fn the_error_of_a_run_is_shown_however_long_it_is() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let uuid =
        house.submit("fail", "f", &json!("e".repeat(40_000)).to_string()).json()["uuid"].clone();
    house.wait_for("f", "failed");
    let look = |house: &House| {
        let is_it = |error: &Value| {
            let begins = error["message"].as_str().is_some_and(|text| text.starts_with("eeeeee"));
            assert!(error["code"] == "TFY0001" && begins, "{error}");
        };
        is_it(&house.get("/api/v1/runs/f").json()["error"]);
        is_it(&house.get("/api/v1/runs?state=failed").json()["runs"][0]["error"]);
        let task = house.get("/api/v1/runs/f/tasks").json()["tasks"][0]["error"].clone();
        is_it(&task);
        let message = task["message"].as_str().unwrap();
        assert!(message.len() < 3_000 && message.contains("`tiffany show --blob "), "{message}");
    };
    look(&house);
    house.close();
    let house = House::open(&dir);
    look(&house);
    let record = house.get("/api/v1/runs/f/records").json()["records"][1]["error"].clone();
    let blob = format!("/api/v1/runs/f/blobs/{}", record["$blob"].as_str().unwrap());
    assert!(house.get(&blob).body.len() > 40_000, "{uuid}: {record}");
}
