//! `resume`: opens the directory and drives its unfinished runs, as the program itself would.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tiffany_kernel::Uuid;

use super::Done;
use super::args::Resume;
use super::error::{CliError, Ending, Shown, exit};
use super::out::{Out, Style};
use super::place::{Place, find_all};
use super::progress::Progress;
use super::summary::Summary;
use tiffany::Runtime;
use tiffany::command::Standing;
use tiffany_log::RunState;
use tiffany_records::RunError;

/// How often the loop checks whether to stop.
const PACE: Duration = Duration::from_millis(50);

pub(super) fn resume(place: Place, out: Out, options: &Resume) -> Done {
    place.need_program("resuming runs")?;
    drive_runs(place, out, options)
}

/// Drives one run until it ends, and doesn't touch the others.
pub(super) fn resume_only(mut place: Place, out: Out, run: Uuid, seconds: Option<f64>) -> Done {
    place.builder = place.builder.only(run);
    let options = Resume { runs: vec![run.to_string()], all: false, dry_run: false, seconds };
    drive_runs(place, out, &options)
}

fn drive_runs(place: Place, mut out: Out, options: &Resume) -> Done {
    // Installed first, so that a signal before the first turn counts too.
    let stop = stop_flag()?;
    let limit = match options.seconds {
        Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| {
            CliError::Usage(format!("`--for {seconds}` is not a number of seconds"))
        })?),
        None => None,
    };
    let view = place.look()?;
    if let Some(holder) = view.holder() {
        let (dir, owner) = (place.dir.clone(), holder.to_string());
        return Err(tiffany_log::LogError::Locked { dir, owner }.into());
    }
    let unfinished = |run: &Uuid| view.run(*run).is_some_and(|entry| entry.state == RunState::Live);
    let mut runs = find_all(&view, &options.runs)?;
    if options.all {
        runs.retain(unfinished);
    }
    let names: Vec<Summary> =
        runs.iter().filter_map(|run| Some(Summary::read(&view, *run, view.run(*run)?))).collect();
    drop(view);
    let dir = place.dir.clone();
    let mut runtime = place.builder.log_dir(dir).build()?;
    drive(&mut runtime, &out, &runs, (limit, &stop))?;
    let mut tally = Tally::default();
    for summary in &names {
        tally.tell(&mut out, &mut runtime, summary)?;
    }
    // Unfinished runs get a marker in their logs, and can be resumed later.
    drop(runtime);
    tally.end(out)
}

/// Returns the flag that SIGINT and SIGTERM set.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, Ending> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Drives until the runs have finished, the time is up, or a signal arrives.
fn drive(
    runtime: &mut Runtime,
    out: &Out,
    runs: &[Uuid],
    (limit, stop): (Option<Duration>, &AtomicBool),
) -> Result<(), Ending> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let progress = Cell::new(Some(Progress::new(out, "running", runs.len() as u64)));
    drive_while(runtime, |runtime| {
        let live = runs.iter().filter(|run| matches!(runtime.standing(**run), Standing::Live));
        let live = live.count();
        if let Some(mut bar) = progress.take() {
            bar.set((runs.len() - live) as u64);
            progress.set(Some(bar));
        }
        let in_time = deadline.is_none_or(|deadline| Instant::now() < deadline);
        live > 0 && in_time && !stop.load(Ordering::Relaxed)
    })
}

/// Drives one run until it finishes, while the condition holds.
pub(super) fn drive_one(
    runtime: &mut Runtime,
    run: Uuid,
    goes_on: impl Fn() -> bool,
) -> Result<(), Ending> {
    drive_while(runtime, |runtime| matches!(runtime.standing(run), Standing::Live) && goes_on())
}

/// Drives while the condition holds, which is checked regularly.
fn drive_while(runtime: &mut Runtime, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), Ending> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (bell, done) = (runtime.bell(), Arc::clone(&is_over));
    let ringer = std::thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(PACE);
            bell();
        }
    });
    let driven = runtime.drive_while(goes_on);
    is_over.store(true, Ordering::Relaxed);
    let _ = ringer.join();
    Ok(driven?)
}

/// How the runs ended.
#[derive(Default)]
struct Tally {
    completed: usize,
    failed: usize,
    cancelled: usize,
    paused: usize,
    unfinished: usize,
}

impl Tally {
    fn tell(
        &mut self,
        out: &mut Out,
        runtime: &mut Runtime,
        summary: &Summary,
    ) -> Result<(), Ending> {
        let run = summary.run;
        let (word, detail) = match runtime.standing(run) {
            Standing::Over => match runtime.written_outcome(run) {
                Ok(value) => {
                    self.completed += 1;
                    ("completed", json!({ "value": super::json::value(&value) }))
                }
                Err(RunError::Cancelled(_)) => {
                    self.cancelled += 1;
                    ("cancelled", json!({}))
                }
                Err(error) => {
                    self.failed += 1;
                    ("failed", json!({ "error": Shown::from(error).json() }))
                }
            },
            Standing::Live => {
                self.unfinished += 1;
                ("live", json!({}))
            }
            Standing::Paused(error) => {
                self.paused += 1;
                ("paused", json!({ "error": Shown::from(error).json() }))
            }
            Standing::Unknown => {
                self.paused += 1;
                ("removed", json!({}))
            }
        };
        if out.json {
            let mut all = json!({
                "run": run.to_string(), "id": summary.id, "function": summary.function, "state": word,
            });
            if let (Some(all), Some(detail)) = (all.as_object_mut(), detail.as_object()) {
                all.extend(detail.clone());
            }
            return out.json(&all);
        }
        let detail = match (detail.get("value"), detail.get("error")) {
            (Some(value), _) => value.to_string(),
            (_, Some(error)) => {
                format!(
                    "{} [{}]",
                    error["message"].as_str().unwrap_or(""),
                    error["code"].as_str().unwrap_or("")
                )
            }
            _ => String::new(),
        };
        let text = format!("{run}  {}  {word}  {detail}", summary.id);
        out.text(Style::of_state(word), text.trim_end())
    }

    fn end(self, mut out: Out) -> Done {
        let Tally { completed, failed, cancelled, paused, unfinished } = self;
        if !out.json {
            let text = format!(
                "{completed} completed, {failed} failed, {cancelled} cancelled, {paused} paused, {unfinished} unfinished"
            );
            out.text(Style::Head, &text)?;
        }
        if failed + paused > 0 {
            out.flush()?;
            let message = format!("not all runs ended well: {failed} failed, {paused} paused");
            return Err(CliError::NotAllWell(message).into());
        }
        out.end(if unfinished > 0 { exit::UNFINISHED } else { 0 })
    }
}
