//! What the rows share: a log of what happened in which order, and short ways to run a task.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{Builder, RunError, Task, TaskError, yield_now};

/// What happened, in order. Clones are the same log.
#[derive(Clone, Default)]
pub(crate) struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Log {
        Log::default()
    }

    pub(crate) fn note(&self, what: impl Display) {
        self.0.borrow_mut().push(what.to_string());
    }

    /// Everything so far, on one line.
    pub(crate) fn text(&self) -> String {
        self.0.borrow().join(" ")
    }

    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Notes this when dropped.
    pub(crate) fn guard(&self, what: impl Display) -> Guard {
        Guard(self.clone(), what.to_string())
    }
}

/// Notes its own end.
pub(crate) struct Guard(Log, String);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.note(&self.1);
    }
}

/// Runs a future on a virtual clock, to its value.
#[track_caller]
pub(crate) fn run<F>(root: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    result(root).unwrap_or_else(|error| panic!("the run failed: {error}"))
}

/// Runs a future on a virtual clock, to its value or error.
#[track_caller]
pub(crate) fn result<F>(root: F) -> Result<F::Output, RunError>
where
    F: Future + 'static,
    F::Output: 'static,
{
    scheduler(quiet()).run(root)
}

/// A scheduler for rows that need no trace: watched, or, in `semantics_unwatched`, not.
pub(crate) fn scheduler(settings: Builder) -> TestScheduler {
    match super::WATCHED {
        true => TestScheduler::with(settings),
        false => TestScheduler::unwatched(settings),
    }
}

/// Settings that do not print failures nobody waited for.
pub(crate) fn quiet() -> Builder {
    Builder::new().on_unobserved(|_| {})
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many turns of the others.
pub(crate) async fn turns(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// Notes a name once a turn.
pub(crate) async fn chant(log: Log, name: &'static str, times: usize) {
    for _ in 0..times {
        log.note(name);
        yield_now().await;
    }
}

/// Polls a future once, from inside a task.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A place for a task's own handle, which only its parent can put there.
pub(crate) type Own<T> = Rc<RefCell<Option<Rc<Task<T>>>>>;

/// The handle in its place, once it is there.
pub(crate) async fn own<T>(place: &Own<T>) -> Rc<Task<T>> {
    loop {
        if let Some(task) = place.borrow().clone() {
            return task;
        }
        yield_now().await;
    }
}

/// A result in a few words: the value, or the error's code.
pub(crate) fn brief<T: std::fmt::Debug>(result: Result<T, TaskError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.code().to_string(),
    }
}

/// A flag that tasks and tests share.
pub(crate) type Flag = Rc<Cell<bool>>;

/// Runs until a flag is up, by single turns. Not up when nobody is ready any more: a failure.
#[track_caller]
pub(crate) fn step_until(test: &mut TestScheduler, flag: &Flag) {
    while !flag.get() {
        assert!(test.step(), "nobody is ready, and the flag is not up:\n{}", test.trace());
    }
}
