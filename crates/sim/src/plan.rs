//! What goes wrong in one simulation, as a short text that repeats it: a seed, and what happens in each life of the
//! machine.

use std::fmt;
use std::str::FromStr;

use tiffany::wal::sim::Survivors;

/// One simulation: where everything drawn comes from, and what goes wrong in each life. The life after the last
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
    /// Where everything drawn comes from.
    pub seed: u64,
    /// What goes wrong, life by life.
    pub disasters: Vec<Disaster>,
}

/// What ends a life of the machine. Operations of the disk and attempts at steps are counted from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// The power goes in the middle of an operation of the disk: of a write, so many bytes are done.
    Operation {
        /// Which one.
        at: usize,
        /// How many bytes of it.
        torn: usize,
        /// What the medium keeps of what was not synced.
        survivors: Survivors,
        /// Then a bit turns over on the medium, drawn from this seed.
        flip: Option<u64>,
    },
    /// The power goes just before an attempt at a step.
    Effect {
        /// Which one.
        at: usize,
        /// What the medium keeps of what was not synced.
        survivors: Survivors,
    },
    /// An operation of the disk fails with this error number. The process ends, and what was not synced is kept in part.
    Fail {
        /// Which one.
        at: usize,
        /// The error number.
        errno: i32,
    },
    /// There was a life before this one, which left the log of the undisturbed run, cut after so many records.
    Cut {
        /// Which run, in the order of their ids.
        run: usize,
        /// How many records it has.
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

/// Numbers from a seed.
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
    fn a_plan_is_its_text() {
        for text in ["0:", "7:op12+40-some99-flip3,effect3-all,fail8-28", "1:cut2-17,op0+0-nothing"]
        {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        for text in ["", "7", "x:", "1:op3-all", "1:op3+1-most", "1:boom1-2"] {
            assert!(text.parse::<Plan>().is_err(), "{text}");
        }
    }
}
