//! `parked_bytes`: the memory that each of a million tasks takes in addition to its own future
//! while they wait for one shared object. It counts bytes that the program allocated and has not
//! freed. The handles are dropped, so the tasks live on their own.
//!
//! The object is a promise in tiffany, `Notify` in tokio, and `event_listener::Event` in smol and
//! in monoio, which has nothing comparable. What a waiter registers (a node in a list) counts; what
//! it keeps inside its own future (tokio's node, tiffany's call) is part of the future's size.

use std::mem::size_of_val;
use std::rc::Rc;
use std::sync::Arc;

use event_listener::Event;
use tokio::sync::Notify;

use crate::counting_alloc;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "parked_bytes",
        what: "a parked task beside its future, of 1,000,000",
        unit: "bytes",
        better: Better::Lower,
        targets: vec![Target::Figure(128.0)],
        rounds: 1,
        contenders: vec![
            Contender::new("tiffany", tiffany),
            Contender::new("tokio", tokio),
            Contender::new("smol", smol),
            Contender::new("monoio", monoio),
        ],
    }
}

fn tasks(mode: Mode) -> usize {
    mode.pick(1_000_000, 10_000)
}

/// Makes the sample from the live bytes and the size of one future.
fn sample(live: isize, future: usize, tasks: usize) -> Sample {
    let each = live as f64 / tasks as f64;
    Sample::of(each - future as f64).beside("future_bytes", future as f64).beside("in_all", each)
}

fn tiffany(mode: Mode) -> Sample {
    async fn parked(gate: tiffany::Future<bool>) {
        assert!(gate.await.expect("the gate opens"));
    }
    let tasks = tasks(mode);
    runtimes::tiffany(async move {
        let gate = tiffany::promise::<bool>().await;
        let future = size_of_val(&parked(gate.future()));
        counting_alloc::start();
        for _ in 0..tasks {
            drop(tiffany::spawn(parked(gate.future())).await);
        }
        tiffany::yield_now().await;
        let live = counting_alloc::live();
        counting_alloc::stop();
        gate.complete(true).await.expect("settled once");
        sample(live, future, tasks)
    })
}

fn tokio(mode: Mode) -> Sample {
    async fn parked(gate: Arc<Notify>) {
        gate.notified().await;
    }
    let tasks = tasks(mode);
    runtimes::tokio(async move {
        let gate = Arc::new(Notify::new());
        let future = size_of_val(&parked(Arc::clone(&gate)));
        counting_alloc::start();
        for _ in 0..tasks {
            drop(tokio::spawn(parked(Arc::clone(&gate))));
        }
        // Tasks are scheduled in FIFO order: when this one has its next turn, all others have had
        // theirs.
        tokio::task::yield_now().await;
        let live = counting_alloc::live();
        counting_alloc::stop();
        gate.notify_waiters();
        sample(live, future, tasks)
    })
}

fn smol(mode: Mode) -> Sample {
    let tasks = tasks(mode);
    runtimes::smol(|executor| async move {
        let gate = Rc::new(Event::new());
        let future = size_of_val(&listen(Rc::clone(&gate)));
        counting_alloc::start();
        for _ in 0..tasks {
            executor.spawn(listen(Rc::clone(&gate))).detach();
        }
        let parked = || gate.total_listeners() == tasks;
        wait_for_all(parked, futures_lite::future::yield_now).await;
        let live = counting_alloc::live();
        counting_alloc::stop();
        gate.notify(usize::MAX);
        sample(live, future, tasks)
    })
}

fn monoio(mode: Mode) -> Sample {
    let tasks = tasks(mode);
    runtimes::monoio(async move {
        let gate = Rc::new(Event::new());
        let future = size_of_val(&listen(Rc::clone(&gate)));
        counting_alloc::start();
        for _ in 0..tasks {
            drop(monoio::spawn(listen(Rc::clone(&gate))));
        }
        let parked = || gate.total_listeners() == tasks;
        wait_for_all(parked, runtimes::monoio_others_first).await;
        let live = counting_alloc::live();
        counting_alloc::stop();
        gate.notify(usize::MAX);
        sample(live, future, tasks)
    })
}

async fn listen(gate: Rc<Event>) {
    gate.listen().await;
}

/// Lets the other tasks run until all of them wait.
async fn wait_for_all<F>(parked: impl Fn() -> bool, yield_now: fn() -> F)
where
    F: Future<Output = ()>,
{
    while !parked() {
        yield_now().await;
    }
}
