//! Access to the interpreter from our threads: releasing it around waits, attaching to it, and not
//! touching it once it is ending.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::process::session::Process;

/// How long the end of the program waits for unfinished work before it prints a message.
const SILENCE: Duration = Duration::from_secs(1);

/// Calls a function that may wait, with the interpreter released. The function may attach again.
pub(crate) fn without<R>(py: Python<'_>, act: impl FnOnce() -> R) -> R {
    /// A value that never leaves this thread: `detach` calls the function here and at once.
    struct Here<T>(T);
    // SAFETY: as explained above, the value never leaves this thread.
    unsafe impl<T> Send for Here<T> {}
    impl<T: FnOnce() -> R, R> Here<T> {
        fn run(self) -> Here<R> {
            Here((self.0)())
        }
    }
    let here = Here(act);
    py.detach(move || here.run()).0
}

/// The number of our threads that are in the interpreter, and whether it is ending.
struct Busy {
    count: usize,
    is_ending: bool,
}

static BUSY: Mutex<Busy> = Mutex::new(Busy { count: 0, is_ending: false });
static DONE: Condvar = Condvar::new();

/// Keeps the interpreter from ending while it exists.
struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        let mut busy = BUSY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        busy.count -= 1;
        DONE.notify_all();
    }
}

/// Attaches to the interpreter on a thread that Python did not start, and calls a function. Returns
/// `None` if the interpreter is ending.
pub(crate) fn inside<R>(act: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let inside = {
        let mut busy = BUSY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if busy.is_ending {
            return None;
        }
        busy.count += 1;
        Inside(())
    };
    let process = Process::current();
    let result = Python::try_attach(act);
    // Checked before the lock, which another thread of the parent may have held during the fork.
    process.end_if_forked();
    drop(inside);
    result
}

/// Called before the interpreter ends. Waits for the threads that are in it, because a thread that
/// returned to a finished interpreter would crash the process.
#[pyfunction]
#[pyo3(name = "_leave")]
pub(crate) fn leave(py: Python<'_>) {
    let (begun, mut told) = (Instant::now(), false);
    while !crate::process::session::end_loops() && begun.elapsed() < SILENCE {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
    loop {
        let left = py.detach(|| {
            let mut busy = BUSY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            busy.is_ending = true;
            if busy.count > 0 {
                let waited = DONE.wait_timeout(busy, Duration::from_millis(50));
                busy = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            }
            busy.count
        });
        if left == 0 {
            return;
        }
        if let Err(error) = py.check_signals() {
            let code = error.value(py).getattr("code").and_then(|code| code.extract());
            let code: i32 = code.unwrap_or(130);
            let _ = py.import("os").and_then(|os| os.call_method1("_exit", (code,)));
        }
        if !told && begun.elapsed() > SILENCE {
            told = true;
            eprintln!(
                "tiffany: the program has finished, but a step is still running on a thread; waiting for it (Ctrl-C stops waiting)"
            );
        }
    }
}
