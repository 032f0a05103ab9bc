//! Calls that show something to watchers. They are system calls like all others: scheduling points,
//! and seen by handlers. But they are not recorded, so that a million of them need no disk space,
//! and a program may make more or fewer of them than the version that wrote a log.

use std::borrow::Cow;

use tiffany_kernel::{LogLevel, Showing, Shown, Stage, SystemCall};

use crate::calls::call::Call;

/// Shows the task's progress, with the total if it is known.
///
/// ```
/// use tiffany::pal::progress;
///
/// tiffany::run(async {
///     for done in 0..10 {
///         progress(done, 10, "files").await;
///     }
///     progress(10, None, "and nobody knows how many more").await;
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn progress(
    done: u64,
    total: impl Into<Option<u64>>,
    message: impl Into<Cow<'static, str>>,
) -> Call<()> {
    show(Showing::Progress { done, total: total.into() }, message)
}

/// Logs a message at this level. It goes to the activity log, and to `tracing` in the task's span.
#[track_caller]
pub fn log(level: LogLevel, message: impl Into<Cow<'static, str>>) -> Call<()> {
    show(Showing::Log(level), message)
}

/// Shows a piece of output of a stream, which is called `stdout`, `stderr` or any other name.
#[track_caller]
pub fn output(
    stream: impl Into<Cow<'static, str>>,
    text: impl Into<Cow<'static, str>>,
) -> Call<()> {
    show(Showing::Output(stream.into()), text)
}

/// Shows that the task enters this stage.
///
/// ```
/// use tiffany::pal::{Stage, stage};
///
/// tiffany::run(async {
///     stage(Stage::WaitingForLLM, "planning").await;
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn stage(stage: Stage, message: impl Into<Cow<'static, str>>) -> Call<()> {
    show(Showing::Stage(stage), message)
}

#[track_caller]
fn show(what: Showing, message: impl Into<Cow<'static, str>>) -> Call<()> {
    Call::new(SystemCall::Show(Box::new(Shown { what, message: message.into() })))
}
