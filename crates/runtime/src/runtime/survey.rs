//! What a runtime knows of its durable runs, for who drives them as a whole.

use std::panic::Location;

use tiffany_kernel::{TaskError, Uuid};

use crate::runtime::Runtime;
use crate::runtime::durable_runs::Known;
use tiffany_records::RunError;

/// The state of a durable run in a runtime.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It is live.
    Live,
    /// It is finished, or was removed.
    Over,
    /// It can't continue, and why.
    Paused(TaskError),
    /// The runtime has no such run.
    Unknown,
}

impl Runtime {
    /// Returns the state of a durable run.
    #[doc(hidden)]
    pub fn standing(&self, uuid: Uuid) -> Standing {
        if let Some(error) = self.refusal(uuid) {
            return Standing::Paused(error);
        }
        match self.durable.as_ref().and_then(|durable| durable.runs.get(&uuid)) {
            Some(Known::Live(_)) => Standing::Live,
            Some(Known::Over(..) | Known::Removed) => Standing::Over,
            Some(Known::Paused(error, _)) => Standing::Paused(error.clone()),
            None => Standing::Unknown,
        }
    }

    /// Drives all runs for as long as this says so. It is asked whenever something happens, and whenever the bell
    /// is rung.
    pub fn drive_while(&mut self, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), RunError> {
        self.drive_until(Location::caller(), |runtime| !goes_on(runtime))
    }

    /// Something by which another thread makes the loop look up.
    pub fn bell(&self) -> impl Fn() + Send + 'static {
        let handle = self.handle();
        move || handle.nudge()
    }
}
