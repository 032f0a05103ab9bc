//! What the work of a step shows to watchers, from its own thread. It never waits, is not recorded,
//! and counts as a heartbeat.

use std::borrow::Cow;
use std::cell::RefCell;

use tiffany_kernel::{LogLevel, Showing, Shown, Stage, Tid};

use crate::activity::hub::Hub;
use crate::host::attempt::Attempt;
use tiffany_records::activity::TaskId;

/// Where an attempt shows something, and in whose name.
pub(crate) struct Onlookers {
    pub(crate) hub: Hub,
    pub(crate) task_id: TaskId,
    pub(crate) tid: Tid,
}

thread_local! {
    /// The attempts that this thread works on, the innermost last.
    static CURRENT: RefCell<Vec<Attempt>> = const { RefCell::new(Vec::new()) };
}

/// The attempt that this thread works on, for code that doesn't have it as a parameter; `None`
/// outside the work of a step. (A future of [`step_async`](crate::calls::step::step_async) gets its
/// own.)
///
/// ```
/// use tiffany::durable::{attempt, step};
///
/// tiffany::try_run(async {
///     step("count", || {
///         for done in 0..3 {
///             if let Some(attempt) = attempt() {
///                 attempt.progress(done, 3, "files");
///             }
///         }
///         Ok::<_, String>(3)
///     })
///     .await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn attempt() -> Option<Attempt> {
    CURRENT.with_borrow(|current| current.last().cloned())
}

/// Does some work as part of this attempt.
pub(crate) fn working<R>(attempt: &Attempt, work: impl FnOnce() -> R) -> R {
    struct Leave;

    impl Drop for Leave {
        fn drop(&mut self) {
            let left = CURRENT.with_borrow_mut(Vec::pop);
            drop(left);
        }
    }

    CURRENT.with_borrow_mut(|current| current.push(attempt.clone()));
    let _leave = Leave;
    work()
}

impl Attempt {
    /// Shows the progress of the work, with the total if it is known.
    pub fn progress(
        &self,
        done: u64,
        total: impl Into<Option<u64>>,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.show(Showing::Progress { done, total: total.into() }, message);
    }

    /// Logs a message at this level.
    pub fn log(&self, level: LogLevel, message: impl Into<Cow<'static, str>>) {
        self.show(Showing::Log(level), message);
    }

    /// Shows a piece of output of a stream, which is called `stdout`, `stderr` or any other name.
    pub fn output(&self, stream: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) {
        self.show(Showing::Output(stream.into()), text);
    }

    /// Shows that the task enters this stage.
    pub fn stage(&self, stage: Stage, message: impl Into<Cow<'static, str>>) {
        self.show(Showing::Stage(stage), message);
    }

    pub(crate) fn show(&self, what: Showing, message: impl Into<Cow<'static, str>>) {
        self.heartbeat();
        // No task waits for its result, and its output must not be taken for that of another
        // attempt.
        if self.is_given_up() {
            return;
        }
        let Onlookers { hub, task_id, tid } = &self.shared.onlookers;
        let shown = Shown { what, message: message.into() };
        crate::host::trace::tell_shown_by_step(*task_id, *tid, self.step_name(), &shown);
        hub.show(*task_id, *tid, self.step_name(), shown);
    }

    /// Whether anything it shows may be watched.
    pub(crate) fn is_watched(&self) -> bool {
        self.shared.onlookers.hub.is_awake()
    }
}
