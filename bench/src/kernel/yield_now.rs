//! `yield`: 1,000 tasks that each yield 1,000 times. Each runtime uses its own yield. monoio has
//! none, so its tasks wake themselves, which is cheaper than a switch: such a task moves to the
//! front of its queue and is polled again at once, with all of its data in the cache. The time
//! includes spawning and joining, which is a thousandth of the work. `bare` polls boxed futures
//! round robin, and is the floor rather than a runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;

use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "yield",
        what: "a switch among 1,000 tasks",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::OfBest(1.0), Target::Figure(14.0)],
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

const TASKS: usize = 1_000;

fn yields(mode: Mode) -> usize {
    mode.pick(1_000, 10)
}

fn tiffany(mode: Mode) -> Sample {
    let yields = yields(mode);
    let elapsed = runtimes::tiffany(async move {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(TASKS);
        for _ in 0..TASKS {
            let task = tiffany::spawn(async move {
                for _ in 0..yields {
                    tiffany::yield_now().await;
                }
            });
            tasks.push(task.await);
        }
        for task in tasks {
            task.await.expect("the task ends well");
        }
        start.elapsed()
    });
    Sample::ns_each(elapsed, TASKS * yields)
}

fn tokio(mode: Mode) -> Sample {
    let yields = yields(mode);
    let elapsed = runtimes::tokio(async move {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(TASKS);
        for _ in 0..TASKS {
            tasks.push(tokio::spawn(async move {
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("the task ends well");
        }
        start.elapsed()
    });
    Sample::ns_each(elapsed, TASKS * yields)
}

fn smol(mode: Mode) -> Sample {
    let yields = yields(mode);
    let elapsed = runtimes::smol(|executor| async move {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(TASKS);
        for _ in 0..TASKS {
            tasks.push(executor.spawn(async move {
                for _ in 0..yields {
                    futures_lite::future::yield_now().await;
                }
            }));
        }
        for task in tasks {
            task.await;
        }
        start.elapsed()
    });
    Sample::ns_each(elapsed, TASKS * yields)
}

fn monoio(mode: Mode) -> Sample {
    let yields = yields(mode);
    let elapsed = runtimes::monoio(async move {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(TASKS);
        for _ in 0..TASKS {
            tasks.push(monoio::spawn(async move {
                for _ in 0..yields {
                    runtimes::yield_by_waking().await;
                }
            }));
        }
        for task in tasks {
            task.await;
        }
        start.elapsed()
    });
    Sample::ns_each(elapsed, TASKS * yields)
}

fn bare(mode: Mode) -> Sample {
    let yields = yields(mode);
    let start = Instant::now();
    let mut tasks: Vec<Option<Pin<Box<dyn Future<Output = ()>>>>> = Vec::with_capacity(TASKS);
    for _ in 0..TASKS {
        tasks.push(Some(Box::pin(async move {
            for _ in 0..yields {
                runtimes::yield_by_waking().await;
            }
        })));
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut left = TASKS;
    while left > 0 {
        for place in &mut tasks {
            if let Some(task) = place
                && task.as_mut().poll(&mut cx).is_ready()
            {
                *place = None;
                left -= 1;
            }
        }
    }
    Sample::ns_each(start.elapsed(), TASKS * yields)
}
