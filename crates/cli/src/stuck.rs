//! `ls --stuck`: lists tasks of active runs that have waited for long, from the log alone, and the
//! task that blocks all others, from the process.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tiffany::control::{Control, LongTurn};
use tiffany::units;

use crate::GuestError;
use crate::args::Ls;
use crate::daemon_commands::{print, refused};
use crate::driver::Reach;
use crate::error::{CliError, Ending};
use crate::place::Place;
use crate::remote::RemoteStuck;
use tiffany_daemon::stuck::{Stuck, StuckTask, live};

/// How long the process that owns the log has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The default limit of tasks.
const DEFAULT_LIMIT: usize = 100;

pub(crate) fn stuck(place: &Place, as_json: bool, options: &Ls) -> Result<u8, Ending> {
    let limit = options.limit.unwrap_or(DEFAULT_LIMIT);
    if limit == 0 {
        return Err(CliError::Usage("`--limit` with `--stuck` takes 1 or more".into()).into());
    }
    match &place.reach {
        Reach::Dir(dir) => Ok(look(dir, as_json, options.after, limit)?),
        Reach::Daemon(remote) => {
            let told = remote.stuck(options.after, limit)?;
            Ok(tell(&told, as_json)?)
        }
    }
}

/// What a daemon says of the same.
fn tell(told: &RemoteStuck, as_json: bool) -> Result<u8, GuestError> {
    // The last one comes first there.
    if let Some(turn) = told.turns.first().filter(|turn| !turn.is_over) {
        return keeps(turn, as_json);
    }
    if as_json {
        return told.stuck.iter().try_for_each(print::json).map(|()| 0);
    }
    let rows: Vec<Vec<String>> = told.stuck.iter().map(|task| remote_row(task)).collect();
    finish(&rows, (told.total, told.looked_at, told.left_out))
}

fn remote_row(task: &RawValue) -> Vec<String> {
    let task: Value = serde_json::from_str(task.get()).unwrap_or_default();
    let text = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
    let name = task["name"].as_str().map_or_else(String::new, |name| format!(" {name}"));
    vec![
        units::age(task["seconds"].as_u64().unwrap_or(0)),
        text("id"),
        text("function"),
        format!("{}{name}", task["tid"]),
        text("what"),
        text("at"),
    ]
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
    let rows: Vec<Vec<String>> = found.stuck.iter().map(row).collect();
    finish(&rows, (found.total, found.looked_at, found.left_out))
}

/// Prints the tasks, and how many there are besides.
fn finish(
    rows: &[Vec<String>],
    (total, looked_at, left_out): (usize, usize, usize),
) -> Result<u8, GuestError> {
    if rows.is_empty() {
        print::line_of(&format!("no task is stuck in {}", live_runs(looked_at)))?;
    } else {
        print::table(&["FOR", "RUN", "FUNCTION", "TASK", "WAITS FOR", "AT"], rows)?;
    }
    if total > rows.len() {
        print::line_of(&format!("{} more; `--limit` lists them", total - rows.len()))?;
    }
    if left_out > 0 {
        let left_out = runs(left_out);
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
