//! The threat: a request to a run gets lost, or reaches it twice or never. Through the process that
//! owns the directory, and in the log if no process owns it.

use std::time::Instant;

use crate::kit::{Home, Ran, finish, orders};
use serde_json::{Value, json};

/// Returns the only open promise of a run.
fn promise(home: &Home, id: &str) -> String {
    let shown = home.run(&["show", id, "--json"]).lines().remove(0);
    shown["promises"][0]["promise"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

fn state(home: &Home, id: &str) -> Value {
    home.run(&["show", id, "--json"]).lines().remove(0)["state"].clone()
}

#[test]
fn through_the_process_that_has_the_directory() {
    let home = Home::new();
    let _holder = home.hold("order", "tea", "\"tea\"", "60");
    home.until("it has no promise", || home.run(&["show", "tea"]).stdout.contains("promise"));
    home.wait_for("tea", "TaskWake");
    home.until("it does not wait", || {
        home.run(&["show", "tea"]).stdout.contains("wait for promise")
    });
    let answer = home.run(&["query", "tea", "status", "--json"]).ok().lines().remove(0);
    assert_eq!(answer["answer"], "tea for 42");
    assert_eq!(home.run(&["query", "tea", "status"]).ok().stdout, "\"tea for 42\"\n");
    home.run(&["query", "tea", "weather"]).failed(1, "TFY0044");
    let uuid = promise(&home, "tea");
    let settled = home.run(&["settle", &uuid, "true", "--json"]).ok().lines().remove(0);
    assert_eq!(settled, json!({ "promise": uuid, "first": true, "offline": false }));
    let again = home.run(&["settle", &uuid, "--fail", "no", "--json"]).ok().lines().remove(0);
    assert_eq!(again["first"], false);
    let sent = home.run(&["send", "tea", "address", "\"here\"", "--json"]).ok().lines().remove(0);
    assert_eq!((&sent["sent"], &sent["offline"]), (&json!("address"), &json!(false)));
    home.until("it does not end", || state(&home, "tea") == "completed");
    let shown = home.run(&["show", "tea", "--json"]).ok().lines().remove(0);
    assert_eq!(shown["outcome"]["value"], "tea in box with label to here");
    home.run(&["send", "tea", "address", "1"]).failed(1, "TFY0042");
    home.run(&["settle", "00000000-0000-4000-8000-000000000000", "1"]).failed(1, "TFY0010");
}

#[test]
fn into_the_log_where_nobody_has_it() {
    let home = Home::new();
    home.start("order", "tea", "\"tea\"", "0.3").ok();
    let uuid = promise(&home, "tea");
    let settled = home.run(&["settle", &uuid, "true", "--json"]).ok().lines().remove(0);
    assert_eq!(settled, json!({ "promise": uuid, "first": true, "offline": true }));
    let shown = home.run(&["show", "tea", "--json"]).ok().lines().remove(0);
    assert_eq!(shown["tasks"][0]["state"], "ready", "the records tell that it has its answer");
    let again = home.run(&["settle", &uuid, "false"]).ok().stdout;
    assert!(again.contains("was settled before"), "{again}");
    home.run(&["send", "tea", "address", "\"there\""]).ok();
    home.run(&["query", "tea", "status"]).failed(4, "TFY0043");
    let resumed = home.orders(&["resume", "tea", "--json"]).ok().lines().remove(0);
    assert_eq!(resumed["value"], "tea in box with label to there");
    home.run(&["doctor", "--verify"]).ok();
    let replayed = home.orders(&["replay", "tea", "--json"]).ok().lines().remove(0);
    assert_eq!(replayed["verdict"], "identical", "{replayed}");
}

#[test]
fn a_run_that_is_failed_from_outside_says_why() {
    let home = Home::new();
    home.start("order", "tea", "\"tea\"", "0.3").ok();
    home.run(&["settle", &promise(&home, "tea"), "--fail", "sold out"]).ok();
    let resumed = home.orders(&["resume", "tea", "--json"]).failed_json(1, "TFY0069");
    assert_eq!(resumed.lines()[0]["state"], "failed");
    let message = resumed.lines()[0]["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("sold out"), "{message}");
}

#[test]
fn cancelled_with_and_without_a_process() {
    let home = Home::new();
    home.start("nap", "a", "3600", "0.2").ok();
    home.run(&["cancel", "a"]).ok();
    assert_eq!(state(&home, "a"), "live", "nobody has taken notice yet");
    let shown = home.run(&["show", "a", "--json"]).lines().remove(0);
    assert_eq!(shown["cancelled"], true);
    let _holder = home.hold("nap", "b", "3600", "60");
    home.wait_for("b", "TaskYield");
    home.until("the first is not cancelled", || state(&home, "a") == "cancelled");
    let cancelled = home.run(&["cancel", "b", "--json"]).ok().lines().remove(0);
    assert_eq!((&cancelled["cancelled"], &cancelled["offline"]), (&json!(true), &json!(false)));
    home.until("the second is not cancelled", || state(&home, "b") == "cancelled");
    home.run(&["cancel", "c"]).failed(1, "TFY0041");
}

/// Creates a run with an interrupted step.
fn in_doubt() -> (Home, String) {
    let home = Home::new();
    let holder = home.hold("pay", "p", "60000", "");
    home.wait_for("p", "EffectStart");
    holder.kill();
    let doubts = home.run(&["doubt", "--json"]).ok().lines();
    assert_eq!(doubts.len(), 1, "{doubts:?}");
    assert_eq!((&doubts[0]["step"], &doubts[0]["attempt"]), (&json!("charge"), &json!(1)));
    let key = doubts[0]["key"].as_str().unwrap().to_owned();
    (home, key)
}

#[test]
fn doubts_and_questions_of_a_run_that_cannot_be_read_are_not_passed_over() {
    for online in [false, true] {
        let (home, _) = in_doubt();
        // Opening the log copies the records of the commit log to the run's file.
        home.run(&["rm", "p"]).failed(1, "TFY0132");
        let mut bytes = std::fs::read(home.run_file("p")).unwrap();
        bytes[60] ^= 1;
        std::fs::write(home.run_file("p"), bytes).unwrap();
        let holder = online.then(|| home.hold("hold", "h", "60000", ""));
        if online {
            home.wait_for("h", "EffectStart");
        }
        for command in ["doubt", "approve"] {
            let ran = home.run(&[command]).failed(1, "TFY0065");
            assert!(ran.stdout.contains("[TFY0107]"), "{command}, online: {online}: {ran:?}");
            assert!(!ran.stdout.contains("nothing is in doubt"), "{ran:?}");
        }
        holder.into_iter().for_each(crate::kit::Holder::kill);
    }
}

fn resumed(home: &Home) -> Ran {
    home.orders(&["resume", "p", "--for", "0.8", "--json"])
}

#[test]
fn what_is_in_doubt_is_decided_by_a_person() {
    let (home, key) = in_doubt();
    home.run(&["doubt", "decide", &key, "--done", "\"by hand\""]).ok();
    assert_eq!(home.run(&["doubt"]).ok().stdout, "nothing is in doubt\n");
    assert_eq!(resumed(&home).ok().lines()[0]["value"], "by hand");
    home.run(&["doubt", "decide", &key, "--again"]).failed(1, "TFY0042");
}

#[test]
fn or_said_to_have_failed() {
    let (home, key) = in_doubt();
    home.run(&["doubt", "decide", &key, "--failed", "no money"]).ok();
    let resumed = resumed(&home).failed_json(1, "TFY0069");
    assert!(resumed.stdout.contains("no money"), "{resumed:?}");
}

#[test]
fn or_done_again() {
    let (home, key) = in_doubt();
    let decided = home.run(&["doubt", "decide", &key, "--again", "--json"]).ok().lines().remove(0);
    assert_eq!(decided, json!({ "key": key, "decided": "again", "offline": true }));
    let inspected = home.run(&["resume", "--dry-run", "p"]).ok().stdout;
    assert!(inspected.contains("step `charge` would be done again, attempt 2"), "{inspected}");
    assert_eq!(resumed(&home).code, 5, "it takes a minute, which nobody waits for");
    let starts = home.run(&["log", "p", "--type", "EffectStart", "--json"]).ok().lines();
    assert_eq!(starts.len(), 2);
}

#[test]
fn in_doubt_with_a_process_that_holds_it() {
    let home = Home::new();
    let holder = home.hold("hold", "h", "60000", "");
    home.wait_for("h", "EffectStart");
    holder.kill();
    let _holder = home.hold("nap", "n", "3600", "60");
    home.wait_for("n", "TaskYield");
    let doubts = home.run(&["doubt", "--json"]).ok().lines();
    assert_eq!(doubts[0]["waits"], true, "{doubts:?}");
    let key = doubts[0]["key"].as_str().unwrap();
    home.run(&["doubt", "decide", key, "--done", "7"]).ok();
    home.until("it does not end", || state(&home, "h") == "completed");
}

#[test]
fn a_process_that_does_not_answer_is_not_waited_for_long() {
    let home = Home::new();
    home.start("nap", "n", "3600", "0.1").ok();
    // A lock whose holder doesn't listen.
    let lock = std::fs::File::open(home.log().join("lock")).unwrap();
    lock.try_lock().unwrap();
    let begun = Instant::now();
    home.run(&["send", "n", "x", "1"]).failed(4, "TFY0043");
    assert!(begun.elapsed().as_secs() < 20);
    home.run(&["doubt"]).failed(4, "TFY0043");
    let doctor = home.run(&["doctor"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("process      bad    it does not listen"),
        "{doctor:?}"
    );
    home.run(&["ls"]).ok();
    home.orders(&["resume", "--all"]).failed(4, "TFY0101");
}

#[test]
fn arguments_that_make_no_sense_change_nothing() {
    let home = Home::golden();
    let before = home.contents();
    home.run(&["send", "order-17", "address", "tea"]).failed(2, "TFY0064");
    home.run(&["settle", "nonsense", "1"]).failed(2, "TFY0067");
    home.run(&["settle", "00000000-0000-4000-8000-000000000000"]).failed(2, "TFY0067");
    home.run(&["settle", "00000000-0000-4000-8000-000000000000", "1", "--fail", "x"])
        .failed(2, "TFY0067");
    home.run(&["doubt", "decide", "x"]).failed(2, "TFY0067");
    home.run(&["doubt", "decide", "x", "--done", "{"]).failed(2, "TFY0064");
    home.run(&["query", "order-17", "status", "["]).failed(2, "TFY0064");
    home.run(&["send", "nobody", "address", "1"]).failed(1, "TFY0041");
    assert!(home.contents() == before);
}

/// Returns whether any file of the log contains a text.
fn is_written(home: &Home, what: &str) -> bool {
    let has = |bytes: &Vec<u8>| bytes.windows(what.len()).any(|part| part == what.as_bytes());
    home.contents().values().any(has)
}

#[test]
fn a_secret_is_not_written_where_nobody_has_the_directory() {
    let home = Home::new();
    let mut start = home.start_command("order", "tea", "\"tea\"", "0.3");
    start.env("ORDERS_VERSION", "discreet");
    finish(start).ok();
    let uuid = promise(&home, "tea");
    // A command without the rules doesn't write values that they apply to.
    let before = home.contents();
    let error = home.run(&["send", "tea", "address", "\"sk-1234\""]).failed(4, "TFY0043");
    assert!(error.stderr.contains("redacts secrets"), "{error:?}");
    home.run(&["settle", &uuid, "--fail", "sk-1234"]).failed(4, "TFY0043");
    home.orders(&["settle", &uuid, "--fail", "sk-1234"]).failed(4, "TFY0043");
    assert_eq!(home.contents().len(), before.len());
    // A command with the rules redacts secrets; names that match are refused.
    let discreet = |arguments: &[&str]| {
        let mut command = home.command(&orders(), arguments);
        command.env("ORDERS_VERSION", "discreet");
        finish(command)
    };
    discreet(&["send", "tea", "sk-1234", "1"]).failed(1, "TFY0192");
    discreet(&["settle", &uuid, "true"]).ok();
    discreet(&["send", "tea", "address", "\"sk-1234\""]).ok();
    assert!(!is_written(&home, "sk-1234") && is_written(&home, "[redacted]"));
    // A change without user data needs no rules.
    home.run(&["cancel", "tea"]).ok();
    // The program no longer has rules.
    home.orders(&["resume", "--all"]);
    home.start("order", "cake", "\"cake\"", "0.3").ok();
    home.run(&["send", "cake", "address", "\"sk-1234\""]).ok();
}

/// The records after the hold may be longer than the part of a file that a list initially reads.
#[test]
fn a_held_run_is_listed_as_held_whatever_it_is_sent() {
    let home = Home::golden();
    let state = || {
        let runs = home.run(&["ls", "--json"]).ok().lines();
        let run = runs.iter().find(|run| run["id"] == "order-17").unwrap().clone();
        run["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "live");
    home.run(&["hold", "order-17", "--why", "the bank is closed"]).ok();
    for _ in 0..4 {
        home.run(&["send", "order-17", "other", &format!("\"{}\"", "x".repeat(1_500))]).ok();
    }
    assert_eq!(state(), "held");
    home.run(&["hold", "--release", "order-17"]).ok();
    home.run(&["send", "order-17", "other", &format!("\"{}\"", "x".repeat(1_500))]).ok();
    assert_eq!(state(), "live");
}
