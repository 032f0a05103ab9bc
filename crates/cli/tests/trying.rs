//! The threat: `replay --ahead` reports that a run would wait although it would continue, or
//! doesn't report what it would wait for.

use std::process::Command;

use crate::kit::Home;

/// Returns what it prints after the unchanged calls.
fn tried(home: &Home, id: &str) -> Vec<String> {
    let printed = home.orders(&["replay", "--ahead", id]).ok().stdout;
    printed.lines().skip(2).map(str::to_owned).collect()
}

const WAITS: &str = "it would wait, as it does now";

#[test]
fn a_sleep_that_is_over_goes_on() {
    let home = Home::new();
    home.start("nap", "short", "0.6", "0.2").ok();
    home.start("nap", "long", "3600", "0.2").ok();
    home.until("it is never over", || tried(&home, "short").len() == 1);
    let short = tried(&home, "short");
    assert!(short[0].starts_with("task 1: sleep ended at 20"), "{short:?}");
    let long = tried(&home, "long");
    assert!(long[0].starts_with("task 1: sleep until 20"), "{long:?}");
    assert_eq!(long[1], WAITS);
    let shown = home.orders(&["replay", "--ahead", "long", "--json"]).ok().lines().remove(0);
    assert_eq!(shown["would"][0], long[0]);
}

#[test]
fn a_step_that_was_cut_off_is_done_again() {
    let home = Home::new();
    // Opening this for writing blocks until there is a reader.
    let pipe = home.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let holder = home.hold("touch", "t", &format!("{:?}", pipe.to_str().unwrap()), "60");
    home.wait_for("t", "EffectStart");
    holder.kill();
    assert_eq!(tried(&home, "t"), ["task 1: step `touch` would be done again, attempt 2"]);
    let printed = home.orders(&["replay", "--ahead", "t"]).ok().stdout;
    assert!(printed.contains("\n1 call to the world as the log has it\n"), "{printed}");
}

#[test]
fn a_fork_waits_for_what_it_may_not_do() {
    let home = Home::new();
    let path = format!("{:?}", home.0.join("made").to_str().unwrap());
    home.start("later", "later", &path, "0.3").ok();
    home.orders(&["fork", "later", "--at", "2", "--id", "fork", "--run"]).failed(1, "TFY0069");
    let refused =
        "task 1: step `touch` is refused: the fork waits until `fork FORK --allow` permits it";
    assert_eq!(tried(&home, "fork"), [refused, WAITS]);
    home.run(&["fork", "fork", "--allow", "touch"]).ok();
    assert_eq!(tried(&home, "fork"), ["task 1: step `touch` would begin"]);
}
