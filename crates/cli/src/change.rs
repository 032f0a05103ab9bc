//! `send`, `settle`, `query`, `cancel` and `hold`: requests to a run. They go to the process that
//! owns the directory, or into the log if no process owns it; each command returns when the change
//! is durable.

use serde_json::json;
use serde_json::value::RawValue;
use tiffany_kernel::Uuid;

use super::Done;
use super::args::{Cancel, Hold, Query, Send, Settle};
use super::error::{CliError, Ending};
use super::out::{Out, Style};
use super::place::{Place, is_log};
use tiffany::Settlement;
use tiffany::command::own_uid;
use tiffany::control::{Control, user_name};

/// Parses a JSON argument.
pub(super) fn parse(text: &str) -> Result<Box<RawValue>, Ending> {
    serde_json::from_str(text)
        .map_err(|error| CliError::BadJson { what: text.into(), why: error.to_string() }.into())
}

fn find_run(place: &Place, name: &str) -> Result<Uuid, Ending> {
    place.find(name)
}

/// Returns the text to append to a confirmation if no process owns the log.
pub(super) fn when(control: &Control) -> &'static str {
    match control.is_offline() {
        true => "; no process owns the directory, so it takes effect when the run is resumed",
        false => "",
    }
}

pub(super) fn send(place: &Place, mut out: Out, options: &Send) -> Done {
    let message = parse(&options.message)?;
    let run = find_run(place, &options.run)?;
    let mut control = place.control()?;
    control.send(run, &options.name, &message)?;
    let (name, offline) = (&options.name, control.is_offline());
    match out.json {
        true => out.json(&json!({ "run": run.to_string(), "sent": name, "offline": offline }))?,
        false => out.text(Style::Good, &format!("sent `{name}` to {run}{}", when(&control)))?,
    }
    out.end(0)
}

pub(super) fn settle(place: &Place, mut out: Out, options: &Settle) -> Done {
    let promise = Uuid::parse(&options.promise).ok_or_else(|| {
        CliError::Usage(format!(
            "`{}` is not a UUID; `show` lists the promises of a run",
            options.promise
        ))
    })?;
    let value = options.value.as_deref().map(parse).transpose()?;
    is_log(&place.dir)?;
    let run = options.run.as_deref().map(|name| find_run(place, name)).transpose()?;
    let mut control = place.control()?;
    let settlement = match (&options.fail, value, run) {
        (Some(message), _, None) => control.fail(promise, message)?,
        (Some(message), _, Some(run)) => control.fail_in(run, promise, message)?,
        (None, Some(value), None) => control.settle(promise, &value)?,
        (None, Some(value), Some(run)) => control.settle_in(run, promise, &value)?,
        (None, None, _) => {
            return Err(CliError::Usage("give a value or `--fail`".into()).into());
        }
    };
    let first = settlement == Settlement::Accepted;
    if out.json {
        let offline = control.is_offline();
        let all = json!({ "promise": promise.to_string(), "first": first, "offline": offline });
        out.json(&all)?;
        return out.end(0);
    }
    match first {
        true => out.text(Style::Good, &format!("settled {promise}{}", when(&control)))?,
        false => {
            out.text(Style::Busy, &format!("{promise} was settled before; the first answer stays"))?
        }
    }
    out.end(0)
}

pub(super) fn cancel(place: &Place, mut out: Out, options: &Cancel) -> Done {
    let run = find_run(place, &options.run)?;
    let mut control = place.control()?;
    control.cancel(run)?;
    let offline = control.is_offline();
    match out.json {
        true => {
            out.json(&json!({ "run": run.to_string(), "cancelled": true, "offline": offline }))?
        }
        false => out.text(Style::Good, &format!("cancelled {run}{}", when(&control)))?,
    }
    out.end(0)
}

pub(super) fn hold(place: &Place, mut out: Out, options: &Hold) -> Done {
    let run = find_run(place, &options.run)?;
    let mut control = place.control()?;
    control.hold(run, &user_name(own_uid()), options.why.as_deref())?;
    let offline = control.is_offline();
    match out.json {
        true => out.json(&json!({ "run": run.to_string(), "held": true, "offline": offline }))?,
        false => out.text(Style::Good, &format!("held {run}{}", when(&control)))?,
    }
    out.end(0)
}

pub(super) fn release(place: &Place, mut out: Out, options: &Hold) -> Done {
    let run = find_run(place, &options.run)?;
    let mut control = place.control()?;
    control.release(run, &user_name(own_uid()), options.why.as_deref())?;
    let offline = control.is_offline();
    match out.json {
        true => out.json(&json!({ "run": run.to_string(), "held": false, "offline": offline }))?,
        false => out.text(Style::Good, &format!("released {run}{}", when(&control)))?,
    }
    out.end(0)
}

pub(super) fn query(place: &Place, mut out: Out, options: &Query) -> Done {
    let input = parse(options.input.as_deref().unwrap_or("null"))?;
    let run = find_run(place, &options.run)?;
    let mut control = place.control()?;
    let answer: Box<RawValue> = control.question(run, &options.name, &input)?;
    match out.json {
        true => out
            .json(&json!({ "run": run.to_string(), "answer": super::json::value(answer.get()) }))?,
        false => out.text(Style::Plain, answer.get())?,
    }
    out.end(0)
}
