//! A runtime as the guest of another loop: it never waits itself, and rings when there is something to go on with.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tiffany::binding::{self, Finish, Rest};
use tiffany::{ErrorKind, Reply, RunHandle, Runtime, Value, external_promise, sleep, yield_now};

/// The other loop: waits as it is told to, until the run is over and well. Gives how often it let the guest go on.
fn host(runtime: &mut Runtime, run: RunHandle<()>) -> usize {
    let begun = Instant::now();
    for turns in 1.. {
        assert!(begun.elapsed() < Duration::from_secs(30), "it hangs");
        match binding::go_on(runtime, 4, |runtime| binding::is_over(runtime, run.id())).unwrap() {
            Rest::Over => {
                runtime.finish(run).unwrap();
                return turns;
            }
            Rest::Ready => {}
            Rest::Wait(timeout) => {
                let longest = Duration::from_secs(10);
                wait(runtime, timeout.unwrap_or(longest).min(longest));
            }
        }
    }
    unreachable!("there is no last number")
}

/// Waits for the guest's descriptor. `true`: it can be read.
fn wait(runtime: &Runtime, timeout: Duration) -> bool {
    // SAFETY: it is open as long as the runtime lives.
    let descriptor = unsafe { BorrowedFd::borrow_raw(binding::descriptor(runtime)) };
    let mut watched = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).unwrap();
    poll(&mut watched, Some(&timeout)).unwrap() > 0
}

#[test]
fn timers_are_waited_for_outside() {
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.start(async {
        for _ in 0..3 {
            sleep(Duration::from_millis(5)).await;
        }
    });
    let begun = Instant::now();
    host(&mut runtime, run);
    assert!(begun.elapsed() >= Duration::from_millis(15));
}

#[test]
fn a_busy_guest_gives_way() {
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.start(async {
        for _ in 0..10_000 {
            yield_now().await;
        }
    });
    assert!(host(&mut runtime, run) > 10);
}

#[test]
fn letters_of_other_threads_ring_while_it_rests() {
    let mut runtime = Runtime::new().unwrap();
    let (sender, made) = channel();
    let run = runtime.start(async move {
        for _ in 0..100 {
            let promise = external_promise::<u32>().await;
            sender.send(promise.clone()).unwrap();
            assert_eq!(promise.future().await.unwrap(), 7);
        }
    });
    let settler = std::thread::spawn(move || {
        for promise in made {
            promise.complete(7).unwrap();
        }
    });
    host(&mut runtime, run);
    settler.join().unwrap();
}

#[test]
fn at_rest_its_descriptor_is_quiet() {
    let mut runtime = Runtime::new().unwrap();
    let (sender, made) = channel();
    let run = runtime.start(async move {
        let promise = external_promise::<u32>().await;
        sender.send(promise.clone()).unwrap();
        promise.future().await.unwrap();
    });
    let is_over = |runtime: &Runtime| binding::is_over(runtime, run.id());
    let rest = binding::go_on(&mut runtime, 1_000, is_over).unwrap();
    assert_eq!(rest, Rest::Wait(None));
    assert!(!wait(&runtime, Duration::from_millis(20)));
    made.recv().unwrap().complete(1).unwrap();
    assert!(wait(&runtime, Duration::from_secs(10)));
    host(&mut runtime, run);
}

#[test]
fn work_outside_is_answered_from_any_thread() {
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.start(async {
        let told = binding::outside("work", Arc::new(()), |finish: Finish| {
            std::thread::spawn(move || finish.tell(|| Ok(Value::new(42u32))));
        });
        let Ok(Reply::Value(value)) = told.await else { panic!("it has a value") };
        assert_eq!(value.get::<u32>(), Ok(42));
    });
    host(&mut runtime, run);
}

#[test]
fn work_that_is_given_up_has_failed() {
    let mut runtime = Runtime::new().unwrap();
    let run = runtime.start(async {
        let error = match binding::outside("work", Arc::new(()), drop::<Finish>).await {
            Ok(Reply::Error(error)) | Err(error) => error,
            Ok(_) => panic!("nobody answered"),
        };
        assert_eq!(error.kind(), ErrorKind::Host);
    });
    host(&mut runtime, run);
}
