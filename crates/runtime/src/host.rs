//! What a runtime offers its tasks: the time, the way in from other threads, the reactor, the pool.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use crate::clock::Clock;
use crate::durable::Questions;
use crate::inbox::Inbox;
use crate::pool::Pool;
use crate::reactor::Reactor;
use crate::trace::Tracer;

/// Everything of the world that tasks of one runtime can reach.
pub(crate) struct Host {
    pub(crate) clock: Clock,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) reactor: RefCell<Reactor>,
    pub(crate) pool: Pool,
    pub(crate) entropy: Entropy,
    pub(crate) tracer: Tracer,
    /// What its runs can be asked.
    pub(crate) questions: Questions,
}

/// Where UUIDs come from: the system, or a count, so that a test has the same ones every time.
pub(crate) enum Entropy {
    System,
    Counted(Cell<u64>),
}

impl Entropy {
    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Entropy::System => Uuid::from_random(random_bits()),
            Entropy::Counted(count) => {
                count.set(count.get() + 1);
                Uuid::from_random(u128::from(count.get()))
            }
        }
    }

    /// Where the random numbers of a run begin.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Entropy::System => random_bits() as u64,
            Entropy::Counted(_) => 0,
        }
    }
}

/// Random bits of the operating system.
fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no random bits: {error}"),
        }
    }
    u128::from_ne_bytes(bytes)
}
