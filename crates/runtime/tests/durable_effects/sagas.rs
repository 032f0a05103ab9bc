//! Sagas: what was done is undone in reverse, whatever happens meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, SagaError, Step, saga, step, step_with};
use tiffany::{ErrorKind, RunError, Runtime, TaskError, kill_task, sleep, spawn, timeout};

use super::{Dir, ms};

/// What was done, in order.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// A step that is entered, and gives its name.
    fn step(&self, name: &'static str) -> Step<String> {
        let ledger = self.clone();
        step(name, move || {
            ledger.0.lock().unwrap().push(name.into());
            Ok::<_, String>(name.to_string())
        })
    }

    /// A step that undoes one, and says what that gave.
    fn undo(&self, done: String) -> Step<()> {
        let ledger = self.clone();
        step("undo", move || {
            ledger.0.lock().unwrap().push(format!("undo {done}"));
            Ok::<_, String>(())
        })
    }

    fn failing(&self, name: &'static str) -> Step<String> {
        let ledger = self.clone();
        step(name, move || {
            ledger.0.lock().unwrap().push(format!("{name} fails"));
            Err::<String, _>(format!("{name} failed"))
        })
    }
}

/// Does two things and fails at the third.
async fn trip(ledger: Ledger) -> Result<String, SagaError> {
    saga(async move |saga| {
        for name in ["flight", "hotel"] {
            let undo = ledger.clone();
            saga.step(ledger.step(name), move |done| undo.undo(done)).await?;
        }
        let undo = ledger.clone();
        saga.step(ledger.failing("car"), move |done| undo.undo(done)).await
    })
    .await
}

const TRIP: [&str; 5] = ["flight", "hotel", "car fails", "undo hotel", "undo flight"];

#[test]
fn what_was_done_is_undone_in_reverse() {
    let ledger = Ledger::default();
    let error = tiffany::run(trip(ledger.clone())).unwrap().unwrap_err();
    assert_eq!(ledger.take(), TRIP);
    assert_eq!(error.cause().message(), "car failed");
    assert_eq!(error.undone(), ["hotel", "flight"]);
    assert_eq!(
        TaskError::from(error).code(),
        "TFY0001",
        "all is undone: it is the body's own error"
    );
}

#[test]
fn every_call_of_a_saga_is_located_in_the_program() {
    let dir = Dir::new();
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let trip = move |(): ()| {
        let steps = steps.clone();
        async move { trip(steps).await.map_err(TaskError::from) }
    };
    let mut runtime = dir.builder().register("trip", trip).build().unwrap();
    let run = runtime.submit::<String>("trip", "t", &()).unwrap();
    runtime.wait_for(&run).unwrap_err();
    drop(runtime);
    assert_eq!(ledger.take(), TRIP);
    let log = dir.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("\"at\":\"")).collect();
    assert!(lines.len() > 6, "{log}");
    for line in lines {
        assert!(line.contains("\"at\":\"crates/runtime/tests/durable_effects/sagas.rs:"), "{line}");
    }
}

#[test]
fn what_goes_well_is_not_undone() {
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let done = tiffany::run(saga(async move |saga| {
        let undo = steps.clone();
        saga.step(steps.step("flight"), move |done| undo.undo(done)).await
    }));
    assert_eq!(done.unwrap().unwrap(), "flight");
    assert_eq!(ledger.take(), ["flight"]);
}

#[test]
fn an_undo_that_fails_is_reported_and_the_others_are_done() {
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let error = tiffany::run(saga(async move |saga| {
        for name in ["flight", "hotel", "car", "boat"] {
            let undo = steps.clone();
            saga.step(steps.step(name), move |done| match name {
                "hotel" => {
                    step_with("undo", |attempt| Err::<(), _>(format!("no {}", attempt.number())))
                        .retry(Retry::times(3).first(ms(1)))
                }
                "car" => panic!("no step for a {name}"),
                _ => undo.undo(done),
            })
            .await?;
        }
        saga.on_failure("a letter", move || steps.undo("a letter".into()));
        Err::<(), TaskError>(TaskError::failed("enough"))
    }));
    let error = error.unwrap().unwrap_err();
    let done = ["flight", "hotel", "car", "boat", "undo a letter", "undo boat", "undo flight"];
    assert_eq!(ledger.take(), done);
    assert_eq!(error.undone(), ["a letter", "boat", "flight"]);
    let not_undone: Vec<&str> = error.not_undone().iter().map(|(name, _)| *name).collect();
    assert_eq!(not_undone, ["car", "hotel"]);
    assert_eq!(error.not_undone()[1].1.message(), "no 3", "it was tried as its policy says");
    let error = TaskError::from(error);
    assert_eq!(error.kind(), ErrorKind::NotUndone);
    assert!(error.message().starts_with("enough; not undone: `car` ("), "{error}");
}

#[test]
fn an_undo_has_retries_without_a_policy() {
    let error = tiffany::run(saga(async |saga| {
        saga.step(step("do", || Ok::<_, String>(())), |()| {
            step_with("undo", |attempt| match attempt.number() {
                3 => Ok(()),
                _ => Err("not yet"),
            })
        })
        .await?;
        Err::<(), TaskError>(TaskError::failed("enough"))
    }));
    assert_eq!(error.unwrap().unwrap_err().undone(), ["do"]);
}

#[test]
fn a_body_that_panics_is_undone() {
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let error = tiffany::run(saga(async move |saga| {
        let undo = steps.clone();
        let _: String = saga.step(steps.step("flight"), move |done| undo.undo(done)).await?;
        if saga_goes_on() {
            panic!("no way");
        }
        Ok::<(), TaskError>(())
    }));
    let error = error.unwrap().unwrap_err();
    assert_eq!(error.cause().kind(), ErrorKind::Panicked);
    assert_eq!(error.undone(), ["flight"]);
    assert_eq!(ledger.take(), ["flight", "undo flight"]);
}

fn saga_goes_on() -> bool {
    true
}

#[test]
fn after_a_crash_it_goes_on_where_it_was() {
    let dir = Dir::new();
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let work = move |()| {
        let steps = steps.clone();
        async move { trip(steps).await.map_err(TaskError::from) }
    };
    let mut runtime = dir.builder().register("work", work.clone()).build().unwrap();
    let run = runtime.submit::<String>("work", "a", &()).unwrap();
    // Whether the car was booked in an attempt that was cut off, nobody knows.
    let fails = |outcome: Result<String, RunError>, cut_off: bool| {
        let error = outcome.unwrap_err().to_string();
        let code = if cut_off { "not undone: `car`" } else { "TFY0001" };
        assert!(error.contains("car failed") && error.contains(code), "{error}");
    };
    fails(runtime.wait_for(&run), false);
    drop(runtime);
    assert_eq!(ledger.take(), TRIP);
    let lines = dir.log().lines().count();
    let mut cut_in_the_middle_of_undoing = 0;
    for line in 1..lines {
        let cut = dir.cut_after(line, "\"seq\"");
        let car = dir.log().lines().position(|line| line.contains("\"name\":\"car\"")).unwrap() + 1;
        let cut_off = cut
            .log()
            .lines()
            .any(|line| line.contains("EffectStart") && line.contains(&format!("\"of\":{car},")));
        let is_over = cut
            .log()
            .lines()
            .any(|line| line.contains("EffectResult") && line.contains(&format!("\"of\":{car},")));
        let mut runtime = cut.builder().register("work", work.clone()).build().unwrap();
        fails(runtime.wait_for(&run), cut_off && !is_over);
        drop(runtime);
        // What the log has a result of is not done again, and the rest in the same order.
        let done = ledger.take();
        assert_eq!(done, TRIP[TRIP.len() - done.len()..], "cut after line {line}");
        let log = std::fs::read_to_string(cut.run_file()).unwrap();
        assert!(log.lines().count() >= lines, "cut after line {line}");
        cut_in_the_middle_of_undoing += usize::from(done.len() == 1);
    }
    assert!(cut_in_the_middle_of_undoing > 0);
}

/// Something that must not be done twice, which was cut off.
async fn delicate(choice: &'static str, ledger: Ledger) -> Result<String, SagaError> {
    saga(async move |saga| {
        let undo = ledger.clone();
        let _: String = saga.step(ledger.step("first"), move |done| undo.undo(done)).await?;
        let undo = ledger.clone();
        let pay = saga.step(ledger.step("pay").at_most_once(), move |done| undo.undo(done));
        let undo = ledger.clone();
        match choice {
            "undo" => pay.undo_in_doubt(move || undo.undo("perhaps".into())).await,
            _ => pay.await,
        }
    })
    .await
}

#[test]
fn what_is_in_doubt_is_undone_or_reported_as_one_likes() {
    for choice in ["undo", "report"] {
        let dir = Dir::new();
        let ledger = Ledger::default();
        let steps = ledger.clone();
        let work = move |()| {
            let steps = steps.clone();
            async move { delicate(choice, steps).await.map_err(TaskError::from) }
        };
        let mut runtime = dir.builder().register("work", work.clone()).build().unwrap();
        let run = runtime.submit::<String>("work", "a", &()).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), "pay");
        drop(runtime);
        assert_eq!(ledger.take(), ["first", "pay"]);
        let cut = dir.cut_after(2, "EffectStart");
        let mut runtime = cut.builder().register("work", work).build().unwrap();
        let error = runtime.wait_for(&run).unwrap_err().to_string();
        match choice {
            "undo" => {
                assert!(error.contains("TFY0040"), "{error}");
                assert_eq!(ledger.take(), ["undo perhaps", "undo first"]);
            }
            _ => {
                assert!(
                    error.contains("TFY0051") && error.contains("not undone: `pay`"),
                    "{error}"
                );
                assert_eq!(ledger.take(), ["undo first"]);
            }
        }
    }
}

/// Does two things and waits for a long time.
async fn long_trip(ledger: Ledger) -> Result<(), SagaError> {
    saga(async move |saga| {
        for name in ["flight", "hotel"] {
            let undo = ledger.clone();
            saga.step(ledger.step(name), move |done| undo.undo(done)).await?;
        }
        sleep(Duration::from_secs(3600)).await;
        Ok::<(), TaskError>(())
    })
    .await
}

const CANCELLED: [&str; 4] = ["flight", "hotel", "undo hotel", "undo flight"];

#[test]
fn a_waiter_that_is_cancelled_or_has_no_time_left_lets_it_be_undone() {
    let ledger = Ledger::default();
    let steps = ledger.clone();
    tiffany::run(async move {
        let late = timeout(ms(200), long_trip(steps.clone())).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
    })
    .unwrap();
    assert_eq!(ledger.take(), CANCELLED);
    let steps = ledger.clone();
    tiffany::run(async move {
        let waiter = spawn(long_trip(steps)).await;
        sleep(ms(200)).await;
        assert!(kill_task(waiter.tid()).await);
        assert_eq!(waiter.await.unwrap_err().kind(), ErrorKind::TaskCancelled);
    })
    .unwrap();
    assert_eq!(ledger.take(), CANCELLED);
}

#[test]
fn a_run_that_is_cancelled_is_undone_and_after_a_crash_it_goes_on_with_that() {
    let dir = Dir::new();
    let ledger = Ledger::default();
    let steps = ledger.clone();
    let work = move |()| {
        let steps = steps.clone();
        async move { long_trip(steps).await.map_err(TaskError::from) }
    };
    let mut runtime = dir.builder().register("work", work.clone()).build().unwrap();
    let run = runtime.submit::<()>("work", "a", &()).unwrap();
    let began = Instant::now();
    while ledger.0.lock().unwrap().len() < 2 && began.elapsed() < Duration::from_secs(10) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    runtime.run(sleep(ms(50))).unwrap();
    runtime.cancel(&run).unwrap();
    let error = runtime.wait_for(&run).unwrap_err().to_string();
    assert!(error.contains("TFY0003"), "{error}");
    drop(runtime);
    assert_eq!(ledger.take(), CANCELLED);
    let log = dir.log();
    let lines: Vec<&str> = log.lines().collect();
    let cancel = lines.iter().position(|line| line.contains("\"why\":\"cancel\"")).unwrap() + 1;
    assert!(lines.len() > cancel + 4, "{log}");
    for line in cancel..lines.len() {
        let cut = dir.cut_after(line, "\"seq\"");
        let mut runtime = cut.builder().register("work", work.clone()).build().unwrap();
        let again = runtime.wait_for(&run).unwrap_err().to_string();
        assert!(again.contains("TFY0003"), "cut after line {line}: {again}");
        let done = ledger.take();
        assert_eq!(done, CANCELLED[4 - done.len()..], "cut after line {line}");
    }
}

#[test]
fn a_step_that_is_cancelled_in_the_middle_is_in_doubt() {
    static LET_GO: AtomicBool = AtomicBool::new(false);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tells = Arc::clone(&told);
    let tell = move |error: &TaskError| tells.lock().unwrap().push(error.to_string());
    let mut runtime = Runtime::builder().on_unobserved(tell).build().unwrap();
    let ledger = Ledger::default();
    let steps = ledger.clone();
    runtime
        .run(async move {
            let slow = saga(async move |saga| {
                let undo = steps.clone();
                saga.step(steps.step("flight"), move |done| undo.undo(done)).await?;
                let hang = step("hang", || {
                    let began = Instant::now();
                    while !LET_GO.load(Ordering::SeqCst) && began.elapsed() < ms(20_000) {
                        std::thread::sleep(ms(1));
                    }
                    Ok::<_, String>("hung".to_string())
                });
                saga.step(hang, move |done| steps.undo(done)).await
            });
            assert!(timeout(ms(200), slow).await.is_err());
        })
        .unwrap();
    LET_GO.store(true, Ordering::SeqCst);
    assert_eq!(ledger.take(), ["flight", "undo flight"]);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("TFY0051") && told[0].contains("not undone: `hang`"), "{told:?}");
}

#[test]
fn a_cancel_while_it_is_undone_begins_anew_at_what_was_under_way() {
    static BEGUN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let ledger = Ledger::default();
    let steps = ledger.clone();
    tiffany::run(async move {
        let fails = saga(async move |saga| {
            let undo = steps.clone();
            saga.step(steps.step("flight"), move |done| undo.undo(done)).await?;
            saga.step(steps.step("hotel"), |_| {
                step("undo hotel", || {
                    let count = {
                        let mut begun = BEGUN.lock().unwrap();
                        let count = begun.len() as u64;
                        begun.push(count);
                        count
                    };
                    // The first time it takes so long that the waiter has no more time.
                    std::thread::sleep(ms(if count == 0 { 600 } else { 0 }));
                    Ok::<_, String>(())
                })
            })
            .await?;
            Err::<(), _>(TaskError::failed("enough"))
        });
        assert!(timeout(ms(200), fails).await.is_err());
    })
    .unwrap();
    assert_eq!(BEGUN.lock().unwrap().len(), 2);
    assert_eq!(ledger.take(), ["flight", "hotel", "undo flight"]);
}
