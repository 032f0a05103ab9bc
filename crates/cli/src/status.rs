//! `status`: shows which process owns the directory, what it can run, and whether it has problems.

use serde_json::json;
use tiffany_kernel::ErrorKind;

use super::Done;
use super::driver::{self, Heard, Silence};
use super::error::{Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, is_log};
use super::summary::count;
use tiffany::control::{Control, Status};
use tiffany_log::RunState;

pub(super) fn status(place: &Place, mut out: Out) -> Done {
    is_log(&place.dir)?;
    let status = match driver::ask(&place.reach, Control::status)? {
        Heard::Said(status) => status,
        Heard::Silent(silence) => return of_files(place, out, &silence),
        Heard::Nobody => {
            let shown = Shown {
                code: ErrorKind::Unreachable.code().into(),
                message: format!("no process owns {}", place.dir.display()),
                next: driver::start(&place.dir),
                exit: exit::IN_USE,
            };
            return Err(Ending::Error(shown));
        }
    };
    match out.json {
        true => {
            let paused = status.paused.iter().map(|paused| {
                let (code, message) = (paused.error.code(), paused.error.message());
                json!({ "run": paused.run.to_string(), "code": code, "message": message })
            });
            let paused: Vec<_> = paused.collect();
            let failed = status
                .failed
                .as_ref()
                .map(|error| json!({ "code": error.code(), "message": error.message() }));
            out.json(&json!({
                "pid": status.pid, "url": status.url, "version": status.version, "functions": status.functions,
                "live": status.live, "paused": paused, "failed": failed,
            }))?;
        }
        false => print(&mut out, &status)?,
    }
    out.end(if status.failed.is_some() { exit::FAILED } else { 0 })
}

/// Prints what is known without the process.
fn of_files(place: &Place, mut out: Out, silence: &Silence) -> Done {
    silence.warn();
    let view = place.look()?;
    let live = view.runs().filter(|(_, entry)| entry.state == RunState::Live).count();
    match out.json {
        true => {
            let mut status = json!({
                "pid": silence.pid, "url": null, "version": null, "functions": null,
                "live": live, "paused": null, "failed": null,
            });
            Silence::note(Some(silence), &mut status);
            out.json(&status)?;
        }
        false => {
            let pid = silence.pid.map_or_else(|| "unknown".into(), |pid| pid.to_string());
            out.text(Style::Bad, &format!("process    {pid}, does not answer"))?;
            out.text(Style::Plain, &format!("runs       {live} live, according to the files"))?;
        }
    }
    out.end(exit::IN_USE)
}

fn print(out: &mut Out, status: &Status) -> Result<(), Ending> {
    let Status { pid, version, functions, url, live, paused, failed, .. } = status;
    let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    let functions = if names.is_empty() { "none".into() } else { names.join(", ") };
    out.text(Style::Plain, &format!("process    {pid}, tiffany {version}"))?;
    if let Some(url) = url {
        out.text(Style::Plain, &format!("http       {url}"))?;
    }
    out.text(Style::Plain, &format!("functions  {functions}"))?;
    out.text(Style::Plain, &format!("runs       {live} live, {} paused", paused.len()))?;
    for paused in paused {
        let (run, error) = (paused.run, &paused.error);
        let text = format!("paused     {run}: {} [{}]", error.message(), error.code());
        out.text(Style::Bad, &text)?;
    }
    if let Some(error) = failed {
        let text = format!("failed     {} [{}]", error.message(), error.code());
        return out.text(Style::Bad, &text);
    }
    if !paused.is_empty() {
        let them = if paused.len() == 1 { "it needs" } else { "they need" };
        let many = count(paused.len() as u64, "run");
        let next = format!("{many} can't continue; `resume --dry-run` shows what {them}");
        return out.text(Style::Dim, &next);
    }
    Ok(())
}
