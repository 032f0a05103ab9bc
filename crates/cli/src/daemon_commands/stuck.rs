//! `stuck`: tasks that have waited for long, of all runs that go on, from the log alone; and the task that keeps all others waiting, from the process.

use std::time::Duration;

use crate::{GuestError, Invocation};
use clap::{self, Args, FromArgMatches};
use tiffany::control::{Control, LongTurn};
use tiffany::units;

use super::{print, refused};
use tiffany_daemon::stuck::{Stuck, StuckTask, live};

pub(crate) const NAME: &str = "stuck";
/// How long the process that has the log has for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// List tasks that have waited for long for something that neither a clock nor a person decides, the longest first
#[derive(Args, Debug)]
struct Typed {
    /// How long is long; by default five minutes for a step, a lock or a descriptor, and an hour for a message or a promise.
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    after: Option<Duration>,
    /// How many to list at the most.
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) fn command() -> clap::Command {
    Typed::augment_args(clap::Command::new(NAME))
}

pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    let typed = Typed::from_arg_matches(asked.matches).map_err(|error| GuestError {
        code: "TFY0067".into(),
        text: error.to_string(),
        exit: Some(2),
    })?;
    let mut control =
        match Control::connect_within(&asked.dir, PATIENCE).map_err(|error| refused(&error))? {
            Some(control) => control,
            None => Control::open(&asked.dir).map_err(|error| refused(&error))?,
        };
    // A process of an older version does not know this question.
    let kept = control.long_turns().unwrap_or_default();
    if let Some(turn) = kept.last().filter(|turn| !turn.is_over) {
        return keeps(turn, asked.json);
    }
    let page = control.runs(&live()).map_err(|error| refused(&error))?;
    let limit = usize::try_from(typed.limit).unwrap_or(usize::MAX);
    let found = Stuck::new(&asked.dir).look(&page, typed.after, limit);
    if asked.json {
        return found.stuck.iter().try_for_each(print::json).map(|()| 0);
    }
    if found.stuck.is_empty() {
        let go = if found.looked_at == 1 { "goes" } else { "go" };
        print::line_of(&format!("no task is stuck in {} that {go} on", runs(found.looked_at)))?;
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

/// The one task that has its turn: the loop does not answer for any other.
fn keeps(turn: &LongTurn, as_json: bool) -> Result<u8, GuestError> {
    if as_json {
        return print::json(turn).map(|()| 0);
    }
    print::line_of(&format!("{turn}, and nothing else goes on meanwhile"))?;
    print::line_of(
        "next: end the process, which loses nothing, and put the long work into a step",
    )?;
    Ok(0)
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
