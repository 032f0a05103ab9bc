//! Tests the daemon against its own OpenAPI document: schemathesis sends valid and invalid requests
//! to a real process with runs in different states, and checks that the document describes each
//! answer. `cargo xtask servers` installs it.

use std::path::PathBuf;
use std::process::Command;

use crate::kit::served::{FREE, Served};
use crate::kit::{self, Home, LIMIT, orders};

/// The existing runs: function, id and input.
const RUNS: &[(&str, &str, &str)] = &[
    ("done", "echo", r#"{"a":[1,"ä"]}"#),
    ("done-2", "echo", "1"),
    ("failed", "burn", "\"wood\""),
    ("waits", "order", "\"tea\""),
    ("waits-2", "order", "\"milk\""),
    ("asks", "refund", "100"),
    ("asks-2", "deploy", "\"1.2\""),
    ("tasks", "family", "null"),
    ("long", "busy", "200"),
    ("reads", "read", "3"),
];

/// Settings besides the document: names of existing objects, which most requests use, and a fixed
/// number and seed of requests. A valid request may be about something that doesn't exist, has
/// ended, or doesn't fit the code; the daemon must still be able to read it.
const SETTINGS: &str = include_str!("openapi.toml");

/// Returns the path of the program, in the environment that `cargo xtask servers` creates.
fn schemathesis() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|dir| dir.join("python/servers/bin/schemathesis"));
    let found = places.find(|program| program.is_file());
    found.expect("there is no schemathesis: `cargo xtask servers` installs it")
}

#[test]
fn every_answer_is_one_that_the_document_promises() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    for (id, function, input) in RUNS {
        let body = format!("{{\"function\":\"{function}\",\"id\":\"{id}\",\"input\":{input}}}");
        assert_eq!(served.ask("POST", "/api/v1/runs", &body).0, 201);
    }
    for (id, ..) in RUNS.iter().filter(|(id, ..)| id.starts_with("done")) {
        assert_eq!(served.ask("GET", &format!("/api/v1/runs/{id}?wait=30"), "").0, 200);
    }
    let promise = |id: &str| {
        home.until("it has no promise yet", || {
            served.ask("GET", &format!("/api/v1/runs/{id}"), "").1["promises"][0].is_string()
        });
        served.ask("GET", &format!("/api/v1/runs/{id}"), "").1["promises"][0].to_string()
    };
    let promises = [promise("waits"), promise("waits-2")].join(", ");
    home.until("nothing is asked", || {
        let open = served.ask("GET", "/api/v1/approvals", "").1;
        open["approvals"].as_array().is_some_and(|open| open.len() == 2)
    });
    let uuids = ["asks", "asks-2"].map(|id| format!("\"{}\"", home.uuid(id))).join(", ");
    assert_eq!(served.ask("POST", "/api/v1/runs/done/forks", r#"{"at":2,"id":"fork"}"#).0, 201);
    let ids = RUNS.iter().map(|(id, ..)| *id).chain(["fork"]);
    let names: Vec<String> = ids.map(|id| format!("\"{id}\"")).collect();
    let settings = SETTINGS
        .replace("RUNS", &names.join(", "))
        .replace("PROMISES", &promises)
        .replace("ASKING", &uuids);
    std::fs::write(home.0.join("schemathesis.toml"), settings).unwrap();
    // First without the operations that remove or end runs, so that there is something to read;
    // then all operations.
    ask_everything(
        &home,
        &served,
        &["--exclude-operation-id-regex", "^delete|cancel$|compact$|prune$"],
    );
    let tested = ask_everything(&home, &served, &["--max-examples", "10"]);
    let (_, document) = served.ask("GET", "/openapi.json", "");
    let paths = document["paths"].as_object().unwrap().values();
    let operations: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
    // All operations except the document itself.
    assert_eq!(tested, operations - 1);
    assert_eq!(served.ask("GET", "/readyz", "").0, 200);
}

/// Tests the operations that the arguments select, and returns their number.
fn ask_everything(home: &Home, served: &Served, meant: &[&str]) -> usize {
    let mut command = Command::new(schemathesis());
    command.current_dir(&home.0).args(["--config-file", "schemathesis.toml", "run", "--no-color"]);
    command.args(meant).arg(format!("http://{}/openapi.json", served.address));
    let ran = kit::finish_within(command, 2 * LIMIT);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let mut tested = ran.stdout.lines().filter_map(|line| line.trim().strip_prefix("Tested: "));
    tested.next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{}", ran.stdout))
}
