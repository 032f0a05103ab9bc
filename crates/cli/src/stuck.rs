//! `ls --stuck`: lists tasks of active runs that have waited for long, from the log alone, and the
//! task that blocks all others, from the process.

use std::path::Path;
use std::time::Duration;

use tiffany::control::{Control, LongTurn};
use tiffany::units;

use crate::GuestError;
use crate::args::Ls;
use crate::daemon_commands::{print, refused};
use crate::error::{CliError, Ending};
use tiffany_daemon::stuck::{Stuck, StuckTask, live};

/// How long the process that owns the log has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The default limit of tasks.
const DEFAULT_LIMIT: usize = 100;

pub(crate) fn stuck(dir: &Path, as_json: bool, options: &Ls) -> Result<u8, Ending> {
    let limit = options.limit.unwrap_or(DEFAULT_LIMIT);
    if limit == 0 {
        return Err(CliError::Usage("`--limit` with `--stuck` takes 1 or more".into()).into());
    }
    Ok(look(dir, as_json, options.after, limit)?)
}

fn look(
    dir: &Path,
    as_json: bool,
    after: Option<Duration>,
    limit: usize,
) -> Result<u8, GuestError> {
    let mut control =
        match Control::connect_within(dir, CONNECT_TIMEOUT).map_err(|error| refused(&error))? {
            Some(control) => control,
            None => Control::open(dir).map_err(|error| refused(&error))?,
        };
    // A process of an older version doesn't know this request.
    let kept = control.long_turns().unwrap_or_default();
    if let Some(turn) = kept.last().filter(|turn| !turn.is_over) {
        return keeps(turn, as_json);
    }
    let page = control.runs(&live()).map_err(|error| refused(&error))?;
    let found = Stuck::new(dir).look(&page, after, limit);
    if as_json {
        return found.stuck.iter().try_for_each(print::json).map(|()| 0);
    }
    if found.stuck.is_empty() {
        print::line_of(&format!("no task is stuck in {}", live_runs(found.looked_at)))?;
    } else {
        let rows: Vec<Vec<String>> = found.stuck.iter().map(row).collect();
        print::table(&["FOR", "RUN", "FUNCTION", "TASK", "WAITS FOR", "AT"], &rows)?;
    }
    if found.total > found.stuck.len() {
        print::line_of(&format!("{} more; `--limit` lists them", found.total - found.stuck.len()))?;
    }
    if found.left_out > 0 {
        let left_out = runs(found.left_out);
        print::line_of(&format!("{left_out} not looked into: too many, or too large a log"))?;
    }
    Ok(0)
}

/// Prints the task that keeps its turn: the loop doesn't answer about any other.
fn keeps(turn: &LongTurn, as_json: bool) -> Result<u8, GuestError> {
    if as_json {
        return print::json(turn).map(|()| 0);
    }
    print::line_of(&format!("{turn}, and nothing else runs meanwhile"))?;
    print::line_of(
        "next: end the process, which loses nothing, and put the long work into a step",
    )?;
    Ok(0)
}

fn live_runs(count: usize) -> String {
    format!("{count} live run{}", if count == 1 { "" } else { "s" })
}

fn runs(count: usize) -> String {
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

fn row(task: &StuckTask) -> Vec<String> {
    let name = task.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
    vec![
        units::age(task.seconds),
        task.id.clone(),
        task.function.clone(),
        format!("{}{name}", task.tid),
        task.what.clone(),
        task.at.clone(),
    ]
}
