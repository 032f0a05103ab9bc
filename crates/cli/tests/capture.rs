//! The threat: `replay --capture` writes a test that doesn't work in a user's project, or
//! overwrites the user's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::{Home, clean_env, finish, orders, tiffany};

#[test]
fn a_run_becomes_a_test_and_its_fixture() {
    let home = Home::golden();
    let before = home.contents();
    let printed = home.orders(&["replay", "toast", "--capture", "tests"]).ok().stdout;
    assert_eq!(printed, "tests/toast.wal: 5 records\ntests/toast.rs: `cargo test --test toast`\n");
    let test = fs::read_to_string(home.0.join("tests/toast.rs")).unwrap();
    assert!(test.contains("env!(\"CARGO_BIN_EXE_orders\")"), "{test}");
    assert!(test.contains("fn toast()"), "{test}");
    assert_eq!(home.contents(), before, "the log is as it was");
    // The test needs neither the directory nor the run.
    fs::remove_dir_all(home.log()).unwrap();
    let replayed = home.orders(&["replay", "--file", "tests/toast.wal"]).ok().stdout;
    assert!(replayed.contains("identical (5 records, 1 call to the world)"), "{replayed}");
}

#[test]
fn in_a_directory_that_cargo_does_not_look_into_the_test_takes_an_entry_in_the_manifest() {
    let home = Home::golden();
    let entry = |dir: &str| {
        let words = ["replay", "toast", "--capture", dir, "--force", "--json"];
        home.orders(&words).ok().lines()[0]["manifest"].clone()
    };
    for tests in ["tests", "./tests", "tests/"] {
        assert_eq!(entry(tests), serde_json::Value::Null);
    }
    let of = |path: &str| format!("[[test]]\nname = \"toast\"\npath = \"{path}\"");
    assert_eq!(entry("a b"), of("a b/toast.rs"));
    assert_eq!(entry("deep/tests"), of("deep/tests/toast.rs"));
    fs::write(home.0.join("deep/Cargo.toml"), "").unwrap();
    assert_eq!(entry("deep/tests"), serde_json::Value::Null);
    assert_eq!(entry("deep/kept"), of("kept/toast.rs"), "a path in the package");
}

#[test]
fn every_run_can_be_captured_whatever_it_is_called() {
    let home = Home::golden();
    let runs = home.run(&["ls", "--json"]).ok().lines();
    for run in &runs {
        let run = run["run"].as_str().unwrap();
        let shown =
            home.orders(&["replay", run, "--capture", "tests", "--json"]).ok().lines().remove(0);
        let fixture = shown["fixture"].as_str().unwrap();
        assert!(shown["test"].as_str().unwrap().starts_with("tests/"), "{shown}");
        home.orders(&["replay", "--file", fixture]).ok();
    }
    let made = fs::read_dir(home.0.join("tests")).unwrap().count();
    assert_eq!(made, 2 * runs.len());
    assert!(home.0.join("tests/evil_31m.rs").exists());
}

#[test]
fn a_program_that_changed_is_told_so_by_the_fixture() {
    let home = Home::golden();
    home.orders(&["replay", "nap-1", "--capture", "kept", "--name", "nap"]).ok();
    let mut command = home.command(&orders(), &["replay", "--file", "kept/nap.wal"]);
    command.env("ORDERS_VERSION", "2");
    let changed = finish(command).failed(1, "TFY0036");
    assert!(changed.stderr.contains("step `brush teeth`"), "{}", changed.stderr);
    let mut command = home.command(&orders(), &["replay", "--file", "-", "--json"]);
    command.env("ORDERS_VERSION", "3");
    command.stdin(Stdio::from(fs::File::open(home.0.join("kept/nap.wal")).unwrap()));
    finish(command).failed_json(1, "TFY0066");
}

#[test]
fn nothing_is_written_where_something_is_wrong() {
    let home = Home::golden();
    home.run(&["replay", "toast", "--capture", "tests"]).failed(3, "TFY0063");
    home.orders(&["replay", "breakfast", "--capture", "tests"]).failed(1, "TFY0041");
    home.orders(&["replay", "toast", "--capture", "tests", "--redact", "card"])
        .failed(1, "TFY0138");
    home.orders(&["replay", "toast", "--capture", "tests", "--leave", "name"]).failed(2, "TFY0067");
    home.orders(&["replay", "toast", "--capture", "tests", "--name", "../toast"])
        .failed(2, "TFY0067");
    home.orders(&["replay", "toast", "--capture", "tests", "--name", "Toast"]).failed(2, "TFY0067");
    let mut command = home.command(&orders(), &["replay", "nap-1", "--capture", "tests", "--json"]);
    command.env("ORDERS_VERSION", "2");
    finish(command).failed_json(1, "TFY0137");
    assert!(!home.0.join("tests").exists());
    home.orders(&["replay"]).failed(2, "TFY0067");
    home.orders(&["replay", "toast", "--file", "x"]).failed(2, "TFY0067");
    home.orders(&["replay", "--file", "x"]).failed(1, "TFY0105");
    home.run(&["replay", "--file", "x"]).failed(3, "TFY0063");
}

#[test]
fn files_that_are_there_are_replaced_only_on_request() {
    let home = Home::golden();
    for name in ["toast.rs", "toast.wal"] {
        let _ = fs::remove_dir_all(home.0.join("tests"));
        fs::create_dir(home.0.join("tests")).unwrap();
        let file = home.0.join("tests").join(name);
        fs::write(&file, "mine").unwrap();
        home.orders(&["replay", "toast", "--capture", "tests"]).failed(1, "TFY0139");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(fs::read_dir(home.0.join("tests")).unwrap().count(), 1);
        home.orders(&["replay", "toast", "--capture", "tests", "--force"]).ok();
        assert_ne!(fs::read_to_string(&file).unwrap(), "mine");
    }
}

#[test]
fn what_is_redacted_is_in_no_file() {
    let home = Home::golden();
    let shown = home
        .orders(&["replay", "order-17", "--capture", "tests", "--redact", "/input", "--json"])
        .ok();
    assert_eq!(shown.lines()[0]["redacted"], 1);
    for file in ["order_17.wal", "order_17.rs"] {
        let text = fs::read_to_string(home.0.join("tests").join(file)).unwrap();
        assert!(!text.contains("tea"), "{text}");
    }
    home.orders(&["replay", "--file", "tests/order_17.wal"]).ok();
}

#[test]
fn a_value_that_would_be_left_is_told_and_may_be_left() {
    let home = Home::new();
    home.start("burn", "fire", "\"light\"", "");
    let refused = home
        .orders(&["replay", "fire", "--capture", "tests", "--redact", "/input"])
        .failed(1, "TFY0138");
    assert!(refused.stderr.contains("record 2 still has it at `/name`"), "{}", refused.stderr);
    assert!(!home.0.join("tests").exists());
    let leave = ["--leave", "/name", "--leave", "/error/call"];
    home.orders(
        &[&["replay", "fire", "--capture", "tests", "--redact", "/input"], &leave[..]].concat(),
    )
    .ok();
    let test = fs::read_to_string(home.0.join("tests/fire.rs")).unwrap();
    assert!(test.contains("--redact /input --leave /name --leave /error/call"), "{test}");
    let fixture = fs::read_to_string(home.0.join("tests/fire.wal")).unwrap();
    assert!(fixture.contains("aaaaa is on fire"), "{fixture}");
    home.orders(&["replay", "--file", "tests/fire.wal"]).ok();
}

#[test]
fn a_compacted_run_cannot_be_captured() {
    let home = Home::golden();
    home.run(&["rm", "--compact", "toast"]).ok();
    home.orders(&["replay", "toast", "--capture", "tests"]).failed(1, "TFY0131");
    assert!(!home.0.join("tests").exists());
}

#[test]
fn a_run_that_begins_with_a_snapshot_can_be_captured() {
    let home = Home::new();
    home.start("clerk", "d", "4", "0.1").ok();
    for page in ["1", "2"] {
        home.run(&["send", "d", "page", page]).ok();
    }
    home.start("clerk", "d", "4", "0.3").ok();
    home.orders(&["replay", "d", "--capture", "tests"]).ok();
    let fixture = fs::read_to_string(home.0.join("tests/d.wal")).unwrap();
    assert!(fixture.contains("\"type\":\"Snapshot\""), "{fixture}");
    let replayed = home.orders(&["replay", "--file", "tests/d.wal"]).ok().stdout;
    assert!(replayed.contains("identical"), "{replayed}");
}

const PROGRAM: &str = r#"
use std::process::ExitCode;
use tiffany::durable::step;
use tiffany::{Builder, Runtime, TaskError};

async fn order(item: String) -> Result<String, TaskError> {
    let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    step("charge", || Ok::<(), String>(())).input(&price).await?;
    Ok(format!("{item} costs {price}"))
}

fn program() -> Builder {
    Runtime::builder().log_dir("log").register("order", order)
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("start") {
        let mut runtime = program().build().unwrap();
        let run = runtime.submit::<String>("order", "order-17", &"tea").unwrap();
        println!("{}", runtime.wait_for(&run).unwrap());
        return ExitCode::SUCCESS;
    }
    tiffany_cli::main(program())
}
"#;

/// A user's project, which depends on this tree and is built beside it.
struct Project(Home);

impl Project {
    fn new() -> Project {
        let home = Home::new();
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        fs::create_dir(home.0.join("src")).unwrap();
        fs::copy(tree.join("Cargo.lock"), home.0.join("Cargo.lock")).unwrap();
        let manifest = format!(
            "[package]\nname = \"captured-shop\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\ntiffany = {{ path = {:?} }}\ntiffany-cli = {{ path = {:?} }}\n\n[workspace]\nresolver = \"3\"\n\n\
             [profile.dev]\ndebug = \"line-tables-only\"\n\n\
             [profile.dev.package.\"*\"]\ndebug = false\n",
            tree.join("crates/runtime"),
            tree.join("crates/cli"),
        );
        fs::write(home.0.join("Cargo.toml"), manifest).unwrap();
        let project = Project(home);
        project.write(PROGRAM);
        project
    }

    fn write(&self, program: &str) {
        fs::write(self.0.0.join("src/main.rs"), program).unwrap();
    }

    fn add_to_manifest(&self, text: &str) {
        let file = self.0.0.join("Cargo.toml");
        let manifest = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{manifest}\n{text}")).unwrap();
    }

    /// Returns the output and the errors of cargo, and whether it succeeded.
    fn cargo(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO"));
        clean_env(&mut command);
        let made = command
            .current_dir(&self.0.0)
            .env("CARGO_TARGET_DIR", target())
            .args(words)
            .args(["--offline", "--color", "never"])
            .output()
            .unwrap();
        let text = [made.stdout, made.stderr].concat();
        (made.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn shop(&self, words: &[&str]) -> String {
        let mut command = Command::new(target().join("debug/captured-shop"));
        clean_env(&mut command);
        command.current_dir(&self.0.0).args(words);
        finish(command).ok().stdout
    }
}

fn target() -> PathBuf {
    tiffany().parent().and_then(Path::parent).unwrap().to_path_buf()
}

#[test]
fn in_a_cargo_project_the_test_passes_until_the_program_changes() {
    let project = Project::new();
    let (built, text) = project.cargo(&["build"]);
    assert!(built, "{text}");
    assert_eq!(project.shop(&["start"]), "tea costs 42\n");
    let printed = project.shop(&["replay", "order-17", "--capture", "tests"]);
    assert!(printed.contains("`cargo test --test order_17`"), "{printed}");
    let test = ["test", "--test", "order_17"];
    let (passed, text) = project.cargo(&test);
    assert!(passed && text.contains("test order_17 ... ok"), "{text}");
    // Elsewhere cargo needs an entry in the manifest, which is printed.
    let printed =
        project.shop(&["replay", "order-17", "--capture", "private/kept", "--name", "kept"]);
    let (said, entry) = printed.split_once(", once Cargo.toml has\n").expect(&printed);
    assert!(said.ends_with("private/kept/kept.rs: `cargo test --test kept`"), "{printed}");
    project.add_to_manifest(entry);
    let (passed, text) = project.cargo(&["test", "--test", "kept"]);
    assert!(passed && text.contains("test kept ... ok"), "{text}");
    project.write(&PROGRAM.replace(
        "    step(\"charge\"",
        "    step(\"greet\", || Ok::<(), String>(())).await?;\n    step(\"charge\"",
    ));
    let (passed, text) = project.cargo(&test);
    assert!(!passed && text.contains("error[TFY0036]: task 1 now makes step `greet`"), "{text}");
    assert!(text.contains("where record 5 has step `charge` at src/main.rs:8"), "{text}");
    project.write(&PROGRAM.replace("costs", "is worth"));
    let (passed, text) = project.cargo(&test);
    assert!(!passed && text.contains("the value \"tea is worth 42\", and ended with"), "{text}");
}
