//! A runtime that is there for others: it drives what goes on and answers who asks, for as long as it is wanted, and comes to rest without cutting steps off.

use std::panic::Location;
use std::time::{Duration, Instant};

use crate::context::Entered;
use crate::error::RunError;
use crate::runtime::{Runtime, nested};

/// When the log has failed, one looks so often whether one is still wanted.
const PACE: Duration = Duration::from_millis(100);

impl Runtime {
    /// Drives all runs and answers who asks, for as long as this says so. It is asked whenever something happens, and when somebody
    /// [nudges](crate::RuntimeHandle::nudge). When the log fails, runs stand still from there on, and what only looks is still answered.
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
            Err(RunError::Log(_)) => self.only_answer(at, goes_on),
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
            self.read_letters();
            if self.host.inbox.may_sleep() {
                let waited = self.wait(Some(PACE));
                self.host.inbox.woke_up();
                waited?;
            }
        }
        Ok(())
    }

    /// Begins no more attempts at steps, and drives all runs until those under way are over and safe, or time is up. `true`: nothing is under
    /// way any more. What waits for a step goes on after a restart.
    #[track_caller]
    pub fn drain(&mut self, patience: Duration) -> Result<bool, RunError> {
        let deadline = Instant::now() + patience;
        self.effects.close();
        let handle = self.handle();
        // The loop has no timer for this, and may have nothing else to wake it.
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        let ringer = std::thread::spawn(move || {
            let pace = PACE.min(patience);
            while is_done.recv_timeout(pace) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                handle.nudge();
            }
        });
        let driven = self.drive_until(Location::caller(), |runtime| {
            !runtime.effects.is_under_way() || Instant::now() >= deadline
        });
        drop(done);
        let _ = ringer.join();
        driven?;
        Ok(!self.effects.is_under_way())
    }
}
