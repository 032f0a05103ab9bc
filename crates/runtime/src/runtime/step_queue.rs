//! Named queues of steps: which step may begin, and when. Nothing here starts anything.

use std::collections::VecDeque;
use std::time::Duration;

use tiffany_kernel::{CallRef, Time};

use crate::line::Line;

/// The limits of a named queue. A queue belongs to a runtime: steps of all its runs wait in it,
/// first in, first out.
///
/// ```
/// use std::time::Duration;
/// use tiffany::Runtime;
/// use tiffany::durable::{QueueSettings, Rate, step};
///
/// let mut runtime = Runtime::builder()
///     .queue("mail", QueueSettings {
///         concurrency: Some(2),
///         rate: Some(Rate { starts: 100, per: Duration::from_secs(1) }),
///     })
///     .build()?;
/// let sent = runtime.try_run(async {
///     step("send", || Ok::<_, String>("sent".to_string())).queue("mail").await
/// })?;
/// assert_eq!(sent, "sent");
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueSettings {
    /// How many attempts may run at once. One that was abandoned, because of its timeout or because
    /// its task was cancelled, does not count any more. With 0, no attempt starts.
    pub concurrency: Option<usize>,
    /// How often an attempt may start.
    pub rate: Option<Rate>,
}

/// A number of starts in a period. Periods are counted from when the runtime was built.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// How many attempts may start; with 0, none.
    pub starts: usize,
    /// The period.
    pub per: Duration,
}

/// A queue with the steps in it.
pub(crate) struct Queue {
    settings: QueueSettings,
    line: Line<CallRef>,
    under_way: usize,
    /// The last starts that the rate depends on.
    starts: VecDeque<Time>,
}

/// The answer of a queue that is asked for its next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This one leaves, and is under way from now on.
    Leaves(CallRef),
    /// No step before this moment.
    NotBefore(Time),
    /// No step until something else happens.
    Nobody,
}

impl Queue {
    pub(crate) fn new(settings: QueueSettings) -> Queue {
        Queue { settings, line: Line::default(), under_way: 0, starts: VecDeque::new() }
    }

    pub(crate) fn join(&mut self, call: CallRef) {
        self.line.push_back(call);
    }

    /// Removes a step that is not to begin any more.
    pub(crate) fn leave(&mut self, call: CallRef) {
        self.line.remove(call);
    }

    /// How many steps wait.
    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// How many steps have left it and are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Notes that a step which was under way has finished.
    pub(crate) fn over(&mut self) {
        self.under_way -= 1;
    }

    pub(crate) fn next(&mut self, now: Time) -> Next {
        if self.line.is_empty()
            || self.settings.concurrency.is_some_and(|most| self.under_way >= most)
        {
            return Next::Nobody;
        }
        if let Some(Rate { starts, per }) = self.settings.rate {
            if starts == 0 {
                return Next::Nobody;
            }
            while self.starts.front().is_some_and(|start| *start + per <= now) {
                self.starts.pop_front();
            }
            if let Some(first) = self.starts.front()
                && self.starts.len() >= starts
            {
                return Next::NotBefore(*first + per);
            }
            self.starts.push_back(now);
        }
        self.under_way += 1;
        self.line.pop_front().map_or(Next::Nobody, Next::Leaves)
    }
}
