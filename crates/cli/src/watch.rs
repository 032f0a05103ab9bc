//! `watch`: shows a run in progress. Its tasks come from its records, so the tree is complete from
//! the start; their progress comes from the process that currently drives the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::json;
use tiffany_kernel::{ErrorKind, Uuid};

use super::Done;
use super::args::{AboutApprovals, ToDoAboutApprovals};
use super::asking::Questions;
use super::driver::{self, Heard, Reach, Silence};
use super::error::{CliError, Ending, Shown, exit};
use super::live::{Live, Row};
use super::out::{Out, Style, clean, paint};
use super::place::{Place, find_kept};
use super::screen::Screen;
use super::table::{cut, wrap};
use tiffany::command::Clock;
use tiffany::command::decode_run;
use tiffany::control::{Control, Next, Request, State};
use tiffany::pal::{Activity, Told, Wanted};
use tiffany_log::{Follower, LogError, Stamp};
use tiffany_records::tasks::Seen;

/// How often the file is checked and the tree is redrawn.
const PACE: Duration = Duration::from_millis(80);
/// How often the process is asked whether the run can continue.
const LOOK: Duration = Duration::from_secs(1);
/// How long a command that only waits for the outcome waits for a process to own the log. A restart
/// takes less.
const RESTART_TIMEOUT: Duration = Duration::from_secs(5);
/// The most events that wait for this command; beyond that they stay in the process, which drops
/// the oldest.
const EVENTS: usize = 1024;
const SPINNER: [char; 4] = ['◐', '◓', '◑', '◒'];

pub(super) fn watch(place: &Place, out: Out, run: &str, approvals: ToDoAboutApprovals) -> Done {
    // A command that only watches leaves questions to others.
    let manner = approvals.manner(AboutApprovals::Wait)?;
    let run = find_kept(&place.look_for(&[run])?, run)?;
    let form = if out.is_terminal() { Manner::Tree } else { Manner::Lines };
    see(place, out, run, (form, manner), &AtomicBool::new(false))
}

/// How a run in progress is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// A tree that is redrawn.
    Tree,
    /// A line for every change.
    Lines,
    /// Nothing but the end of the run.
    End,
}

/// Displays a run until it ends, or until `stop` is set.
pub(super) fn see(
    place: &Place,
    mut out: Out,
    run: Uuid,
    (manner, approvals): (Manner, AboutApprovals),
    stop: &AtomicBool,
) -> Done {
    let mut questions = Questions::new(place, run, approvals);
    let mut showing = Showing::new(manner);
    let (events, _listening) = listen(&place.reach, run, manner);
    let mut live = Live::default();
    let view = place.look_for(&[&run.to_string()])?;
    let mut reader = view.reader(run)?;
    while let Some(record) = reader.next() {
        live.record(&record?);
    }
    let mut follower = Follower::new(&place.dir, run, reader.checker().clone());
    drop(view);
    place.follow(run);
    let mut looked = Instant::now();
    let mut process = driven(&place.reach);
    let mut driven_at = Instant::now();
    let mut is_asked = false;
    loop {
        let is_there = read_on(&mut follower, &mut live)?;
        let is_over = match manner {
            // A command that only waits for the outcome doesn't wait for the cleanup after it.
            Manner::End => live.tasks.is_decided(),
            Manner::Tree | Manner::Lines => live.tasks.is_over(),
        };
        if !is_over {
            showing.driven_by(&mut out, run, &process)?;
        }
        let open = live.questions();
        // The state above a question is that of the moment when it is asked.
        if !open.is_empty() && !is_asked {
            showing.update(&mut out, &live, is_asked)?;
        }
        is_asked = questions.look(&open)?;
        showing.update(&mut out, &live, is_asked)?;
        if is_over {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            showing.leave();
            return out.end(exit::UNFINISHED);
        }
        if !place.dir.is_dir() {
            return Err(LogError::Vanished { act: "follow", path: place.dir.clone() }.into());
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            // The last records are read before the end of the process is reported.
            process = driven(&place.reach);
            if !is_there {
                let name = run.to_string();
                find_kept(&place.look_for(&[&name])?, &name)?;
            }
            if process.pid.is_some() {
                driven_at = Instant::now();
            } else if manner == Manner::End && driven_at.elapsed() >= RESTART_TIMEOUT {
                return Err(CliError::NobodyDrives { run, dir: place.dir.clone() }.into());
            }
            if process.stands_still.is_none() {
                process.stands_still = can_go_on(place, run, manner)?;
            }
        }
        match events.recv_timeout(PACE) {
            Ok(event) => {
                for event in std::iter::once(event).chain(events.try_iter()) {
                    if let Some((tid, text)) = live.event(&event) {
                        showing.say(&mut out, tid, &text)?;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(PACE),
        }
    }
    showing.leave();
    end(place, out, run, &live, questions.denied)
}

/// Reads new records. Returns `false` if there is no file, because the run is too new or was
/// removed.
fn read_on(follower: &mut Follower, live: &mut Live) -> Result<bool, Ending> {
    loop {
        match follower.next() {
            Ok(Some(record)) => live.record(&record),
            Ok(None) => return Ok(true),
            Err(LogError::Vanished { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process that drives a run.
struct Driven {
    pid: Option<u32>,
    /// Why the run makes no progress and what to do, if so.
    stands_still: Option<String>,
}

fn driven(reach: &Reach) -> Driven {
    let pid = driver::process(reach);
    let stands_still = match (pid, reach) {
        // It may be a process of another machine.
        (Some(_), Reach::Daemon(_)) => None,
        (None, Reach::Daemon(_)) => {
            Some("the daemon does not answer, so it is not known how the run stands".into())
        }
        (None, Reach::Dir(dir)) => {
            let next = driver::start(dir);
            Some(format!("no process owns the directory, so the run makes no progress; {next}"))
        }
        (Some(pid), Reach::Dir(_)) => Silence::of_stopped(pid).map(|silence| silence.text()),
    };
    Driven { pid, stands_still }
}

/// Returns why the process doesn't answer, if so. Returns an error if the log has failed or the run
/// is paused, so that waiting is pointless. A tree displays a paused run as it is.
fn can_go_on(place: &Place, run: Uuid, manner: Manner) -> Result<Option<String>, Ending> {
    let ask = |control: &mut Control| {
        control.ask(Request::Health)?;
        (manner != Manner::Tree).then(|| control.show(run)).transpose()
    };
    let detail = match driver::ask(&place.reach, ask) {
        Ok(Heard::Said(Some(detail))) => detail,
        Ok(Heard::Silent(silence)) => return Ok(Some(silence.text())),
        Err(error) if error.kind() == ErrorKind::LogFailed => return Err(error.into()),
        Ok(Heard::Said(None) | Heard::Nobody) | Err(_) => return Ok(None),
    };
    let paused = matches!(detail.summary.state, State::Paused | State::Held);
    let error = detail.summary.error.filter(|_| paused);
    error.map_or(Ok(None), |error| {
        let shown = Shown {
            code: error.code,
            message: format!("run {run} is paused: {}", error.message),
            next: "see with `show` and `resume --dry-run` what it needs to continue".into(),
            exit: exit::FAILED,
        };
        Err(Ending::Error(shown))
    })
}

/// Reports how the run ended.
fn end(place: &Place, mut out: Out, run: Uuid, live: &Live, denied: usize) -> Done {
    let decoded = decode_run(&place.look_for(&[&run.to_string()])?, run)?;
    let state = match live.tasks.all.get(&1).map(|root| root.state) {
        Some(Seen::Cancelled) => "cancelled",
        Some(Seen::Failed) => "failed",
        _ if decoded.outcome.as_ref().is_some_and(Result::is_err) => "failed",
        _ => "completed",
    };
    let outcome = decoded.outcome.unwrap_or_else(|| Ok("null".into()));
    match (&outcome, out.json) {
        (Ok(value), true) => {
            let value = super::json::value(value);
            let (run, id) = (run.to_string(), &live.tasks.id);
            out.json(&json!({ "run": run, "id": id, "state": state, "value": value }))?;
        }
        (Err(error), true) => {
            let (run, id, error) = (run.to_string(), &live.tasks.id, Shown::from(error.clone()));
            out.json(&json!({ "run": run, "id": id, "state": state, "error": error.json() }))?;
        }
        (Ok(value), false) => out.whole(Style::Plain, value, 0)?,
        (Err(_), false) => {}
    }
    out.flush()?;
    match outcome {
        Err(error) => {
            let mut shown = Shown::from(error);
            if shown.next.is_empty() {
                shown.next = format!("`show {run}` and `log {run} --failed` tell more");
            }
            Err(Ending::Error(shown))
        }
        Ok(_) if denied > 0 => {
            let many = super::summary::count(denied as u64, "question");
            let message = format!("{many} of run {run} denied, because no person could be asked");
            Err(CliError::Denied(message).into())
        }
        Ok(_) => out.end(0),
    }
}

/// The state of the display.
struct Showing {
    manner: Manner,
    screen: Screen,
    /// The text that was last printed about each task.
    said: BTreeMap<u64, String>,
    turn: usize,
    /// The process that owns the log, and whether the run makes no progress; `None` before the
    /// first check.
    process: Option<(Option<u32>, bool)>,
    /// The text that is shown while the run makes no progress.
    stands_still: Option<String>,
}

impl Showing {
    fn new(manner: Manner) -> Showing {
        let (screen, said) = (Screen::default(), BTreeMap::new());
        Showing { manner, screen, said, turn: 0, process: None, stands_still: None }
    }

    /// Reports that no process drives the run, and when one does again.
    fn driven_by(&mut self, out: &mut Out, run: Uuid, process: &Driven) -> Result<(), Ending> {
        self.stands_still.clone_from(&process.stands_still);
        let now = (process.pid, process.stands_still.is_some());
        let before = self.process.replace(now);
        if before == Some(now) || (before.is_none() && !now.1) {
            return Ok(());
        }
        let text = match (&process.stands_still, process.pid) {
            (Some(why), _) => why.clone(),
            (None, Some(pid)) => format!("process {pid} owns the directory, and the run continues"),
            (None, None) => return Ok(()),
        };
        match self.manner {
            _ if out.json => {
                let mut told = json!({ "run": run.to_string(), "pid": process.pid });
                if let (Some(_), Some(why)) = (process.pid, &process.stands_still) {
                    told["unanswered"] = why.clone().into();
                }
                out.json(&told)?;
                out.flush()
            }
            Manner::End => {
                eprintln!("tiffany: {}", clean(&text));
                Ok(())
            }
            Manner::Lines => {
                out.text(Style::Head, &format!("{}  {text}", time()))?;
                out.flush()
            }
            // The tree shows it as long as it lasts.
            Manner::Tree if process.stands_still.is_some() => Ok(()),
            Manner::Tree => {
                self.screen.clear(out)?;
                out.text(Style::Dim, &text)
            }
        }
    }

    fn update(&mut self, out: &mut Out, live: &Live, is_asked: bool) -> Result<(), Ending> {
        match self.manner {
            Manner::End => Ok(()),
            _ if out.json => self.changes(out, live),
            Manner::Lines => self.changes(out, live),
            // A question uses the terminal: the tree stays as it is, and nothing is redrawn.
            Manner::Tree if is_asked => {
                self.screen.leave();
                Ok(())
            }
            Manner::Tree => self.draw(out, live),
        }
    }

    /// Prints what has changed.
    fn changes(&mut self, out: &mut Out, live: &Live) -> Result<(), Ending> {
        let now = Clock::system().now();
        for row in live.rows() {
            let text = format!("{}  {}", row.task.word(), row.what());
            if self.said.get(&row.tid).is_some_and(|said| *said == text) {
                continue;
            }
            match out.json {
                true => out.json(&row.json())?,
                false => {
                    let (word, what) = (row.task.word(), row.what_at(now));
                    let line = format!("{}  {}{}  {word}  {what}", time(), row.tid, row.name());
                    out.text(Style::of_state(word), line.trim_end())?;
                }
            }
            self.said.insert(row.tid, text);
        }
        out.flush()
    }

    fn draw(&mut self, out: &mut Out, live: &Live) -> Result<(), Ending> {
        self.turn += 1;
        let rows = live.rows();
        let still = self.stands_still.as_deref().map(clean);
        let still = still.map_or_else(Vec::new, |text| wrap(&text, out.width.unwrap_or(80), 0));
        let room = out.height().saturating_sub(3 + still.len()).max(1);
        let is_over = |row: &Row<'_>| row.task.state != Seen::Going;
        // If there is not enough room, finished tasks are hidden.
        let hides = rows.len() > room;
        let shown: Vec<&Row<'_>> = rows.iter().filter(|row| !hides || !is_over(row)).collect();
        let mut lines = vec![self.head(out, live)];
        lines.extend(still.iter().map(|line| paint(out.colour, Style::Bad, line)));
        lines.extend(shown.iter().take(room).map(|row| self.line(out, row)));
        let left = rows.len() - shown.len().min(room);
        if left > 0 {
            lines.push(paint(out.colour, Style::Dim, &format!("… and {left} more tasks")));
        }
        self.screen.draw(out, &lines)
    }

    fn head(&self, out: &Out, live: &Live) -> String {
        let text = format!("{}  {}", live.tasks.id, live.tasks.function);
        let text = cut(&clean(&text), out.width.unwrap_or(usize::MAX));
        paint(out.colour, Style::Head, &text)
    }

    fn line(&self, out: &Out, row: &Row<'_>) -> String {
        let (mark, style) = match row.task.state {
            Seen::Completed => ('✓', Style::Good),
            Seen::Failed => ('✗', Style::Bad),
            Seen::Cancelled => ('–', Style::Dim),
            Seen::Going if row.task.waits.values().any(|waiting| waiting.call == "approve") => {
                ('?', Style::Head)
            }
            Seen::Going if self.stands_still.is_some() => ('·', Style::Dim),
            Seen::Going => (SPINNER[self.turn % SPINNER.len()], Style::Busy),
        };
        let what = row.what_at(Clock::system().now());
        let plain = format!("{}{mark} {}{}  {what}", row.lead, row.tid, row.name());
        let plain = cut(&clean(plain.trim_end()), out.width.unwrap_or(usize::MAX));
        plain.replacen(mark, &paint(out.colour, style, &mark.to_string()), 1)
    }

    /// Prints a text from a task, which stays on the screen.
    fn say(&mut self, out: &mut Out, tid: u64, text: &str) -> Result<(), Ending> {
        match self.manner {
            Manner::End => Ok(()),
            _ if out.json => out.json(&json!({ "tid": tid, "says": text })),
            Manner::Lines => out.text(Style::Plain, &format!("{}  {tid}  {text}", time())),
            Manner::Tree => {
                self.screen.clear(out)?;
                out.text(Style::Dim, &format!("{tid}: {text}"))
            }
        }
    }

    fn leave(&mut self) {
        self.screen.leave();
    }
}

/// Returns the time of day.
fn time() -> String {
    let stamp = Stamp::from_unix_nanos(Clock::system().now().as_nanos());
    stamp.as_str().get(11..19).unwrap_or_default().to_owned()
}

/// Stops the listening thread when it is dropped.
struct Listening(Arc<AtomicBool>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Receives the events of the process that drives the run, and of its successors.
fn listen(reach: &Reach, run: Uuid, manner: Manner) -> (Receiver<Arc<Activity>>, Listening) {
    let (send, events) = sync_channel(EVENTS);
    let is_over = Arc::new(AtomicBool::new(manner == Manner::End));
    let (reach, ends) = (reach.clone(), Arc::clone(&is_over));
    let hears = move || hear(&reach, run, &send, &ends);
    drop(std::thread::Builder::new().name("tiffany-watch".into()).spawn(hears));
    (events, Listening(is_over))
}

fn hear(reach: &Reach, run: Uuid, send: &SyncSender<Arc<Activity>>, is_over: &AtomicBool) {
    let mut epoch = None;
    let mut from = 0;
    while !is_over.load(Ordering::Relaxed) {
        let wanted = Wanted::new().run(run).from(from).ghosts(false);
        let control = reach.connect().ok().flatten();
        let Some(mut watching) = control.and_then(|control| control.watch(wanted).ok()) else {
            std::thread::sleep(PACE);
            continue;
        };
        // The event numbers of another process are unrelated.
        if epoch.replace(watching.beginning().epoch) != Some(watching.beginning().epoch) && from > 0
        {
            from = 0;
            continue;
        }
        while !is_over.load(Ordering::Relaxed) {
            match watching.next(LOOK) {
                Ok(Next::Told(Told::Event(event))) => {
                    from = event.seq + 1;
                    if send.send(event).is_err() {
                        return;
                    }
                }
                Ok(Next::Over) | Err(_) => break,
                Ok(_) => {}
            }
        }
        std::thread::sleep(PACE);
    }
}
