//! `watch --events`: prints what runs are doing in the process that owns the directory, as it
//! reports it. Only the names of the runs are read from the log.

use std::time::Duration;

use serde_json::{Value, json};
use tiffany_kernel::{ErrorKind, Uuid};

use super::Done;
use super::args::EventFilter;
use super::driver;
use super::error::{Ending, Shown};
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find_kept, is_log};
use tiffany::command::no_activity;
use tiffany::control::{Next, Watching};
use tiffany::pal::{Activity, Data, Detail, Stage, Told, Wanted};
use tiffany_log::{RunState, Stamp};

/// How often `--follow` checks whether a process owns the directory.
const PACE: Duration = Duration::from_millis(100);

/// The longest wait for an event before the output is flushed.
const LOOK: Duration = Duration::from_millis(500);

pub(super) fn events(
    place: &Place,
    mut out: Out,
    run: Option<&str>,
    options: &EventFilter,
) -> Done {
    let mut follows = options.follow;
    let run = match run {
        None => {
            is_log(&place.dir)?;
            None
        }
        Some(name) => {
            let view = place.look_for(&[name])?;
            let run = find_kept(&view, name)?;
            // A finished run emits no further events.
            follows &= view.run(run).is_some_and(|entry| entry.state != RunState::Finished);
            Some(run)
        }
    };
    let mut wanted = Wanted::new().from(options.from.unwrap_or(0)).ghosts(!options.no_ghosts);
    if options.new {
        wanted.from = None;
    }
    wanted.run = run.map(Into::into);
    wanted.detail = if options.all { Detail::All } else { Detail::Notable };
    let mut reading = Reading { wanted, epoch: None, run };
    let Some(mut watching) = reading.connect(place)? else {
        let mut shown = Shown::from(no_activity());
        let start = driver::start(&place.dir);
        shown.next = format!("{start}; `log` shows what is recorded of the runs");
        return Err(Ending::Error(shown));
    };
    if !out.json {
        reading.head(&mut out)?;
    }
    loop {
        match reading.go_on(&mut out, &mut watching, follows)? {
            Stopped::Done => return out.end(0),
            Stopped::Gone if !follows => return out.end(0),
            Stopped::Gone => {
                note(&mut out, "the process is gone; waiting for the next one", "gone")?;
                watching = reading.connect_again(place)?;
                let told = match reading.epoch == Some(watching.beginning().epoch) {
                    true => "connected again to the same process",
                    false => "another process owns the directory; its numbers start again",
                };
                note(&mut out, told, "connected")?;
                reading.begin(&watching);
            }
        }
    }
}

/// Prints a note between events.
fn note(out: &mut Out, text: &str, word: &str) -> Result<(), Ending> {
    match out.json {
        true => out.json(&json!({ "note": word }))?,
        false => {
            out.flush()?;
            eprintln!("tiffany: {text}");
        }
    }
    out.flush()
}

/// Why a stream of events ended.
enum Stopped {
    /// All requested events were printed.
    Done,
    /// The process has ended.
    Gone,
}

/// A stream of events, and its position.
struct Reading {
    wanted: Wanted,
    epoch: Option<u64>,
    run: Option<Uuid>,
}

impl Reading {
    /// Connects to the process; `None` if no process owns the directory.
    fn connect(&mut self, place: &Place) -> Result<Option<Watching>, Ending> {
        let Some(control) = place.process()? else { return Ok(None) };
        let watching = control.watch(self.wanted.clone())?;
        self.begin(&watching);
        Ok(Some(watching))
    }

    /// Reconnects after the process has ended, as soon as there is another one.
    fn connect_again(&mut self, place: &Place) -> Result<Watching, Ending> {
        loop {
            is_log(&place.dir)?;
            let connected = place.reach.connect().ok().flatten();
            if let Some(watching) = connected.and_then(|control| control.watch(self.again()).ok()) {
                return Ok(watching);
            }
            std::thread::sleep(PACE);
        }
    }

    /// Returns the request for the next process. Its event numbers are unrelated, so all events
    /// that it knows are requested.
    fn again(&self) -> Wanted {
        let mut wanted = self.wanted.clone();
        wanted.from = Some(0);
        wanted
    }

    /// Prepares for a new stream.
    fn begin(&mut self, watching: &Watching) {
        let epoch = watching.beginning().epoch;
        if self.epoch.is_some_and(|known| known != epoch) {
            self.wanted.from = Some(0);
        }
        self.epoch = Some(epoch);
    }

    /// Prints events as they arrive.
    fn go_on(
        &mut self,
        out: &mut Out,
        watching: &mut Watching,
        follows: bool,
    ) -> Result<Stopped, Ending> {
        let known = watching.beginning().next_seq;
        loop {
            let next = match watching.next(LOOK) {
                Ok(next) => next,
                Err(error) if error.kind() == ErrorKind::Unreachable => return Ok(Stopped::Gone),
                Err(error) => return Err(error.into()),
            };
            match next {
                Next::Told(Told::Event(event)) => {
                    // After a reconnection the process may repeat known events.
                    if event.seq < self.wanted.from.unwrap_or(0) {
                        continue;
                    }
                    self.wanted.from = Some(event.seq + 1);
                    self.print(out, &event)?;
                    let is_end = event.tid.is_none() && !event.ghost && is_end(event.stage);
                    if (self.run.is_some() && is_end) || (!follows && event.seq + 1 >= known) {
                        return Ok(Stopped::Done);
                    }
                }
                Next::Told(Told::Lost { count }) => match out.json {
                    true => out.json(&json!({ "lost": count }))?,
                    false => out.text(Style::Bad, &format!("… {count} events are gone"))?,
                },
                Next::UpToDate if !follows => return Ok(Stopped::Done),
                Next::Over => return Ok(Stopped::Gone),
                Next::UpToDate | Next::Nothing => out.flush()?,
            }
        }
    }

    fn head(&self, out: &mut Out) -> Result<(), Ending> {
        let run = if self.run.is_none() { "RUN       " } else { "" };
        let head =
            format!("{:>5}  {:<12}  {run}{:>4}  {:<21}  WHAT", "SEQ", "TIME", "TASK", "STAGE");
        out.text(Style::Head, &head)
    }

    fn print(&self, out: &mut Out, event: &Activity) -> Result<(), Ending> {
        if out.json {
            return out.json(event);
        }
        let stamp = Stamp::from_unix_nanos(event.ts.as_nanos());
        let time = stamp.as_str().get(11..23).unwrap_or_default();
        let run = match self.run {
            Some(_) => String::new(),
            None => format!("{:<8.8}  ", event.task_id.to_string()),
        };
        let tid = event.tid.map_or("-".to_owned(), |tid| tid.to_string());
        let head = format!("{:>5}  {time}  {run}{tid:>4}  ", event.seq);
        let stage = format!("{:<21}  ", event.stage);
        let used = head.len() + stage.len();
        let room = out.width.map_or(usize::MAX, |limit| limit.saturating_sub(used));
        let what = super::table::cut(&clean(&what(event)), room.max(1));
        let style = match event.stage {
            _ if event.ghost => Style::Dim,
            Stage::Failed => Style::Bad,
            Stage::Completed if event.tid.is_none() => Style::Good,
            _ => Style::Plain,
        };
        let dim = paint(out.colour, Style::Dim, &head);
        let line =
            format!("{dim}{}{}", paint(out.colour, style, &stage), paint(out.colour, style, &what));
        out.line(line.trim_end())
    }
}

fn is_end(stage: Stage) -> bool {
    matches!(stage, Stage::Completed | Stage::Failed | Stage::Cancelled)
}

/// Describes an event as text.
fn what(event: &Activity) -> String {
    let mut parts = Vec::new();
    if event.ghost {
        parts.push("(again)".to_owned());
    }
    if !event.message.is_empty() {
        parts.push(event.message.trim_end().to_owned());
    }
    if let Data::Other(Value::Object(fields)) = &event.data {
        if let (Some(done), total) = (fields.get("done"), fields.get("total")) {
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            parts.insert(0, format!("{done}{of}"));
        }
        for (name, value) in fields.iter().filter(|(name, _)| !matches!(&***name, "done" | "total"))
        {
            let value = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            parts.push(format!("{name}={value}"));
        }
    }
    if let Some(bytes) = event.cut {
        parts.push(format!("(cut: it has {bytes} bytes)"));
    }
    parts.join(" ")
}
