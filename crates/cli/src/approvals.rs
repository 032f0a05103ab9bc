//! `approve`: lists questions to people, and answers them. The process that owns the directory
//! takes the answer; if no process owns it, the answer is written to the log.

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError, Time};

use super::Done;
use super::args::Approve;
use super::dormant_runs::{Unread, dormant_runs};
use super::driver::{self, Heard};
use super::error::{CliError, Ending};
use super::out::{Out, Style};
use super::place::{Place, is_log};
use super::summary::moment;
use super::table::{Cell, Table};
use tiffany::command::Clock;
use tiffany::control::{Control, OpenApproval, Ruling};
use tiffany_daemon::shell_word;
use tiffany_log::{Stamp, View};
use tiffany_records::key::Key;

pub(super) fn list(place: &Place, mut out: Out, run: Option<&str>) -> Done {
    let view = place.look()?;
    let run = run.map(|name| place.find(name)).transpose()?;
    let (mut open, mut unread) = read(place, &view)?;
    if let Some(run) = run {
        open.retain(|open| open.run == run.to_string());
        unread.retain(run);
    }
    open.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    if out.json {
        open.iter().try_for_each(|open| out.json(open))?;
        return unread.end(out, "open questions");
    }
    let mut table = Table::new(&["APPROVAL", "RUN", "SINCE", "UNTIL", "CHOICES", "QUESTION"]);
    for open in &open {
        let until = open.deadline.map_or_else(|| "-".into(), |until| moment(&text(until)));
        table.row(vec![
            Cell::new(Style::Busy, &open.id),
            open.run_id.clone().unwrap_or_default().into(),
            moment(&text(open.since)).into(),
            until.into(),
            open.choices.join(", ").into(),
            open.question.clone().into(),
        ]);
    }
    match table.is_empty() {
        true if unread.is_empty() => out.text(Style::Good, "no questions are open")?,
        true => {}
        false => {
            table.print(&mut out)?;
            for line in how_to_decide(&open) {
                out.text(Style::Dim, &line)?;
            }
        }
    }
    unread.end(out, "open questions")
}

/// Returns commands to copy: for a question with two choices, and for one with more.
fn how_to_decide(open: &[OpenApproval]) -> Vec<String> {
    let (simple, other): (Vec<_>, Vec<_>) = open.iter().partition(|open| open.choices.len() == 2);
    let id = |of: &[&OpenApproval]| match of {
        [only] => only.id.clone(),
        _ => "ID".to_owned(),
    };
    let mut lines = Vec::new();
    if let [first, ..] = &simple[..] {
        let (id, choices) = (id(&simple), &first.choices);
        let says = simple.iter().all(|open| open.choices == *choices);
        let (yes, no) = if says { (&*choices[0], &*choices[1]) } else { ("yes", "no") };
        lines.push(format!("`approve {id}` says {yes}, `approve {id} --reject` says {no}"));
    }
    if let [first, ..] = &other[..] {
        let rest = first.choices.iter().skip(1).map(|choice| format!("`{}`", shell_word(choice)));
        let rest: Vec<String> = rest.collect();
        let first_choice = first.choices.first().map_or("", String::as_str);
        let (id, choice) = (&first.id, shell_word(first_choice));
        let or: String = rest.iter().map(|choice| format!(" or {choice}")).collect();
        lines.push(format!("`approve {id} --choice {choice}`{or} chooses"));
    }
    lines.push("`--json` shows the payload of a question".into());
    lines
}

pub(super) fn decide(place: &Place, mut out: Out, of: &Approve) -> Done {
    let mut ruling = match &of.choice {
        Some(choice) => Ruling::choice(choice),
        None if of.reject => Ruling::no(),
        None => Ruling::yes(),
    };
    is_log(&place.dir)?;
    if let Some(by) = &of.by {
        ruling = ruling.by(by);
    }
    if let Some(why) = &of.because {
        ruling = ruling.because(why);
    }
    let id = which(place, of.question.as_deref())?;
    let mut control = place.control()?;
    let decided = control.resolve(&id, ruling)?;
    let offline = control.is_offline();
    if out.json {
        out.json(&json!({ "approval": id, "decided": decided, "offline": offline }))?;
        return out.end(0);
    }
    let style = if decided.rejected { Style::Bad } else { Style::Good };
    let why = decided.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    let when = super::change::when(&control);
    let text = format!("decided {id}: `{}`, by {}{why}{when}", decided.choice, decided.by);
    out.text(style, &text)?;
    out.end(0)
}

/// Resolves the id of a question: a whole id, a run that has only one question, or no name if there
/// is only one question at all.
fn which(place: &Place, name: Option<&str>) -> Result<String, Ending> {
    let view = place.look()?;
    let run = match name {
        None => None,
        Some(name) => match name.rsplit_once('/') {
            Some(_) if Key::parse(name).is_some() => return Ok(name.to_owned()),
            // The id of a run may contain a `/`; otherwise the name is a run and a record.
            Some((run, record)) => match (place.find(name), place.find(run)) {
                (Ok(whole), Ok(part)) => {
                    let message = format!(
                        "`{name}` is a run, and `{run}` is one too; name the question by UUID and record: {whole}/… or {part}/{record}"
                    );
                    return Err(TaskError::new(ErrorKind::BadArgument, message).into());
                }
                (Ok(whole), Err(_)) => Some(whole),
                (Err(_), part) => return Ok(format!("{}/{record}", part?)),
            },
            None => Some(place.find(name)?),
        },
    };
    let (mut open, _) = read(place, &view)?;
    if let Some(run) = run {
        open.retain(|open| open.run == run.to_string());
    }
    match (open.as_slice(), run) {
        ([one], _) => Ok(one.id.clone()),
        // The process knows whether the run's last question is decided, and who decided it.
        ([], Some(run)) => Ok(run.to_string()),
        ([], None) => {
            let message = "no questions are open";
            Err(TaskError::new(ErrorKind::NoSuchApproval, message).into())
        }
        (several, _) => {
            let what = match run {
                Some(run) => format!("{run} has {} open questions", several.len()),
                None => format!("there are {} open questions", several.len()),
            };
            let ids = several.iter().take(4).map(|open| open.id.clone()).collect();
            Err(CliError::SeveralApprovals { what, ids }.into())
        }
    }
}

/// Returns the open questions: from the process that owns the log, or from the log itself.
pub(super) fn read(place: &Place, view: &View) -> Result<(Vec<OpenApproval>, Unread), Ending> {
    if place.is_remote() {
        return Ok((place.control()?.approvals()?, Unread::default()));
    }
    if let Some(holder) = view.holder() {
        match driver::ask(&place.reach, Control::approvals)? {
            Heard::Said(open) => return Ok((open, Unread::of_paused(place, view))),
            Heard::Silent(silence) => silence.warn(),
            Heard::Nobody => {
                let message = format!("{holder} owns the directory and does not listen");
                return Err(TaskError::new(ErrorKind::Unreachable, message).into());
            }
        }
    }
    let now = Clock::system().now();
    let (runs, unread) = dormant_runs(view, |_| true);
    Ok((runs.iter().flat_map(|run| run.approvals(now)).cloned().collect(), unread))
}

fn text(time: Time) -> String {
    Stamp::from_unix_nanos(time.as_nanos()).as_str().to_owned()
}
