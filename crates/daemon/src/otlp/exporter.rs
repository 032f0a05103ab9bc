//! The thread that sends telemetry: spans in batches, metrics at intervals. A failed batch is
//! retried, while the queue takes as many spans as it has room for.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tiffany::RuntimeHandle;

use super::json;
use super::post::{Endpoint, Refused};
use super::sending::{Counts, Measured};
use super::spans::{Ended, now};

/// The most spans that wait in the queue.
const MAX_WAITING_SPANS: usize = 8192;
/// The most spans in one request.
const BATCH: usize = 512;
/// How long spans are collected before they are sent.
const LINGER: Duration = Duration::from_secs(1);
/// How long to wait after a failure, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The queue of spans to be sent.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    spans: Vec<Ended>,
    /// When the thread ends, even if spans are left.
    ends: Option<Instant>,
}

impl Queue {
    /// Adds a span. Returns `false` if there is no room.
    pub(super) fn add(&self, span: Ended) -> bool {
        let mut waiting = self.lock();
        if waiting.spans.len() >= MAX_WAITING_SPANS {
            return false;
        }
        waiting.spans.push(span);
        if waiting.spans.len() == BATCH {
            self.changed.notify_one();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a batch, the time is up, or the exporter ends.
    fn wait(&self, time: Duration) -> (Vec<Ended>, Option<Instant>) {
        let waits = |waiting: &mut Waiting| waiting.spans.len() < BATCH && waiting.ends.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), time, waits);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let count = waiting.spans.len().min(BATCH);
        (waiting.spans.drain(..count).collect(), waiting.ends)
    }

    /// Waits for some time, or until the exporter ends.
    fn rest(&self, time: Duration) {
        let waits = |waiting: &mut Waiting| waiting.ends.is_none();
        drop(self.changed.wait_timeout_while(self.lock(), time, waits));
    }
}

/// The thread that sends telemetry. Dropping it stops the thread.
pub struct Exporter {
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    measured: Arc<Measured>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(super) fn start(
        endpoint: Endpoint,
        resource: Value,
        queue: Arc<Queue>,
        counts: Arc<Counts>,
        every: Option<Duration>,
    ) -> io::Result<Exporter> {
        let measured = Arc::new(Measured::default());
        let mut sending = Sending {
            endpoint,
            resource,
            queue: Arc::clone(&queue),
            counts: Arc::clone(&counts),
            measured: Arc::clone(&measured),
            every,
            since: now(),
            is_down: false,
        };
        let thread = std::thread::Builder::new().name("tiffany-otlp".into());
        let thread = Some(thread.spawn(move || sending.serve())?);
        Ok(Exporter { queue, counts, measured, thread })
    }

    /// Starts to send the metrics of this runtime, with the exporter's own counters.
    pub fn watch(&self, runtime: &RuntimeHandle) {
        let counts = Arc::clone(&self.counts);
        runtime.add_metrics(Arc::new(move || counts.families()));
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime.clone());
    }

    /// Sends what is queued, for at most `patience`, and ends the thread.
    pub fn finish(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        let Some(thread) = self.thread.take() else { return };
        self.queue.lock().ends = Some(Instant::now() + patience);
        self.queue.changed.notify_all();
        drop(thread.join());
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

struct Sending {
    endpoint: Endpoint,
    resource: Value,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    measured: Arc<Measured>,
    every: Option<Duration>,
    since: u64,
    is_down: bool,
}

impl Sending {
    fn serve(&mut self) {
        let mut measured = Instant::now();
        loop {
            let (spans, ends) = self.queue.wait(LINGER);
            let more = spans.len() == BATCH;
            if !spans.is_empty() {
                self.send_spans(&spans);
            }
            let is_due = self.every.is_some_and(|every| measured.elapsed() >= every);
            if is_due || (ends.is_some() && !more) {
                measured = Instant::now();
                self.send_metrics();
            }
            if ends.is_some_and(|ends| !more || ends <= Instant::now()) {
                let left = self.queue.lock().spans.len();
                return self.drop_spans(left);
            }
        }
    }

    /// Sends spans until the collector accepts them, refuses them for good, or the exporter ends.
    fn send_spans(&mut self, spans: &[Ended]) {
        let body = json::traces(&self.resource, spans);
        let mut wait = FIRST_WAIT;
        loop {
            match self.endpoint.post("/v1/traces", &body) {
                Ok(()) => {
                    self.counts.spans.fetch_add(spans.len() as u64, Ordering::Relaxed);
                    return self.is_there();
                }
                Err(Refused::ForGood(why)) => {
                    self.failed(&why);
                    return self.drop_spans(spans.len());
                }
                Err(Refused::ForNow(why)) => self.failed(&why),
            }
            let ends = self.queue.lock().ends;
            if ends.is_some_and(|ends| ends <= Instant::now()) {
                return self.drop_spans(spans.len());
            }
            // Ending wakes the thread, which then retries until its time is up.
            self.queue.rest(if ends.is_some() { FIRST_WAIT } else { wait });
            if ends.is_some() {
                std::thread::sleep(FIRST_WAIT);
            }
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    /// Sends metrics once. A failure is not retried: the next report includes everything in this
    /// one.
    fn send_metrics(&mut self) {
        let measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(runtime), Some(_)) = (measured, self.every) else { return };
        let body = json::metrics(&self.resource, &runtime.metrics(), self.since, now());
        match self.endpoint.post("/v1/metrics", &body) {
            Ok(()) => {
                self.counts.metrics.fetch_add(1, Ordering::Relaxed);
                self.is_there();
            }
            Err(Refused::ForNow(why) | Refused::ForGood(why)) => self.failed(&why),
        }
    }

    fn drop_spans(&self, count: usize) {
        if count > 0 {
            self.counts.dropped_spans.fetch_add(count as u64, Ordering::Relaxed);
            tracing::warn!(target: "tiffany::otlp", count, "spans were dropped");
        }
    }

    fn failed(&mut self, why: &str) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_down, true) {
            let name = self.endpoint.name();
            tracing::warn!(target: "tiffany::otlp", "telemetry cannot be sent to {name}: {why}; it is tried again");
        }
    }

    fn is_there(&mut self) {
        if std::mem::replace(&mut self.is_down, false) {
            let dropped = self.counts.dropped_spans.load(Ordering::Relaxed);
            let name = self.endpoint.name();
            tracing::info!(target: "tiffany::otlp", dropped, "telemetry is sent to {name} again");
        }
    }
}
