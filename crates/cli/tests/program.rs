//! The threat: a replay has an effect, or reports "identical" although something differs; a resume
//! leaves work undone. With a program that has its own command line.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{self, Home, Ran, clean_env, finish, orders};
use serde_json::json;

fn with_version(home: &Home, version: &str, arguments: &[&str]) -> Ran {
    let mut command = home.command(&orders(), arguments);
    command.env("ORDERS_VERSION", version);
    finish(command)
}

#[test]
fn every_run_of_an_unchanged_program_replays_identically() {
    let home = Home::golden();
    for run in home.run(&["ls", "--json"]).ok().lines() {
        let name = run["run"].as_str().unwrap();
        let replayed = home.orders(&["replay", name, "--json"]).ok().lines().remove(0);
        assert_eq!(replayed["verdict"], "identical", "{run}");
        assert_eq!(replayed["records"], run["records"]);
    }
}

#[test]
fn a_run_that_was_brought_back_many_times_replays_identically() {
    let home = Home::new();
    for _ in 0..4 {
        home.start("family", "f", "null", "0.15").ok();
        let replayed = home.orders(&["replay", "f", "--json"]).ok().lines().remove(0);
        assert_eq!(replayed["verdict"], "identical", "{replayed}");
    }
}

#[test]
fn a_changed_program_is_told_from_one_that_only_looks_changed() {
    let home = Home::golden();
    let harmless = with_version(&home, "4", &["replay", "nap-1", "--json"]).ok().lines().remove(0);
    assert_eq!((&harmless["verdict"], &harmless["differs_at"]), (&json!("same calls"), &json!(2)));
    let added = with_version(&home, "2", &["replay", "nap-1", "--json"]).failed_json(1, "TFY0036");
    assert_eq!(added.lines()[0]["verdict"], "differs");
    assert!(added.stderr.contains("likely a call was added"), "{added:?}");
    let other = with_version(&home, "3", &["replay", "nap-1", "--json"]).failed_json(1, "TFY0066");
    assert_eq!(other.lines()[0]["verdict"], "differs");
    let paused = with_version(&home, "2", &["show", "nap-2", "--json"]).ok().lines().remove(0);
    assert_eq!(paused["diverged"]["code"], "TFY0036");
    let resumed = with_version(&home, "2", &["resume", "nap-2"]).failed(1, "TFY0069");
    assert!(resumed.stdout.contains("paused  task 1 now makes step `brush teeth`"), "{resumed:?}");
    let again = home.orders(&["resume", "nap-2"]).ok().stdout;
    assert!(again.contains("completed  100"), "nothing was lost: {again}");
}

#[test]
fn no_effect_begins_in_a_replay() {
    let home = Home::new();
    let file = home.0.join("witness");
    let input = format!("{:?}", file.to_str().unwrap());
    home.start("touch", "t", &input, "").ok();
    assert!(file.exists(), "the step makes it");
    std::fs::remove_file(&file).unwrap();
    for arguments in [&["replay", "t"][..], &["show", "t"], &["resume", "--dry-run"]] {
        home.orders(arguments).ok();
        assert!(!file.exists(), "{arguments:?} ran the step");
    }
    // The run is before its step: showing what comes next must not execute it.
    let holder = home.hold("later", "l", &input, "");
    home.wait_for("l", "TaskYield");
    holder.kill();
    let inspected = home.orders(&["resume", "--dry-run", "l"]).ok().stdout;
    assert!(inspected.contains("sleep"), "{inspected}");
    home.until("the sleep is not over", || {
        home.orders(&["resume", "--dry-run", "l"]).ok().stdout.contains("sleep ended at")
    });
    assert!(!file.exists());
    home.orders(&["resume", "l"]).ok();
    assert!(file.exists());
}

#[test]
fn the_plain_binary_says_what_it_cannot_do() {
    let home = Home::golden();
    home.run(&["replay", "nap-1"]).failed(3, "TFY0063");
    home.run(&["resume", "--all"]).failed(3, "TFY0063");
    home.run(&["resume", "--all", "--json"]).failed_json(3, "TFY0063");
    let inspected = home.run(&["resume", "--dry-run"]).ok().stdout;
    assert!(inspected.contains("from the records alone"), "{inspected}");
}

#[test]
fn resume_drives_to_the_end_and_tells_of_each() {
    let home = Home::golden();
    let ran = home.orders(&["resume", "--all", "--for", "1", "--json"]).failed_json(1, "TFY0069");
    let states: Vec<String> = ran
        .lines()
        .iter()
        .map(|run| format!("{} {}", run["id"].as_str().unwrap(), run["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, ["pay-1 failed", "nap-2 completed", "order-17 live"]);
    assert_eq!(home.orders(&["resume", "--all", "--for", "0.2"]).code, 5);
    home.orders(&["resume", "nap-1"]).ok();
    home.orders(&["resume"]).failed(2, "TFY0067");
    home.orders(&["resume", "--all", "--for", "-1"]).failed(2, "TFY0067");
    home.orders(&["resume", "breakfast"]).failed(1, "TFY0041");
}

#[test]
fn resume_ends_in_good_order_when_asked_to() {
    let home = Home::new();
    home.start("nap", "n", "3600", "0.1").ok();
    let mut command = home.command(&orders(), &["resume", "--all"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    home.until("it does not take the directory", || {
        home.run(&["resume", "--dry-run"]).stdout.contains("in use by process")
    });
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let begun = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(5));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let last = home.run(&["log", "n", "--json"]).ok().lines().pop().unwrap();
    assert_eq!(last["type"], "ShutdownMarker");
}

#[test]
fn a_function_that_is_not_registered_is_told() {
    let home = Home::golden();
    // A program with other functions.
    let mut command = home.command(&orders(), &["resume", "--dry-run", "--json"]);
    command.env("ORDERS_VERSION", "none");
    let inspected = finish(command);
    assert_eq!(inspected.code, 1, "{inspected:?}");
    let plans = inspected.lines().remove(0);
    assert!(
        plans["unfinished"].as_array().unwrap().iter().all(|plan| plan["why"]["code"] == "TFY0038"),
        "{plans}"
    );
    let doctor = with_version(&home, "none", &["doctor"]);
    assert!(doctor.stdout.contains("not registered in this program"), "{doctor:?}");
    assert_eq!(doctor.code, 1);
    with_version(&home, "none", &["replay", "nap-1"]).failed(1, "TFY0038");
}

#[test]
fn the_directory_is_found_in_the_stated_order() {
    let home = Home::golden();
    let run = |dir: Option<&str>, variable: Option<&str>| {
        let mut command = Command::new(kit::tiffany());
        clean_env(&mut command);
        command.current_dir(&home.0);
        if let Some(dir) = dir {
            command.args(["--dir", dir]);
        }
        if let Some(variable) = variable {
            command.env("TIFFANY_DIR", variable);
        }
        command.args(["ls", "--json"]);
        finish(command)
    };
    assert_eq!(run(Some("orders"), Some("nowhere")).ok().lines().len(), 7);
    assert_eq!(run(None, Some("orders")).ok().lines().len(), 7);
    let nowhere = run(None, None);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.stderr.contains("there is no log in .tiffany"), "{nowhere:?}");
    kit::copy(&kit::golden(), &home.0.join(".tiffany"));
    assert_eq!(run(None, None).ok().lines().len(), 7);
}
