//! The commands `diff`, `log --format` and `backup`: on intact, live, damaged and missing runs and
//! directories, while a process owns the log, and with little space.

use std::fs;
use std::path::Path;

use crate::kit::{self, Home, contents, finish, tiffany};

#[test]
fn two_runs_are_compared_on_a_terminal_and_as_json() {
    let home = Home::new();
    for (id, input) in [("a", "0.01"), ("b", "0.01"), ("c", "0.02")] {
        home.start("nap", id, input, "").ok();
    }
    let same = home.run(&["diff", "a", "b"]).ok();
    assert!(same.stdout.ends_with("the same: 4 records\n"), "{same:?}");
    let other = home.run(&["diff", "a", "c"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.stdout.contains("    /seconds: 0.01 → 0.02\n"), "{other:?}");
    let coloured = home.run(&["--color", "always", "diff", "a", "c"]);
    assert!(coloured.stdout.contains("/value: \x1b[1;31m0.01\x1b[0m → \x1b[32m0.02\x1b[0m"));
    let json = home.run(&["--json", "diff", "a", "c"]).lines();
    assert_eq!((&json[0]["a"]["id"], &json[0]["b"]["id"]), (&"a".into(), &"c".into()));
    assert_eq!(json[1]["same_records"], 0);
    let summary = &json.last().unwrap()["summary"];
    assert_eq!((&summary["same"], &summary["differences"]), (&false.into(), &3.into()));
    let short = home.run(&["--json", "diff", "a", "c", "--limit", "1"]).lines();
    assert_eq!((short.len(), &short[3]["summary"]["differences"]), (4, &3.into()));
    home.run(&["diff", "a", "nobody"]).failed(1, "TFY0041");
    home.run(&["diff", "a"]).failed(2, "TFY0067");
}

#[test]
fn what_is_in_a_log_is_not_obeyed_when_it_is_compared_or_exported() {
    let home = Home::golden();
    let evil = "evil \u{1b}[31m";
    for arguments in [
        vec!["diff", evil, "large"],
        vec!["--json", "diff", evil, "large"],
        vec!["log", evil, "--format", "perfetto"],
        vec!["log", evil, "--format", "mermaid"],
        vec!["log", evil, "--format", "json"],
    ] {
        let ran = home.run(&arguments);
        let bad = ran.stdout.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(bad, None, "{arguments:?}: {ran:?}");
        assert!(ran.stdout.len() > 100, "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_run_of_another_directory_can_be_compared() {
    let home = Home::golden();
    home.run(&["backup", "create", "copy"]).ok();
    home.run(&["backup", "restore", "copy", "--to", "other"]).ok();
    home.run(&["diff", "order-17", "order-17", "--other", "other"]).ok();
    home.run(&["diff", "order-17", "order-17", "--other", "nowhere"]).failed(1, "TFY0060");
}

#[test]
fn of_a_damaged_run_there_is_what_can_be_read() {
    let home = Home::golden();
    let file = home.run_file("order-17");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() - 300;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let compared = home.run(&["diff", "nap-1", "order-17"]);
    assert_eq!(compared.code, 1);
    assert!(compared.stdout.contains("not all can be read: run 72a90ea3"), "{compared:?}");
    let exported = home.run(&["log", "order-17", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&exported.stdout).unwrap();
    assert!(document["unread"].as_str().unwrap().contains("TFY0107"), "{document}");
    assert!(document["records"].as_array().unwrap().len() >= 5, "{document}");
    let backed = home.run(&["backup", "create", "copy"]).failed(1, "TFY0123");
    assert!(backed.stdout.contains("damaged: run 72a90ea3"), "{backed:?}");
    home.run(&["backup", "check", "copy"]).ok();
    let restored = home.run(&["backup", "restore", "copy", "--to", "other"]).ok();
    assert!(restored.stdout.contains("damaged in the log already"), "{restored:?}");
}

#[test]
fn an_export_goes_to_a_file_or_nowhere() {
    let home = Home::golden();
    home.run(&["log", "order-17", "--format", "perfetto", "-o", "trace.json"]).ok();
    let text = fs::read_to_string(home.0.join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 5);
    let names: Vec<_> = fs::read_dir(&home.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let nowhere = ["log", "order-17", "--format", "json", "-o", "no/such/place"];
    home.run(&nowhere).failed(1, "TFY0068");
    let full = ["log", "order-17", "--format", "json", "-o", "/dev/full/x"];
    home.run(&full).failed(1, "TFY0068");
    home.run(&["log", "order-17", "--format", "pdf"]).failed(2, "TFY0067");
    home.run(&["log", "order-17", "--out", "x.json"]).failed(2, "TFY0067");
}

/// Returns everything in a directory except the notes about its owner.
fn kept(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let is_note = |path: &Path| path.ends_with("lock");
    let files = contents(dir).into_iter().filter(|(path, _)| !is_note(path));
    files.map(|(path, bytes)| (path.to_string_lossy().into_owned(), bytes)).collect()
}

#[test]
fn a_backup_is_taken_while_a_process_has_the_log_and_goes_on() {
    let home = Home::golden();
    let holder = home.hold("nap", "long", "100", "");
    home.wait_for("long", "TaskYield");
    let first = home.run(&["--json", "backup", "create", "copy"]).ok().lines();
    assert_eq!((&first[0]["runs"], &first[0]["copied_runs"]), (&8.into(), &8.into()));
    home.run(&["send", "order-17", "address", "\"here\""]).ok();
    let second = home.run(&["--json", "backup", "create", "copy", "--rate", "0"]).ok().lines();
    assert_eq!(second[0]["copied_runs"], 1, "{second:?}");
    assert!(second[0]["copied_bytes"].as_u64().unwrap() < 1000, "{second:?}");
    // The log itself is in use.
    home.run(&["backup", "restore", "copy", "--to", "orders"]).failed(4, "TFY0101");
    home.run(&["backup", "restore", "copy", "--to", "orders", "--force"]).failed(4, "TFY0101");
    holder.kill();
    let listed = home.run(&["ls"]).ok().stdout.replace("--dir orders", "--dir again");
    home.run(&["backup", "restore", "copy", "--to", "again"]).ok();
    let again = finish(tiffany_in(&home, "again", &["ls"])).ok().stdout;
    assert_eq!(again, listed);
    finish(tiffany_in(&home, "again", &["doctor", "--verify"])).ok();
}

fn tiffany_in(home: &Home, dir: &str, arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(tiffany());
    kit::clean_env(&mut command);
    command.current_dir(&home.0).args(["--dir", dir]).args(arguments);
    command
}

#[test]
fn what_a_backup_or_a_restore_must_not_touch_it_does_not() {
    let home = Home::golden();
    let before = home.contents();
    home.run(&["backup", "create", "copy"]).ok();
    assert_eq!(home.contents(), before, "a backup changed the log");
    // Directories that are not empty.
    fs::create_dir(home.0.join("full")).unwrap();
    fs::write(home.0.join("full/diary"), "dear").unwrap();
    home.run(&["backup", "create", "full"]).failed(1, "TFY0090");
    home.run(&["backup", "restore", "copy", "--to", "full"]).failed(1, "TFY0090");
    home.run(&["backup", "create", "orders"]).failed(1, "TFY0090");
    std::os::unix::fs::symlink(home.log(), home.0.join("link")).unwrap();
    for inside in ["orders/copy", "orders/wal/copy", "full/../orders/copy", "link/copy"] {
        home.run(&["backup", "create", inside]).failed(1, "TFY0090");
    }
    home.run(&["backup", "restore", "copy", "--to", "full", "--force"]).failed(1, "TFY0090");
    home.run(&["backup", "restore", "copy", "--to", "orders"]).failed(1, "TFY0090");
    assert_eq!(fs::read_dir(home.0.join("full")).unwrap().count(), 1);
    assert_eq!(home.contents(), before);
    // The backup of another log.
    let other = Home::new();
    other.start("nap", "x", "0.01", "").ok();
    let theirs = other.log().to_string_lossy().into_owned();
    let copied = kept(&home.0.join("copy"));
    home.run(&["backup", "create", "copy", "--dir", &theirs]).failed(1, "TFY0089");
    assert_eq!(kept(&home.0.join("copy")), copied);
    // Directories without a log, without a backup, and without a parent.
    home.run(&["backup", "create", "copy", "--dir", "nowhere"]).failed(1, "TFY0060");
    home.run(&["backup", "restore", "nowhere", "--to", "new"]).failed(1, "TFY0087");
    home.run(&["backup", "check", "full"]).failed(1, "TFY0087");
    home.run(&["backup", "create", "no/such/parent"]).failed(1, "TFY0122");
    home.run(&["backup", "restore", "copy"]).failed(2, "TFY0067");
    home.run(&["backup", "create", "copy", "--rate", "-1"]).failed(2, "TFY0067");
    assert!(!home.0.join("new").exists());
}

#[test]
fn a_log_that_is_in_the_way_goes_only_if_somebody_says_so() {
    let home = Home::golden();
    home.run(&["backup", "create", "copy"]).ok();
    home.start("nap", "later", "0.01", "").ok();
    home.run(&["backup", "restore", "copy", "--to", "orders"]).failed(1, "TFY0090");
    home.run(&["show", "later"]).ok();
    home.run(&["backup", "restore", "copy", "--to", "orders", "--force"]).ok();
    home.run(&["show", "later"]).failed(1, "TFY0041");
    home.run(&["doctor", "--verify"]).ok();
    // The program continues with the restored log.
    home.orders(&["resume", "nap-2", "--for", "20"]).ok();
}

#[test]
fn what_a_daemon_keeps_beside_the_log_outlives_a_restore() {
    let home = Home::golden();
    home.run(&["backup", "create", "copy"]).ok();
    home.run(&["token", "add", "ada", "--role", "viewer"]).ok();
    fs::write(home.log().join("audit.jsonl.1"), "older\n").unwrap();
    let kept = ["audit.jsonl", "audit.jsonl.1", "tokens.json"];
    let read = |name: &&str| fs::read(home.log().join(name)).unwrap();
    let before: Vec<Vec<u8>> = kept.iter().map(read).collect();
    home.run(&["backup", "restore", "copy", "--to", "orders", "--force"]).ok();
    assert_eq!(kept.iter().map(read).collect::<Vec<_>>(), before);
    home.run(&["doctor", "--verify"]).ok();
    let audit = home.run(&["audit", "--json"]).ok().lines();
    assert_eq!(audit[0]["did"], "token_add");
    // A directory without a log is accepted.
    for part in ["commit", "wal"] {
        fs::remove_dir_all(home.log().join(part)).unwrap();
    }
    home.run(&["backup", "restore", "copy", "--to", "orders"]).ok();
    assert_eq!(kept.iter().map(read).collect::<Vec<_>>(), before);
    home.run(&["backup", "restore", "copy", "--to", "orders"]).failed(1, "TFY0090");
}

#[test]
fn a_restore_that_was_cut_off_is_not_opened_and_can_be_done_again() {
    let home = Home::golden();
    home.run(&["backup", "create", "copy"]).ok();
    home.run(&["backup", "restore", "copy", "--to", "again"]).ok();
    fs::write(home.0.join("again/restoring"), "").unwrap();
    finish(tiffany_in(&home, "again", &["ls"])).failed(1, "TFY0120");
    home.run(&["backup", "restore", "copy", "--to", "again"]).ok();
    finish(tiffany_in(&home, "again", &["doctor", "--verify"])).ok();
}

#[test]
fn a_changed_byte_of_a_backup_is_found() {
    let home = Home::golden();
    home.run(&["backup", "create", "copy"]).ok();
    let file = home.0.join(format!("copy/runs/{}.1.wal", home.uuid("order-17")));
    let mut bytes = fs::read(&file).unwrap();
    bytes[700] ^= 1;
    fs::write(&file, bytes).unwrap();
    home.run(&["backup", "check", "copy"]).failed(1, "TFY0088");
    home.run(&["--json", "backup", "restore", "copy", "--to", "again"]).failed_json(1, "TFY0088");
    assert!(!home.0.join("again").exists());
}
