//! What a task can have the host do, as the kernel carries it: opaque to the kernel, and opened once by the loop.

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
    /// Work that is begun on the loop's thread and ends anywhere.
    Outside(Outside),
}

/// Work, and the call that it was made by where that is another language's.
struct Attributed {
    origin: Option<Origin>,
    work: Work,
}

impl Work {
    /// The work as the kernel carries it.
    pub(crate) fn boxed(self, origin: Option<Origin>) -> Box<dyn Any> {
        Box::new(Attributed { origin, work: self })
    }

    /// The work inside an effect. `None`: it was not made here.
    pub(crate) fn of(effect: EffectWork) -> Option<Work> {
        effect.work.downcast::<Attributed>().ok().map(|attributed| attributed.work)
    }

    /// Whether the result of an effect can't be recorded.
    pub(crate) fn is_ephemeral(effect: &EffectWork) -> bool {
        let work = effect.work.downcast_ref::<Attributed>().map(|attributed| &attributed.work);
        matches!(work, Some(Work::Blocking(_) | Work::Outside(_)))
    }
}

/// The call that work was made by, as its language has it.
pub fn origin(effect: &EffectWork) -> Option<&Origin> {
    effect.work.downcast_ref::<Attributed>()?.origin.as_ref()
}
