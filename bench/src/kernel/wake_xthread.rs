//! `wake_xthread`: another thread settles bursts of 100 external promises. The figure is the number
//! of wake-up system calls per burst while the loop sleeps; `awake` is the same while a task that
//! yields continuously keeps the loop awake; `settle_ns` is the cost of settling one promise for
//! that thread.
//!
//! Wake-ups are writes to an eventfd, and the system counts the writes of each thread in
//! `/proc/thread-self/io` (`syscw`), so nothing is traced or slowed down. tokio's one-shots are the
//! peer. smol may sleep on a futex, which involves no write and would not be counted, and monoio
//! needs another set of features for wakers of other threads.

use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target, ns_each};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "wake_xthread",
        what: "wake-up system calls for a burst of 100 settled by another thread",
        unit: "calls",
        better: Better::Lower,
        targets: vec![Target::Figure(1.0), Target::Beside("awake", 0.0)],
        rounds: 3,
        contenders: vec![
            Contender::fallible("tiffany", |mode| both(mode, tiffany)),
            Contender::fallible("tokio", |mode| both(mode, tokio)),
        ],
    }
}

const BURST: usize = 100;

/// Whether the loop has something else to do while it waits for a burst.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    Sleeps,
    IsAwake,
}

/// The measurements of the settling thread.
struct Seen {
    writes: u64,
    settling: Duration,
}

fn both(mode: Mode, take: fn(usize, Loop) -> Result<Seen, String>) -> Taken {
    let bursts = mode.pick(200, 5);
    let each = |seen: &Seen| seen.writes as f64 / bursts as f64;
    let (asleep, awake) = (take(bursts, Loop::Sleeps)?, take(bursts, Loop::IsAwake)?);
    Ok(Sample::of(each(&asleep))
        .beside("awake", each(&awake))
        .beside("settle_ns", ns_each(asleep.settling, bursts * BURST)))
}

/// Settles every burst that it receives, with a delay, so that the loop sleeps by then.
fn settle_bursts<S>(bursts: &Receiver<Vec<S>>, settle: fn(S)) -> Result<Seen, String> {
    let mut seen = Seen { writes: 0, settling: Duration::ZERO };
    for burst in bursts {
        thread::sleep(Duration::from_micros(500));
        let (writes, start) = (writes_of_this_thread()?, Instant::now());
        burst.into_iter().for_each(settle);
        seen.settling += start.elapsed();
        seen.writes += writes_of_this_thread()? - writes;
    }
    Ok(seen)
}

fn writes_of_this_thread() -> Result<u64, String> {
    let path = "/proc/thread-self/io";
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let writes = text.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse().ok());
    writes.ok_or_else(|| format!("{path} has no count of writes"))
}

/// Starts the settling thread, passes its channel to `run`, and waits for both.
fn with_thread<S: Send + 'static>(
    settle: fn(S),
    run: impl FnOnce(Sender<Vec<S>>),
) -> Result<Seen, String> {
    let (send, receive) = channel();
    let thread = thread::spawn(move || settle_bursts(&receive, settle));
    run(send);
    thread.join().expect("the settling thread ends well")
}

fn tiffany(bursts: usize, state: Loop) -> Result<Seen, String> {
    let settle = |promise: tiffany::ExternalPromise<u64>| {
        promise.complete(1).expect("the promise is known");
    };
    with_thread(settle, |send| {
        runtimes::tiffany(async move {
            let busy = match state {
                Loop::Sleeps => None,
                Loop::IsAwake => Some(tiffany::spawn(forever(tiffany::yield_now)).await),
            };
            for _ in 0..bursts {
                let mut futures = Vec::with_capacity(BURST);
                let mut burst = Vec::with_capacity(BURST);
                for _ in 0..BURST {
                    let promise = tiffany::external_promise::<u64>().await;
                    futures.push(promise.future());
                    burst.push(promise);
                }
                send.send(burst).expect("the thread listens");
                for future in futures {
                    assert_eq!(future.await.expect("settled"), 1);
                }
            }
            if let Some(busy) = busy {
                tiffany::cancel(&busy).await;
            }
        });
    })
}

fn tokio(bursts: usize, state: Loop) -> Result<Seen, String> {
    use tokio::sync::oneshot;
    let settle = |promise: oneshot::Sender<u64>| promise.send(1).expect("somebody waits");
    with_thread(settle, |send| {
        runtimes::tokio(async move {
            if state == Loop::IsAwake {
                tokio::spawn(forever(tokio::task::yield_now));
            }
            for _ in 0..bursts {
                let pairs = (0..BURST).map(|_| oneshot::channel());
                let (burst, futures): (Vec<_>, Vec<_>) = pairs.unzip();
                send.send(burst).expect("the thread listens");
                for future in futures {
                    assert_eq!(future.await.expect("settled"), 1);
                }
            }
        });
    })
}

async fn forever<F: Future<Output = ()>>(yield_now: fn() -> F) {
    loop {
        yield_now().await;
    }
}
