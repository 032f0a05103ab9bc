//! The program with the secrets. Its first process is killed by itself in the middle of a step; the second goes on, forks, decides and asks; the third compacts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiffany::control::{Control, Decision};
use tiffany::durable::{
    DurableAgent, Fork, Retry, StepError, continue_as, external_promise, on_question, receive,
    run_id, send, step, step_with,
};
use tiffany::logging::{Format, Level, init};
use tiffany::pal::{self, Detail, LogLevel, Stage, Told, Wanted};
use tiffany::wal::{RecordType, RunReader, Settings};
use tiffany::{
    Builder, Runtime, SystemCall, TaskContext, TaskError, TaskStatus, named, put, spawn, try_spawn,
};

use super::secrets::{rules, secret};

pub(crate) const DIR: &str = "TIFFANY_REDACTION_DIR";
pub(crate) const FORMAT: &str = "TIFFANY_REDACTION_FORMAT";
/// Which rules are left out: all, or none.
pub(crate) const WITHOUT: &str = "TIFFANY_REDACTION_WITHOUT";

fn dir() -> PathBuf {
    std::env::var(DIR).expect("the test says it").into()
}

/// A file beside the log that says that something was done.
fn is_done(what: &str) -> bool {
    let mark = dir().with_extension(what);
    let is_there = mark.exists();
    std::fs::write(mark, "").expect("it can be written");
    is_there
}

#[derive(Serialize, Deserialize)]
struct Order {
    token: String,
    password: String,
    card: u64,
    quoted: String,
}

async fn shop(order: Order) -> Result<Value, TaskError> {
    // A first life has the real values, and a later one what stands for them.
    let is_first = order.password == secret("input_field");
    assert_eq!(is_first, order.token == secret("input"));
    assert_eq!(is_first, order.card == 4242000000004242);
    assert_eq!(is_first, order.quoted == secret("quoted"));
    assert_eq!(is_first || WITHOUT_RULES.with(|without| *without), order.password != "[redacted]");
    let token = order.token.clone();
    let answers = move |()| Ok::<_, TaskError>(json!({"is": token, "more": secret("answer")}));
    let _answering = on_question("token", answers)?;

    put(&secret("store_key"), secret("store_value")).await;
    put("value", json!({"password": secret("store_value")})).await;
    let given = step("charge", || Ok::<_, String>(json!({"id": secret("step_result")})));
    let given = given.input(&(order.card, secret("step_argument"))).await?;
    if is_first {
        assert_eq!(given["id"], json!(secret("step_result")));
    }
    let failing = step_with("flaky", |attempt| match attempt.number() {
        1 => Err(StepError::from(secret("step_error"))),
        _ => {
            attempt.log(LogLevel::Warn, secret("pal_step"));
            attempt.checkpoint(&json!({"part": secret("checkpoint")}))?;
            Ok(7)
        }
    });
    failing.retry(Retry::times(3).first(Duration::from_millis(1))).await?;
    let name: &'static str = Box::leak(format!("call {}", secret("step_name")).into_boxed_str());
    step(name, || Ok::<_, String>(1)).await?;
    let panics =
        step("panics", || -> Result<u32, String> { panic!("{}", secret("panic_of_step")) });
    assert!(panics.await.is_err());

    let child = spawn(named(secret("label"), async { panic!("{}", secret("panic_of_task")) }));
    let child: tiffany::Task<()> = child.name(secret("task_name")).await;
    assert!(child.await.is_err());
    let fails = try_spawn(async { Err::<(), String>(secret("task_error")) });
    assert!(fails.name(secret("member_name")).await.await.is_err());
    // Nobody waits for this one.
    drop(try_spawn(async { Err::<(), String>(secret("unobserved")) }).await);

    let large = |place: &str| json!([vec!["padding"; 20_000], secret(place)]);
    let field = json!({"password": secret("blob_field")});
    let blob = step("large", move || Ok::<_, String>(large("blob_result")));
    let blob = blob.input(&(large("blob_argument"), field)).await?;
    assert!(!is_first || blob[1] == json!(secret("blob_result")));

    let promise = external_promise::<String>().await;
    let uuid = promise.uuid().to_string();
    let told = step("tell", move || std::fs::write(dir().with_extension("promise"), &uuid));
    told.await?;
    let settled = promise.wait().await?;
    assert!(!is_first || settled == secret("promise"));
    let refused = external_promise::<String>().await;
    let uuid = refused.uuid().to_string();
    step("tell", move || std::fs::write(dir().with_extension("refused"), &uuid)).await?;
    assert!(refused.wait().await.is_err());
    let message: String = receive("order").await?;
    assert!(!is_first || [secret("message"), secret("fork_reply")].contains(&message));
    send(run_id("sink-1"), "more", &json!({"key": secret("message_sent")})).await?;

    show_something().await;
    log_something();
    step("crash", crash).await?;

    Ok(json!({"token": order.token, "more": secret("output")}))
}

thread_local! {
    static WITHOUT_RULES: bool = std::env::var(WITHOUT).is_ok_and(|without| without == "all");
}

/// Events, which those who watch see and nobody writes down.
async fn show_something() {
    pal::log(LogLevel::Info, format!("uses {}", secret("pal_log"))).await;
    pal::progress(1, 2, secret("pal_progress")).await;
    pal::output(secret("pal_stream"), secret("pal_output")).await;
    pal::stage(Stage::WaitingForLLM, secret("pal_stage")).await;
}

/// Shows all events as JSON, until the process ends.
fn watch(runtime: &Runtime) {
    let mut events = runtime.activity().subscribe(Wanted::new().detail(Detail::All));
    std::thread::spawn(move || {
        while let Some(told) = events.next() {
            if let Told::Event(event) = told {
                println!("{}", serde_json::to_string(&*event).expect("it can be written"));
            }
        }
    });
}

fn log_something() {
    let span = tracing::info_span!("paying", key = secret("log_span"));
    let _in_span = span.enter();
    tracing::info!(password = secret("log_field"), "with {}", secret("log_line"));
    tracing::warn!(order = ?json!({"key": secret("log_debug")}), "shown");
}

/// Ends the process as the system does, once.
fn crash() -> Result<u32, String> {
    if !is_done("crashed") {
        while !dir().with_extension("begun").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("it may");
        std::thread::sleep(Duration::from_secs(60));
    }
    Ok(1)
}

/// Its step is cut off when the process ends.
async fn doubts((): ()) -> Result<String, TaskError> {
    let work = || -> Result<String, String> {
        is_done("begun");
        std::thread::sleep(Duration::from_secs(60));
        Err("nobody waits so long".into())
    };
    step("doubtful", work).at_most_once().hold_in_doubt().await
}

/// Takes what the run sends, and what its fork does.
async fn sink((): ()) -> Result<u32, TaskError> {
    let _: Value = receive("more").await?;
    let _: Value = receive("more").await?;
    Ok(2)
}

/// Waits, with a message that nobody takes.
async fn waits((): ()) -> Result<u32, TaskError> {
    receive("never").await
}

async fn fails((): ()) -> Result<u32, TaskError> {
    Err(TaskError::failed(secret("run_error")))
}

async fn anew(round: (u32, String)) -> Result<u32, TaskError> {
    match round.0 {
        0 => continue_as(&(1, secret("continued"))).await,
        _ => {
            step("last", || Ok::<_, String>(1)).await?;
            Ok(round.0)
        }
    }
}

pub(crate) async fn small(token: String) -> Result<String, TaskError> {
    step("pass", || Ok::<_, String>(secret("step_result"))).input(&token).await
}

/// A state machine that keeps a secret, and waits.
#[derive(Serialize, Deserialize)]
struct Machine {
    key: String,
    at: u32,
}

impl DurableAgent for Machine {
    const NAME: &'static str = "machine";
    type Output = String;

    fn wants(&self) -> TaskStatus<String> {
        let password = json!({"password": secret("machine_store")});
        match self.at {
            0 => TaskStatus::Waiting(SystemCall::Put("password".into(), written(&password))),
            1 => TaskStatus::receive_message("go"),
            _ => TaskStatus::Completed(self.key.clone()),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        match self.at {
            0 => ctx.done()?,
            _ => drop(ctx.written::<Value>()?),
        }
        self.at += 1;
        Ok(())
    }
}

fn written(value: &Value) -> tiffany::Value {
    tiffany::Value::Str(value["password"].as_str().unwrap_or_default().into())
}

fn program() -> Builder {
    let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
    let builder = Runtime::builder()
        .log_dir(dir())
        .log_settings(settings)
        .register("shop", shop)
        .register("sink", sink)
        .register("doubts", doubts)
        .register("waits", waits)
        .register("fails", fails)
        .register("anew", anew)
        .register("small", small)
        .register_agent("machine", |key: String| Machine { key, at: 0 });
    match WITHOUT_RULES.with(|without| *without) {
        true => builder,
        false => builder.redact(rules()),
    }
}

pub(crate) fn play(part: &str) {
    let format = match std::env::var(FORMAT).as_deref() {
        Ok("json") => Format::Json,
        _ => Format::Text,
    };
    assert!(init(format, Level::TRACE));
    match part {
        "first" => first(),
        "second" => second(),
        _ => third(),
    }
}

/// Everything from other threads and from the outside, until the run ends the process.
fn first() {
    let mut runtime = program().build().expect("the log opens");
    watch(&runtime);
    let order = Order {
        token: secret("input"),
        password: secret("input_field"),
        card: 4242000000004242,
        quoted: secret("quoted"),
    };
    runtime.submit::<u32>("sink", "sink-1", &()).expect("it starts");
    runtime.submit::<String>("doubts", "doubts-1", &()).expect("it starts");
    let waits = runtime.submit::<u32>("waits", "waits-1", &()).expect("it starts");
    runtime.send(&waits, "later", &secret("message_waiting")).expect("it is sent");
    let machine = runtime.submit::<String>("machine", "machine-1", &secret("machine_state"));
    let machine = machine.expect("it starts");
    runtime.snapshot(&machine).expect("it is taken");
    let fails = runtime.submit::<u32>("fails", "fails-1", &()).expect("it starts");
    println!("{}", runtime.wait_for(&fails).expect_err("it fails"));
    let anew = runtime.submit::<u32>("anew", "anew-1", &(0, "")).expect("it starts");
    assert_eq!(runtime.wait_for(&anew).expect("it ends"), 1);
    let small = runtime.submit::<String>("small", "small-1", &secret("input"));
    assert_eq!(
        runtime.wait_for(&small.expect("it starts")).expect("it ends"),
        secret("step_result")
    );
    let run = runtime.submit::<Value>("shop", "shop-1", &order).expect("it starts");
    let other = std::thread::spawn(outside);
    drop(runtime.wait_for(&run));
    other.join().expect("it does not panic");
    panic!("this process was to be killed");
}

/// What other processes do meanwhile.
fn outside() {
    let mut control = Control::connect(&dir()).expect("it may").expect("it listens");
    let settled = control.settle(promise_in("promise"), &secret("promise"));
    settled.expect("it is there");
    control.fail(promise_in("refused"), secret("promise_error")).expect("it is there");
    let run = run_id("shop-1");
    // The answer is for others, and so is without secrets.
    let answer: Value = control.question(run, "token", &()).expect("it answers");
    println!("{answer}");
    control.send(run, "order", &secret("message")).expect("it is there");
}

fn promise_in(file: &str) -> tiffany::Uuid {
    let path = dir().with_extension(file);
    for _ in 0..3000 {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some(uuid) = tiffany::Uuid::parse(&text) {
            return uuid;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no promise in {}", path.display());
}

/// The run goes on with what the log has, and its forks too.
fn second() {
    let mut runtime = program().build().expect("the log opens");
    let paused = runtime.paused();
    assert!(paused.is_empty(), "{paused:?}");
    let run = runtime.submit::<Value>(
        "shop",
        "shop-1",
        &Order {
            token: secret("input"),
            password: secret("input_field"),
            card: 4242000000004242,
            quoted: secret("quoted"),
        },
    );
    let run = run.expect("it is the same run");
    let machine = runtime.submit::<String>("machine", "machine-1", &secret("machine_state"));
    let machine = machine.expect("it is the same run");
    runtime.send(&machine, "go", &()).expect("it goes on");
    println!("{}", runtime.wait_for(&machine).expect("it ends"));

    let at = record_of(RecordType::Message);
    let fork = Fork::new().set_reply(&secret("fork_reply")).expect("it can be written");
    let fork = runtime.fork(&run, at, fork.id("fork-1").allow("*"));
    let doubt = runtime.doubts().pop().expect("a step was cut off");
    let decision = Decision::done(&secret("decided")).expect("it can be written");
    runtime.decide(&doubt.key, decision).expect("it is in doubt");
    let doubts = runtime.submit::<String>("doubts", "doubts-1", &()).expect("it is known");
    assert_eq!(runtime.wait_for(&doubts).expect("it ends"), secret("decided"));
    let fork = fork.expect("it is there");
    runtime.wait_for(&fork).expect("it ends");
    let outcome = runtime.wait_for(&run).expect("it ends");
    assert_eq!(outcome["more"], json!(secret("output")));
    drop(runtime);
    std::panic::catch_unwind(|| panic!("outside of all tasks: {}", secret("said_error")))
        .expect_err("it panics");
}

/// The number of the last record of this type in the run's log.
fn record_of(kind: RecordType) -> u64 {
    let disk = tiffany::wal::RealDisk;
    let mut reader = RunReader::open(&disk, &dir(), run_id("shop-1"), None).expect("it is there");
    let mut last = 0;
    while let Some(record) = reader.next() {
        let record = record.expect("it is whole");
        if record.record_type() == Some(kind) {
            last = record.seq;
        }
    }
    last
}

/// Runs that are over are compacted, which writes what is left of them again.
fn third() {
    let mut runtime = program().build().expect("the log opens");
    let run = runtime.submit::<u32>("fails", "fails-1", &()).expect("it is known");
    println!("{}", runtime.wait_for(&run).expect_err("it failed"));
    runtime.compact(&run).expect("it is over");
}
