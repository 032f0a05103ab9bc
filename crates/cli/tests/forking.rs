//! The threat: a fork made by a command runs a step that was not allowed, cannot be found, or
//! doesn't report that it cannot continue. Through the process that owns the directory, and in the
//! log if no process owns it.

use crate::kit::{self, Home};
use serde_json::{Value, json};

/// Returns the number of the first record of this type.
fn record(home: &Home, id: &str, kind: &str) -> String {
    let records = home.run(&["log", id, "--type", kind, "--json"]).ok().lines();
    records[0]["seq"].to_string()
}

fn show(home: &Home, id: &str) -> Value {
    home.run(&["show", id, "--json"]).ok().lines().remove(0)
}

fn write(home: &Home, name: &str, text: &str) {
    std::fs::write(home.0.join(name), text).unwrap();
}

#[test]
fn a_failed_run_is_forked_with_another_answer_and_driven_to_its_end() {
    let home = Home::new();
    assert_eq!(home.start("burn", "toast", "\"toast\"", "").code, 1);
    let at = record(&home, "toast", "EffectResult");
    write(&home, "reply.json", "null\n");
    let before = std::fs::read(home.run_file("toast")).unwrap();
    let ran = home.orders(&[
        "fork",
        "toast",
        "--at",
        &at,
        "--set-reply",
        "reply.json",
        "--run",
        "--json",
    ]);
    let lines = ran.ok().lines();
    let (fork, id) = (lines[0]["run"].clone(), format!("toast~{at}"));
    assert_eq!(lines[0]["id"], json!(id));
    assert_eq!((&lines[1]["run"], &lines[1]["state"]), (&fork, &json!("completed")));
    assert_eq!(std::fs::read(home.run_file("toast")).unwrap(), before, "the parent is as it was");
    // Parent and fork show each other.
    let (parent, shown) = (show(&home, "toast"), show(&home, &id));
    assert_eq!(shown["fork"], json!({ "run": parent["run"], "at": at.parse::<u64>().unwrap() }));
    assert_eq!(parent["fork"], Value::Null);
    // The time before the fork belongs to the parent.
    assert!(shown["started"].as_str() > parent["changed"].as_str(), "{shown}");
    assert_eq!(parent["forks"], Value::Null);
    let parent = home.run(&["show", "toast", "--forks", "--json"]).ok().lines().remove(0);
    assert_eq!(parent["forks"][0]["run"], fork);
    let text = home.run(&["show", &id]).ok().stdout;
    let from = format!("from {} at {at}", parent["run"].as_str().unwrap());
    assert!(text.lines().any(|line| line.starts_with("forked") && line.ends_with(&from)), "{text}");
    let list = home.run(&["ls"]).ok().stdout;
    assert!(list.contains("FORK OF") && list.contains(&format!("toast at {at}")), "{list}");
    let listed = home.run(&["ls", "--json"]).ok().lines();
    assert_eq!(listed.iter().filter(|run| run["fork"]["run"] == parent["run"]).count(), 1);
    // The effect of the other answer, as text.
    let differs = home.run(&["diff", "toast", &id]);
    assert_eq!(differs.code, 1, "{differs:?}");
    let text = differs.stdout;
    assert!(text.contains("changed in the fork"), "{text}");
    assert!(text.contains("/error: toast is on fire → nothing"), "{text}");
    for noise in ["/set", "/attempts", "Forked", "\"kind\""] {
        assert!(!text.contains(noise), "{noise} in {text}");
    }
    // It is an ordinary run.
    home.run(&["doctor", "--verify"]).ok();
    let replayed = home.orders(&["replay", &id, "--json"]).ok().lines().remove(0);
    assert_eq!(replayed["verdict"], "identical", "{replayed}");
    let there =
        home.orders(&["replay", "--step", &id, "--at", &at, "--json"]).ok().lines().remove(0);
    assert_eq!(there["record"].to_string(), at);
    // A second fork at the same record has another id; standard input works too.
    let mut command =
        home.command(&kit::tiffany(), &["fork", "toast", "--at", &at, "--set-reply", "-"]);
    command.stdin(std::fs::File::open(home.0.join("reply.json")).unwrap());
    let again = kit::finish(command).ok().stdout;
    assert!(again.contains(&format!("toast~{at}.2  forked from")), "{again}");
}

#[test]
fn a_changed_answer_is_shown_as_changed_in_the_fork_and_not_as_somebody_s_decision() {
    let home = Home::new();
    home.start("refund", "r-1", "40", "0.3").ok();
    home.run(&["approve", "r-1", "--choice", "half", "--because", "half full", "--as", "Ada"]).ok();
    home.orders(&["resume", "r-1"]).ok();
    let decided = home.run(&["log", "r-1", "--type", "ApprovalDecided", "--json"]).ok().lines();
    let (at, mut reply) = (decided[0]["seq"].to_string(), decided[0]["value"].clone());
    reply["choice"] = "all".into();
    write(&home, "reply.json", &reply.to_string());
    home.run(&["fork", "r-1", "--at", &at, "--id", "f", "--set-reply", "reply.json"]).ok();

    let user = tiffany::control::user_name(rustix::process::geteuid().as_raw());
    let changed = format!("changed in the fork by {user} at 20");
    let decision = show(&home, "f")["decisions"][0].clone();
    assert_eq!(
        (&decision["answer"]["choice"], &decision["changed"]["by"]),
        (&json!("all"), &json!(user))
    );
    let moment = decision["changed"]["when"].as_str().unwrap();
    assert!(moment > decision["when"].as_str().unwrap(), "{decision}");
    let shown = home.run(&["show", "f"]).ok().stdout;
    let line = shown.lines().find(|line| line.starts_with("decided")).unwrap();
    assert!(line.contains(&format!("\"Refund 40 EUR?\": all, {changed}")), "{line}");
    assert!(!line.contains("Ada"), "{line}");
    let log = home.run(&["log", "f", "--type", "ApprovalDecided"]).ok().stdout;
    assert!(log.contains(&changed) && !log.contains("set="), "{log}");
    // The parent's decision is still Ada's.
    assert_eq!(show(&home, "r-1")["decisions"][0]["changed"], Value::Null);
    let parent = home.run(&["show", "r-1"]).ok().stdout;
    assert!(parent.contains("half, by Ada"), "{parent}");

    // A fork of the fork keeps who changed the answer first; a change of its own replaces that.
    home.run(&["fork", "f", "--at", &at, "--id", "ff"]).ok();
    assert_eq!(show(&home, "ff")["decisions"][0]["changed"]["when"], json!(moment));
    home.run(&["fork", "f", "--at", &at, "--id", "fff", "--set-reply", "reply.json"]).ok();
    assert!(show(&home, "fff")["decisions"][0]["changed"]["when"].as_str() > Some(moment));
    home.run(&["doctor", "--verify"]).ok();
}

#[test]
fn a_changed_result_of_a_step_is_not_what_somebody_decided_in_doubt() {
    let home = Home::new();
    let holder = home.hold("pay", "p", "60000", "");
    home.wait_for("p", "EffectStart");
    holder.kill();
    let key = home.run(&["doubt", "--json"]).ok().lines().remove(0)["key"].clone();
    home.run(&["doubt", "decide", key.as_str().unwrap(), "--done", "\"by hand\""]).ok();
    let at = record(&home, "p", "EffectResult");
    write(&home, "reply.json", "\"by another hand\"");
    home.run(&["fork", "p", "--at", &at, "--id", "f", "--set-reply", "reply.json"]).ok();
    let result = |id: &str| {
        let records = home.run(&["log", id, "--type", "EffectResult", "--json"]).ok().lines();
        records[0].clone()
    };
    assert_eq!((&result("p")["decided"], &result("f")["decided"]), (&json!("done"), &Value::Null));
    let effect = home.run(&["show", "--steps", "f", "--json"]).ok().lines().remove(0);
    assert!(effect["changed"]["by"].is_string(), "{effect}");
    assert_eq!(
        home.run(&["show", "--steps", "p", "--json"]).ok().lines()[0]["changed"],
        Value::Null
    );
    let table = home.run(&["show", "--steps", "f"]).ok().stdout;
    assert!(table.contains("changed in the fork by "), "{table}");
    home.orders(&["resume", "f"]).ok();
    assert_eq!(show(&home, "f")["outcome"]["value"], "by another hand");
}

#[test]
fn a_fork_that_waits_for_what_came_from_outside_is_not_waited_for_longer_than_is_said() {
    let home = Home::golden();
    let fork = ["fork", "order-17", "--at", "9", "--id", "dry", "--run", "--for", "0.2", "--json"];
    let ran = home.orders(&fork);
    assert_eq!((ran.code, &ran.lines()[1]["state"]), (5, &json!("live")), "{ran:?}");
    home.run(&["fork", "order-17", "--at", "9", "--for", "1"]).failed(2, "TFY0067");
}

#[test]
fn a_fork_that_may_not_go_on_is_paused_says_why_and_goes_on_when_it_is_allowed() {
    let home = Home::new();
    let made = home.0.join("made");
    let path = format!("{:?}", made.to_str().unwrap());
    home.start("later", "later", &path, "0.3").ok();
    let ran = home.orders(&["fork", "later", "--at", "2", "--id", "what if", "--run", "--json"]);
    let lines = ran.failed_json(1, "TFY0069").lines();
    assert_eq!(
        (&lines[1]["state"], &lines[1]["error"]["code"]),
        (&json!("paused"), &json!("TFY0119"))
    );
    assert!(lines[1]["error"]["message"].as_str().unwrap().contains("`touch`"), "{lines:?}");
    assert!(!made.exists());
    assert_eq!(show(&home, "later")["records"], 3, "its parent was left alone");
    let shown = show(&home, "what if");
    assert_eq!((&shown["state"], &shown["refused"]), (&json!("paused"), &json!(["touch"])));
    assert!(home.run(&["show", "what if"]).ok().stdout.contains("touch`, refused"));
    assert_eq!(home.run(&["ls", "--state", "paused", "--json"]).ok().lines().len(), 1);
    let inspected = home.run(&["resume", "--dry-run", "what if", "--json"]);
    assert_eq!(inspected.code, 1);
    let plan = &inspected.lines()[0]["unfinished"][0];
    assert_eq!((&plan["verdict"], &plan["why"]["code"]), (&json!("paused"), &json!("TFY0119")));
    let allowed =
        home.run(&["fork", "what if", "--allow", "touch", "--json"]).ok().lines().remove(0);
    assert_eq!((&allowed["allowed"], &allowed["offline"]), (&json!(["touch"]), &json!(true)));
    assert_eq!(show(&home, "what if")["state"], "live");
    home.orders(&["resume", "what if"]).ok();
    assert!(made.exists());
    assert_eq!(
        home.run(&["log", "what if", "--type", "EffectStart", "--json"]).ok().lines().len(),
        1
    );
    assert_eq!(show(&home, "what if")["state"], "completed");
}

#[test]
fn through_the_process_that_has_the_directory() {
    let home = Home::new();
    let _holder = home.hold("order", "tea", "\"tea\"", "60");
    home.wait_for("tea", "TaskWake");
    home.until("it has no promise", || home.run(&["show", "tea"]).stdout.contains("promise"));
    let at = record(&home, "tea", "TaskWake");
    let forked =
        home.run(&["fork", "tea", "--at", &at, "--allow", "*", "--json"]).ok().lines().remove(0);
    assert_eq!(forked["offline"], false);
    let (fork, parent) = (format!("tea~{at}"), show(&home, "tea"));
    let promise = parent["promises"][0]["promise"].as_str().unwrap().to_owned();
    home.run(&["settle", &promise, "true", "--run", &fork]).ok();
    home.run(&["send", &fork, "address", "\"there\""]).ok();
    home.until("the fork does not end", || show(&home, &fork)["state"] == "completed");
    assert_eq!(show(&home, &fork)["outcome"]["value"], "tea in box with label to there");
    assert_eq!(show(&home, "tea")["state"], "live", "the parent still waits");
    assert_eq!(show(&home, "tea")["promises"][0]["promise"], json!(promise));
    // Steps are refused in one fork and allowed in the other.
    let other = home.run(&["fork", "tea", "--at", &at, "--id", "other"]).ok().stdout;
    assert!(!other.contains("no process owns the directory"), "{other}");
    home.run(&["settle", &promise, "true", "--run", "other"]).ok();
    home.until("it is not paused", || show(&home, "other")["state"] == "paused");
    home.run(&["fork", "other", "--allow", "make"]).ok();
    home.run(&["send", "other", "address", "\"home\""]).ok();
    home.until("it does not end", || show(&home, "other")["state"] == "completed");
    home.orders(&["fork", "tea", "--at", &at, "--run"]).failed(4, "TFY0101");
}

#[test]
fn an_answer_is_given_on_the_command_line() {
    let home = Home::new();
    home.start("order", "tea", "\"tea\"", "0.3").ok();
    let at = record(&home, "tea", "EffectResult");
    let answer = |id: &str, reply: &str| {
        home.run(&["fork", "tea", "--at", &at, "--id", id, "--set-reply", reply]).ok();
        let log = home.run(&["log", id, "--type", "EffectResult", "--json"]).ok().lines();
        log[0]["value"].clone()
    };
    assert_eq!(answer("inline", "1500"), json!(1500));
    // A file goes before JSON that looks like its name.
    write(&home, "1500", "7");
    assert_eq!(answer("file", "1500"), json!(7));
}

#[test]
fn what_makes_no_sense_is_told_and_leaves_nothing() {
    let home = Home::new();
    home.start("order", "tea", "\"tea\"", "0.3").ok();
    let at = record(&home, "tea", "EffectResult");
    write(&home, "text.json", "\"dear\"");
    write(&home, "bad.json", "dear");
    for (arguments, code, error) in [
        (&["--at", "999"][..], 1, "TFY0117"),
        (&["--at", "0"], 1, "TFY0117"),
        (&["--at", "1", "--fail", "no"], 1, "TFY0116"),
        (&["--at", "2", "--set-reply", "text.json"], 1, "TFY0116"),
        (&["--at", &at, "--set-reply", "text.json"], 1, "TFY0118"),
        (&["--at", &at, "--set-reply", "bad.json"], 2, "TFY0064"),
        (&["--at", &at, "--set-reply", "nowhere.json"], 1, "TFY0085"),
        (&["--at", &at, "--set-reply", "text.json", "--fail", "no"], 2, "TFY0067"),
        (&["--at", &at, "--id", "tea"], 1, "TFY0037"),
        (&["--at", &at, "--run"], 3, "TFY0063"),
        (&[], 2, "TFY0067"),
    ] {
        let arguments: Vec<&str> = ["fork", "tea"].iter().chain(arguments).copied().collect();
        home.run(&arguments).failed(code, error);
    }
    home.run(&["fork", "tea", "--at", &at, "--set-reply", "{\"broken"]).failed(2, "TFY0064");
    home.run(&["fork", "coffee", "--at", "1"]).failed(1, "TFY0041");
    home.run(&["fork", "tea", "--allow", "price"]).failed(1, "TFY0032");
    assert_eq!(home.run(&["ls", "--json"]).ok().lines().len(), 1);
    let odd = home.run(&["fork", "tea", "--at", &at, "--set-reply", "text.json", "--as-is"]).ok();
    assert!(odd.stdout.contains("no process owns the directory"), "{}", odd.stdout);
}
