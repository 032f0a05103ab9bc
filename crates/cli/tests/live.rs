//! Runs in progress: submitting, listing and watching them, and their questions. The threat: a
//! command waits for an answer that cannot come, or it is unknown who gave an answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::served::{FREE, Served, ask, read_line};
use crate::kit::{Holder, Home, LIMIT, Ran, finish, orders, tiffany};
use serde_json::{Value, json};

/// Starts a process that owns the directory for a while.
fn holder(home: &Home) -> Holder {
    let holder = home.hold("nap", "holder", "600", "");
    home.until("nobody has the directory", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"holder\"")
    });
    holder
}

fn decisions(home: &Home, id: &str) -> Vec<Value> {
    let shown = home.run(&["show", id, "--json"]).lines().remove(0);
    shown["decisions"].as_array().unwrap().clone()
}

/// Waits until a run has a question, and returns its id.
fn question(home: &Home, id: &str) -> String {
    home.until(&format!("{id} asks nothing"), || {
        home.run(&["approve", "--json"]).stdout.contains(&format!("\"run_id\":\"{id}\""))
    });
    let open = home.run(&["approve", "--list", id, "--json"]).ok().lines();
    open[0]["id"].as_str().unwrap().to_owned()
}

/// Runs all read-only commands at once, while the process doesn't answer. Each must end soon, and
/// report that it read the files, and why.
fn look_meanwhile(home: &Home, run: &str, why: &str) {
    let commands: [&[&str]; 8] = [
        &["ls", "--json"],
        &["show", run, "--json"],
        &["ls", "--active", "--json"],
        &["ls", "--active", run, "--json"],
        &["status", "--json"],
        &["doctor", "--json"],
        &["approve", "--json"],
        &["doubt", "--json"],
    ];
    std::thread::scope(|scope| {
        for command in commands {
            scope.spawn(move || {
                let begun = Instant::now();
                let ran = home.run(command);
                assert!(begun.elapsed() < Duration::from_secs(20), "{command:?}: {ran:?}");
                let said = match command[0] {
                    // `doctor` reports it with its other findings.
                    "doctor" => &ran.stdout,
                    _ => &ran.stderr,
                };
                assert!(said.contains("TFY0043") && said.contains(why), "{command:?}: {ran:?}");
                let expected = match command[0] {
                    "status" => 4,
                    "doctor" => 1,
                    _ => 0,
                };
                assert_eq!(ran.code, expected, "{command:?}: {ran:?}");
                if let "ls" | "show" | "status" = command[0] {
                    let line = ran.lines().remove(0);
                    let unanswered = line["unanswered"].as_str().unwrap_or_default();
                    assert!(unanswered.contains(why), "{command:?}: {ran:?}");
                }
            });
        }
    });
}

#[test]
fn who_only_looks_reads_the_files_when_the_process_is_stopped() {
    let home = Home::new();
    let holder = holder(&home);
    let signal = |name: &str| {
        let pid = holder.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    look_meanwhile(&home, "holder", "is stopped");
    let row = home.run(&["ls", "--active", "--json"]).ok().lines().remove(0);
    assert_eq!(
        (&row["id"], &row["state"], &row["tasks"]),
        (&json!("holder"), &json!("live"), &json!(1))
    );
    assert!(row["waits"][0].as_str().unwrap().starts_with("sleep"), "{row}");
    signal("-CONT");
    let ran = home.run(&["ls", "--json"]).ok();
    assert_eq!((ran.stderr.as_str(), &ran.lines()[0]["unanswered"]), ("", &Value::Null));
}

/// Commands that wait for the process report the reason within seconds, and continue when it
/// answers.
#[test]
fn commands_that_wait_say_that_the_process_is_stopped() {
    let home = Home::new();
    let holder = holder(&home);
    let signal = |name: &str| {
        let pid = holder.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    let start = |name: &str, arguments: &[&str]| {
        let said = home.0.join(name);
        let file = std::fs::File::create(&said).unwrap();
        let mut command = home.command(&tiffany(), arguments);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        (Holder(command.spawn().unwrap()), said)
    };
    let submit = ["submit", "nap", "--id", "n", "--input", "0.01"];
    let mut commands = [
        start("submit", &submit),
        start("send", &["send", "holder", "news", "1"]),
        start("watch", &["watch", "holder"]),
        start("events", &["watch", "--events", "holder"]),
    ];
    let begun = Instant::now();
    for (_, said) in &commands {
        let text = || std::fs::read_to_string(said).unwrap();
        home.until(&format!("{said:?} says nothing"), || text().contains("is stopped"));
        assert!(text().contains("kill -CONT"), "{}", text());
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    signal("-CONT");
    for (command, said) in &mut commands[..2] {
        let ended = command.0.wait().unwrap();
        assert!(ended.success(), "{}", std::fs::read_to_string(said).unwrap());
    }
    let watched = &commands[2].1;
    home.until("the run does not go on", || {
        std::fs::read_to_string(watched).unwrap().contains("and the run continues")
    });
}

#[test]
fn who_only_looks_reads_the_files_when_a_task_keeps_its_turn() {
    let home = Home::new();
    let gate = Gate::shut(&home);
    let mut command = home.start_command("gate", "b", &json!(gate.0).to_string(), "");
    command.env("ORDERS_VERSION", "wild").stdout(Stdio::null()).stderr(Stdio::null());
    let _holder = Holder(command.spawn().unwrap());
    home.until("the task does not keep its turn", || {
        home.run(&["ls", "--stuck", "--json"]).stdout.contains("\"is_over\":false")
    });
    look_meanwhile(&home, "b", "has kept its turn for");
}

/// A file that lets `gate` keep its turn until this is dropped.
struct Gate(PathBuf);

impl Gate {
    fn shut(home: &Home) -> Gate {
        let gate = Gate(home.0.join("gate"));
        std::fs::write(&gate.0, "").unwrap();
        gate
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Returns whether a daemon reports that it is ending. While its loop is blocked and it is not
/// ending, it doesn't answer.
fn says_that_it_ends(address: &str) -> bool {
    let mut line = TcpStream::connect(address).unwrap();
    line.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    write!(line, "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    line.read_to_string(&mut text).is_ok() && text.contains("the daemon is ending")
}

/// Requests that wait for the loop when a daemon is told to end are refused, although the blocked
/// loop doesn't react to the signal.
#[test]
fn a_daemon_that_is_ending_does_not_begin_what_waited_for_its_loop() {
    let home = Home::new();
    let served = Served::with(&home, &orders(), &[&FREE[..], &["--grace", "1m"]].concat(), |it| {
        it.env("ORDERS_VERSION", "wild");
    });
    let post = |function: &str, id: &str, input: Value| {
        let body = json!({ "function": function, "id": id, "input": input }).to_string();
        ask(&served.address, "POST", "/api/v1/runs", &body)
    };
    std::thread::scope(|scope| {
        let gate = Gate::shut(&home);
        let path = json!(gate.0);
        scope.spawn(move || post("gate", "g", path));
        home.until("the task does not keep its turn", || {
            home.run(&["ls", "--stuck", "--json"]).stdout.contains("\"is_over\":false")
        });
        let by_http = scope.spawn(|| post("nap", "http", json!(0)).unwrap());
        let by_socket =
            scope.spawn(|| home.run(&["submit", "nap", "--id", "socket", "--input", "0"]));
        home.until("the intents are not in the audit", || {
            let audit = std::fs::read_to_string(home.log().join("audit.jsonl")).unwrap();
            audit.contains("\"to\":\"http\"") && audit.contains("\"to\":\"socket\"")
        });
        served.signal("-TERM");
        home.until("it is not ending", || says_that_it_ends(&served.address));
        // New requests are refused without waiting for the loop.
        assert_eq!(post("nap", "late", json!(0)).unwrap().1["code"], "TFY0159");
        drop(gate);
        let (status, told) = by_http.join().unwrap();
        assert_eq!((status, &told["code"]), (503, &json!("TFY0159")), "{told}");
        let ran = by_socket.join().unwrap().failed(4, "TFY0043");
        assert!(ran.stderr.contains("is ending"), "{ran:?}");
    });
    assert_eq!(served.end(), Some(0));
    let ids: Vec<Value> =
        home.run(&["ls", "--json"]).ok().lines().iter().map(|run| run["id"].clone()).collect();
    assert_eq!(ids, ["g"]);
    let audit = std::fs::read_to_string(home.log().join("audit.jsonl")).unwrap();
    assert_eq!(audit.matches("\"outcome\":\"TFY0159\"").count(), 1, "{audit}");
    assert_eq!(audit.matches("\"outcome\":\"TFY0043\"").count(), 1, "{audit}");
}

#[test]
fn questions_are_listed_and_decided_where_nobody_has_the_directory() {
    let home = Home::new();
    home.start("nap", "n-1", "0.01", "").ok();
    home.start("refund", "r-1", "40", "0.3").ok();
    home.start("deploy", "d-1", "\"v2\"", "0.3").ok();
    let open = home.run(&["approve", "--json"]).ok().lines();
    assert_eq!(open.len(), 2);
    let refund = open.iter().find(|open| open["run_id"] == "r-1").unwrap();
    assert_eq!(refund["question"], "Refund 40 EUR?");
    assert_eq!(refund["choices"], serde_json::json!(["all", "half", "none"]));
    assert_eq!((&refund["payload"], &refund["tid"]), (&40.into(), &1.into()));
    let table = home.run(&["approve"]).ok().stdout;
    assert!(table.contains("Refund 40 EUR?") && table.contains("all, half, none"), "{table}");
    assert_eq!(home.run(&["approve", "--list", "r-1"]).ok().stdout.matches("EUR?").count(), 1);

    home.run(&["approve", "--because", "it is cheap"]).failed(2, "TFY0185");
    home.run(&["approve", "r-1"]).failed(1, "TFY0183");
    home.run(&["approve", "r-1", "--choice", "twice"]).failed(1, "TFY0183");
    home.run(&["approve", "nobody"]).failed(1, "TFY0041");
    home.run(&["approve", "r-1/999"]).failed(1, "TFY0181");
    let half = ["approve", "r-1", "--choice", "half", "--because", "half full", "--as", "Ada"];
    let told = home.run(&half).ok().stdout;
    assert!(told.contains("`half`, by Ada: half full; no process owns the directory"), "{told}");
    // A later answer is refused with the name, time and choice of the first.
    let late = home.run(&["approve", "r-1", "--choice", "all"]).failed(1, "TFY0182").stderr;
    let first = "`r-1/2` is decided: Ada said `half` at 20";
    assert!(late.contains(first) && late.contains(": half full\n"), "{late}");
    let rejected = home.run(&["approve", "--reject", "--json"]).ok().lines().remove(0);
    assert_eq!(
        (&rejected["decided"]["choice"], &rejected["offline"]),
        (&"no".into(), &true.into())
    );
    assert_eq!(home.run(&["approve"]).ok().stdout, "no questions are open\n");
    home.run(&["approve", "--reject"]).failed(1, "TFY0181");
    home.run(&["approve", "--reject", "n-1"]).failed(1, "TFY0181");

    let resumed = home.orders(&["resume", "--all"]).failed(1, "TFY0069").stdout;
    assert!(resumed.contains("\"20 EUR\"") && resumed.contains("[TFY0184]"), "{resumed}");
    let [decision] = &decisions(&home, "r-1")[..] else { panic!("one decision") };
    assert_eq!(decision["question"], "Refund 40 EUR?");
    assert_eq!(
        (&decision["answer"]["by"], &decision["answer"]["why"]),
        (&"Ada".into(), &"half full".into())
    );
    // The user id is recorded whatever name is given.
    assert!(decision["answer"]["uid"].is_u64(), "{decision}");
    let shown = home.run(&["show", "r-1"]).ok().stdout;
    assert!(shown.contains("decided     \"Refund 40 EUR?\": half, by Ada (uid "), "{shown}");
    let log = home.run(&["log", "r-1"]).ok().stdout;
    assert!(log.contains("ApprovalDecided") && log.contains("half full"), "{log}");
    let replayed = home.orders(&["replay", "r-1"]).ok().stdout;
    assert!(replayed.contains("identical"), "{replayed}");
    let trace = home.run(&["log", "r-1", "--format", "perfetto"]).ok().stdout;
    assert!(trace.contains("\"cat\":\"approval\"") && trace.contains("half full"), "{trace}");
    let step = home.orders(&["replay", "--step", "r-1", "--at", "2"]).ok().stdout;
    assert!(step.contains("approve `Refund 40 EUR?`"), "{step}");
}

#[test]
fn a_question_of_a_live_run_is_decided_by_another_process() {
    let home = Home::new();
    let _holder = holder(&home);
    let told = home.run(&["submit", "refund", "--id", "r-1", "--input", "40", "--json"]).ok();
    let told = told.lines().remove(0);
    assert_eq!((&told["id"], &told["new"]), (&"r-1".into(), &true.into()));
    let again = home.run(&["submit", "refund", "--id", "r-1", "--input", "40"]).ok().stdout;
    assert!(again.starts_with("found "), "{again}");
    home.run(&["submit", "refund", "--id", "r-1", "--input", "41"]).failed(1, "TFY0037");
    let id = question(&home, "r-1");
    assert!(id.starts_with(told["run"].as_str().unwrap()), "{id}");
    let listed = home.run(&["ls", "--active"]).ok().stdout;
    assert!(listed.contains("r-1") && listed.contains("a person"), "{listed}");
    home.run(&["approve", &id, "--choice", "all"]).ok();
    home.run(&["approve", &id, "--choice", "all"]).failed(1, "TFY0182");
    let late = home.run(&["approve", "r-1"]).failed(1, "TFY0182").stderr;
    assert!(late.contains("`r-1/2` is decided: ") && late.contains(" said `all` at 20"), "{late}");
    home.wait_for("r-1", "TaskExit");
    let value = home.run(&["watch", "r-1"]).ok().stdout;
    assert!(value.ends_with("\"40 EUR\"\n"), "{value}");
}

#[test]
fn a_run_is_submitted_and_waited_for_in_another_process_or_here() {
    let home = Home::new();
    let alone = home.run(&["submit", "echo", "--input", "1"]).failed(3, "TFY0187").stderr;
    assert!(
        alone.contains("`tiffany serve --app FILE --dir orders` (Python), or the program"),
        "{alone}"
    );
    home.run(&["submit", "echo", "--input", "1", "--wait"]).failed(3, "TFY0187");
    home.orders(&["submit", "echo", "--input", "1"]).failed(3, "TFY0187");
    assert!(!home.log().exists(), "nothing was made");
    let here = home.orders(&["submit", "echo", "--id", "e-1", "--input", "[1, 2]", "--wait"]).ok();
    assert_eq!(here.stdout, "[1,2]\n");
    // Submitting the run again prints the same outcome.
    let again = home.orders(&["submit", "echo", "--id", "e-1", "--input", "[1,2]", "--wait"]).ok();
    assert_eq!(again.stdout, "[1,2]\n");
    let json = home.orders(&["submit", "echo", "--input", "3", "--wait", "--json"]).ok();
    let json = json.lines().pop().unwrap();
    assert_eq!((&json["state"], &json["value"]), (&"completed".into(), &3.into()));
    assert!(json["id"].as_str().unwrap().starts_with("echo-"), "{json}");
    home.orders(&["submit", "burn", "--input", "\"toast\"", "--wait"]).failed(1, "TFY0001");
    home.orders(&["submit", "nobody", "--wait"]).failed(1, "TFY0038");
    // A user who submits gets a list of functions, and not how to write a program.
    let typo = home.orders(&["submit", "ecko", "--wait"]).failed(1, "TFY0038").stderr;
    assert!(typo.contains("did you mean `echo`?") && typo.contains("`status` lists"), "{typo}");
    let wrong = home.orders(&["submit", "refund", "--input", "\"x\"", "--wait"]);
    let wrong = wrong.failed(1, "TFY0035").stderr;
    assert!(wrong.contains("the input of `refund` is not of type `u32`"), "{wrong}");
    assert!(wrong.contains("next: correct `--input`"), "{wrong}");
    let followed = home.orders(&["submit", "echo", "--input", "4", "--follow"]).ok().stdout;
    assert!(followed.contains("  1  completed") && followed.ends_with("\n4\n"), "{followed}");

    let _holder = holder(&home);
    assert_eq!(home.run(&["submit", "echo", "--input", "5", "--wait"]).ok().stdout, "5\n");
    home.run(&["submit", "burn", "--input", "\"tea\"", "--wait"]).failed(1, "TFY0001");
    let typo = home.run(&["submit", "ecko", "--wait"]).failed(1, "TFY0038").stderr;
    assert!(typo.contains("did you mean `echo`?") && typo.contains("`status` lists"), "{typo}");
}

#[test]
fn a_question_is_listed_with_a_command_that_decides_it_as_it_stands() {
    let home = Home::new();
    home.start("refund", "r-1", "40", "0.3").ok();
    let id = question(&home, "r-1");
    let table = home.run(&["approve"]).ok().stdout;
    let command = format!("`approve {id} --choice all` or `half` or `none` chooses");
    assert!(table.contains(&command) && !table.contains("says"), "{table}");
    home.start("deploy", "d-1", "\"v2\"", "0.3").ok();
    let id = question(&home, "d-1");
    let table = home.run(&["approve", "--list", "d-1"]).ok().stdout;
    let command = format!("`approve {id}` says yes, `approve {id} --reject` says no");
    assert!(table.contains(&command) && !table.contains("--choice"), "{table}");
}

#[test]
fn a_run_that_no_process_has_is_not_taken_for_one_that_goes_on() {
    let home = Home::new();
    let first = home.hold("nap", "n-1", "600", "");
    home.until("nobody has it", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"n-1\"")
    });
    let pid: Value = first.0.id().into();
    let of = |command: &[&str]| home.run(command).ok().lines().remove(0)["pid"].clone();
    for command in
        [&["ls", "--json"][..], &["show", "n-1", "--json"], &["ls", "--active", "--json"]]
    {
        assert_eq!(of(command), pid, "{command:?}");
    }
    assert!(home.run(&["ls"]).ok().stdout.contains("  live   "));
    let shown = home.run(&["show", "n-1"]).ok().stdout;
    assert!(shown.contains(&format!("state       live, in process {pid}\n")), "{shown}");
    let watching = home.watch(&["watch", "n-1"]);
    let machine = home.watch(&["watch", "n-1", "--json"]);
    watching.until("1  waiting  sleeps ");
    machine.until("\"waiting\"");
    first.kill();

    let still = "no process owns the directory, so ";
    let next = "start `tiffany serve --app FILE --dir orders` (Python)";
    watching.until(
        "so the run makes no progress; start `tiffany serve --app FILE --dir orders` (Python)",
    );
    machine.until("\"pid\":null");
    for command in [&["ls"][..], &["ls", "--active"], &["show", "n-1"]] {
        let text = home.run(command).ok().stdout;
        assert!(text.contains(still) && text.contains(next), "{command:?}: {text}");
    }
    assert!(home.run(&["ls"]).ok().stdout.contains("  live, no process  "));
    for command in
        [&["ls", "--json"][..], &["show", "n-1", "--json"], &["ls", "--active", "--json"]]
    {
        assert_eq!(of(command), Value::Null, "{command:?}");
    }
    home.run(&["ls", "--active", "n-1"]).failed(4, "TFY0043");

    let second = home.hold("nap", "n-1", "600", "");
    let taken = format!("process {} owns the directory, and the run continues", second.0.id());
    watching.until(&taken);
    machine.until(&format!("\"pid\":{}", second.0.id()));
    home.run(&["cancel", "n-1"]).ok();
    assert_eq!((watching.end().0, machine.end().0), (Some(1), Some(1)));
}

#[test]
fn an_input_comes_from_a_file_or_standard_input() {
    let home = Home::new();
    std::fs::write(home.0.join("in.json"), "{\"a\": [1]}\n").unwrap();
    std::fs::write(home.0.join("bad.json"), "{").unwrap();
    let ran = home.orders(&["submit", "echo", "--input", "@in.json", "--wait"]).ok();
    assert_eq!(ran.stdout, "{\"a\":[1]}\n");
    home.orders(&["submit", "echo", "--input", "@bad.json", "--wait"]).failed(1, "TFY0188");
    home.orders(&["submit", "echo", "--input", "@none.json", "--wait"]).failed(1, "TFY0188");
    home.orders(&["submit", "echo", "--input", "{", "--wait"]).failed(2, "TFY0064");
    let mut command = home.command(&orders(), &["submit", "echo", "--input", "-", "--wait"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b" [true]\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "[true]\n");
}

#[track_caller]
fn is_denied(home: &Home, id: &str, ran: &Ran) {
    assert!(
        ran.stderr.contains("denied, because no person can be asked: Refund 40 EUR?"),
        "{ran:?}"
    );
    let [decision] = &decisions(home, id)[..] else { panic!("one decision") };
    assert_eq!(decision["answer"]["choice"], "none");
    assert!(decision["answer"]["uid"].is_u64(), "{decision}");
    let why = decision["answer"]["why"].as_str().unwrap();
    assert!(why.starts_with("no person could be asked"), "{why}");
}

#[test]
fn where_nobody_can_be_asked_a_question_is_denied_recorded_and_the_exit_code_says_so() {
    let home = Home::new();
    // In this process, through another one, and with the log alone.
    let ran = home.orders(&["submit", "refund", "--id", "r-1", "--input", "40", "--wait"]);
    let ran = ran.failed(1, "TFY0186");
    assert_eq!(ran.stdout, "\"0 EUR\"\n");
    is_denied(&home, "r-1", &ran);
    let ran = home.orders(&["submit", "deploy", "--id", "d-1", "--input", "\"v1\"", "--wait"]);
    assert!(ran.failed(1, "TFY0184").stderr.contains("no person could be asked"));
    let holder = holder(&home);
    home.run(&["submit", "refund", "--id", "r-2", "--input", "40"]).ok();
    let ran = home.run(&["watch", "r-2", "--deny-approvals"]).failed(1, "TFY0186");
    is_denied(&home, "r-2", &ran);
    let follow = ["submit", "refund", "--id", "r-3", "--input", "40", "--follow", "--json"];
    let ran = home.run(&follow);
    assert_eq!(ran.code, 1, "{ran:?}");
    let last = ran.lines().pop().unwrap();
    assert_eq!((&last["state"], &last["value"]), (&"completed".into(), &"0 EUR".into()));
    home.run(&["watch", "r-3", "--approvals", "ask"]).failed(2, "TFY0067");
    holder.kill();
}

#[test]
fn who_watches_in_a_pipe_sees_the_question_and_leaves_it_to_others() {
    let home = Home::new();
    let _holder = holder(&home);
    home.run(&["submit", "refund", "--id", "r-1", "--input", "40"]).ok();
    let watching = home.watch(&["watch", "r-1"]);
    watching.until("approve \"Refund 40 EUR?\"");
    // A denial comes before the question is shown.
    home.run(&["approve", "r-1", "--choice", "half", "--as", "Ada"]).ok();
    let (code, rest) = watching.end();
    assert!(code == Some(0) && rest.ends_with("\"20 EUR\"\n"), "{code:?}: {rest}");
    let [decision] = &decisions(&home, "r-1")[..] else { panic!("one decision") };
    assert_eq!(
        (&decision["answer"]["by"], &decision["answer"]["choice"]),
        (&"Ada".into(), &"half".into())
    );
}

#[test]
fn who_waits_for_others_to_decide_sees_the_run_to_its_end_over_a_restart() {
    let home = Home::new();
    let first = home.hold("refund", "r-1", "40", "");
    question(&home, "r-1");
    let watching = home.watch(&["watch", "r-1", "--approvals", "wait"]);
    watching.until("approve \"Refund 40 EUR?\"");
    // Killed while it waits for a person, and restarted.
    first.kill();
    let second = home.hold("refund", "r-1", "40", "");
    home.until("nobody has the directory", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"r-1\"")
    });
    home.run(&["approve", "r-1", "--choice", "half"]).ok();
    let (code, text) = watching.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("\"20 EUR\"\n"), "{text}");
    drop(second);
}

#[test]
fn tasks_that_wait_for_long_are_listed_with_what_for() {
    let home = Home::new();
    let holder = home.hold("family", "f", "null", "");
    let stuck = |home: &Home| home.run(&["ls", "--stuck", "--after", "0s", "--json"]).ok().lines();
    home.until("nobody waits for news", || stuck(&home).iter().any(|one| one["kind"] == "message"));
    let told = home.run(&["ls", "--stuck"]).ok().stdout;
    assert_eq!(told, "no task is stuck in 1 live run\n");
    // If no process owns the log, the records are used.
    let before = stuck(&home);
    holder.kill();
    for seen in [before, stuck(&home)] {
        let news = seen.iter().find(|one| one["kind"] == "message").unwrap();
        assert_eq!((&news["id"], &news["function"]), (&"f".into(), &"family".into()));
        assert!(news["what"].as_str().unwrap().contains("news"), "{news}");
        assert!(
            seen.iter().all(|one| one["name"] != "sleeper"),
            "who sleeps is not stuck: {seen:?}"
        );
    }
    let text = home.run(&["ls", "--stuck", "--after", "0s"]).ok().stdout;
    assert!(text.starts_with("FOR") && text.contains("news"), "{text}");
    home.run(&["ls", "--stuck", "--after", "soon"]).failed(2, "TFY0067");
}

#[test]
fn what_goes_on_is_listed_with_its_tasks() {
    let home = Home::golden();
    let nothing = home.run(&["ls", "--active"]).ok().stdout;
    assert!(nothing.contains("nothing is running: 3 live runs make no progress"), "{nothing}");
    let nobody = home.run(&["ls", "--active", "--json"]).ok().lines().remove(0);
    assert_eq!((&nobody["pid"], &nobody["live"]), (&Value::Null, &3.into()));
    home.run(&["ls", "--active", "nap-2"]).failed(4, "TFY0043");
    let home = Home::new();
    let _holder = home.hold("family", "f", "null", "");
    home.until("the family does not wait", || {
        home.run(&["ls", "--active", "f", "--json"]).stdout.contains("\"sleeper\"")
    });
    let run = home.run(&["ls", "--active", "--json"]).ok().lines().remove(0);
    // The fields have their usual names.
    assert_eq!(run["run"], home.uuid("f").as_str());
    assert_eq!(
        (&run["id"], &run["state"], &run["function"]),
        (&"f".into(), &"live".into(), &"family".into())
    );
    let text = home.run(&["ls", "--active"]).ok().stdout;
    assert!(text.contains("family") && text.contains("live"), "{text}");
    assert!(
        home.run(&["ls", "--active", "--function", "other"])
            .ok()
            .stdout
            .contains("nothing is running")
    );
    let tasks = home.run(&["ls", "--active", "f", "--json"]).ok().lines();
    let sleeper = tasks.iter().find(|task| task["name"] == "sleeper").unwrap();
    assert_eq!(sleeper["waits"], serde_json::json!(["a timer"]));
    let text = home.run(&["ls", "--active", "f"]).ok().stdout;
    assert!(text.contains("sleeper") && text.contains("a timer"), "{text}");
}

#[test]
fn a_pipe_gets_a_line_for_what_changes_and_how_far_it_is() {
    let home = Home::new();
    let _holder = home.hold("read", "b", "2", "");
    home.until("it does not read", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"b\"")
    });
    let watching = home.watch(&["watch", "b", "--json"]);
    // Progress of the first page is still known to a later watcher; the rest arrives as it happens.
    watching.until("\"done\":1");
    home.run(&["send", "b", "turn", "1"]).ok();
    watching.until("\"done\":2");
    home.run(&["send", "b", "turn", "2"]).ok();
    let (code, text) = watching.end();
    assert_eq!(code, Some(0));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reader = |line: &&Value| line["name"] == "reader" && line["progress"]["done"] == 2;
    assert!(lines.iter().any(|line| reader(&line)), "{text}");
    let last = lines.last().unwrap();
    assert_eq!((&last["id"], &last["value"]), (&"b".into(), &2.into()));
    assert_eq!(
        finish(home.command(&tiffany(), &["watch", "nobody"])).failed(1, "TFY0041").stdout,
        ""
    );
}

#[test]
fn who_has_the_directory_is_told_with_what_it_can_run() {
    let home = Home::golden();
    home.run(&["status"]).failed(4, "TFY0043");
    let home = Home::new();
    let holder = holder(&home);
    let status = home.run(&["status", "--json"]).ok().lines().remove(0);
    assert_eq!((&status["pid"], &status["live"]), (&holder.0.id().into(), &1.into()), "{status}");
    let mut functions = status["functions"].as_array().unwrap().iter();
    assert!(functions.any(|function| function["name"] == "refund"), "{status}");
    assert_eq!((&status["paused"], &status["failed"]), (&Value::Array(vec![]), &Value::Null));
    let text = home.run(&["status"]).ok().stdout;
    assert!(text.contains("runs       1 live, 0 paused\n"), "{text}");
    assert!(text.contains(&format!("process    {}, tiffany", holder.0.id())), "{text}");
}

/// Starts a request on its own connection.
fn request(served: &Served, path: &str) -> BufReader<TcpStream> {
    let mut line = TcpStream::connect(&served.address).unwrap();
    line.set_read_timeout(Some(LIMIT)).unwrap();
    let head = "host: localhost\r\nconnection: close";
    write!(line, "GET {path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    BufReader::new(line)
}

/// No client waits for something that a failed log cannot deliver.
#[test]
fn clients_that_wait_are_told_that_the_log_has_failed() {
    let home = Home::new();
    // Limits files to 128 KiB.
    let served = Served::limited(&home, &orders(), "trap '' XFSZ; ulimit -f 256");
    let submit = ["submit", "deploy", "--id", "asks", "--input", "\"1.0\""];
    home.run(&submit).ok();
    question(&home, "asks");
    let submit = [&submit[..], &["--approvals", "wait", "--wait"]].concat();
    let commands = [
        &submit[..],
        &["watch", "asks"],
        &["watch", "--events", "--follow", "--json"],
        &["log", "asks", "--follow"],
    ];
    let waiting = commands.map(|arguments| home.watch(arguments));
    waiting[1].until("approve");
    waiting[3].until("TaskYield");
    waiting[2].until("\"stage\"");
    let audit = || std::fs::read_to_string(home.log().join("audit.jsonl")).unwrap();
    home.until("it is submitted again", || audit().matches("\"submit\"").count() >= 2);
    let mut stream = request(&served, "/api/v1/events").lines().map(Result::unwrap);
    stream.find(|line| line == "event: streaming").unwrap();
    let mut waits = request(&served, "/api/v1/runs/asks?wait=60");

    let large = json!({"function": "echo", "id": "large", "input": "x".repeat(300_000)});
    let begun = Instant::now();
    assert_ne!(served.ask("POST", "/api/v1/runs", &large.to_string()).0, 201);
    let code = served.ask("GET", "/readyz", "").1["why"]["code"].as_str().unwrap().to_owned();
    stream.find(|line| line == "event: failed").unwrap();
    assert!(stream.next().unwrap().contains(&code));
    let mut answer = String::new();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 50") && answer.contains(&code), "{answer}");
    for command in waiting {
        let (code, text) = command.end();
        assert_eq!(code, Some(1), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let told = home.run(&["watch", "asks"]);
    assert!(told.code == 1 && told.stderr.contains(&code), "{told:?}");
    let found = home.run(&["doctor"]);
    assert!(found.code == 1 && found.stdout.contains("its log has failed"), "{found:?}");
}

/// A daemon whose log has failed doesn't report an orderly end while steps are running.
#[test]
fn steps_that_are_cut_off_after_the_log_has_failed_are_not_passed_over() {
    let home = Home::new();
    let limits = "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limits]).arg(orders()).args(["--dir", "orders", "serve", "--json"]);
    command.args(FREE).args(["--grace", "4s"]).current_dir(&home.0);
    let mut served = Served::by(command);
    served.ask("POST", "/api/v1/runs", r#"{"function":"pay","id":"p","input":600000}"#);
    home.wait_for("p", "EffectStart");
    let large = json!({"function": "echo", "id": "large", "input": "x".repeat(300_000)});
    assert_ne!(served.ask("POST", "/api/v1/runs", &large.to_string()).0, 201);
    served.signal("-TERM");
    assert_eq!(read_line(&mut served.lines)["event"], "ending");
    assert_eq!(read_line(&mut served.lines)["cut_off"], true);
    assert_eq!(served.end(), Some(143));
}

/// A script that waits for a run ends soon after the process has ended.
#[test]
fn a_command_that_waits_does_not_wait_for_a_daemon_that_is_gone() {
    let home = Home::new();
    let served = Served::start(&home, &orders(), &FREE);
    let waiting = home.watch(&["submit", "nap", "--id", "n", "--input", "600", "--wait"]);
    home.wait_for("n", "TaskYield");
    drop(served);
    let (code, text) = waiting.end();
    assert_eq!(code, Some(5), "{text}");
}
