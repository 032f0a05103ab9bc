//! The daemon as a whole: its routes, its health, bad requests, and its end.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tiffany::binding::{Language, Wanted, Way};
use tiffany::control::Function;
use tiffany::kernel::{BoxCoroutine, Frame};
use tiffany::{Site, TaskError, Uuid};
use tiffany_daemon::Daemon;

use crate::kit::{Dir, House, read_head, read_until, send};

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
    // The message has to help the client as well as the author of the function.
    let unfit = house.post("/api/v1/runs", r#"{"function":"fail","input":7}"#).json();
    assert!(
        unfit["next"].as_str().unwrap().starts_with("correct the input; if an older"),
        "{unfit}"
    );
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
                // The response has no end.
                let mut line = house.connect();
                send(&mut line, "GET", path, &[], "");
                assert!(read_head(&mut line).starts_with("HTTP/1.1 200"));
                continue;
            }
            let answer = house.ask(&method.to_uppercase(), &place, &[("connection", "close")], "");
            // The path and the method are recorded for every request, and nothing breaks.
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
    // The step was executed once.
    let records = house.get("/api/v1/runs/w/records").json();
    let starts =
        records["records"].as_array().unwrap().iter().filter(|one| one["type"] == "EffectStart");
    assert_eq!(starts.count(), 1);
    house.post("/api/v1/runs/v/messages", r#"{"name":"go","message":1}"#);
    house.wait_for("v", "completed");
}

/// A language that counts how often its functions are listed.
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
        Daemon::new(crate::kit::program().language(Rc::new(Counted(counts))), dir)
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
fn a_probe_is_answered_within_two_seconds_while_a_task_keeps_its_turn() {
    let dir = Dir::new();
    let house = House::open(&dir);
    assert_eq!(house.get("/readyz").status, 200);
    let ready = std::thread::scope(|scope| {
        // The answer may wait for the turn that begins.
        scope.spawn(|| assert_eq!(house.submit("stare", "stares", "8000").status, 201));
        // Before the task has its turn, the daemon is ready.
        (0..100).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let begun = std::time::Instant::now();
            let ready = house.get("/readyz");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(2), "{took:?}");
            (ready.status == 503).then_some(ready)
        })
    });
    let ready = ready.expect("a task that keeps its turn is noticed");
    assert_eq!(ready.json()["why"]["code"], json!("TFY0160"), "{}", ready.body);
    house.wait_for("stares", "completed");
    assert_eq!(house.get("/readyz").status, 200);
}
