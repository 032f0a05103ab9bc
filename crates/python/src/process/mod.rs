//! The process and its interpreter: threads, signals, forks and running loops. It knows nothing of
//! calls or tasks.

pub(crate) mod interpreter;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod thread;
