//! The plan of one simulation as a short text, with which it can be repeated: a seed, and what goes
//! wrong in each life of the machine.

use std::fmt;
use std::str::FromStr;

use tiffany::wal::sim::Survivors;

/// The plan of one simulation: the seed, and what goes wrong in each life. The life after the last
/// disaster is undisturbed.
///
/// ```
/// use tiffany_sim::Plan;
///
/// let plan: Plan = "7:op12+40-nothing,effect3-all".parse().unwrap();
/// assert_eq!(plan.seed, 7);
/// assert_eq!(plan.disasters.len(), 2);
/// assert_eq!(plan.to_string(), "7:op12+40-nothing,effect3-all");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The seed of everything that is random.
    pub seed: u64,
    /// The disasters, one for each life.
    pub disasters: Vec<Disaster>,
}

/// The event that ends a life of the machine. Disk operations and attempts at steps are counted
/// from the beginning of the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// The power fails in the middle of a disk operation. If it is a write, some bytes of it are
    /// written.
    Operation {
        /// The number of the operation.
        at: usize,
        /// The number of bytes that are written.
        torn: usize,
        /// The unsynced data that survives.
        survivors: Survivors,
        /// The seed for flipping a bit on the medium afterwards, if one is flipped.
        flip: Option<u64>,
    },
    /// The power fails just before an attempt at a step.
    Effect {
        /// The number of the attempt.
        at: usize,
        /// The unsynced data that survives.
        survivors: Survivors,
    },
    /// A disk operation fails with this error number. The process ends, and part of the unsynced
    /// data survives.
    Fail {
        /// The number of the operation.
        at: usize,
        /// The error number.
        errno: i32,
    },
    /// An earlier life left the undisturbed log of a run, cut after some records.
    Cut {
        /// The index of the run in the order of ids.
        run: usize,
        /// The number of records that are left.
        records: usize,
    },
}

struct Words(Survivors);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Survivors::Nothing => f.write_str("nothing"),
            Survivors::All => f.write_str("all"),
            Survivors::Some(seed) => write!(f, "some{seed}"),
        }
    }
}

fn survivors(text: &str) -> Option<Survivors> {
    match text {
        "nothing" => Some(Survivors::Nothing),
        "all" => Some(Survivors::All),
        other => other.strip_prefix("some")?.parse().ok().map(Survivors::Some),
    }
}

impl fmt::Display for Disaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disaster::Operation { at, torn, survivors, flip } => {
                write!(f, "op{at}+{torn}-{}", Words(*survivors))?;
                flip.map_or(Ok(()), |seed| write!(f, "-flip{seed}"))
            }
            Disaster::Effect { at, survivors } => write!(f, "effect{at}-{}", Words(*survivors)),
            Disaster::Fail { at, errno } => write!(f, "fail{at}-{errno}"),
            Disaster::Cut { run, records } => write!(f, "cut{run}-{records}"),
        }
    }
}

impl FromStr for Disaster {
    type Err = String;

    fn from_str(text: &str) -> Result<Disaster, String> {
        let parse = || {
            let (head, rest) = text.split_once('-')?;
            if let Some(place) = head.strip_prefix("op") {
                let (at, torn) = place.split_once('+')?;
                let (kept, flip) = match rest.split_once("-flip") {
                    Some((kept, seed)) => (kept, Some(seed.parse().ok()?)),
                    None => (rest, None),
                };
                let (at, torn) = (at.parse().ok()?, torn.parse().ok()?);
                return Some(Disaster::Operation { at, torn, survivors: survivors(kept)?, flip });
            }
            if let Some(at) = head.strip_prefix("effect") {
                let (at, survivors) = (at.parse().ok()?, survivors(rest)?);
                return Some(Disaster::Effect { at, survivors });
            }
            if let Some(at) = head.strip_prefix("fail") {
                return Some(Disaster::Fail { at: at.parse().ok()?, errno: rest.parse().ok()? });
            }
            let run = head.strip_prefix("cut")?.parse().ok()?;
            Some(Disaster::Cut { run, records: rest.parse().ok()? })
        };
        parse().ok_or_else(|| format!("`{text}` is not a disaster"))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seed)?;
        for (at, disaster) in self.disasters.iter().enumerate() {
            write!(f, "{}{disaster}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let bad = || format!("`{text}` is not a plan; one looks like `7:op12+40-nothing`");
        let (seed, rest) = text.split_once(':').ok_or_else(bad)?;
        let seed = seed.parse().map_err(|_| bad())?;
        let parts = rest.split(',').filter(|part| !part.is_empty());
        Ok(Plan { seed, disasters: parts.map(str::parse).collect::<Result<_, _>>()? })
    }
}

/// A random number generator with a seed.
#[derive(Clone, Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip_as_text() {
        for text in ["0:", "7:op12+40-some99-flip3,effect3-all,fail8-28", "1:cut2-17,op0+0-nothing"]
        {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        for text in ["", "7", "x:", "1:op3-all", "1:op3+1-most", "1:boom1-2"] {
            assert!(text.parse::<Plan>().is_err(), "{text}");
        }
    }
}
