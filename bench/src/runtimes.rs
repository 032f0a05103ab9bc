//! Starts each runtime with a root that is a task of its own in all of them. A future given to
//! `block_on` is polled in other ways than a task, and tiffany has no `block_on`.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use async_executor::LocalExecutor;

/// Runs a root in a new tiffany runtime with the default settings.
pub(crate) fn tiffany<F>(root: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    tiffany::run(root).expect("the run ends well")
}

/// Cancels tasks that are left after a measure, because a run in tiffany waits for all of its
/// tasks.
pub(crate) async fn cancel_all<T>(tasks: &[tiffany::Task<T>]) {
    for task in tasks {
        tiffany::cancel(task).await;
    }
}

/// Runs a root in a new current-thread tokio runtime with I/O and time.
pub(crate) fn tokio<F>(root: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("tokio starts");
    runtime.block_on(async { tokio::spawn(root).await.expect("the root ends well") })
}

/// Runs a root in a new local smol executor with its reactor.
pub(crate) fn smol<F, M>(make_root: M) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
    M: FnOnce(Rc<LocalExecutor<'static>>) -> F,
{
    let executor = Rc::new(LocalExecutor::new());
    let root = executor.spawn(make_root(Rc::clone(&executor)));
    async_io::block_on(executor.run(root))
}

/// Runs a root in a new monoio runtime on epoll, with timers.
pub(crate) fn monoio<F>(root: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    let builder = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new().enable_timer();
    let mut runtime = builder.build().expect("monoio starts");
    runtime.block_on(async { monoio::spawn(root).await })
}

/// Lets all other tasks of a monoio runtime run. A task that wakes itself moves to the front of
/// monoio's queue and runs again at once; one that waits for a new task runs after all that were
/// ready.
pub(crate) async fn monoio_others_first() {
    monoio::spawn(async {}).await;
}

/// Wakes its own task and waits once. This serves monoio, which has no yield of its own, and bare
/// loops.
pub(crate) async fn yield_by_waking() {
    let yielded = Cell::new(false);
    poll_fn(|cx| {
        if yielded.replace(true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
