//! Approvals: questions to people that wait over restarts, are decided once, and are the fork's own in a fork. What is answered
//! to who decides is safe in the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::durable_kit::{Dir, ms};
use serde_json::json;
use tiffany::control::{Control, OpenApproval, Ruling};
use tiffany::durable::{Fork, approve, receive, step};
use tiffany::history::{Change, DiffSettings, Difference, diff};
use tiffany::wal::{RealDisk, View};
use tiffany::{
    Approval, BlockReason, Builder, ErrorKind, RunError, Runtime, TaskError, TaskState, Tid, Uuid,
    select, sleep, timeout, try_spawn,
};

/// Asks, and tells what was decided.
async fn refund(amount: u32) -> Result<(String, String, Option<String>), TaskError> {
    step("look up", || Ok::<(), String>(())).await?;
    let answer = approve(format!("Refund {amount} EUR?"))
        .choices(["pay", "half", "keep"])
        .payload(&json!({ "amount": amount }))
        .await?;
    let Approval { choice, by, why, .. } = answer;
    step("do it", || Ok::<(), String>(())).await?;
    Ok((choice, by, why))
}

fn refunds(dir: &Dir) -> Builder {
    dir.builder().register("refund", refund)
}

type Refunded = (String, String, Option<String>);

/// Drives all runs until a question is open.
fn until_asked(runtime: &mut Runtime) -> OpenApproval {
    let begun = Instant::now();
    loop {
        if let Some(open) = runtime.approvals().into_iter().next() {
            return open;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody asks");
        runtime.run(async { sleep(ms(1)).await }).unwrap();
    }
}

/// Drives a runtime while another thread does something.
fn beside<T: Send + 'static>(runtime: &mut Runtime, act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(act);
    let drives = runtime.run(async move {
        while !thread.is_finished() {
            sleep(ms(1)).await;
        }
        thread.join()
    });
    drives.expect("it runs").expect("the other thread does not panic")
}

fn failed_with(error: &RunError) -> &str {
    error.task_error().map_or("none", TaskError::code)
}

#[test]
fn a_question_is_listed_and_decided_through_the_socket_with_who_and_why() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    until_asked(&mut runtime);
    let path = dir.0.clone();
    let (open, answer) = beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        assert!(!control.is_offline());
        let open = control.approvals().unwrap().pop().unwrap();
        let bad = control.resolve(&open.id, Ruling::yes()).unwrap_err();
        assert_eq!(bad.kind(), ErrorKind::BadChoice);
        assert!(bad.message().contains("`pay`, `half`, `keep`"), "{bad}");
        let unknown = control.resolve("nobody/7", Ruling::yes()).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::NoSuchApproval);
        let ruling = Ruling::choice("half").by("Ada").because("it was half full");
        let answer = control.resolve(&open.id, ruling).unwrap();
        // The log has it when this is answered.
        assert!(control.approvals().unwrap().is_empty());
        (open, answer)
    });
    assert_eq!(open.run, run.uuid().to_string());
    assert_eq!(open.run_id.as_deref(), Some("refund-1"));
    assert_eq!((open.question.as_str(), open.tid), ("Refund 40 EUR?", 1));
    assert_eq!(open.choices, ["pay", "half", "keep"]);
    assert_eq!(open.payload.unwrap().get(), r#"{"amount":40}"#);
    assert!(open.deadline.is_none() && answer.at >= open.since);
    // What the system says of who decided, whatever name was given.
    let own = std::fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me));
    assert_eq!(answer.uid, own.ok());
    let (choice, by, why) = runtime.wait_for(&run).unwrap();
    assert_eq!((choice.as_str(), by.as_str()), ("half", "Ada"));
    assert_eq!(why.as_deref(), Some("it was half full"));
    drop(runtime);
    let decided =
        dir.log().lines().find(|line| line.contains("ApprovalDecided")).map(str::to_owned);
    let decided: serde_json::Value = serde_json::from_str(&decided.unwrap()).unwrap();
    assert_eq!(decided["value"]["choice"], "half");
    assert_eq!(decided["value"]["why"], "it was half full");
    assert_eq!(format!("{}/{}", run.uuid(), decided["of"]), open.id);
}

#[test]
fn the_first_answer_holds_and_the_second_one_is_told_so() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let open = until_asked(&mut runtime);
    let path = dir.0.clone();
    let told = beside(&mut runtime, move || {
        let deciders = ["pay", "half", "keep", "pay"].map(|choice| {
            let (path, id) = (path.clone(), open.id.clone());
            std::thread::spawn(move || {
                Control::open(&path).unwrap().resolve(&id, Ruling::choice(choice).by(choice))
            })
        });
        deciders.map(|decider| decider.join().unwrap())
    });
    let first: Vec<&Approval> = told.iter().flatten().collect();
    assert_eq!(first.len(), 1, "{told:?}");
    let late = told.iter().filter_map(|told| told.as_ref().err());
    for error in late {
        assert_eq!(error.kind(), ErrorKind::ApprovalDecided);
        assert!(error.message().contains(&format!("said `{}`", first[0].choice)), "{error}");
    }
    assert_eq!(runtime.wait_for(&run).unwrap().0, first[0].choice);
}

#[test]
fn a_question_waits_over_a_restart_under_the_same_id() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let before = until_asked(&mut runtime);
    drop(runtime);
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let after = until_asked(&mut runtime);
    assert_eq!((&after.id, after.since), (&before.id, before.since));
    runtime.resolve(&after.id, Ruling::no().by("Ada")).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap().0, "keep");
    drop(runtime);
    // The answer is in the log: who comes back needs nobody.
    let cut = dir.cut_after(1, "ApprovalDecided");
    let mut runtime = refunds(&cut).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    assert!(runtime.approvals().is_empty());
    assert_eq!(runtime.wait_for(&run).unwrap().0, "keep");
}

#[test]
fn a_question_is_decided_on_a_directory_that_nobody_has() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    until_asked(&mut runtime);
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    assert!(control.is_offline());
    let open = control.approvals().unwrap().pop().unwrap();
    assert_eq!(open.question, "Refund 40 EUR?");
    assert_eq!(open.payload.as_ref().unwrap().get(), r#"{"amount":40}"#);
    let bad = control.resolve(&open.id, Ruling::choice("no")).unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::BadChoice);
    let answer = control.resolve(&open.id, Ruling::choice("pay").because("clear")).unwrap();
    assert!(answer.uid.is_some());
    let again = control.resolve(&open.id, Ruling::choice("keep")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ApprovalDecided);
    assert!(control.approvals().unwrap().is_empty());
    drop(control);
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let (choice, _, why) = runtime.wait_for(&run).unwrap();
    assert_eq!((choice.as_str(), why.as_deref()), ("pay", Some("clear")));
}

#[test]
fn who_comes_too_late_after_a_restart_is_told_the_first_answer() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let open = until_asked(&mut runtime);
    runtime.resolve(&open.id, Ruling::choice("half").by("Ada")).unwrap();
    runtime.wait_for(&run).unwrap();
    runtime.submit::<Refunded>("refund", "refund-2", &41).unwrap();
    let other = until_asked(&mut runtime);
    drop(runtime);

    let id = open.id.clone();
    let too_late = |told: Result<Approval, TaskError>| {
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ApprovalDecided, "{error}");
        assert!(error.message().contains("is decided: Ada said `half` at 20"), "{error}");
    };
    // On the log alone: of a run that is over, and of one that goes on.
    let mut control = Control::open(&dir.0).unwrap();
    too_late(control.resolve(&open.id, Ruling::no()));
    control.resolve(&other.id, Ruling::choice("half").by("Ada")).unwrap();
    too_late(control.resolve(&other.id, Ruling::no()));
    drop(control);
    too_late(Control::open(&dir.0).unwrap().resolve(&other.id, Ruling::no()));

    // In the process that brings the runs back, and through its socket.
    let mut runtime = refunds(&dir).build().unwrap();
    too_late(runtime.resolve(&other.id, Ruling::no()));
    too_late(runtime.resolve(&open.id, Ruling::no()));
    let unknown = |id: &str| id.replace(id.rsplit('/').next().unwrap(), "999");
    let never = runtime.resolve(&unknown(&open.id), Ruling::no()).unwrap_err();
    assert_eq!(never.kind(), ErrorKind::NoSuchApproval);
    let path = dir.0.clone();
    let (asked, never) = beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        assert!(!control.is_offline());
        (control.resolve(&id, Ruling::no()), control.resolve(&unknown(&id), Ruling::no()))
    });
    too_late(asked);
    assert_eq!(never.unwrap_err().kind(), ErrorKind::NoSuchApproval);
}

/// Asks, for no longer than this.
async fn hurried(millis: u64) -> Result<String, TaskError> {
    match approve("Now?").timeout(ms(millis)).await {
        Ok(answer) => Ok(answer.choice),
        Err(error) if error.kind() == ErrorKind::ApprovalTimedOut => Ok("nobody".into()),
        Err(error) => Err(error),
    }
}

#[test]
fn a_deadline_holds_while_nobody_runs_and_over_restarts() {
    let dir = Dir::new();
    let builder = || dir.builder().register("hurried", hurried);
    let mut runtime = builder().build().unwrap();
    runtime.submit::<String>("hurried", "soon", &300).unwrap();
    let open = until_asked(&mut runtime);
    let deadline = open.deadline.unwrap();
    assert_eq!(deadline - open.since, ms(300));
    drop(runtime);
    // Nobody has the directory until the time is over.
    let mut control = Control::open(&dir.0).unwrap();
    let begun = Instant::now();
    while !control.approvals().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it stays open");
        std::thread::sleep(ms(10));
    }
    let late = control.resolve(&open.id, Ruling::yes()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NoSuchApproval);
    drop(control);
    let mut runtime = builder().build().unwrap();
    let run = runtime.submit::<String>("hurried", "soon", &300).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "nobody");
    drop(runtime);
    // And again from the log alone, where it ends with the deadline.
    let cut = dir.cut_after(1, "TaskWake");
    let mut runtime = cut.builder().register("hurried", hurried).build().unwrap();
    let run = runtime.submit::<String>("hurried", "soon", &300).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "nobody");
}

#[test]
fn another_question_other_choices_and_another_payload_are_a_divergence() {
    type Ask = fn(()) -> std::pin::Pin<Box<dyn Future<Output = Result<String, TaskError>>>>;
    async fn ask(
        question: &str,
        choices: [&str; 2],
        payload: u32,
        limit: u64,
    ) -> Result<String, TaskError> {
        let asked = approve(question).choices(choices).payload(&payload);
        Ok(asked.timeout(Duration::from_secs(limit)).await?.choice)
    }
    let first: Ask = |()| Box::pin(ask("Ship?", ["yes", "no"], 1, 60));
    let others: [(Ask, &str); 5] = [
        (|()| Box::pin(ask("Ship?", ["yes", "no"], 1, 60)), ""),
        (|()| Box::pin(ask("Sell?", ["yes", "no"], 1, 60)), "Sell?"),
        (|()| Box::pin(ask("Ship?", ["yes", "later"], 1, 60)), "later"),
        (|()| Box::pin(ask("Ship?", ["yes", "no"], 2, 60)), "it shows 2, and showed 1"),
        (|()| Box::pin(ask("Ship?", ["yes", "no"], 1, 61)), "waits until"),
    ];
    let dir = Dir::new();
    let mut runtime = dir.builder().register("ask", first).build().unwrap();
    let run = runtime.submit::<String>("ask", "ask", &()).unwrap();
    until_asked(&mut runtime);
    drop(runtime);
    for (other, part) in others {
        let again = dir.with_log(&dir.log());
        let mut runtime = again.builder().register("ask", other).build().unwrap();
        let paused = runtime.paused();
        if part.is_empty() {
            assert!(paused.is_empty(), "{paused:?}");
            continue;
        }
        assert_eq!(paused.len(), 1, "{part}");
        assert_eq!(paused[0].error.code(), "TFY0036", "{part}");
        assert!(paused[0].error.to_string().contains(part), "{}", paused[0].error);
        // The person can decide all the same: that is written to its log.
        let open = until_asked(&mut runtime);
        assert_eq!((&open.run, open.question.as_str()), (&run.uuid().to_string(), "Ship?"));
        runtime.resolve(&open.id, Ruling::yes()).unwrap();
        assert!(runtime.approvals().is_empty());
        drop(runtime);
        let mut runtime = again.builder().register("ask", first).build().unwrap();
        let run = runtime.submit::<String>("ask", "ask", &()).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), "yes");
    }
}

/// Whatever comes first: a person, or the end of a nap.
async fn impatient(_: ()) -> Result<String, TaskError> {
    let asked = timeout(ms(30), approve("Quick?").into_future()).await;
    step("after", || Ok::<(), String>(())).await?;
    let slow = approve("Slow?").await?;
    Ok(format!("{} {}", asked.is_ok(), slow.choice))
}

#[test]
fn a_question_that_lost_a_race_is_withdrawn_in_the_log_and_is_not_open_any_more() {
    let dir = Dir::new();
    let builder = |dir: &Dir| dir.builder().register("impatient", impatient);
    let mut runtime = builder(&dir).build().unwrap();
    runtime.submit::<String>("impatient", "a", &()).unwrap();
    let quick = until_asked(&mut runtime);
    assert_eq!(quick.question, "Quick?");
    let begun = Instant::now();
    while until_asked(&mut runtime).question != "Slow?" {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not withdrawn");
        runtime.run(async { sleep(ms(5)).await }).unwrap();
    }
    assert_eq!(runtime.approvals().len(), 1);
    let late = runtime.resolve(&quick.id, Ruling::yes()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NoSuchApproval);
    drop(runtime);
    assert_eq!(dir.count("ApprovalWithdrawn"), 1);
    // The log alone tells which is open.
    let mut control = Control::open(&dir.0).unwrap();
    let open = control.approvals().unwrap();
    assert_eq!(open.iter().map(|open| open.question.as_str()).collect::<Vec<_>>(), ["Slow?"]);
    drop(control);
    let mut runtime = builder(&dir).build().unwrap();
    let run = runtime.submit::<String>("impatient", "a", &()).unwrap();
    let slow = until_asked(&mut runtime);
    runtime.resolve(&slow.id, Ruling::no()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "false no");
    drop(runtime);
    assert_eq!(dir.count("ApprovalWithdrawn"), 1, "{}", dir.log());
}

#[test]
fn the_withdrawal_is_written_once_wherever_the_log_ends() {
    let dir = Dir::new();
    let builder = |dir: &Dir| dir.builder().register("impatient", impatient);
    let mut runtime = builder(&dir).build().unwrap();
    let run = runtime.submit::<String>("impatient", "a", &()).unwrap();
    let begun = Instant::now();
    while until_asked(&mut runtime).question != "Slow?" {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is not withdrawn");
        runtime.run(async { sleep(ms(5)).await }).unwrap();
    }
    let slow = until_asked(&mut runtime);
    runtime.resolve(&slow.id, Ruling::yes()).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let log = dir.log();
    for lines in 2..log.lines().count() {
        let text: String = log.split_inclusive('\n').take(lines).collect();
        let cut = dir.with_log(&text);
        let mut runtime = builder(&cut).build().unwrap();
        let run = runtime.submit::<String>("impatient", "a", &()).unwrap();
        let begun = Instant::now();
        loop {
            let open = runtime.approvals();
            if let Some(slow) = open.iter().find(|open| open.question == "Slow?") {
                runtime.resolve(&slow.id, Ruling::yes()).unwrap();
                break;
            }
            if text.contains("ApprovalDecided") {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "after {lines} lines");
            runtime.run(async { sleep(ms(2)).await }).unwrap();
        }
        assert_eq!(runtime.wait_for(&run).unwrap(), "false yes", "after {lines} lines");
        drop(runtime);
        assert_eq!(cut.count("ApprovalWithdrawn"), 1, "after {lines} lines:\n{}", cut.log());
        assert_eq!(cut.count("ApprovalDecided"), 1, "after {lines} lines");
    }
}

#[test]
fn a_cancelled_run_asks_nobody_any_more() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let open = until_asked(&mut runtime);
    runtime.cancel(&run).unwrap();
    assert_eq!(failed_with(&runtime.wait_for(&run).unwrap_err()), "TFY0003");
    assert!(runtime.approvals().is_empty());
    let late = runtime.resolve(&open.id, Ruling::no()).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::NoSuchApproval);
}

#[test]
fn a_fork_has_a_question_of_its_own() {
    let dir = Dir::new();
    let mut runtime = refunds(&dir).build().unwrap();
    let run = runtime.submit::<Refunded>("refund", "refund-1", &40).unwrap();
    let open = until_asked(&mut runtime);
    let at: u64 = open.id.split('/').nth(1).unwrap().parse().unwrap();
    let fork = runtime.fork(&run, at, Fork::new().allow("*")).unwrap();
    let begun = Instant::now();
    while runtime.approvals().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the fork does not ask");
        runtime.run(async { sleep(ms(2)).await }).unwrap();
    }
    let of_fork = runtime.approvals().into_iter().find(|open| open.run != run.uuid().to_string());
    let of_fork = of_fork.unwrap();
    assert_eq!(of_fork.id, format!("{}/{at}", fork.uuid()));
    runtime.resolve(&of_fork.id, Ruling::choice("half")).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap().0, "half");
    assert_eq!(runtime.approvals().len(), 1, "the parent asks on");
    runtime.resolve(&open.id, Ruling::choice("pay")).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap().0, "pay");
    drop(runtime);
    // What would have been, had the answer been another.
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    let decided = log.lines().find(|line| line.contains("ApprovalDecided")).unwrap();
    let decided: serde_json::Value = serde_json::from_str(decided).unwrap();
    let mut other = decided["value"].clone();
    other["choice"] = json!("keep");
    let mut runtime = refunds(&dir).build().unwrap();
    let at = decided["seq"].as_u64().unwrap();
    let changed = Fork::new().set_reply(&other).unwrap().allow("*");
    let fork = runtime.fork(&run, at, changed).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap().0, "keep");
}

#[test]
fn a_run_without_a_log_asks_too_and_any_thread_decides() {
    let mut runtime = Runtime::new().unwrap();
    let mut control = runtime.handle().control();
    let person = std::thread::spawn(move || {
        let begun = Instant::now();
        let open = loop {
            if let Some(open) = control.approvals().unwrap().pop() {
                break open;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody asks");
            std::thread::sleep(ms(1));
        };
        let first = control.resolve(&open.id, Ruling::no().by("Ada").because("no"));
        let second = control.resolve(&open.id, Ruling::yes()).unwrap_err();
        (open, first.unwrap(), second)
    });
    let error = runtime
        .try_run(async {
            let asks = try_spawn(async { approve("Sure?").await?.granted() }).name("asker");
            let result = asks.await.await;
            // Until the other thread has had both of its answers.
            sleep(ms(50)).await;
            result
        })
        .unwrap_err();
    let (open, first, second) = person.join().unwrap();
    assert_eq!((open.task.as_deref(), open.run_id), (Some("asker"), None));
    assert_eq!((first.choice.as_str(), first.rejected), ("no", true));
    assert!(matches!(second.kind(), ErrorKind::ApprovalDecided), "{second}");
    let error = error.task_error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert_eq!(error.message(), "Ada said `no`: no");
}

#[test]
fn a_task_that_asks_is_blocked_by_a_person_and_is_no_deadlock() {
    let mut runtime = Runtime::new().unwrap();
    let states = runtime.try_run(async {
        let asks = try_spawn(async { approve("Sure?").timeout(ms(40)).await }).await;
        sleep(ms(5)).await;
        let error = asks.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ApprovalTimedOut);
        assert!(error.to_string().contains("approve"), "{error}");
        Ok::<_, TaskError>(())
    });
    states.unwrap();
    let mut test = tiffany::testing::TestScheduler::new();
    let run = test.start(async { drop(approve("Sure?").await) });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)), Some(TaskState::Blocked(BlockReason::Approval)));
    assert_eq!(test.tasks(run.id())[0].waits_for.as_deref(), Some("a person"));
}

#[test]
fn a_question_without_a_meaning_is_refused_at_its_line() {
    let mut runtime = Runtime::new().unwrap();
    runtime
        .try_run(async {
            let none: [&str; 0] = [];
            for (asked, part) in [
                (approve("  "), "the question is empty"),
                (approve("Ship?").choices(none), "at least two"),
                (approve("Ship?").choices(["ship"]), "at least two"),
                (approve("Ship?").choices(["ship", "hold", "ship"]), "\"ship\" twice"),
                (approve("Ship?").choices(["ship", " "]), "is empty"),
            ] {
                let error = asked.await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BadArgument);
                assert!(error.message().contains(part), "{error}");
                assert!(error.to_string().contains("approvals.rs"), "{error}");
            }
            let error = approve("Ship?").payload(&f64::NAN).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unserializable);
            let error = approve("Ship?").timeout(Duration::MAX).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadDuration);
            Ok::<(), TaskError>(())
        })
        .unwrap();
}

#[test]
fn a_large_payload_is_shown_and_compared_as_any_other() {
    let dir = Dir::new();
    let builder = || {
        dir.builder().register("ask", |()| async {
            let text = "x".repeat(200_000);
            Ok::<String, TaskError>(approve("Long?").payload(&text).await?.choice)
        })
    };
    let mut runtime = builder().build().unwrap();
    runtime.submit::<String>("ask", "ask", &()).unwrap();
    until_asked(&mut runtime);
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    let open = control.approvals().unwrap().pop().unwrap();
    assert_eq!(open.payload.unwrap().get().len(), 200_002);
    drop(control);
    let mut runtime = builder().build().unwrap();
    assert!(runtime.paused().is_empty());
    let run = runtime.submit::<String>("ask", "ask", &()).unwrap();
    let open = until_asked(&mut runtime);
    runtime.resolve(&open.id, Ruling::yes()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "yes");
}

/// A person, or somebody who says that it does not matter any more.
async fn either(_: ()) -> Result<String, TaskError> {
    let answer = select! {
        answer = approve("Ship?").into_future() => answer?.choice,
        told = receive::<String>("never mind") => told?,
    };
    step("note", || Ok::<(), String>(())).await?;
    Ok(answer)
}

#[test]
fn two_runs_part_where_they_were_answered_otherwise_or_not_at_all() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("either", either).build().unwrap();
    let mut ask = |id: &str, ruling: Option<Ruling>| {
        let run = runtime.submit::<String>("either", id, &()).unwrap();
        let open = until_asked(&mut runtime);
        match ruling {
            Some(ruling) => drop(runtime.resolve(&open.id, ruling.by("Ada")).unwrap()),
            None => runtime.send(&run, "never mind", &"off").unwrap(),
        }
        runtime.wait_for(&run).unwrap();
        run.uuid()
    };
    let (yes, again) = (ask("yes", Some(Ruling::yes())), ask("again", Some(Ruling::yes())));
    let no = ask("no", Some(Ruling::no().because("not today")));
    let off = ask("off", None);
    drop(runtime);
    let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
    let told = |a: Uuid, b: Uuid| -> Vec<String> {
        let diff = diff((&view, a), (&view, b), DiffSettings::limit(100)).unwrap();
        let change = |c: &Change| {
            let side = |value: &Option<serde_json::Value>| json!(value).to_string();
            format!(" {} {}→{}", c.path, side(&c.a), side(&c.b))
        };
        let line = |d: &Difference| {
            let changes: String = d.changes.iter().map(change).collect();
            let kinds = [&d.a, &d.b].map(|one| one.as_ref().map_or("-", |one| &one.kind));
            format!("{:?} {}{changes}", d.kind, kinds.join("/"))
        };
        diff.differences.iter().map(line).collect()
    };
    // The same answer at another moment is the same.
    assert_eq!(told(yes, again), Vec::<String>::new());
    let expected = [
        r#"Result TaskYield/TaskYield /value/choice "yes"→"no" /value/rejected false→true /value/why null→"not today""#,
        r#"End TaskExit/TaskExit /value "yes"→"no""#,
    ];
    assert_eq!(told(yes, no), expected);
    let expected = [
        "Message -/Message",
        r#"Result TaskYield/TaskYield /value {"by":"Ada","choice":"yes","rejected":false}→null"#,
        r#"End TaskExit/TaskExit /value "yes"→"off""#,
    ];
    assert_eq!(told(yes, off), expected);
}
