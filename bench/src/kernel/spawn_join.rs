//! `spawn_join`: batches of 1,000 tasks that return a number. All are spawned, and then awaited in
//! order through their handles. Spawning is a scheduling point in tiffany, so its children run
//! meanwhile; in the others, they run when the parent first waits. All children run in both cases.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "spawn_join",
        what: "a task spawned and joined, in batches of 1,000",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::OfBest(1.3), Target::Of("tokio", 0.4)],
        rounds: 11,
        contenders: vec![
            Contender::new("tiffany", tiffany),
            Contender::new("tokio", tokio),
            Contender::new("smol", smol),
            Contender::new("monoio", monoio),
            Contender::new("bare", bare),
        ],
    }
}

const BATCH: u64 = 1_000;

fn batches(mode: Mode) -> u64 {
    mode.pick(300, 5)
}

/// Returns the number of tasks in all batches.
fn tasks(mode: Mode) -> usize {
    (BATCH * batches(mode)) as usize
}

fn check(sum: u64, mode: Mode) {
    assert_eq!(sum, batches(mode) * (BATCH * (BATCH - 1) / 2));
}

fn tiffany(mode: Mode) -> Sample {
    let batches = batches(mode);
    let (elapsed, sum) = runtimes::tiffany(async move {
        let (start, mut sum) = (Instant::now(), 0);
        for _ in 0..batches {
            let mut handles = Vec::with_capacity(BATCH as usize);
            for n in 0..BATCH {
                handles.push(tiffany::spawn(async move { black_box(n) }).await);
            }
            for handle in handles {
                sum += handle.await.expect("the task ends well");
            }
        }
        (start.elapsed(), sum)
    });
    check(sum, mode);
    Sample::ns_each(elapsed, tasks(mode))
}

fn tokio(mode: Mode) -> Sample {
    let batches = batches(mode);
    let (elapsed, sum) = runtimes::tokio(async move {
        let (start, mut sum) = (Instant::now(), 0);
        for _ in 0..batches {
            let mut handles = Vec::with_capacity(BATCH as usize);
            for n in 0..BATCH {
                handles.push(tokio::spawn(async move { black_box(n) }));
            }
            for handle in handles {
                sum += handle.await.expect("the task ends well");
            }
        }
        (start.elapsed(), sum)
    });
    check(sum, mode);
    Sample::ns_each(elapsed, tasks(mode))
}

fn smol(mode: Mode) -> Sample {
    let batches = batches(mode);
    let (elapsed, sum) = runtimes::smol(|executor| async move {
        let (start, mut sum) = (Instant::now(), 0);
        for _ in 0..batches {
            let mut handles = Vec::with_capacity(BATCH as usize);
            for n in 0..BATCH {
                handles.push(executor.spawn(async move { black_box(n) }));
            }
            for handle in handles {
                sum += handle.await;
            }
        }
        (start.elapsed(), sum)
    });
    check(sum, mode);
    Sample::ns_each(elapsed, tasks(mode))
}

fn monoio(mode: Mode) -> Sample {
    let batches = batches(mode);
    let (elapsed, sum) = runtimes::monoio(async move {
        let (start, mut sum) = (Instant::now(), 0);
        for _ in 0..batches {
            let mut handles = Vec::with_capacity(BATCH as usize);
            for n in 0..BATCH {
                handles.push(monoio::spawn(async move { black_box(n) }));
            }
            for handle in handles {
                sum += handle.await;
            }
        }
        (start.elapsed(), sum)
    });
    check(sum, mode);
    Sample::ns_each(elapsed, tasks(mode))
}

/// Measures one box and one poll per task.
fn bare(mode: Mode) -> Sample {
    let (start, mut sum) = (Instant::now(), 0);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..batches(mode) {
        let mut futures: Vec<Pin<Box<dyn Future<Output = u64>>>> =
            Vec::with_capacity(BATCH as usize);
        for n in 0..BATCH {
            futures.push(Box::pin(async move { black_box(n) }));
        }
        for mut future in futures {
            if let Poll::Ready(n) = future.as_mut().poll(&mut cx) {
                sum += n;
            }
        }
    }
    check(sum, mode);
    Sample::ns_each(start.elapsed(), tasks(mode))
}
