//! Which events each kind of call makes, and what they say.

use std::time::Duration;

use tiffany::pal::{Data, Detail, LogLevel, Stage, TaskId, Wanted, log, output, progress, stage};
use tiffany::{
    Runtime, RuntimeHandle, TaskError, cancel, channel, gather, handler, sleep, spawn, try_spawn,
    yield_now,
};
use tiffany::{SystemCall, Verdict};

use super::kit::{Dir, all, short, watch};

fn everything() -> Wanted {
    Wanted::new().detail(Detail::All)
}

#[track_caller]
fn check<F>(root: F, notable: &[&str], turns: &[&str])
where
    F: AsyncFn() + 'static + Clone,
{
    let again = root.clone();
    let events = watch(Runtime::builder(), Wanted::new(), async move { root().await });
    assert_eq!(short(&events), notable);
    let events = watch(Runtime::builder(), everything(), async move { again().await });
    assert_eq!(short(&events), turns);
    let dense: Vec<u64> = (1..=events.len() as u64).collect();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<u64>>(), dense);
    assert!(events.is_sorted_by_key(|event| event.ts));
}

#[test]
fn a_root_that_does_nothing() {
    check(
        async || {},
        &["1 Spawned", "1 Completed", "- Completed"],
        &["1 Spawned", "1 Running", "1 Completed", "- Completed"],
    );
}

#[test]
fn a_yield() {
    check(
        async || yield_now().await,
        &["1 Spawned", "1 Completed", "- Completed"],
        &["1 Spawned", "1 Running", "1 Running", "1 Completed", "- Completed"],
    );
}

#[test]
fn a_sleep() {
    check(
        async || sleep(Duration::from_millis(1)).await,
        &["1 Spawned", "1 Completed", "- Completed"],
        &[
            "1 Spawned",
            "1 Running",
            "1 Blocked",
            "1 Woken",
            "1 Running",
            "1 Completed",
            "- Completed",
        ],
    );
}

#[test]
fn a_child_that_is_waited_for() {
    check(
        async || {
            let child = spawn(async {}).name("child").await;
            child.await.expect("it ends well");
        },
        &["1 Spawned", "2 Spawned", "2 Completed", "1 Completed", "- Completed"],
        &[
            "1 Spawned",
            "1 Running",
            "2 Spawned",
            "2 Running",
            "2 Completed",
            "1 Running",
            "1 Running",
            "1 Completed",
            "- Completed",
        ],
    );
}

#[test]
fn a_gather() {
    check(
        async || {
            let first = spawn(yield_now()).await;
            let second = spawn(yield_now()).await;
            gather([first, second]).await.expect("both end well");
        },
        &[
            "1 Spawned",
            "2 Spawned",
            "3 Spawned",
            "2 Completed",
            "3 Completed",
            "1 Completed",
            "- Completed",
        ],
        &[
            "1 Spawned",
            "1 Running",
            "2 Spawned",
            "2 Running",
            "1 Running",
            "3 Spawned",
            "2 Running",
            "2 Completed",
            "3 Running",
            "1 Running",
            "1 Blocked",
            "3 Running",
            "3 Completed",
            "1 Woken",
            "1 Running",
            "1 Completed",
            "- Completed",
        ],
    );
}

#[test]
fn a_task_that_is_cancelled() {
    check(
        async || {
            let (_sender, receiver) = channel::<u32>(1).await;
            let child = spawn(async move { receiver.receive().await.map(drop) }).await;
            yield_now().await;
            cancel(&child).await;
        },
        &["1 Spawned", "2 Spawned", "2 Cancelling", "2 Cancelled", "1 Completed", "- Completed"],
        &[
            "1 Spawned",
            "1 Running",
            "1 Running",
            "2 Spawned",
            "2 Running",
            "2 Blocked",
            "1 Running",
            "1 Running",
            "2 Cancelling",
            "2 Running",
            "2 Cancelled",
            "1 Running",
            "1 Completed",
            "- Completed",
        ],
    );
}

#[test]
fn a_failure_names_its_code() {
    let events = watch(Runtime::builder(), Wanted::new(), async {
        let child = try_spawn(async { Err::<(), _>("no money") }).name("pay").await;
        drop(child.await);
    });
    let notable = ["1 Spawned", "2 Spawned", "2 Failed", "1 Completed", "- Completed"];
    assert_eq!(short(&events), notable);
    let (spawned, failed) = (&events[1], &events[2]);
    let Data::Spawned { parent, name, at } = &spawned.data else { panic!("{spawned:?}") };
    assert_eq!((parent.map(|tid| tid.0), name.as_deref()), (Some(1), Some("pay")));
    assert!(at.file.ends_with("stages.rs"), "{at}");
    assert_eq!(failed.data, Data::Error { code: "TFY0001".into() });
    assert!(failed.message.contains("no money"), "{}", failed.message);
}

#[test]
fn a_run_that_fails_says_so() {
    let mut runtime = Runtime::new().expect("a runtime");
    let events = runtime.activity().subscribe(Wanted::new());
    runtime.try_run(async { Err::<(), _>("no") }).expect_err("it fails");
    drop(runtime);
    let events = all(events);
    assert_eq!(short(&events), ["1 Spawned", "1 Failed", "- Failed"]);
    assert_eq!(events[2].data, Data::Error { code: "TFY0001".into() });
}

#[test]
fn what_tasks_show_comes_in_order_with_what_belongs_to_it() {
    let events = watch(Runtime::builder(), Wanted::new(), async {
        progress(1, 3, "one").await;
        progress(2, None, "two").await;
        log(LogLevel::Warn, "careful").await;
        output("stdout", "hello\n").await;
        stage(Stage::WaitingForLLM, "thinking").await;
    });
    let shown = &events[1..6];
    let stages: Vec<Stage> = shown.iter().map(|event| event.stage).collect();
    let expected =
        [Stage::Progress, Stage::Progress, Stage::Log, Stage::Output, Stage::WaitingForLLM];
    assert_eq!(stages, expected);
    let messages: Vec<&str> = shown.iter().map(|event| &*event.message).collect();
    assert_eq!(messages, ["one", "two", "careful", "hello\n", "thinking"]);
    let data: Vec<&Data> = shown.iter().map(|event| &event.data).collect();
    let step = None;
    assert_eq!(*data[0], Data::Progress { done: 1, total: Some(3), step });
    assert_eq!(*data[1], Data::Progress { done: 2, total: None, step });
    assert_eq!(*data[2], Data::Log { level: LogLevel::Warn, step });
    assert_eq!(*data[3], Data::Output { stream: "stdout".into(), step });
    assert_eq!(*data[4], Data::None);
}

#[test]
fn a_handler_sees_what_is_shown_and_can_change_and_refuse_it() {
    let censor = handler("censor", |call, _| match call {
        SystemCall::Show(shown) if shown.message.contains("secret") => {
            shown.message = "…".into();
            Verdict::Pass
        }
        SystemCall::Show(shown) if shown.stage() == Stage::Output => Verdict::Refuse("no".into()),
        _ => Verdict::Pass,
    });
    let events = watch(Runtime::builder().handler(censor), Wanted::new(), async {
        log(LogLevel::Info, "a secret").await;
        let refused: TaskError = output("stdout", "x").checked().await.expect_err("it is refused");
        assert_eq!(refused.code(), "TFY0019");
    });
    assert_eq!(short(&events), ["1 Spawned", "1 Log", "1 Completed", "- Completed"]);
    assert_eq!(events[1].message, "…");
}

#[test]
fn an_event_is_one_json_object_and_can_be_read_back() {
    let events = watch(Runtime::builder(), Wanted::new(), async {
        progress(1, 3, "one").await;
    });
    let json = serde_json::to_value(&*events[1]).expect("it is JSON");
    let TaskId::Ephemeral(run) = events[1].task_id else { panic!("it has no log") };
    assert_eq!(json["seq"], 2);
    assert_eq!(json["task_id"], run.0.to_string());
    assert_eq!(json["tid"], 1);
    assert_eq!(json["stage"], "Progress");
    assert_eq!(json["message"], "one");
    assert_eq!(json["ghost"], false);
    assert_eq!(json["data"], serde_json::json!({"done": 1, "total": 3}));
    assert!(json["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')), "{json}");
    let back: tiffany::pal::Activity = serde_json::from_value(json.clone()).expect("it is one");
    assert_eq!(serde_json::to_value(&back).expect("it is JSON"), json);
}

#[test]
fn a_durable_run_is_told_from_its_instruction_to_its_end_even_if_nobody_asked_before() {
    let dir = Dir::new("durable");
    let builder = dir.builder().register("work", |done: u64| async move {
        progress(done, 10, "so far").await;
        Ok::<_, TaskError>(done)
    });
    let mut runtime = builder.build().expect("a runtime");
    let run = runtime.submit::<u64>("work", "work-1", &3).expect("it is registered");
    assert_eq!(runtime.wait_for(&run).expect("it ends well"), 3);
    let events = runtime.activity().subscribe(Wanted::new().run(run.uuid()).from(0));
    drop(runtime);
    let events = all(events);
    let expected =
        ["- ReceivedInstruction", "1 Spawned", "1 Progress", "1 Completed", "- Completed"];
    assert_eq!(short(&events), expected);
    assert!(events.iter().all(|event| event.task_id == TaskId::Durable(run.uuid())));
    let instruction = serde_json::json!({"id": "work-1", "function": "work"});
    assert_eq!(events[0].data.to_json(), instruction);
}

#[test]
fn turns_of_durable_runs_are_told_to_those_who_want_them_alone() {
    let dir = Dir::new("turns");
    let builder = dir.builder().register("idle", |()| async move {
        yield_now().await;
        Ok::<_, TaskError>(())
    });
    let mut runtime = builder.build().expect("a runtime");
    let handle: RuntimeHandle = runtime.handle();
    let other = handle.activity().subscribe(everything().run(tiffany::Uuid(7)));
    let watched = handle.activity().subscribe(everything());
    let run = runtime.submit::<()>("idle", "idle-1", &()).expect("it is registered");
    runtime.wait_for(&run).expect("it ends well");
    drop(runtime);
    let expected = [
        "- ReceivedInstruction",
        "1 Spawned",
        "1 Running",
        "1 Running",
        "1 Completed",
        "- Completed",
    ];
    assert_eq!(short(&all(watched)), expected);
    assert_eq!(short(&all(other)), [""; 0]);
}

#[test]
fn a_runtime_without_a_log_keeps_nothing_until_somebody_asks() {
    let mut runtime = Runtime::new().expect("a runtime");
    runtime.run(progress(1, 1, "unseen")).expect("it ends well");
    let events = runtime.activity().subscribe(Wanted::new().from(0));
    runtime.run(progress(1, 1, "seen")).expect("it ends well");
    drop(runtime);
    let events = all(events);
    assert_eq!(short(&events), ["1 Spawned", "1 Progress", "1 Completed", "- Completed"]);
    assert_eq!(events[1].message, "seen");
}
