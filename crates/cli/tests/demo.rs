//! The demo: a process killed three times, seen by a ledger. It must come out well every time.

mod kit;

use std::fs;

use kit::Home;
use serde_json::Value;

#[test]
fn three_kills_and_nothing_is_lost_or_done_twice() {
    let home = Home::new();
    let ran = home.run(&["demo", "--json", "orders"]).ok().stdout;
    let events: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |event: &str| events.iter().filter(|one| one["event"] == event).count();
    assert_eq!((count("begins"), count("goes_on"), count("killed")), (1, 3, 3), "{ran}");
    assert_eq!((count("approved"), count("over")), (1, 1), "{ran}");
    let proof = events.last().unwrap();
    assert_eq!(proof["event"], "proof");
    assert_eq!((&proof["processes"], &proof["killed"]), (&4.into(), &3.into()));
    // Ten steps have a result; the hotel that lost may have been asked too.
    assert_eq!(proof["results"], 10);
    assert!(proof["entries"].as_u64().unwrap() >= 10);

    // What is left is a log as any other, and whole.
    home.run(&["verify"]).ok();
    let shown = home.run(&["show", "summer"]).ok().stdout;
    for part in ["completed", "flights", "ask the Plaza", "cancelled", "budget"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    // Its directory is not used twice.
    let before = fs::read(home.log().join("ledger.jsonl")).unwrap();
    home.run(&["demo", "orders"]).failed(2, "TFY0067");
    assert_eq!(fs::read(home.log().join("ledger.jsonl")).unwrap(), before);
}

#[test]
fn the_timeline_is_drawn() {
    let home = Home::new();
    let ran = home.run(&["demo", "orders"]).ok().stdout;
    for part in ["SIGKILL to daemon 3", "│1 s", "╳╳", "⊘", "none of them done twice"] {
        assert!(ran.contains(part), "{part} in\n{ran}");
    }
    assert!(!ran.contains('\x1b'), "a pipe has no colours");
}
