//! A runtime that serves others: it drives its runs and answers requests for as long as it is
//! wanted, and stops without cutting steps off.

use std::panic::Location;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::calls::context::Entered;
use crate::handle::RuntimeHandle;
use crate::runtime::{Runtime, nested};
use tiffany_records::RunError;

/// How often the loop checks whether the time is up, or whether it is still wanted after a failure
/// of the log.
const PACE: Duration = Duration::from_millis(20);

impl Runtime {
    /// Drives all runs and answers requests while the function returns `true`. It is called
    /// whenever something happens, and after a [nudge](crate::handle::RuntimeHandle::nudge). When
    /// the log fails, runs make no more progress, but requests that change nothing are still
    /// answered.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-serve-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
    ///     .build()?;
    /// let (handle, done) = (runtime.handle(), Arc::new(AtomicBool::new(false)));
    /// let is_done = Arc::clone(&done);
    /// let other = std::thread::spawn(move || {
    ///     let run = handle.control().submit("greet", "greet-1", &"Ada");
    ///     done.store(true, Ordering::SeqCst);
    ///     handle.nudge();
    ///     run
    /// });
    /// runtime.serve_while(|_| !is_done.load(Ordering::SeqCst))?;
    /// other.join().unwrap()?;
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn serve_while(&mut self, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), RunError> {
        let at = Location::caller();
        match self.drive_until(at, |runtime| !goes_on(runtime)) {
            Err(RunError::Log(error)) => {
                // The process stays, and must report the failure.
                if !tracing::enabled!(target: "tiffany", tracing::Level::ERROR) {
                    eprintln!(
                        "tiffany: the log has failed, and nothing is written any more: {error}"
                    );
                }
                self.only_answer(at, goes_on)
            }
            driven => driven,
        }
    }

    fn only_answer(
        &mut self,
        at: &'static Location<'static>,
        goes_on: impl Fn(&Runtime) -> bool,
    ) -> Result<(), RunError> {
        let _entered = Entered::new(&self.host).ok_or_else(|| nested(at))?;
        while goes_on(self) {
            self.read_messages();
            self.tell_outcomes();
            if self.host.inbox.may_sleep() {
                let waited = self.wait(Some(PACE));
                self.host.inbox.woke_up();
                waited?;
            }
        }
        Ok(())
    }

    /// Starts no more attempts at steps, and drives all runs until the running attempts have
    /// finished and are durable, or the time is up. `true`: no attempt is running any more. Tasks
    /// that wait for a step continue after a restart. If the log has failed, attempts have the same
    /// time, although their results cannot be recorded.
    #[track_caller]
    pub fn drain(&mut self, patience: Duration) -> Result<bool, RunError> {
        let at = Location::caller();
        // None: there is more patience than time.
        let deadline = Instant::now().checked_add(patience);
        self.effects.close();
        let _ringing = Ringing::start(self.handle())?;
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let done = |runtime: &Runtime| !runtime.effects.is_under_way() || is_late();
        match self.drive_until(at, done) {
            Err(RunError::Log(_)) => {
                self.only_answer(at, |runtime| runtime.effects.is_running() && !is_late())?;
                Ok(!self.effects.is_running())
            }
            driven => driven.map(|()| !self.effects.is_under_way()),
        }
    }

    /// Drives all runs and answers requests for this long: see
    /// [`serve_while`](Runtime::serve_while).
    #[track_caller]
    pub fn serve_for(&mut self, time: Duration) -> Result<(), RunError> {
        let deadline = Instant::now() + time;
        let _ringing = Ringing::start(self.handle())?;
        self.serve_while(|_| Instant::now() < deadline)
    }
}

/// Wakes the loop regularly: it has no timer for its caller, and perhaps nothing else wakes it.
struct Ringing {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ringing {
    fn start(handle: RuntimeHandle) -> Result<Ringing, RunError> {
        let (done, is_done) = channel::<()>();
        let ring = move || {
            while is_done.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                handle.nudge();
            }
        };
        let thread = std::thread::Builder::new().name("tiffany-ringing".into()).spawn(ring);
        let thread = thread.map_err(|error| RunError::system("a thread", &error))?;
        Ok(Ringing { done: Some(done), thread: Some(thread) })
    }
}

impl Drop for Ringing {
    fn drop(&mut self) {
        drop(self.done.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}
