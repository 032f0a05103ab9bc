//! "Also there, since users expect them": Yield, GetTid, channels, locks, groups, names and limits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, Limits, RunError, Runtime, TaskError, Tid, cancel, channel, charge, gather, get_tid,
    group, join, mutex, select, semaphore, sleep, spawn, try_spawn, unbounded_channel, yield_now,
};

use super::{Notes, assert_names, ms, secs};

fn limited(limits: Limits) -> TestScheduler {
    TestScheduler::with(Runtime::builder().limits(limits))
}

/// "Yield": lets the others run, and comes back after them.
#[test]
fn yield_lets_the_others_run() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let other = notes.clone();
            let child = async move {
                other.add("child");
                yield_now().await;
                other.add("child again");
            };
            drop(spawn(child).await);
            notes.add("parent");
            yield_now().await;
            notes.add("parent again");
        })
        .unwrap();
    assert_eq!(seen.take(), ["child", "parent", "child again", "parent again"]);
}

/// "GetTid": "`tid` is a small integer, given in order, unique in its run".
#[test]
fn get_tid_tells_who_one_is() {
    let tids = TestScheduler::new().run(async {
        let mut tasks = Vec::new();
        for _ in 0..3 {
            tasks.push(spawn(get_tid()).await);
        }
        let handles: Vec<Tid> = tasks.iter().map(|task| task.tid()).collect();
        let own = gather(tasks).await.unwrap();
        assert_eq!(handles, own);
        (get_tid().await, own)
    });
    assert_eq!(tids.unwrap(), (Tid(1), vec![Tid(2), Tid(3), Tid(4)]));
}

/// "channels": bounded ones let the sender wait for room; with no room at all a message passes from hand
/// to hand; unbounded ones never let a sender wait. Nothing is lost or reordered in any of them.
#[test]
fn channels_of_any_capacity() {
    for (capacity, sent_before_the_first_receive) in
        [(Some(0), 0), (Some(1), 1), (Some(3), 3), (None, 10)]
    {
        let sent = Rc::new(Cell::new(0));
        let count = Rc::clone(&sent);
        let received = TestScheduler::new()
            .run(async move {
                let (sender, receiver) = match capacity {
                    Some(capacity) => channel::<u32>(capacity).await,
                    None => unbounded_channel::<u32>().await,
                };
                let counter = Rc::clone(&count);
                let producer = spawn(async move {
                    for n in 0..10 {
                        sender.send(n).await.unwrap();
                        counter.set(counter.get() + 1);
                    }
                });
                drop(producer.await);
                sleep(secs(1)).await;
                assert_eq!(count.get(), sent_before_the_first_receive, "{capacity:?}");
                let mut received = Vec::new();
                while let Some(n) = receiver.receive().await.unwrap() {
                    received.push(n);
                }
                received
            })
            .unwrap();
        assert_eq!(received, Vec::from_iter(0..10), "{capacity:?}");
        assert_eq!(sent.get(), 10);
    }
}

/// "channels": the last sender that goes ends it, after what is left in it; the receiver that goes makes
/// sending an error, for those who wait too.
#[test]
fn channels_end() {
    TestScheduler::new()
        .run(async {
            let (sender, receiver) = channel::<u32>(2).await;
            let other = sender.clone();
            sender.send(1).await.unwrap();
            drop(sender);
            other.send(2).await.unwrap();
            drop(other);
            assert_eq!(receiver.receive().await, Ok(Some(1)));
            assert_eq!(receiver.receive().await, Ok(Some(2)));
            assert_eq!(receiver.receive().await, Ok(None));
            assert_eq!(receiver.receive().await, Ok(None));

            let (sender, receiver) = channel::<u32>(0).await;
            let waiting = spawn(async move { receiver.receive().await }).await;
            yield_now().await;
            drop(sender);
            assert_eq!(waiting.await.unwrap(), Ok(None), "one that waits is told");

            let (sender, receiver) = channel::<u32>(1).await;
            sender.send(1).await.unwrap();
            let line = line!() + 1;
            let blocked = spawn(async move { (sender.send(2).await, sender) }).await;
            yield_now().await;
            drop(receiver);
            let (result, sender) = blocked.await.unwrap();
            let error = result.unwrap_err();
            assert_names(&error, "TFY0023", Tid(3), "send", line);
            let line = line!() + 1;
            let error = sender.send(3).await.unwrap_err();
            assert_names(&error, "TFY0023", Tid(1), "send", line);
        })
        .unwrap();
}

/// "a message to the front of its channel" goes back when the receive that was answered is dropped
/// before it took the message: nothing is lost, and the order stays.
#[test]
fn a_message_that_was_not_taken_goes_back() {
    TestScheduler::new()
        .run(async {
            let (sender, receiver) = unbounded_channel::<u32>().await;
            let receiver = Rc::new(RefCell::new(receiver));
            let held = Rc::clone(&receiver);
            let doomed = spawn(async move {
                let call = held.borrow_mut().receive();
                call.await
            })
            .await;
            yield_now().await;
            // The task is answered with 1 and cancelled before its turn.
            let (first, second, cancelled) = join!(sender.send(1), sender.send(2), cancel(&doomed));
            let () = cancelled;
            first.and(second).unwrap();
            assert!(doomed.await.unwrap_err().is_cancelled());
            for expected in [1, 2] {
                let call = receiver.borrow_mut().receive();
                assert_eq!(call.await, Ok(Some(expected)));
            }
        })
        .unwrap();
}

/// "a message to the front of its channel": several that go back at once keep their order.
#[test]
fn several_messages_that_were_not_taken_go_back() {
    let received = TestScheduler::new().run(async {
        let (sender, receiver) = unbounded_channel::<u32>().await;
        let receiver = Rc::new(RefCell::new(receiver));
        let held = Rc::clone(&receiver);
        let doomed = spawn(async move {
            let [one, two, three] = [(); 3].map(|()| held.borrow_mut().receive());
            let _never = join!(one, two, three);
        })
        .await;
        yield_now().await;
        let sends = tiffany::join_all((1..=4).map(|n| sender.send(n)));
        let (sent, ()) = join!(sends, cancel(&doomed));
        assert!(sent.iter().all(Result::is_ok));
        drop(sender);
        assert!(doomed.await.unwrap_err().is_cancelled());
        let mut received = Vec::new();
        loop {
            let call = receiver.borrow_mut().receive();
            let Some(n) = call.await.unwrap() else { break received };
            received.push(n);
        }
    });
    assert_eq!(received.unwrap(), [1, 2, 3, 4]);
}

/// "dropping it later withdraws it": a sender that gives up waiting takes its message with it.
#[test]
fn a_send_that_is_dropped_sends_nothing() {
    TestScheduler::new()
        .run(async {
            let (sender, receiver) = channel::<u32>(1).await;
            sender.send(1).await.unwrap();
            let given_up = select! {
                _ = sender.send(2) => false,
                () = sleep(ms(1)) => true,
            };
            assert!(given_up);
            assert_eq!(receiver.receive().await, Ok(Some(1)));
            sender.send(3).await.unwrap();
            drop(sender);
            assert_eq!(receiver.receive().await, Ok(Some(3)));
            assert_eq!(receiver.receive().await, Ok(None));
        })
        .unwrap();
}

/// "mutex": one task has the value at a time, even across its calls; who waits longest is next.
#[test]
fn mutex_across_awaits() {
    let notes = Notes::new();
    let seen = notes.clone();
    let total = TestScheduler::new()
        .run(async move {
            let total = mutex(0u32).await;
            let mut tasks = Vec::new();
            for n in 0..4 {
                let (total, notes) = (total.clone(), notes.clone());
                tasks.push(
                    spawn(async move {
                        let mut guard = total.lock().await.unwrap();
                        let before = *guard;
                        sleep(ms(10 - n)).await;
                        *guard = before + 1;
                        notes.add(n);
                    })
                    .await,
                );
            }
            gather(tasks).await.unwrap();
            *total.lock().await.unwrap()
        })
        .unwrap();
    assert_eq!(total, 4);
    assert_eq!(seen.take(), [0, 1, 2, 3]);
}

/// "mutex": a holder that panics or is cancelled gives it up; the next one gets it.
#[test]
fn mutex_whose_holder_dies() {
    for cancelled in [true, false] {
        let settings = Runtime::builder().on_unobserved(|_| {});
        let value = TestScheduler::with(settings).run(async move {
            let value = mutex(1u32).await;
            let held = value.clone();
            let holder = spawn(async move {
                let _guard = held.lock().await.unwrap();
                sleep(secs(1)).await;
                panic!("while it holds the mutex");
            })
            .await;
            yield_now().await;
            yield_now().await;
            if cancelled {
                cancel(&holder).await;
            }
            *value.lock().await.unwrap()
        });
        assert_eq!(value.unwrap(), 1);
    }
}

/// "semaphore (FIFO": in the order they asked; a large request is not passed by smaller ones behind it.
#[test]
fn semaphore_is_first_in_first_out() {
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let permits = semaphore(3).await;
            let first = permits.acquire_many(2).await.unwrap();
            let mut tasks = Vec::new();
            for (name, count) in [("three", 3), ("one", 1), ("two", 2)] {
                let (permits, notes) = (permits.clone(), notes.clone());
                tasks.push(
                    spawn(async move {
                        let _permit = permits.acquire_many(count).await.unwrap();
                        notes.add(name);
                        sleep(ms(1)).await;
                    })
                    .await,
                );
            }
            sleep(secs(1)).await;
            assert_eq!(
                notes.take(),
                Vec::<&str>::new(),
                "one permit is free, but three were asked for"
            );
            drop(first);
            gather(tasks).await.unwrap();
        })
        .unwrap();
    assert_eq!(seen.take(), ["three", "one", "two"]);
}

/// "the permit survives a cancelled receiver": one that was given a permit and is cancelled before it
/// could take it passes it on; so does one that only waited.
#[test]
fn the_permit_survives_a_cancelled_receiver() {
    for answered_first in [true, false] {
        let served = TestScheduler::new().run(async move {
            let permits = semaphore(1).await;
            let held = permits.acquire().await.unwrap();
            let (one, two) = (permits.clone(), permits.clone());
            let doomed = spawn(async move { one.acquire().await.map(drop) }).await;
            let next = spawn(async move { two.acquire().await.map(drop) }).await;
            yield_now().await;
            if answered_first {
                // Both in one turn: the permit goes to the first, which never has another turn.
                drop(held);
                cancel(&doomed).await;
            } else {
                cancel(&doomed).await;
                drop(held);
            }
            assert!(doomed.await.unwrap_err().is_cancelled());
            next.await.unwrap().unwrap();
            permits.acquire_many(1).await.map(drop)
        });
        assert_eq!(served.unwrap(), Ok(()), "answered first: {answered_first}");
    }
}

/// "the permit survives a cancelled receiver": a large request that gives up lets those behind it through.
#[test]
fn a_large_request_that_gives_up() {
    TestScheduler::new()
        .run(async {
            let permits = semaphore(2).await;
            let _held = permits.acquire().await.unwrap();
            let (many, one) = (permits.clone(), permits.clone());
            let large = spawn(async move { many.acquire_many(2).await.map(drop) }).await;
            let small = spawn(async move { one.acquire().await.map(drop) }).await;
            sleep(secs(1)).await;
            cancel(&large).await;
            small.await.unwrap().unwrap();
        })
        .unwrap();
}

/// "task groups that cancel their members": a failure cancels the others, and is what join gives.
#[test]
fn a_group_cancels_its_members_when_one_fails() {
    let notes = Notes::new();
    let shown = notes.clone();
    let settings = Runtime::builder().on_unobserved(move |error| notes.add(error.to_string()));
    TestScheduler::with(settings)
        .run(async {
            let group = group().await;
            let sleeper = spawn(sleep(secs(3600))).group(&group).await;
            let waiter = spawn(std::future::pending::<()>()).group(&group).await;
            let culprit = try_spawn(async {
                sleep(secs(1)).await;
                Err::<(), _>("no luck")
            });
            drop(culprit.group(&group).await);
            let outside = spawn(async { 5 }).await;
            assert_eq!(group.join().await.unwrap_err().message(), "no luck");
            assert_eq!(group.join().await.unwrap_err().message(), "no luck", "as often as asked");
            assert!(sleeper.await.unwrap_err().is_cancelled());
            assert!(waiter.await.unwrap_err().is_cancelled());
            assert_eq!(outside.await, Ok(5));
            assert_eq!(tiffany::now().await.as_nanos(), 1_000_000_000);
        })
        .unwrap();
    assert_eq!(shown.take(), Vec::<String>::new(), "a failure that was joined is not shown");
}

/// "task groups that cancel their members": without a failure join waits for all and is content; a
/// cancelled member is no failure.
#[test]
fn a_group_without_failures() {
    TestScheduler::new()
        .run(async {
            let group = group().await;
            assert_eq!(group.join().await, Ok(()), "an empty group is over");
            let short = spawn(sleep(secs(1))).group(&group).await;
            let long = spawn(sleep(secs(2))).group(&group).await;
            let doomed = spawn(sleep(secs(3600))).group(&group).await;
            yield_now().await;
            cancel(&doomed).await;
            assert_eq!(group.join().await, Ok(()));
            assert_eq!(tiffany::now().await.as_nanos(), 2_000_000_000);
            assert_eq!((short.await, long.await), (Ok(()), Ok(())));
        })
        .unwrap();
}

/// "task groups that cancel their members": when the group is dropped, and so when the task that has it
/// is cancelled, fails or returns.
#[test]
fn a_group_cancels_its_members_when_dropped() {
    for how in ["dropped", "returned", "cancelled", "panicked"] {
        let mut test = TestScheduler::with(Runtime::builder().on_unobserved(|_| {}));
        test.run(async move {
            let holder = spawn(async move {
                let group = group().await;
                drop(spawn(sleep(secs(3600))).name("member").group(&group).await);
                yield_now().await;
                drop(spawn(sleep(secs(3600))).name("not yet run").group(&group).await);
                match how {
                    "dropped" => {
                        drop(group);
                        sleep(secs(1)).await;
                    }
                    "returned" => {}
                    "cancelled" => sleep(secs(3600)).await,
                    _ => panic!("with a group"),
                }
            })
            .await;
            sleep(ms(1)).await;
            cancel(&holder).await;
        })
        .unwrap();
        assert_eq!(test.now().as_nanos(), 1_000_000, "{how}: the members slept on");
        let trace = test.trace().to_string();
        for member in ["task 3 cancelled", "task 4 cancelled"] {
            assert!(trace.contains(member), "{how}: {member} in {trace}");
        }
    }
}

/// "one that nobody waits for is shown at the end of the run": so is the failure of a group that nobody
/// joins, once.
#[test]
fn a_group_failure_nobody_joins_is_shown() {
    let notes = Notes::new();
    let shown = notes.clone();
    let settings =
        Runtime::builder().on_unobserved(move |error| notes.add(error.message().to_string()));
    TestScheduler::with(settings)
        .run(async {
            let group = group().await;
            drop(try_spawn(async { Err::<(), _>("unjoined") }).group(&group).await);
            sleep(secs(1)).await;
            drop(group);
        })
        .unwrap();
    assert_eq!(shown.take(), ["unjoined"]);
}

/// "task groups that cancel their members": a group that was dropped takes no more members; the spawn is an
/// error and nothing runs.
#[test]
fn a_dropped_group_takes_no_members() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in Drop");
            }
        }
    }
    let settings = Runtime::builder().on_unobserved(|_| {});
    TestScheduler::with(settings)
        .run(async {
            let group = group().await;
            let member = async {
                let _panics = PanicsInDrop;
                sleep(secs(3600)).await;
            };
            drop(spawn(member).group(&group).await);
            yield_now().await;
            let late = spawn(async { panic!("must not run") }).group(&group);
            drop(group);
            let error = late.checked().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
            sleep(secs(1)).await;
        })
        .unwrap();
}

/// "on itself is an error": a member that joins its own group would wait for itself.
#[test]
fn a_member_that_joins_its_own_group() {
    let error = TestScheduler::new().run(async {
        let group = Rc::new(group().await);
        let held = Rc::clone(&group);
        let line = line!() + 1;
        let member = spawn(async move { held.join().await }).group(&group).await;
        let error = member.await.unwrap().unwrap_err();
        assert_names(&error, "TFY0005", Tid(2), "join_group", line);
        group.join().await
    });
    assert_eq!(error.unwrap(), Ok(()));
}

/// "task names": in the errors of a task, and of those it went through.
#[test]
fn task_names() {
    TestScheduler::with(Runtime::builder().name("main"))
        .run(async {
            let child = try_spawn(async {
                let worker = try_spawn(async { Err::<(), _>("broken") }).name("worker").await;
                worker.await
            });
            let error = child.name("manager").await.await.unwrap_err();
            assert_eq!(error.task().unwrap().name.as_deref(), Some("worker"));
            assert_eq!(error.through()[0].name.as_deref(), Some("manager"));
            let text = error.to_string();
            assert!(text.contains("`worker`") && text.contains("`manager`"), "{text}");
            let error = tiffany::sleep_secs(-1.0).checked().await.unwrap_err();
            assert_eq!(error.task().unwrap().name.as_deref(), Some("main"), "the root has one too");
        })
        .unwrap();
}

/// "per-run limits (tasks": the spawn that is one too many is an error; with fewer alive it works again.
#[test]
fn the_limit_of_tasks() {
    limited(Limits { max_tasks: Some(3), ..Limits::default() })
        .run(async {
            let first = spawn(sleep(secs(1))).await;
            let second = spawn(sleep(secs(2))).await;
            let line = line!() + 1;
            let error = spawn(async {}).checked().await.unwrap_err();
            assert_names(&error, "TFY0014", Tid(1), "spawn", line);
            assert!(error.message().contains('3'), "{error}");
            first.await.unwrap();
            let third = spawn(async { 3 }).checked().await.unwrap();
            assert_eq!(third.tid(), Tid(4), "a spawn that failed used up no number");
            assert_eq!(third.await, Ok(3));
            second.await.unwrap();
        })
        .unwrap();
}

/// "per-run limits (tasks, calls": the call that is one too many ends the run, with its task and line.
#[test]
fn the_limit_of_calls() {
    for limit in [1, 10, 100] {
        let error = limited(Limits { max_calls: Some(limit), ..Limits::default() })
            .run(async {
                drop(spawn(sleep(secs(3600))).await);
                loop {
                    yield_now().await;
                }
            })
            .map(|never: std::convert::Infallible| match never {})
            .unwrap_err();
        let RunError::Limit(error) = error else { panic!("{error}") };
        assert_eq!(error.code(), "TFY0015");
        assert!(error.task().is_some() && error.call_site().is_some(), "{error}");
        assert!(error.message().contains(&limit.to_string()), "{error}");
    }
    let exactly = limited(Limits { max_calls: Some(5), ..Limits::default() }).run(async {
        for _ in 0..5 {
            yield_now().await;
        }
    });
    assert!(exactly.is_ok(), "the limit itself is allowed");
}

/// "per-run limits (tasks, calls, wall time": the run ends when its time is over, its tasks unwound.
#[test]
fn the_limit_of_time() {
    let unwound = Notes::new();
    let seen = unwound.clone();
    struct Cleanup(Notes<&'static str>);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            self.0.add("unwound");
        }
    }
    let mut test = limited(Limits { max_time: Some(secs(10)), ..Limits::default() });
    let error = test
        .run(async move {
            let _cleanup = Cleanup(unwound);
            sleep(secs(3600)).await;
        })
        .unwrap_err();
    assert!(matches!(error, RunError::Limit(_)), "{error}");
    assert_eq!(error.code(), "TFY0016");
    assert_eq!(test.now().as_nanos(), 10_000_000_000);
    assert_eq!(seen.take(), ["unwound"]);
    let mut test = limited(Limits { max_time: Some(secs(10)), ..Limits::default() });
    assert!(test.run(sleep(secs(9))).is_ok());
}

/// "per-run limits (tasks, calls, wall time, cost)": what would go over it is refused and not counted.
#[test]
fn the_limit_of_cost() {
    let result: Result<(), TaskError> =
        limited(Limits { max_cost: Some(100), ..Limits::default() })
            .run(async {
                charge(60).await?;
                let child = spawn(charge(40)).await;
                child.await??;
                let line = line!() + 1;
                let error = charge(1).await.unwrap_err();
                assert_names(&error, "TFY0017", Tid(1), "charge", line);
                let error = charge(u64::MAX).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::CostLimit);
                charge(0).await
            })
            .unwrap();
    assert_eq!(result, Ok(()));
}

/// "limits are per run": what one run uses up is not missing in another.
#[test]
fn limits_are_per_run() {
    let limits = Limits { max_cost: Some(10), max_calls: Some(10), ..Limits::default() };
    let mut test = limited(limits);
    for _ in 0..3 {
        let run = test.run(async {
            charge(10).await.unwrap();
            for _ in 0..9 {
                yield_now().await;
            }
        });
        assert!(run.is_ok());
    }
}

/// "channels": receivers can be shared, as the workers of a pool do. Each message goes to one of them, and
/// the channel has no receiver only when all are gone.
#[test]
fn receivers_are_shared() {
    TestScheduler::new()
        .try_run(async {
            let (sender, receiver) = channel::<u32>(1).await;
            let mut workers = Vec::new();
            for _ in 0..3 {
                let receiver = receiver.clone();
                workers.push(
                    try_spawn(async move {
                        let mut taken = Vec::new();
                        while let Some(message) = receiver.receive().await? {
                            taken.push(message);
                        }
                        Ok::<_, TaskError>(taken)
                    })
                    .await,
                );
            }
            drop(receiver);
            for message in 0..9 {
                sender.send(message).await?;
            }
            drop(sender);
            let mut all: Vec<u32> = gather(workers).await?.concat();
            all.sort_unstable();
            assert_eq!(all, (0..9).collect::<Vec<u32>>());

            let (sender, receiver) = channel::<u32>(1).await;
            let other = receiver.clone();
            drop(receiver);
            sender.send(1).await?;
            drop(other);
            assert_eq!(sender.send(2).await.unwrap_err().code(), "TFY0023");
            Ok::<_, TaskError>(())
        })
        .unwrap();
}

/// "per-run limits (tasks": those a handler starts, and those that find out a key, count too.
#[test]
fn the_limit_of_tasks_is_for_all_of_them() {
    let asks = tiffany::handler("asks", |call, _| match call {
        tiffany::SystemCall::Charge(_) => tiffany::answer_with(async { 1u32 }),
        _ => tiffany::Verdict::Pass,
    });
    let settings = Runtime::builder()
        .limits(Limits { max_tasks: Some(1), ..Limits::default() })
        .env_with("key", || async { 1u32 })
        .handler(asks);
    TestScheduler::with(settings)
        .run(async {
            assert_eq!(tiffany::charge(1).await.unwrap_err().code(), "TFY0014");
            assert_eq!(tiffany::ask::<u32>("key").await.unwrap_err().code(), "TFY0014");
        })
        .unwrap();
}
