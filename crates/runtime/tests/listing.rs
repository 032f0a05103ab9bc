//! Lists of runs: filter, order, pages that stay put, and what is told of one run. From memory, through the socket, and on a log that nobody has.
//! And requests that a process does not answer, or refuses because it is ending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::durable_kit::Dir;
use tiffany::control::{Control, Request, RunQuery, RunSummary, SortBy, State};
use tiffany::durable::receive;
use tiffany::wal::{Checker, Follower};
use tiffany::{Builder, Runtime, TaskError, Uuid};

fn program() -> Builder {
    Runtime::builder()
        .register(
            "greet",
            |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) },
        )
        .register("fail", |(): ()| async { Err::<(), _>(TaskError::failed("no luck")) })
        .register("wait", |(): ()| async { receive::<String>("go").await })
}

fn ids(runs: &[RunSummary]) -> Vec<&str> {
    runs.iter().map(|run| run.id.as_str()).collect()
}

fn by_id(limit: usize) -> RunQuery {
    RunQuery { sort: SortBy::Id, descending: false, limit, ..RunQuery::default() }
}

/// Three that are over and two that wait.
fn filled(dir: &Dir) -> Runtime {
    let mut runtime = program().log_dir(&dir.0).build().unwrap();
    for id in ["a", "c"] {
        let run = runtime.submit::<String>("greet", id, &"Ada").unwrap();
        runtime.wait_for(&run).unwrap();
    }
    let failed = runtime.submit::<()>("fail", "e", &()).unwrap();
    runtime.wait_for(&failed).unwrap_err();
    for id in ["b", "d"] {
        runtime.submit::<String>("wait", id, &()).unwrap();
    }
    runtime.flush().unwrap();
    runtime
}

#[test]
fn live_and_finished_runs_are_one_list() {
    let dir = Dir::new();
    let mut runtime = filled(&dir);
    let page = runtime.runs(&by_id(100)).unwrap();
    assert_eq!(ids(&page.runs), ["a", "b", "c", "d", "e"]);
    assert_eq!((page.total, page.next), (5, None));
    let states: Vec<State> = page.runs.iter().map(|run| run.state).collect();
    let expected = [State::Completed, State::Live, State::Completed, State::Live, State::Failed];
    assert_eq!(states, expected);
    let waiting = &page.runs[1];
    assert_eq!(waiting.tasks, 1);
    assert_eq!(waiting.waits, ["message \"go\""]);
    assert_eq!(waiting.ended, None);
    let failed = &page.runs[4];
    assert_eq!(failed.error.as_ref().unwrap().message, "no luck");
    assert!(failed.ended.as_ref().unwrap() >= &failed.started);
}

#[test]
fn a_list_is_the_same_after_a_restart_and_on_a_log_that_nobody_has() {
    let dir = Dir::new();
    let mut runtime = filled(&dir);
    let before = runtime.runs(&by_id(100)).unwrap();
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    let offline = control.runs(&by_id(100)).unwrap();
    assert_eq!(ids(&offline.runs), ids(&before.runs));
    drop(control);
    let mut again = program().log_dir(&dir.0).build().unwrap();
    let after = again.runs(&by_id(100)).unwrap();
    for (before, after) in before.runs.iter().zip(&after.runs) {
        assert_eq!((&before.id, &before.started), (&after.id, &after.started));
        assert_eq!((&before.state, &before.error), (&after.state, &after.error));
        assert_eq!((&before.function, &before.waits), (&after.function, &after.waits));
    }
    // What ended before nobody asked is there too, and what ends afterwards.
    drop(again);
    let mut third = program().log_dir(&dir.0).build().unwrap();
    let run = third.submit::<String>("greet", "f", &"Ada").unwrap();
    third.wait_for(&run).unwrap();
    assert_eq!(third.runs(&by_id(100)).unwrap().total, 6);
    let run = third.submit::<String>("greet", "g", &"Ada").unwrap();
    third.wait_for(&run).unwrap();
    assert_eq!(third.runs(&by_id(100)).unwrap().total, 7);
}

#[test]
fn a_filter_takes_state_function_text_time_and_order() {
    let dir = Dir::new();
    let mut runtime = filled(&dir);
    let mut listed = |query: RunQuery| {
        let page = runtime.runs(&query).unwrap();
        assert_eq!(page.total as usize, page.runs.len());
        page.runs
    };
    let live = listed(RunQuery { states: vec![State::Live], ..by_id(100) });
    assert_eq!(ids(&live), ["b", "d"]);
    let over = vec![State::Failed, State::Completed];
    let over = listed(RunQuery { states: over, descending: true, ..by_id(100) });
    assert_eq!(ids(&over), ["e", "c", "a"]);
    let greet = listed(RunQuery { function: Some("greet".into()), ..by_id(100) });
    assert_eq!(ids(&greet), ["a", "c"]);
    let text = listed(RunQuery { text: Some("WAI".into()), ..by_id(100) });
    assert_eq!(ids(&text), ["b", "d"]);
    let all = listed(RunQuery { descending: false, ..RunQuery::default() });
    assert_eq!(ids(&all), ["a", "c", "e", "b", "d"], "in the order in which they began");
    let third = tiffany::control::parse_moment(&all[2].started).unwrap();
    let since = listed(RunQuery { since: Some(third), ..by_id(100) });
    assert_eq!(ids(&since), ["b", "d", "e"]);
    let before = listed(RunQuery { before: Some(third), ..by_id(100) });
    assert_eq!(ids(&before), ["a", "c"]);
    let ended = listed(RunQuery { sort: SortBy::Ended, ..by_id(100) });
    assert_eq!(ids(&ended)[..3], ["a", "c", "e"]);
}

#[test]
fn pages_are_stable_while_runs_come_and_go() {
    let dir = Dir::new();
    let mut runtime = filled(&dir);
    let first = runtime.runs(&by_id(2)).unwrap();
    assert_eq!((ids(&first.runs), first.total), (vec!["a", "b"], 5));
    // One before the page comes, one of the next page ends, and one of the first page goes.
    runtime.submit::<String>("wait", "aa", &()).unwrap();
    let d = runtime.submit::<String>("wait", "d", &()).unwrap();
    runtime.send(&d, "go", &"now").unwrap();
    runtime.wait_for(&d).unwrap();
    let a = runtime.submit::<String>("greet", "a", &"Ada").unwrap();
    runtime.remove(&a).unwrap();
    let second = runtime.runs(&RunQuery { after: first.next, ..by_id(2) }).unwrap();
    assert_eq!((ids(&second.runs), second.total), (vec!["c", "d"], 5));
    assert_eq!(second.runs[1].state, State::Completed);
    let third = runtime.runs(&RunQuery { after: second.next, ..by_id(2) }).unwrap();
    assert_eq!((ids(&third.runs), third.next), (vec!["e"], None));
    let removed = RunQuery { states: vec![State::Removed], ..by_id(2) };
    assert_eq!(runtime.runs(&removed).unwrap().total, 1);
    let strange = RunQuery { after: Some("x".into()), ..by_id(2) };
    assert_eq!(runtime.runs(&strange).unwrap_err().code(), "TFY0032");
}

#[test]
fn a_run_is_shown_with_its_tasks_or_its_value() {
    let dir = Dir::new();
    let mut runtime = filled(&dir);
    let known = runtime.runs(&by_id(100)).unwrap().runs;
    let path = dir.0.clone();
    let (handle, done) = (runtime.handle(), Arc::new(AtomicBool::new(false)));
    let is_done = Arc::clone(&done);
    let asks = std::thread::spawn(move || {
        let mut control = Control::open(&path).unwrap();
        assert!(!control.is_offline());
        let shown: Vec<_> = known.iter().map(|run| control.show(run.uuid)).collect();
        let unknown = control.show(tiffany::Uuid(7)).unwrap_err();
        let listed = control.runs(&by_id(3));
        done.store(true, Ordering::SeqCst);
        handle.nudge();
        (shown, unknown, listed)
    });
    runtime.serve_while(|_| !is_done.load(Ordering::SeqCst)).unwrap();
    let (shown, unknown, listed) = asks.join().unwrap();
    let shown: Vec<_> = shown.into_iter().map(Result::unwrap).collect();
    assert_eq!(shown[0].value.as_ref().unwrap().get(), "\"hello Ada\"");
    assert_eq!(shown[1].tasks[0].waits_for.as_deref(), Some("message \"go\""));
    assert_eq!(shown[4].summary.error.as_ref().unwrap().message, "no luck");
    assert_eq!(unknown.code(), "TFY0041");
    assert_eq!(listed.unwrap().runs.len(), 3);
}

#[test]
fn who_follows_a_run_is_told_that_its_file_has_grown() {
    let dir = Dir::new();
    let mut runtime = program().log_dir(&dir.0).build().unwrap();
    let run = runtime.submit::<String>("wait", "w", &()).unwrap();
    runtime.flush().unwrap();
    let handle = runtime.handle();
    let (mut growth, other) = (handle.growth(run.uuid()), handle.growth(Uuid::from_random(7)));
    let mut follower = Follower::new(&dir.0, run.uuid(), Checker::new(Some(run.uuid())));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let follows = async move {
            loop {
                // At first it has no file.
                while let Ok(Some(record)) = follower.next() {
                    if record.kind == "Message" {
                        return record.seq;
                    }
                }
                growth.wait().await;
            }
        };
        tell.send(Runtime::new().unwrap().run(follows).unwrap()).unwrap();
    });
    runtime.send(&run, "go", &"now").unwrap();
    runtime.flush().unwrap();
    assert!(told.recv_timeout(Duration::from_secs(20)).is_ok());
    drop(other);
}

#[test]
fn a_change_that_was_not_answered_may_still_happen() {
    let dir = Dir::new();
    let mut runtime = program().log_dir(&dir.0).build().unwrap();
    // Nobody drives the runtime, so nothing is answered.
    let mut control = Control::connect_within(&dir.0, Duration::from_millis(100)).unwrap().unwrap();
    let error = control.submit("wait", "a", &()).unwrap_err();
    assert_eq!(error.code(), "TFY0043");
    let text = error.to_string();
    for part in
        ["has not answered for 100ms", "may still happen", "`tiffany show`", "before you ask"]
    {
        assert!(text.contains(part), "{text}");
    }
    let mut runs = Vec::new();
    while runs.is_empty() {
        runtime.serve_for(Duration::from_millis(1)).unwrap();
        runs = runtime.runs(&RunQuery::default()).unwrap().runs;
    }
    assert_eq!(runs[0].id, "a");
}

#[test]
fn a_process_that_is_ending_refuses_what_waits_for_its_loop() {
    let dir = Dir::new();
    let mut runtime = program().log_dir(&dir.0).build().unwrap();
    let handle = runtime.handle();
    let (tell, told) = std::sync::mpsc::channel();
    let ask = |request| {
        let tell = tell.clone();
        handle.ask(request, move |answer| tell.send(answer.map(drop)).unwrap());
    };
    let submit = |id: &str| Request::Submit {
        options: Default::default(),
        function: "wait".into(),
        id: id.into(),
        input: serde_json::from_str("null").unwrap(),
    };
    ask(submit("a"));
    handle.refuse_changes();
    ask(submit("b"));
    assert_eq!(told.recv().unwrap().unwrap_err().code(), "TFY0043", "without the loop");
    ask(Request::Health);
    runtime.serve_for(Duration::from_millis(1)).unwrap();
    let refused = told.recv().unwrap().unwrap_err();
    assert!(refused.code() == "TFY0043" && refused.message().contains("is ending"), "{refused}");
    told.recv().unwrap().unwrap();
    // Its own steps may still need something.
    let other = std::thread::spawn(move || handle.control().submit("wait", "c", &()));
    while !other.is_finished() {
        runtime.serve_for(Duration::from_millis(1)).unwrap();
    }
    let run = other.join().unwrap().unwrap();
    let runs = runtime.runs(&RunQuery::default()).unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.uuid).collect::<Vec<_>>(), [run]);
}
