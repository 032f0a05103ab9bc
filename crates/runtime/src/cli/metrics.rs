//! `metrics`: what the process that has the log counts and measures.

use super::Done;
use super::args::Metrics;
use super::error::CliError;
use super::out::{Out, clean};
use super::place::{Place, is_log};
use crate::control::Control;

pub(super) fn metrics(place: &Place, mut out: Out, options: &Metrics) -> Done {
    is_log(&place.dir)?;
    // The log itself is not touched: whoever measures must not keep the program from it.
    let Some(mut control) = Control::connect(&place.dir)? else {
        return Err(CliError::NobodyMeasures(place.dir.clone()).into());
    };
    let mut metrics = control.metrics()?;
    if let Some(name) = &options.name {
        metrics.families.retain(|family| family.name.starts_with(name.as_str()));
        if metrics.families.is_empty() {
            return Err(CliError::Usage(format!("no metric's name begins with `{name}`")).into());
        }
    }
    match out.json {
        true => metrics.families.iter().try_for_each(|family| out.json(family))?,
        false => metrics.to_string().lines().try_for_each(|line| out.line(&clean(line)))?,
    }
    out.end(0)
}
