//! The examples do what they say, and do it the same way every time: each is run ten times on a virtual
//! clock, and must say the same lines and leave the same trace.

#![allow(missing_docs, reason = "a test")]

use std::cell::RefCell;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{RunError, RuntimeHandle, TaskError, Tid};

macro_rules! examples {
    ($($name:ident = $path:literal),+ $(,)?) => {
        $(#[path = $path]
        #[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
        mod $name;)+
    };
}

examples! {
    agent = "../examples/tour/agent.rs",
    custom_call = "../examples/custom_call.rs",
    deadlock = "../examples/deadlock.rs",
    echo = "../examples/echo.rs",
    external = "../examples/external.rs",
    fan_out = "../examples/fan_out.rs",
    ping_pong = "../examples/ping_pong.rs",
    race = "../examples/race.rs",
    state_machine = "../examples/state_machine.rs",
    worker_pool = "../examples/worker_pool.rs",
}

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What examples say their lines to.
fn say(line: String) {
    LINES.with_borrow_mut(|lines| lines.push(line));
}

/// One run of an example: how it ended, what it said, and everything that happened.
struct Outcome<T> {
    result: Result<T, RunError>,
    lines: Vec<String>,
    trace: String,
}

fn once<T, F>(program: impl FnOnce(RuntimeHandle) -> F) -> Outcome<T>
where
    F: Future<Output = Result<T, TaskError>> + 'static,
    T: 'static,
{
    let mut test = TestScheduler::new();
    let root = program(test.runtime().handle());
    let result = test.try_run(root);
    Outcome { result, lines: LINES.take(), trace: test.trace().to_string() }
}

/// Runs an example ten times, and gives the outcome they have in common.
#[track_caller]
fn ten_times<T, F>(program: impl Fn(RuntimeHandle) -> F) -> Outcome<T>
where
    F: Future<Output = Result<T, TaskError>> + 'static,
    T: 'static,
{
    let first = once(&program);
    assert!(!first.trace.is_empty());
    for _ in 1..10 {
        let next = once(&program);
        assert_eq!(first.lines, next.lines);
        assert_eq!(first.trace, next.trace);
        assert_eq!(text(&first.result), text(&next.result));
    }
    first
}

fn text<T>(result: &Result<T, impl Display>) -> String {
    result.as_ref().err().map_or(String::new(), ToString::to_string)
}

#[test]
fn the_ball_is_hit_eight_times_and_pong_notices_the_end() {
    let outcome = ten_times(|_| ping_pong::main_task(say));
    assert_eq!(outcome.result.unwrap(), 8);
    assert_eq!(outcome.lines[0], "ping ── 1 ─→ pong");
    assert_eq!(outcome.lines[1], "ping ←─ 2 ── pong");
    assert_eq!(outcome.lines[8], "            pong: nobody there any more");
}

#[test]
fn gathered_pages_are_in_the_order_they_were_asked_for() {
    let outcome = ten_times(|_| fan_out::main_task(say));
    assert_eq!(outcome.result.unwrap(), ["<home>", "<about>", "<blog>", "<shop>"]);
    let ends: Vec<&str> = outcome.lines[1..5].iter().map(|line| &line[15..]).collect();
    assert_eq!(ends, ["about", "shop", "blog", "home"]);
    let settled = &outcome.lines[outcome.lines.len() - 3..];
    assert_eq!(settled, ["  ✓ <about>", "  ✗ 404: no page `jobs` [TFY0001]", "  ✓ <shop>"]);
}

#[test]
fn losers_of_a_race_are_cancelled_and_let_go_of_what_they_hold() {
    let outcome = ten_times(|_| race::main_task(say));
    assert_eq!(outcome.result.unwrap(), "lima");
    let expected = [
        "a race of three:",
        "  lima closes its connection",
        "  lima has won",
        "  oslo closes its connection",
        "  pune closes its connection",
        "  TFY0003: was cancelled",
        "  TFY0003: was cancelled",
        "a race against the clock:",
        "  TFY0028: took longer than 30ms",
        "  oslo closes its connection",
        "  pune closes its connection",
    ];
    assert_eq!(outcome.lines, expected);
}

#[test]
fn the_pool_is_full_but_never_too_full() {
    let outcome = ten_times(|_| worker_pool::main_task(say));
    assert_eq!(outcome.result.unwrap(), 3);
    let started = outcome.lines.iter().filter(|line| line.starts_with('▶')).count();
    assert_eq!(started, 8);
    assert!(outcome.lines.iter().all(|line| line.matches('■').count() <= 3));
    assert!(outcome.lines.iter().any(|line| line.contains("■■■")));
}

#[test]
fn a_thread_and_a_uuid_settle_promises_and_the_first_answer_stays() {
    let outcome = ten_times(|outside| external::main_task(outside, say));
    assert_eq!(outcome.result.unwrap(), "yes, go ahead");
    assert_eq!(outcome.lines[1], "  the thread says 21 °C");
    assert_eq!(outcome.lines[4], "a second answer is Ignored");
}

#[test]
fn a_cancelled_state_machine_takes_its_steps_back() {
    let outcome = ten_times(|_| state_machine::main_task(say));
    assert_eq!(outcome.result.unwrap(), 3);
    let undone: Vec<&str> =
        outcome.lines.iter().filter_map(|line| line.strip_prefix("  undo: ")).collect();
    assert_eq!(undone, ["switch traffic", "migrate tables", "copy files"]);
    assert_eq!(outcome.lines.last().unwrap(), "  TFY0003: was cancelled");
}

#[test]
fn one_question_has_four_answers() {
    let outcome = ten_times(|_| custom_call::main_task(say));
    assert!(outcome.result.is_ok());
    let expected = [
        "nobody       ✗ no handler answers the call `search` [TFY0018]",
        "index        ✓ a runtime for coroutines",
        "house rules  ✗ handler `search` refused: searching \"tiffany\" is not allowed here [TFY0019]",
        "in french    ✓ un runtime pour coroutines",
    ];
    assert_eq!(outcome.lines, expected);
}

#[test]
fn the_deadlock_is_reported_with_its_cycle() {
    let outcome = ten_times(|_| deadlock::main_task(say));
    let Err(RunError::Deadlock(report)) = outcome.result else {
        panic!("expected a deadlock");
    };
    assert_eq!(report.cycle, [Tid(2), Tid(3)]);
    let names: Vec<_> = report.waiting.iter().map(|w| w.task.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["alice", "bob"]);
    assert!(report.waiting[0].on.contains("bob") && report.waiting[1].on.contains("alice"));
}

#[test]
fn the_agent_of_the_demo_loses_a_search_and_publishes_all_the_same() {
    let outcome = ten_times(|_| agent::research(Duration::from_millis(450)));
    assert_eq!(outcome.result.unwrap(), "published");
    let ends = |what: &str| outcome.trace.lines().filter(|line| line.ends_with(what)).count();
    assert_eq!((ends(" completed"), ends(" cancelled")), (11, 1));
    assert!(outcome.trace.contains("failed TFY0001 503: try again tomorrow"));
    let slower = once(|_| agent::research(Duration::from_millis(451)));
    assert_ne!(outcome.trace, slower.trace);
}

/// Real sockets, but all ends are in one run: what one task writes is there when another reads.
#[test]
fn echo_over_real_sockets() {
    let outcome = ten_times(|_| async {
        let report =
            echo::main_task(4, 5).await.map_err(|error| TaskError::failed(error.to_string()))?;
        Ok(report.round_trips.len())
    });
    assert_eq!(outcome.result.unwrap(), 20);
}
