//! A runtime on its own thread that follows orders, with sinks that forward its activity.

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

/// An order for the runtime: how many events a run emits.
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

/// The log output.
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
    /// Creates a runtime whose hub keeps this many events.
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
                // The servers' client libraries log too, and must not disclose the password. The
                // dispatcher stays set as long as the thread lives.
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

    /// Lets a run emit this many events, and returns how long that took.
    pub(crate) fn work(&self, events: u64) -> Duration {
        self.orders.as_ref().unwrap().send(events).unwrap();
        self.done.recv_timeout(LIMIT).unwrap()
    }

    pub(crate) fn metric(&self, name: &str, sink: &str) -> f64 {
        let metrics = self.handle.metrics();
        metrics.value(name, &[("sink", sink)]).unwrap_or_else(|| panic!("no {name}\n{metrics}"))
    }

    /// Waits until a condition holds.
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

    /// Ends the runtime, and lets the sinks forward what is left.
    pub(crate) fn end(&mut self) {
        self.orders = None;
        self.thread.take().unwrap().join().unwrap();
        self.side.block_on(self.sinks.take().unwrap().finish(LIMIT));
        assert!(!self.logged().contains(SECRET), "{}", self.logged());
    }
}

/// Checks all received events: they are in order, without a gap unless one is reported, and
/// repeated events repeat in a row. Returns the number of events that were reported as lost.
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
