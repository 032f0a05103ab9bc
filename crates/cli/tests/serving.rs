//! `serve` as a real process: its output, how it stops or is killed, and its errors at the start.
//! The HTTP API is tested in `crates/daemon`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::kit::served::{FREE, Line, Served, ask, preloaded, read_line};
use crate::kit::{self, Home, LIMIT, orders, tiffany};
use serde_json::json;

#[test]
fn a_daemon_says_what_there_is_and_ends_when_it_is_told_to() {
    let home = Home::new();
    let mut served = Served::start(&home, &orders(), &FREE);
    assert_eq!(served.said["event"], "serving");
    assert_eq!((&served.said["live"], &served.said["paused"]), (&json!(0), &json!([])));
    assert!(served.said["functions"].as_array().unwrap().contains(&json!("order")));
    let submit = r#"{"function":"order","id":"o-1","input":"tea"}"#;
    assert_eq!(served.ask("POST", "/api/v1/runs", submit).0, 201);
    // The command line uses the socket.
    let listed = home.run(&["ls", "--json"]).ok();
    assert_eq!(listed.lines()[0]["id"], "o-1");
    served.signal("-TERM");
    assert_eq!(read_line(&mut served.lines)["event"], "ending");
    assert_eq!(read_line(&mut served.lines)["event"], "ended");
    assert_eq!(served.end(), Some(0));
    // The next daemon continues with it; the plain binary has no code for it.
    let served = Served::start(&home, &orders(), &FREE);
    assert_eq!(served.said["live"], 1);
    served.signal("-INT");
    assert_eq!(served.end(), Some(0));
    let served = Served::start(&home, &tiffany(), &FREE);
    assert_eq!(
        (&served.said["live"], &served.said["paused"][0]["code"]),
        (&json!(0), &json!("TFY0038"))
    );
    let (_, shown) = served.ask("GET", "/api/v1/runs/o-1", "");
    assert_eq!((&shown["state"], &shown["function"]), (&json!("paused"), &json!("order")));
    // It is live in its log, but the owning process knows that it is paused.
    assert_eq!(home.run(&["ls", "--json"]).ok().lines()[0]["state"], "paused");
    let inspected = home.run(&["resume", "--dry-run", "--json"]);
    let plan = &inspected.lines()[0]["unfinished"][0];
    assert_eq!((inspected.code, &plan["verdict"]), (1, &json!("paused")), "{plan}");
    assert_eq!(home.run(&["ls", "--state", "live", "--json"]).ok().stdout, "");
    let told = home.run(&["show", "o-1"]).ok().stdout;
    assert!(told.contains("state       paused") && told.contains("TFY0038"), "{told}");
    // Messages to it wait in the log.
    let message = r#"{"name":"address","message":"here"}"#;
    assert_eq!(served.ask("POST", "/api/v1/runs/o-1/messages", message).0, 204);
}

#[test]
fn the_code_of_a_run_is_run_in_a_process_of_its_own() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    served.ask("POST", "/api/v1/runs", r#"{"function":"nap","id":"n","input":0.01}"#);
    let (_, shown) = served.ask("GET", "/api/v1/runs/n?wait=10", "");
    assert_eq!(shown["state"], "completed");
    let (status, replayed) = served.ask("POST", "/api/v1/runs/n/replay", "");
    assert_eq!((status, &replayed["verdict"]), (200, &json!("identical")));
    let (status, moment) = served.ask("GET", "/api/v1/runs/n/step?at=2", "");
    assert_eq!((status, &moment["record"]), (200, &json!(2)), "{moment}");
    let (status, problem) = served.ask("GET", "/api/v1/runs/n/step?at=999", "");
    assert_eq!(status, 422, "{problem}");
    assert!(problem["code"].as_str().unwrap().starts_with("TFY"), "{problem}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new();
    let mut served =
        Served::start(&home, &orders(), &["--listen", "127.0.0.1:0", "--grace", "10m"]);
    served.ask("POST", "/api/v1/runs", r#"{"function":"pay","id":"p","input":600000}"#);
    home.wait_for("p", "EffectStart");
    served.signal("-TERM");
    assert_eq!(read_line(&mut served.lines)["event"], "ending");
    // Changes are refused, but read requests still work.
    assert_eq!(
        served.ask("POST", "/api/v1/runs", r#"{"function":"nap","input":1}"#).1["code"],
        "TFY0159"
    );
    let ran = home.run(&["cancel", "p"]);
    assert!(ran.code != 0 && ran.stderr.contains("is ending"), "{ran:?}");
    assert_eq!(served.ask("GET", "/readyz", "").0, 503);
    assert_eq!(served.ask("GET", "/api/v1/runs/p", "").1["state"], "live");
    served.signal("-TERM");
    assert_eq!(served.end(), Some(128 + 15));
}

#[test]
fn a_port_and_a_directory_that_somebody_has_are_named_with_who_has_them() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let other = Home::new();
    let ran = other.run(&["serve", "--listen", &served.address]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let who = format!("process {} (orders) uses the port", served.child.id());
    assert!(ran.stderr.contains("TFY0155") && ran.stderr.contains(&who), "{ran:?}");
    assert!(!other.log().exists(), "what does not start leaves nothing");
    std::fs::create_dir(other.log()).unwrap();
    assert_eq!(other.run(&["serve", "--listen", &served.address]).code, 1);
    assert_eq!(std::fs::read_dir(other.log()).unwrap().count(), 0);
    // The owner of the directory is reported first, whatever the port.
    for address in ["127.0.0.1:0", "localhost:0", &served.address] {
        let ran = home.run(&["serve", "--listen", address]).failed(4, "TFY0101");
        let (pid, url) = (served.child.id(), format!("which serves http://{}", served.address));
        let who = format!("in use by process {pid} on ");
        assert!(ran.stderr.contains(&who) && ran.stderr.contains(&url), "{ran:?}");
        assert!(ran.stderr.contains(" since 20"), "{ran:?}");
    }
    let status = home.run(&["status", "--json"]).ok().lines().remove(0);
    assert_eq!(status["url"], format!("http://{}", served.address));
    // The socket that a killed process left doesn't matter.
    let mut served = served;
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    assert!(home.log().join("control.sock").exists());
    let next = Served::start(&home, &orders(), &FREE);
    assert_eq!(next.ask("GET", "/readyz", "").0, 200);
    assert_eq!(home.run(&["ls"]).code, 0);
}

/// Returns the processor time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after = stat.rsplit_once(") ").unwrap().1;
    after.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn idle_connections_without_a_token_do_not_stop_the_log() {
    let home = Home::new();
    let served = Served::limited(&home, &orders(), "ulimit -n 256");
    let pid = served.child.id();
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let mut line = Line::open(&served.address);
    assert_eq!(line.ask("GET", "/readyz", "").0, 200);
    let before = open();
    let idle: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    home.until("the daemon has all connections that it takes", || {
        let taken = open();
        std::thread::sleep(Duration::from_millis(100));
        taken > before + 25 && taken == open()
    });
    // Each run needs its own file, and so a descriptor.
    let used = ticks(pid);
    for run in 0..40 {
        let submit = format!(r#"{{"function":"nap","id":"n-{run}","input":0.01}}"#);
        let (status, told) = line.ask("POST", "/api/v1/runs", &submit);
        assert_eq!(status, 201, "{told}");
    }
    for run in 0..40 {
        let (_, shown) = line.ask("GET", &format!("/api/v1/runs/n-{run}?wait=10"), "");
        assert_eq!(shown["state"], "completed", "{shown}");
    }
    assert!(open() < 256, "{} descriptors", open());
    // Connections that cannot be accepted don't use the processor: a second has 100 ticks.
    assert!(ticks(pid) - used < 300, "{} ticks", ticks(pid) - used);
    drop(idle);
    home.until("it can be asked again", || {
        ask(&served.address, "GET", "/readyz", "").is_ok_and(|(status, _)| status == 200)
    });
    assert_eq!(served.ask("GET", "/api/v1/runs/n-39", "").1["state"], "completed");
    let doctor = home.run(&["doctor", "--json"]);
    let found = doctor.lines().into_iter().find(|one| one["check"] == "open files").unwrap();
    assert_eq!((&found["state"], &found["found"]), (&json!("note"), &json!("256 at most")));
    assert!(found["next"].as_str().unwrap().contains("`ulimit -n`"), "{found}");
}

#[test]
fn a_daemon_raises_its_soft_limit_of_open_files_and_warns_if_there_are_few() {
    let home = Home::new();
    for (limit, expected) in [("ulimit -Sn 100; ulimit -Hn 3000", "3000"), ("ulimit -n 200", "200")]
    {
        let served = Served::limited(&home, &tiffany(), limit);
        let limits =
            std::fs::read_to_string(format!("/proc/{}/limits", served.child.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert_eq!(line.split_whitespace().nth(3), Some(expected), "{line}");
        let warned = served.said["warnings"].to_string().contains("only 200 open files");
        assert_eq!(warned, expected == "200", "{}", served.said);
    }
}

#[test]
fn a_daemon_with_too_few_descriptors_does_not_start_and_leaves_nothing() {
    let home = Home::new();
    for limit in [16, 20, 24, 26, 28, 63] {
        let ran = Served::refused(&home, &tiffany(), &format!("ulimit -n {limit}"));
        let said = ran.failed(1, "TFY0260").stderr;
        assert!(said.contains(&format!("{limit} open files")) && said.contains("64"), "{said}");
        assert!(!home.log().exists(), "{limit}");
    }
    let served = Served::limited(&home, &tiffany(), "ulimit -n 64");
    assert_eq!(served.ask("GET", "/readyz", "").0, 200);
    assert_eq!(home.run(&["ls"]).code, 0);
}

/// A library that delays `fdatasync` of the audit file: it signals the call, and returns when it is
/// told to.
const SLOW_DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int fdatasync(int fd) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length > 0) {
        name[length] = 0;
        if (strstr(name, "audit.jsonl")) {
            close(open(getenv("SLOW_BEGAN"), O_CREAT | O_WRONLY, 0600));
            while (access(getenv("SLOW_GO"), F_OK) != 0) usleep(1000);
        }
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"#;

#[test]
fn a_disk_that_takes_long_with_the_audit_keeps_nobody_waiting() {
    let home = Home::new();
    let library = preloaded(&home, SLOW_DISK);
    let (began, go) = (home.0.join("began"), home.0.join("go"));
    let served = Served::with(&home, &orders(), &FREE, |command| {
        command.env("LD_PRELOAD", &library).env("SLOW_BEGAN", &began).env("SLOW_GO", &go);
    });
    let submit = |id: &str| {
        let body = format!("{{\"function\":\"echo\",\"id\":\"{id}\",\"input\":1}}");
        ask(&served.address, "POST", "/api/v1/runs", &body).map(|(status, _)| status)
    };
    assert_eq!(submit("first").unwrap(), 201);
    let begun = Instant::now();
    while !began.exists() {
        assert!(begun.elapsed() < LIMIT, "the audit is not brought to the disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    let meanwhile = submit("second");
    std::fs::write(&go, "").unwrap();
    assert_eq!(meanwhile.unwrap(), 201);
    served.signal("-TERM");
    assert_eq!(served.end(), Some(0));
}

/// A daemon with a limit for the size of files: a write beyond it fails instead of ending the
/// process. Its audit file starts at an offset that no other file reaches.
struct Limited {
    home: Home,
    served: Served,
}

const AUDIT_BEGINS_AT: u64 = 1 << 30;

impl Limited {
    fn start() -> Limited {
        let home = Home::new();
        std::fs::create_dir(home.log()).unwrap();
        let audit = std::fs::File::create(home.log().join("audit.jsonl")).unwrap();
        audit.set_len(AUDIT_BEGINS_AT - 1).unwrap();
        let mut file =
            std::fs::OpenOptions::new().append(true).open(home.log().join("audit.jsonl"));
        file.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut command = Command::new("sh");
        command.current_dir(&home.0).args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(orders());
        command.args(["--dir", "orders", "serve", "--json"]).args(FREE);
        Limited { served: Served::by(command), home }
    }

    /// Limits the size of files.
    fn limit(&self, bytes: Option<u64>) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(&self.served.child)), Resource::Fsize, limit).unwrap();
    }

    fn length(&self) -> u64 {
        std::fs::metadata(self.home.log().join("audit.jsonl")).unwrap().len()
    }

    /// Returns the change, its target and its outcome for each line of the audit file.
    fn lines(&self) -> Vec<(String, String, String)> {
        use std::io::{Seek, SeekFrom};
        let mut file = std::fs::File::open(self.home.log().join("audit.jsonl")).unwrap();
        file.seek(SeekFrom::Start(AUDIT_BEGINS_AT)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (text("did"), text("to"), text("outcome"))
        };
        text.lines().map(line).collect()
    }

    fn submit(&self, id: &str) -> (u16, String) {
        let body = format!("{{\"function\":\"order\",\"id\":\"{id}\",\"input\":\"tea\"}}");
        let (status, answer) = self.served.ask("POST", "/api/v1/runs", &body);
        (status, answer["code"].as_str().unwrap_or_default().to_owned())
    }

    fn is_there(&self, id: &str) -> bool {
        self.served.ask("GET", &format!("/api/v1/runs/{id}"), "").0 == 200
    }

    fn ready(&self) -> (u16, serde_json::Value) {
        let (status, answer) = self.served.ask("GET", "/readyz", "");
        (status, answer["why"]["code"].clone())
    }
}

#[test]
fn what_the_audit_cannot_take_is_not_done_and_what_was_done_is_not_denied() {
    let daemon = Limited::start();
    let line = |did: &str, to: &str, outcome: &str| (did.into(), to.into(), outcome.into());
    let begun = daemon.length();
    assert_eq!(daemon.submit("o-1").0, 201);
    assert_eq!(daemon.lines(), [line("submit", "o-1", "begun"), line("submit", "o-1", "ok")]);
    let intent = (daemon.length() - begun) / 2 + 8;

    // Not even the intent can be written: nothing is changed, over HTTP or through the socket.
    daemon.limit(Some(daemon.length() + 10));
    assert_eq!(daemon.submit("o-2"), (503, "TFY0179".into()));
    let refused = daemon.home.run(&["submit", "order", "--id", "o-2", "--input", "\"tea\""]);
    assert!(refused.code != 0 && refused.stderr.contains("TFY0179"), "{refused:?}");
    assert!(!daemon.is_there("o-2"));
    assert_eq!(daemon.ready(), (503, json!("TFY0179")));
    daemon.limit(None);
    assert_eq!(daemon.ready().0, 200);
    assert_eq!(daemon.lines()[2..], [line("audit_failed", "", "TFY0179")]);

    // The intent can be written but the outcome cannot: the client gets the answer of the change.
    daemon.limit(Some(daemon.length() + intent));
    assert_eq!(daemon.submit("o-3").0, 201);
    assert!(daemon.is_there("o-3"));
    assert_eq!(daemon.submit("o-4"), (503, "TFY0179".into()));
    assert!(!daemon.is_there("o-4"));
    assert_eq!(daemon.ready(), (503, json!("TFY0179")));
    assert_eq!(daemon.lines()[3..], [line("submit", "o-3", "begun")]);
    daemon.limit(None);
    assert_eq!(daemon.ready().0, 200);
    assert_eq!(daemon.lines()[4..], [line("submit", "o-3", "ok")]);

    // The outcome cannot be written for a change through the socket either; the command prints the
    // warning.
    daemon.limit(Some(daemon.length() + intent));
    let done = daemon.home.run(&["submit", "order", "--id", "o-5", "--input", "\"tea\""]).ok();
    assert!(
        done.stderr.contains("the change was made") && done.stderr.contains("TFY0210"),
        "{done:?}"
    );
    daemon.limit(None);
    assert_eq!(daemon.submit("o-6").0, 201);
    let did: Vec<String> = daemon.lines()[5..].iter().map(|(_, to, _)| to.clone()).collect();
    assert_eq!(did, ["o-5", "o-5", "o-6", "o-6"]);
}

#[test]
fn fifty_commands_at_once_all_reach_the_daemon() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let submit = |number: usize| {
        let id = format!("o-{number}");
        let mut command = home.command(&tiffany(), &["submit", "order", "--id", &id]);
        command.args(["--input", "\"tea\""]).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let all: Vec<Child> = (0..50).map(submit).collect();
    for child in all {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(served.ask("GET", "/api/v1/runs?limit=1", "").1["total"], 50);
}

#[test]
fn who_listens_where_nobody_can_get_in_is_told_so() {
    let home = Home::new();
    std::fs::write(home.0.join("t.toml"), "require_token = true\n").unwrap();
    let config = ["--listen", "127.0.0.1:0", "--config", "t.toml"];
    let served = Served::start(&home, &orders(), &config);
    let warning = served.said["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("no client has access yet") && warning.contains("token add"),
        "{warning}"
    );
    drop(served);
    home.run(&["token", "add", "ada", "--role", "admin"]).ok();
    let served = Served::start(&home, &orders(), &config);
    assert_eq!(served.said["warnings"], json!([]));
    // Changes of tokens are audited as well.
    drop(served);
    assert_eq!(home.run(&["token", "add", "ada", "--role", "admin"]).code, 1);
    home.run(&["token", "rm", "ada"]).ok();
    let audit = home.run(&["audit", "--json"]).ok();
    let told: Vec<_> = audit
        .lines()
        .iter()
        .map(|line| {
            [&line["did"], &line["to"], &line["outcome"]].map(|it| it.as_str().unwrap().to_owned())
        })
        .collect();
    let expected =
        [["token_add", "ada", "ok"], ["token_add", "ada", "TFY0178"], ["token_rm", "ada", "ok"]];
    assert_eq!(told, expected);
}

/// Follows the activity of all runs, and reconnects when the connection breaks.
fn watcher(address: String, is_over: Arc<AtomicBool>, seen: Arc<Mutex<Vec<String>>>) {
    let mut last = String::new();
    while !is_over.load(Ordering::SeqCst) {
        let Ok(mut line) = TcpStream::connect(&address) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        line.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let again = match last.is_empty() {
            true => String::new(),
            false => format!("last-event-id: {last}\r\n"),
        };
        let head = format!("GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n{again}\r\n");
        if line.write_all(head.as_bytes()).is_err() {
            continue;
        }
        let mut lines = BufReader::new(line);
        loop {
            let mut text = String::new();
            match lines.read_line(&mut text) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            if let Some(id) = text.trim_end().strip_prefix("id: ") {
                id.clone_into(&mut last);
            }
            if let Some(event) = text.strip_prefix("data: ") {
                seen.lock().unwrap().push(event.to_owned());
            }
        }
    }
}

#[test]
fn killed_under_load_it_loses_nothing_that_it_has_acknowledged_and_watchers_catch_up() {
    const CLIENTS: usize = 64;
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let address = served.address.clone();
    let (is_over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let watches = {
        let (address, is_over, seen) = (address.clone(), Arc::clone(&is_over), Arc::clone(&seen));
        std::thread::spawn(move || watcher(address, is_over, seen))
    };
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, acknowledged) = (address.clone(), Arc::clone(&acknowledged));
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                for number in 0.. {
                    let id = format!("load-{client}-{number}");
                    let body =
                        format!("{{\"function\":\"echo\",\"id\":\"{id}\",\"input\":{number}}}");
                    match ask(&address, "POST", "/api/v1/runs", &body) {
                        Ok((201, _)) => ids.push(id),
                        Ok(other) => panic!("{other:?}"),
                        Err(_) => break,
                    }
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                ids
            })
        })
        .collect();
    let begun = Instant::now();
    while acknowledged.load(Ordering::SeqCst) < 4 * CLIENTS {
        assert!(begun.elapsed() < LIMIT, "too slow: {acknowledged:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    served.signal("-KILL");
    assert_eq!(served.end(), None);
    let ids: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(ids.len() >= 4 * CLIENTS);
    let served = Served::start(&home, &orders(), &["--listen", &address]);
    for id in &ids {
        let (status, shown) = served.ask("GET", &format!("/api/v1/runs/{id}?wait=30"), "");
        assert_eq!((status, &shown["state"]), (200, &json!("completed")), "{id}: {shown}");
    }
    let (_, list) = served.ask("GET", "/api/v1/runs?function=echo&limit=1", "");
    assert!(list["total"].as_u64().unwrap() >= ids.len() as u64, "{list}");
    served.ask("POST", "/api/v1/runs", r#"{"function":"echo","id":"after","input":1}"#);
    let begun = Instant::now();
    let has = |what: &str| seen.lock().unwrap().iter().any(|event| event.contains(what));
    while !(has("\"restarted\":true") && has("\"after\"")) {
        assert!(begun.elapsed() < LIMIT, "the watcher has not caught up");
        std::thread::sleep(Duration::from_millis(20));
    }
    is_over.store(true, Ordering::SeqCst);
    watches.join().unwrap();
}

#[test]
fn what_is_done_while_the_daemon_is_away_is_in_its_audit_too() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    served.ask("POST", "/api/v1/runs", r#"{"function":"nap","id":"n","input":600}"#);
    served.ask("POST", "/api/v1/runs", r#"{"function":"nap","id":"short","input":0.01}"#);
    served.ask("GET", "/api/v1/runs/short?wait=10", "");
    served.signal("-TERM");
    served.end();
    home.run(&["send", "n", "word", "1"]).ok();
    home.run(&["cancel", "n"]).ok();
    home.run(&["rm", "short"]).ok();
    home.run(&["approve", "n/9"]).failed(1, "TFY0181");
    let lines = home.run(&["audit", "--json"]).ok().lines();
    let by_hand = lines.iter().filter(|line| line["from"] == "log");
    let told: Vec<(&str, &str)> = by_hand
        .map(|line| (line["did"].as_str().unwrap(), line["outcome"].as_str().unwrap()))
        .collect();
    // Refused requests are recorded too.
    let expected = [("send", "ok"), ("cancel", "ok"), ("remove", "ok"), ("approve", "TFY0181")];
    assert_eq!(told, expected, "{lines:?}");
}

#[test]
fn a_log_that_no_daemon_ever_had_is_given_no_audit() {
    let home = Home::new();
    home.start("nap", "n", "600", "0.2").ok();
    home.run(&["cancel", "n"]).ok();
    assert!(!home.log().join("audit.jsonl").exists());
}

/// Returns the program with runs that fail while their other tasks are busy.
fn failing(home: &Home) -> Command {
    let mut command = home.command(&orders(), &["serve", "--json", "--listen", "127.0.0.1:0"]);
    command.env("ORDERS_VERSION", "ends");
    command
}

#[test]
fn a_failed_run_is_told_and_logged() {
    let home = Home::new();
    let mut served = Served::logging_to(failing(&home), Stdio::piped());
    let mut log = BufReader::new(served.child.stderr.take().unwrap());
    let submit = r#"{"function":"stumble","id":"s-1","input":"over a stone"}"#;
    assert_eq!(served.ask("POST", "/api/v1/runs", submit).0, 201);
    let (_, shown) = served.ask("GET", "/api/v1/runs/s-1?wait=10", "");
    assert_eq!(shown["state"], "failed", "{shown}");
    assert_eq!(shown["error"]["message"], "over a stone");
    let line = read_line(&mut log);
    assert_eq!(line["level"], "ERROR", "{line}");
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("over a stone") && message.contains("[TFY0001]"), "{line}");
    let place = "crates/cli/examples/orders.rs:";
    assert!(message.contains(place), "it names the place: {line}");
    let fields = &line["fields"];
    assert_eq!((&fields["run_id"], &fields["function"]), (&json!("s-1"), &json!("stumble")));
    assert_eq!(fields["code"], "TFY0001");
    // Nothing else is logged, and a cancelled run has not failed.
    let submit = r#"{"function":"nap","id":"n-1","input":600}"#;
    assert_eq!(served.ask("POST", "/api/v1/runs", submit).0, 201);
    assert_eq!(served.ask("POST", "/api/v1/runs/n-1/cancel", "").0, 204);
    served.signal("-TERM");
    let rest = log.lines().map(Result::unwrap).collect::<Vec<String>>();
    assert_eq!(rest, Vec::<String>::new());
    assert_eq!(served.end(), Some(0));
}

#[test]
fn a_run_whose_tasks_are_slow_to_end_is_ending() {
    let home = Home::new();
    let served = Served::by(failing(&home));
    let submit = r#"{"function":"linger","id":"l-1","input":"tired"}"#;
    assert_eq!(served.ask("POST", "/api/v1/runs", submit).0, 201);
    let (_, shown) = served.ask("GET", "/api/v1/runs/l-1?wait=10", "");
    assert_eq!((&shown["state"], &shown["error"]["message"]), (&json!("ending"), &json!("tired")));
    let (_, listed) = served.ask("GET", "/api/v1/runs?state=ending", "");
    assert_eq!(listed["runs"][0]["id"], "l-1");
    assert_eq!(home.run(&["ls", "--json"]).ok().lines()[0]["state"], "ending");
    assert_eq!(home.run(&["show", "l-1", "--json"]).ok().lines()[0]["state"], "ending");
    assert!(home.run(&["ls", "--active"]).ok().stdout.contains("ending"));
    // A waiting command reports it, although the run has not ended.
    let waited = home.run(&["submit", "linger", "--id", "l-1", "--input", "\"tired\"", "--wait"]);
    assert!(waited.code != 0 && waited.stderr.contains("tired"), "{waited:?}");
    // A crash doesn't change that.
    drop(served);
    let served = Served::by(failing(&home));
    let (_, shown) = served.ask("GET", "/api/v1/runs/l-1", "");
    assert_eq!((&shown["state"], &shown["error"]["message"]), (&json!("ending"), &json!("tired")));
    // A second cancel ends the rest, and the outcome stays as reported.
    assert_eq!(served.ask("POST", "/api/v1/runs/l-1/cancel", "").0, 204);
    home.until("its end", || served.ask("GET", "/api/v1/runs/l-1", "").1["state"] == "failed");
    assert_eq!(served.ask("GET", "/api/v1/runs/l-1", "").1["error"]["message"], "tired");
}

/// A library that makes writes to the commit log fail once a file exists.
const BAD_DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length > 0) {
        name[length] = 0;
        if (strstr(name, "/commit/") && access(getenv("BAD_DISK"), F_OK) == 0) {
            errno = EIO;
            return -1;
        }
    }
    return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, bytes, count, at);
}
"#;

/// A daemon whose log can no longer be written, while its audit file can.
struct Failing {
    served: Served,
    home: Home,
}

impl Failing {
    fn start() -> Failing {
        let home = Home::new();
        let library = preloaded(&home, BAD_DISK);
        let is_bad = home.0.join("is_bad");
        let served = Served::with(&home, &orders(), &FREE, |command| {
            command.env("LD_PRELOAD", &library).env("BAD_DISK", &is_bad);
        });
        let failing = Failing { served, home };
        let body = json!({"function": "nap", "id": "done", "input": 0.01}).to_string();
        assert_eq!(failing.ask("POST", "/api/v1/runs", &body).0, 201);
        assert_eq!(failing.ask("GET", "/api/v1/runs/done?wait=20", "").1["state"], "completed");
        let body = json!({"function": "deploy", "id": "asks", "input": "1.0"}).to_string();
        assert_eq!(failing.ask("POST", "/api/v1/runs", &body).0, 201);
        failing.home.until("nobody is asked", || failing.approvals() == 1);
        std::fs::write(&is_bad, "").unwrap();
        failing
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        self.served.ask(method, path, body)
    }

    fn approvals(&self) -> usize {
        self.ask("GET", "/api/v1/approvals", "").1["approvals"].as_array().map_or(0, Vec::len)
    }
}

/// After the log has failed, clients see only what is in the log.
#[test]
fn changes_that_were_never_written_are_not_told() {
    let submit = json!({"function": "nap", "id": "new", "input": 0.01}).to_string();
    let changes = [
        ("DELETE", "/api/v1/runs/done", ""),
        ("POST", "/api/v1/approvals/asks/approve", ""),
        ("POST", "/api/v1/runs", &*submit),
        ("POST", "/api/v1/runs/asks/cancel", ""),
    ];
    for (method, path, body) in changes {
        let daemon = Failing::start();
        let refused = daemon.ask(method, path, body);
        assert_eq!((refused.0, &refused.1["code"]), (503, &json!("TFY0102")), "{refused:?}");
        assert!(refused.1["next"].to_string().contains("may be recorded"), "{refused:?}");
        let (status, shown) = daemon.ask("GET", "/api/v1/runs/done", "");
        assert_eq!((status, &shown["state"]), (200, &json!("completed")), "after {path}: {shown}");
        assert_eq!(daemon.approvals(), 1, "after {path}");
        assert_eq!(daemon.ask("GET", "/api/v1/runs/asks", "").1["state"], "live", "after {path}");
        assert_eq!(daemon.ask("GET", "/api/v1/runs/new", "").0, 404, "after {path}");
        assert_eq!(daemon.ask("GET", "/api/v1/runs/new/records", "").0, 404, "after {path}");
        let listed = daemon.ask("GET", "/api/v1/runs", "").1;
        assert_eq!(listed["total"], 2, "after {path}: {listed}");
        // The last records may not have reached the run's file before the log failed.
        for run in ["done", "asks"] {
            let (status, told) = daemon.ask("GET", &format!("/api/v1/runs/{run}/records"), "");
            match status {
                200 => assert!(!told["records"].to_string().contains("TaskCancel"), "{told}"),
                _ => assert_eq!((status, &told["code"]), (503, &json!("TFY0102")), "{told}"),
            }
        }
        let again = daemon.ask(method, path, body);
        assert_eq!((again.0, &again.1["code"]), (503, &json!("TFY0102")), "{again:?}");
        assert!(!again.1["next"].to_string().contains("may be recorded"), "{again:?}");
    }
}

/// Only requests that change something wait for the audit file.
#[test]
fn an_audit_that_cannot_be_written_yet_keeps_nobody_else_waiting() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let audit = std::fs::File::open(home.log().join("audit.jsonl")).unwrap();
    audit.lock().unwrap();
    let submit = |id: String| {
        let mut line = TcpStream::connect(&served.address).unwrap();
        let body = format!("{{\"function\":\"nap\",\"id\":\"{id}\",\"input\":0.01}}");
        let length = body.len();
        let head =
            "POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        write!(line, "{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
            .unwrap();
        line
    };
    let waiting: Vec<TcpStream> = (0..4).map(|number| submit(format!("h-{number}"))).collect();
    let arguments = ["submit", "nap", "--id", "s", "--input", "0.01"];
    let command = home.command(&tiffany(), &arguments).stdout(Stdio::null()).spawn().unwrap();
    let mut command = kit::Holder(command);
    // By now all of them are waiting.
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert_eq!(served.ask("GET", "/api/v1/runs", "").1["total"], 0);
    let (status, ready) = served.ask("GET", "/readyz", "");
    assert_eq!((status, &ready["why"]["code"]), (503, &json!("TFY0179")), "{ready}");
    let status = home.run(&["status", "--json"]).ok();
    assert!(begun.elapsed() < Duration::from_secs(15), "{status:?}");
    drop(audit);
    for mut line in waiting {
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    assert!(command.0.wait().unwrap().success());
    assert_eq!(served.ask("GET", "/api/v1/runs", "").1["total"], 5);
}
