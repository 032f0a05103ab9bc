//! What is told of steps, and what their work shows from its threads.

use std::time::Duration;

use tiffany::durable::{Retry, attempt, step, step_with};
use tiffany::pal::{Data, LogLevel, Stage, Wanted};
use tiffany::{Runtime, TaskError};

use super::kit::{Dir, all, short, watch};

#[test]
fn a_step_is_told_when_it_begins_and_when_it_is_over() {
    let events = watch(Runtime::builder(), Wanted::new(), async {
        step("ship", || Ok::<_, String>(1)).await.expect("it ends well");
    });
    let expected = [
        "1 Spawned",
        "1 ToolExecutionStart",
        "1 ToolExecutionComplete",
        "1 Completed",
        "- Completed",
    ];
    assert_eq!(short(&events), expected);
    assert_eq!(events[1].message, "ship");
    let data = events[2].data.to_json();
    assert_eq!((&data["step"], &data["attempt"]), (&"ship".into(), &1.into()));
    assert_eq!(data["key"], events[1].data.to_json()["key"]);
}

#[test]
fn each_attempt_is_told_with_its_error_and_when_it_is_tried_again() {
    let events = watch(Runtime::builder(), Wanted::new(), async {
        let retry = Retry::times(2).first(Duration::from_millis(1));
        let failed = step("call", || Err::<(), _>("busy")).retry(retry).await;
        failed.expect_err("it always fails");
    });
    let stages: Vec<Stage> = events[1..5].iter().map(|event| event.stage).collect();
    let (start, complete) = (Stage::ToolExecutionStart, Stage::ToolExecutionComplete);
    assert_eq!(stages, [start, complete, start, complete]);
    let first = events[2].data.to_json();
    assert_eq!((&first["attempt"], &first["code"]), (&1.into(), &"TFY0001".into()));
    assert!(first["retry_at"].is_string(), "{first}");
    let last = events[4].data.to_json();
    assert_eq!((&last["attempt"], &last["retry_at"]), (&2.into(), &serde_json::Value::Null));
    assert!(events[4].message.contains("busy"), "{}", events[4].message);
}

#[test]
fn what_the_work_of_a_step_shows_comes_between_its_beginning_and_its_end() {
    let dir = Dir::new("steps");
    let builder = dir.builder().register("work", |()| async {
        step_with("build", |attempt| {
            attempt.progress(1, 2, "half");
            attempt.log(LogLevel::Debug, "a line");
            attempt.output("stderr", "warning: x");
            attempt.stage(Stage::PreviewingPatch, "a patch");
            attempt.chunk(&"word")?;
            Ok::<_, tiffany::durable::StepError>(())
        })
        .await?;
        step("plain", || {
            let attempt = attempt().expect("this is the work of a step");
            attempt.output("stdout", attempt.step_name());
            Ok::<_, String>(())
        })
        .await?;
        assert!(attempt().is_none());
        Ok::<_, TaskError>(())
    });
    let mut runtime = builder.build().expect("a runtime");
    let events = runtime.activity().subscribe(Wanted::new());
    let run = runtime.submit::<()>("work", "w", &()).expect("it is registered");
    runtime.wait_for(&run).expect("it ends well");
    drop(runtime);
    let events = all(events);
    let expected = [
        "- ReceivedInstruction",
        "1 Spawned",
        "1 ToolExecutionStart",
        "1 Progress",
        "1 Log",
        "1 Output",
        "1 PreviewingPatch",
        "1 Output",
        "1 ToolExecutionComplete",
        "1 ToolExecutionStart",
        "1 Output",
        "1 ToolExecutionComplete",
        "1 Completed",
        "- Completed",
    ];
    assert_eq!(short(&events), expected);
    let step = Some("build");
    assert_eq!(events[3].data, Data::Progress { done: 1, total: Some(2), step });
    assert_eq!(events[7].data, Data::Output { stream: "chunk".into(), step });
    assert_eq!((&*events[7].message, &*events[10].message), ("\"word\"", "plain"));
    assert!(events.is_sorted_by_key(|event| event.ts), "one clock for all threads");
}
