//! Subscriptions to live events. They are read on any thread, which releases the interpreter while
//! it waits, or under asyncio. `python/tiffany/_activity.py` converts the events to objects.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::prelude::*;
use tiffany::pal::{Detail, Hub, Subscription, TaskId, Told, Wanted};

use crate::durable::runs::identity;
use crate::process::interpreter;

/// How often a waiting reader checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// An event as JSON, or the number of lost events.
type Parts = (Option<String>, u64);

/// The result of reading: an event, `False` if there is none yet, `None` if there are no more.
#[derive(IntoPyObject)]
enum Next {
    Told(Parts),
    Nothing(bool),
    Over(Option<bool>),
}

/// Reads events. Threads can share it: each event goes to one of them.
#[pyclass(frozen, name = "_Subscription", module = "tiffany._core")]
pub(crate) struct Events {
    subscription: Mutex<Option<Subscription>>,
    hub: Hub,
}

impl Events {
    /// Subscribes to the selected events of a hub.
    pub(crate) fn new(
        hub: Hub,
        run: Option<&Bound<'_, PyAny>>,
        (from_seq, every_turn, ghosts): (Option<u64>, bool, bool),
    ) -> PyResult<Events> {
        let mut wanted = Wanted::new().ghosts(ghosts);
        wanted.from = from_seq;
        if every_turn {
            wanted.detail = Detail::All;
        }
        if let Some(run) = run {
            let number = run.extract::<u32>().ok();
            let number = number.map(|number| TaskId::Ephemeral(tiffany::RunId(number)));
            wanted.run = Some(match number {
                Some(number) => number,
                None => identity(run)?.into(),
            });
        }
        let subscription = Mutex::new(Some(hub.subscribe(wanted)));
        Ok(Events { subscription, hub })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Subscription>> {
        self.subscription.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn parts(told: Told) -> Parts {
    match told {
        Told::Event(event) => (serde_json::to_string(&*event).ok(), 0),
        Told::Lost { count } => (None, count),
    }
}

#[pymethods]
impl Events {
    /// The number that identifies this hub among those of other processes.
    fn epoch(&self) -> u64 {
        self.hub.epoch()
    }

    /// The number of events lost so far.
    fn lost(&self) -> u64 {
        self.lock().as_ref().map_or(0, Subscription::lost)
    }

    /// Waits for the next event, at most this many seconds. Returns `None` if there are no more,
    /// and `False` if none arrived in time.
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Next> {
        let limit = timeout.map(|time| Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX));
        let begun = std::time::Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            let time = left.map_or(LOOK, |left| left.min(LOOK));
            let next = interpreter::without(py, || {
                self.lock().as_mut().map(|events| events.next_timeout(time))
            });
            match next {
                None | Some(Ok(None)) => return Ok(Next::Over(None)),
                Some(Ok(Some(told))) => return Ok(Next::Told(parts(told))),
                Some(Err(_)) => py.check_signals()?,
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Next::Nothing(false));
            }
        }
    }

    /// Returns the next event if there is one; otherwise `wake` is called on another thread when
    /// there is. Returns `None` if there are no more, and `False` if there is none yet.
    fn poll(&self, py: Python<'_>, wake: Py<PyAny>) -> PyResult<Next> {
        let waker = Waker::from(Arc::new(Callback(wake)));
        let polled = interpreter::without(py, || {
            let mut context = Context::from_waker(&waker);
            self.lock().as_mut().map(|events| events.poll_next(&mut context))
        });
        Ok(match polled {
            None | Some(Poll::Ready(None)) => Next::Over(None),
            Some(Poll::Ready(Some(told))) => Next::Told(parts(told)),
            Some(Poll::Pending) => Next::Nothing(false),
        })
    }

    /// Ends the subscription. Threads that wait for an event return.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut subscription = interpreter::without(py, || self.lock());
        drop(subscription.take());
        Ok(())
    }
}

/// Calls a Python function when there is something to read.
struct Callback(Py<PyAny>);

impl Wake for Callback {
    fn wake(self: Arc<Callback>) {
        interpreter::inside(|py| {
            if let Err(error) = self.0.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}
