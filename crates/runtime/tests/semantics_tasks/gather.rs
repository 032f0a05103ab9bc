//! DESIGN §3, Gather.

use std::cell::Cell;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    Future, Task, TaskError, Tid, Value, cancel, gather, gather_settled, get, get_log, promise,
    put, sleep, spawn, tell, try_spawn,
};

use super::common::{Flag, Log, Own, brief, own, quiet, run, scheduler, secs, turns};

fn texts(log: Vec<Value>) -> String {
    let texts: Vec<&str> = log.into_iter().map(|entry| entry.get::<&str>().unwrap()).collect();
    texts.join(" ")
}

/// A task that ends with this after so many seconds.
async fn after(seconds: u64, result: Result<u32, &'static str>) -> Task<u32> {
    try_spawn(async move {
        sleep(secs(seconds)).await;
        result
    })
    .await
}

/// A child that tells these words, one a turn.
async fn teller(words: &'static [&'static str]) -> Task<()> {
    spawn(async move {
        for word in words {
            tell(*word).await;
        }
    })
    .await
}

/// "**Gather**: `[]` for nothing"
#[test]
fn nothing_gives_an_empty_list() {
    run(async {
        assert_eq!(gather(Vec::<Task<u32>>::new()).await, Ok(vec![]));
        assert_eq!(gather(Vec::<Future<u32>>::new()).await, Ok(vec![]));
        assert_eq!(gather_settled(Vec::<Task<u32>>::new()).await, Ok(vec![]));
    });
}

/// "values in input order": whatever the order they end in.
#[test]
fn values_come_in_input_order() {
    for delays in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [0, 0, 0]] {
        run(async move {
            let mut tasks = Vec::new();
            for (n, delay) in delays.into_iter().enumerate() {
                tasks.push(after(delay, Ok(n as u32)).await);
            }
            assert_eq!(gather(tasks).await, Ok(vec![0, 1, 2]), "ending after {delays:?}");
        });
    }
}

/// "values in input order": with some over before the call, some at it, some after.
#[test]
fn it_takes_those_that_are_over_already() {
    for waited in 0..5 {
        run(async move {
            let tasks = [after(1, Ok(1)).await, after(3, Ok(3)).await, after(2, Ok(2)).await];
            sleep(secs(waited)).await;
            assert_eq!(gather(tasks).await, Ok(vec![1, 3, 2]), "called after {waited} seconds");
        });
    }
}

/// "values in input order": promises are gathered like tasks.
#[test]
fn promises_are_gathered_too() {
    run(async {
        let (one, two) = (promise::<u32>().await, promise::<u32>().await);
        let futures = [one.future(), two.future()];
        let gathered = spawn(async move { gather(futures).await }).await;
        turns(2).await;
        two.complete(2).await.unwrap();
        one.complete(1).await.unwrap();
        assert_eq!(gathered.await.unwrap(), Ok(vec![1, 2]));
    });
}

/// "duplicates allowed": pending, over, failing, and beside others.
#[test]
fn duplicates_are_allowed() {
    run(async {
        let (one, two) = (Rc::new(after(1, Ok(1)).await), Rc::new(after(2, Ok(2)).await));
        let twice = || [Rc::clone(&one), Rc::clone(&two), Rc::clone(&one), Rc::clone(&one)];
        assert_eq!(gather(twice()).await, Ok(vec![1, 2, 1, 1]), "pending");
        assert_eq!(gather(twice()).await, Ok(vec![1, 2, 1, 1]), "over");
        let bad = Rc::new(after(1, Err("bad")).await);
        let both = || [Rc::clone(&two), Rc::clone(&bad), Rc::clone(&bad)];
        assert_eq!(gather(both()).await.unwrap_err().message(), "bad", "pending and failing");
        assert_eq!(gather(both()).await.unwrap_err().message(), "bad", "failed");
        let results = gather_settled(both()).await.unwrap();
        let brief: Vec<String> = results.into_iter().map(brief).collect();
        assert_eq!(brief, ["2", "TFY0001", "TFY0001"]);
    });
}

/// "fails at once on the earliest failure": earliest by time, not by input order.
#[test]
fn it_fails_at_once_on_the_earliest_failure() {
    let mut test = scheduler(quiet());
    let error = test.run(async {
        let tasks =
            [after(9, Ok(1)).await, after(3, Err("late")).await, after(2, Err("early")).await];
        let error = gather(tasks).await.unwrap_err();
        (error.message().to_string(), tiffany::now().await.as_nanos())
    });
    assert_eq!(error.unwrap(), ("early".to_string(), 2_000_000_000), "at two seconds");
}

/// "on the earliest failure": also when several have failed before the call.
#[test]
fn the_earliest_of_several_that_failed_before_counts() {
    run(async {
        let tasks =
            [after(3, Err("late")).await, after(2, Err("early")).await, after(9, Ok(1)).await];
        sleep(secs(5)).await;
        assert_eq!(gather(tasks).await.unwrap_err().message(), "early");
    });
}

/// "or cancellation": it counts like a failure, whichever is earlier.
#[test]
fn a_cancellation_counts_like_a_failure() {
    for (cancelled_at, expected) in [(1, "TFY0003"), (3, "TFY0001")] {
        run(async move {
            let (slow, failing) =
                (Rc::new(after(9, Ok(1)).await), Rc::new(after(2, Err("own")).await));
            let both = [Rc::clone(&slow), failing];
            let gathered = spawn(async move { gather(both).await }).await;
            sleep(secs(cancelled_at)).await;
            cancel(&*slow).await;
            let error = gathered.await.unwrap().unwrap_err();
            assert_eq!(error.code(), expected, "cancelled at {cancelled_at}, failing at 2");
        });
    }
}

/// "the others go on running": to their own end.
#[test]
fn the_others_go_on_running() {
    let done = Flag::default();
    let flag = Rc::clone(&done);
    run(async move {
        let flag = Rc::clone(&flag);
        let slow = spawn(async move {
            sleep(secs(5)).await;
            flag.set(true);
            1
        })
        .await;
        assert!(gather([slow, after(1, Err("bad")).await]).await.is_err());
    });
    assert!(done.get());
}

/// "a variant returns results and errors side by side": when all are over.
#[test]
fn a_variant_returns_results_and_errors() {
    run(async {
        let slow = Rc::new(after(8, Ok(8)).await);
        let tasks = vec![
            Rc::new(after(3, Ok(1)).await),
            Rc::new(after(1, Err("no")).await),
            Rc::clone(&slow),
            Rc::new(after(2, Ok(2)).await),
        ];
        let settled = spawn(async move { gather_settled(tasks).await }).await;
        sleep(secs(4)).await;
        cancel(&*slow).await;
        let results: Vec<String> = settled.await.unwrap().unwrap().into_iter().map(brief).collect();
        assert_eq!(results, ["1", "TFY0001", "TFY0003", "2"]);
        assert_eq!(tiffany::now().await.as_nanos(), 4_000_000_000, "not before all are over");
    });
}

/// "On success the entries each distinct child added to its log […] are appended to the parent's log
/// in input order": by child, not by time.
#[test]
fn logs_are_appended_in_input_order() {
    run(async {
        tell("parent").await;
        let (a, b) = (teller(&["a1", "a2"]).await, teller(&["b1", "b2", "b3"]).await);
        gather([b, a]).await.unwrap();
        tell("after").await;
        assert_eq!(texts(get_log().await), "parent b1 b2 b3 a1 a2 after");
    });
}

/// "since its spawn": not the entries it had from its parent's snapshot.
#[test]
fn only_entries_since_the_spawn_are_appended() {
    run(async {
        tell("before").await;
        let child = spawn(async {
            tell("child").await;
            let grandchild = teller(&["grandchild"]).await;
            gather([grandchild]).await.unwrap();
        })
        .await;
        tell("meanwhile").await;
        gather([child]).await.unwrap();
        assert_eq!(texts(get_log().await), "before meanwhile child grandchild");
    });
}

/// "each distinct child […] once per child": a duplicate adds nothing.
#[test]
fn each_child_is_merged_once() {
    run(async {
        let (a, b) = (Rc::new(teller(&["a"]).await), Rc::new(teller(&["b"]).await));
        gather([Rc::clone(&b), Rc::clone(&a), Rc::clone(&b), a]).await.unwrap();
        assert_eq!(texts(get_log().await), "b a");
    });
}

/// "On success": a Gather that fails leaves the log as it was.
#[test]
fn a_failed_gather_appends_nothing() {
    run(async {
        tell("parent").await;
        let told = teller(&["told"]).await;
        turns(3).await;
        let bad = try_spawn(async { Err::<(), _>("bad") }).await;
        assert!(gather([told, bad]).await.is_err());
        assert_eq!(texts(get_log().await), "parent");
    });
}

/// "are appended to the parent's log": a Wait appends nothing; only Gather does.
#[test]
fn a_wait_appends_nothing() {
    run(async {
        teller(&["told"]).await.await.unwrap();
        assert_eq!(texts(get_log().await), "");
    });
}

/// "state is never merged"
#[test]
fn state_is_never_merged() {
    run(async {
        put("key", 1u32).await;
        let child = spawn(async {
            put("key", 2u32).await;
            put("new", 3u32).await;
            tell("told").await;
        })
        .await;
        gather([child]).await.unwrap();
        assert_eq!(get::<u32>("key").await, Some(1));
        assert_eq!(get::<u32>("new").await, None);
        assert_eq!(texts(get_log().await), "told", "while the log is");
    });
}

/// "on itself is an error" (Wait): among others in a Gather too, which could never be answered.
#[test]
fn gathering_itself_is_an_error() {
    run(async {
        let place = Own::<String>::default();
        let mine = Rc::clone(&place);
        let task = spawn(async move {
            let me = own(&mine).await;
            let other = Rc::new(spawn(async { String::new() }).await);
            let result = gather([other, me]).await;
            mine.borrow_mut().take();
            brief(result)
        })
        .await;
        let task = Rc::new(task);
        *place.borrow_mut() = Some(Rc::clone(&task));
        assert_eq!(tiffany::wait(&*task).await.unwrap(), "TFY0005");
    });
}

/// "fails at once": and the call that failed leaves nothing behind that could wake its task again.
#[test]
fn a_failed_gather_is_over() {
    let log = Log::new();
    let notes = log.clone();
    let mut test = TestScheduler::new();
    test.run(async move {
        let late = promise::<u32>().await;
        let (bad, future) = (promise::<u32>().await, late.future());
        bad.fail(TaskError::failed("bad")).await.unwrap();
        let both = [bad.future(), future];
        let counted = Rc::new(Cell::new(0));
        let count = Rc::clone(&counted);
        let waiter = spawn(async move {
            assert!(gather(both).await.is_err());
            count.set(count.get() + 1);
            sleep(secs(5)).await;
            count.set(count.get() + 1);
        })
        .await;
        turns(3).await;
        late.complete(1).await.unwrap();
        turns(3).await;
        notes.note(counted.get());
        waiter.await.unwrap();
        notes.note(counted.get());
    })
    .unwrap();
    assert_eq!(log.text(), "1 2");
    assert_eq!(test.now().as_nanos(), 5_000_000_000);
    let woken = test
        .trace()
        .events()
        .iter()
        .filter(|event| event.tid == Tid(2))
        .fold(0, |n, e| n + usize::from(e.to_string().contains("woken")));
    assert_eq!(woken, 1, "by its timer alone:\n{}", test.trace());
}
