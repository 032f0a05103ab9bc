//! Where identities and random numbers come from.

use std::cell::Cell;

use tiffany_kernel::Uuid;

/// Where UUIDs come from: the system, a count, so that a test has the same ones every time, or a seed.
pub enum Entropy {
    /// The system.
    System,
    /// A count.
    Counted(Cell<u64>),
    /// Where the UUIDs go on, and where the seeds of the runs come from.
    Seeded(Cell<u64>, u64),
}

impl Entropy {
    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Entropy::System => Uuid::from_random(random_bits()),
            Entropy::Counted(count) => {
                count.set(count.get() + 1);
                Uuid::from_random(u128::from(count.get()))
            }
            Entropy::Seeded(next, _) => {
                let high = mixed(next.get());
                next.set(mixed(high));
                Uuid::from_random(u128::from(high) << 64 | u128::from(next.get()))
            }
        }
    }

    /// Where the random numbers of a run begin.
    pub fn seed(&self) -> u64 {
        match self {
            Entropy::System => random_bits() as u64,
            Entropy::Counted(_) => 0,
            Entropy::Seeded(_, seed) => *seed,
        }
    }

    /// What tells one hub from those of other processes. It has 53 bits: what reads numbers as floating ones, as JavaScript does, reads it as it is.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Entropy::System => (random_bits() as u64) >> 11,
            // Whatever else is drawn is drawn as it is without a hub.
            Entropy::Counted(_) | Entropy::Seeded(..) => 1,
        }
    }

    /// The same for a durable run: a simulation gives it the same ones, whenever it is started.
    pub(crate) fn seed_of(&self, run: Uuid) -> u64 {
        match self {
            Entropy::Seeded(_, seed) => mixed(*seed ^ mixed(run.0 as u64)),
            other => other.seed(),
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

/// One step of SplitMix64.
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
