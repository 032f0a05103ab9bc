//! What is done about a step that a crash cut off.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tiffany::durable::{Retry, Step, external_promise, saga, step, step_with};
use tiffany::wal::Settings;
use tiffany::{Runtime, TaskError, sleep, timeout};

use super::{Dir, effects, ms};

fn seen(attempts: &'static Mutex<Vec<String>>) -> Step<u32> {
    step_with("send", move |attempt| {
        attempts.lock().unwrap().push(format!("{} {}", attempt.number(), attempt.key()));
        Ok::<u32, String>(7)
    })
}

#[test]
fn an_idempotent_step_is_done_again_with_its_key() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<u32, TaskError> {
        seen(&SEEN).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<u32>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    drop(runtime);
    let call = dir.log().lines().position(|line| line.contains(r#""call":"effect""#)).unwrap() + 1;
    let key = format!("{}/{call}", run.uuid());
    assert_eq!(SEEN.lock().unwrap().split_off(0), [format!("1 {key}")]);
    // Twice, so that the count goes on from a resumed run too.
    let once = dir.cut_after(1, "EffectStart");
    let mut runtime = once.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    drop(runtime);
    assert_eq!(SEEN.lock().unwrap().split_off(0), [format!("2 {key}")]);
    let twice = once.cut_after(2, "EffectStart");
    let mut runtime = twice.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    drop(runtime);
    assert_eq!(SEEN.lock().unwrap().split_off(0), [format!("3 {key}")]);
    assert_eq!(effects(&twice.log()), ["Start 1", "Start 2", "Start 3", "Result"]);
}

#[test]
fn an_at_most_once_step_that_was_cut_off_is_in_doubt() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<String, TaskError> {
        match seen(&SEEN).at_most_once().input(&"x").await {
            Ok(value) => Ok(format!("sent {value}")),
            Err(error) => Ok(error.to_string()),
        }
    }
    let build = |dir: &Dir| dir.builder().register("work", work).build().unwrap();
    let dir = Dir::new();
    let mut runtime = build(&dir);
    let run = runtime.submit::<String>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "sent 7");
    drop(runtime);
    let log = dir.log();
    assert!(log.contains(r#""about":{"kind":"at_most_once","input":"x"}"#), "{log}");
    assert_eq!(SEEN.lock().unwrap().split_off(0).len(), 1);

    let cut = dir.cut_after(1, "EffectStart");
    let mut runtime = build(&cut);
    let error = runtime.wait_for(&run).unwrap();
    drop(runtime);
    let begins = "task 1 (spawned at ";
    assert!(error.starts_with(begins), "{error}");
    let says = "the process ended while attempt 1 was running, in `send` at ";
    assert!(error.contains(says) && error.contains("[TFY0040]; find out whether"), "{error}");
    assert!(SEEN.lock().unwrap().is_empty(), "it was done again");
    assert_eq!(effects(&cut.log()), ["Start 1", "Result"]);
    // What the task was told stands, whenever the next crash comes.
    let later = cut.cut_after(1, "EffectResult");
    let mut runtime = build(&later);
    assert_eq!(runtime.wait_for(&run).unwrap(), error);
    drop(runtime);

    // It had not begun: there is no doubt.
    let before = dir.cut_after(1, r#""call":"effect""#);
    let mut runtime = before.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "sent 7");
    assert_eq!(SEEN.lock().unwrap().split_off(0).len(), 1);
}

#[test]
fn a_step_that_was_given_up_before_the_crash_is_neither_begun_nor_in_doubt() {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    async fn work(_: ()) -> Result<u32, TaskError> {
        let slow = step("slow", || {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            // Longer than the task waits, which is long enough for it to begin.
            std::thread::sleep(ms(800));
            Ok::<u32, String>(1)
        });
        let given_up = timeout(ms(400), slow.at_most_once()).await;
        assert!(given_up.is_err());
        step("quick", || Ok::<u32, String>(2)).await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<u32>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    drop(runtime);
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1);
    let cut = dir.cut_after(2, "EffectStart");
    let mut runtime = cut.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 2);
    drop(runtime);
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1, "it was done again though nobody wants it");
    assert_eq!(effects(&cut.log()), ["Start 1", "Start 1", "Start 2", "Result"]);
}

#[test]
fn a_pure_step_does_not_wait_for_the_disk() {
    /// Whether the commit log has the beginning of a step.
    fn is_safe(dir: &str) -> Result<bool, std::io::Error> {
        let mut safe = false;
        for file in std::fs::read_dir(std::path::Path::new(dir).join("commit"))? {
            let bytes = std::fs::read(file?.path())?;
            safe |= bytes.windows(11).any(|part| part == b"EffectStart");
        }
        Ok(safe)
    }
    async fn work(dir: String) -> Result<(bool, bool), TaskError> {
        let other = dir.clone();
        let pure = step("pure", move || is_safe(&dir)).pure().await?;
        let usual = step("usual", move || is_safe(&other)).await?;
        Ok((pure, usual))
    }
    let dir = Dir::new();
    // The log thread takes its time before it writes.
    let settings =
        Settings { segment_bytes: 1 << 18, batch_window: ms(400), ..Settings::default() };
    let builder = Runtime::builder().log_dir(&dir.0).log_settings(settings);
    let mut runtime = builder.register("work", work).build().unwrap();
    let run = runtime.submit::<(bool, bool)>("work", "a", &dir.0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), (false, true));
    drop(runtime);
    let log = dir.log();
    assert!(log.contains(r#""name":"pure","about":{"kind":"pure"}"#), "{log}");
    assert_eq!(effects(&log), ["Start 1", "Result", "Start 1", "Result"]);
}

#[test]
fn at_most_once_and_a_retry_policy_do_not_go_together() {
    let error = tiffany::try_run(async {
        step("send", || Ok::<u32, String>(1)).at_most_once().retry(Retry::times(2)).await
    });
    assert_eq!(error.unwrap_err().code(), "TFY0032");
}

#[test]
fn an_at_most_once_step_is_not_tried_again_after_an_error() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let error = tiffany::try_run(async {
        let failing = step("send", || {
            DONE.fetch_add(1, Ordering::SeqCst);
            Err::<u32, _>("no")
        });
        let result = failing.at_most_once().await;
        sleep(ms(1)).await;
        result
    });
    assert_eq!(error.unwrap_err().code(), "TFY0001");
    assert_eq!(DONE.load(Ordering::SeqCst), 1);
}

#[test]
fn a_large_input_is_compared_by_what_it_is() {
    async fn work(_: ()) -> Result<usize, TaskError> {
        let text = "x".repeat(100_000);
        let length = text.len();
        let measured = step("measure", move || Ok::<usize, String>(length)).input(&text).await?;
        Ok(measured)
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<usize>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 100_000);
    drop(runtime);
    let cut = dir.cut_after(1, "EffectStart");
    std::fs::rename(dir.0.join("wal/blobs"), cut.0.join("wal/blobs")).unwrap();
    let mut runtime = cut.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 100_000);
}

/// A process that ends in good order knows which steps have not begun; these are not in doubt.
#[test]
fn a_step_that_had_not_begun_when_the_process_ended_is_not_in_doubt() {
    static SENT: AtomicU32 = AtomicU32::new(0);
    async fn slow(_: ()) -> Result<(), TaskError> {
        step("slow", || {
            std::thread::sleep(ms(300));
            Ok::<(), String>(())
        })
        .await
    }
    async fn mail(_: ()) -> Result<u32, TaskError> {
        step("mail", || Ok::<u32, String>(SENT.fetch_add(1, Ordering::SeqCst))).at_most_once().await
    }
    let dir = Dir::new();
    let build = || {
        let builder = dir.builder().step_slots(1);
        builder.register("slow", slow).register("mail", mail).build().unwrap()
    };
    let mut runtime = build();
    runtime.submit::<()>("slow", "slow", &()).unwrap();
    runtime.run(sleep(ms(50))).unwrap();
    // There is one slot, and it is taken.
    let run = runtime.submit::<u32>("mail", "mail", &()).unwrap();
    runtime.run(sleep(ms(50))).unwrap();
    drop(runtime);
    assert_eq!(SENT.load(Ordering::SeqCst), 0);
    let mut runtime = build();
    assert_eq!(runtime.wait_for(&run).unwrap(), 0);
    assert_eq!(SENT.load(Ordering::SeqCst), 1);
}

/// An attempt that a crash cut off may have been done: if the next one fails, the saga asks what to do then.
#[test]
fn a_saga_does_not_forget_an_attempt_that_was_cut_off() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<Vec<String>, TaskError> {
        let error = saga(async |saga| {
            let charge = step_with("charge", |attempt| match attempt.number() {
                1 => Ok(1),
                _ => Err("the service is down"),
            });
            let note = |what: &'static str| {
                step("undo", move || {
                    SEEN.lock().unwrap().push(what.into());
                    Ok::<(), String>(())
                })
            };
            saga.step(charge, move |_| note("refund"))
                .undo_in_doubt(move || note("if charged"))
                .await?;
            Err::<(), _>(TaskError::failed("no"))
        });
        let error = error.await.unwrap_err();
        Ok(error.undone().iter().map(|name| name.to_string()).collect())
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<Vec<String>>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["charge"]);
    drop(runtime);
    assert_eq!(SEEN.lock().unwrap().split_off(0), ["refund"]);
    let cut = dir.cut_after(1, "EffectStart");
    let mut runtime = cut.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["charge"]);
    assert_eq!(SEEN.lock().unwrap().split_off(0), ["if charged"]);
}

/// The text of an error is the same in a run that is brought back, so that it can be used like any other value.
#[test]
fn the_text_of_an_error_is_the_same_after_a_restart() {
    async fn work(_: ()) -> Result<String, TaskError> {
        let failed = step("fetch", || Err::<u32, String>("404".into())).await.unwrap_err();
        let text = failed.to_string();
        step("notify", || Ok::<(), String>(())).input(&text).await?;
        Ok(text)
    }
    let dir = Dir::new();
    // Registered at one line: that is where its runs come from.
    let build = |dir: &Dir| dir.builder().register("work", work).build().unwrap();
    let mut runtime = build(&dir);
    let run = runtime.submit::<String>("work", "a", &()).unwrap();
    let text = runtime.wait_for(&run).unwrap();
    drop(runtime);
    let cut = dir.cut_after(2, "EffectStart");
    let mut runtime = build(&cut);
    assert_eq!(runtime.wait_for(&run).unwrap(), text);
}

/// Numbers come back as they were, and what JSON does not have is refused where it is made.
#[test]
fn numbers_come_back_as_they_were() {
    async fn work(_: ()) -> Result<bool, TaskError> {
        let make = || (0..2000).map(|n| f64::from(n) / 100.0 * 1.19).collect::<Vec<f64>>();
        let back: Vec<f64> = step("numbers", move || Ok::<_, String>(make())).await?;
        let strange: Result<(u8, Option<f64>), _> =
            step("strange", || Ok::<_, String>((1, Some(f64::INFINITY)))).await;
        let error = strange.unwrap_err();
        assert_eq!(error.code(), "TFY0034", "{error}");
        assert!(error.message().contains("at `[1]`"), "{error}");
        let nothing: Option<f64> = step("nothing", || Ok::<_, String>(None)).await?;
        Ok(back == make() && nothing.is_none())
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<bool>("work", "a", &()).unwrap();
    assert!(runtime.wait_for(&run).unwrap());
}

/// A result that is not one JSON value never reaches the log.
#[test]
fn what_is_no_json_is_no_result() {
    for bad in ["1 2", "7,\"evil\":3", "7}\0", ""] {
        let dir = Dir::new();
        let mut runtime = dir
            .builder()
            .register("work", move |()| async move {
                tiffany::durable::step_transactional::<u32, _>("sell", move |_| Ok(bad.into()))
                    .await
            })
            .build()
            .unwrap();
        let run = runtime.submit::<u32>("work", "a", &()).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap_err().code(), "TFY0035", "{bad:?}");
        drop(runtime);
        assert!(!dir.log().contains("evil"));
    }
}

/// The threat: a run's file is all there is of its log, and one bit of it is another.
#[test]
fn an_at_most_once_step_is_not_done_again_because_of_a_flipped_bit() {
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<u32, TaskError> {
        let sent = seen(&SEEN).at_most_once().await?;
        external_promise::<u32>().await.wait().await.map(|more| sent + more)
    }
    let build = |dir: &Dir| {
        let settings = Settings { segment_bytes: 4096, ..Settings::default() };
        dir.builder().log_settings(settings).register("work", work).build().unwrap()
    };
    let dir = Dir::new();
    let mut runtime = build(&dir);
    runtime.submit::<u32>("work", "a", &()).unwrap();
    while SEEN.lock().unwrap().is_empty() {
        runtime.run(async { sleep(ms(1)).await }).unwrap();
    }
    runtime.run(async { sleep(ms(5)).await }).unwrap();
    drop(runtime);
    let log = dir.log();
    assert_eq!(effects(&log), ["Start 1", "Result"]);
    for at in (0..log.len()).step_by(67).chain(log.match_indices('\n').map(|(at, _)| at)) {
        let mut changed = log.clone().into_bytes();
        changed[at] ^= 1 << (at % 8);
        let alone = dir.with_log("");
        std::fs::write(alone.run_file(), &changed).unwrap();
        let mut runtime = build(&alone);
        // It may be refused, or wait for what it waited for.
        let _ = runtime.submit::<u32>("work", "a", &());
        runtime.run(async { sleep(ms(1)).await }).unwrap();
        drop(runtime);
        assert_eq!(SEEN.lock().unwrap().len(), 1, "byte {at}: it was done again");
        assert_eq!(std::fs::read(alone.run_file()).unwrap(), changed, "byte {at}");
    }
}
