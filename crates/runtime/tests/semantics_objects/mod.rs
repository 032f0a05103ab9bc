//! What the design says of promises, the store, time, descriptors, locks, handlers, failure, the end and
//! deadlocks, sentence by sentence: each test quotes the one it checks. Expected results come from
//! the design, never from the code.

mod bad_input;
mod deadlock;
mod descriptors;
mod determinism;
mod end;
mod external;
mod failure;
mod handlers;
mod promises;
mod store;
mod sync;
mod time;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tiffany::{TaskError, Tid};

pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// What tasks noted, in the order they did.
pub(crate) struct Notes<T>(Rc<RefCell<Vec<T>>>);

impl<T> Notes<T> {
    pub(crate) fn new() -> Notes<T> {
        Notes(Rc::default())
    }

    pub(crate) fn add(&self, note: T) {
        self.0.borrow_mut().push(note);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Notes<T> {
        Notes(Rc::clone(&self.0))
    }
}

/// Asserts that an error has its code, names its task, its call and its line, and ends with what to do.
#[track_caller]
pub(crate) fn assert_names(error: &TaskError, code: &str, tid: Tid, call: &str, line: u32) {
    let text = error.to_string();
    assert_eq!(error.code(), code, "{text}");
    assert_eq!(error.task().map(|task| task.tid), Some(tid), "{text}");
    assert_eq!(error.call_site().map(|site| site.line), Some(line), "{text}");
    assert!(
        error.call_site().is_some_and(|site| site.file.contains("semantics_objects")),
        "{text}"
    );
    assert!(text.starts_with(&format!("task {tid}")), "{text}");
    assert!(text.contains(&format!("in `{call}` at ")), "{text}");
    assert_ends_with_next_step(error);
}

#[track_caller]
pub(crate) fn assert_ends_with_next_step(error: &TaskError) {
    let text = error.to_string();
    let next = format!(" [{}]; {}", error.code(), error.kind().next_step());
    assert!(text.ends_with(&next), "{text}");
}
