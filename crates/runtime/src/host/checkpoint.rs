//! Checkpoints of a step: values that its work stores for the next attempt, after an error or a
//! crash. The work waits until the log has them. Nothing here knows what a checkpoint contains.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{ErrorKind, TaskError};

use crate::host::attempt::{Attempt, StepError};
use crate::host::inbox::LoopMessage;
use tiffany_log::sync::{Condvar, Mutex};
use tiffany_records::value::{decode, encode};

/// Why a checkpoint was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// No task waits for the attempt any more.
    Late,
    /// The log has stopped, or the runtime is gone.
    Gone,
}

/// Where the work waits for the log.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Default)]
struct State {
    answer: Option<Result<(), Refusal>>,
    waker: Option<Waker>,
}

impl Slot {
    /// Stores an answer; the first one counts.
    pub(crate) fn settle(&self, answer: Result<(), Refusal>) {
        let mut state = self.state.lock();
        state.answer.get_or_insert(answer);
        let waker = state.waker.take();
        drop(state);
        self.settled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The loop's side. If it is dropped, the log has stopped.
pub(crate) struct Receipt(Arc<Slot>);

impl Receipt {
    pub(crate) fn accept(self) {
        self.0.settle(Ok(()));
    }

    /// Refuses the checkpoint, because no task waits for the attempt any more.
    pub(crate) fn refuse_as_late(self) {
        self.0.settle(Err(Refusal::Late));
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.0.settle(Err(Refusal::Gone));
    }
}

/// A checkpoint that is being recorded: the future of [`Attempt::checkpoint_async`].
#[must_use = "a checkpoint is safe when this has been awaited"]
pub struct Checkpoint {
    number: u64,
    state: Result<Arc<Slot>, Option<StepError>>,
}

impl Attempt {
    /// Stores a value for later attempts, replacing the previous one, and waits until it is
    /// durable. It also counts as a heartbeat. In a run that is not durable the value is kept in
    /// memory. In a simulation, where the loop does the work itself, this does not wait.
    ///
    /// An error means that no task waits for this attempt any more, or that the log has stopped:
    /// the work should end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tiffany::durable::{Retry, StepError, step_with};
    ///
    /// let copied = tiffany::try_run(async {
    ///     step_with("copy", |attempt| {
    ///         let done = attempt.last_checkpoint::<u64>()?.unwrap_or(0);
    ///         for part in done..10 {
    ///             // Copy this part, and then:
    ///             attempt.checkpoint(&(part + 1))?;
    ///             if part == 4 && attempt.number() == 1 {
    ///                 return Err(StepError::from("the line is down"));
    ///             }
    ///         }
    ///         Ok(format!("from part {done} on"))
    ///     })
    ///     .retry(Retry::times(2).first(Duration::ZERO))
    ///     .await
    /// })?;
    /// assert_eq!(copied, "from part 5 on");
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn checkpoint(&self, value: &impl Serialize) -> Result<(), StepError> {
        let Checkpoint { number, state } = self.begin_checkpoint(value);
        let slot =
            state.map_err(|error| error.unwrap_or_else(|| refused(number, Refusal::Gone)))?;
        let mut state = slot.state.lock();
        loop {
            match state.answer {
                Some(answer) => return answer.map_err(|refusal| refused(number, refusal)),
                None => slot.settled.wait(&mut state),
            }
        }
    }

    /// Stores a value for later attempts, like [`checkpoint`](Attempt::checkpoint), for work that
    /// is a future.
    pub fn checkpoint_async(&self, value: &impl Serialize) -> Checkpoint {
        self.begin_checkpoint(value)
    }

    /// The last checkpoint of the attempts before this one, in this process or an earlier one.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, StepError> {
        // Another attempt would read the same value.
        let kept = self.identity.checkpoint.as_deref();
        kept.map(decode).transpose().map_err(StepError::last)
    }

    fn begin_checkpoint(&self, value: &impl Serialize) -> Checkpoint {
        let number = self.number();
        let json = match encode(value) {
            Ok(json) => json,
            Err(error) => return Checkpoint { number, state: Err(Some(StepError::last(error))) },
        };
        self.heartbeat();
        let slot = Arc::new(Slot::default());
        let receipt = Receipt(Arc::clone(&slot));
        let mut waiting = self.shared.waiting.lock();
        waiting.retain(|waits| waits.strong_count() > 0);
        waiting.push(Arc::downgrade(&slot));
        drop(waiting);
        // The loop may be gone and read no messages any more; it gives up all attempts before.
        if self.is_given_up() {
            slot.settle(Err(Refusal::Late));
        }
        // In a simulation the loop itself does the work, and cannot wait for itself.
        if self.shared.inbox.works_inline() {
            slot.settle(Ok(()));
        }
        // Sent nevertheless, so that it is counted as late.
        self.shared.inbox.send(LoopMessage::Checkpoint(self.identity.call, number, json, receipt));
        Checkpoint { number, state: Ok(slot) }
    }
}

impl Future for Checkpoint {
    type Output = Result<(), StepError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let number = self.number;
        match &mut self.state {
            Err(error) => {
                let error = error.take().unwrap_or_else(|| refused(number, Refusal::Gone));
                Poll::Ready(Err(error))
            }
            Ok(slot) => {
                let mut state = slot.state.lock();
                match state.answer {
                    Some(answer) => Poll::Ready(answer.map_err(|refusal| refused(number, refusal))),
                    None => {
                        state.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint(attempt {})", self.number)
    }
}

fn refused(number: u64, refusal: Refusal) -> StepError {
    StepError::last(match refusal {
        Refusal::Late => {
            let message = format!("no task waits for attempt {number} any more");
            TaskError::new(ErrorKind::TimedOut, message)
        }
        Refusal::Gone => {
            let message = format!("a checkpoint of attempt {number} could not be recorded");
            TaskError::new(ErrorKind::LogFailed, message)
        }
    })
}
