//! The demo: a process that is killed three times, recorded by a ledger. It must succeed every
//! time.

use std::fs;
use std::process::Command;

use crate::kit::Home;
use serde_json::Value;

/// Several demos run at the same time.
const ANY_PORT: &str = "127.0.0.1:0";

#[test]
fn three_kills_and_nothing_is_lost_or_done_twice() {
    let home = Home::new();
    let ran = home.run(&["demo", "--json", "--listen", ANY_PORT, "orders"]).ok().stdout;
    let events: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |event: &str| events.iter().filter(|one| one["event"] == event).count();
    assert_eq!((count("begins"), count("goes_on"), count("killed")), (1, 3, 3), "{ran}");
    assert_eq!((count("approved"), count("over")), (1, 1), "{ran}");
    let proof = events.last().unwrap();
    assert_eq!(proof["event"], "proof");
    assert_eq!((&proof["processes"], &proof["killed"]), (&4.into(), &3.into()));
    // Ten steps have a result; the hotel that lost the race may have been requested too.
    assert_eq!(proof["results"], 10);
    assert!(proof["entries"].as_u64().unwrap() >= 10);

    // The demo leaves an ordinary log without damage.
    home.run(&["doctor", "--verify"]).ok();
    let shown = home.run(&["show", "summer"]).ok().stdout;
    for part in ["completed", "flights", "ask the Plaza", "cancelled", "budget"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    // A directory is not used for a second demo.
    let before = fs::read(home.log().join("ledger.jsonl")).unwrap();
    home.run(&["demo", "orders"]).failed(2, "TFY0067");
    assert_eq!(fs::read(home.log().join("ledger.jsonl")).unwrap(), before);
}

#[test]
fn the_timeline_is_drawn() {
    let home = Home::new();
    let ran = home.run(&["demo", "--listen", ANY_PORT, "orders"]).ok().stdout;
    for part in ["SIGKILL to daemon 3", "│1 s", "╳╳", "⊘", "none of them done twice"] {
        assert!(ran.contains(part), "{part} in\n{ran}");
    }
    assert!(!ran.contains('\x1b'), "a pipe has no colours");
}

#[test]
fn the_commands_that_it_prints_work_in_a_shell() {
    let home = Home::new();
    let ran = home.run(&["demo", "--listen", ANY_PORT, "a trip"]).ok().stdout;
    let (_, commands) = ran.split_once("Look at it yourself:\n").unwrap();
    let commands: Vec<&str> = commands.lines().filter(|line| line.contains("  # ")).collect();
    assert_eq!(commands.len(), 5, "{ran}");
    for command in commands {
        let shell = Command::new("sh").args(["-c", command]).current_dir(&home.0).output().unwrap();
        assert!(shell.status.success() && shell.stderr.is_empty(), "{command}: {shell:?}");
    }
    assert!(!home.0.join("a trip").exists(), "the last one removes the directory");
}
