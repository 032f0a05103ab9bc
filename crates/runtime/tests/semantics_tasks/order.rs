//! DESIGN §3, Order: first in first out, scheduling points, rounds, and that nothing starves.

use std::future::Future;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{
    CustomCall, Limits, RunError, Task, Time, answering, ask, blocking, call, cancel, channel,
    charge, external_promise, gather, get, get_handlers, get_log, get_tid, group, kill_task, mutex,
    now, promise, put, race, read_wait, semaphore, sleep, sleep_until, spawn, tell, wait,
    wait_task, yield_now,
};

use super::common::{Flag, Log, chant, quiet, run, scheduler, secs, turns};

/// "**Order.** FIFO by default."
#[test]
fn first_in_first_out() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let mut tasks = Vec::new();
        let group = group().await;
        for name in ["a", "b", "c"] {
            tasks.push(spawn(chant(notes.clone(), name, 3)).group(&group).await);
        }
        group.join().await.unwrap();
    });
    // Each begins as soon as it is spawned, while its parent spawns the next.
    assert_eq!(log.text(), "a a b a b c b c c");
}

struct Custom;

impl CustomCall for Custom {
    const NAME: &'static str = "custom";
    type Answer = u32;
}

pub(crate) type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// Each call that is answered at once, prepared so that awaiting it makes this one call.
async fn immediate_calls() -> Vec<(&'static str, Boxed)> {
    fn ignoring<T>(call: impl Future<Output = T> + 'static) -> Boxed {
        Box::pin(async move { drop(call.await) })
    }
    let done = Rc::new(spawn(async { 1u32 }).await);
    wait(&*done).await.unwrap();
    let settled = Rc::new(promise::<u32>().await);
    let (to_complete, to_fail) = (promise::<u32>().await, promise::<u32>().await);
    let (sender, receiver) = channel::<u32>(9).await;
    sender.send(1).await.unwrap();
    let free = semaphore(9).await;
    let lock = mutex(1).await;
    let empty = group().await;
    settled.complete(1).await.unwrap();
    vec![
        ("yield", ignoring(yield_now())),
        ("get_tid", ignoring(get_tid())),
        ("now", ignoring(now())),
        ("get_handlers", ignoring(get_handlers())),
        ("spawn", ignoring(spawn(async {}))),
        ("wait for a task that is over", ignoring(wait(Rc::clone(&done)))),
        ("wait for a promise that is settled", ignoring(wait(settled.future()))),
        ("wait_task", ignoring(wait_task(done.tid()))),
        ("gather of nothing", ignoring(gather(Vec::<Task<u32>>::new()))),
        ("gather of what is over", ignoring(gather([Rc::clone(&done)]))),
        ("race of nothing", ignoring(race(Vec::<Task<u32>>::new()))),
        ("race of what is over", ignoring(race([Rc::clone(&done)]))),
        ("cancel", ignoring(cancel(&*done))),
        ("kill_task", ignoring(kill_task(done.tid()))),
        ("create_promise", ignoring(promise::<u32>())),
        ("complete_promise", ignoring(async move { to_complete.complete(1).await })),
        (
            "fail_promise",
            ignoring(async move { to_fail.fail(tiffany::TaskError::failed("")).await }),
        ),
        ("complete_promise again", ignoring(settled.complete(2))),
        ("create_external_promise", ignoring(external_promise::<u32>())),
        ("sleep_until the past", ignoring(sleep_until(Time::ZERO))),
        ("sleep past the end of time", ignoring(sleep(Duration::MAX).checked())),
        ("get", ignoring(get::<u32>("key"))),
        ("put", ignoring(put("key", 1u32))),
        ("tell", ignoring(tell("entry"))),
        ("show", ignoring(tiffany::pal::progress(1, 2, "half"))),
        ("get_log", ignoring(get_log())),
        ("ask", ignoring(ask::<u32>("known"))),
        ("ask for no key", ignoring(ask::<u32>("unknown"))),
        ("create_channel", ignoring(channel::<u32>(1))),
        ("receive", ignoring(async move { receiver.receive().await.map(|_| receiver) })),
        ("send", ignoring(async move { sender.send(1).await.map(|()| sender) })),
        ("create_semaphore", ignoring(semaphore(1))),
        ("acquire", ignoring(async move { free.acquire().await })),
        ("mutex", ignoring(mutex(1))),
        ("lock", ignoring(async move { lock.lock().await.map(|_| ()) })),
        ("create_group", ignoring(group())),
        ("join_group", ignoring(async move { empty.join().await })),
        ("charge", ignoring(charge(1))),
        ("a custom call", ignoring(call(Custom))),
    ]
}

/// "Every system call is a scheduling point: the caller goes to the back of the queue, even for
/// GetTid." While each call is made, another task that is ready has exactly one turn.
#[test]
fn every_call_is_a_scheduling_point() {
    let settings = quiet().env("known", 1u32).handler(answering(|_: &Custom| Ok(1)));
    let mut test = scheduler(settings);
    let log = Log::new();
    let notes = log.clone();
    test.run(async move {
        let calls = immediate_calls().await;
        let stop = Flag::default();
        let (flag, other) = (Rc::clone(&stop), notes.clone());
        let other = spawn(async move {
            while !flag.get() {
                other.note("other");
                yield_now().await;
            }
        })
        .await;
        turns(3).await;
        for (name, made) in calls {
            let before = notes.len();
            made.await;
            assert_eq!(notes.len() - before, 1, "turns of the other task during `{name}`");
        }
        stop.set(true);
        other.await.unwrap();
    })
    .unwrap();
}

/// "A round takes the waiters woken before it began, then the tasks that were ready when it began":
/// those that were ready stood in the queue long before, and still come after.
#[test]
fn woken_waiters_come_before_those_that_were_ready() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let gate = promise::<()>().await;
        let mut tasks = Vec::new();
        for name in ["w1", "w2"] {
            let (future, log) = (gate.future(), notes.clone());
            tasks.push(
                spawn(async move {
                    future.await.unwrap();
                    log.note(name);
                })
                .await,
            );
        }
        let ready = notes.clone();
        let busy = spawn(async move {
            for n in 1..=6 {
                ready.note(format!("r{n}"));
                yield_now().await;
            }
        })
        .await;
        turns(2).await;
        notes.note("settled");
        gate.complete(()).await.unwrap();
        notes.note("root");
        busy.await.unwrap();
        gather(tasks).await.unwrap();
    });
    assert_eq!(log.text(), "r1 r2 r3 settled w1 w2 r4 root r5 r6");
}

/// "what becomes ready meanwhile waits for the next round": a waiter woken by the first of a round
/// runs after its last.
#[test]
fn what_is_woken_meanwhile_waits_for_the_next_round() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let gate = promise::<()>().await;
        let (future, waiting) = (gate.future(), notes.clone());
        let waiter = spawn(async move {
            future.await.unwrap();
            waiting.note("woken");
        })
        .await;
        let first = notes.clone();
        let opener = spawn(async move {
            turns(2).await;
            first.note("open");
            gate.complete(()).await.unwrap();
            first.note("opener");
        })
        .await;
        let b = spawn(chant(notes.clone(), "b", 3)).await;
        gather([waiter, opener, b]).await.unwrap();
    });
    assert_eq!(log.text(), "b open b woken opener b");
}

/// "what becomes ready meanwhile waits for the next round": a child that is spawned too.
#[test]
fn what_is_spawned_meanwhile_waits_for_the_next_round() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let (inner, outer) = (notes.clone(), notes.clone());
        let spawner = spawn(async move {
            yield_now().await;
            outer.note("spawn");
            let child = spawn(async move { inner.note("child") }).await;
            outer.note("spawned");
            child.await.unwrap();
        })
        .await;
        let b = spawn(chant(notes.clone(), "b", 3)).await;
        let c = spawn(chant(notes.clone(), "c", 3)).await;
        gather([spawner, b, c]).await.unwrap();
    });
    // `b` was ready in the round of the spawn; `c` is spawned in it, after the child.
    assert_eq!(log.text(), "spawn b child spawned b c b c c");
}

/// "Spawn queues the child, then the parent."
#[test]
fn spawn_queues_the_child_then_the_parent() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let child = spawn(async move { inner.note("child") }).await;
        notes.note("parent");
        child.await.unwrap();
    });
    assert_eq!(log.text(), "child parent");
}

/// "Spawn queues the child, then the parent": behind those that are ready already.
#[test]
fn the_child_comes_after_those_that_were_ready() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let ready = spawn(chant(notes.clone(), "ready", 3)).await;
        let inner = notes.clone();
        let child = spawn(async move { inner.note("child") }).await;
        notes.note("parent");
        gather([ready, child]).await.unwrap();
    });
    assert_eq!(log.text(), "ready ready child parent ready");
}

/// A kind of work: done so many times, it sets the flag.
fn work(kind: &'static str, done: Flag) -> Boxed {
    Box::pin(async move {
        for _ in 0..5 {
            match kind {
                "yields" => yield_now().await,
                "timers" => sleep(Duration::ZERO).await,
                "promises" => {
                    let own = Rc::new(promise::<()>().await);
                    let other = Rc::clone(&own);
                    let settler = spawn(async move { other.complete(()).await }).await;
                    own.future().await.unwrap();
                    settler.await.unwrap().unwrap();
                }
                "descriptors" => {
                    let (reader, mut writer) = UnixStream::pair().unwrap();
                    writer.write_all(b"x").unwrap();
                    read_wait(&reader).await.unwrap();
                }
                "external promises" => {
                    let outside = external_promise::<()>().await;
                    let settle = outside.clone();
                    let thread = std::thread::spawn(move || settle.complete(()));
                    outside.future().await.unwrap();
                    thread.join().unwrap().unwrap();
                }
                "effects" => blocking(|| ()).await.unwrap(),
                "foreign futures" => {
                    let (sender, receiver) = tokio::sync::oneshot::channel();
                    let thread = std::thread::spawn(move || sender.send(()));
                    receiver.await.unwrap();
                    thread.join().unwrap().unwrap();
                }
                other => unreachable!("{other}"),
            }
        }
        done.set(true);
    })
}

/// A kind of work without an end, until the flag is up.
pub(crate) fn endless(kind: &'static str, stop: Flag) -> Boxed {
    Box::pin(async move {
        while !stop.get() {
            match kind {
                "yields" => yield_now().await,
                "timers" => sleep(Duration::ZERO).await,
                "spawns" => spawn(async {}).await.await.unwrap(),
                "messages" => {
                    let (sender, receiver) = channel::<()>(0).await;
                    let sending = spawn(async move { sender.send(()).await }).await;
                    receiver.receive().await.unwrap();
                    sending.await.unwrap().unwrap();
                }
                "a ready descriptor" => {
                    let (_reader, writer) = UnixStream::pair().unwrap();
                    tiffany::write_wait(&writer).await.unwrap();
                }
                "a foreign future that wakes itself" => {
                    let mut woken = false;
                    std::future::poll_fn(|cx| {
                        if std::mem::replace(&mut woken, true) {
                            return Poll::Ready(());
                        }
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    })
                    .await;
                }
                other => unreachable!("{other}"),
            }
        }
    })
}

/// "Between rounds I/O, timers and external completions are collected without blocking, so no kind of
/// work starves another." Each kind of work is done while each kind of noise never pauses.
#[test]
fn no_kind_of_work_starves_another() {
    let noises = [
        "yields",
        "timers",
        "spawns",
        "messages",
        "a ready descriptor",
        "a foreign future that wakes itself",
    ];
    let works = [
        "yields",
        "timers",
        "promises",
        "descriptors",
        "external promises",
        "effects",
        "foreign futures",
    ];
    for noise in noises {
        for kind in works {
            // A work that starves would go on for ever; this many calls are more than enough.
            let limits = Limits { max_calls: Some(30_000_000), ..Limits::default() };
            let result = fast(limits, async move {
                let done = Flag::default();
                let noise = spawn(endless(noise, Rc::clone(&done))).await;
                let worker = spawn(work(kind, done)).await;
                gather([noise, worker]).await.unwrap();
            });
            assert!(result.is_ok(), "{kind} starved beside {noise}: {result:?}");
        }
    }
}

/// Runs with a real clock and no trace: what other threads do takes real time, and a trace of that
/// would be endless.
fn fast(limits: Limits, root: impl Future<Output = ()> + 'static) -> Result<(), RunError> {
    quiet().limits(limits).build()?.run(root)
}

/// "timers […] are collected": under endless yields a timer fires as soon as the clock is there.
#[test]
fn a_timer_fires_under_endless_yields() {
    let mut test = TestScheduler::new();
    let done = Flag::default();
    let flag = Rc::clone(&done);
    let run = test.start(async move {
        let timer = spawn(async move {
            sleep(secs(10)).await;
            flag.set(true);
        })
        .await;
        turns(1_000).await;
        timer.await.unwrap();
    });
    for _ in 0..100 {
        test.step();
    }
    assert!(!done.get(), "the clock stands still");
    test.advance(secs(10));
    for _ in 0..4 {
        test.step();
    }
    assert!(done.get(), "two rounds later at the latest:\n{}", test.trace());
    test.finish(run).unwrap();
}

/// The same for a timer that is due already: a task that yields, alone otherwise, has no turn more than it has
/// when somebody watches or when another run has its turns in between.
#[test]
fn a_timer_that_is_due_does_not_wait_for_a_lone_task() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let slept = notes.clone();
        let sleeper = spawn(async move {
            sleep(Duration::ZERO).await;
            slept.note("slept");
        })
        .await;
        chant(notes, "turn", 4).await;
        sleeper.await.unwrap();
    });
    assert_eq!(log.text(), "turn slept turn turn turn");
}

/// "in the order they were made": what a handle that was given back drops in turn comes after the call that
/// the task made before it paused.
#[test]
fn what_a_dropped_result_held_is_given_back_after_the_call() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let (held, kept) = (promise::<()>().await, promise::<()>().await);
        let (abandoned, settled) = (held.future(), kept.future());
        for (future, name) in [(abandoned, "abandoned"), (settled, "settled")] {
            let notes = notes.clone();
            drop(spawn(async move { notes.note(future.await.map_or(name, |()| name)) }).await);
        }
        let holder = spawn(async move { held }).await;
        turns(3).await;
        drop(holder);
        kept.complete(()).await.unwrap();
    });
    assert_eq!(log.text(), "settled abandoned");
}

/// "A lone ready task may be resumed at once, after its cancel check": one that never pauses still is
/// cancelled.
#[test]
fn a_lone_task_is_cancelled_at_its_next_call() {
    let mut test = TestScheduler::with(quiet());
    let log = Log::new();
    let notes = log.clone();
    let run = test.start(async move {
        let _guard = notes.guard("dropped");
        loop {
            yield_now().await;
        }
    });
    for _ in 0..10 {
        assert!(test.step());
    }
    test.runtime().handle().cancel(run.id());
    assert!(matches!(test.finish(run), Err(RunError::Cancelled(_))));
    assert_eq!(log.text(), "dropped");
}

/// "each deterministic" (and FIFO is one of them): the same program takes the same way each time.
#[test]
fn the_same_program_takes_the_same_way() {
    let traced = || {
        let mut test = TestScheduler::new();
        test.run(async {
            let mut tasks = Vec::new();
            for n in 0..6u64 {
                tasks.push(
                    spawn(async move {
                        turns(n as usize % 3).await;
                        sleep(secs(n / 2)).await;
                        n
                    })
                    .await,
                );
            }
            let won = race(tasks).await.unwrap();
            gather(won.rest).await.unwrap();
        })
        .unwrap();
        test.trace().to_string()
    };
    assert_eq!(traced(), traced());
}
