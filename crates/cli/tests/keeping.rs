//! The threat: a command removes or compacts the wrong run, reports a change that it did not make,
//! or leaves a directory that cannot be opened.

use crate::kit::served::{FREE, Served};
use crate::kit::{self, Home};
use serde_json::{Value, json};

fn states(home: &Home) -> Vec<(String, String)> {
    let runs = home.run(&["ls", "--all", "--json"]).ok().lines();
    let mut states: Vec<(String, String)> = runs
        .iter()
        .map(|run| {
            let text = |name: &str| run[name].as_str().unwrap().to_owned();
            (text("id"), text("state"))
        })
        .collect();
    states.sort();
    states
}

fn state(home: &Home, id: &str) -> String {
    let found = states(home).into_iter().find(|(known, _)| known == id);
    found.map_or("gone".into(), |(_, state)| state)
}

#[test]
fn run_files_without_a_commit_log_keep_their_states_and_the_loss_is_told() {
    let home = Home::golden();
    home.run(&["rm", "nap-1"]).ok();
    home.run(&["doctor", "--verify"]).ok();
    let before: Vec<_> =
        states(&home).into_iter().filter(|(_, state)| state != "removed").collect();
    assert!(before.iter().any(|(_, state)| state == "completed"), "{before:?}");
    let live = before.iter().filter(|(_, state)| state == "live").count();
    std::fs::remove_dir_all(home.log().join("commit")).unwrap();
    let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("[TFY0251]\n  next: restore "), "{verified:?}");
    assert_eq!(states(&home), before);
    let inspected = home.run(&["resume", "--dry-run"]).ok().stdout;
    assert!(inspected.contains(&format!("runs: {live} live, ")), "{inspected}");
    let compacted = home.run(&["rm", "--compact", "toast"]).ok();
    assert!(compacted.stderr.contains("TFY0251"), "{compacted:?}");
    assert_eq!(states(&home), before);
    home.run(&["rm", "--keep", "0"]).ok();
    assert_eq!(
        states(&home).iter().filter(|(_, state)| state == "removed").count(),
        before.len() - live
    );
    home.run(&["doctor", "--verify"]).ok();
}

#[test]
fn rm_removes_what_is_over_and_refuses_the_rest() {
    let home = Home::golden();
    let before = states(&home);
    let told = home.run(&["rm", "nap-1"]).ok().stdout;
    assert!(told.lines().nth(1).is_some_and(|line| line.starts_with("erased: ")), "{told}");
    assert_eq!(state(&home, "nap-1"), "gone");
    assert_eq!(states(&home).len(), before.len(), "its UUID is known");
    home.run(&["rm", "nap-1"]).failed(1, "TFY0130");
    home.run(&["show", "nap-1"]).failed(1, "TFY0130");
    home.run(&["send", "nap-1", "x", "1"]).failed(1, "TFY0130");
    home.run(&["cancel", "nap-1"]).failed(1, "TFY0130");
    home.run(&["fork", "nap-1", "--at", "1"]).failed(1, "TFY0130");
    home.run(&["log", "nap-1"]).failed(1, "TFY0130");
    home.run(&["log", "nap-1", "--format", "json"]).failed(1, "TFY0130");
    home.run(&["diff", "nap-1", "toast"]).failed(1, "TFY0130");
    home.orders(&["replay", "--step", "nap-1", "--at", "1"]).failed(1, "TFY0130");
    home.orders(&["replay", "nap-1"]).failed(1, "TFY0130");
    let again = home.start("nap", "nap-1", "0.05", "");
    assert!(again.code != 0 && again.stderr.contains("TFY0130"), "{again:?}");
    // An active run stays, and the others in the same command are removed.
    let ran = home.run(&["rm", "order-17", "toast", "--json"]).failed_json(1, "TFY0132");
    let lines = ran.lines();
    assert_eq!(lines[0]["removed"], json!(true));
    assert_eq!(
        (&lines[1]["removed"], &lines[1]["error"]["code"]),
        (&json!(false), &json!("TFY0132"))
    );
    assert_eq!((state(&home, "order-17"), state(&home, "toast")), ("live".into(), "gone".into()));
    home.run(&["rm", "nobody"]).failed(1, "TFY0041");
    home.run(&["rm"]).failed(2, "TFY0067");
    home.run(&["doctor", "--verify"]).ok();
}

#[test]
fn blobs_go_with_the_run_that_names_them() {
    let home = Home::golden();
    let blobs = || std::fs::read_dir(home.log().join("wal/blobs")).unwrap().count();
    assert_eq!(blobs(), 1);
    // After compaction its input and value still use the blob.
    let done = home.run(&["rm", "--compact", "large", "--json"]).ok().lines().remove(0);
    assert_eq!(done["summary"]["blobs"], json!(0), "{done}");
    assert_eq!(blobs(), 1);
    let said = home.run(&["rm", "large"]).ok().stdout;
    assert!(said.contains("removed 1 blob that no run names"), "{said}");
    assert_eq!(blobs(), 0);
    home.run(&["doctor", "--verify"]).ok();
}

#[test]
fn a_compacted_run_is_shown_and_not_replayed() {
    let home = Home::golden();
    let before = home.run(&["show", "toast", "--json"]).ok().lines().remove(0);
    let done = home.run(&["rm", "--compact", "--all", "--json"]).ok().lines().remove(0);
    let compacted = done["summary"]["compacted"].as_u64().unwrap();
    assert!(compacted >= 1 && done["summary"]["bytes"].as_u64() > Some(0), "{done}");
    let after = home.run(&["show", "toast", "--json"]).ok().lines().remove(0);
    for same in ["run", "id", "function", "state", "started", "changed", "input", "outcome"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    let was = json!({ "records": before["records"], "bytes": before["bytes"] });
    assert_eq!((&before["compacted"], &after["compacted"]), (&Value::Null, &was));
    assert_eq!(after["diverged"], Value::Null);
    let text = home.run(&["show", "toast"]).ok().stdout;
    assert!(text.lines().any(|line| line.starts_with("compacted ")), "{text}");
    for arguments in [
        &["replay", "toast"][..],
        &["replay", "--step", "toast", "--at", "1"],
        &["fork", "toast", "--at", "1"],
        &["diff", "toast", "nap-1"],
    ] {
        home.orders(arguments).failed(1, "TFY0131");
    }
    assert_eq!(home.orders(&["show", "toast", "--json"]).ok().lines()[0]["diverged"], Value::Null);
    // Submitting it again returns its outcome, and executes nothing.
    let again = home.start("burn", "toast", "\"toast\"", "");
    assert_eq!(again.code, 1, "{again:?}");
    assert!(!again.stderr.contains("TFY0130"), "{again:?}");
    home.run(&["log", "toast"]).ok();
    home.run(&["log", "toast", "--format", "perfetto"]).ok();
    home.run(&["rm", "--compact", "order-17"]).failed(1, "TFY0132");
    let once_more = home.run(&["rm", "--compact", "--all", "--json"]).ok().lines().remove(0);
    assert_eq!(once_more["summary"]["compacted"], json!(0));
    home.run(&["doctor", "--verify"]).ok();
}

#[test]
fn prune_shows_what_it_would_do_and_does_that() {
    let home = Home::golden();
    let before = home.contents();
    let would = home.run(&["rm", "--older-than", "1s", "--dry-run", "--json"]).ok().lines();
    assert_eq!(home.contents(), before, "a dry run changes nothing");
    assert!(would.iter().all(|line| line["action"] == "remove" && line["why"] == "age"));
    let over: Vec<String> = states(&home)
        .into_iter()
        .filter(|(_, state)| ["completed", "failed", "cancelled"].contains(&state.as_str()))
        .map(|(id, _)| id)
        .collect();
    let mut ids: Vec<&str> = would.iter().map(|line| line["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, over);
    let failed =
        home.run(&["rm", "--keep", "0", "--state", "failed", "--dry-run", "--json"]).ok().lines();
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0]["id"], &failed[0]["state"]), (&json!("toast"), &json!("failed")));
    let none = ["rm", "--older-than", "5000w", "--keep", "100", "--max-size", "1TB", "--json"];
    let none = home.run(&none).ok().lines();
    assert_eq!((none.len(), &none[0]["summary"]["removed"]), (1, &json!(0)));
    let done = home.run(&["rm", "--keep", "1", "--compact-after", "1s", "--json"]).ok().lines();
    let summary = &done.last().unwrap()["summary"];
    assert_eq!(summary["removed"], json!(over.len() - 1), "{summary}");
    let left = states(&home).into_iter().filter(|(_, state)| state != "removed");
    let (live, ended): (Vec<_>, Vec<_>) = left.partition(|(_, state)| state == "live");
    assert_eq!((live.len(), ended.len()), (3, 1), "{live:?} {ended:?}");
    home.run(&["doctor", "--verify"]).ok();
    for arguments in [
        &["rm"][..],
        &["rm", "--dry-run"],
        &["rm", "--older-than", "soon"],
        &["rm", "--older-than", "3"],
        &["rm", "--max-size", "1 stone"],
        &["rm", "--keep", "-1"],
        &["rm", "--keep", "1", "--state", "live"],
    ] {
        home.run(arguments).failed(2, "TFY0067");
    }
}

#[test]
fn a_forks_parent_is_kept_and_that_is_said() {
    let home = Home::new();
    let made = home.0.join("made");
    let path = format!("{:?}", made.to_str().unwrap());
    home.start("later", "later", &path, "0.3").ok();
    home.orders(&["resume", "later"]).ok();
    home.run(&["fork", "later", "--at", "2", "--id", "what if"]).ok();
    let (parent, fork) = (home.uuid("later"), home.uuid("what if"));
    let refused = home.run(&["rm", "later"]).failed(1, "TFY0133");
    assert!(refused.stderr.contains(&fork), "{refused:?}");
    home.run(&["rm", "--compact", "later"]).failed(1, "TFY0133");
    let would = home.run(&["rm", "--keep", "0", "--dry-run", "--json"]).ok().lines();
    assert_eq!(would.len(), 1);
    assert_eq!((&would[0]["action"], &would[0]["needed_by"]), (&json!("keep"), &json!(fork)));
    let said = home.run(&["rm", "--keep", "0"]).ok().stdout;
    assert!(said.contains(&format!("kept {parent}, which its fork {fork} needs")), "{said}");
    assert_eq!(state(&home, "later"), "completed");
}

#[test]
fn through_the_process_that_has_the_directory_it_is_the_same() {
    let home = Home::golden();
    let holder = home.hold("nap", "long nap", "30", "");
    home.until("the process listens", || home.log().join("control.sock").exists());
    home.wait_for("long nap", "TaskYield");
    home.run(&["rm", "nap-1"]).ok();
    home.run(&["rm", "--compact", "toast"]).ok();
    home.run(&["rm", "long nap"]).failed(1, "TFY0132");
    let done = home.run(&["rm", "--keep", "0", "--json"]).ok().lines();
    let summary = done.last().unwrap()["summary"].clone();
    assert!(summary["removed"].as_u64() > Some(0) && summary["blobs"] == json!(1), "{summary}");
    assert_eq!(state(&home, "long nap"), "live");
    // Its change is durable after a kill.
    holder.kill();
    assert_eq!((state(&home, "nap-1"), state(&home, "toast")), ("gone".into(), "gone".into()));
    home.run(&["doctor", "--verify"]).ok();
}

/// Returns the files that contain the secret.
fn files_with(home: &Home, secret: &str) -> Vec<std::path::PathBuf> {
    let has = |bytes: &Vec<u8>| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    home.contents().into_iter().filter(|(_, bytes)| has(bytes)).map(|(path, _)| path).collect()
}

#[test]
fn each_command_erases_what_it_removes_and_verify_proves_it() {
    let long = format!("\"{}\"", "not-for-everybody ".repeat(1_000));
    for command in [&["rm", "a"][..], &["rm", "--keep", "0"]] {
        for online in [false, true] {
            let home = Home::new();
            home.start("echo", "a", &long, "").ok();
            home.run(&["doctor", "--verify", "--erased", "a"]).failed(2, "TFY0067");
            assert!(!files_with(&home, "not-for-everybody").is_empty());
            let holder = online.then(|| home.hold("hold", "h", "60000", ""));
            if online {
                home.wait_for("h", "EffectStart");
            }
            let ran = home.run(command);
            assert_eq!(ran.code, 0, "{command:?}, online: {online}: {ran:?}");
            let told = ran.stdout;
            assert!(told.contains("erased: nothing of it is left"), "{told}");
            assert_eq!(files_with(&home, "not-for-everybody"), Vec::<std::path::PathBuf>::new());
            let proof = home.run(&["doctor", "--verify", "--erased", "a"]).ok().stdout;
            assert!(proof.starts_with("erased: nothing is left of 1 run in "), "{proof}");
            holder.into_iter().for_each(kit::Holder::kill);
        }
    }
}

#[test]
fn what_an_interrupted_restore_left_is_erased_with_the_run() {
    for online in [false, true] {
        let home = Home::new();
        home.start("echo", "a", "\"not-for-everybody\"", "").ok();
        // A restore killed at its end leaves the log that it replaced; killed at its beginning,
        // half of the new one.
        for left in ["replaced", "restoring"] {
            for part in ["commit", "wal"] {
                kit::copy(&home.log().join(part), &home.log().join(format!("{part}.{left}")));
            }
        }
        let holder = online.then(|| home.hold("hold", "h", "60000", ""));
        if online {
            home.wait_for("h", "EffectStart");
        }
        home.run(&["rm", "a"]).ok();
        assert_eq!(files_with(&home, "not-for-everybody"), Vec::<std::path::PathBuf>::new());
        home.run(&["doctor", "--verify", "--erased", "a"]).ok();
        holder.into_iter().for_each(kit::Holder::kill);
    }
}

/// Changes a byte of a file.
fn damage(file: &std::path::Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[60] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_run_that_is_not_over_can_be_given_up_and_that_is_audited() {
    for online in [false, true] {
        let home = Home::new();
        home.run(&["token", "add", "me", "--role", "admin"]).ok();
        home.start("echo", "e", "1", "").ok();
        let holder = home.hold("pay", "p", "60000", "");
        home.wait_for("p", "EffectStart");
        holder.kill();
        home.run(&["fork", "p", "--at", "2", "--id", "f"]).ok();
        damage(&home.run_file("p"));
        let served = online.then(|| Served::start(&home, &kit::orders(), &FREE));
        // No other command ends or removes the run.
        assert_ne!(home.run(&["cancel", "p"]).code, 0);
        assert_ne!(home.run(&["rm", "p"]).code, 0);
        // A run without damage is not removed by `--damaged`.
        home.run(&["rm", "--damaged", "e"]).failed(1, "TFY0256");
        home.run(&["rm", "--damaged", "f"]).failed(1, "TFY0256");
        let fork = home.uuid("f");
        let told = home.run(&["rm", "--damaged", "p"]).ok().stdout;
        assert!(told.contains("it was damaged: ") && told.contains("TFY0107"), "{told}");
        assert!(told.contains("lost: its outcome, and 0 records"), "{told}");
        assert!(told.contains(&format!("its fork {fork} pauses")), "{told}");
        assert_eq!(state(&home, "p"), "gone");
        home.run(&["rm", "--damaged", "p"]).failed(1, "TFY0130");
        home.run(&["doctor", "--verify", "--erased", "p"]).ok();
        let audit = home.run(&["audit", "--json"]).ok().lines();
        let is_noted = |line: &Value| line["did"] == "remove_damaged" && line["outcome"] == "ok";
        assert_eq!(audit.iter().filter(|line| is_noted(line)).count(), 1, "{audit:?}");
        if let Some(served) = served {
            served.signal("-TERM");
            served.end();
        }
        // The fork doesn't repeat what its parent may have done.
        let served = Served::start(&home, &kit::orders(), &FREE);
        home.until("the fork is not paused", || {
            let status = home.run(&["status"]).stdout;
            status.contains(&fork) && status.contains("can't be read (it was removed)")
        });
        served.signal("-TERM");
        served.end();
    }
}

#[test]
fn verify_finds_what_is_left_of_a_removed_run() {
    let home = Home::new();
    home.start("echo", "a", "\"tea\"", "").ok();
    let line = std::fs::read(home.run_file("a")).unwrap();
    home.run(&["rm", "a"]).ok();
    // An unexpected copy of a run's file.
    let copy = home.log().join("wal/old copy");
    std::fs::write(&copy, &line).unwrap();
    let found = home.run(&["doctor", "--verify", "--erased", "a"]).failed(1, "TFY0205");
    assert!(found.stdout.contains("wal/old copy still has data of run "), "{found:?}");
    let found = home
        .run(&["doctor", "--verify", "--erased", "a", "--json"])
        .failed_json(1, "TFY0205")
        .lines();
    assert_eq!(found[0]["left_in"], "wal/old copy");
    assert_eq!(found[1]["summary"]["erased"], false);
    std::fs::remove_file(copy).unwrap();
    home.run(&["doctor", "--verify", "--erased", "a"]).ok();
}
