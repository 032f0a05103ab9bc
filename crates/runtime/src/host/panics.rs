//! The lines of panics in tasks and blocking work, and the labels around them. The payload does not
//! contain them, so the panic hook notes them. Messages are redacted before they are shown.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

use tiffany_kernel::{ErrorKind, Site, TaskError, panic_text};

use tiffany_records::redact::shown;

/// The labels that a task gave to parts of its work, outermost first.
pub(crate) type Labels = Vec<Cow<'static, str>>;

thread_local! {
    /// Whether this thread does work for a task that runs elsewhere.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
    /// The line of the last panic on this thread, and the labels around it.
    static PANICKED_AT: Cell<Option<Site>> = const { Cell::new(None) };
    static PANICKED_WITHIN: RefCell<Labels> = const { RefCell::new(Vec::new()) };
}

/// Does work outside turns. If it panics, the place is noted for `panic_error` on this thread.
pub(crate) fn noting<R>(work: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    PANICKED_AT.take();
    AT_WORK.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    AT_WORK.set(false);
    result
}

/// Has the panic hook note the lines of panics inside tasks; `labels_of_turn` returns their labels.
/// The previous hook is still called.
pub(crate) fn note_where(labels_of_turn: fn(&mut Labels) -> bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A panic in here would end the process, so nothing is taken for granted.
            let mut labels = Labels::new();
            if labels_of_turn(&mut labels) || AT_WORK.get() {
                let site = info
                    .location()
                    .map(|at| Site { file: at.file().to_string().into(), line: at.line() });
                PANICKED_AT.set(site);
                PANICKED_WITHIN.with(|within| {
                    if let Ok(mut within) = within.try_borrow_mut() {
                        *within = labels;
                    }
                });
            }
            let message = info.payload_as_str().unwrap_or_default();
            match shown(message).to_string() {
                cleaned if cleaned == message => before(info),
                cleaned => say(&cleaned, info.location()),
            }
        }));
    });
}

/// A panic as an error, with its message and its line.
pub(crate) fn panic_error(payload: Box<dyn Any + Send>, what: &str) -> TaskError {
    let text = panic_text(payload);
    let site = PANICKED_AT.take();
    let mut error = TaskError::new(
        ErrorKind::Panicked,
        match site {
            Some(site) => format!("{what} at {site}: {text}"),
            None => format!("{what}: {text}"),
        },
    );
    error.add_labels(&PANICKED_WITHIN.take());
    error
}

/// Reports a panic whose message contains a secret; the previous hook would show all of it.
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
