//! What the work of a step shows to those who watch, from its own thread. It waits for nobody, is not written down, and counts as a sign of life.

use std::borrow::Cow;
use std::cell::RefCell;

use tiffany_kernel::{LogLevel, Showing, Shown, Stage, Tid};

use crate::activity::hub::Hub;
use crate::host::attempt::Attempt;
use tiffany_records::activity::TaskId;

/// Where an attempt shows what it does, and as whose.
pub(crate) struct Onlookers {
    pub(crate) hub: Hub,
    pub(crate) task_id: TaskId,
    pub(crate) tid: Tid,
}

thread_local! {
    /// The attempts that this thread works on, the innermost last.
    static CURRENT: RefCell<Vec<Attempt>> = const { RefCell::new(Vec::new()) };
}

/// The attempt that this thread works on, for work that was not handed it; `None` outside the work of a step. (A future of
/// [`step_async`](crate::calls::step::step_async) is handed its own.)
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

/// Does some work as this attempt's.
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
    /// Says how far the work is: so much of so much, where that is known.
    pub fn progress(
        &self,
        done: u64,
        total: impl Into<Option<u64>>,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.show(Showing::Progress { done, total: total.into() }, message);
    }

    /// Says something of this level.
    pub fn log(&self, level: LogLevel, message: impl Into<Cow<'static, str>>) {
        self.show(Showing::Log(level), message);
    }

    /// Shows a piece of output, of a stream that is called `stdout`, `stderr` or as one likes.
    pub fn output(&self, stream: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) {
        self.show(Showing::Output(stream.into()), text);
    }

    /// Says that the task is in this stage now.
    pub fn stage(&self, stage: Stage, message: impl Into<Cow<'static, str>>) {
        self.show(Showing::Stage(stage), message);
    }

    pub(crate) fn show(&self, what: Showing, message: impl Into<Cow<'static, str>>) {
        self.heartbeat();
        // Nobody waits for what it makes, and what another attempt shows must not be taken for this one's.
        if self.is_given_up() {
            return;
        }
        let Onlookers { hub, task_id, tid } = &self.shared.onlookers;
        let shown = Shown { what, message: message.into() };
        crate::host::trace::tell_shown_by_step(*task_id, *tid, self.step_name(), &shown);
        hub.show(*task_id, *tid, self.step_name(), shown);
    }

    /// Whether anybody may want to see what it shows.
    pub(crate) fn is_watched(&self) -> bool {
        self.shared.onlookers.hub.is_awake()
    }
}
