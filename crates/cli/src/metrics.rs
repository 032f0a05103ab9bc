//! `status --metrics`: prints the counters and measurements of the process that owns the log.

use super::Done;
use super::driver::{self, Heard};
use super::error::{CliError, Ending, exit};
use super::out::{Out, clean};
use super::place::{Place, is_log};
use tiffany::control::Control;

pub(super) fn metrics(place: &Place, mut out: Out, name: Option<&str>) -> Done {
    is_log(&place.dir)?;
    // The log itself is not opened: reading metrics must not block a program.
    let mut metrics = match driver::ask(&place.reach, Control::metrics)? {
        Heard::Said(metrics) => metrics,
        Heard::Silent(silence) => return Err(Ending::Error(silence.shown(exit::IN_USE))),
        Heard::Nobody => return Err(CliError::NobodyMeasures(place.dir.clone()).into()),
    };
    if let Some(name) = name {
        metrics.families.retain(|family| family.name.starts_with(name));
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
