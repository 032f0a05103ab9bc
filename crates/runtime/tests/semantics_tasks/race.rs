//! DESIGN §3, Race.

use std::rc::Rc;

use tiffany::{
    Future, RaceResult, Task, TaskError, cancel, promise, race, sleep, spawn, try_spawn, wait,
};

use super::common::{Flag, Own, brief, own, quiet, run, scheduler, secs, turns};

/// A task that ends with this after so many seconds.
async fn after(seconds: u64, result: Result<u32, &'static str>) -> Rc<Task<u32>> {
    let task = try_spawn(async move {
        sleep(secs(seconds)).await;
        result
    });
    Rc::new(task.await)
}

/// A race in a few words: the winner's value and number, and the numbers of the rest.
fn told(result: Result<RaceResult<Rc<Task<u32>>>, TaskError>) -> String {
    match result {
        Ok(RaceResult { first, value, rest }) => {
            let rest: Vec<u64> = rest.iter().map(|task| task.tid().0).collect();
            format!("{value} of task {} before {rest:?}", first.tid())
        }
        Err(error) => error.code().to_string(),
    }
}

/// "**Race**: the earliest terminal waitable wins": whatever its place in the arguments, and whether
/// they end before the call or after it.
#[test]
fn the_earliest_wins() {
    for waited in 0..7 {
        run(async move {
            let tasks = [after(3, Ok(30)).await, after(1, Ok(10)).await, after(5, Ok(50)).await];
            sleep(secs(waited)).await;
            let result = told(race(tasks).await);
            assert_eq!(result, "10 of task 3 before [2, 4]", "called after {waited} seconds");
        });
    }
}

/// "the earliest": of two that end at the same moment of the clock, the one that ended first.
#[test]
fn of_one_round_the_first_to_end_wins() {
    run(async {
        let slow = spawn(async {
            turns(4).await;
            4
        });
        let slow = Rc::new(slow.await);
        let fast = Rc::new(spawn(async { 1 }).await);
        turns(9).await;
        assert_eq!(told(race([slow, fast]).await), "1 of task 3 before [2]");
    });
}

/// "ties by argument order": the same waitable twice is the one tie there can be.
#[test]
fn ties_go_by_argument_order() {
    run(async {
        let one = after(1, Ok(10)).await;
        let other = after(9, Ok(90)).await;
        for name in ["pending", "over"] {
            let items = [Rc::clone(&other), Rc::clone(&one), Rc::clone(&one)];
            let RaceResult { first, rest, .. } = race(items).await.unwrap();
            assert_eq!(first.tid(), one.tid(), "{name}");
            let rest: Vec<u64> = rest.iter().map(|task| task.tid().0).collect();
            assert_eq!(rest, [other.tid().0, one.tid().0], "{name}: its double is left");
        }
        cancel(&*other).await;
    });
}

/// "a failed or cancelled winner raises": before and after.
#[test]
fn a_failed_or_cancelled_winner_raises() {
    for waited in [0, 3] {
        run(async move {
            let failing = [after(9, Ok(1)).await, after(2, Err("bad")).await];
            let doomed = after(9, Ok(1)).await;
            let cancelled = [after(8, Ok(2)).await, Rc::clone(&doomed)];
            let killer = spawn(async move {
                sleep(secs(1)).await;
                cancel(&*doomed).await;
            })
            .await;
            sleep(secs(waited)).await;
            assert_eq!(told(race(cancelled).await), "TFY0003");
            assert_eq!(race(failing).await.unwrap_err().message(), "bad");
            killer.await.unwrap();
        });
    }
}

/// "a failed […] winner raises": one that fails later than the winner changes nothing.
#[test]
fn a_later_failure_changes_nothing() {
    run(async {
        let tasks = [after(2, Err("late")).await, after(1, Ok(10)).await];
        sleep(secs(5)).await;
        assert_eq!(told(race(tasks).await), "10 of task 3 before [2]");
    });
}

/// "nothing to race is an error at the call": which has its line.
#[test]
fn nothing_to_race_is_an_error_at_the_call() {
    run(async {
        let (call, line) = (race(Vec::<Task<u32>>::new()), line!());
        let error = call.await.unwrap_err();
        assert_eq!(error.code(), "TFY0006");
        assert_eq!(error.call_site().unwrap().line, line);
        let futures = race(Vec::<Future<u32>>::new()).await.unwrap_err();
        assert_eq!(futures.code(), "TFY0006");
    });
}

/// "the answer is RaceResult { first, value, rest }": promises race like tasks.
#[test]
fn the_answer_names_the_first_its_value_and_the_rest() {
    run(async {
        let (one, two, three) =
            (promise::<u32>().await, promise::<u32>().await, promise::<u32>().await);
        let futures = [one.future(), two.future(), three.future()];
        let racing = spawn(async move {
            let RaceResult { first, value, rest } = race(futures).await.unwrap();
            let (again, left) = (wait(first).await, rest.len());
            let rest = tiffany::gather(rest).await;
            (again, value, left, rest)
        })
        .await;
        turns(2).await;
        two.complete(2).await.unwrap();
        three.complete(3).await.unwrap();
        one.complete(1).await.unwrap();
        let (again, value, left, rest) = racing.await.unwrap();
        assert_eq!((again, value, left), (Ok(2), 2, 2));
        assert_eq!(rest, Ok(vec![1, 3]), "in argument order");
    });
}

/// "losers go on running": to their own end, and can be raced again.
#[test]
fn losers_go_on_running() {
    let done = Flag::default();
    let flag = Rc::clone(&done);
    run(async move {
        let flag = Rc::clone(&flag);
        let slow = spawn(async move {
            sleep(secs(5)).await;
            flag.set(true);
            50
        });
        let tasks = [Rc::new(slow.await), after(1, Ok(10)).await, after(3, Ok(30)).await];
        let RaceResult { value, rest, .. } = race(tasks).await.unwrap();
        assert_eq!(value, 10);
        let RaceResult { value, rest, .. } = race(rest).await.unwrap();
        assert_eq!(value, 30);
        assert_eq!(race(rest).await.unwrap().value, 50);
    });
    assert!(done.get());
}

/// "losers go on running": those whose handles are dropped too.
#[test]
fn dropped_losers_go_on_running() {
    let done = Flag::default();
    let flag = Rc::clone(&done);
    let mut test = scheduler(quiet());
    test.run(async move {
        let slow = spawn(async move {
            sleep(secs(5)).await;
            flag.set(true);
        })
        .await;
        drop(race([slow, spawn(async {}).await]).await.unwrap());
    })
    .unwrap();
    assert!(done.get());
}

/// "on itself is an error" (Wait): among others in a Race too.
#[test]
fn racing_itself_is_an_error() {
    run(async {
        let place = Own::<u32>::default();
        let mine = Rc::clone(&place);
        let task = spawn(async move {
            let me = own(&mine).await;
            let result = race([me]).await.map(|_| ());
            mine.borrow_mut().take();
            u32::from(brief(result) == "TFY0005")
        })
        .await;
        let task = Rc::new(task);
        *place.borrow_mut() = Some(Rc::clone(&task));
        assert_eq!(wait(&*task).await, Ok(1));
    });
}
