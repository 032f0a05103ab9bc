//! `watch --events`: prints what runs do in another process, as it happens; continues with the next
//! process; and reports if there is none.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::kit::{Holder, Home, LIMIT, tiffany};
use serde_json::Value;

/// `watch --events --json` with these options, read line by line.
struct Follower {
    child: Holder,
    lines: Receiver<Value>,
}

impl Follower {
    fn start(home: &Home, arguments: &[&str]) -> Follower {
        let mut command =
            home.command(&tiffany(), &[&["watch", "--events", "--json"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = read(child.stdout.take().unwrap());
        Follower { child: Holder(child), lines }
    }

    /// Returns the next line that satisfies the condition.
    fn until(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let line = line.unwrap_or_else(|_| panic!("there is no {what}"));
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits until the command ends.
    fn end(mut self) -> Option<i32> {
        self.lines.iter().for_each(drop);
        self.child.0.wait().unwrap().code()
    }
}

fn read(from: ChildStdout) -> Receiver<Value> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn stage<'a>(name: &'a str, tid: Option<u64>) -> impl Fn(&Value) -> bool + 'a {
    move |line| line["stage"] == name && line["tid"].as_u64() == tid
}

/// Starts a run that waits for a message, in a separate process.
fn hold(home: &Home) -> Holder {
    let holder = home.hold("order", "order-1", "\"tea\"", "60");
    home.wait_for("order-1", "EffectResult");
    holder
}

#[test]
fn what_a_process_knows_is_printed_and_that_is_all() {
    let home = Home::new();
    let _holder = hold(&home);
    let events = home.run(&["watch", "--events", "order-1", "--json"]).ok().lines();
    let stages: Vec<&str> = events.iter().filter_map(|event| event["stage"].as_str()).collect();
    let expected =
        ["ReceivedInstruction", "Spawned", "ToolExecutionStart", "ToolExecutionComplete"];
    assert_eq!(stages[..4], expected);
    assert_eq!(events[0]["data"]["id"], "order-1");
    assert_eq!(events[0]["task_id"], home.uuid("order-1"));
    let from = events[2]["seq"].to_string();
    let later = home.run(&["watch", "--events", "order-1", "--from", &from, "--json"]).ok().lines();
    assert_eq!(later, events[2..]);
    let text = home.run(&["watch", "--events"]).ok().stdout;
    assert!(text.starts_with("  SEQ  TIME          RUN       TASK  STAGE"), "{text}");
    assert!(text.contains("ToolExecutionStart     price attempt=1"), "{text}");
}

#[test]
fn one_who_follows_sees_the_run_to_its_end_across_a_kill() {
    let home = Home::new();
    let holder = hold(&home);
    let follower = Follower::start(&home, &["order-1", "--follow"]);
    follower.until("end of a step", stage("ToolExecutionComplete", Some(1)));
    holder.kill();
    follower.until("word that it is gone", |line| line["note"] == "gone");
    let holder = home.hold("order", "order-1", "\"tea\"", "60");
    follower.until("word that there is another", |line| line["note"] == "connected");
    let again = follower.until("instruction", stage("ReceivedInstruction", None));
    assert_eq!(again["ghost"], true, "{again}");
    let shown = home.run(&["show", "order-1", "--json"]).ok().lines();
    let promise = shown[0]["promises"][0]["promise"].as_str().unwrap().to_owned();
    home.run(&["settle", &promise, "true"]).ok();
    let live = follower.until("live event", |line| line["ghost"] == false);
    assert_eq!(live["stage"], "Spawned", "{live}");
    home.run(&["send", "order-1", "address", "\"here\""]).ok();
    follower.until("end", stage("Completed", None));
    assert_eq!(follower.end(), Some(0));
    drop(holder);
    // No process owns the directory, and the run has ended.
    home.run(&["watch", "--events", "order-1", "--follow"]).failed(1, "TFY0150");
}

#[test]
fn every_turn_is_told_on_request() {
    let home = Home::new();
    let _holder = home.hold("nap", "nap-1", "30", "60");
    home.wait_for("nap-1", "TaskYield");
    let follower = Follower::start(&home, &["--all", "--follow"]);
    // It is connected once it has printed the known events.
    follower.until("root", stage("Spawned", Some(1)));
    home.run(&["cancel", "nap-1"]).ok();
    follower.until("turn", stage("Running", Some(1)));
    follower.until("end", stage("Cancelled", None));
}

#[test]
fn what_a_log_says_is_not_obeyed_by_the_terminal() {
    let home = Home::new();
    let _holder = home.hold("nap", "evil \u{1b}[31m", "30", "60");
    home.until("no event", || {
        home.run(&["watch", "--events"]).stdout.contains("ReceivedInstruction")
    });
    let text = home.run(&["watch", "--events"]).ok().stdout;
    assert!(text.contains("evil \\u{1b}[31m"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn where_there_is_no_process_no_log_or_no_run_that_is_said() {
    let home = Home::golden();
    home.run(&["watch", "--events"]).failed(1, "TFY0150");
    home.run(&["watch", "--events", "--json"]).failed_json(1, "TFY0150");
    home.run(&["watch", "--events", "nobody"]).failed(1, "TFY0041");
    home.run(&["watch", "--events", "--from", "x"]).failed(2, "TFY0067");
    Home::new().run(&["watch", "--events"]).failed(1, "TFY0060");
}
