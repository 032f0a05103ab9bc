//! Many readers on many threads: each sees every event in order, none keeps another waiting, and all learn of the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tiffany::pal::{Detail, LogLevel, Settings, Told, Wanted, log};
use tiffany::{Runtime, handle, sleep, yield_now};

use super::kit::LIMIT;

#[test]
fn readers_on_their_own_threads_see_all_of_it_in_order() {
    let mut runtime = Runtime::new().expect("a runtime");
    let hub = runtime.activity();
    let readers: Vec<_> = (0..8)
        .map(|number| {
            let mut wanted = Wanted::new();
            if number % 2 == 0 {
                wanted = wanted.detail(Detail::All);
            }
            let mut events = hub.subscribe(wanted);
            std::thread::spawn(move || {
                let (mut last, mut shown, mut lost) = (0, 0, 0);
                while let Some(told) = events.next() {
                    match told {
                        Told::Event(event) => {
                            assert!(event.seq > last, "{} after {last}", event.seq);
                            last = event.seq;
                            shown += usize::from(!event.message.is_empty());
                        }
                        Told::Lost { count } => lost += count,
                    }
                }
                (shown, lost, last)
            })
        })
        .collect();
    runtime
        .run(async {
            for number in 0..2_000 {
                log(LogLevel::Info, number.to_string()).await;
                if number % 100 == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        })
        .expect("it ends well");
    let end = hub.next_seq() - 1;
    drop(runtime);
    for (number, reader) in readers.into_iter().enumerate() {
        let (shown, lost, last) = reader.join().expect("it does not panic");
        assert_eq!((shown, lost, last), (2_000, 0, end), "reader {number}");
    }
}

#[test]
fn a_thousand_readers_who_read_nothing_neither_stop_nor_grow_anything() {
    let settings = Settings { in_all: 500, turns: 500, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let hub = runtime.activity();
    let subscribe = |number: usize| match number % 2 {
        0 => hub.subscribe(Wanted::new()),
        _ => hub.subscribe(Wanted::new().detail(Detail::All)),
    };
    let mut readers: Vec<_> = (0..1_000).map(subscribe).collect();
    let work = || async {
        for _ in 0..20_000 {
            yield_now().await;
        }
        log(LogLevel::Info, "done").await;
    };
    runtime.run(work()).expect("it ends well");
    let bytes = hub.counts().bytes;
    runtime.run(work()).expect("it ends well");
    assert_eq!(hub.counts().readers, 1_000);
    assert!(hub.counts().bytes <= bytes + 100_000, "{bytes} and then {:?}", hub.counts());
    drop(runtime);
    for events in &mut readers {
        let last = std::iter::from_fn(|| events.try_next()).last();
        assert!(matches!(last, Some(Told::Event(event)) if event.seq == hub.next_seq() - 1));
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn who_waits_in_an_executor_is_woken_and_once_for_many_events() {
    let mut runtime = Runtime::new().expect("a runtime");
    let mut events = runtime.activity().subscribe(Wanted::new());
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);
    assert!(events.poll_next(&mut cx).is_pending());
    assert!(events.poll_next(&mut cx).is_pending(), "asked twice, it waits once");
    runtime
        .run(async {
            for number in 0..1_000 {
                log(LogLevel::Info, number.to_string()).await;
            }
        })
        .expect("it ends well");
    let begun = Instant::now();
    while counter.0.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < LIMIT, "nobody woke it");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    let mut count = 0;
    while let Poll::Ready(Some(_)) = events.poll_next(&mut cx) {
        count += 1;
    }
    assert_eq!(count, 1_003);
    drop(runtime);
    let begun = Instant::now();
    while counter.0.load(Ordering::SeqCst) == 1 {
        assert!(begun.elapsed() < LIMIT, "nobody told it of the end");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(events.poll_next(&mut cx), Poll::Ready(None));
}

#[test]
fn somebody_who_comes_while_a_run_goes_on_sees_its_turns_from_then_on() {
    let mut runtime = Runtime::new().expect("a runtime");
    let (send, came) = std::sync::mpsc::channel();
    let turns = runtime
        .run(async move {
            let handle = handle().expect("this is a task");
            let reader = std::thread::spawn(move || {
                let mut events = handle.activity().subscribe(Wanted::new().detail(Detail::All));
                let told = events.next_timeout(LIMIT);
                send.send(()).expect("the task listens");
                told
            });
            let mut turns = 0;
            while came.try_recv().is_err() {
                yield_now().await;
                turns += 1;
            }
            drop(reader.join().expect("it does not panic").expect("it comes in time"));
            turns
        })
        .expect("it ends well");
    assert!(turns > 0);
}
