//! Starts each runtime with a root, which is a task of its own in all of them: a future given to
//! `block_on` is polled in other ways than a task, and tiffany has none.

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

/// A run's tasks all end in tiffany; these are ended by hand once the measure is over.
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

/// Runs a root in a new local executor of smol, with its reactor.
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

/// Lets all others of a monoio runtime run. A task that wakes itself goes to the front of monoio's queue
/// and runs again at once; one that waits for a new task comes after all that were ready.
pub(crate) async fn monoio_others_first() {
    monoio::spawn(async {}).await;
}

/// Wakes its own task and waits once. For monoio, which has no such thing of its own, and for bare
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
