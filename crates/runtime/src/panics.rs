//! Where a task or blocking work panicked, and within which labels. The payload does not say; the panic
//! hook knows. What the payload says is shown without what the rules of redaction take out.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

use tiffany_kernel::Site;

use crate::context;
use tiffany_records::redact::shown;

thread_local! {
    /// This thread does work for a task that runs elsewhere.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Does work that is no task's turn; where it panics is noted for `panic_error` on this thread.
pub(crate) fn noting<R>(work: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    context::with(|context| context.panicked_at.take());
    AT_WORK.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    AT_WORK.set(false);
    result
}

/// Makes the panic hook note the line of panics inside tasks. What it did before, it still does.
pub(crate) fn note_where() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            context::with(|context| {
                if context.port.task().is_some() || AT_WORK.get() {
                    let site = info
                        .location()
                        .map(|at| Site { file: at.file().to_string().into(), line: at.line() });
                    context.panicked_at.set(site);
                    // A panic in here would end the process, so nothing is taken for granted.
                    if let (Ok(mut within), Ok(labels)) =
                        (context.panicked_within.try_borrow_mut(), context.labels.try_borrow())
                    {
                        within.clone_from(&labels);
                    }
                }
            });
            let message = info.payload_as_str().unwrap_or_default();
            match shown(message).to_string() {
                cleaned if cleaned == message => before(info),
                cleaned => say(&cleaned, info.location()),
            }
        }));
    });
}

/// The message of a panic that has a secret in it. Who was called before would show all of it.
fn say(message: &str, at: Option<&Location<'_>>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let at = at.map_or(String::new(), |at| format!(" at {at}"));
    eprintln!("\nthread '{name}' panicked{at}:\n{message}");
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        eprintln!("stack backtrace:\n{backtrace}");
    }
}
