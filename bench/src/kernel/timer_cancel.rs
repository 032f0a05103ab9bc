//! `timer_cancel`: the cost of a timeout that does not happen. 10,000 tasks sleep for a long time;
//! another task makes 100 sleeps, polls each once so that it is registered, lets the others run,
//! and drops all of them. A sleep in tiffany is registered when the task's turn ends, so without
//! that turn nothing would be measured there. The memory for the sleeps is allocated before, so
//! only allocations of the runtimes themselves are measured. `bare` inserts into a `BTreeMap` and
//! removes again.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "timer_cancel",
        what: "a sleep inserted and cancelled with 10,000 resident",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::Of("tokio", 0.3)],
        rounds: 9,
        contenders: vec![
            Contender::new("tiffany", tiffany),
            Contender::new("tokio", tokio),
            Contender::new("smol", smol),
            Contender::new("monoio", monoio),
            Contender::new("bare", bare),
        ],
    }
}

const RESIDENT: usize = 10_000;
const BATCH: usize = 100;

fn batches(mode: Mode) -> usize {
    mode.pick(500, 5)
}

fn sample(elapsed: Duration, mode: Mode) -> Sample {
    Sample::ns_each(elapsed, BATCH * batches(mode))
}

/// Returns a time between a minute and an hour, so that no sleep is ever due.
fn long(dice: &mut Dice) -> Duration {
    dice.between(Duration::from_secs(60), Duration::from_secs(3600))
}

/// Makes, registers and drops the sleeps, batch by batch.
async fn insert_and_cancel<S, Y>(
    mode: Mode,
    sleep: impl Fn(Duration) -> S,
    yield_now: impl Fn() -> Y,
) -> Duration
where
    S: Future,
    Y: Future<Output = ()>,
{
    let mut dice = Dice(7);
    let mut places: Vec<Pin<Box<Option<S>>>> = (0..BATCH).map(|_| Box::pin(None)).collect();
    let start = Instant::now();
    for _ in 0..batches(mode) {
        poll_fn(|cx| {
            for place in &mut places {
                place.set(Some(sleep(long(&mut dice))));
                let sleep = place.as_mut().as_pin_mut().expect("just set");
                assert!(sleep.poll(cx).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        yield_now().await;
        places.iter_mut().for_each(|place| place.set(None));
    }
    start.elapsed()
}

fn tiffany(mode: Mode) -> Sample {
    let elapsed = runtimes::tiffany(async move {
        let mut dice = Dice(1);
        let mut resident = Vec::with_capacity(RESIDENT);
        for _ in 0..RESIDENT {
            resident.push(tiffany::spawn(tiffany::sleep(long(&mut dice))).await);
        }
        let elapsed = insert_and_cancel(mode, tiffany::sleep, tiffany::yield_now).await;
        runtimes::cancel_all(&resident).await;
        elapsed
    });
    sample(elapsed, mode)
}

fn tokio(mode: Mode) -> Sample {
    let elapsed = runtimes::tokio(async move {
        let mut dice = Dice(1);
        for _ in 0..RESIDENT {
            tokio::spawn(tokio::time::sleep(long(&mut dice)));
        }
        tokio::task::yield_now().await;
        insert_and_cancel(mode, tokio::time::sleep, tokio::task::yield_now).await
    });
    sample(elapsed, mode)
}

fn smol(mode: Mode) -> Sample {
    let elapsed = runtimes::smol(|executor| async move {
        let mut dice = Dice(1);
        let mut resident = Vec::with_capacity(RESIDENT);
        for _ in 0..RESIDENT {
            resident.push(executor.spawn(async_io::Timer::after(long(&mut dice))));
        }
        futures_lite::future::yield_now().await;
        insert_and_cancel(mode, async_io::Timer::after, futures_lite::future::yield_now).await
    });
    sample(elapsed, mode)
}

fn monoio(mode: Mode) -> Sample {
    let elapsed = runtimes::monoio(async move {
        let mut dice = Dice(1);
        for _ in 0..RESIDENT {
            drop(monoio::spawn(monoio::time::sleep(long(&mut dice))));
        }
        runtimes::monoio_others_first().await;
        insert_and_cancel(mode, monoio::time::sleep, runtimes::monoio_others_first).await
    });
    sample(elapsed, mode)
}

fn bare(mode: Mode) -> Sample {
    let (origin, mut dice, mut order) = (Instant::now(), Dice(1), 0u64);
    let mut timers: BTreeMap<(Instant, u64), u64> = BTreeMap::new();
    let mut insert = |timers: &mut BTreeMap<(Instant, u64), u64>, dice: &mut Dice| {
        order += 1;
        let key = (origin + long(dice), order);
        timers.insert(key, order);
        key
    };
    for _ in 0..RESIDENT {
        insert(&mut timers, &mut dice);
    }
    let start = Instant::now();
    for _ in 0..batches(mode) {
        let mut keys = Vec::with_capacity(BATCH);
        for _ in 0..BATCH {
            keys.push(insert(&mut timers, &mut dice));
        }
        for key in keys {
            black_box(timers.remove(&key));
        }
    }
    sample(start.elapsed(), mode)
}
