//! Python tasks: how a generator or coroutine becomes a task, how the task is resumed, and what it
//! owns.

pub(crate) mod asyncgens;
pub(crate) mod contextvars;
pub(crate) mod driver;
pub(crate) mod handler;
pub(crate) mod program;
pub(crate) mod spawn;
pub(crate) mod stack;
