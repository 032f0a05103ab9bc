//! Several runs, and several runtimes, on one thread: what one does is not lost on the other.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tiffany::testing::TestScheduler;
use tiffany::{
    RunError, Runtime, cancel, channel, group, promise, semaphore, sleep, spawn, timeout, wait,
    yield_now,
};

/// Polls a future once, which is not enough for it.
async fn begin(future: &mut (impl Future + Unpin)) {
    poll_fn(|cx| {
        assert!(Pin::new(&mut *future).poll(cx).is_pending());
        Poll::Ready(())
    })
    .await
}

#[test]
fn a_run_ends_beside_one_that_is_always_ready() {
    let mut runtime = Runtime::new().unwrap();
    let _busy = runtime.start(async {
        loop {
            yield_now().await;
        }
    });
    assert_eq!(runtime.run(async { 1 }).unwrap(), 1);
}

#[test]
fn a_deadlock_is_found_beside_a_run_that_never_rests() {
    let mut runtime = Runtime::new().unwrap();
    let _busy = runtime.start(async {
        loop {
            sleep(Duration::from_nanos(1)).await;
        }
    });
    let error = runtime.run(async {
        let never = promise::<u32>().await;
        wait(never.future()).await
    });
    assert!(matches!(error, Err(RunError::Deadlock(_))), "{error:?}");
}

#[test]
fn a_run_of_another_runtime_is_an_error() {
    let (mut one, mut other) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let run = one.start(async { 1 });
    let error = other.finish(run).unwrap_err();
    assert!(matches!(error, RunError::UnknownRun(_)), "{error}");
    assert_eq!(error.code(), "TFY0031");
}

type Parked = Rc<RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>>;

/// Polls a future once, so that its call is made, and puts it where another run can drop it.
async fn park(place: &Parked, mut future: Pin<Box<dyn Future<Output = ()>>>) {
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    *place.borrow_mut() = Some(future);
}

/// Call numbers are unique in one run only: dropping a call of one run must not take back another's.
#[test]
fn a_call_dropped_in_another_run_is_withdrawn_in_its_own() {
    let mut runtime = Runtime::new().unwrap();
    let place = Parked::default();
    let (theirs, ours) = (Rc::clone(&place), Rc::clone(&place));
    let first = runtime.start(async move {
        let (sender, receiver) = channel::<u32>(1).await;
        let dead = receiver.clone();
        park(&theirs, Box::pin(async move { drop(dead.receive().await) })).await;
        while theirs.borrow().is_some() {
            yield_now().await;
        }
        yield_now().await;
        sender.send(7).await.unwrap();
        receiver.receive().await.unwrap()
    });
    let second = runtime.start(async move {
        while ours.borrow().is_none() {
            yield_now().await;
        }
        let task = spawn(async { 5 }).await;
        drop(ours.borrow_mut().take());
        task.await.unwrap()
    });
    assert_eq!(runtime.finish(second).unwrap(), 5, "its own calls are not touched");
    assert_eq!(runtime.finish(first).unwrap(), Some(7), "nor is the message lost");
}

#[test]
fn what_is_dropped_outside_reaches_its_run_past_another_runtime() {
    let mut test = TestScheduler::new();
    let kept = Rc::new(RefCell::new(None));
    let place = Rc::clone(&kept);
    let run = test.start(async move {
        // Something to hope for, so that waiting for the permit is no deadlock.
        drop(spawn(sleep(Duration::from_secs(60))).await);
        let semaphore = semaphore(1).await;
        *place.borrow_mut() = Some(semaphore.acquire().await.unwrap());
        drop(semaphore.acquire().await.unwrap());
        7
    });
    test.step_until_idle();
    drop(kept.borrow_mut().take().expect("the permit is ours by now"));
    assert_eq!(tiffany::run(async { 1 }).unwrap(), 1);
    assert_eq!(test.finish(run).unwrap(), 7);
}

/// The same with a call of our own made in the same breath: of the many calls dropped there, one has its
/// number.
#[test]
fn a_call_dropped_in_another_run_does_not_take_the_place_of_one_made_there() {
    let mut runtime = Runtime::new().unwrap();
    let place = Rc::new(RefCell::new(Vec::new()));
    let (theirs, ours) = (Rc::clone(&place), Rc::clone(&place));
    let first = runtime.start(async move {
        let never = promise::<u32>().await;
        let mut parked: Vec<_> = (0..200).map(|_| Box::pin(wait(never.future()))).collect();
        poll_fn(|cx| {
            assert!(parked.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
            Poll::Ready(())
        })
        .await;
        *theirs.borrow_mut() = parked;
        while !theirs.borrow().is_empty() {
            yield_now().await;
        }
    });
    let second = runtime.start(async move {
        while ours.borrow().is_empty() {
            yield_now().await;
        }
        let mut own = Box::pin(yield_now());
        poll_fn(|cx| {
            assert!(own.as_mut().poll(cx).is_pending());
            ours.borrow_mut().clear();
            Poll::Ready(())
        })
        .await;
        own.await;
        5
    });
    assert_eq!(runtime.finish(second).unwrap(), 5);
    runtime.finish(first).unwrap();
}

/// The same for the wakers of a combinator: calls of another run have the same numbers, and to drop them there
/// leaves its own to be woken.
#[test]
fn a_call_dropped_in_another_run_leaves_the_wakers_there() {
    type Sleeps = FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>;
    fn sleeps(count: usize) -> Sleeps {
        (0..count).map(|_| Box::pin(sleep(Duration::from_secs(5))) as Pin<Box<_>>).collect()
    }
    let mut test = TestScheduler::unwatched(Runtime::builder());
    let place = Rc::new(RefCell::new(None));
    let theirs = Rc::clone(&place);
    let first = test.start(async move {
        let mut parked = sleeps(20);
        begin(&mut parked.next()).await;
        *theirs.borrow_mut() = Some(parked);
        sleep(Duration::from_secs(1)).await;
    });
    let second = test.start(async move {
        let mut own = sleeps(4);
        begin(&mut own.next()).await;
        yield_now().await;
        drop(place.take().expect("the other run has parked its calls"));
        // Without an end here it would wait for ever, as a waker of it lives.
        timeout(Duration::from_secs(60), own.count()).await
    });
    assert_eq!(test.finish(second).unwrap(), Ok(4));
    test.finish(first).unwrap();
}

/// A call that is dropped in the turn that made it never happened, whatever another runtime has left on the
/// thread meanwhile.
#[test]
fn a_call_dropped_at_once_never_happened_beside_what_another_runtime_left() {
    for dropped_after in 0..8 {
        let mut one = TestScheduler::unwatched(Runtime::builder());
        let mut two = TestScheduler::unwatched(Runtime::builder());
        let place = Rc::new(RefCell::new(None));
        let parked = Rc::clone(&place);
        let first = one.start(async move {
            for _ in 0..50 {
                yield_now().await;
            }
            let mut call = Box::pin(sleep(Duration::from_secs(1)));
            begin(&mut call).await;
            *parked.borrow_mut() = Some(call);
            for _ in 0..20 {
                yield_now().await;
            }
        });
        let second = two.start(async {
            // Its turns are in the same rounds.
            let beside = spawn(async {
                for _ in 0..5 {
                    yield_now().await;
                }
            });
            drop(beside.await);
            let (sender, receiver) = channel::<u32>(1).await;
            let mut call = Box::pin(sender.send(1));
            begin(&mut call).await;
            drop((call, sender));
            receiver.receive().await
        });
        while place.borrow().is_none() {
            assert!(one.step());
        }
        for turn in 0..8 {
            two.step();
            if turn == dropped_after {
                // Its numbers are higher than those of the other run.
                one.step();
                drop(place.take());
            }
        }
        assert_eq!(two.finish(second).unwrap(), Ok(None), "dropped after {dropped_after}");
        one.finish(first).unwrap();
    }
}

/// A run may be over with a task in its queue that is over too. It has no more turns.
#[test]
fn a_run_that_is_over_leaves_the_line() {
    let mut runtime = Runtime::new().unwrap();
    let other = runtime.start(async {
        for _ in 0..100 {
            yield_now().await;
        }
        5
    });
    let run = runtime.start(async {
        let own = Rc::new(group().await);
        let held = Rc::clone(&own);
        let member = spawn(async move {
            let _held = held;
            sleep(Duration::from_secs(3600)).await;
        });
        let member = member.group(&own).await;
        drop(own);
        yield_now().await;
        // It gives its own group back while it is unwound, which cancels it once more.
        cancel(&member).await;
    });
    runtime.finish(run).unwrap();
    assert_eq!(runtime.finish(other).unwrap(), 5);
}
