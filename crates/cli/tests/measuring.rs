//! The threat: metrics are unavailable when they are needed most, or reading them blocks a program.

use crate::kit::Home;
use serde_json::json;

#[test]
fn of_the_process_that_has_the_log() {
    let home = Home::new();
    home.run(&["status", "--metrics"]).failed(1, "TFY0060");
    let _holder = home.hold("nap", "nap-1", "3600", "60");
    home.wait_for("nap-1", "TaskYield");
    let all = home.run(&["status", "--metrics"]).ok().stdout;
    assert!(all.contains("# TYPE tiffany_commit_seconds histogram\n"), "{all}");
    let started = home.run(&["status", "--metrics", "tiffany_runs_started"]).ok().stdout;
    let lines: Vec<&str> = started.lines().collect();
    assert_eq!(lines.len(), 4, "{started}");
    assert_eq!(lines[2], "tiffany_runs_started_total{kind=\"durable\"} 1");
    let runs = home.run(&["status", "--metrics", "tiffany_runs", "--json"]).ok().lines().remove(0);
    assert_eq!((&runs["name"], &runs["kind"]), (&json!("tiffany_runs"), &json!("gauge")));
    let samples = runs["samples"].as_array().unwrap();
    let live = samples.iter().find(|sample| sample["labels"]["state"] == "live").unwrap();
    assert_eq!(live["value"], 1.0);
    home.run(&["status", "--metrics", "weather"]).failed(2, "TFY0067");
}

#[test]
fn nobody_has_the_log_and_it_stays_so() {
    let home = Home::golden();
    home.run(&["status", "--metrics"]).failed(4, "TFY0195");
    home.run(&["status", "--metrics", "--json"]).failed_json(4, "TFY0195");
    assert!(!home.log().join("lock").exists(), "it was not taken");
}
