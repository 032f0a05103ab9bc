//! `rm`: removes, compacts and prunes finished runs, through the process that owns the directory,
//! or in the log if no process owns it.

use serde_json::{Value, json};
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::Done;
use super::args::{Rm, Rules};
use super::error::{Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, find};
use super::summary::{count, moment};
use super::table::{Cell, Table};
use tiffany::durable::Lost;
use tiffany::retention::{Candidate, NeededBy, Plan, Pruned, Retention, plan_of};
use tiffany::units::size;
use tiffany_log::{Collected, RunState};
use tiffany_records::Outcome;

/// Removes runs of a daemon, which erases what is left of them by itself.
fn rm_remote(place: &Place, mut out: Out, options: &Rm) -> Done {
    let runs = options.runs.iter().map(|name| place.find(name));
    let runs = runs.collect::<Result<Vec<Uuid>, Ending>>()?;
    let mut control = place.control()?;
    let mut refused = Vec::new();
    for run in runs {
        match control.remove(run) {
            Ok(()) => tell_removed(&mut out, run, None)?,
            Err(error) => refused.push((run, error)),
        }
    }
    left(out, options.runs.len(), refused, "removed")
}

pub(super) fn rm(place: &Place, mut out: Out, options: &Rm) -> Done {
    if place.is_remote() {
        return rm_remote(place, out, options);
    }
    let names: Vec<&str> = options.runs.iter().map(String::as_str).collect();
    let view = place.look_for(&names)?;
    let runs = options.runs.iter().map(|name| find(&view, name));
    let runs = runs.collect::<Result<Vec<Uuid>, Ending>>()?;
    drop(view);
    let mut keeper = place.keeper()?;
    let mut refused = Vec::new();
    let mut removed = 0;
    for run in runs {
        let outcome = match options.damaged {
            true => keeper.remove_damaged(run).map(Some),
            false => keeper.remove(run).map(|()| None),
        };
        match outcome {
            Ok(lost) => {
                removed += 1;
                tell_removed(&mut out, run, lost.as_ref())?;
            }
            Err(error) => refused.push((run, error)),
        }
    }
    // A process that was interrupted may have left data of a run that it removed.
    let was_removed = |(_, error): &(Uuid, TaskError)| error.kind() == ErrorKind::RunRemoved;
    if removed > 0 || refused.iter().any(was_removed) {
        let collected = keeper.collect_blobs()?;
        tell_blobs(&mut out, &collected)?;
        tell_erased(&mut out, &collected)?;
    }
    left(out, options.runs.len(), refused, "removed")
}

fn tell_removed(out: &mut Out, run: Uuid, lost: Option<&Lost>) -> Result<(), Ending> {
    if out.json {
        let mut line = json!({ "run": run.to_string(), "removed": true });
        if let Some(Lost { damage, records, forks, .. }) = lost {
            line["damage"] = json!(damage);
            line["records"] = json!(records);
            line["forks"] = json!(forks);
        }
        return out.json(&line);
    }
    out.text(Style::Good, &format!("removed {run}"))?;
    let Some(Lost { damage, records, forks, .. }) = lost else { return Ok(()) };
    out.text(Style::Plain, &format!("it was damaged: {damage}"))?;
    let records = count(*records, "record");
    out.text(Style::Busy, &format!("lost: its outcome, and {records} that could still be read"))?;
    for fork in forks {
        let line = format!("its fork {fork} pauses where it needs an answer that the run had");
        out.text(Style::Busy, &line)?;
    }
    Ok(())
}

pub(super) fn compact(place: &Place, mut out: Out, options: &Rm) -> Done {
    let view = place.look()?;
    let runs: Vec<Uuid> = match options.all {
        true => {
            let over = view.runs().filter(|(_, entry)| entry.state == RunState::Finished);
            over.map(|(run, _)| run).collect()
        }
        false => {
            let runs = options.runs.iter().map(|name| find(&view, name));
            runs.collect::<Result<_, Ending>>()?
        }
    };
    drop(view);
    let mut keeper = place.keeper()?;
    let mut pruned = keeper.compact(&runs)?;
    if pruned.compacted > 0 {
        pruned.collected = keeper.collect_blobs()?;
    }
    match out.json {
        true => out.json(&json!({ "summary": summary_json(&pruned) }))?,
        false => {
            let saved = size(pruned.bytes);
            let done = format!("compacted {}, {saved} less", count(pruned.compacted, "run"));
            out.text(Style::Good, &done)?;
            tell_blobs(&mut out, &pruned.collected)?;
            if pruned.compacted > 0 {
                tell_erased(&mut out, &pruned.collected)?;
            }
        }
    }
    left(out, options.runs.len().max(2), pruned.refused, "compacted")
}

/// Reports runs that were not changed. The first error is that of the command.
fn left(mut out: Out, named: usize, refused: Vec<(Uuid, TaskError)>, done: &str) -> Done {
    if named > 1 {
        for (run, error) in &refused {
            let shown = Shown::from(error.clone());
            match out.json {
                true => out
                    .json(&json!({ "run": run.to_string(), done: false, "error": shown.json() }))?,
                false => {
                    let line = format!("left {run} as it is: {} [{}]", shown.message, shown.code);
                    out.text(Style::Bad, &line)?;
                }
            }
        }
    }
    out.flush()?;
    match refused.into_iter().next() {
        Some((_, error)) => Err(error.into()),
        None => out.end(0),
    }
}

pub(super) fn prune(place: &Place, mut out: Out, options: &Rules) -> Done {
    let rule = rule(options);
    let view = place.look()?;
    if options.dry_run {
        let plan = plan_of(&view, &[rule])?;
        print_plan(&mut out, &plan)?;
        tell_left(&mut out, &plan.damaged)?;
        if !out.json {
            let would = format!(
                "would remove {} and compact {}",
                count(plan.remove.len() as u64, "run"),
                plan.compact.len()
            );
            out.text(Style::Head, &would)?;
        }
        return out.end(0);
    }
    drop(view);
    let mut keeper = place.keeper()?;
    let plan = keeper.plan(&[rule])?;
    let pruned = keeper.carry_out(&plan)?;
    match out.json {
        true => {
            print_plan(&mut out, &plan)?;
            out.json(&json!({ "summary": summary_json(&pruned) }))?;
        }
        false => {
            let (removed, compacted) = (count(pruned.removed, "run"), pruned.compacted);
            let done =
                format!("removed {removed} and compacted {compacted}, {} less", size(pruned.bytes));
            out.text(Style::Good, &done)?;
            for kept in &plan.kept {
                let run = kept.run.run;
                let line = match kept.by {
                    NeededBy::Fork(fork) => format!("kept {run}, which its fork {fork} needs"),
                    other => format!(
                        "kept {run}: run {} can't be read and may be a fork of it [TFY0254]",
                        other.run()
                    ),
                };
                out.text(Style::Busy, &line)?;
            }
            tell_blobs(&mut out, &pruned.collected)?;
            if pruned.removed + pruned.compacted > 0 {
                tell_erased(&mut out, &pruned.collected)?;
            }
        }
    }
    tell_left(&mut out, &pruned.refused)?;
    out.end(if pruned.refused.is_empty() { 0 } else { exit::FAILED })
}

/// Prints which runs were not changed, and why.
fn tell_left(out: &mut Out, refused: &[(Uuid, TaskError)]) -> Result<(), Ending> {
    for (run, error) in refused {
        let shown = Shown::from(error.clone());
        match out.json {
            true => out.json(&json!({ "run": run.to_string(), "error": shown.json() }))?,
            false => {
                let line = format!("left {run} as it is: {} [{}]", shown.message, shown.code);
                out.text(Style::Bad, &line)?;
            }
        }
    }
    Ok(())
}

fn rule(options: &Rules) -> Retention {
    let mut rule = Retention::new();
    if let Some(age) = options.older_than {
        rule = rule.older_than(age);
    }
    if let Some(runs) = options.keep {
        rule = rule.keep(runs);
    }
    if let Some(bytes) = options.max_size {
        rule = rule.max_bytes(bytes);
    }
    if let Some(age) = options.compact_after {
        rule = rule.compact_after(age);
    }
    options.state.iter().fold(rule, |rule, state| rule.only(Outcome::from(*state)))
}

fn print_plan(out: &mut Out, plan: &Plan) -> Result<(), Ending> {
    let remove = plan.remove.iter().map(|one| ("remove", one, None));
    let compact = plan.compact.iter().map(|one| ("compact", one, None));
    let kept = plan.kept.iter().map(|kept| ("keep", &kept.run, Some(kept.by)));
    let all: Vec<(&str, &Candidate, Option<NeededBy>)> =
        remove.chain(compact).chain(kept).collect();
    if out.json {
        for (action, one, by) in all {
            out.json(&json!({
                "action": action,
                "run": one.run.to_string(),
                "id": one.id,
                "state": one.outcome.word(),
                "ended": one.ended_text(),
                "bytes": one.bytes,
                "why": one.why.word(),
                "needed_by": by.map(|by| by.run().to_string()),
            }))?;
        }
        return Ok(());
    }
    let mut table = Table::new(&["ACTION", "RUN", "ID", "STATE", "ENDED", "SIZE", "WHY"]);
    for (action, one, by) in all {
        let run = one.run.to_string();
        let why = match by {
            Some(NeededBy::Fork(fork)) => format!("needed by {}", &fork.to_string()[..8]),
            Some(other) => format!("perhaps needed by {}", &other.run().to_string()[..8]),
            None => one.why.word().to_owned(),
        };
        table.row(vec![
            Cell::from(&action.to_owned()),
            if out.width.is_some() { run[..8].into() } else { run.into() },
            Cell::from(&one.id),
            Cell::new(Style::of_state(one.outcome.word()), one.outcome.word()),
            moment(&one.ended_text()).into(),
            size(one.bytes).into(),
            why.into(),
        ]);
    }
    if table.is_empty() { Ok(()) } else { table.print(out) }
}

fn summary_json(pruned: &Pruned) -> Value {
    json!({
        "removed": pruned.removed,
        "compacted": pruned.compacted,
        "bytes": pruned.bytes,
        "blobs": pruned.collected.blobs,
        "blob_bytes": pruned.collected.bytes,
        "damaged_runs": pruned.collected.damaged,
        "erased": pruned.removed + pruned.compacted > 0 && pruned.collected.damaged == 0,
        "refused": pruned.refused.len(),
    })
}

/// Reports that no data of removed runs is left. With a damaged run that is unknown, and was
/// reported already.
fn tell_erased(out: &mut Out, collected: &Collected) -> Result<(), Ending> {
    match out.json {
        true => Ok(()),
        false if collected.damaged > 0 => out.text(
            Style::Busy,
            "erased from the commit log; blobs are erased when no run is damaged any more",
        ),
        false => out.text(Style::Plain, "erased: nothing of it is left in the directory"),
    }
}

fn tell_blobs(out: &mut Out, collected: &Collected) -> Result<(), Ending> {
    if out.json {
        return Ok(());
    }
    if collected.damaged > 0 {
        let runs = count(collected.damaged, "run");
        let line = format!("no blob was removed: {runs} cannot be read, and may need them");
        out.text(Style::Busy, &line)?;
    }
    if collected.blobs > 0 {
        let (blobs, bytes) = (count(collected.blobs, "blob"), size(collected.bytes));
        out.text(Style::Plain, &format!("removed {blobs} that no run names, {bytes}"))?;
    }
    Ok(())
}
