//! What redaction means for runs: they work with real values, come back with placeholders, and are the same runs as before; and what is refused.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::durable_kit::Dir;
use serde::{Deserialize, Serialize};
use tiffany::durable::{
    DurableAgent, Fork, StepError, patched, receive, run_id, send, step, step_with,
};
use tiffany::kernel::Trace;
use tiffany::redact::{RedactError, Redactions};
use tiffany::testing::TestScheduler;
use tiffany::{
    Builder, RunError, Runtime, Site, SystemCall, TaskContext, TaskError, TaskStatus, Uuid, named,
    put, sleep,
};

const KEY: &str = "sk-0123456789";

fn rules() -> Redactions {
    let rules = Redactions::new().pattern("sk-[0-9]{10}");
    rules.and_then(|rules| rules.field("password")).expect("these are rules")
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Login {
    key: String,
    password: String,
    pin: u32,
}

fn login(key: &str, pin: u32) -> Login {
    Login { key: key.into(), password: "hunter2".into(), pin }
}

/// Drives all runs until something is so.
fn wait_until(runtime: &mut Runtime, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come to that");
        runtime.run(sleep(Duration::from_millis(5))).unwrap();
    }
}

/// Whether the file of a run has this.
fn is_written(dir: &Dir, run: Uuid, what: &str) -> bool {
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{run}.wal")));
    log.is_ok_and(|log| log.contains(what))
}

type Seen = Arc<Mutex<Vec<String>>>;

/// Tells what it sees, and passes it on: to a step, whose work is not done again, and then waits.
fn seeing(dir: &Dir, rules: Redactions) -> (Builder, Seen) {
    let seen = Seen::default();
    let sees = Arc::clone(&seen);
    let look = move |login: Login| look(Arc::clone(&sees), login);
    (dir.builder().redact(rules).register("look", look), seen)
}

async fn look(sees: Seen, login: Login) -> Result<Login, TaskError> {
    let see = |what: &str| sees.lock().unwrap().push(what.to_owned());
    see(&login.key);
    see(&login.password);
    let given: String = step("pass", || Ok::<_, String>(KEY.to_owned())).input(&login).await?;
    see(&given);
    see(&receive::<String>("more").await?);
    receive::<()>("end").await?;
    Ok(login)
}

#[test]
fn a_secret_in_the_lines_of_an_error_is_taken_out() {
    let dir = Dir::new();
    let fails = |(): ()| async {
        let at = Site { file: "shop.py".into(), line: 7 };
        let lines = ["File \"shop.py\", line 7".into(), format!("pay(\"{KEY}\")")];
        Err::<(), _>(TaskError::failed("no tea").with_trace(Trace::new(at, lines)))
    };
    let mut runtime = dir.builder().redact(rules()).register("fails", fails).build().unwrap();
    let run = runtime.submit::<()>("fails", "f-1", &()).unwrap();
    assert!(runtime.wait_for(&run).is_err());
    let uuid = run.uuid();
    drop(runtime);
    assert!(is_written(&dir, uuid, "TaskAbort") && is_written(&dir, uuid, "line 7"));
    assert!(!is_written(&dir, uuid, KEY));
}

#[test]
fn a_run_has_real_values_and_placeholders_after_a_restart() {
    let dir = Dir::new();
    let (program, seen) = seeing(&dir, rules());
    let mut runtime = program.build().unwrap();
    let run = runtime.submit::<Login>("look", "look-1", &login(KEY, 7)).unwrap();
    runtime.send(&run, "more", &KEY).unwrap();
    wait_until(&mut runtime, || seen.lock().unwrap().len() == 4);
    assert_eq!(*seen.lock().unwrap(), [KEY, "hunter2", KEY, KEY]);
    drop(runtime);

    let (program, seen) = seeing(&dir, rules());
    let mut runtime = program.build().unwrap();
    assert_eq!(*seen.lock().unwrap(), ["[redacted]"; 4]);
    // The same start is the same run, whatever the secrets are; another one is not.
    let same = runtime.submit::<Login>("look", "look-1", &login("sk-9999999999", 7)).unwrap();
    assert_eq!(same.uuid(), run.uuid());
    let other = runtime.submit::<Login>("look", "look-1", &login(KEY, 8)).err().unwrap();
    assert_eq!(other.code(), "TFY0037", "{other}");
    runtime.send(&run, "end", &()).unwrap();
    assert_eq!(
        runtime.wait_for(&run).unwrap(),
        Login { key: "[redacted]".into(), password: "[redacted]".into(), pin: 7 }
    );
}

#[test]
fn rules_can_be_added_while_runs_are_under_way() {
    let dir = Dir::new();
    let (program, seen) = seeing(&dir, Redactions::new());
    let mut runtime = program.build().unwrap();
    let run = runtime.submit::<Login>("look", "look-1", &login(KEY, 7)).unwrap();
    runtime.send(&run, "more", &KEY).unwrap();
    wait_until(&mut runtime, || seen.lock().unwrap().len() == 4);
    drop(runtime);
    assert!(dir.log().contains(KEY));

    // What was written before is as it was, and so the run still has it.
    let (program, seen) = seeing(&dir, rules());
    let mut runtime = program.build().unwrap();
    assert!(runtime.paused().is_empty(), "{:?}", runtime.paused());
    assert_eq!(seen.lock().unwrap()[0], KEY);
    assert!(runtime.submit::<Login>("look", "look-1", &login(KEY, 7)).is_ok());
    runtime.send(&run, "end", &()).unwrap();
    runtime.wait_for(&run).unwrap();
}

#[test]
fn a_run_that_decides_by_a_secret_does_not_fit_its_log() {
    let dir = Dir::new();
    let program = |dir: &Dir| {
        let decides = async |key: String| -> Result<u32, TaskError> {
            let name = if key == KEY { "known" } else { "unknown" };
            step(name, || Ok::<_, String>(1)).await?;
            receive("end").await
        };
        dir.builder().redact(rules()).register("decides", decides)
    };
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit::<u32>("decides", "decides-1", &KEY).unwrap();
    wait_until(&mut runtime, || is_written(&dir, run.uuid(), "EffectResult"));
    drop(runtime);
    let runtime = program(&dir).build().unwrap();
    let paused = runtime.paused();
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0].error.code(), "TFY0036");
}

#[test]
fn the_error_of_a_run_that_differs_shows_no_secret() {
    let dir = Dir::new();
    let program = |dir: &Dir, more: &'static str| {
        let passes = move |()| async move {
            step("pass", || Ok::<_, String>(1)).input(&(KEY, more)).await?;
            receive::<u32>("end").await
        };
        dir.builder().redact(rules()).register("passes", passes)
    };
    let mut runtime = program(&dir, "one").build().unwrap();
    let run = runtime.submit::<u32>("passes", "passes-1", &()).unwrap();
    wait_until(&mut runtime, || is_written(&dir, run.uuid(), "EffectResult"));
    drop(runtime);
    let runtime = program(&dir, "two").build().unwrap();
    let error = runtime.paused().pop().expect("it does something else").error;
    assert_eq!(error.code(), "TFY0036");
    let text = error.to_string();
    assert!(text.contains("two") && text.contains("[redacted]") && !text.contains(KEY), "{text}");
}

#[test]
fn changes_of_the_program_are_known_by_names_with_secrets_too() {
    let dir = Dir::new();
    let program = |dir: &Dir| {
        let takes = async |()| -> Result<bool, TaskError> {
            let is_new = patched(KEY).await;
            receive::<()>("end").await?;
            Ok(is_new)
        };
        dir.builder().redact(rules()).register("takes", takes)
    };
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit::<bool>("takes", "takes-1", &()).unwrap();
    wait_until(&mut runtime, || is_written(&dir, run.uuid(), "receive_message"));
    drop(runtime);
    assert!(!dir.log().contains(KEY));
    let mut runtime = program(&dir).build().unwrap();
    runtime.send(&run, "end", &()).unwrap();
    assert!(runtime.wait_for(&run).unwrap());
}

fn waits(dir: &Path) -> Builder {
    let waits = async |()| receive::<String>("more").await;
    let sends = async |()| send(run_id("waits-1"), KEY, &1).await;
    Runtime::builder()
        .log_dir(dir)
        .redact(rules())
        .register("waits", waits)
        .register("sends", sends)
}

#[test]
fn what_is_found_by_its_name_must_not_have_a_secret_in_it() {
    let dir = Dir::new();
    let mut runtime = waits(&dir.0).build().unwrap();
    let refused = |error: RunError| {
        let text = error.to_string();
        assert_eq!(error.code(), "TFY0192", "{text}");
        assert!(text.contains("`a [redacted]`") || text.contains("`[redacted]`"), "{text}");
    };
    let named = format!("a {KEY}");
    refused(runtime.submit::<String>("waits", &named, &()).err().expect("an id"));
    refused(runtime.submit::<String>(&named, "waits-1", &()).err().expect("a function"));
    let run = runtime.submit::<String>("waits", "waits-1", &()).unwrap();
    refused(runtime.send(&run, &named, &1).expect_err("a message"));
    refused(runtime.fork(&run, 1, Fork::new().id(named.as_str())).err().expect("a fork"));
    refused(runtime.fork(&run, 1, Fork::new().allow(named.as_str())).err().expect("an effect"));
    let sends = runtime.submit::<()>("sends", "sends-1", &()).unwrap();
    refused(runtime.wait_for(&sends).expect_err("a message from a run"));
    runtime.send(&run, "more", &KEY).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), KEY);
}

/// A state machine that keeps something in its store.
#[derive(Serialize, Deserialize)]
struct Keeps(String, bool);

impl DurableAgent for Keeps {
    const NAME: &'static str = "keeps";
    type Output = String;

    fn wants(&self) -> TaskStatus<String> {
        match self.1 {
            false => {
                TaskStatus::Waiting(SystemCall::Put(self.0.as_str().into(), tiffany::Value::Int(7)))
            }
            true => TaskStatus::receive_message("end"),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        ctx.done()?;
        self.1 = true;
        Ok(())
    }
}

#[test]
fn the_reasons_of_a_hold_and_a_release_have_no_secret() {
    let dir = Dir::new();
    let (builder, _) = seeing(&dir, rules());
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<Login>("look", "a", &login(KEY, 7)).unwrap();
    runtime.hold(&run, "ada", Some(&format!("the customer pasted {KEY}"))).unwrap();
    runtime.release(&run, "ada", Some(&format!("it is not {KEY}"))).unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    assert!(is_written(&dir, run.uuid(), "the customer pasted [redacted]"));
    assert!(is_written(&dir, run.uuid(), "it is not [redacted]"));
    for (path, bytes) in crate::redaction_everywhere::files_below(&dir.0) {
        assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_none(), "{}", path.display());
    }
}

/// A run that is given an object, a step that returns one, and a message that is one.
async fn keyed(given: Keyed) -> Result<Keyed, TaskError> {
    let made: Keyed = step("make", || Ok::<_, String>(secret_names())).input(&given).await?;
    let sent: Keyed = receive("keyed").await?;
    let mut all = given;
    all.extend(made.into_iter().chain(sent));
    receive::<()>("end").await?;
    Ok(all)
}

type Keyed = std::collections::BTreeMap<String, u32>;

fn secret_names() -> Keyed {
    [("sk-1111111111", 1), ("sk-2222222222", 2), ("[redacted]", 3)]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

#[test]
fn names_that_are_secret_stay_different_names() {
    let dir = Dir::new();
    let build = || dir.builder().redact(rules()).register("keyed", keyed).build().unwrap();
    let mut runtime = build();
    let run = runtime.submit::<Keyed>("keyed", "a", &secret_names()).unwrap();
    runtime.send(&run, "keyed", &secret_names()).unwrap();
    wait_until(&mut runtime, || is_written(&dir, run.uuid(), "receive_message"));
    drop(runtime);
    let mut runtime = build();
    assert!(runtime.paused().is_empty(), "{:?}", runtime.paused());
    runtime.send(&run, "end", &()).unwrap();
    let names: Vec<(String, u32)> = runtime.wait_for(&run).unwrap().into_iter().collect();
    let expected = [("[redacted]", 3), ("[redacted] 2", 1), ("[redacted] 3", 2)];
    assert_eq!(names, expected.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn there_is_no_snapshot_that_would_lose_a_key() {
    let dir = Dir::new();
    let keeps = |key: String| Keeps(key, false);
    let mut runtime = dir.builder().redact(rules()).register_agent("keeps", keeps).build().unwrap();
    let run = runtime.submit::<String>("keeps", "keeps-1", &KEY).unwrap();
    let error = runtime.snapshot(&run).expect_err("its key is a secret");
    assert_eq!(error.code(), "TFY0126", "{error}");
    let run = runtime.submit::<String>("keeps", "keeps-2", &"plain").unwrap();
    runtime.snapshot(&run).unwrap();
}

#[test]
fn the_trace_of_a_test_shows_no_secret() {
    let mut test = TestScheduler::with(Runtime::builder().redact(rules()));
    let run = test.try_start(named(KEY, async {
        put("password", "hunter2").await;
        put("other", KEY).await;
        Err::<(), String>(KEY.into())
    }));
    test.step_until_idle();
    let trace = test.trace().to_string();
    assert!(trace.contains("put(\"password\", [redacted])"), "{trace}");
    assert!(trace.contains("put(\"other\", \"[redacted]\")"), "{trace}");
    assert!(!trace.contains(KEY) && !trace.contains("hunter2"), "{trace}");
    assert!(test.finish(run).is_err());
}

#[test]
fn errors_as_text_have_no_secret_and_tasks_see_it() {
    let mut runtime = Runtime::builder().redact(rules()).build().unwrap();
    let error = runtime.try_run(async { Err::<(), String>(format!("no {KEY}")) }).unwrap_err();
    assert_eq!(error.task_error().map(TaskError::message), Some(&*format!("no {KEY}")));
    assert!(error.to_string().contains("no [redacted]"), "{error}");
    assert!(format!("{error:?}").contains("no [redacted]"), "{error:?}");
}

#[test]
fn a_checkpoint_comes_back_as_a_placeholder() {
    let dir = Dir::new();
    let seen = Seen::default();
    let program = |dir: &Dir| {
        let sees = Arc::clone(&seen);
        let keeps = move |()| {
            let sees = Arc::clone(&sees);
            let work = step_with("keeps", move |attempt| {
                let last: Option<String> = attempt.last_checkpoint()?;
                sees.lock().unwrap().push(format!("{last:?}"));
                match last {
                    Some(_) => Ok::<u32, StepError>(1),
                    None => {
                        attempt.checkpoint(&KEY)?;
                        while !attempt.is_given_up() {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        Err(StepError::from("given up"))
                    }
                }
            });
            async move { work.await }
        };
        dir.builder().redact(rules()).register("keeps", keeps)
    };
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit::<u32>("keeps", "keeps-1", &()).unwrap();
    wait_until(&mut runtime, || is_written(&dir, run.uuid(), "EffectCheckpoint"));
    drop(runtime);
    let mut runtime = program(&dir).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    assert_eq!(*seen.lock().unwrap(), ["None", "Some(\"[redacted]\")"]);
}

#[test]
fn every_error_of_a_rule_has_its_code_a_place_and_a_section_in_the_book() {
    let secret = "hunter2 is secret";
    let errors: Vec<RedactError> = [
        "field a..b",
        "hide x",
        "pattern (",
        "pattern a*",
        "value abc",
        "env TIFFANY_THAT_IS_NOT_SET",
    ]
    .iter()
    .map(|rule| Redactions::parse(&format!("# rules\n\n{rule}\nvalue {secret}")).unwrap_err())
    .collect();
    let codes: Vec<&str> = errors.iter().map(RedactError::code).collect();
    assert_eq!(codes, ["TFY0190", "TFY0190", "TFY0191", "TFY0191", "TFY0193", "TFY0193"]);
    assert!(codes.iter().all(|code| RedactError::CODES.contains(code)));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/redaction.md");
    let page = std::fs::read_to_string(page).unwrap();
    for error in &errors {
        let (text, mark) = (error.to_string(), format!(" [{}]; ", error.code()));
        assert_eq!(text.matches(&mark).count(), 1, "{text}");
        assert!(text.contains(" in line 3"), "{text}");
        let section = page.split("\n### ").find(|section| section.starts_with(error.code()));
        let section = section.unwrap_or_else(|| panic!("the book lacks {}", error.code()));
        for part in ["**What happened.** ", "**Why.** ", "**What to do.** "] {
            assert_eq!(section.matches(part).count(), 1, "{} has no {part}", error.code());
        }
    }
    // A rule with a typing error may have a secret behind it.
    let error = Redactions::parse(&format!("valeu {secret}")).unwrap_err().to_string();
    assert!(error.contains("valeu") && !error.contains("hunter2"), "{error}");
    let rules = Redactions::new().value(secret).unwrap();
    assert!(!format!("{rules:?}").contains("hunter2"), "{rules:?}");
}

#[test]
fn a_directory_in_the_place_of_the_note_about_redaction_is_named() {
    for rules in [Redactions::default(), rules()] {
        let dir = Dir::new();
        std::fs::create_dir_all(dir.0.join("redacted")).unwrap();
        let refused = dir.builder().redact(rules).build().map(drop).unwrap_err().to_string();
        assert!(
            refused.contains("redacted: it is a directory, not a regular file [TFY0255]"),
            "{refused}"
        );
    }
}
