//! The work that a task has the host do. It is opaque to the kernel, and unpacked once by the loop.

use std::any::Any;
use std::sync::Arc;

use tiffany_kernel::EffectWork;

use super::outside::Outside;
use super::send::Sending;
use super::step::StepWork;
use crate::host::pool::PoolWork;

/// A call as its language has it.
pub type Origin = Arc<dyn Any + Send + Sync>;

/// Work for the host.
pub(crate) enum Work {
    /// A closure for a thread of the pool.
    Blocking(PoolWork),
    /// A step.
    Step(StepWork),
    /// A message to another run.
    Send(Sending),
    /// Work that begins on the loop's thread and ends anywhere.
    Outside(Outside),
}

/// Work, with the call as another language has it.
struct Attributed {
    origin: Option<Origin>,
    work: Work,
}

impl Work {
    /// The work in the form in which the kernel carries it.
    pub(crate) fn boxed(self, origin: Option<Origin>) -> Box<dyn Any> {
        Box::new(Attributed { origin, work: self })
    }

    /// The work inside an effect. `None` if it was not made here.
    pub(crate) fn of(effect: EffectWork) -> Option<Work> {
        effect.work.downcast::<Attributed>().ok().map(|attributed| attributed.work)
    }

    /// Whether the result of an effect can't be recorded.
    pub(crate) fn is_ephemeral(effect: &EffectWork) -> bool {
        let work = effect.work.downcast_ref::<Attributed>().map(|attributed| &attributed.work);
        matches!(work, Some(Work::Blocking(_) | Work::Outside(_)))
    }
}

/// The call behind an effect, as its language has it.
pub fn origin(effect: &EffectWork) -> Option<&Origin> {
    effect.work.downcast_ref::<Attributed>()?.origin.as_ref()
}
