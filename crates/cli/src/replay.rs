//! `replay`: runs a run again against its log, with the current code. No effect begins and nothing
//! is written.

use std::io::Read;
use std::path::Path;

use serde_json::json;
use tiffany_kernel::Uuid;

use super::Done;
use super::args::Replay;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_kept};
use super::progress::Progress;
use super::summary::count;
use tiffany::command::Fixture;
use tiffany::command::{Deeds, Until, Verdict, decode_run};
use tiffany_log::{LogError, View};

pub(super) fn replay(place: Place, out: Out, options: &Replay) -> Done {
    place.need_program("replaying a run")?;
    let replayed = match (&options.file, &options.run) {
        (Some(file), _) => of_file(place, file)?,
        (None, run) => of_log(place, &out, run.as_deref().unwrap_or_default())?,
    };
    tell(out, replayed)
}

/// A run that was replayed.
struct Replayed {
    run: Uuid,
    records: u64,
    calls: usize,
    pub verdict: Verdict,
}

/// Replays the run in a file.
fn of_file(place: Place, file: &Path) -> Result<Replayed, Ending> {
    let fixture = match file == Path::new("-") {
        true => {
            let mut bytes = Vec::new();
            let name = Path::new("standard input");
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| LogError::io("read", name, &error))?;
            Fixture::parse(bytes, name)?
        }
        false => Fixture::read(file)?,
    };
    let replayed = fixture.replay(&mut place.builder.without_log().build()?)?;
    let (run, records) = (fixture.run(), fixture.record_count());
    Ok(Replayed { run, records, calls: replayed.calls, verdict: replayed.verdict })
}

/// Replays a run of the directory.
fn of_log(place: Place, out: &Out, name: &str) -> Result<Replayed, Ending> {
    let view = place.look_for(&[name])?;
    let run = find_kept(&view, name)?;
    let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
    let recorded = deeds(out, &view, run, entry.seq)?;
    let decoded = decode_run(&view, run)?;
    let was = decoded.outcome.clone();
    let mut runtime = place.rehearsal_room()?;
    let dry_run = runtime.dry_run(&entry.chain(run), decoded, Until::TheEnd)?;
    let verdict = Verdict::of(&dry_run, &recorded, was.as_ref());
    Ok(Replayed { run, records: entry.seq, calls: dry_run.matched, verdict })
}

/// Returns what tasks did according to the log.
fn deeds(out: &Out, view: &View, run: Uuid, total: u64) -> Result<Deeds, LogError> {
    if let Some(error) = view.refused(run) {
        return Err(error.clone());
    }
    let mut progress = Progress::new(out, "reading", total);
    let mut deeds = Deeds::default();
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        progress.add(1);
        deeds.add(&record?);
    }
    Ok(deeds)
}

fn tell(mut out: Out, replayed: Replayed) -> Done {
    let Replayed { run, records, calls, verdict } = replayed;
    let (word, differs_at, error) = match verdict {
        Verdict::Identical => ("identical", None, None),
        Verdict::SameCalls(at) => ("same calls", Some(at), None),
        Verdict::Apart(error) => ("differs", None, Some(Shown::from(error))),
        Verdict::OtherEnd(message) => {
            ("differs", None, Some(Shown::from(CliError::OtherOutcome(message))))
        }
    };
    match out.json {
        true => out.json(&json!({
            "run": run.to_string(),
            "verdict": word,
            "records": records,
            "calls": calls,
            "differs_at": differs_at,
            "error": error.as_ref().map(Shown::json),
        }))?,
        false => {
            let (records, calls) = (count(records, "record"), count(calls as u64, "call"));
            let head = format!("{run}: {word} ({records}, {calls} to the world)");
            out.text(Style::of_state(word), &head)?;
            if let Some(at) = differs_at {
                let note = format!(
                    "all calls to the world are the same; between them something changed at record {at}, which does no harm"
                );
                out.text(Style::Plain, &note)?;
            }
        }
    }
    out.flush()?;
    match error {
        Some(error) => Err(Ending::Error(error)),
        None => out.end(0),
    }
}
