//! DESIGN §3, States.

use tiffany::testing::TestScheduler;
use tiffany::{
    BlockReason, EventKind, TaskState, Tid, cancel, gather_settled, get_tid, join, kill_task,
    promise, sleep, spawn, try_spawn, yield_now,
};

use super::common::{quiet, scheduler, secs, turns};
use super::targets::{STATES, Seen, observe};

const REASONS: [BlockReason; 13] = [
    BlockReason::Io,
    BlockReason::Sleep,
    BlockReason::Join,
    BlockReason::Gather,
    BlockReason::Race,
    BlockReason::Promise,
    BlockReason::External,
    BlockReason::Effect,
    BlockReason::Commit,
    BlockReason::Approval,
    BlockReason::Lock,
    BlockReason::Message,
    BlockReason::Foreign,
];

fn all_states() -> Vec<TaskState> {
    use TaskState::*;
    let mut states = vec![Pending, Running, Suspended, Cancelling, Completed, Failed, Cancelled];
    states.extend(REASONS.map(Blocked));
    states
}

/// "**States**: Pending, Running, Suspended, Blocked(reason: io, sleep, join, gather, race, promise,
/// external, effect, commit, approval, lock, message, foreign), Cancelling, Completed, Failed,
/// Cancelled." By these words.
#[test]
fn states_go_by_these_words() {
    let mut words: Vec<String> = all_states().iter().map(ToString::to_string).collect();
    words.sort();
    let mut expected: Vec<String> =
        ["Pending", "Running", "Suspended", "Cancelling", "Completed", "Failed", "Cancelled"]
            .map(String::from)
            .into();
    let reasons = "io, sleep, join, gather, race, promise, external, effect, commit, approval, \
                   lock, message, foreign";
    expected.extend(reasons.split(", ").map(|reason| format!("Blocked({reason})")));
    expected.sort();
    assert_eq!(words, expected);
}

/// "Ready = Pending or Suspended."
#[test]
fn ready_is_pending_or_suspended() {
    for state in all_states() {
        let expected = matches!(state, TaskState::Pending | TaskState::Suspended);
        assert_eq!(state.is_ready(), expected, "{state}");
    }
}

/// "Completed, Failed, Cancelled" are the ends: no other state is terminal.
#[test]
fn three_states_are_terminal() {
    for state in all_states() {
        let expected = ["Completed", "Failed", "Cancelled"].contains(&&*state.to_string());
        assert_eq!(state.is_terminal(), expected, "{state}");
    }
}

/// "Every legal transition is tabled": all pairs of states, against the table written out here. The
/// moves are those of the paragraphs on Order, Wait, Cancel and Failure.
#[test]
fn every_transition_is_legal_or_not() {
    let legal = |from: &str, to: &str| match from {
        "Pending" => ["Running", "Cancelled"].contains(&to),
        "Running" => ["Suspended", "Blocked", "Cancelling", "Completed", "Failed"].contains(&to),
        "Suspended" => ["Running", "Cancelling"].contains(&to),
        "Blocked" => ["Suspended", "Blocked", "Cancelling"].contains(&to),
        "Cancelling" => ["Cancelled", "Failed"].contains(&to),
        _ => false,
    };
    let word = |state: TaskState| state.to_string().split('(').next().unwrap().to_string();
    for from in all_states() {
        for to in all_states() {
            let expected = legal(&word(from), &word(to));
            assert_eq!(from.may_become(to), expected, "from {from} to {to}");
        }
    }
}

/// The states a task passes through, from what a run tells of it. A turn of a task that was running
/// and was answered is Suspended between; a turn of one that is Cancelling is its cleanup.
fn moves_of(test: &TestScheduler, tid: Tid) -> Vec<TaskState> {
    let mut states: Vec<TaskState> = Vec::new();
    let mut answered = false;
    for event in test.trace().events().iter().filter(|event| event.tid == tid) {
        let next = match &event.kind {
            EventKind::Spawned { .. } => TaskState::Pending,
            EventKind::Running if states.last() == Some(&TaskState::Cancelling) => continue,
            EventKind::Running => TaskState::Running,
            EventKind::Blocked(reason) => TaskState::Blocked(*reason),
            EventKind::Woken => TaskState::Suspended,
            EventKind::Cancelling => TaskState::Cancelling,
            EventKind::Completed => TaskState::Completed,
            EventKind::Failed(_) => TaskState::Failed,
            EventKind::Cancelled => TaskState::Cancelled,
            EventKind::Answered { .. } => {
                answered = true;
                continue;
            }
            _ => continue,
        };
        let goes_on = [TaskState::Running, TaskState::Cancelling].contains(&next);
        if states.last() == Some(&TaskState::Running) && answered && goes_on {
            states.push(TaskState::Suspended);
        }
        answered = false;
        states.push(next);
    }
    states
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

/// "Every legal transition": a run goes through those of the table, and through no other.
#[test]
fn a_run_makes_legal_transitions_only() {
    let mut test = TestScheduler::with(quiet());
    let run = test.start(async {
        let completing = spawn(async {
            yield_now().await;
            sleep(secs(1)).await;
        })
        .await;
        let failing = try_spawn(async {
            turns(3).await;
            Err::<(), _>("no")
        })
        .await;
        let blocked = spawn(sleep(secs(9))).await;
        let suspended = spawn(turns(99)).await;
        let panicking = spawn(async {
            let _panics = Panics;
            sleep(secs(9)).await;
        })
        .await;
        let itself = spawn(async {
            kill_task(get_tid().await).await;
            sleep(secs(9)).await;
        })
        .await;
        // Accepted in the same breath, so the child is killed before its first turn.
        let (pending, killed) = join!(spawn(async {}), kill_task(Tid(8)));
        assert!(killed && pending.tid() == Tid(8));
        turns(3).await;
        for doomed in [&blocked, &suspended, &panicking] {
            cancel(doomed).await;
        }
        let tasks = [completing, failing, blocked, suspended, panicking, itself, pending];
        gather_settled(tasks).await.unwrap().len()
    });
    assert_eq!(test.finish(run).unwrap(), 7);
    let mut seen = std::collections::BTreeSet::new();
    for tid in 1..=8 {
        for pair in moves_of(&test, Tid(tid)).windows(2) {
            let (from, to) = (pair[0], pair[1]);
            assert!(from.may_become(to), "task {tid} went from {from} to {to}");
            let word = |state: TaskState| state.to_string().split('(').next().unwrap().to_string();
            seen.insert(format!("{} {}", word(from), word(to)));
        }
    }
    let all = "Blocked Cancelling, Blocked Suspended, Cancelling Cancelled, Cancelling Failed, \
               Pending Cancelled, Pending Running, Running Blocked, Running Cancelling, \
               Running Completed, Running Failed, Running Suspended, Suspended Cancelling, \
               Suspended Running";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(", "), all);
}

/// "Blocked(reason…)": every state that a run without a log can reach is reached, by the call it is named for.
#[test]
fn every_state_is_reached() {
    for state in STATES {
        assert_eq!(observe(state, "wait_task").before, *state);
    }
}

/// What DESIGN says about a call on a task in a state.
fn expected(state: &str, call: &str) -> Seen {
    let over = |state: &str| ["Completed", "Failed", "Cancelled"].contains(&state);
    // What the task comes to if it is left alone.
    let own_end = match state {
        "Failed" => "TFY0001",
        "Cancelled" | "Cancelling" => "TFY0003",
        _ => "7",
    };
    let cancelling = ["cancel", "kill_task"].contains(&call);
    let end = if cancelling && !over(state) { "TFY0003" } else { own_end };
    let after = match state {
        "Pending" if cancelling => "Cancelled",
        _ if cancelling && !over(state) => "Cancelling",
        state => state,
    };
    let caller = match call {
        _ if over(state) => "Completed",
        "wait" | "wait_task" => "Blocked(join)",
        "gather" => "Blocked(gather)",
        "race" => "Blocked(race)",
        _ => "Completed",
    };
    let result = match (call, own_end) {
        ("cancel", _) => "()",
        ("wait_task" | "kill_task", _) if over(state) => "false",
        ("wait_task" | "kill_task", _) => "true",
        ("gather", "7") => "[7]",
        (_, own_end) => own_end,
    };
    Seen {
        before: state.into(),
        caller: caller.into(),
        after: after.into(),
        result: result.into(),
        end: end.into(),
    }
}

fn check(call: &'static str) {
    for state in STATES {
        assert_eq!(observe(state, call), expected(state, call), "{call} on a {state} task");
    }
}

/// "**Wait** on Completed gives the value […]; on Failed raises that error; on Cancelled raises
/// TaskCancelledError; […] else blocks." On a task in each state.
#[test]
fn wait_in_each_state() {
    check("wait");
}

/// "by bare number one learns only whether the task is over". On a task in each state.
#[test]
fn wait_task_in_each_state() {
    check("wait_task");
}

/// "**Gather** […] values in input order; […] fails at once on the earliest failure or cancellation".
/// On a task in each state.
#[test]
fn gather_in_each_state() {
    check("gather");
}

/// "**Race**: the earliest terminal waitable wins […]; a failed or cancelled winner raises". On a task
/// in each state.
#[test]
fn race_in_each_state() {
    check("race");
}

/// "**Cancel** never blocks. Pending: Cancelled at once […]. Suspended or Blocked: its waits are
/// withdrawn and it becomes Cancelling; […] Terminal: no effect." On a task in each state.
#[test]
fn cancel_in_each_state() {
    check("cancel");
}

/// "KillTask(tid) is Cancel by number and answers whether that task was alive." On a task in each
/// state.
#[test]
fn kill_task_in_each_state() {
    check("kill_task");
}

/// "Blocked(reason: […])": with several calls outstanding it is the first that still waits.
#[test]
fn the_reason_is_that_of_the_oldest_call() {
    let mut test = scheduler(quiet());
    let run = test.start(async {
        let promise = promise::<()>().await;
        let future = promise.future();
        let settle = async move {
            sleep(secs(1)).await;
            promise.complete(()).await
        };
        drop(try_spawn(settle).await);
        let later = async {
            turns(2).await;
            future.await
        };
        join!(sleep(secs(5)), later).1.unwrap();
    });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)), Some(TaskState::Blocked(BlockReason::Sleep)));
    test.finish(run).unwrap();
}
