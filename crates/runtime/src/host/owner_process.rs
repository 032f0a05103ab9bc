//! The process that owns a runtime, as opposed to its children by `fork`. Such a child has the
//! memory of the runtime and none of its threads: it must never continue as the runtime, and ends
//! where it would.
//!
//! This file has `unsafe` code because the child may only use what is safe in a forked process:
//! `write` and `_exit`.

use std::io::Write;

use tiffany_log::not_inherited::forks;

/// The process that created something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    #[inline]
    pub(crate) fn current() -> OwnerProcess {
        OwnerProcess(forks())
    }

    /// Ends this process if it is a child that was forked from the owner.
    #[inline]
    pub(crate) fn end_if_forked(self) {
        if self != OwnerProcess::current() {
            end_forked_child();
        }
    }
}

/// The exit code of a child that ends here.
const EXIT_CODE: i32 = 1;

/// Ends a forked child that returned to the runtime of its parent. Nothing is flushed, closed or
/// dropped, because all of it belongs to the parent.
#[cold]
pub fn end_forked_child() -> ! {
    // On the stack, because another thread of the parent may have held a lock of the standard
    // library's output.
    let mut line = [0; 512];
    let mut rest = &mut line[..];
    let pid = std::process::id();
    // A line that is too long would be cut off.
    let _ = writeln!(
        rest,
        "tiffany: process {pid} ended: it is a child that a task or step created with `fork()`, and it returned to the \
         runtime of its parent [TFY0047]; end such a child with `os._exit()`, or use `subprocess` or `multiprocessing`"
    );
    let length = 512 - rest.len();
    // SAFETY: both functions may be called in a forked child, and the line is as long as it says.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        libc::_exit(EXIT_CODE)
    }
}

#[cfg(test)]
mod tests {
    use crate::calls::sys::{spawn, yield_now};
    use crate::runtime::Runtime;

    #[test]
    fn a_child_that_a_task_forked_ends_when_its_turn_does() {
        let parent = std::process::id();
        let mut runtime = Runtime::new().unwrap();
        let child = runtime.run(async {
            let other = spawn(async {
                for _ in 0..100 {
                    yield_now().await;
                }
            })
            .await;
            // SAFETY: the child only returns to the loop, which ends it.
            let child = unsafe { libc::fork() };
            yield_now().await;
            other.await.unwrap();
            child
        });
        if std::process::id() != parent {
            // SAFETY: nothing of the parent is touched.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: it is a child of ours that nobody has waited for.
        unsafe { libc::waitpid(child.unwrap(), &raw mut status, 0) };
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == super::EXIT_CODE,
            "{status}"
        );
        assert_eq!(runtime.run(async { 1 }).unwrap(), 1);
    }
}
