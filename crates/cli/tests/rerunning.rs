//! `step` and `replay` of a daemon as real processes: their number, their end, and the redaction of
//! their output.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::kit::served::{FREE, Served};
use crate::kit::{self, Home, LIMIT, Ran, finish, orders};
use serde_json::{Value, json};

/// Starts a daemon of the program with misbehaving functions, with a configuration.
fn serve(home: &Home, config: &str) -> Served {
    std::fs::write(home.0.join("t.toml"), config).unwrap();
    let mut command = home.command(&orders(), &["--config", "t.toml", "serve", "--json"]);
    command.args(FREE).env("ORDERS_VERSION", "wild");
    Served::by(command)
}

fn wild(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(&orders(), arguments);
    command.env("ORDERS_VERSION", "wild");
    finish(command)
}

/// Runs a function to its end.
fn run(served: &Served, function: &str, input: &Value) {
    let body = json!({ "function": function, "id": function, "input": input }).to_string();
    assert_eq!(served.ask("POST", "/api/v1/runs", &body).0, 201);
    let (_, shown) = served.ask("GET", &format!("/api/v1/runs/{function}?wait=30"), "");
    assert_ne!(shown["state"], "live", "{shown}");
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the number of running child processes of the daemon.
fn children(served: &Served) -> usize {
    let parent = served.child.id().to_string();
    let is_child = |stat: &str| {
        let mut fields = stat.rsplit(") ").next().unwrap_or("").split(' ');
        fields.next() != Some("Z") && fields.next() == Some(parent.as_str())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| is_child(stat))
        .count()
}

#[test]
fn what_is_taken_out_stays_out_of_what_is_run_again() {
    let home = Home::new();
    let served = serve(&home, "redact = ['pattern sk-[0-9]+']");
    run(&served, "blurt", &Value::Null);
    let (status, replayed) = served.ask("POST", "/api/v1/runs/blurt/replay", "");
    assert_eq!((status, &replayed["verdict"]), (200, &json!("identical")), "{replayed}");
    let (status, moment) = served.ask("GET", "/api/v1/runs/blurt/step", "");
    assert_eq!(status, 200, "{moment}");
    let text = moment.to_string();
    assert!(text.contains("no door opens with [redacted]") && !text.contains("4711"), "{text}");
    served.signal("-TERM");
    assert_eq!(served.end(), Some(0));
    // The command line reads the rules, and the log directory, from the same file.
    let config = "dir = 'orders'\nredact = ['pattern sk-[0-9]+']";
    std::fs::write(home.0.join("t.toml"), config).unwrap();
    let mut command = std::process::Command::new(orders());
    kit::clean_env(&mut command);
    command.current_dir(&home.0).env("ORDERS_VERSION", "wild");
    command.args(["replay", "blurt", "--config", "t.toml"]);
    assert!(finish(command).ok().stdout.contains("identical"));
    let moment = wild(&home, &["replay", "--step", "blurt", "--json", "--config", "t.toml"]).ok();
    assert!(moment.stdout.contains("[redacted]") && !moment.stdout.contains("4711"), "{moment:?}");
    // Without the rules no code is executed: its memory has what they redact.
    for form in [&["--step"][..], &[], &["--capture", "tests"]] {
        let refused = wild(&home, &[&["replay", "blurt"], form].concat()).failed(1, "TFY0212");
        assert!(!format!("{refused:?}").contains("4711"), "{refused:?}");
    }
    std::fs::write(home.0.join("other.toml"), "redact = ['pattern pk-[0-9]+']").unwrap();
    wild(&home, &["replay", "--step", "blurt", "--config", "other.toml"]).failed(1, "TFY0212");
    let shown = wild(&home, &["show", "blurt", "--json"]).ok();
    assert!(shown.lines()[0]["seen"] == "records" && !shown.stdout.contains("4711"), "{shown:?}");
    let none = wild(&home, &["replay", "blurt", "--config", "no.toml"]);
    none.failed(1, "TFY0177");
}

#[test]
fn those_who_leave_make_no_room_for_more_processes_than_allowed() {
    let home = Home::new();
    let served = serve(&home, "[limits]\nchildren = 1");
    let gate = home.0.join("gate");
    run(&served, "gate", &json!(gate));
    std::fs::write(&gate, "").unwrap();
    let ask = || {
        let mut line = TcpStream::connect(&served.address).unwrap();
        let head = "GET /api/v1/runs/gate/step HTTP/1.1\r\nhost: localhost\r\n\r\n";
        line.write_all(head.as_bytes()).unwrap();
        line
    };
    let stays = ask();
    until("no process", || children(&served) == 1);
    let (status, problem) = served.ask("GET", "/api/v1/runs/gate/step", "");
    assert_eq!((status, &problem["code"]), (503, &json!("TFY0161")));
    assert!(problem["title"].as_str().unwrap().contains("`step` and `replay`"), "{problem}");
    // A client that disconnects ends the process, and until it has ended no other starts.
    drop(stays);
    for _ in 0..12 {
        drop(ask());
        assert!(children(&served) <= 1);
        std::thread::sleep(Duration::from_millis(5));
    }
    until("processes stay", || {
        let count = children(&served);
        assert!(count <= 1, "{count}");
        count == 0
    });
    std::fs::remove_file(&gate).unwrap();
    until("the place does not come back", || {
        served.ask("GET", "/api/v1/runs/gate/step", "").0 == 200
    });
}

#[test]
fn a_process_that_is_left_behind_is_not_waited_for() {
    let home = Home::new();
    let served = serve(&home, "");
    let file = home.0.join("pid");
    run(&served, "litter", &json!(file));
    std::fs::write(&file, "").unwrap();
    let (status, moment) = served.ask("GET", "/api/v1/runs/litter/step", "");
    assert_eq!((status, &moment["run"].is_string()), (200, &true), "{moment}");
    let pid = std::fs::read_to_string(&file).unwrap();
    let stat = PathBuf::from(format!("/proc/{pid}/stat"));
    until("it goes on", || {
        std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn the_end_of_the_daemon_ends_what_it_has_started() {
    let home = Home::new();
    let served = serve(&home, "");
    let gate = home.0.join("gate");
    run(&served, "gate", &json!(gate));
    std::fs::write(&gate, "").unwrap();
    let mut line = TcpStream::connect(&served.address).unwrap();
    let head = "GET /api/v1/runs/gate/step HTTP/1.1\r\nhost: localhost\r\n\r\n";
    line.write_all(head.as_bytes()).unwrap();
    until("no process", || children(&served) == 1);
    let path = gate.to_str().unwrap().to_owned();
    let log = home.log().canonicalize().unwrap();
    served.signal("-TERM");
    assert_eq!(served.end(), Some(0));
    let has_log = |entry: &std::fs::DirEntry| {
        let said = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&said).contains(log.to_str().unwrap())
    };
    until(&path, || !std::fs::read_dir("/proc").unwrap().flatten().any(|one| has_log(&one)));
}
