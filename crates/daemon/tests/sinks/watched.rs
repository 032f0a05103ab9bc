//! A runtime that is driven on a thread of its own and does what it is told, with sinks that give its activity on.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tiffany::pal::{self, progress};
use tiffany::{Runtime, RuntimeHandle};
use tiffany_daemon::sinks::{Settings, Sinks};

use super::server::{LIMIT, SECRET};

/// What a runtime is told to do: so many events in a run.
type Order = u64;

pub(crate) struct Watched {
    orders: Option<mpsc::Sender<Order>>,
    done: mpsc::Receiver<Duration>,
    handle: RuntimeHandle,
    thread: Option<JoinHandle<()>>,
    pub(crate) side: tokio::runtime::Runtime,
    sinks: Option<Sinks>,
    log: Log,
    _logging: tracing::subscriber::DefaultGuard,
}

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Watched {
    /// With a hub that keeps so many events.
    pub(crate) fn new(settings: &Settings, keeps: usize) -> Watched {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let dispatch = tracing::Dispatch::new(subscriber);
        let for_side = dispatch.clone();
        let side = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .on_thread_start(move || {
                // The servers' crates log too, and must not tell either. It is set for as long as the thread lives.
                std::mem::forget(tracing::dispatcher::set_default(&for_side));
            })
            .enable_all()
            .build()
            .unwrap();
        let (orders, ordered) = mpsc::channel::<Order>();
        let (tell, done) = mpsc::channel();
        let (give, given) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let hub = pal::Settings { in_all: keeps, per_run: keeps, ..pal::Settings::default() };
            let mut runtime = Runtime::builder().activity(hub).build().unwrap();
            give.send(runtime.handle()).unwrap();
            for events in ordered {
                let begun = Instant::now();
                let run = async move {
                    for number in 0..events {
                        progress(number, Some(events), "").await;
                    }
                };
                runtime.run(run).unwrap();
                tell.send(begun.elapsed()).unwrap();
            }
        });
        let handle = given.recv_timeout(LIMIT).unwrap();
        let sinks = Sinks::start(settings, &handle, "blade-1", side.handle()).unwrap();
        Watched {
            orders: Some(orders),
            done,
            handle,
            thread: Some(thread),
            side,
            sinks: Some(sinks),
            log,
            _logging: tracing::dispatcher::set_default(&dispatch),
        }
    }

    /// Lets a run tell so many events, and gives how long that took it.
    pub(crate) fn work(&self, events: u64) -> Duration {
        self.orders.as_ref().unwrap().send(events).unwrap();
        self.done.recv_timeout(LIMIT).unwrap()
    }

    pub(crate) fn metric(&self, name: &str, sink: &str) -> f64 {
        let metrics = self.handle.metrics();
        metrics.value(name, &[("sink", sink)]).unwrap_or_else(|| panic!("no {name}\n{metrics}"))
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LIMIT, "{what}\n{}", self.logged());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn logged(&self) -> String {
        String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap()
    }

    /// Ends the runtime, and lets the sinks give on what is left.
    pub(crate) fn end(&mut self) {
        self.orders = None;
        self.thread.take().unwrap().join().unwrap();
        self.side.block_on(self.sinks.take().unwrap().finish(LIMIT));
        assert!(!self.logged().contains(SECRET), "{}", self.logged());
    }
}

/// Looks at all events that came: in order, without a gap but where one is told; what came twice came twice in a row. Gives how many were told to be lost.
pub(crate) fn check(events: &[Value]) -> u64 {
    let (mut next, mut lost, mut seen) = (1, 0, BTreeMap::new());
    for event in events {
        assert_eq!(event["node"], "blade-1", "{event}");
        if event["stage"] == "Lost" {
            let count = event["count"].as_u64().unwrap();
            lost += count;
            next += count;
            continue;
        }
        let seq = event["seq"].as_u64().unwrap_or_else(|| panic!("{event}"));
        if let Some(before) = seen.insert(seq, event.clone()) {
            assert_eq!(&before, event, "what comes twice is the same");
            continue;
        }
        assert_eq!(seq, next, "a gap before {event}");
        next += 1;
    }
    lost
}
