//! `promise`: two tasks play ping-pong. Each round trip uses two new one-shots: the player settles
//! the ping that the partner waits for, and the partner settles the pong that the player waits for.
//! The halves are passed between the tasks through a thread-local, which costs the same for all
//! contenders.
//!
//! The one-shots are tiffany's promise, tokio's `oneshot`, `futures_channel::oneshot` for smol (3.4
//! times as fast there as `async-channel`), `local_sync::oneshot` for monoio (made for it; the
//! other two are not faster there), and a shared cell for the bare loop.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use crate::runtimes;

pub(crate) fn measure() -> Measure {
    Measure {
        name: "promise",
        what: "a round trip between two tasks, fresh one-shots",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::OfBest(1.0)],
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

fn trips(mode: Mode) -> u64 {
    mode.pick(200_000, 1_000)
}

fn sample(elapsed: Duration, mode: Mode) -> Sample {
    Sample::ns_each(elapsed, trips(mode) as usize)
}

/// The halves that the partner needs for the next trip: the one to wait for, and the one to settle
/// now.
struct Halves<Wait, Settle> {
    next_ping: Wait,
    pong: Settle,
}

fn tiffany(mode: Mode) -> Sample {
    type Next = Halves<tiffany::Future<u64>, tiffany::Promise<u64>>;
    thread_local!(static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) });
    async fn partner(mut ping: tiffany::Future<u64>) {
        while let Ok(n) = ping.await
            && let Some(next) = NEXT.take()
        {
            next.pong.complete(n + 1).await.expect("settled once");
            ping = next.next_ping;
        }
    }
    let trips = trips(mode);
    let elapsed = runtimes::tiffany(async move {
        let mut ping = tiffany::promise::<u64>().await;
        let partner = tiffany::spawn(partner(ping.future())).await;
        let start = Instant::now();
        for n in 0..trips {
            let pong = tiffany::promise::<u64>().await;
            let next = tiffany::promise::<u64>().await;
            let answer = pong.future();
            NEXT.set(Some(Halves { next_ping: next.future(), pong }));
            ping.complete(n).await.expect("settled once");
            assert_eq!(answer.await.expect("settled"), n + 1);
            ping = next;
        }
        let elapsed = start.elapsed();
        ping.complete(0).await.expect("settled once");
        partner.await.expect("the partner ends well");
        elapsed
    });
    sample(elapsed, mode)
}

fn tokio(mode: Mode) -> Sample {
    use tokio::sync::oneshot::{Receiver, Sender, channel};
    type Next = Halves<Receiver<u64>, Sender<u64>>;
    thread_local!(static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) });
    async fn partner(mut ping: Receiver<u64>) {
        while let Ok(n) = ping.await
            && let Some(next) = NEXT.take()
        {
            next.pong.send(n + 1).expect("somebody waits");
            ping = next.next_ping;
        }
    }
    let trips = trips(mode);
    let elapsed = runtimes::tokio(async move {
        let (mut ping, first) = channel();
        let partner = tokio::spawn(partner(first));
        let start = Instant::now();
        for n in 0..trips {
            let (pong, answer) = channel();
            let (next, next_ping) = channel();
            NEXT.set(Some(Halves { next_ping, pong }));
            ping.send(n).expect("somebody waits");
            assert_eq!(answer.await.expect("settled"), n + 1);
            ping = next;
        }
        let elapsed = start.elapsed();
        ping.send(0).expect("somebody waits");
        partner.await.expect("the partner ends well");
        elapsed
    });
    sample(elapsed, mode)
}

fn smol(mode: Mode) -> Sample {
    use futures_channel::oneshot::{Receiver, Sender, channel};
    type Next = Halves<Receiver<u64>, Sender<u64>>;
    thread_local!(static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) });
    async fn partner(mut ping: Receiver<u64>) {
        while let Ok(n) = ping.await
            && let Some(next) = NEXT.take()
        {
            next.pong.send(n + 1).expect("somebody waits");
            ping = next.next_ping;
        }
    }
    let trips = trips(mode);
    let elapsed = runtimes::smol(|executor| async move {
        let (mut ping, first) = channel();
        let partner = executor.spawn(partner(first));
        let start = Instant::now();
        for n in 0..trips {
            let (pong, answer) = channel();
            let (next, next_ping) = channel();
            NEXT.set(Some(Halves { next_ping, pong }));
            ping.send(n).expect("somebody waits");
            assert_eq!(answer.await.expect("settled"), n + 1);
            ping = next;
        }
        let elapsed = start.elapsed();
        ping.send(0).expect("somebody waits");
        partner.await;
        elapsed
    });
    sample(elapsed, mode)
}

fn monoio(mode: Mode) -> Sample {
    use local_sync::oneshot::{Receiver, Sender, channel};
    type Next = Halves<Receiver<u64>, Sender<u64>>;
    thread_local!(static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) });
    async fn partner(mut ping: Receiver<u64>) {
        while let Ok(n) = ping.await
            && let Some(next) = NEXT.take()
        {
            next.pong.send(n + 1).expect("somebody waits");
            ping = next.next_ping;
        }
    }
    let trips = trips(mode);
    let elapsed = runtimes::monoio(async move {
        let (mut ping, first) = channel();
        let partner = monoio::spawn(partner(first));
        let start = Instant::now();
        for n in 0..trips {
            let (pong, answer) = channel();
            let (next, next_ping) = channel();
            NEXT.set(Some(Halves { next_ping, pong }));
            ping.send(n).expect("somebody waits");
            assert_eq!(answer.await.expect("settled"), n + 1);
            ping = next;
        }
        let elapsed = start.elapsed();
        ping.send(0).expect("somebody waits");
        partner.await;
        elapsed
    });
    sample(elapsed, mode)
}

fn bare(mode: Mode) -> Sample {
    type Shared = Rc<Cell<Option<u64>>>;
    type Next = Halves<Shared, Shared>;
    thread_local!(static NEXT: RefCell<Option<Next>> = const { RefCell::new(None) });
    async fn settled(cell: Shared) -> u64 {
        poll_fn(|_| cell.get().map_or(Poll::Pending, Poll::Ready)).await
    }
    async fn partner(mut ping: Shared) {
        loop {
            let n = settled(ping).await;
            let Some(next) = NEXT.take() else { return };
            next.pong.set(Some(n + 1));
            ping = next.next_ping;
        }
    }
    let (trips, mut ping) = (trips(mode), Shared::default());
    let mut partner = pin!(partner(Rc::clone(&ping)));
    let mut player = pin!(async move {
        for n in 0..trips {
            let (pong, next) = (Shared::default(), Shared::default());
            let halves = Halves { next_ping: Rc::clone(&next), pong: Rc::clone(&pong) };
            NEXT.set(Some(halves));
            ping.set(Some(n));
            assert_eq!(settled(pong).await, n + 1);
            ping = next;
        }
    });
    let mut cx = Context::from_waker(Waker::noop());
    let start = Instant::now();
    while player.as_mut().poll(&mut cx).is_pending() {
        assert!(partner.as_mut().poll(&mut cx).is_pending());
    }
    sample(start.elapsed(), mode)
}
