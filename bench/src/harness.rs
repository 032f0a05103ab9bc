//! Runs the contenders of a measure in turns, and takes the median of each. It knows nothing of
//! what is measured.

use std::time::Duration;

/// The size of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Sizes and rounds for meaningful figures.
    Full,
    /// Sizes that are just large enough to check that everything works.
    Quick,
}

impl Mode {
    /// Returns the size for this mode.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Mode::Full => full,
            Mode::Quick => quick,
        }
    }
}

/// The direction in which figures are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// A target for a measure. A limit on a ratio means "at most" or "at least", depending on the
/// direction in which the measure is better.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// A multiple of the best runtime's figure in this run, not counting floors.
    OfBest(f64),
    /// A multiple of this contender's figure.
    Of(&'static str, f64),
    /// A fixed figure.
    Figure(f64),
    /// A fixed figure in an additional column, where lower is better.
    Beside(&'static str, f64),
    /// No more than this contender's figure in an additional column, within one percent.
    BesideNoMoreThan(&'static str, &'static str),
}

/// One figure, with additional ones that were taken with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) beside: Vec<(&'static str, f64)>,
}

impl Sample {
    pub(crate) fn of(value: f64) -> Sample {
        Sample { value, beside: Vec::new() }
    }

    /// Makes a sample of the nanoseconds per operation.
    pub(crate) fn ns_each(elapsed: Duration, operations: usize) -> Sample {
        Sample::of(ns_each(elapsed, operations))
    }

    pub(crate) fn beside(mut self, name: &'static str, value: f64) -> Sample {
        self.beside.push((name, value));
        self
    }
}

pub(crate) fn ns_each(elapsed: Duration, operations: usize) -> f64 {
    elapsed.as_nanos() as f64 / operations as f64
}

/// The result of taking one sample, or the reason why it could not be taken.
pub(crate) type Taken = Result<Sample, String>;

/// A participant in a measure.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    take: Box<dyn Fn(Mode) -> Taken>,
}

impl Contender {
    pub(crate) fn new(name: &'static str, take: impl Fn(Mode) -> Sample + 'static) -> Contender {
        Contender { name, take: Box::new(move |mode| Ok(take(mode))) }
    }

    /// Makes a contender that this machine may be unable to measure.
    pub(crate) fn fallible(
        name: &'static str,
        take: impl Fn(Mode) -> Taken + 'static,
    ) -> Contender {
        Contender { name, take: Box::new(take) }
    }
}

/// A measure: its description, contenders and targets.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) targets: Vec<Target>,
    pub(crate) rounds: usize,
    pub(crate) contenders: Vec<Contender>,
}

/// All samples of one contender.
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) samples: Vec<Sample>,
    pub(crate) missing: Option<String>,
}

impl Figures {
    pub(crate) fn median(&self) -> Option<f64> {
        median(self.samples.iter().map(|sample| sample.value))
    }

    /// Returns the lowest and the highest sample.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let values = || self.samples.iter().map(|sample| sample.value);
        Some((values().reduce(f64::min)?, values().reduce(f64::max)?))
    }

    /// Returns the names of the additional columns, in the order in which they were added.
    pub(crate) fn columns(&self) -> Vec<&'static str> {
        let noted = self.samples.first().map(|sample| sample.beside.as_slice());
        noted.unwrap_or_default().iter().map(|(name, _)| *name).collect()
    }

    pub(crate) fn beside(&self, column: &str) -> Option<f64> {
        let all = self.samples.iter().flat_map(|sample| &sample.beside);
        median(all.filter(|(name, _)| *name == column).map(|(_, value)| *value))
    }
}

/// Takes the samples in turns, A B C A B C …, so that a slow minute of the machine affects all
/// contenders.
pub(crate) fn take_turns(measure: &Measure, mode: Mode) -> Vec<Figures> {
    let mut figures: Vec<Figures> = measure
        .contenders
        .iter()
        .map(|contender| Figures { name: contender.name, samples: Vec::new(), missing: None })
        .collect();
    for _ in 0..mode.pick(measure.rounds, 1) {
        for (contender, figures) in measure.contenders.iter().zip(&mut figures) {
            match (contender.take)(mode) {
                Ok(sample) => figures.samples.push(sample),
                Err(why) => figures.missing = Some(why),
            }
        }
    }
    figures
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_both_middles() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
    }
}
