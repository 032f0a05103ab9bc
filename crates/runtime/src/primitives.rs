//! The means of synchronisation that the mailbox is built on. Its test puts simulated ones in their place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
