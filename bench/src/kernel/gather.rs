//! `gather_10k` and `gather_100k`: tasks that wait at a gate and return a number are spawned, the
//! gate opens, and all are gathered in order. The figure is the total time per task; `gather_only`
//! is the time from the call to its answer, in which the tasks end. The gate makes the gather wait:
//! without it, tiffany's children, which run while their parent spawns, would all be finished
//! before.
//!
//! The others have no gather: they await their handles in order, which is the usual way. One
//! warm-up round in the same runtime comes first, so that fresh memory is not measured. `linear` is
//! the cost per task with 100,000 tasks divided by the cost with 10,000, both taken one after the
//! other.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use event_listener::Event;
use tokio::sync::Notify;

use crate::harness::{Better, Contender, Measure, Mode, Sample, Target, ns_each};
use crate::runtimes;

pub(crate) fn small() -> Measure {
    Measure {
        name: "gather_10k",
        what: "a task of 10,000 spawned and gathered",
        unit: "ns",
        better: Better::Lower,
        targets: Vec::new(),
        rounds: 7,
        contenders: contenders(|mode, take| take(mode.pick(10_000, 1_000)).sample()),
    }
}

pub(crate) fn large() -> Measure {
    Measure {
        name: "gather_100k",
        what: "a task of 100,000 spawned and gathered",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::Beside("linear", 1.3)],
        rounds: 7,
        contenders: contenders(|mode, take| {
            let small = take(mode.pick(10_000, 1_000));
            let large = take(mode.pick(100_000, 10_000));
            let linear = large.whole() / small.whole();
            large.sample().beside("linear", linear)
        }),
    }
}

fn contenders(take: fn(Mode, fn(usize) -> Times) -> Sample) -> Vec<Contender> {
    let contender =
        |name, times: fn(usize) -> Times| Contender::new(name, move |mode| take(mode, times));
    vec![
        contender("tiffany", tiffany),
        contender("tokio", tokio),
        contender("smol", smol),
        contender("monoio", monoio),
    ]
}

/// The times for a number of tasks.
struct Times {
    tasks: usize,
    spawning: Duration,
    gathering: Duration,
}

impl Times {
    fn whole(&self) -> f64 {
        ns_each(self.spawning + self.gathering, self.tasks)
    }

    fn sample(&self) -> Sample {
        Sample::of(self.whole()).beside("gather_only", ns_each(self.gathering, self.tasks))
    }

    fn new(start: Instant, spawned: Instant, values: &[u64]) -> Times {
        let gathering = spawned.elapsed();
        assert!(values.iter().zip(0..).all(|(is, wanted)| *is == wanted));
        Times { tasks: values.len(), spawning: spawned - start, gathering }
    }
}

fn tiffany(tasks: usize) -> Times {
    async fn once(tasks: usize) -> Times {
        let start = Instant::now();
        let gate = tiffany::promise::<bool>().await;
        let mut handles = Vec::with_capacity(tasks);
        for n in 0..tasks as u64 {
            let opened = gate.future();
            let task = tiffany::spawn(async move {
                assert!(opened.await.expect("the gate opens"));
                n
            });
            handles.push(task.await);
        }
        gate.complete(true).await.expect("settled once");
        let spawned = Instant::now();
        let values = tiffany::gather(handles).await.expect("all end well");
        Times::new(start, spawned, &values)
    }
    runtimes::tiffany(async move {
        once(tasks).await;
        once(tasks).await
    })
}

fn tokio(tasks: usize) -> Times {
    async fn once(tasks: usize) -> Times {
        let start = Instant::now();
        let gate = Arc::new(Notify::new());
        let mut handles = Vec::with_capacity(tasks);
        for n in 0..tasks as u64 {
            let gate = Arc::clone(&gate);
            handles.push(tokio::spawn(async move {
                gate.notified().await;
                n
            }));
        }
        tokio::task::yield_now().await;
        gate.notify_waiters();
        let spawned = Instant::now();
        let mut values = Vec::with_capacity(tasks);
        for handle in handles {
            values.push(handle.await.expect("the task ends well"));
        }
        Times::new(start, spawned, &values)
    }
    runtimes::tokio(async move {
        once(tasks).await;
        once(tasks).await
    })
}

fn smol(tasks: usize) -> Times {
    runtimes::smol(|executor| async move {
        let once = async || {
            let start = Instant::now();
            let gate = Rc::new(Event::new());
            let mut handles = Vec::with_capacity(tasks);
            for n in 0..tasks as u64 {
                let opened = gate.listen();
                handles.push(executor.spawn(async move {
                    opened.await;
                    n
                }));
            }
            futures_lite::future::yield_now().await;
            gate.notify(usize::MAX);
            let spawned = Instant::now();
            let mut values = Vec::with_capacity(tasks);
            for handle in handles {
                values.push(handle.await);
            }
            Times::new(start, spawned, &values)
        };
        once().await;
        once().await
    })
}

fn monoio(tasks: usize) -> Times {
    async fn once(tasks: usize) -> Times {
        let start = Instant::now();
        let gate = Rc::new(Event::new());
        let mut handles = Vec::with_capacity(tasks);
        for n in 0..tasks as u64 {
            let opened = gate.listen();
            handles.push(monoio::spawn(async move {
                opened.await;
                n
            }));
        }
        runtimes::monoio_others_first().await;
        gate.notify(usize::MAX);
        let spawned = Instant::now();
        let mut values = Vec::with_capacity(tasks);
        for handle in handles {
            values.push(handle.await);
        }
        Times::new(start, spawned, &values)
    }
    runtimes::monoio(async move {
        once(tasks).await;
        once(tasks).await
    })
}
