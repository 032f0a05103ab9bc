//! The watch over async steps that share one thread, such as those of Python on their event loop.
//! The watchdog observes that thread as it observes turns. It reports a step that keeps the thread,
//! and interrupts it if there is a limit and the language can do that.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::host::attempt::Attempt;
use crate::watchdog::{
    Awake, Interrupter, Lines, LongTurns, OnStuck, Outside, Pulse, TurnLimit, Watched,
};

/// The watch over the async steps of a runtime.
pub(crate) struct StepWatch {
    patience: Duration,
    on_stuck: OnStuck,
    turns: Arc<LongTurns>,
    /// How long a step may keep the thread, and what interrupts it then.
    limit: OnceLock<(Duration, Interrupter)>,
    /// Created on that thread, when the first step gets there.
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

/// What runs on the thread that async steps share.
struct Present {
    watched: Arc<Watched>,
    /// The key of the attempt, if the code belongs to one.
    key: Option<Arc<str>>,
    is_resting: bool,
}

thread_local! {
    static PRESENT: RefCell<Option<Present>> = const { RefCell::new(None) };
}

/// Notes that code of an attempt, or of no attempt, begins to run on this thread. Code that belongs
/// to no attempt is watched by the runtime whose step ran here last.
pub(crate) fn begin(attempt: Option<&Attempt>) {
    PRESENT.with_borrow_mut(|present| {
        let watch = attempt.and_then(Attempt::step_watch);
        if let Some(watch) = watch {
            let watched = watch.watched.get_or_init(|| watch.watched_here()).watched();
            if let Some(last) = present.take_if(|last| !Arc::ptr_eq(&last.watched, watched)) {
                last.watched.sleep();
            }
            present.get_or_insert_with(|| Present {
                watched: Arc::clone(watched),
                key: None,
                is_resting: true,
            });
        }
        if let Some(present) = present {
            present.begin(attempt.filter(|_| watch.is_some()));
        }
    });
}

/// Notes that no such code runs on this thread any more.
pub(crate) fn rest() {
    PRESENT.with_borrow_mut(|present| {
        if let Some(present) = present.as_mut().filter(|present| !present.is_resting) {
            present.is_resting = true;
            present.watched.begin_outside(None);
            present.watched.sleep();
        }
    });
}

impl Present {
    fn begin(&mut self, attempt: Option<&Attempt>) {
        let is_same = |key: &Arc<str>| attempt.is_some_and(|at| std::ptr::eq(&**key, at.key()));
        let outside = if self.key.as_ref().is_some_and(is_same) {
            None
        } else {
            self.key = attempt.map(Attempt::shared_key);
            Some(match (attempt, self.key.clone()) {
                (Some(attempt), Some(key)) => Outside::AsyncStep { name: attempt.step_name(), key },
                _ => Outside::Callback,
            })
        };
        self.watched.begin_outside(outside);
        if std::mem::take(&mut self.is_resting) {
            self.watched.wake();
        }
    }
}
