//! `fork`: copies a run up to a record and sets which steps the fork may run. It works through the
//! process that owns the directory, or in the log if no process owns it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::json;
use tiffany_kernel::Uuid;

use super::Done;
use super::args::Fork;
use super::change::{parse, when};
use super::error::{CliError, Ending};
use super::out::{Out, Style};
use super::place::Place;
use super::resume::resume_only;
use super::summary::Summary;
use tiffany::durable;
use tiffany_log::{LogError, View};

pub(super) fn fork(place: Place, mut out: Out, at: u64, options: &Fork) -> Done {
    if options.drives {
        place.need_program("driving a fork to its end")?;
    }
    let wanted = wanted(options)?;
    let run = place.find(&options.run)?;
    if options.drives
        && let Some(holder) = place.look_for(&[&options.run])?.holder()
    {
        let (dir, owner) = (place.dir.clone(), holder.to_string());
        return Err(LogError::Locked { dir, owner }.into());
    }
    let mut control = place.control()?;
    let fork = control.fork(run, at, wanted)?;
    let offline = control.is_offline();
    drop(control);
    let id = place.id_of(fork).unwrap_or_default();
    match out.json {
        true => out.json(&json!({
            "run": fork.to_string(),
            "id": id,
            "fork": { "run": run.to_string(), "at": at },
            "offline": offline,
        }))?,
        false => {
            let note = match offline && !options.drives {
                true => {
                    "; no process owns the directory, so it continues when the directory is opened"
                }
                false => "",
            };
            out.text(Style::Good, &format!("{fork}  {id}  forked from {run} at {at}{note}"))?;
        }
    }
    if !options.drives {
        return out.end(0);
    }
    out.flush()?;
    resume_only(place, out, fork, options.seconds)
}

fn wanted(options: &Fork) -> Result<durable::Fork, Ending> {
    let mut fork = durable::Fork::new();
    if let Some(file) = &options.set_reply {
        fork = fork.set_reply(&parse(&read(file)?)?)?;
    }
    if let Some(message) = &options.fail {
        fork = fork.fail(message);
    }
    if options.as_is {
        fork = fork.as_is();
    }
    if let Some(id) = &options.id {
        fork = fork.id(id);
    }
    Ok(options.allow.iter().flatten().fold(fork, |fork, name| fork.allow(name)))
}

/// Reads an answer from a file, or from standard input for `-`. If there is no such file, the argument
/// itself may be the JSON.
fn read(file: &Path) -> Result<String, Ending> {
    if let Some(json) = file.to_str().filter(|text| is_inline(text) && !file.exists()) {
        return Ok(json.trim().to_owned());
    }
    let mut text = String::new();
    let done = match file == Path::new("-") {
        true => std::io::stdin().lock().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    done.map_err(|error| {
        let why = error.to_string();
        Ending::from(CliError::NoReply { file: file.to_path_buf(), why })
    })?;
    Ok(text.trim().to_owned())
}

/// Whether an argument is JSON, or the beginning of it, rather than the name of a file.
fn is_inline(text: &str) -> bool {
    let begins = text.trim_start().starts_with(['{', '[', '"']);
    begins || serde_json::from_str::<serde_json::Value>(text).is_ok()
}

pub(super) fn allow(place: &Place, mut out: Out, name: &str, names: &[String]) -> Done {
    let run = place.find(name)?;
    let mut control = place.control()?;
    control.allow(run, names)?;
    let offline = control.is_offline();
    match out.json {
        true => {
            out.json(&json!({ "run": run.to_string(), "allowed": names, "offline": offline }))?
        }
        false => {
            let names = match names.is_empty() {
                true => "nothing more".to_owned(),
                false => format!("`{}`", names.join("`, `")),
            };
            out.text(Style::Good, &format!("allowed {names} to {run}{}", when(&control)))?;
        }
    }
    out.end(0)
}

/// Returns the forks of a run, with the records at which they begin.
pub(super) fn forks_of(view: &View, run: Uuid) -> BTreeMap<(u64, Uuid), Summary> {
    let summaries = view.runs().map(|(other, entry)| Summary::read(view, other, entry));
    let forks = summaries.filter_map(|summary| match summary.fork {
        Some((parent, at)) if parent == run => Some(((at, summary.run), summary)),
        _ => None,
    });
    forks.collect()
}
