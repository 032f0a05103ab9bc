//! This process and its interpreter: threads, signals, forks, and the loops that run. It knows nothing of calls or tasks.

pub(crate) mod interpreter;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod thread;
