//! Async steps that share one thread elsewhere, as those of Python do on their loop: the watchdog looks at that thread
//! as it looks at turns. It reports a step that keeps the thread, and interrupts it where there is a limit and the
//! language allows it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::host::attempt::Attempt;
use crate::watchdog::{
    Awake, Interrupter, Lines, LongTurns, OnStuck, Outside, Pulse, TurnLimit, Watched,
};

/// What watches the async steps of a runtime.
pub(crate) struct StepWatch {
    patience: Duration,
    on_stuck: OnStuck,
    turns: Arc<LongTurns>,
    /// How long a step may keep the thread, and what interrupts it then.
    limit: OnceLock<(Duration, Interrupter)>,
    /// Made on that thread, when the first step gets there.
    watched: OnceLock<Awake>,
}

impl StepWatch {
    pub(crate) fn new(patience: Duration, on_stuck: OnStuck, turns: Arc<LongTurns>) -> StepWatch {
        let (limit, watched) = (OnceLock::new(), OnceLock::new());
        StepWatch { patience, on_stuck, turns, limit, watched }
    }

    /// Limits how long a step may keep the thread.
    pub(crate) fn limit(&self, limit: Duration, interrupt: Interrupter) {
        drop(self.limit.set((limit, interrupt)));
    }

    /// Resumes the code of an attempt, on the thread that all of them share.
    pub(crate) fn resume<T>(&self, attempt: &Attempt, code: impl FnOnce() -> T) -> T {
        let watched = self.watched.get_or_init(|| self.watched_here()).watched();
        let step = Outside::AsyncStep { name: attempt.step_name(), key: attempt.shared_key() };
        watched.wake();
        let done = watched.outside_turns(step, code);
        watched.sleep();
        done
    }

    fn watched_here(&self) -> Awake {
        let pulse = Pulse::of_this_thread();
        let (on_stuck, turns) = (Arc::clone(&self.on_stuck), Arc::clone(&self.turns));
        let watched = Watched::new(pulse, self.patience, on_stuck, (turns, Lines::Mislead));
        if let Some((limit, interrupt)) = self.limit.get() {
            let (limit, interrupt) = (*limit, Some(Arc::clone(interrupt)));
            // No run is held for it: the step fails.
            watched.limit_turns(TurnLimit { limit, note: Box::new(|_| ()), interrupt });
        }
        Arc::new(watched).watch()
    }
}
