//! `--url`: the commands over HTTP print what they print for the directory of the same daemon.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::kit::served::{FREE, Served};
use crate::kit::{Home, Ran, finish, orders, tiffany};
use serde_json::Value;

/// Runs a command over HTTP.
fn remote(home: &Home, url: &str, arguments: &[&str]) -> Ran {
    finish(command(home, url, arguments))
}

fn command(home: &Home, url: &str, arguments: &[&str]) -> Command {
    // The directory that a test has otherwise is not given.
    let mut command = home.command(&tiffany(), &[]);
    let name = command.get_program().to_owned();
    let dir = command.get_current_dir().unwrap().to_owned();
    command = Command::new(name);
    crate::kit::clean_env(&mut command);
    command.current_dir(dir).args(["--url", url]).args(arguments);
    command
}

/// What looks, and changes nothing.
const LOOKS: &[&[&str]] = &[
    &["ls"],
    &["ls", "--json"],
    &["ls", "--state", "completed", "--sort", "id", "--reverse"],
    &["ls", "--text", "o-", "--limit", "1", "--json"],
    &["ls", "--forks-of", "n-1"],
    &["ls", "--active", "--json"],
    &["ls", "--active", "o-1", "--json"],
    &["ls", "--stuck"],
    &["ls", "--stuck", "--after", "0s", "--json"],
    &["show", "o-1"],
    &["show", "o-1", "--json"],
    &["show", "n-1"],
    &["show", "o-1", "--steps"],
    &["log", "o-1"],
    &["log", "n-1", "--json"],
    &["log", "n-1", "--follow"],
    &["log", "o-1", "--type", "EffectResult"],
    &["diff", "o-1", "o-2"],
    &["diff", "n-1", "n-1", "--json"],
    &["status"],
    &["status", "--json"],
    &["status", "--metrics", "tiffany_build_info"],
    &["query", "o-1", "status"],
    &["query", "o-1", "status", "--json"],
    &["approve"],
    &["approve", "--json"],
    &["doubt"],
    &["watch", "--events", "o-1"],
    &["watch", "--events", "--json"],
    &["watch", "n-1", "--json"],
    &["submit", "nap", "--id", "n-1", "--input", "0.01", "--wait"],
];

#[test]
fn what_looks_prints_the_same_over_http() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let url = served.said["url"].as_str().unwrap();
    for id in ["o-1", "o-2"] {
        remote(&home, url, &["submit", "order", "--id", id, "--input", "\"tea\""]).ok();
        home.until("it waits", || home.run(&["log", id]).stdout.contains("  wait "));
    }
    remote(&home, url, &["submit", "nap", "--id", "n-1", "--input", "0.01", "--wait"]).ok();
    remote(&home, url, &["fork", "n-1", "--at", "1", "--id", "n-1 again"]).ok();
    remote(&home, url, &["watch", "n-1 again"]).ok();
    for arguments in LOOKS {
        let (there, here) = (remote(&home, url, arguments), home.run(arguments));
        assert_eq!((there.code, &there.stderr), (here.code, &here.stderr), "{arguments:?}");
        assert_eq!(without_ages(&there.stdout), without_ages(&here.stdout), "{arguments:?}");
        assert!(!here.stdout.is_empty() || arguments.contains(&"--json"), "{arguments:?}");
    }
}

/// How long something has waited is another number a moment later.
fn without_ages(text: &str) -> String {
    let mut parts = text.split("\"seconds\":");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.fold(first, |text, part| text + "SECONDS" + part)
}

/// What changes a run, which is called `RUN` here.
const CHANGES: &[&[&str]] = &[
    &["submit", "order", "--id", "RUN", "--input", "\"tea\""],
    &["submit", "order", "--id", "RUN", "--input", "\"tea\"", "--json"],
    &["submit", "order", "--id", "RUN", "--input", "\"coffee\""],
    &["submit", "nothing", "--id", "RUN-2"],
    &["hold", "RUN", "--why", "lunch"],
    &["hold", "RUN"],
    &["hold", "RUN", "--release", "--json"],
    &["send", "RUN", "address", "\"here\""],
    &["send", "RUN", "address", "{"],
    // Values that JSON has and a program can't take are refused, and not changed on the way.
    &["send", "RUN", "address", "1e999"],
    &["submit", "order", "--id", "RUN-3", "--input", "{\"x\":1e999}"],
    &["settle", "11111111-2222-4333-8444-555555555555", "true"],
    &["query", "RUN", "nothing"],
    &["fork", "RUN", "--at", "4", "--id", "RUN-fork"],
    &["fork", "RUN-fork", "--allow", "make"],
    &["cancel", "RUN", "--json"],
    &["cancel", "RUN"],
    &["watch", "RUN", "--json"],
    &["rm", "RUN-none"],
    &["doubt", "decide", "RUN", "--again"],
    &["approve", "RUN", "--reject"],
];

#[test]
fn what_changes_something_prints_the_same_over_http() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let url = served.said["url"].as_str().unwrap();
    for arguments in CHANGES {
        let for_run = |run: &str| -> Vec<String> {
            arguments.iter().map(|word| word.replace("RUN", run)).collect()
        };
        let plain = |ran: &Ran, run: &str| {
            let text = format!("{}\n{}{}", ran.code, ran.stdout, ran.stderr);
            without_moments(&without_uuids(&text.replace(run, "RUN")))
        };
        let (local, over_http) = (for_run("here-1"), for_run("http-1"));
        let words =
            |words: &[String]| words.iter().map(String::as_str).collect::<Vec<_>>().join("\u{0}");
        let (local, over_http) = (words(&local), words(&over_http));
        let here = home.run(&local.split('\u{0}').collect::<Vec<_>>());
        let there = remote(&home, url, &over_http.split('\u{0}').collect::<Vec<_>>());
        // Where a name is not known, the directory is named, and what may have been meant.
        match here.stderr.contains("there is no run") {
            true => assert_eq!((there.code, there.stderr.contains("[TFY0041]")), (here.code, true)),
            false => assert_eq!(plain(&there, "http-1"), plain(&here, "here-1"), "{arguments:?}"),
        }
    }
}

fn without_uuids(text: &str) -> String {
    let is_uuid =
        |word: &str| word.len() == 36 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..36).filter(|word| is_uuid(word)) {
            Some(_) => {
                plain.push_str("UUID");
                rest = &rest[36..];
            }
            None => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    plain
}

fn without_moments(text: &str) -> String {
    let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() > 5;
    let words = text.split_inclusive([' ', '\n', '"']).map(|word| match digits(word) {
        true => "MOMENT ",
        false => word,
    });
    words.collect()
}

#[test]
fn a_run_that_goes_on_is_followed() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let url = served.said["url"].as_str().unwrap();
    remote(&home, url, &["submit", "nap", "--id", "n", "--input", "1.0"]).ok();
    let followed = remote(&home, url, &["log", "n", "--follow", "--json"]).ok();
    let last = followed.lines().pop().unwrap();
    assert_eq!(last["type"], "TaskExit", "{followed:?}");
    remote(&home, url, &["submit", "nap", "--id", "m", "--input", "1.0"]).ok();
    let watched = remote(&home, url, &["watch", "m", "--json"]).ok();
    assert_eq!(watched.lines().pop().unwrap()["state"], "completed");
    // Nothing is left of what was copied.
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let own = format!("tiffany-url-{}-", std::process::id());
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(&own)));
}

#[test]
fn what_works_on_files_says_so() {
    let home = Home::new();
    for arguments in [
        &["doctor"][..],
        &["replay", "n"],
        &["resume", "--all"],
        &["backup", "create", "x"],
        &["watch"],
        &["rm", "--older-than", "1d"],
        &["show", "n", "--forks"],
    ] {
        let refused = remote(&home, "http://127.0.0.1:1", arguments);
        if refused.stderr.contains("unexpected argument") {
            panic!("{arguments:?}: {refused:?}");
        }
        refused.failed(2, "TFY0304");
    }
}

/// A server that answers the first request with this.
fn answering(answer: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    std::thread::spawn(move || {
        let (mut line, _) = listener.accept().unwrap();
        let _ = line.read(&mut [0; 4096]);
        let _ = line.write_all(answer.as_bytes());
    });
    url
}

#[test]
fn what_is_wrong_with_the_address_or_the_daemon_has_a_code() {
    let home = Home::new();
    remote(&home, "http://127.0.0.1:1", &["ls"]).failed(4, "TFY0300");
    remote(&home, "http://example.org", &["ls"]).failed(2, "TFY0303");
    remote(&home, "ftp://localhost", &["ls"]).failed(2, "TFY0303");
    remote(&home, "http://localhost/api", &["ls"]).failed(2, "TFY0303");
    remote(&home, "https://localhost", &["--ca", "missing.pem", "ls"]).failed(2, "TFY0303");
    remote(&home, "http://localhost", &["--token-file", "missing", "ls"]).failed(2, "TFY0303");
    let body = r#"{"code":"TFY0162","title":"there is no path","next":"see /docs"}"#;
    let old = format!("HTTP/1.1 404 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    remote(&home, &answering(&old), &["status"]).failed(1, "TFY0302");
    remote(&home, &answering("SSH-2.0-OpenSSH\r\n"), &["status"]).failed(1, "TFY0302");
    let html = "HTTP/1.1 502 Bad\r\ncontent-length: 6\r\n\r\n<html>";
    remote(&home, &answering(html), &["status"]).failed(1, "TFY0302");
}

#[test]
fn a_token_is_asked_for_and_given() {
    let home = Home::new();
    std::fs::write(home.0.join("daemon.toml"), "require_token = true\n").unwrap();
    let served =
        Served::start(&home, &orders(), &[&FREE[..], &["--config", "daemon.toml"]].concat());
    let url = served.said["url"].as_str().unwrap();
    remote(&home, url, &["status"]).failed(1, "TFY0170");
    let added = home.run(&["token", "add", "ada", "--role", "viewer", "--json"]).ok();
    let token = added.lines()[0]["token"].as_str().unwrap().to_owned();
    std::fs::write(home.0.join("token"), format!("{token}\n")).unwrap();
    remote(&home, url, &["status", "--token-file", "token"]).ok();
    let mut with_variable = command(&home, url, &["status", "--json"]);
    with_variable.env("TIFFANY_TOKEN", &token);
    let told = finish(with_variable).ok();
    assert!(told.lines()[0]["pid"] != Value::Null);
    let submit = ["submit", "nap", "--id", "n", "--input", "0", "--token-file", "token"];
    remote(&home, url, &submit).failed(1, "TFY0173");
    std::fs::write(home.0.join("token"), "tfy_wrong\n").unwrap();
    remote(&home, url, &["status", "--token-file", "token"]).failed(1, "TFY0171");
}
