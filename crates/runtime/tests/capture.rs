//! The threat: a run that was captured for a test says something else than its log, lets out what was to be taken out, or does not notice that the program has
//! changed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::durable_kit::{Dir, ms};
use serde::{Deserialize, Serialize};
use tiffany::durable::{Fork, continue_as, receive, step};
use tiffany::testing::{CaptureError, Captured, Over, Redaction, capture, replay_log};
use tiffany::{Builder, Runtime, TaskError, Uuid, put, sleep, try_spawn};

#[derive(Clone, Serialize, Deserialize)]
struct Customer {
    email: String,
    card: u64,
    born: String,
    vip: bool,
}

fn ada() -> Customer {
    let born = "1815-12-10T08:00:00.250Z".into();
    Customer { email: "ada@example.org".into(), card: 4_111_222_233_334_444, born, vip: true }
}

/// All that tells who ada is.
const SECRETS: &[&str] = &["ada@", "example.org", "4111222233334444", "1815-12-10", "08:00"];

/// Passes on what it is given: to steps, tasks, names, messages, its store and its result.
async fn order(customer: Customer) -> Result<String, TaskError> {
    let Customer { email, card, born, .. } = customer.clone();
    let receipt: String =
        step("charge", move || Ok::<String, String>(format!("card {card} charged")))
            .input(&customer)
            .await?;
    put(&format!("mail to {email}"), 1_u32).await;
    let to = email.clone();
    let mail = try_spawn(async move {
        step("mail", || Ok::<(), String>(())).input(&(format!("Dear {to},"), receipt, born)).await
    });
    mail.name(format!("mail to {email}")).await.await?;
    receive::<String>(&format!("answer of {email}")).await
}

/// Fails with what it was given.
async fn refuse(customer: Customer) -> Result<(), TaskError> {
    step("check", move || Err::<(), String>(format!("{} owes 3 pounds", customer.email))).await
}

/// Takes another way for some.
async fn favour(customer: Customer) -> Result<u32, TaskError> {
    match customer.email.starts_with("ada") {
        true => step("gift", || Ok::<u32, String>(1)).await,
        false => Ok(0),
    }
}

/// Gives back what it is given, by way of a step.
async fn echo(text: String) -> Result<String, TaskError> {
    let said = text.clone();
    step("echo", move || Ok::<String, String>(said.clone())).input(&text).await
}

/// Names a task and a message after what it is given, however short, and has it in the name of a step.
async fn brew(sku: String) -> Result<String, TaskError> {
    let what = sku.clone();
    let line = try_spawn(async move {
        step("pour tea", || Err::<(), String>("no tea left, only 7 teapots".into()))
            .input(&what)
            .await
    });
    let left = line.name(format!("line {sku}")).await.await.is_err();
    receive::<String>(&format!("{sku}/{left}")).await
}

static STARTS: AtomicU32 = AtomicU32::new(0);

/// Depends on what is not in its log.
async fn moody(_: ()) -> Result<u32, TaskError> {
    let starts = STARTS.fetch_add(1, Ordering::SeqCst);
    step("look", || Ok::<u32, String>(1)).input(&starts).await
}

async fn countdown(left: u32) -> Result<u32, TaskError> {
    step("tick", || Ok::<u32, String>(1)).input(&left).await?;
    if left == 1 { Ok(0) } else { continue_as(&(left - 1)).await }
}

fn program(builder: Builder) -> Builder {
    builder
        .register("order", order)
        .register("refuse", refuse)
        .register("favour", favour)
        .register("echo", echo)
        .register("brew", brew)
        .register("moody", moody)
        .register("countdown", countdown)
}

fn bare() -> Builder {
    program(Runtime::builder())
}

/// Runs a function to its end, whatever that is.
fn ran(dir: &Dir, function: &str, id: &str, input: &impl Serialize) -> Uuid {
    let mut runtime = program(dir.builder()).build().unwrap();
    let run = runtime.submit::<serde_json::Value>(function, id, input).unwrap();
    if function == "order" {
        let name = format!("answer of {}", ada().email);
        runtime.send(&run, &name, &"ada@example.org says thanks").unwrap();
    }
    if function == "brew" {
        runtime.send(&run, "tea/true", &"tea?").unwrap();
    }
    let _ = runtime.wait_for(&run);
    run.uuid()
}

fn redacting(rules: &[&str]) -> Redaction {
    rules.iter().fold(Redaction::new(), |redaction, rule| redaction.field(rule).unwrap())
}

fn taken(dir: &Dir, run: Uuid, rules: &[&str]) -> Result<Captured, CaptureError> {
    capture(bare(), &dir.0, run, &redacting(rules))
}

/// The fixture in a file beside the log.
fn kept(dir: &Dir, captured: &Captured) -> PathBuf {
    let file = dir.0.join("fixture.wal");
    captured.write(&file, Over::File).unwrap();
    file
}

fn refused(result: Result<Captured, CaptureError>) -> (String, String) {
    let error = result.err().expect("an error");
    (error.code().to_owned(), error.to_string())
}

#[test]
fn a_captured_run_is_one_file_that_the_same_program_agrees_with() {
    let dir = Dir::new();
    let large = "tea ".repeat(20_000);
    let run = ran(&dir, "echo", "large", &large);
    assert!(dir.0.join("wal/blobs").read_dir().unwrap().count() > 0);
    let captured = taken(&dir, run, &[]).unwrap();
    assert_eq!((captured.run(), captured.id(), captured.records()), (run, "large".into(), 5));
    assert_eq!(captured.redacted(), 0);
    assert!(!captured.text().contains("$blob"));
    let file = kept(&dir, &captured);
    std::fs::remove_dir_all(dir.0.join("wal")).unwrap();
    replay_log(bare(), &file).unwrap();
}

#[test]
fn a_program_that_does_something_else_is_told_where() {
    let dir = Dir::new();
    let run = ran(&dir, "echo", "e", &"tea");
    let file = kept(&dir, &taken(&dir, run, &[]).unwrap());
    let louder = async |text: String| echo(text + "!").await;
    let error = replay_log(Runtime::builder().register("echo", louder), &file).unwrap_err();
    assert_eq!(error.code(), "TFY0036");
    assert!(error.to_string().contains(r#"{"input":"tea!"}"#), "{error}");
    let other_end = async |text: String| echo(text).await.map(|said| said + "!");
    let error = replay_log(Runtime::builder().register("echo", other_end), &file).unwrap_err();
    assert!(
        error.to_string().contains(r#"the value "tea!", and ended with the value "tea""#),
        "{error}"
    );
    let error = replay_log(Runtime::builder().register("tea", echo), &file).unwrap_err();
    assert!(error.to_string().contains("echo"), "{error}");
}

#[test]
fn what_is_redacted_is_nowhere_in_the_fixture() {
    let dir = Dir::new();
    let orders = [("order", "order of ada@example.org"), ("refuse", "refused to ada@example.org")];
    for (function, id) in orders {
        let run = ran(&dir, function, id, &ada());
        let text = taken(&dir, run, &[]).unwrap().text().to_owned();
        assert!(text.contains("ada@example.org"), "{text}");
        let captured = taken(&dir, run, &["email", "card", "/input/born"]).unwrap();
        let text = captured.text();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} is in\n{text}");
        }
        assert_eq!(captured.redacted(), 3);
        assert!(text.contains("aaa@aaaaaaa.aaa"), "{text}");
        assert!(text.contains(r#""redacted":["email","card","/input/born"]"#), "{text}");
        replay_log(bare(), &kept(&dir, &captured)).unwrap();
    }
}

#[test]
fn a_whole_value_can_be_redacted() {
    let dir = Dir::new();
    let run = ran(&dir, "echo", "e", &"a long and private story");
    let captured = taken(&dir, run, &["/input"]).unwrap();
    assert!(!captured.text().contains("story"), "{}", captured.text());
    replay_log(bare(), &kept(&dir, &captured)).unwrap();
    let run = ran(&dir, "refuse", "r", &ada());
    let captured = taken(&dir, run, &["/input"]).unwrap();
    assert!(SECRETS.iter().all(|secret| !captured.text().contains(secret)), "{}", captured.text());
    assert!(captured.text().contains(r#""vip":false"#), "{}", captured.text());
}

#[test]
fn what_a_run_depends_on_cannot_be_redacted() {
    let dir = Dir::new();
    let run = ran(&dir, "favour", "f", &ada());
    taken(&dir, run, &["card"]).unwrap();
    let (code, text) = refused(taken(&dir, run, &["email"]));
    assert_eq!(code, "TFY0138");
    assert!(text.contains("`email`") && text.contains("record 2"), "{text}");
    assert!(!text.contains("ada@"), "{text}");
}

#[test]
fn short_values_are_taken_out_too_or_it_is_told_where_they_are() {
    let dir = Dir::new();
    let run = ran(&dir, "brew", "order of tea", &"tea");
    let (code, text) = refused(taken(&dir, run, &["/input"]));
    assert_eq!(code, "TFY0138");
    assert!(text.contains("cannot redact `/input`: record 4 still has it at `/name`"), "{text}");
    assert!(!text.contains("tea"), "{text}");
    assert!(text.contains("record 7 has such a value at `/error/call/0`"), "{text}");
    for places in [["/name", "/error/call"], ["name", "call"]] {
        let leave = |redaction: Redaction, place: &&str| redaction.leave(place).unwrap();
        let redaction = places.iter().fold(redacting(&["/input"]), leave);
        let captured = capture(bare(), &dir.0, run, &redaction).unwrap();
        let text = captured.text().replace("\"pour tea\"", "");
        assert!(text.contains(r#""name":"line aaa""#), "{text}");
        assert!(text.contains("no aaa left, only 7 teapots"), "{text}");
        assert_eq!(captured.id(), "order of aaa");
        assert_eq!(text.replace("teapots", "").matches("tea").count(), 0, "{text}");
        replay_log(bare(), &kept(&dir, &captured)).unwrap();
    }
    let elsewhere = redacting(&["/input"]).leave("/function").unwrap();
    assert_eq!(refused(capture(bare(), &dir.0, run, &elsewhere)).0, "TFY0138");
    assert_eq!(Redaction::new().leave("").unwrap_err().code(), "TFY0138");
    // Nothing is said of words that the log has anyway.
    let run = ran(&dir, "echo", "e", &"every");
    taken(&dir, run, &["/input"]).unwrap();
    let run = ran(&dir, "echo", "f", &"echo");
    assert!(
        refused(taken(&dir, run, &["/input"])).1.contains("record 1 still has it at `/function`")
    );
}

#[test]
fn of_many_rules_the_one_to_blame_is_named_and_nothing_is_guessed() {
    let dir = Dir::new();
    let run = ran(&dir, "favour", "f", &ada());
    let (code, text) = refused(taken(&dir, run, &["card", "email", "vip"]));
    assert_eq!(code, "TFY0138");
    assert!(text.contains("cannot redact `email`: "), "{text}");
    assert!(!text.contains("likely") && !text.contains("card"), "{text}");
}

#[test]
fn a_rule_that_finds_nothing_is_an_error() {
    let dir = Dir::new();
    let run = ran(&dir, "favour", "f", &ada());
    for rule in ["emial", "/input/customer", "/email", "/input/0"] {
        let (code, text) = refused(taken(&dir, run, &["card", rule]));
        assert_eq!(code, "TFY0138");
        assert!(text.contains(&format!("`{rule}`: the log has nothing there")), "{text}");
    }
    assert_eq!(Redaction::new().field("").unwrap_err().code(), "TFY0138");
}

#[test]
fn a_run_that_depends_on_what_is_not_in_its_log_is_refused() {
    let dir = Dir::new();
    let run = ran(&dir, "moody", "m", &());
    let (code, text) = refused(taken(&dir, run, &[]));
    assert_eq!(code, "TFY0137");
    assert!(text.contains("record 2") && text.contains("TFY0036"), "{text}");
    let (code, text) =
        refused(capture(Runtime::builder().register("x", echo), &dir.0, run, &Redaction::new()));
    assert_eq!(code, "TFY0137");
    assert!(text.contains("moody"), "{text}");
}

#[test]
fn a_run_that_is_not_over_is_compared_as_far_as_its_log_goes() {
    let dir = Dir::new();
    let mut runtime = program(dir.builder()).build().unwrap();
    let run = runtime.submit::<String>("order", "o", &ada()).unwrap();
    runtime.run(async { sleep(ms(1000)).await }).unwrap();
    let uuid = run.uuid();
    // It is captured while a process has it.
    let file = kept(&dir, &taken(&dir, uuid, &["email"]).unwrap());
    drop(runtime);
    replay_log(bare(), &file).unwrap();
    let changed = async |customer: Customer| {
        step("greet", || Ok::<(), String>(())).await?;
        order(customer).await
    };
    let error = replay_log(Runtime::builder().register("order", changed), &file).unwrap_err();
    assert_eq!(error.code(), "TFY0036");
    // Cut, it does not pass for a shorter run.
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&file, lines[..lines.len() - 2].concat()).unwrap();
    let error = replay_log(bare(), &file).unwrap_err();
    assert!(error.to_string().contains("has no end"), "{error}");
}

#[test]
fn later_generations_and_forks_can_be_captured() {
    let dir = Dir::new();
    let run = ran(&dir, "countdown", "c", &3);
    let captured = taken(&dir, run, &[]).unwrap();
    assert!(captured.text().contains(r#""gen":3"#), "{}", captured.text());
    replay_log(bare(), &kept(&dir, &captured)).unwrap();

    let mut runtime = program(dir.builder()).build().unwrap();
    let run = runtime.submit::<String>("echo", "e", &"tea").unwrap();
    runtime.wait_for(&run).unwrap();
    let answer = Fork::new().set_reply(&"cake").unwrap();
    let fork = runtime.fork(&run, 4, answer).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), "cake");
    drop(runtime);
    let captured = taken(&dir, fork.uuid(), &[]).unwrap();
    replay_log(bare(), &kept(&dir, &captured)).unwrap();
}

#[test]
fn a_file_that_is_there_is_replaced_only_on_request() {
    let dir = Dir::new();
    let run = ran(&dir, "echo", "e", &"tea");
    let captured = taken(&dir, run, &[]).unwrap();
    let file = dir.0.join("e.wal");
    std::fs::write(&file, "mine").unwrap();
    let error = captured.write(&file, Over::Nothing).unwrap_err();
    assert_eq!(error.code(), "TFY0139");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    captured.write(&file, Over::File).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), captured.text());
    let nowhere = captured.write(&dir.0.join("none/e.wal"), Over::Nothing).unwrap_err();
    assert_eq!(nowhere.code(), "TFY0105");
    assert_eq!(taken(&dir, Uuid(7), &[]).err().unwrap().code(), "TFY0113");
}

#[test]
fn files_that_are_no_fixture_are_refused() {
    let dir = Dir::new();
    let run = ran(&dir, "echo", "e", &"tea");
    let file = kept(&dir, &taken(&dir, run, &[]).unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    for (changed, code, words) in [
        (String::new(), "TFY0059", "is not the log of a run"),
        ("tea\n".into(), "TFY0059", "is not the log of a run"),
        (text.replacen("\"tea\"", "\"tee\"", 2), "TFY0059", "is not the log of a run"),
        (text.replace(r#""value":"tea""#, r#""value":"tee""#), "TFY0107", "checksum"),
        (text[..text.len() - 9].into(), "TFY0107", "cut off"),
    ] {
        std::fs::write(&file, changed).unwrap();
        let error = replay_log(bare(), &file).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(replay_log(bare(), Path::new("/none.wal")).unwrap_err().code(), "TFY0105");
}

#[test]
fn every_error_has_its_code_a_next_step_and_a_section_in_the_book() {
    let errors = [
        CaptureError::NotTheSame { run: Uuid(7), why: "x".into() },
        CaptureError::Redaction { what: "x".into(), why: "y".into(), next: "z" },
        CaptureError::FileThere("x".into()),
    ];
    let codes: Vec<&str> = errors.iter().map(CaptureError::code).collect();
    assert_eq!(codes, CaptureError::CODES);
    for error in &errors {
        let text = error.to_string();
        assert_eq!(text.matches(&format!(" [{}]; ", error.code())).count(), 1, "{text}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/time-travel.md");
    let text = std::fs::read_to_string(page).unwrap();
    for code in codes {
        let section = text.split(&format!("\n### {code}\n")).nth(1).expect(code);
        let section = section.split("\n#").next().unwrap();
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(section.matches(part).count(), 1, "{code} has no {part}");
        }
    }
}
