//! The threat: a change is missing from the audit file, has another client's name, or discloses
//! secrets.

use std::path::Path;
use std::time::Instant;

use crate::kit::{self, Dir, House, LIMIT, program, send};
use serde_json::json;
use tiffany::control::{Control, Ruling};
use tiffany_daemon::Daemon;
use tiffany_daemon::audit::{AUDIT, Entry, joined, read};
use tiffany_daemon::auth::{Role, Tokens};
use tiffany_daemon::config::Config;

fn house(dir: &Dir, config: &'static str) -> House {
    std::fs::create_dir_all(&dir.0).unwrap();
    House::of(&dir.0, move |dir| {
        let config = Config::parse(config, &dir.join("tiffany.toml")).unwrap();
        Daemon::new(program(), dir).config(config)
    })
}

fn bearer(dir: &Dir, name: &str, role: Role) -> String {
    format!("Bearer {}", Tokens::at(&dir.0).add(name, role, None).unwrap().reveal())
}

fn lines(dir: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(dir.join(AUDIT)).unwrap();
    let lines = joined(read(&text).map(|line| line.unwrap()));
    lines.into_iter().map(|line| line.entry).collect()
}

/// Returns the lines of the audit file: client, change, target and outcome.
fn told(dir: &Path) -> Vec<[String; 4]> {
    let one = |entry: Entry| [entry.who, entry.did, entry.to.unwrap_or_default(), entry.outcome];
    lines(dir).into_iter().map(one).collect()
}

#[test]
fn who_leaves_before_the_answer_is_written_down_all_the_same() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let made = |house: &House| house.get("/api/v1/runs?limit=1").json()["total"].as_u64().unwrap();
    for number in 0..10_000 {
        let body = format!("{{\"function\":\"echo\",\"id\":\"gone-{number}\",\"input\":1}}");
        let mut line = house.connect();
        send(&mut line, "POST", "/api/v1/runs", &[], &body);
        drop(line);
        // On a busy machine many clients disconnect before their request is read.
        if number >= 100 && made(&house) > 0 {
            break;
        }
    }
    assert_eq!(house.submit("echo", "last", "1").status, 201);
    house.close();
    let house = House::open(&dir);
    let made = made(&house);
    let written = lines(&dir.0).iter().filter(|line| line.outcome == "ok").count();
    assert!(made > 1, "all of them were gone before they were heard");
    assert_eq!(written as u64, made);
}

#[test]
fn a_rule_is_carried_out_in_the_name_of_who_asked_for_it() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let ada = bearer(&dir, "ada", Role::Admin);
    let ask = |path: &str, body: &str| house.ask("POST", path, &[("authorization", &ada)], body);
    let mut runs = Vec::new();
    for number in 0..3 {
        let id = format!("e-{number}");
        let body = format!("{{\"function\":\"echo\",\"id\":\"{id}\",\"input\":1}}");
        runs.push(ask("/api/v1/runs", &body).json()["uuid"].as_str().unwrap().to_owned());
        let begun = Instant::now();
        let path = format!("/api/v1/runs/{id}?wait=1");
        let is_over = || house.ask("GET", &path, &[("authorization", &ada)], "").json();
        while is_over()["state"] != "completed" {
            assert!(begun.elapsed() < LIMIT);
        }
    }
    assert_eq!(ask("/api/v1/prune", "{\"keep\":1,\"dry_run\":true}").status, 200);
    let done = ask("/api/v1/prune", "{\"keep\":1}").json();
    assert_eq!(done["done"]["removed"], 2, "{done}");
    assert_eq!(ask("/api/v1/runs/e-2/compact", "").status, 200);
    let told = told(&dir.0);
    assert!(told.iter().all(|[who, ..]| who == "ada"), "{told:?}");
    let did: Vec<&str> = told.iter().map(|[_, did, ..]| &**did).skip(3).collect();
    assert_eq!(did, ["prune_dry_run", "prune", "remove", "compact"]);
    let mut removed: Vec<&str> = told[5][2].split(' ').collect();
    removed.sort_unstable();
    runs.truncate(2);
    runs.sort_unstable();
    assert_eq!(removed, runs);
    assert_eq!(told[6][2], "e-2");
}

#[test]
fn who_is_refused_at_the_door_is_written_down_and_fills_no_disk() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let bad = [("authorization", "Bearer tfy_wrong")];
    house.ask("POST", "/api/v1/runs/w/cancel", &bad, "");
    house.ask("DELETE", "/api/v1/runs/w", &[], "");
    house.ask("POST", "/api/v1/prune", &[("origin", "http://evil.example")], "");
    // Requests that only read change nothing.
    house.ask("GET", "/api/v1/runs", &bad, "");
    let expected = [
        ["unknown", "cancel", "w", "TFY0171"],
        ["unknown", "remove", "w", "TFY0170"],
        ["unknown", "prune", "", "TFY0174"],
    ];
    assert_eq!(told(&dir.0), expected);
    let mut line = house.connect();
    for _ in 0..200 {
        send(&mut line, "POST", "/api/v1/runs", &bad, "");
        assert_eq!(kit::read_answer(&mut line).status, 401);
    }
    assert!(lines(&dir.0).len() < 30, "{}", lines(&dir.0).len());
}

#[test]
fn an_approval_has_the_same_word_by_every_way() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut control = Control::open(&dir.0).unwrap();
    for id in ["a", "b", "c"] {
        house.submit("ask", id, "\"may I?\"");
    }
    let begun = Instant::now();
    let open = loop {
        let open = control.approvals().unwrap();
        if open.len() == 3 {
            break open;
        }
        assert!(begun.elapsed() < LIMIT);
    };
    control.resolve(&open[0].id, Ruling::yes()).unwrap();
    control.resolve(&open[1].id, Ruling::no()).unwrap();
    let path = format!("/api/v1/approvals/{}/approve", open[2].id);
    assert_eq!(house.post(&path, "").status, 200);
    let told = told(&dir.0);
    let said: Vec<(&str, &str)> = told[3..].iter().map(|[_, did, to, _]| (&**did, &**to)).collect();
    let expected = [("approve", &*open[0].id), ("reject", &*open[1].id), ("approve", &*open[2].id)];
    assert_eq!(said, expected);
}

#[test]
fn secrets_are_neither_written_down_nor_told_back() {
    let dir = Dir::new();
    let house = house(&dir, "redact = ['pattern sk-[a-z0-9]{8,}']");
    let secret = "sk-abcdefgh12345678";
    let mut said = Vec::new();
    let mut ask = |method: &str, path: &str, body: &str| {
        let answer = house.ask(method, path, &[], body);
        assert!(answer.status >= 400, "{answer:?}");
        said.push(answer.body);
    };
    let runs = "/api/v1/runs";
    ask("POST", &format!("{runs}/{secret}/cancel"), "");
    ask("DELETE", &format!("{runs}/{secret}"), "");
    ask("POST", runs, &json!({ "function": "echo", "id": secret, "input": 1 }).to_string());
    ask("POST", runs, &format!("{{\"function\":\"echo\",\"{secret}\":1}}"));
    ask("GET", &format!("{runs}?{secret}=1"), "");
    ask("GET", &format!("/{secret}"), "");
    ask("POST", "/api/v1/doubts", &json!({ "key": secret, "again": true }).to_string());
    Control::open(&dir.0).unwrap().submit("echo", secret, &1).unwrap_err();
    house.submit("choose", "c", &json!(["yes", secret, "no"]).to_string());
    let begun = Instant::now();
    let open = loop {
        let open = house.get("/api/v1/approvals").json()["approvals"][0].clone();
        if open != json!(null) {
            break open;
        }
        assert!(begun.elapsed() < LIMIT);
    };
    assert_eq!(open["choices"], json!(["yes", "[redacted]", "no"]));
    let path = format!("/api/v1/approvals/{}/approve", open["id"].as_str().unwrap());
    let decided = house.post(&path, &json!({ "choice": secret }).to_string());
    assert_eq!(decided.json()["choice"], "[redacted]", "{decided:?}");
    let text = std::fs::read_to_string(dir.0.join(AUDIT)).unwrap();
    assert_eq!(lines(&dir.0).len(), 8, "{text}");
    for told in said.iter().chain([&text]) {
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn a_daemon_that_ends_begins_nothing_new_through_its_socket_either() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("work", "w", "2000");
    let mut control = Control::open(&dir.0).unwrap();
    house.end();
    let begun = Instant::now();
    while house.submit("echo", "e", "1").status != 503 {
        assert!(begun.elapsed() < LIMIT);
    }
    let refused = control.submit("echo", "late", &1).unwrap_err();
    assert!(refused.code() == "TFY0043" && refused.message().contains("is ending"), "{refused}");
    // A status request counts as no work.
    control.status().unwrap();
    assert!(house.close());
    let house = House::open(&dir);
    assert_eq!(house.get("/api/v1/runs/late").status, 404);
}
