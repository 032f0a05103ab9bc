//! The sources of UUIDs and random seeds.

use std::cell::Cell;

use tiffany_kernel::Uuid;

/// The source of UUIDs: the system, a counter, so that a test always has the same ones, or a seed.
pub enum Entropy {
    /// The system.
    System,
    /// A counter.
    Counted(Cell<u64>),
    /// The present state of the generator of UUIDs, and the seed for the runs.
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

    /// The seed of a run's random numbers.
    pub fn seed(&self) -> u64 {
        match self {
            Entropy::System => random_bits() as u64,
            Entropy::Counted(_) => 0,
            Entropy::Seeded(_, seed) => *seed,
        }
    }

    /// The epoch of a hub, which distinguishes it from those of other processes. It has 53 bits, so
    /// that readers that store numbers as floating-point ones, such as JavaScript, read it exactly.
    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Entropy::System => (random_bits() as u64) >> 11,
            // Nothing is drawn here, so that other draws are the same without a hub.
            Entropy::Counted(_) | Entropy::Seeded(..) => 1,
        }
    }

    /// The seed of a durable run's random numbers. In a simulation it depends on the run alone, and
    /// not on when the run is started.
    pub(crate) fn seed_of(&self, run: Uuid) -> u64 {
        match self {
            Entropy::Seeded(_, seed) => mixed(*seed ^ mixed(run.0 as u64)),
            other => other.seed(),
        }
    }
}

/// Random bits from the operating system.
fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system returned no random bits: {error}"),
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
