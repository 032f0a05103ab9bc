//! Deadlines: a run that has not ended at its deadline fails, with its cleanup; also after a restart, and when it is held.

use std::time::Duration;

use crate::durable_kit::{Dir, ms, recording};
use serde_json::Value;
use tiffany::control::{Control, RunQuery, State, parse_moment};
use tiffany::durable::{
    DurableRun, Fork, RunLimits, StartOptions, continue_as, receive, run_id, step,
};
use tiffany::{Builder, RunError, Runtime, TaskError, Time, sleep, try_spawn};

/// Waits for ever, beside a task that does so too, and records that it cleans up.
async fn waits(_: ()) -> Result<u32, TaskError> {
    step("begin", || Ok::<_, String>(())).await?;
    let child = try_spawn(async { receive::<u32>("never").await });
    drop(child.await);
    receive("word").await
}

async fn rounds(round: u32) -> Result<u32, TaskError> {
    let word: u32 = receive("word").await?;
    continue_as(&(round + word)).await
}

async fn spins(_: ()) -> Result<u32, TaskError> {
    loop {
        for _ in 0..500 {
            let _ = tiffany::random().await;
        }
        sleep(ms(1)).await;
    }
}

fn program(dir: &Dir) -> Builder {
    dir.builder().register("waits", waits).register("rounds", rounds).register("spins", spins)
}

fn within(time: Duration) -> StartOptions {
    StartOptions::new().deadline_in(time)
}

#[track_caller]
fn is_past_deadline<T: std::fmt::Debug>(outcome: Result<T, RunError>, deadline: &str) {
    let error = outcome.unwrap_err();
    let error = error.task_error().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(error.code(), "TFY0271", "{error}");
    assert!(error.message().contains(deadline), "{error} does not name {deadline}");
    assert!(error.to_string().contains("with a later deadline"), "{error}");
}

fn lines(dir: &Dir) -> Vec<Value> {
    dir.log().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn summary(runtime: &mut Runtime) -> tiffany::control::RunSummary {
    runtime.runs(&RunQuery::default()).unwrap().runs.remove(0)
}

#[test]
fn a_run_that_has_not_ended_fails_and_says_when_that_was() {
    for is_outward in [false, true] {
        let dir = Dir::new();
        let start = || recording(program(&dir), is_outward).build().unwrap();
        let mut runtime = start();
        let run = runtime.submit_with::<u32>("waits", "w", &(), &within(ms(60))).unwrap();
        let deadline = summary(&mut runtime).deadline.unwrap();
        is_past_deadline(runtime.wait_for(&run), &deadline);
        assert_eq!(summary(&mut runtime).state, State::Failed);
        drop(runtime);
        let lines = lines(&dir);
        assert_eq!(
            (&lines[0]["deadline"], &lines[0]["v"]),
            (&Value::from(&*deadline), &Value::from(2))
        );
        let (began, at) = (lines[0]["ts"].as_str().unwrap(), parse_moment(&deadline).unwrap());
        let began = parse_moment(&began[..began.len() - 1]).or(parse_moment(began));
        let began = began.unwrap_or_else(|| {
            Time::from_nanos(
                tiffany::wal::Stamp::parse(lines[0]["ts"].as_str().unwrap()).unwrap().unix_nanos(),
            )
        });
        assert_eq!(at, began.checked_add(ms(60)).unwrap(), "counted from the recorded start");
        let wake = lines.iter().find(|line| line["why"] == "deadline").unwrap();
        assert!(wake["ts"].as_str().unwrap() >= deadline.as_str());
        // Every task was cancelled, and the run failed.
        let ends: Vec<_> = lines
            .iter()
            .filter(|line| {
                ["TaskCancel", "TaskAbort", "TaskExit"].contains(&line["type"].as_str().unwrap())
            })
            .map(|line| (line["tid"].as_u64().unwrap(), line["type"].as_str().unwrap()))
            .collect();
        assert_eq!(ends.last(), Some(&(1, "TaskAbort")));
        assert!(ends.contains(&(1, "TaskCancel")) && ends.contains(&(2, "TaskCancel")), "{ends:?}");
        let mut runtime = start();
        is_past_deadline(runtime.wait_for(&run), &deadline);
        assert_eq!(summary(&mut runtime).error.unwrap().code, "TFY0271");
    }
}

#[test]
fn a_run_that_ends_in_time_has_nothing_to_do_with_it() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run =
        runtime.submit_with::<u32>("waits", "w", &(), &within(Duration::from_secs(3600))).unwrap();
    runtime.send(&run, "word", &3).unwrap();
    runtime.run(sleep(ms(20))).unwrap();
    runtime.send(&run, "never", &1).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 3);
    drop(runtime);
    assert_eq!(dir.count("deadline\",\"step"), 0);
}

#[test]
fn it_counts_while_no_process_runs() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<u32>("waits", "w", &(), &within(ms(80))).unwrap();
    runtime.run(sleep(ms(10))).unwrap();
    let deadline = summary(&mut runtime).deadline.unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    let offline = Control::open(&dir.0).unwrap().runs(&RunQuery::default()).unwrap();
    assert_eq!(offline.runs[0].deadline.as_deref(), Some(&*deadline));
    std::thread::sleep(ms(100));
    let mut runtime = program(&dir).build().unwrap();
    is_past_deadline(runtime.wait_for(&run), &deadline);
}

/// Ended after any line, the run fails all the same, and tells it once.
#[test]
fn it_passes_once_wherever_the_run_was_interrupted() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<u32>("waits", "w", &(), &within(ms(40))).unwrap();
    let deadline = summary(&mut runtime).deadline.unwrap();
    runtime.wait_for(&run).unwrap_err();
    drop(runtime);
    let log = dir.log();
    for end in 1..=log.lines().count() {
        let cut: String = log.split_inclusive('\n').take(end).collect();
        let other = dir.with_log(&cut);
        let mut runtime = program(&other).build().unwrap();
        assert_eq!(runtime.paused().len(), 0, "after line {end}: {:?}", runtime.paused());
        is_past_deadline(runtime.wait_for(&run), &deadline);
        drop(runtime);
        assert_eq!(other.count("\"why\":\"deadline\""), 1, "after line {end}:\n{}", other.log());
    }
}

#[test]
fn a_held_run_fails_too_in_memory_and_after_a_restart() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let mut runtime = program(&dir).build().unwrap();
        let run = runtime.submit_with::<u32>("waits", "w", &(), &within(ms(120))).unwrap();
        runtime.run(sleep(ms(20))).unwrap();
        let deadline = summary(&mut runtime).deadline.unwrap();
        runtime.hold(&run, "ada", None).unwrap();
        runtime.flush().unwrap();
        if restarts {
            drop(runtime);
            runtime = program(&dir).build().unwrap();
        }
        let held = summary(&mut runtime);
        assert_eq!((held.state, held.deadline.as_deref()), (State::Held, Some(&*deadline)));
        while summary(&mut runtime).state != State::Failed {
            runtime.run(sleep(ms(5))).unwrap();
        }
        is_past_deadline(runtime.wait_for(&run), &deadline);
        drop(runtime);
        let lines = lines(&dir);
        let released = lines.iter().find(|line| line["type"] == "RunReleased").unwrap();
        assert_eq!(released["by"], "deadline", "restarts: {restarts}");
        let at = released["ts"].as_str().unwrap();
        assert!(at >= deadline.as_str(), "released at {at}, before {deadline}");
    }
}

#[test]
fn a_run_held_by_a_limit_that_it_would_reach_again_fails_too() {
    let dir = Dir::new();
    let limits = || RunLimits { calls: Some(2000), ..RunLimits::default() };
    let start = || program(&dir).run_limits(limits()).build().unwrap();
    let mut runtime = start();
    let run = runtime.submit_with::<u32>("spins", "s", &(), &within(ms(400))).unwrap();
    while summary(&mut runtime).state != State::Held {
        runtime.run(sleep(ms(5))).unwrap();
    }
    let deadline = summary(&mut runtime).deadline.unwrap();
    drop(runtime);
    let mut runtime = start();
    while summary(&mut runtime).state != State::Failed {
        runtime.run(sleep(ms(5))).unwrap();
    }
    is_past_deadline(runtime.wait_for(&run), &deadline);
}

#[test]
fn a_run_that_begins_anew_keeps_its_deadline_and_a_fork_has_none() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<u32>("rounds", "r", &0, &within(ms(150))).unwrap();
    let deadline = summary(&mut runtime).deadline.unwrap();
    for _ in 0..3 {
        runtime.send(&run, "word", &1).unwrap();
    }
    runtime.run(sleep(ms(20))).unwrap();
    let fork = runtime.fork(&run, 1, Fork::new().id("fork")).unwrap();
    is_past_deadline(runtime.wait_for(&run), &deadline);
    let page = runtime.runs(&RunQuery { parent: Some(run.uuid()), ..RunQuery::default() }).unwrap();
    assert_eq!((page.runs[0].state, &page.runs[0].deadline), (State::Live, &None));
    runtime.flush().unwrap();
    drop(runtime);
    let read = |run: &DurableRun<u32>| {
        let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run.uuid()))).unwrap();
        serde_json::from_str::<Value>(log.lines().next().unwrap()).unwrap()
    };
    let first = read(&run);
    assert_eq!(
        (&first["gen"], &first["deadline"], &first["v"]),
        (&4.into(), &deadline.into(), &2.into())
    );
    let first = read(&fork);
    assert_eq!((first.get("deadline"), &first["v"]), (None, &1.into()));
}

#[test]
fn a_person_who_cancels_first_has_cancelled_it() {
    let dir = Dir::new();
    let slow = |_: ()| async {
        struct Slow;
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(ms(80));
            }
        }
        let _slow = Slow;
        receive::<u32>("word").await
    };
    let mut runtime = dir.builder().register("slow", slow).build().unwrap();
    let run = runtime.submit_with::<u32>("slow", "s", &(), &within(ms(60))).unwrap();
    runtime.run(sleep(ms(10))).unwrap();
    runtime.cancel(&run).unwrap();
    assert!(matches!(runtime.wait_for(&run), Err(RunError::Cancelled(_))));
    drop(runtime);
    assert_eq!(dir.count("\"why\":\"deadline\""), 0);
}

#[test]
fn a_deadline_that_is_past_or_none_is_refused() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let past = Time::from_nanos(1_000_000_000);
    for options in
        [StartOptions::new().deadline_at(past), within(Duration::ZERO), within(Duration::MAX)]
    {
        let error = runtime.submit_with::<u32>("waits", "w", &(), &options).map(drop).unwrap_err();
        let error = error.task_error().unwrap();
        assert_eq!(error.code(), "TFY0273", "{options:?}: {error}");
    }
    assert_eq!(runtime.runs(&RunQuery::default()).unwrap().total, 0);
    // One that is there keeps what it has, whatever is said later.
    runtime.submit::<u32>("waits", "w", &()).unwrap();
    let again = StartOptions::new().deadline_at(past);
    runtime.submit_with::<u32>("waits", "w", &(), &again).unwrap();
    assert_eq!(summary(&mut runtime).deadline, None);
    assert_eq!(run_id("w"), summary(&mut runtime).uuid);
}

#[test]
fn a_paused_run_fails_when_it_can_be_resumed_held_or_not() {
    for is_held in [false, true] {
        let dir = Dir::new();
        let mut runtime = program(&dir).build().unwrap();
        let run = runtime.submit_with::<u32>("waits", "w", &(), &within(ms(150))).unwrap();
        runtime.run(sleep(ms(20))).unwrap();
        let deadline = summary(&mut runtime).deadline.unwrap();
        runtime.flush().unwrap();
        drop(runtime);
        // Nobody has its function.
        let mut runtime = dir.builder().build().unwrap();
        assert_eq!(summary(&mut runtime).state, State::Paused);
        if is_held {
            runtime.hold(&run, "ada", None).unwrap();
        }
        runtime.run(sleep(ms(200))).unwrap();
        let paused = summary(&mut runtime);
        assert_eq!((paused.state, paused.deadline.as_deref()), (State::Paused, Some(&*deadline)));
        drop(runtime);
        assert_eq!(dir.count("\"why\":\"deadline\""), usize::from(is_held));
        let mut runtime = program(&dir).build().unwrap();
        is_past_deadline(runtime.wait_for(&run), &deadline);
    }
}
