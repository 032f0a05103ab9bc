//! DESIGN §2: several calls in one task, ordered combinators, foreign combinators and foreign futures.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Call, SystemCall, Task, TaskContext, TaskStatus, Tid, cancel, channel, get_log,
    get_tid, join, join_all, now, promise, select, semaphore, sleep, spawn, spawn_agent, tell,
    timeout, unbounded_channel, wait, yield_now,
};

use super::common::{Flag, Log, chant, poll_once, quiet, run, scheduler, secs, turns};

/// Seconds on the run's clock.
async fn clock() -> u64 {
    now().await.as_nanos() / 1_000_000_000
}

/// "a call is a future that leaves its request in its task's slot on first poll": before that, it is
/// nothing.
#[test]
fn a_call_that_is_not_polled_does_nothing() {
    run(async {
        let (told, slept) = (tell("no"), sleep(secs(9)));
        drop((told, slept));
        assert!(get_log().await.is_empty());
        assert_eq!(clock().await, 0);
    });
}

/// "and takes its reply on a later one": never on the first.
#[test]
fn a_call_is_never_ready_at_once() {
    run(async {
        let mut call = pin!(get_tid());
        assert!(poll_once(call.as_mut()).await.is_pending());
        assert!(poll_once(call.as_mut()).await.is_pending(), "the poll has not returned yet");
        assert_eq!(call.await, Tid(1));
    });
}

/// "`.await` nests, so the compiler does the trampolining."
#[test]
fn await_nests() {
    async fn depth(n: u64) -> u64 {
        match n {
            0 => get_tid().await.0,
            n => Box::pin(depth(n - 1)).await + u64::from(n == 50),
        }
    }
    assert_eq!(run(depth(100)), 2);
}

/// "A task may have several calls outstanding": each is answered for itself.
#[test]
fn several_calls_are_outstanding() {
    run(async {
        let (sender, receiver) = channel::<u32>(1).await;
        let producer = spawn(async move {
            sleep(secs(2)).await;
            sender.send(5).await.unwrap();
        })
        .await;
        let ((), (), message, ended) =
            join!(sleep(secs(3)), sleep(secs(1)), receiver.receive(), producer);
        assert_eq!((message, ended), (Ok(Some(5)), Ok(())));
        assert_eq!(clock().await, 3);
    });
}

/// "requests are accepted when the poll returns, in the order they were made"
#[test]
fn requests_are_accepted_in_the_order_they_were_made() {
    let mut test = TestScheduler::new();
    let log = test.run(async {
        let ((), tid, log, (), child) =
            join!(tell("a"), get_tid(), get_log(), tell("b"), spawn(async {}));
        assert_eq!(log.len(), 1, "the first is in it, the one after it is not");
        child.await.unwrap();
        (tid, get_log().await.len())
    });
    assert_eq!(log.unwrap(), (Tid(1), 2));
    let calls: Vec<String> = test
        .trace()
        .events()
        .iter()
        .map(ToString::to_string)
        .filter(|line| line.contains(" call "))
        .map(|line| line.split(' ').nth_back(0).unwrap_or_default().to_string())
        .collect();
    assert_eq!(calls[..5], ["tell(\"a\")", "get_tid", "get_log", "tell(\"b\")", "spawn"]);
}

/// "requests are accepted when the poll returns": all of one poll in one turn.
#[test]
fn calls_made_together_take_one_turn() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let other = spawn(chant(notes.clone(), "other", 5)).await;
        let before = notes.len();
        join!(get_tid(), tell("x"), yield_now(), now());
        assert_eq!(notes.len() - before, 1);
        other.await.unwrap();
    });
}

/// "one dropped within the same poll never happened"
#[test]
fn a_call_dropped_within_the_same_poll_never_happened() {
    let mut test = TestScheduler::new();
    let log = Log::new();
    let notes = log.clone();
    test.run(async move {
        {
            let (mut told, mut slept) = (pin!(tell("never")), pin!(sleep(secs(60))));
            let mut spawned = Box::pin(spawn(async move { notes.note("never") }));
            assert!(poll_once(told.as_mut()).await.is_pending());
            assert!(poll_once(slept.as_mut()).await.is_pending());
            assert!(poll_once(spawned.as_mut()).await.is_pending());
        }
        assert!(get_log().await.is_empty());
        assert_eq!(spawn(get_tid()).await.await, Ok(Tid(2)), "no number was used up");
    })
    .unwrap();
    assert_eq!(log.text(), "");
    assert_eq!(test.now().as_nanos(), 0);
    let trace = test.trace().to_string();
    assert!(!trace.contains("tell") && !trace.contains("sleep"), "{trace}");
}

/// "one dropped within the same poll never happened": the others of that poll keep their order.
#[test]
fn dropping_one_leaves_the_others_in_order() {
    for dropped in 0..4 {
        run(async move {
            let names = ["a", "b", "c", "d"];
            let mut told: Vec<Option<_>> =
                names.iter().map(|name| Some(Box::pin(tell(*name)))).collect();
            for call in told.iter_mut().flatten() {
                assert!(poll_once(call.as_mut()).await.is_pending());
            }
            told[dropped] = None;
            join_all(told.into_iter().flatten()).await;
            let log: Vec<&str> =
                get_log().await.into_iter().map(|entry| entry.get().unwrap()).collect();
            let mut expected = names.to_vec();
            expected.remove(dropped);
            assert_eq!(log, expected);
        });
    }
}

/// "dropping it later withdraws it": a timer is gone, and the clock need not come there.
#[test]
fn dropping_a_sleep_later_disarms_it() {
    let mut test = scheduler(quiet());
    test.run(async {
        let mut slept = Box::pin(sleep(secs(60)));
        assert!(poll_once(slept.as_mut()).await.is_pending());
        yield_now().await;
        drop(slept);
        sleep(secs(1)).await;
    })
    .unwrap();
    assert_eq!(test.now().as_nanos(), 1_000_000_000);
}

/// "dropping it later withdraws it": a promise's waiter is gone, and is not woken.
#[test]
fn dropping_a_wait_later_forgets_it() {
    let mut test = TestScheduler::new();
    test.run(async {
        let gate = Rc::new(promise::<u32>().await);
        let theirs = Rc::clone(&gate);
        let waiter = spawn(async move {
            let mut waiting = Box::pin(wait(theirs.future()));
            assert!(poll_once(waiting.as_mut()).await.is_pending());
            yield_now().await;
            drop(waiting);
            sleep(secs(5)).await;
        })
        .await;
        turns(4).await;
        gate.complete(1).await.unwrap();
        waiter.await.unwrap();
    })
    .unwrap();
    let lines = test.trace().to_string();
    let woken = lines.lines().filter(|line| line.ends_with("task 2 woken")).count();
    assert_eq!(woken, 1, "by its timer alone:\n{}", test.trace());
}

/// "dropping it later withdraws it": the next in line for a permit, and for a message, is served.
#[test]
fn dropping_leaves_the_line() {
    run(async {
        let semaphore = semaphore(1).await;
        let permit = semaphore.acquire().await.unwrap();
        let (sender, receiver) = channel::<u32>(4).await;
        let (mut acquire, mut receive) =
            (Box::pin(semaphore.acquire()), Box::pin(receiver.receive()));
        assert!(poll_once(acquire.as_mut()).await.is_pending());
        assert!(poll_once(receive.as_mut()).await.is_pending());
        yield_now().await;
        let next = semaphore.clone();
        let next = spawn(async move { next.acquire().await.map(drop) }).await;
        let second = receiver.receive();
        let second = spawn(second).await;
        turns(2).await;
        drop((acquire, receive));
        drop(permit);
        sender.send(8).await.unwrap();
        assert_eq!(next.await.unwrap(), Ok(()));
        assert_eq!(second.await.unwrap(), Ok(Some(8)));
    });
}

/// "dropping it later withdraws it": what a sender still wanted to send is not sent.
#[test]
fn a_withdrawn_send_is_not_sent() {
    run(async {
        let (sender, receiver) = channel::<u32>(1).await;
        sender.send(1).await.unwrap();
        let (mut second, third) = (Box::pin(sender.send(2)), sender.send(3));
        assert!(poll_once(second.as_mut()).await.is_pending());
        let mut third = Box::pin(third);
        assert!(poll_once(third.as_mut()).await.is_pending());
        yield_now().await;
        drop(second);
        assert_eq!(receiver.receive().await, Ok(Some(1)));
        third.await.unwrap();
        assert_eq!(receiver.receive().await, Ok(Some(3)));
    });
}

/// "and a reply delivered but not yet taken goes back (a message to the front of its channel"
#[test]
fn a_message_not_taken_goes_back_to_the_front() {
    run(async {
        let (sender, receiver) = unbounded_channel::<u32>().await;
        let mut untaken = Box::pin(receiver.receive());
        assert!(poll_once(untaken.as_mut()).await.is_pending());
        yield_now().await;
        for n in 1..=3 {
            sender.send(n).await.unwrap();
        }
        drop(untaken);
        for n in 1..=3 {
            assert_eq!(receiver.receive().await, Ok(Some(n)));
        }
    });
}

/// "a message to the front of its channel": several keep their order, when the task is cancelled.
#[test]
fn several_messages_not_taken_keep_their_order() {
    run(async {
        let (sender, receiver) = unbounded_channel::<u32>().await;
        let calls = [receiver.receive(), receiver.receive(), receiver.receive()];
        let doomed = spawn(join_all(calls)).await;
        turns(2).await;
        join!(sender.send(1), sender.send(2), cancel(&doomed)).0.unwrap();
        sender.send(3).await.unwrap();
        for n in 1..=3 {
            assert_eq!(receiver.receive().await, Ok(Some(n)));
        }
        assert!(doomed.await.is_err());
    });
}

/// "a message to the front of its channel": or to one who waits for it already.
#[test]
fn a_message_not_taken_goes_to_the_next_receiver() {
    run(async {
        let (sender, receiver) = unbounded_channel::<u32>().await;
        let mut untaken = Box::pin(receiver.receive());
        assert!(poll_once(untaken.as_mut()).await.is_pending());
        yield_now().await;
        let next = spawn(receiver.receive()).await;
        turns(2).await;
        sender.send(1).await.unwrap();
        drop(untaken);
        assert_eq!(next.await.unwrap(), Ok(Some(1)));
    });
}

/// "a permit to its semaphore)"
#[test]
fn a_permit_not_taken_goes_back() {
    run(async {
        let semaphore = semaphore(1).await;
        let mut untaken = Box::pin(semaphore.acquire());
        assert!(poll_once(untaken.as_mut()).await.is_pending());
        yield_now().await;
        // It has been given the permit, and has not looked.
        let next = semaphore.clone();
        let next = spawn(async move { next.acquire().await.map(drop) }).await;
        turns(3).await;
        drop(untaken);
        assert_eq!(next.await.unwrap(), Ok(()));
        drop(semaphore.acquire().await.unwrap());
    });
}

/// "a permit to its semaphore)": when a task is cancelled, to the next in line and not to another call
/// of its own.
#[test]
fn permits_go_to_others_when_the_task_is_cancelled() {
    run(async {
        let semaphore = semaphore(3).await;
        let _one = semaphore.acquire().await.unwrap();
        let calls = [semaphore.acquire_many(3), semaphore.acquire(), semaphore.acquire()];
        let doomed = spawn(async move { join_all(calls).await.len() }).await;
        let next = semaphore.clone();
        let next = spawn(async move { next.acquire_many(2).await.map(drop) }).await;
        turns(2).await;
        cancel(&doomed).await;
        assert_eq!(next.await.unwrap(), Ok(()));
        assert!(doomed.await.is_err());
        drop(semaphore.acquire_many(2).await.unwrap());
    });
}

/// A state machine of one call, whose answer it does not look at.
struct Indifferent(Option<SystemCall>);

impl AgentTask for Indifferent {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match self.0.take() {
            Some(call) => TaskStatus::Waiting(call),
            None => TaskStatus::Completed(()),
        }
    }
}

/// What a state machine would ask for.
fn asked(status: TaskStatus<()>) -> Indifferent {
    match status {
        TaskStatus::Waiting(call) => Indifferent(Some(call)),
        _ => panic!("no call"),
    }
}

/// "and a reply delivered but not yet taken goes back (a message to the front of its channel, a permit to its
/// semaphore)": so does one that a state machine does not look at, and a task's handle is let go.
#[test]
fn what_a_state_machine_does_not_take_goes_back() {
    run(async {
        let semaphore = semaphore(2).await;
        spawn_agent(asked(TaskStatus::acquire_many(&semaphore, 2))).await.await.unwrap();
        drop(semaphore.acquire_many(2).await.unwrap());
        let (sender, receiver) = channel(2).await;
        sender.send("first").await.unwrap();
        sender.send("second").await.unwrap();
        spawn_agent(asked(TaskStatus::receive(&receiver))).await.await.unwrap();
        assert_eq!(receiver.receive().await.unwrap(), Some("first"));
        let value = Rc::new(());
        let held = Rc::clone(&value);
        spawn_agent(asked(TaskStatus::spawn(spawn(async move { held })))).await.await.unwrap();
        turns(2).await;
        assert_eq!(Rc::strong_count(&value), 1, "nobody holds the child's value");
    });
}

/// Polled in this order.
async fn polled(log: Log, name: &'static str, turns_needed: usize) -> &'static str {
    let mut left = turns_needed;
    while left > 0 {
        log.note(name);
        yield_now().await;
        left -= 1;
    }
    name
}

/// "Our `join!`, `select!` and `timeout` are ordered": `join!` polls, and answers, as written.
#[test]
fn join_is_ordered() {
    let log = Log::new();
    let notes = log.clone();
    let outputs = run(async move {
        join!(
            polled(notes.clone(), "a", 2),
            polled(notes.clone(), "b", 1),
            polled(notes.clone(), "c", 2)
        )
    });
    assert_eq!(outputs, ("a", "b", "c"));
    assert_eq!(log.text(), "a b c a c");
}

/// "Our `join!`, `select!` […] are ordered": of several that are ready, the first written wins.
#[test]
fn select_is_ordered() {
    run(async {
        for _ in 0..20 {
            let won = select! {
                () = sleep(secs(2)) => "late",
                tid = get_tid() => if tid == Tid(1) { "first" } else { "wrong" },
                () = yield_now() => "second",
            };
            assert_eq!(won, "first");
        }
        assert_eq!(clock().await, 0, "the losers' timers are withdrawn");
    });
}

/// "Our […] `timeout` [is] ordered": the future before the timer, if both are due.
#[test]
fn timeout_prefers_the_future() {
    run(async {
        assert_eq!(timeout(secs(1), sleep(secs(1))).await, Ok(()));
        let error = timeout(secs(1), sleep(secs(2))).await.unwrap_err();
        assert_eq!(error.code(), "TFY0028");
        assert_eq!(clock().await, 2, "the future that took too long is withdrawn");
        assert_eq!(timeout(secs(9), async { 7 }).await, Ok(7));
        sleep(secs(1)).await;
        assert_eq!(clock().await, 3, "and so is a timer that was not needed");
    });
}

/// "hence deterministic"
#[test]
fn combinators_take_the_same_way_each_time() {
    let traced = || {
        let mut test = TestScheduler::new();
        test.run(async {
            for n in 0..5u64 {
                let ((), _) = join!(sleep(secs(n % 3)), timeout(secs(2), sleep(secs(n))));
                select! {
                    () = sleep(secs(n)) => {},
                    () = turns(n as usize) => {},
                }
            }
        })
        .unwrap();
        test.trace().to_string()
    };
    assert_eq!(traced(), traced());
}

/// "polled through a foreign combinator (FuturesUnordered, say) it keeps that combinator's Waker and
/// wakes it."
#[test]
fn calls_work_in_futures_unordered() {
    run(async {
        let delays = [3u64, 1, 2, 0, 4];
        let mut all: FuturesUnordered<_> = delays
            .into_iter()
            .map(|delay| async move {
                sleep(secs(delay)).await;
                (delay, get_tid().await)
            })
            .collect();
        let mut order = Vec::new();
        while let Some((delay, tid)) = all.next().await {
            assert_eq!((tid, clock().await), (Tid(1), delay));
            order.push(delay);
        }
        assert_eq!(order, [0, 1, 2, 3, 4]);
    });
}

/// "polled through a foreign combinator": many at once, of many kinds, and dropped half-way.
#[test]
fn a_combinator_may_be_dropped_half_way() {
    let mut test = scheduler(quiet());
    test.run(async {
        let gate = promise::<u32>().await;
        let mut all: FuturesUnordered<futures::future::LocalBoxFuture<'static, u64>> =
            FuturesUnordered::new();
        for n in 0..100u64 {
            let future = gate.future();
            all.push(match n % 3 {
                0 => Box::pin(async move {
                    sleep(secs(n)).await;
                    n
                }),
                1 => Box::pin(async move { u64::from(future.await.unwrap()) }),
                _ => Box::pin(async move { spawn(async move { n }).await.await.unwrap() }),
            });
        }
        gate.complete(1).await.unwrap();
        for _ in 0..70 {
            all.next().await.unwrap();
        }
        drop(all);
    })
    .unwrap();
    assert!(test.now().as_nanos() < 99_000_000_000, "the timers left are withdrawn");
}

/// "random ones (`futures::select!`) are for ephemeral runs": the kind that is not random works too.
#[test]
fn other_combinators_of_futures_work() {
    run(async {
        let slow: Call<()> = sleep(secs(9));
        let first = futures::future::select(slow, sleep(secs(1))).await;
        assert!(matches!(first, futures::future::Either::Right(_)));
        let both = futures::future::join(sleep(secs(1)), get_tid()).await;
        assert_eq!(both.1, Tid(1));
        assert_eq!(clock().await, 2);
        drop(first);
    });
}

/// "A task may also await a foreign future (a `tokio::sync` channel): it is then Blocked on its waker"
#[test]
fn a_task_may_await_a_foreign_future() {
    let mut test = scheduler(quiet());
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let run = test.start(async move {
        let waiting = spawn(receiver).await;
        sleep(secs(1)).await;
        sender.send(5).unwrap();
        waiting.await.unwrap().unwrap()
    });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(2)).unwrap().to_string(), "Blocked(foreign)");
    assert_eq!(test.finish(run).unwrap(), 5);
}

/// "(a `tokio::sync` channel)": back and forth between two tasks, with room for one message.
#[test]
fn two_tasks_talk_through_foreign_channels() {
    run(async {
        let (ping, mut pinged) = tokio::sync::mpsc::channel::<u32>(1);
        let (pong, mut ponged) = futures::channel::oneshot::channel::<u32>();
        let other = spawn(async move {
            let mut sum = 0;
            while let Some(n) = pinged.recv().await {
                sum += n;
            }
            pong.send(sum).unwrap();
        })
        .await;
        for n in 1..=50 {
            ping.send(n).await.unwrap();
        }
        drop(ping);
        assert_eq!((&mut ponged).await, Ok(1275));
        other.await.unwrap();
    });
}

/// "which works from any thread"
#[test]
fn a_foreign_future_is_woken_from_any_thread() {
    run(async {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let threads: Vec<_> = (0..4u64)
            .map(|n| {
                let sender = sender.clone();
                std::thread::spawn(move || (0..100).for_each(|_| sender.send(n).unwrap()))
            })
            .collect();
        drop(sender);
        let mut sum = 0;
        while let Some(n) = receiver.recv().await {
            sum += n;
        }
        assert_eq!(sum, 600);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// "which works from any thread": also when that thread drops the waker at once, and nothing else is
/// left to hope for.
#[test]
fn a_waker_used_for_the_last_time_still_wakes() {
    for n in 0..200 {
        let got = run(async move {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let thread = std::thread::spawn(move || sender.send(n).unwrap());
            let got = receiver.await.unwrap();
            thread.join().unwrap();
            got
        });
        assert_eq!(got, n);
    }
}

/// "A task may also await a foreign future": beside calls of its own, either may come first.
#[test]
fn a_foreign_future_beside_a_call() {
    run(async {
        for (delay, expected) in [(1u64, "foreign"), (3, "timer")] {
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            let other = spawn(async move {
                sleep(secs(delay)).await;
                let _ = sender.send(());
            })
            .await;
            let won = select! {
                _ = receiver => "foreign",
                () = sleep(secs(2)) => "timer",
            };
            assert_eq!(won, expected);
            other.await.unwrap();
        }
    });
}

/// "Blocked on its waker": a task that is cancelled there is not woken any more.
#[test]
fn a_foreign_future_is_dropped_on_cancel() {
    let gone = Flag::default();
    let flag = Rc::clone(&gone);
    run(async move {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let waiting: Task<()> = spawn(async move { receiver.await.unwrap() }).await;
        turns(2).await;
        cancel(&waiting).await;
        assert!(waiting.await.unwrap_err().is_cancelled());
        flag.set(sender.send(()).is_err());
    });
    assert!(gone.get(), "the receiver is gone");
}

/// A future that is a call is also an ordinary one: nothing here asks for a certain runtime.
fn _is_a_future(call: Call<()>) -> impl Future<Output = ()> {
    call
}
