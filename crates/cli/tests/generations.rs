//! The threat: a run in a later generation is shown as if it had just been started, or can no
//! longer be reached.

use crate::kit::Home;
use serde_json::Value;

/// Starts a run of four pages that has received two.
fn half(function: &str) -> Home {
    let home = Home::new();
    home.start(function, "d", "4", "0.1").ok();
    for page in ["1", "2"] {
        home.run(&["send", "d", "page", page]).ok();
    }
    // It receives them, and waits for more.
    home.start(function, "d", "4", "0.3").ok();
    home
}

fn show(home: &Home, arguments: &[&str]) -> Value {
    let shown = home.orders(arguments).ok();
    serde_json::from_str(shown.stdout.lines().next().expect("it says something"))
        .expect("it is JSON")
}

#[test]
fn a_run_that_began_anew_is_shown_with_what_was_before() {
    let home = half("diary");
    let shown = show(&home, &["show", "d", "--json"]);
    assert_eq!((&shown["generation"], &shown["calls_before"]), (&3.into(), &4.into()));
    assert_eq!((&shown["state"], &shown["id"]), (&"live".into(), &"d".into()));
    assert_eq!(shown["input"], 2);
    assert_eq!(shown["tasks"][0]["waits"][0]["call"], "receive_message", "{shown}");
    let listed = show(&home, &["ls", "--json"]);
    assert_eq!((&listed["generation"], &listed["calls_before"]), (&3.into(), &4.into()));
    assert!(listed["started"].as_str() < listed["changed"].as_str(), "{listed}");
    let text = home.run(&["show", "d"]).ok().stdout;
    assert!(text.contains("generation 3 after 4 calls"), "{text}");
    let log = show(&home, &["log", "d", "--json"]);
    assert_eq!((&log["gen"], &log["continued"]["gen"]), (&3.into(), &2.into()), "{log}");
    home.orders(&["replay", "d"]).ok();
    for page in ["3", "4"] {
        home.run(&["send", "d", "page", page]).ok();
    }
    home.orders(&["resume", "d"]).ok();
    assert_eq!(show(&home, &["show", "d", "--json"])["state"], "completed");
}

#[test]
fn a_run_with_a_snapshot_is_shown_from_its_tables() {
    let home = half("clerk");
    let shown = show(&home, &["show", "d", "--json"]);
    assert_eq!(shown["generation"], 2, "{shown}");
    for arguments in [&["show", "d", "--json"][..], &["show", "d", "--json", "--records"]] {
        let shown = show(&home, arguments);
        let task = &shown["tasks"][0];
        assert_eq!((&task["tid"], &task["state"]), (&1.into(), &"waiting".into()), "{shown}");
        assert_eq!(task["waits"][0]["call"], "receive_message", "{shown}");
    }
    home.run(&["doctor", "--verify"]).ok();
    home.orders(&["replay", "d"]).ok();
    for page in ["3", "4"] {
        home.run(&["send", "d", "page", page]).ok();
    }
    home.orders(&["resume", "d"]).ok();
    assert_eq!(show(&home, &["show", "d", "--json"])["state"], "completed");
    home.orders(&["replay", "d"]).ok();
}
