//! Signals of the operating system, received as events of a descriptor. Signals belong to the
//! process: every listener of a signal receives each one, in every runtime. Once a signal has been
//! listened for, its default action (ending the process, for example) stays off.

use std::future::Future;
use std::io::{self, PipeReader};
use std::panic::Location;

use signal_hook::SigId;
use signal_hook::consts::signal as numbers;
use signal_hook::low_level::{pipe, unregister};

use crate::host::reactor::Assume;
use crate::io::source::{Source, set_nonblocking};

/// A signal that can be listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// SIGHUP: the terminal is gone, or a daemon must read its settings again.
    Hangup,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGQUIT: Ctrl-\.
    Quit,
    /// SIGTERM: the process must end.
    Terminate,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGCHLD: a child process changed its state.
    Child,
    /// SIGWINCH: the size of the terminal has changed.
    WindowChange,
}

impl Signal {
    /// The system's number of the signal.
    pub fn number(self) -> i32 {
        match self {
            Signal::Hangup => numbers::SIGHUP,
            Signal::Interrupt => numbers::SIGINT,
            Signal::Quit => numbers::SIGQUIT,
            Signal::Terminate => numbers::SIGTERM,
            Signal::User1 => numbers::SIGUSR1,
            Signal::User2 => numbers::SIGUSR2,
            Signal::Child => numbers::SIGCHLD,
            Signal::WindowChange => numbers::SIGWINCH,
        }
    }
}

/// Listens for a signal from now on.
///
/// ```
/// use tiffany::signal::{Signal, signal};
///
/// tiffany::try_run(async {
///     let hangups = signal(Signal::Hangup)?;
///     std::process::Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status()?;
///     hangups.recv().await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn signal(signal: Signal) -> io::Result<Signals> {
    let (reader, writer) = io::pipe()?;
    // Both ends, because the handler must not block when no task reads.
    set_nonblocking(&reader)?;
    set_nonblocking(&writer)?;
    let source = Source::assuming(reader, Assume::Nothing)?;
    let id = pipe::register(signal.number(), writer)?;
    Ok(Signals { source, id })
}

/// Waits for Ctrl-C, from the moment it is first awaited.
///
/// ```no_run
/// tiffany::try_run(async {
///     println!("Ctrl-C ends me");
///     tiffany::signal::ctrl_c().await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = io::Result<()>> {
    let at = Location::caller();
    async move { signal(Signal::Interrupt)?.recv_at(at).await }
}

/// The received signals of one kind. Those that arrive while no task waits are kept, though the
/// system itself may combine several of one kind into one.
#[derive(Debug)]
pub struct Signals {
    source: Source<PipeReader>,
    id: SigId,
}

impl Signals {
    /// Waits for the next one.
    #[track_caller]
    pub fn recv(&self) -> impl Future<Output = io::Result<()>> {
        self.recv_at(Location::caller())
    }

    async fn recv_at(&self, at: &'static Location<'static>) -> io::Result<()> {
        // The handler writes one byte for each.
        self.source.read(&mut [0], at).await.map(|_| ())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        unregister(self.id);
    }
}
