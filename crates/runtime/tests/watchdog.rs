//! A task that never yields is reported, with its name, the line of its last call and for how long.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiffany::control::Request;
use tiffany::{Runtime, StuckTask, sleep, spawn, yield_now};

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn runtime_with_reports(patience: Duration) -> (Runtime, Arc<Mutex<Vec<StuckTask>>>) {
    let reports: Arc<Mutex<Vec<StuckTask>>> = Arc::default();
    let sink = Arc::clone(&reports);
    let runtime = Runtime::builder()
        .watchdog(Some(patience))
        .on_stuck(move |stuck| sink.lock().unwrap().push(stuck.clone()))
        .build()
        .unwrap();
    (runtime, reports)
}

#[test]
fn a_task_that_keeps_its_turn_is_reported_while_it_does() {
    let (mut runtime, reports) = runtime_with_reports(Duration::from_millis(80));
    let seen = Arc::clone(&reports);
    let line = line!() + 3;
    let reported_meanwhile = runtime.run(async move {
        let task = spawn(async move {
            yield_now().await;
            spin(Duration::from_millis(400));
            !seen.lock().unwrap().is_empty()
        })
        .name("spinner")
        .await;
        task.await.unwrap()
    });
    assert!(reported_meanwhile.unwrap(), "the report comes while the task still spins");
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 1, "once for each such turn: {reports:?}");
    let stuck = &reports[0];
    assert_eq!(stuck.name.as_deref(), Some("spinner"));
    assert_eq!(stuck.tid.0, 2);
    assert_eq!(stuck.last_call.as_ref().map(|site| site.line), Some(line));
    assert!(stuck.running_for >= Duration::from_millis(80));
    let text = stuck.to_string();
    assert!(
        text.contains("task 2 `spinner` (spawned at crates/runtime/tests/watchdog.rs:"),
        "{text}"
    );
    assert!(text.contains("has run for"), "{text}");
    assert!(text.contains("[TFY0030]"), "{text}");
}

#[test]
fn a_task_that_waits_is_not_reported() {
    let (mut runtime, reports) = runtime_with_reports(Duration::from_millis(30));
    runtime.run(async { sleep(Duration::from_millis(200)).await }).unwrap();
    assert!(reports.lock().unwrap().is_empty());
}

#[test]
fn many_short_turns_are_not_reported() {
    let (mut runtime, reports) = runtime_with_reports(Duration::from_millis(100));
    runtime
        .run(async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                spin(Duration::from_micros(200));
                yield_now().await;
            }
        })
        .unwrap();
    assert!(reports.lock().unwrap().is_empty());
}

#[test]
fn what_the_loop_does_itself_is_no_task_s_doing() {
    let (mut runtime, reports) = runtime_with_reports(Duration::from_millis(30));
    let handle = runtime.handle();
    runtime
        .run(async move {
            // Who asks is called back by the loop.
            handle.ask(Request::Status, |_| spin(Duration::from_millis(300)));
            sleep(Duration::from_millis(1)).await;
        })
        .unwrap();
    assert!(reports.lock().unwrap().is_empty(), "{reports:?}");
}

#[test]
fn the_last_long_turns_are_known_without_the_loop() {
    let (mut runtime, _) = runtime_with_reports(Duration::from_millis(50));
    let handle = runtime.handle();
    assert!(handle.long_turns().is_empty());
    let within = handle.clone();
    let seen = runtime.run(async move {
        yield_now().await;
        spin(Duration::from_millis(300));
        within.long_turns()
    });
    let [turn] = &seen.unwrap()[..] else { panic!("one turn is long") };
    assert!(!turn.is_over && turn.tid == 1 && turn.run.is_none(), "{turn:?}");
    assert!(turn.seconds > 0.05, "{turn:?}");
    for _ in 0..40 {
        runtime.run(async { spin(Duration::from_millis(120)) }).unwrap();
    }
    let turns = handle.long_turns();
    assert_eq!(turns.len(), 32, "no more are kept");
    assert!(turns.iter().all(|turn| turn.is_over), "{turns:?}");
}
