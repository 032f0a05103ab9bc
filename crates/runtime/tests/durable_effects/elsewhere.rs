//! Steps that are futures of another runtime, here tokio's.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, Spawner, step_async};
use tiffany::{ErrorKind, TaskError};

use super::{Dir, effects, ms};

fn tokio() -> (tokio::runtime::Runtime, Spawner) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let tokio = tokio.expect("it starts");
    let handle = tokio.handle().clone();
    (tokio, Spawner::new(move |future| drop(handle.spawn(future))))
}

#[test]
fn it_runs_there_and_is_written_down_here() {
    static THERE: OnceLock<Spawner> = OnceLock::new();
    static DONE: Mutex<Vec<String>> = Mutex::new(Vec::new());
    async fn work(_: ()) -> Result<String, TaskError> {
        let asks = step_async("ask", THERE.get().expect("it was set"), |attempt| async move {
            tokio::time::sleep(ms(2)).await;
            DONE.lock().unwrap().push(attempt.key().into());
            match attempt.number() {
                1 => Err("not yet"),
                number => Ok(format!("answer {number}")),
            }
        });
        asks.retry(Retry::times(3).first(ms(1))).await
    }
    let (_tokio, spawner) = tokio();
    assert!(THERE.set(spawner).is_ok());
    let dir = Dir::new();
    let mut runtime = dir.builder().register("work", work).build().unwrap();
    let run = runtime.submit::<String>("work", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "answer 2");
    drop(runtime);
    let keys = DONE.lock().unwrap().split_off(0);
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0].starts_with(&run.uuid().to_string()));
    assert_eq!(effects(&dir.log()), ["Start 1", "Failed 1", "Start 2", "Result"]);
    // Its result is there, so it is not done again.
    let cut = dir.cut_after(2, "EffectResult");
    let mut runtime = cut.builder().register("work", work).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "answer 2");
    assert!(DONE.lock().unwrap().is_empty());
}

#[test]
fn it_is_dropped_there_when_its_time_is_over_or_nobody_waits() {
    static DROPPED: AtomicU32 = AtomicU32::new(0);
    struct Notes;
    impl Drop for Notes {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (_tokio, spawner) = tokio();
    let for_ever = move || {
        step_async("for ever", &spawner, |_| async {
            let _notes = Notes;
            std::future::pending::<()>().await;
            Ok::<u32, String>(1)
        })
    };
    let error = tiffany::run(async move {
        let error = for_ever().timeout(ms(20)).await.unwrap_err();
        assert!(tiffany::timeout(ms(20), for_ever()).await.is_err());
        error
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::TimedOut);
    let began = Instant::now();
    while DROPPED.load(Ordering::SeqCst) < 2 && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(ms(1));
    }
    assert_eq!(DROPPED.load(Ordering::SeqCst), 2);
}

#[test]
fn a_runtime_that_goes_away_or_a_panic_there_is_an_error_here() {
    let (tokio, spawner) = tokio();
    let panics = spawner.clone();
    let error = tiffany::try_run(async move {
        step_async("panics", &panics, |_| async { panic!("oh") as Result<u32, String> }).await
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a step panicked at") && error.contains("oh"), "{error}");
    tokio.shutdown_background();
    let error = tiffany::run(async move {
        step_async("late", &spawner, |_| async { Ok::<u32, String>(1) }).await.unwrap_err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::Host);
    static ASKED: AtomicBool = AtomicBool::new(false);
    let broken = Spawner::new(|_| {
        ASKED.store(true, Ordering::SeqCst);
        panic!("no room");
    });
    let error = tiffany::run(async move {
        step_async("nowhere", &broken, |_| async { Ok::<u32, String>(1) }).await.unwrap_err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::Host);
    assert!(ASKED.load(Ordering::SeqCst));
}
