//! The requests of the dashboard: identity, tasks, timeline, effects and records of a run, the
//! comparison of two runs, and the page itself; and the errors for bad requests.

use crate::kit::{self, Dir, House, program};
use serde_json::{Value, json};
use tiffany::control::Control;
use tiffany::durable::run_id;
use tiffany_daemon::Daemon;
use tiffany_daemon::auth::{Role, Tokens};
use tiffany_daemon::config::Config;

/// Repeats a request until the condition holds: files of runs are written shortly after the runs
/// progress.
#[track_caller]
fn until(house: &House, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..500 {
        let told = house.get(path).json();
        if is_so(&told) {
            return told;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{path}: {}", house.get(path).body);
}

#[test]
fn tasks_are_told_as_they_stand_and_as_they_stood() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    let waits = |told: &Value| told["tasks"][0]["state"] == "waiting";
    let told = until(&house, "/api/v1/runs/w/tasks", waits);
    assert_eq!(told["is_over"], false);
    let wait = &told["tasks"][0]["waits"][0];
    assert_eq!((&wait["call"], &wait["record"]), (&json!("receive_message"), &told["last"]));
    assert!(wait["at"].as_str().unwrap().contains("kit/mod.rs:"), "{wait}");
    // Later records are sent at once.
    house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    let over = until(&house, "/api/v1/runs/w/tasks", |told| told["is_over"] == true);
    assert_eq!(over["tasks"][0]["state"], "completed");
    assert!(over["tasks"][0]["end"].as_u64() >= over["tasks"][0]["begin"].as_u64(), "{over}");
    let then = house.get(&format!("/api/v1/runs/w/tasks?at={}", told["last"])).json();
    assert_eq!((&then["tasks"], &then["at"]), (&told["tasks"], &told["last"]));
    let changed = house.get(&format!("/api/v1/runs/w/tasks?since={}", told["last"])).json();
    assert_eq!((&changed["tasks"], &changed["total"]), (&over["tasks"], &json!(1)));
    let none = house.get(&format!("/api/v1/runs/w/tasks?since={}&limit=1", over["last"])).json();
    assert_eq!((&none["tasks"], &none["next"]), (&json!([]), &Value::Null));
    for (query, status, code) in [
        ("at=0", 404, "TFY0115"),
        ("at=99", 404, "TFY0115"),
        ("at=x", 400, "TFY0156"),
        ("to=1", 400, "TFY0156"),
        ("limit=0", 400, "TFY0156"),
        ("at=1&since=1", 422, "TFY0032"),
    ] {
        let answer = house.get(&format!("/api/v1/runs/w/tasks?{query}"));
        assert_eq!(answer.problem(), (status, code.into()), "{query}");
    }
    assert_eq!(house.get("/api/v1/runs/none/tasks").problem(), (404, "TFY0041".into()));
    assert_eq!(house.ask("DELETE", "/api/v1/runs/w", &[], "").status, 204);
    assert_eq!(house.get("/api/v1/runs/w/tasks").problem(), (410, "TFY0130".into()));
}

#[test]
fn a_timeline_is_cut_and_put_together_as_asked() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("work", "w", "30");
    house.wait_for("w", "completed");
    let whole = until(&house, "/api/v1/runs/w/timeline", |told| told["is_over"] == true);
    let slices = whole["lanes"][0]["slices"].as_array().unwrap();
    let effect = slices.iter().find(|slice| slice[2] == "effect").unwrap();
    assert!(effect[1].as_u64().unwrap() - effect[0].as_u64().unwrap() >= 30_000, "{whole}");
    assert_eq!(effect[3], 2);
    let none = house.get("/api/v1/runs/w/timeline?tids=2-9,77").json();
    assert_eq!(none["lanes"], json!([]));
    let late = house.get(&format!("/api/v1/runs/w/timeline?from={}", u32::MAX)).json();
    assert_eq!(late["lanes"], json!([]));
    // An active run has no end.
    house.submit("wait", "l", "null");
    let live = until(&house, "/api/v1/runs/l/timeline?width=10", |told| {
        told["lanes"][0]["slices"].as_array().is_some_and(|slices| {
            slices.last().is_some_and(|last| last[2] == "message" && last[1].is_null())
        })
    });
    assert_eq!(live["is_over"], false);
    for query in ["width=0", "width=1000001", "tids=a", "tids=3-", "from=-1"] {
        let answer = house.get(&format!("/api/v1/runs/w/timeline?{query}"));
        assert_eq!(answer.problem(), (400, "TFY0156".into()), "{query}");
    }
    let backwards = house.get("/api/v1/runs/w/timeline?from=5&to=4");
    assert_eq!(backwards.problem(), (422, "TFY0032".into()));
}

#[test]
fn effects_are_told_with_their_attempts() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("steps", "s", "5");
    house.wait_for("s", "completed");
    let page = until(&house, "/api/v1/runs/s/effects?limit=2", |told| told["total"] == 5);
    let records: Vec<u64> =
        page["effects"].as_array().unwrap().iter().map(|e| e["record"].as_u64().unwrap()).collect();
    assert!(records[0] > records[1], "{page}");
    let next = house.get(&format!("/api/v1/runs/s/effects?limit=9&before={}", page["next"])).json();
    assert_eq!((next["effects"].as_array().unwrap().len(), &next["next"]), (3, &Value::Null));
    assert_eq!(next["by_name"][0]["count"], 5);
    house.submit("retry", "r", "null");
    let tried = until(&house, "/api/v1/runs/r/effects?state=retrying", |told| told["matched"] == 1);
    let attempt = &tried["effects"][0]["attempts"][0];
    assert_eq!(
        (&attempt["outcome"], &attempt["error"]["message"]),
        (&json!("failed"), &json!("not yet"))
    );
    for query in ["state=odd", "limit=0", "limit=10001", "task=x"] {
        let answer = house.get(&format!("/api/v1/runs/s/effects?{query}"));
        assert_eq!(answer.problem(), (400, "TFY0156".into()), "{query}");
    }
}

#[test]
fn records_are_found_by_task_type_failure_and_text_and_what_is_left_out_is_counted() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("fail", "f", "\"no LUCK\"");
    house.wait_for("f", "failed");
    let all =
        until(&house, "/api/v1/runs/f/records?order=desc&limit=1", |told| told["over"] == true);
    assert_eq!((&all["records"][0]["type"], &all["next"]), (&json!("TaskAbort"), &all["total"]));
    let rest =
        house.get(&format!("/api/v1/runs/f/records?order=desc&before={}", all["next"])).json();
    assert_eq!((&rest["records"][0]["type"], &rest["next"]), (&json!("RunStart"), &Value::Null));
    for (query, types) in [
        ("failed=true", &["TaskAbort"][..]),
        ("type=RunStart,TaskAbort", &["RunStart", "TaskAbort"]),
        ("task=2", &[]),
        ("text=no+luck", &["RunStart", "TaskAbort"]),
        ("text=no+luck&type=TaskAbort", &["TaskAbort"]),
    ] {
        let page = house.get(&format!("/api/v1/runs/f/records?{query}")).json();
        let seen: Vec<&str> = page["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["type"].as_str().unwrap())
            .collect();
        assert_eq!(seen, types, "{query}");
        assert_eq!((&page["matched"], &page["total"]), (&json!(types.len()), &all["total"]));
    }
    for query in ["order=up", "type=Odd", "failed=2", "limit=0"] {
        let answer = house.get(&format!("/api/v1/runs/f/records?{query}"));
        assert_eq!(answer.problem(), (400, "TFY0156".into()), "{query}");
    }
    let lines = [("accept", "application/x-ndjson")];
    let answer = house.ask("GET", "/api/v1/runs/f/records?text=a", &lines, "");
    assert_eq!(answer.problem(), (400, "TFY0156".into()));
}

#[test]
fn two_runs_are_compared() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("steps", "a", "3");
    house.wait_for("a", "completed");
    house.submit("steps", "b", "4");
    house.wait_for("b", "completed");
    let diff = house.get("/api/v1/diff?left=a&right=b").json();
    assert_eq!((&diff["a"]["id"], &diff["b"]["id"]), (&json!("a"), &json!("b")), "{diff}");
    assert_eq!(diff["summary"]["same"], false);
    assert_eq!(house.get("/api/v1/diff?left=a&right=a").json()["summary"]["same"], true);
    assert_eq!(house.get("/api/v1/diff?left=a").problem(), (422, "TFY0032".into()));
    assert_eq!(house.get("/api/v1/diff?left=a&right=none").problem(), (404, "TFY0041".into()));
    assert_eq!(
        house.get("/api/v1/diff?left=a&right=b&limit=99999").problem(),
        (400, "TFY0156".into())
    );
    house.post("/api/v1/runs/b/compact", "");
    assert_eq!(house.get("/api/v1/diff?left=a&right=b").status, 409);
}

#[test]
fn a_compacted_run_and_a_fork_are_told_too() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("steps", "s", "9");
    house.wait_for("s", "completed");
    let before = until(&house, "/api/v1/runs/s/tasks", |told| told["is_over"] == true);
    house.post("/api/v1/runs/s/forks", r#"{"at":5,"id":"fork"}"#);
    house.wait_for("fork", "completed");
    let fork = until(&house, "/api/v1/runs/fork/effects", |told| told["total"] == 9);
    assert_eq!(fork["by_name"][0]["name"], "one");
    house.post("/api/v1/runs/s/compact", "");
    let after = until(&house, "/api/v1/runs/s/tasks", |told| told["generation"] == 2);
    assert!(after["last"].as_u64() < before["last"].as_u64(), "{after}");
    assert_eq!(after["is_over"], true);
}

#[test]
fn one_is_told_who_one_is_and_functions_are_described() {
    let dir = Dir::new();
    let house = House::of(&dir.0, |dir| {
        let schema = json!({ "type": "string" });
        Daemon::new(program().describe("fail", "Fails.", schema), dir)
    });
    let me = house.get("/api/v1/me").json();
    assert_eq!(me, json!({ "name": "local", "role": "admin", "by": "loopback" }));
    let status = house.get("/api/v1/status").json();
    let functions = status["functions"].as_array().unwrap();
    let fail = functions.iter().find(|function| function["name"] == "fail").unwrap();
    let expected = json!({ "name": "fail", "language": "rust", "takes": "String", "input": { "type": "string" }, "doc": "Fails." });
    assert_eq!(fail, &expected);
    assert_eq!(status["limits"]["children"], 2);
    assert_eq!(status["versions"]["log"], 2);
    assert!(status["started"].as_str().unwrap().ends_with('Z') && status["dir"].is_string());
}

/// Starts a daemon that requires tokens, and creates a token for a viewer.
fn with_token(dir: &Dir) -> (House, String) {
    std::fs::create_dir_all(&dir.0).unwrap();
    let house = House::of(&dir.0, |dir| {
        let config = Config::parse("require_token = true", &dir.join("tiffany.toml")).unwrap();
        Daemon::new(program(), dir).config(config)
    });
    let token = Tokens::at(&dir.0).add("ada", Role::Viewer, None).unwrap();
    (house, token.reveal().to_owned())
}

#[test]
fn a_page_shows_its_token_among_the_protocols_of_a_websocket_and_nowhere_else() {
    let dir = Dir::new();
    let (house, token) = with_token(&dir);
    let bearer = format!("Bearer {token}");
    let me = house.ask("GET", "/api/v1/me", &[("authorization", &*bearer)], "").json();
    assert_eq!(me, json!({ "name": "ada", "role": "viewer", "by": "token" }));
    let names = format!("tiffany.v1, bearer.{token}");
    let upgrade = |names: &str, path: &str| {
        let mut line = house.connect();
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", names),
        ];
        kit::send(&mut line, "GET", path, &headers, "");
        kit::read_head(&mut line).to_ascii_lowercase()
    };
    let head = upgrade(&names, "/api/v1/events");
    assert!(head.starts_with("http/1.1 101"), "{head}");
    assert!(head.contains("sec-websocket-protocol: tiffany.v1\r\n"), "{head}");
    assert!(!head.contains(&token), "{head}");
    let wrong = names.replace(&token[token.len() - 4..], "aaaa");
    assert!(upgrade(&wrong, "/api/v1/events").starts_with("http/1.1 401"));
    assert!(upgrade("tiffany.v1", "/api/v1/events").starts_with("http/1.1 401"));
    // A token is accepted neither in the URL nor as a subprotocol outside a WebSocket.
    let by_address = format!("/api/v1/events?token={token}");
    assert!(upgrade("tiffany.v1", &by_address).starts_with("http/1.1 401"));
    let plain = house.ask("GET", "/api/v1/me", &[("sec-websocket-protocol", &*names)], "");
    assert_eq!(plain.problem(), (401, "TFY0170".into()));
}

#[test]
fn the_page_is_there_for_anybody_under_its_paths_and_unknown_paths_are_refused() {
    let dir = Dir::new();
    let (house, _) = with_token(&dir);
    let is_built =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/index.html").exists();
    for path in
        ["/", "/runs", "/runs/w-1", "/runs/w-1/timeline", "/compare/a/b", "/system", "/approvals"]
    {
        let page = house.get(path);
        if !is_built {
            assert_eq!(page.problem(), (404, "TFY0162".into()), "{path}");
            continue;
        }
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
        );
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        let tag = page.header("etag").unwrap();
        let again = house.ask("GET", path, &[("if-none-match", tag)], "");
        assert_eq!((again.status, again.body.len()), (304, 0));
    }
    for path in [
        "/api/v1/nothing",
        "/api",
        "/api/v2/runs",
        "/else",
        "/assets/none.js",
        "/assets/..%2fCargo.toml",
    ] {
        assert_eq!(house.get(path).problem(), (404, "TFY0162".into()), "{path}");
    }
    assert_eq!(house.post("/runs", "").problem(), (405, "TFY0163".into()));
    // A browser gets an HTML page with the error.
    let astray = house.ask("GET", "/else", &[("accept", "text/html,*/*;q=0.8")], "");
    assert_eq!(astray.status, 404);
    assert_eq!(astray.header("content-type"), Some("text/html; charset=utf-8"));
    let api = house.ask("GET", "/api/v1/else", &[("accept", "text/html")], "");
    assert_eq!(api.problem(), (404, "TFY0162".into()));
}

#[test]
fn a_task_that_lets_nobody_go_on_is_told_while_it_does() {
    let dir = Dir::new();
    let house = House::open(&dir);
    assert_eq!(house.get("/api/v1/stuck").json()["turns"], json!([]));
    let run = run_id("s").to_string();
    std::thread::scope(|scope| {
        // The answer may come only after the turn.
        scope.spawn(|| house.submit("stare", "s", "4000"));
        // The loop is blocked; clients are told at once which turn blocks it.
        let told = until(&house, "/api/v1/stuck", |told| told["turns"][0]["is_over"] == false);
        let turn = &told["turns"][0];
        assert_eq!((&turn["run"], &turn["tid"]), (&json!(run), &json!(1)), "{told}");
        assert!(turn["at"].as_str().unwrap().contains("kit/mod.rs:"), "{told}");
        assert!(turn["seconds"].as_f64().unwrap() >= 1.0, "{told}");
        let said = Control::connect(&dir.0).unwrap().unwrap().long_turns().unwrap();
        assert!(said[0].to_string().contains(&format!("task 1 of run {run} has kept its turn")));
    });
    let told = until(&house, "/api/v1/stuck", |told| told["turns"][0]["is_over"] == true);
    let seconds = told["turns"][0]["seconds"].as_f64().unwrap();
    assert!((3.0..60.0).contains(&seconds), "{told}");
    assert_eq!(told["turns"].as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn tasks_that_wait_for_long_are_told_the_longest_first() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("retry", "r", "null");
    until(&house, "/api/v1/runs/r/tasks", |told| {
        told["tasks"][0]["waits"][0]["step"]["attempt"] == 1
    });
    house.submit("wait", "w", "null");
    house.submit("ask", "q", "\"why?\"");
    house.submit("progress", "p", "100000");
    // A run that was just started may have no file yet.
    let told =
        until(&house, "/api/v1/stuck?after=0", |told| told["total"] == 2 && told["looked_at"] == 4);
    let stuck = &told["stuck"];
    assert_eq!((&stuck[0]["id"], &stuck[0]["kind"]), (&json!("r"), &json!("effect")), "{told}");
    assert_eq!(stuck[0]["step"]["state"], "retrying", "{told}");
    assert_eq!((&stuck[1]["id"], &stuck[1]["kind"]), (&json!("w"), &json!("message")), "{told}");
    assert_eq!((&stuck[1]["tid"], &stuck[1]["function"]), (&json!(1), &json!("wait")));
    assert!(stuck[1]["at"].as_str().unwrap().contains("kit/mod.rs:"), "{told}");
    assert!(stuck[0]["since"].as_str() < stuck[1]["since"].as_str(), "{told}");
    // A question and a sleep wait for a person and a clock, and no task has waited for long yet.
    assert_eq!((&told["looked_at"], &told["left_out"]), (&json!(4), &json!(0)));
    assert_eq!(house.get("/api/v1/stuck").json()["total"], 0);
    let first = house.get("/api/v1/stuck?after=0&limit=1").json();
    assert_eq!((&first["total"], first["stuck"].as_array().unwrap().len()), (&json!(2), 1));
    house.post("/api/v1/runs/w/messages", r#"{"name":"go","message":1}"#);
    until(&house, "/api/v1/stuck?after=0", |told| told["total"] == 1);
    assert_eq!(house.get("/api/v1/stuck?limit=0").problem(), (400, "TFY0156".into()));
    assert_eq!(house.get("/api/v1/stuck?after=x").problem(), (400, "TFY0156".into()));
}
