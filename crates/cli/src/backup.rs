//! `backup`: copies a directory while it is in use, and creates a log from a copy.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::Done;
use super::args::{BackupCheck, BackupCreate, BackupRestore};
use super::error::CliError;
use super::out::{Out, Style};
use super::place::{Place, is_log};
use super::progress::Progress;
use super::summary::count;
use tiffany::units::size;
use tiffany_log::RealDisk;
use tiffany_log::backup::{self, Checked, Over, Pace, Taken};

/// The nice value of a backup that yields the processor to other programs.
const NICE: i32 = 19;

pub(super) fn create(place: &Place, mut out: Out, options: &BackupCreate) -> Done {
    let dir = place.dir.as_path();
    is_log(dir)?;
    let pace = match options.rate {
        Some(rate) if rate > 0.0 => Pace::bytes_per_second((rate * 1e6) as u64),
        Some(_) => Pace::full(),
        None => Pace::beside(dir),
    };
    if pace.is_gentle() {
        // A failure only makes the backup less gentle.
        let _ = rustix::process::nice(NICE);
    }
    let mut progress = Progress::new(&out, "copying", 0);
    let mut watch = |done, total| progress.set_of(done, total);
    let taken =
        backup::take(Arc::new(RealDisk), dir, &options.to, &mut pace.watched_by(&mut watch));
    drop(progress);
    let taken = taken?;
    match out.json {
        true => out.json(&taken_json(&options.to, &taken))?,
        false => print_taken(&mut out, &options.to, &taken)?,
    }
    out.flush()?;
    match taken.damaged.len() as u64 {
        0 => out.end(0),
        runs => Err(CliError::DamagedInLog(count(runs, "run")).into()),
    }
}

fn taken_json(to: &Path, taken: &Taken) -> serde_json::Value {
    let damaged = taken.damaged.iter();
    let damaged: Vec<_> = damaged
        .map(|damaged| json!({ "run": damaged.run.to_string(), "what": damaged.what }))
        .collect();
    json!({
        "backup": to.to_string_lossy(),
        "taken": taken.taken,
        "runs": taken.runs,
        "records": taken.records,
        "blobs": taken.blobs,
        "bytes": taken.bytes,
        "copied_runs": taken.copied_runs,
        "copied_blobs": taken.copied_blobs,
        "copied_bytes": taken.copied_bytes,
        "removed_files": taken.removed_files,
        "damaged": damaged,
    })
}

fn print_taken(out: &mut Out, to: &Path, taken: &Taken) -> Result<(), super::error::Ending> {
    for damaged in &taken.damaged {
        out.text(Style::Bad, &format!("damaged: run {}: {}", damaged.run, damaged.what))?;
    }
    let (runs, records, blobs) = (taken.runs, taken.records, taken.blobs);
    let whole = counts(runs, records, blobs, taken.bytes);
    out.text(Style::Good, &format!("{} has {whole}", to.display()))?;
    let new = match taken.copied_runs + taken.copied_blobs {
        0 => "nothing was new".to_owned(),
        _ => format!(
            "copied {} of {} and {}",
            size(taken.copied_bytes),
            count(taken.copied_runs, "run"),
            count(taken.copied_blobs, "blob"),
        ),
    };
    out.text(Style::Dim, &new)
}

fn counts(runs: u64, records: u64, blobs: u64, bytes: u64) -> String {
    let parts = [(runs, "run"), (records, "record"), (blobs, "blob")];
    let parts = parts.map(|(number, what)| count(number, what)).join(", ");
    format!("{parts}, {}", size(bytes))
}

pub(super) fn restore(out: Out, options: &BackupRestore) -> Done {
    let (from, to) = (&options.backup, &options.to);
    let over = if options.force { Over::OldLog } else { Over::Nothing };
    let restored = backup::restore(Arc::new(RealDisk), from, to, over)?;
    report(out, from, &restored.backup, Some(to))
}

pub(super) fn check(out: Out, options: &BackupCheck) -> Done {
    let checked = backup::check(&RealDisk, &options.backup)?;
    report(out, &options.backup, &checked, None)
}

fn report(mut out: Out, from: &Path, checked: &Checked, to: Option<&Path>) -> Done {
    let Checked { taken, runs, records, blobs, bytes, damaged, .. } = checked;
    if out.json {
        let to = to.map(|to| to.to_string_lossy());
        out.json(&json!({
            "backup": from.to_string_lossy(),
            "restored": to,
            "taken": taken,
            "runs": runs,
            "records": records,
            "blobs": blobs,
            "bytes": bytes,
            "damaged": damaged,
        }))?;
        return out.end(0);
    }
    let whole = counts(*runs, *records, *blobs, *bytes);
    let text = match to {
        Some(to) => format!("restored {whole} to {}", to.display()),
        None => format!("ok: {whole}"),
    };
    out.text(Style::Good, &text)?;
    out.text(Style::Dim, &format!("as it was at {taken}"))?;
    if *damaged > 0 {
        let were = if *damaged == 1 { "was" } else { "were" };
        let text = format!("{} {were} damaged in the log already", count(*damaged, "run"));
        out.text(Style::Bad, &text)?;
    }
    out.end(0)
}
