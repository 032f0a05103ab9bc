//! The threat: a read-only command shows something wrong, or changes the directory. Directories
//! that are unchanged, crashed, damaged, in use, read-only, or of a newer version.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::kit::served::{FREE, Served};
use crate::kit::{Home, finish, finish_within, tiffany};
use serde_json::{Value, json};

/// All read-only commands.
const LOOKS: &[&[&str]] = &[
    &["ls"],
    &["ls", "--all", "--json"],
    &["show", "order-17"],
    &["show", "pay-1", "--json"],
    &["log", "order-17"],
    &["log", "large", "--json"],
    &["doctor", "--verify"],
    &["resume", "--dry-run"],
    &["resume", "--dry-run", "--json"],
    &["doubt"],
];

#[test]
fn looking_changes_no_byte_and_takes_no_lock() {
    let home = Home::golden();
    let before = home.contents();
    for arguments in LOOKS {
        home.run(arguments).ok();
        home.orders(arguments).ok();
    }
    home.orders(&["replay", "nap-1"]).ok();
    assert!(home.contents() == before, "something changed");
    assert!(!home.log().join("lock").exists(), "a lock was made");
}

#[test]
fn a_directory_that_may_not_be_written_can_be_looked_at() {
    // Root can write anywhere, which would prove nothing, so an ordinary user runs the commands.
    let home = Home::golden();
    let program = home.0.join("tiffany");
    fs::copy(tiffany(), &program).unwrap();
    let set = |mode| {
        for dir in ["orders/wal/blobs", "orders/wal", "orders/commit", "orders"] {
            fs::set_permissions(home.0.join(dir), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    for arguments in LOOKS {
        let mut command = home.command(&program, arguments);
        as_nobody(&mut command);
        finish(command).ok();
    }
    let mut command = home.command(&program, &["send", "order-17", "address", "1"]);
    as_nobody(&mut command);
    let refused = finish(command);
    set(0o755);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("TFY0104"), "{refused:?}");
    // A directory that cannot even be read.
    fs::set_permissions(home.log(), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = home.command(&program, &["ls"]);
    as_nobody(&mut command);
    let refused = finish(command);
    fs::set_permissions(home.log(), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = refused.failed(1, "TFY0104").stderr;
    assert!(refused.contains("cannot read orders: this user has no permission"), "{refused}");
}

fn as_nobody(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    if fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
    {
        command.uid(65534).gid(65534);
    }
}

#[test]
fn a_crashed_directory_is_shown_as_it_will_be() {
    let home = Home::golden();
    // Half of the last line of this file is missing; the commit log has it.
    let file = home.run_file("pay-1");
    assert!(!fs::read_to_string(&file).unwrap().ends_with('\n'));
    let log = home.run(&["log", "pay-1", "--json"]).ok();
    let kinds: Vec<Value> = log.lines().iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["RunStart", "TaskYield", "EffectStart"]);
    let shown = home.run(&["show", "pay-1"]).ok().stdout;
    assert!(
        shown.contains("step `charge` (at_most_once), attempt 1 begun, no result yet"),
        "{shown}"
    );
    let verified = home.run(&["doctor", "--verify"]).ok().stdout;
    assert!(verified.contains("lacks lines that the commit log has"), "{verified}");
}

#[test]
fn a_process_killed_at_any_moment_leaves_a_directory_that_is_whole() {
    let home = Home::new();
    for round in 0..6 {
        let holder = home.hold("echo", &format!("echo-{round}"), "[1,2,3]", "5");
        std::thread::sleep(Duration::from_millis(40 + 37 * round));
        holder.kill();
        if !home.log().join("commit/index").exists() {
            continue;
        }
        let before = home.contents();
        home.run(&["doctor", "--verify"]).ok();
        let runs = home.run(&["ls", "--json"]).ok().lines();
        for run in runs {
            let log = home.run(&["log", run["run"].as_str().unwrap(), "--json"]).ok().lines();
            assert_eq!(run["records"], log.len(), "{run}");
        }
        assert!(home.contents() == before);
    }
    assert!(!home.run(&["ls", "--json"]).ok().lines().is_empty(), "nothing was started");
}

#[test]
fn a_directory_in_use_is_read_beside_its_owner() {
    let home = Home::new();
    let _holder = home.hold("nap", "long", "60", "60");
    home.wait_for("long", "TaskYield");
    let inspected = home.run(&["resume", "--dry-run", "--json"]).ok().lines();
    assert!(inspected[0]["holder"].as_str().unwrap().starts_with("process "), "{inspected:?}");
    assert_eq!(inspected[0]["mending"], json!([]));
    home.run(&["doctor", "--verify"]).ok();
    let doctor = home.run(&["doctor"]).stdout;
    assert!(doctor.contains("in use       note   process "), "{doctor}");
    assert!(doctor.contains("process      ok     tiffany 0.1.0, 1 live, none paused"), "{doctor}");
    home.orders(&["resume", "--all"]).failed(4, "TFY0101");
    home.run(&["ls"]).ok();
}

#[test]
fn a_busy_directory_is_never_taken_for_a_damaged_one() {
    let home = Home::new();
    home.start("nap", "first", "0.01", "").ok();
    // Segments of 64 KiB are reused all the time.
    let _holder = home.hold("busy", "busy", "100000", "20");
    home.until("it is not busy", || {
        home.run(&["ls", "--json"]).lines().iter().any(|run| run["function"] == "busy")
    });
    for _ in 0..40 {
        let ls = home.run(&["ls", "--json"]).ok();
        assert!(ls.lines().iter().all(|run| run["state"] != "damaged"), "{ls:?}");
        home.run(&["doctor", "--verify", "first"]).ok();
    }
    let log = home.run(&["log", "busy", "--json"]).ok().lines();
    assert!(log.len() > 100, "it was not busy: {} records", log.len());
}

#[test]
fn a_damaged_run_is_told_and_the_others_are_shown() {
    let home = Home::golden();
    let file = home.run_file("toast");
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 60;
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("record 2 at byte "), "{verified:?}");
    assert!(verified.stdout.contains("[TFY0107]\n  next: restore "), "{verified:?}");
    let json = home.run(&["doctor", "--verify", "--json"]);
    assert_eq!(json.lines()[0]["error"]["code"], "TFY0107");
    assert_eq!(json.lines()[1]["summary"]["damaged"], 1);
    let shown = home.run(&["show", "toast"]);
    assert_eq!(shown.code, 1);
    assert!(shown.stdout.contains("state       damaged"), "{shown:?}");
    let log = home.run(&["log", "toast", "--json"]).failed_json(1, "TFY0107");
    assert_eq!(log.lines().len(), 1, "what can be read is shown");
    home.run(&["doctor", "--verify", "nap-1"]).ok();
    home.run(&["show", "order-17"]).ok();
    home.orders(&["replay", "toast"]).failed(1, "TFY0107");
}

#[test]
fn a_short_run_file_is_damaged_before_it_is_read() {
    let home = Home::golden();
    let file = home.run_file("nap-1");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 5]).unwrap();
    let ls = home.run(&["ls", "--state", "damaged", "--json"]).ok().lines();
    assert_eq!(ls.len(), 1, "{ls:?}");
    assert_eq!(ls[0]["id"], "nap-1");
    let doctor = home.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("runs         bad    damaged: 9f87c291-"), "{doctor:?}");
    let inspected = home.run(&["show", "nap-1", "--json"]);
    assert_eq!(inspected.lines()[0]["damage"]["code"], "TFY0107");
}

#[test]
fn missing_and_changed_blobs_are_found() {
    let home = Home::golden();
    let blob = fs::read_dir(home.log().join("wal/blobs")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&blob).unwrap();
    let mut changed = bytes.clone();
    changed[7] ^= 1;
    fs::write(&blob, changed).unwrap();
    // The blob is no longer in the commit log, because it was checkpointed.
    let verified = home.run(&["doctor", "--verify", "large"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("TFY0112"), "{verified:?}");
    fs::remove_file(&blob).unwrap();
    let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("TFY0111"), "{verified:?}");
    home.orders(&["replay", "large"]).failed(1, "TFY0111");
}

#[test]
fn without_index_or_segments_the_runs_are_still_read() {
    for (name, code) in [("index", "TFY0109"), ("segment", "TFY0108")] {
        let home = Home::golden();
        let dir = home.log().join("commit");
        let victim = match name {
            "index" => dir.join("index"),
            _ => {
                let files = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
                files.into_iter().find(|path| path.extension().is_some()).unwrap()
            }
        };
        fs::remove_file(&victim).unwrap();
        let ls = home.run(&["ls", "--json"]);
        assert_eq!(ls.code, 1, "{ls:?}");
        assert!(ls.stderr.starts_with(&format!("warning[{code}]: ")), "{ls:?}");
        assert_eq!(ls.lines().len(), 7);
        let log = home.run(&["log", "order-17"]);
        assert!(log.stdout.contains("create_external_promise"), "{log:?}");
        let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
        assert!(verified.stdout.contains(code), "{verified:?}");
        home.run(&["resume", "--dry-run"]).failed(1, code);
        let doctor = home.run(&["doctor"]);
        assert!(doctor.stdout.contains(code), "{doctor:?}");
        assert_eq!(doctor.code, 1);
    }
}

#[test]
fn a_newer_version_is_not_guessed_at() {
    let home = Home::golden();
    let file = home.run_file("nap-1");
    let text = fs::read_to_string(&file).unwrap();
    // Its checksum is right: a damaged digit would be damage.
    let first = text.lines().next().unwrap().replacen("{\"v\":1,", "{\"v\":9,", 1);
    let body = &first[..first.len() - 18];
    let run = u128::from_str_radix(&home.uuid("nap-1").replace('-', ""), 16).unwrap();
    let crc = crc32c(&[&run.to_be_bytes()[..], &1_u32.to_le_bytes(), body.as_bytes()].concat());
    let rest = &text[text.find('\n').unwrap() + 1..];
    fs::write(&file, format!("{body},\"crc\":\"{crc:08x}\"}}\n{rest}")).unwrap();
    home.run(&["log", "nap-1"]).failed(1, "TFY0110");
    let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("format version 9"), "{verified:?}");
    let index = home.log().join("commit/index");
    // An intact header of a newer version.
    let mut bytes = fs::read(&index).unwrap();
    bytes[8] = 9;
    let crc = crc32c(&[&bytes[..12], &bytes[16..48]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    fs::write(&index, bytes).unwrap();
    let ls = home.run(&["ls"]);
    assert!(ls.stderr.contains("warning[TFY0110]"), "{ls:?}");
    home.orders(&["resume", "--all"]).failed(1, "TFY0110");
}

/// Computes the checksum of the format, without tables.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 }
        })
    };
    !bytes.iter().fold(!0, step)
}

#[test]
fn runs_are_found_by_uuid_beginning_and_id() {
    let home = Home::golden();
    let uuid = home.uuid("nap-1");
    for name in [uuid.as_str(), &uuid[..4], &uuid.replace('-', ""), &uuid.to_uppercase(), "nap-1"] {
        let shown = home.run(&["show", name, "--json"]).ok();
        assert_eq!(shown.lines()[0]["run"], uuid.as_str(), "{name}");
    }
    // The UUIDs of these two begin with the same four digits.
    for id in ["n-57", "n-466"] {
        home.start("nap", id, "0", "").ok();
    }
    let ambiguous = home.run(&["show", "a6f7"]).failed(2, "TFY0062");
    assert_eq!(ambiguous.stderr.matches("a6f7").count(), 3, "{ambiguous:?}");
    // Prefixes this short are not accepted.
    home.run(&["show", &uuid[..3]]).failed(1, "TFY0041");
    home.run(&["show", "zz"]).failed(1, "TFY0041");
    home.run(&["show", ""]).failed(1, "TFY0041");
}

#[test]
fn records_can_be_chosen() {
    let home = Home::golden();
    let seqs = |arguments: &[&str]| -> Vec<u64> {
        let all = [&["log", "order-17", "--json"], arguments].concat();
        home.run(&all).ok().lines().iter().map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(&["--from", "3", "--to", "5"]), [3, 4, 5]);
    assert_eq!(seqs(&["--type", "effectstart", "--type", "RunStart"]), [1, 3]);
    assert_eq!(seqs(&["--task", "2"]), [0; 0]);
    assert_eq!(seqs(&["--failed"]), [0; 0]);
    let unknown = home.run(&["log", "order-17", "--type", "Nonsense"]).failed(2, "TFY0067");
    assert!(unknown.stderr.contains("RunStart, TaskSpawn"), "{unknown:?}");
    let failed = home.run(&["log", "toast", "--failed", "--json"]).ok().lines();
    assert_eq!(failed.len(), 2, "{failed:?}");
}

#[test]
fn following_shows_records_as_they_come_and_ends_with_the_run() {
    let home = Home::new();
    let _holder = home.hold("nap", "short", "1.5", "20");
    home.wait_for("short", "TaskYield");
    let begun = std::time::Instant::now();
    let followed = home.run(&["log", "short", "--follow", "--json"]).ok();
    let kinds: Vec<Value> = followed.lines().iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds, ["RunStart", "TaskYield", "TaskWake", "TaskExit"]);
    assert!(begun.elapsed() > Duration::from_millis(300), "it did not wait");
    // `--follow` doesn't wait for a finished run, or for records beyond `--to`.
    home.run(&["log", "short", "--follow"]).ok();
    let _other = home.run(&["log", "short", "--follow", "--to", "1", "--json"]).ok();
}

#[test]
fn where_tasks_stand_is_told_from_the_records_and_more_exactly_by_the_code() {
    let home = Home::new();
    home.start("family", "f", "null", "0.4").ok();
    let by_records = home.run(&["show", "f", "--json"]).ok().lines().remove(0);
    let by_replay = home.orders(&["show", "f", "--json"]).ok().lines().remove(0);
    assert_eq!((&by_records["seen"], &by_replay["seen"]), (&json!("records"), &json!("replay")));
    let states = |shown: &Value| -> Vec<(u64, String, String)> {
        let tasks = shown["tasks"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let what = |task: &Value| text(&task["waits"][0]["what"]);
        tasks
            .iter()
            .map(|task| (task["tid"].as_u64().unwrap(), text(&task["state"]), what(task)))
            .collect()
    };
    let found = states(&by_records);
    let words: Vec<&str> = found.iter().map(|(_, state, _)| state.as_str()).collect();
    assert_eq!(
        words,
        ["waiting", "completed", "failed", "waiting", "waiting", "waiting"],
        "{found:?}"
    );
    assert_eq!(found[0].2, "gather of task 4, task 5, task 6", "those that are not over");
    assert!(found[3].2.starts_with("sleep until 2"), "{found:?}");
    assert_eq!(found[4].2, "receive_message `news`");
    assert!(
        found[5].2.starts_with("step `work`, attempt 1 failed, the next one at 2"),
        "{found:?}"
    );
    assert_eq!(by_records["tasks"][2]["parent"], 2);
    let exact: Vec<&str> = by_replay["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["scheduler"].as_str().unwrap_or("-"))
        .collect();
    assert_eq!(exact[0], "Blocked(gather)");
    assert_eq!(exact[3], "Blocked(sleep)");
    assert_eq!(exact[4], "Blocked(message)");
    assert_eq!(exact[5], "Blocked(effect)");
    assert_eq!(by_records["tasks"][3]["name"], "sleeper");
    let tree = home.run(&["show", "f"]).ok().stdout;
    assert!(tree.contains("├─ 2  completed"), "{tree}");
    assert!(tree.contains("│  └─ 3  failed"), "{tree}");
    assert!(tree.contains("└─ 6  waiting"), "{tree}");
}

#[test]
fn runs_are_chosen_sorted_and_counted() {
    let home = Home::golden();
    let ids = |arguments: &[&str]| -> Vec<String> {
        let lines = home.run(&[&["ls", "--json"], arguments].concat()).ok().lines();
        lines.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids(&[]);
    assert_eq!(all.len(), 7);
    assert_eq!(ids(&["--text", "NAP"]), ["nap-1", "nap-2"]);
    assert_eq!(
        ids(&["--state", "failed", "--state", "completed", "--function", "burn"]),
        ["toast"]
    );
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!(ids(&["--sort", "id"]), sorted);
    sorted.reverse();
    assert_eq!(ids(&["--sort", "id", "--reverse"]), sorted);
    assert_eq!(ids(&["--reverse", "--limit", "2"]), [&*all[6], &*all[5]]);
    // An active run has no end yet, so it sorts as the latest.
    assert_eq!(ids(&["--sort", "ended", "--reverse", "--state", "live", "--limit", "9"]).len(), 3);
    assert_eq!(ids(&["--since", "2026-11-16T04:14:19Z"]), ["order-17", "nap-2", "pay-1"]);
    assert_eq!(ids(&["--before", "2026-11-16T04:14:19Z"]).len(), 4);
    assert_eq!(ids(&["--since", "0s"]).len(), 0);
    assert_eq!(ids(&["--forks-of", "toast"]).len(), 0);
    home.run(&["ls", "--forks-of", "nobody"]).failed(1, "TFY0041");
    home.run(&["ls", "--since", "yesterday"]).failed(2, "TFY0067");
    home.run(&["ls", "--sort", "size"]).failed(2, "TFY0067");
}

#[test]
fn steps_are_listed_with_their_attempts() {
    let home = Home::golden();
    let light = home.run(&["show", "--steps", "toast", "--json"]).ok().lines().remove(0);
    assert_eq!((&light["name"], &light["state"]), (&"light".into(), &"failed".into()));
    assert_eq!(light["attempts"].as_array().unwrap().len(), 1);
    // After a crash, the last records are in the commit log, and not yet in the run's file.
    let told = home.run(&["show", "--steps", "pay-1"]).ok().stdout;
    assert!(told.contains("the last records of this run are in the commit log only"), "{told}");
    let failed = home.run(&["show", "--steps", "toast", "--state", "failed"]).ok().stdout;
    assert!(failed.contains("failed") && failed.contains("on fire"), "{failed}");
    assert_eq!(
        home.run(&["show", "--steps", "toast", "--state", "queued", "--json"]).ok().stdout,
        ""
    );
    home.run(&["show", "--steps", "toast", "--state", "happy"]).failed(2, "TFY0067");
    home.run(&["show", "--steps", "nobody"]).failed(1, "TFY0041");
}

#[test]
fn a_long_value_is_written_as_it_is() {
    let home = Home::new();
    let long = format!("\"{}\"", "tea ".repeat(20_000));
    assert_eq!(home.start("burn", "long", &long, "").code, 1);
    let start = home.run(&["log", "long", "--type", "RunStart", "--json"]).ok().lines().remove(0);
    let hash = start["input"]["$blob"].as_str().unwrap();
    assert_eq!(home.run(&["show", "--blob", hash]).ok().stdout, long);
    home.run(&["show", "--blob", &"0".repeat(hash.len())]).failed(1, "TFY0111");
    home.run(&["show", "--blob", "../tokens"]).failed(1, "TFY0032");
}

/// A function that creates something at a path.
type Make = fn(&Path);

/// File types that can take the place of a regular file, and how to create them.
const OTHER_KINDS: [(&str, Make); 4] = [
    ("a FIFO", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("a socket", |path| {
        // The path of a socket must be short.
        let short = std::env::temp_dir().join(format!("tiffany-socket-{}", std::process::id()));
        drop(UnixListener::bind(&short).unwrap());
        fs::rename(short, path).unwrap();
    }),
    ("a directory", |path| fs::create_dir(path).unwrap()),
    ("a symbolic link", |path| symlink(path.file_name().unwrap(), path).unwrap()),
];

fn replace(path: &Path, make: Make) {
    drop(fs::remove_dir(path));
    drop(fs::remove_file(path));
    make(path);
}

/// Commands that report another file type in place of a file. All other commands don't need the
/// file, and work.
const NAMED_BY: [(&str, &[&str]); 10] = [
    ("lock", &["doctor", "serve"]),
    ("restoring", &["ls", "show", "doctor", "verify", "serve"]),
    ("turn.json", &["doctor"]),
    ("redacted", &["doctor"]),
    ("tokens.json", &["doctor", "token"]),
    ("audit.jsonl", &["doctor", "audit", "serve"]),
    ("commit/index", &["ls", "show", "doctor", "verify", "serve"]),
    ("commit/0001-65536.seg", &["ls", "show", "doctor", "verify", "serve"]),
    (RUN_FILE, &["show", "doctor", "verify"]),
    (BLOB, &["doctor", "verify"]),
];
/// The file of the run `order-17`.
const RUN_FILE: &str = "wal/72a90ea3-da8b-4dd0-9bde-2f27314e02e2.wal";
/// The blob with the input of the run `large`.
const BLOB: &str = "wal/blobs/8242d1e19f39e7773bed9492eea88fb9a590d62be321636e33976c3dec83afad";

/// No command blocks on a FIFO, or reads anything that is not a regular file. Commands that need
/// the file report what is there.
#[test]
fn commands_name_what_is_in_the_place_of_a_file() {
    for (file, named_by) in NAMED_BY {
        for (kind, make) in OTHER_KINDS {
            let home = Home::golden();
            replace(&home.log().join(file), make);
            let looks: [&[&str]; 6] = [
                &["ls"],
                &["show", "order-17"],
                &["doctor"],
                &["doctor", "--verify"],
                &["audit"],
                &["token", "ls"],
            ];
            for arguments in looks {
                let command = home.command(&tiffany(), arguments);
                let ran = finish_within(command, Duration::from_secs(20));
                let case = format!("{file} is {kind}, {arguments:?}: {ran:?}");
                let name = arguments.get(1).map_or(arguments[0], |flag| match *flag {
                    "--verify" => "verify",
                    _ => arguments[0],
                });
                if !named_by.contains(&name) {
                    assert_eq!(ran.code == 0, name != "doctor", "{case}");
                    continue;
                }
                let told = ran.stdout + &ran.stderr;
                assert!(told.contains(file), "{case}");
                assert!(arguments[0] == "doctor" || told.contains(kind), "{case}");
            }
            if named_by.contains(&"serve") {
                let command = home.command(&tiffany(), &["serve", "--listen", "127.0.0.1:0"]);
                let ran = finish_within(command, Duration::from_secs(20));
                let is_named = ran.stderr.contains(file) && ran.stderr.contains(kind);
                assert!(ran.code == 1 && is_named, "{file} is {kind}: {ran:?}");
            }
        }
    }
}

/// A daemon answers every request after a file is replaced by another file type while it runs.
#[test]
fn requests_are_answered_when_a_file_is_replaced() {
    let home = Home::golden();
    let served = Served::start(&home, &tiffany(), &FREE);
    let blob = BLOB.strip_prefix("wal/blobs/").unwrap();
    let requests = [
        (RUN_FILE, "/api/v1/runs/order-17/records".to_owned()),
        (RUN_FILE, "/api/v1/runs/order-17/tasks".to_owned()),
        (BLOB, format!("/api/v1/runs/large/blobs/{blob}")),
        ("audit.jsonl", "/readyz".to_owned()),
        ("tokens.json", "/api/v1/runs".to_owned()),
    ];
    let token_for = |file: &str| match file {
        "tokens.json" => "authorization: Bearer tfy_00000000_00000000000000000000000000000000\r\n",
        _ => "",
    };
    for (file, path) in &requests {
        for (kind, make) in OTHER_KINDS {
            replace(&home.log().join(file), make);
            let answer = request(&served.address, path, token_for(file));
            assert!(answer.starts_with("HTTP/1.1 50"), "{file} is {kind}, {path}: {answer}");
            assert!(answer.contains(kind), "{file} is {kind}, {path}: {answer}");
            assert!(request(&served.address, "/healthz", "").starts_with("HTTP/1.1 200"));
        }
    }
}

fn request(address: &str, path: &str, header: &str) -> String {
    let mut line = TcpStream::connect(address).unwrap();
    line.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(line, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n")
        .unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_killed_process_whose_segments_and_last_line_are_lost_is_not_continued() {
    let home = Home::new();
    let holder = home.hold("pay", "p", "60000", "");
    home.wait_for("p", "EffectStart");
    let index = home.log().join("commit/index");
    // The last frame has no entries and names a block.
    home.until("the index expects no block", || {
        fs::read(&index).is_ok_and(|bytes| bytes.len() > 56 && bytes[bytes.len() - 48] == 2)
    });
    holder.kill();
    let file = home.run_file("p");
    home.run(&["doctor", "--verify"]).ok();
    for (path, bytes) in home.contents() {
        if path.extension().is_some_and(|end| end == "seg") {
            fs::write(path, vec![0; bytes.len()]).unwrap();
        }
    }
    let lines = fs::read_to_string(&file).unwrap();
    let cut = lines.trim_end().rfind('\n').unwrap();
    fs::write(&file, &lines[..=cut]).unwrap();
    let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
    assert!(verified.stdout.contains("[TFY0108]"), "{verified:?}");
    home.orders(&["resume", "--all"]).failed(1, "TFY0108");
    assert_eq!(fs::read_to_string(&file).unwrap(), lines[..=cut]);
}

#[test]
fn a_frame_of_the_index_that_was_being_written_is_a_note() {
    // The file ends within its last frame, or has sectors of it that were never written.
    for (cut, zeros) in [(1, 0), (20, 0), (60, 0), (0, 600)] {
        let home = Home::golden();
        home.run(&["rm", "nap-1"]).ok();
        let path = home.log().join("commit/index");
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - cut);
        bytes.resize(bytes.len() + zeros, 0);
        fs::write(&path, bytes).unwrap();
        let verified = home.run(&["doctor", "--verify"]).ok();
        let note = "note: the last frames of the index are missing, and are written again";
        assert!(verified.stdout.contains(note), "{cut}, {zeros}: {verified:?}");
        home.run(&["rm", "toast"]).ok();
        home.run(&["rm", "nap-1"]).failed(1, "TFY0130");
        let verified = home.run(&["doctor", "--verify"]).ok();
        assert!(!verified.stdout.contains("note: the index"), "{cut}, {zeros}: {verified:?}");
    }
}

#[test]
fn a_damaged_end_of_the_index_or_of_the_removed_runs_is_damage() {
    for name in ["index", "removed"] {
        let home = Home::golden();
        home.run(&["rm", "nap-1"]).ok();
        let path = home.log().join("commit").join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 0x55;
        fs::write(&path, bytes).unwrap();
        let verified = home.run(&["doctor", "--verify"]).failed(1, "TFY0065");
        assert!(verified.stdout.contains(&format!("commit/{name} is damaged")), "{verified:?}");
        assert!(verified.stdout.contains("[TFY0253]"), "{verified:?}");
        let doctor = home.run(&["doctor"]);
        assert!(doctor.code == 1 && doctor.stdout.contains("[TFY0253]"), "{doctor:?}");
        // Opening the log writes the index again, and the id stays known.
        let removed = home.run(&["rm", "toast"]).ok();
        assert!(removed.stderr.contains("TFY0253"), "{removed:?}");
        home.run(&["doctor", "--verify"]).ok();
        home.run(&["rm", "nap-1"]).failed(1, "TFY0130");
    }
}

#[test]
fn a_very_long_error_is_shown_cut_and_says_where_all_of_it_is() {
    let home = Home::new();
    let input = format!("\"{}\"", "x".repeat(40_000));
    home.start("burn", "b-1", &input, "");
    let shown = home.run(&["show", "b-1"]).ok().stdout;
    assert!(shown.contains("xxxxxx") && shown.len() < 10_000, "{shown}");
    let (_, rest) = shown.split_once("`tiffany show --blob ").unwrap();
    let hash = rest.split('`').next().unwrap();
    assert!(home.run(&["show", "--blob", hash]).ok().stdout.contains("is on fire"));
    let json = home.run(&["show", "b-1", "--json"]).ok().lines().remove(0);
    let error = &json["outcome"]["error"];
    assert!(error["message"].as_str().unwrap().starts_with("xxxxxx"), "{error}");
    for arguments in [&["log", "b-1"][..], &["show", "--steps", "b-1"]] {
        let text = home.run(arguments).ok().stdout;
        assert!(text.contains("tiffany show --blob"), "{text}");
    }
}
