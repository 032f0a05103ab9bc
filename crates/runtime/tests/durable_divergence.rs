//! A program that was edited under a run that is not over: six usual edits, each told apart from the others; and
//! edits that break nothing.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiffany::durable::{patched, receive, step};
use tiffany::wal::Settings;
use tiffany::{
    Builder, RunError, Runtime, TaskError, get, now, put, sleep, sleep_secs, spawn, yield_now,
};

fn fresh(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tiffany-diverge-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn builder(dir: &Path) -> Builder {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    Runtime::builder().log_dir(dir).log_settings(settings)
}

async fn named(name: &'static str, input: u64) -> Result<u64, TaskError> {
    step(name, move || Ok::<u64, String>(input * 10)).input(&input).await
}

/// The program as it was: three steps and a sleep, and then it waits.
async fn as_it_was(_: ()) -> Result<u64, TaskError> {
    let a = named("reserve", 1).await?;
    let b = named("charge", 2).await?;
    sleep(Duration::from_millis(1)).await;
    let c = named("ship", 3).await?;
    let d: u64 = receive("go").await?;
    Ok(a + b + c + d)
}

/// Runs the program as it was until it waits, then goes on with another one under the same name.
fn edited<F, R>(name: &str, edit: F) -> Result<u64, RunError>
where
    F: Fn(()) -> R + 'static,
    R: Future<Output = Result<u64, TaskError>> + 'static,
{
    let dir = fresh(name);
    let mut runtime = builder(&dir).register("order", as_it_was).build()?;
    runtime.submit::<u64>("order", "order", &())?;
    runtime.run(async { sleep_secs(0.5).await })?;
    drop(runtime);
    let mut runtime = builder(&dir).register("order", edit).build()?;
    let run = runtime.submit::<u64>("order", "order", &())?;
    let sent = runtime.send(&run, "go", &4u64);
    let outcome = sent.and_then(|()| runtime.wait_for(&run));
    drop(runtime);
    // Nothing is lost: with the program as it was, the run goes on.
    let mut runtime = builder(&dir).register("order", as_it_was).build()?;
    let run = runtime.submit::<u64>("order", "order", &())?;
    if outcome.is_err() {
        runtime.send(&run, "go", &4u64)?;
    }
    assert_eq!(runtime.wait_for(&run)?, 64, "{name}");
    drop(runtime);
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    outcome
}

/// The error of a program that does not fit, and the likely cause it names.
fn cause<F, R>(name: &str, edit: F) -> (String, String)
where
    F: Fn(()) -> R + 'static,
    R: Future<Output = Result<u64, TaskError>> + 'static,
{
    let error = edited(name, edit).expect_err(name);
    assert_eq!(error.code(), "TFY0036", "{name}: {error}");
    let text = error.to_string();
    let from = text.find("likely ").expect("it names a cause");
    let to = text.find(" [TFY").expect("it has a code");
    (text[from + 7..to].to_owned(), text)
}

#[test]
fn six_edits_have_six_causes() {
    static DICE: AtomicU64 = AtomicU64::new(100);
    let causes = [
        cause("renamed", |()| async {
            let a = named("book", 1).await?;
            let b = named("charge", 2).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + b + c + receive::<u64>("go").await?)
        }),
        cause("reordered", |()| async {
            let b = named("charge", 2).await?;
            let a = named("reserve", 1).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + b + c + receive::<u64>("go").await?)
        }),
        cause("removed", |()| async {
            let a = named("reserve", 1).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + c + receive::<u64>("go").await?)
        }),
        cause("added", |()| async {
            let a = named("reserve", 1).await?;
            named("check", 7).await?;
            let b = named("charge", 2).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + b + c + receive::<u64>("go").await?)
        }),
        cause("argument", |()| async {
            let a = named("reserve", 1).await?;
            let b = named("charge", 5).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + b + c + receive::<u64>("go").await?)
        }),
        cause("random", |()| async {
            let a = named("reserve", 1).await?;
            let random = DICE.fetch_add(1, Ordering::Relaxed);
            let b = named("charge", random).await?;
            sleep(Duration::from_millis(1)).await;
            let c = named("ship", 3).await?;
            Ok(a + b + c + receive::<u64>("go").await?)
        }),
    ];
    let expected = [
        "the call was renamed",
        "calls changed places",
        "a call was removed",
        "a call was added",
        "the input of the call changed",
        "the code is not the same twice: it asks the time, a random source or the environment directly",
    ];
    for ((cause, text), expected) in causes.iter().zip(expected) {
        assert_eq!(cause, expected, "{text}");
    }
    assert_eq!(causes.iter().map(|(cause, _)| cause).collect::<BTreeSet<_>>().len(), 6);
    // Both calls with their lines, and the record.
    let (_, text) = &causes[0];
    assert!(text.contains("step `book`") && text.contains("step `reserve`"), "{text}");
    assert!(text.contains("record 2") && text.matches(file!()).count() == 2, "{text}");
}

#[test]
fn an_end_that_comes_too_early_or_too_late() {
    let (early, text) = cause("early", |()| async { named("reserve", 1).await });
    assert_eq!(early, "a call was removed", "{text}");
    let (other, text) = cause("other kind", |()| async {
        sleep(Duration::from_millis(5)).await;
        as_it_was(()).await
    });
    assert_eq!(other, "a call was added", "{text}");
    // When a sleep is over is another moment each time, and the code is the same all the same.
    let (sleeps, text) = cause("sleeps", |()| async {
        let a = named("reserve", 1).await?;
        let b = named("charge", 2).await?;
        sleep(Duration::from_millis(1)).await;
        let c = named("ship", 3).await?;
        // The log knows of no later time.
        sleep(Duration::from_secs(1)).await;
        let d: u64 = receive("go").await?;
        Ok(a + b + c + d)
    });
    assert_eq!(sleeps, "a call was added", "{text}");
}

#[test]
fn what_does_not_concern_the_world_may_change() {
    let outcome = edited("harmless", |()| async {
        let a = named("reserve", 1).await?;
        println!("a line more");
        yield_now().await;
        put("key", a).await;
        let b = named("charge", 2).await?;
        yield_now().await;
        assert_eq!(get::<u64>("key").await, Some(a));
        sleep(Duration::from_millis(1)).await;
        let c = named("ship", 3).await?;
        Ok(a + b + c + receive::<u64>("go").await?)
    });
    assert_eq!(outcome.expect("it goes on"), 64);
}

#[test]
fn what_comes_after_the_end_of_the_log_may_change() {
    let outcome = edited("after", |()| async {
        let a = named("reserve", 1).await?;
        let b = named("charge", 2).await?;
        sleep(Duration::from_millis(1)).await;
        let c = named("ship", 3).await?;
        let d: u64 = receive("go").await?;
        let e = named("thank", 0).await?;
        now().await;
        Ok(a + b + c + d + e)
    });
    assert_eq!(outcome.expect("it goes on"), 64);
}

/// Two changes of the program: what an old run does not know stays as it was, and what it comes to later is new.
async fn with_changes(_: ()) -> Result<u64, TaskError> {
    let a = named("reserve", 1).await?;
    if patched("check").await {
        named("check", 7).await?;
    }
    let b = named("charge", 2).await?;
    sleep(Duration::from_millis(1)).await;
    let c = named("ship", 3).await?;
    let d: u64 = receive("go").await?;
    let again = patched("check").await;
    let e = if patched("thank").await { named("thank", 0).await? + 1 } else { 0 };
    Ok(a + b + c + d + e + if again { 1000 } else { 0 })
}

#[test]
fn new_code_lives_with_old_runs() {
    let dir = fresh("patched");
    let mut runtime = builder(&dir).register("order", as_it_was).build().unwrap();
    runtime.submit::<u64>("order", "old", &()).unwrap();
    runtime.run(async { sleep_secs(0.5).await }).unwrap();
    drop(runtime);
    for _ in 0..3 {
        let mut runtime = builder(&dir).register("order", with_changes).build().unwrap();
        runtime.submit::<u64>("order", "new", &()).unwrap();
        runtime.run(async { sleep_secs(0.05).await }).unwrap();
    }
    let mut runtime = builder(&dir).register("order", with_changes).build().unwrap();
    for (id, outcome) in [("old", 65), ("new", 1065)] {
        let run = runtime.submit::<u64>("order", id, &()).unwrap();
        runtime.send(&run, "go", &4u64).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), outcome, "{id}");
    }
    drop(runtime);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A child that waits, as a daemon task or not.
async fn beside(is_daemon: bool) -> Result<u64, TaskError> {
    let child = spawn(sleep_secs(3600.0));
    drop(if is_daemon { child.daemon().await } else { child.await });
    receive("go").await
}

#[test]
fn a_task_that_becomes_a_daemon_task_is_another_call() {
    let dir = fresh("daemon");
    let start = |is_daemon| builder(&dir).register("order", move |()| beside(is_daemon)).build();
    for is_daemon in [false, true] {
        let id = format!("order-{is_daemon}");
        let mut runtime = start(is_daemon).unwrap();
        let run = runtime.submit::<u64>("order", &id, &()).unwrap();
        runtime.run(async { sleep_secs(0.05).await }).unwrap();
        drop(runtime);
        let mut runtime = start(!is_daemon).unwrap();
        let paused = runtime.paused();
        assert_eq!(paused.len(), 1, "{paused:?}");
        let text = paused[0].error.to_string();
        let words = ["an ordinary task", "a daemon task"];
        let (is, was) = (words[usize::from(!is_daemon)], words[usize::from(is_daemon)]);
        assert!(text.contains(&format!("it spawns {is}, and spawned {was}")), "{text}");
        assert_eq!(paused[0].error.code(), "TFY0036");
        runtime.cancel(&run).unwrap();
        drop(runtime);
        drop(start(is_daemon).map(|mut runtime| runtime.wait_for(&run)));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_paused_run_ends_when_it_is_cancelled_for_the_second_time() {
    for (restarts, function) in [(false, "order"), (true, "order"), (false, "gone")] {
        let dir = fresh("cancel-paused");
        let mut runtime = builder(&dir).register("order", |()| beside(false)).build().unwrap();
        let run = runtime.submit::<u64>("order", "order-1", &()).unwrap();
        runtime.run(async { sleep_secs(0.05).await }).unwrap();
        drop(runtime);
        let start = || builder(&dir).register(function, |()| beside(true)).build().unwrap();
        let mut runtime = start();
        assert_eq!(runtime.paused().len(), 1);
        runtime.cancel(&run).unwrap();
        assert_eq!(runtime.paused().len(), 1, "its tasks may clean up when it can be resumed");
        if restarts {
            runtime.flush().unwrap();
            drop(runtime);
            runtime = start();
            assert_eq!(runtime.paused().len(), 1);
        }
        runtime.cancel(&run).unwrap();
        assert_eq!(runtime.paused().len(), 0);
        let error = runtime.wait_for(&run).unwrap_err();
        assert_eq!(error.code(), "TFY0003", "{error}");
        runtime.remove(&run).unwrap();
        drop(runtime);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
