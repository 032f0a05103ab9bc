//! `demo`: a workflow whose process is killed again and again and goes on, while a ledger in a process of its own
//! sees what is done. At the end the ledger is compared with the log.

mod ledger;
mod proof;
mod timeline;
mod trip;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::args;
use super::error::{CliError, Ending};
use super::out::{Out, Style, paint};
use super::{Done, Started};
use crate::Uuid;
use crate::control::Control;
use crate::durable::uuid_of;
use proof::Proof;
use timeline::{Gap, Timeline};

/// Tells a process of this program that it plays a part in a demo, and where.
const PART: &str = "TIFFANY_DEMO_PART";
const PLACE: &str = "TIFFANY_DEMO_DIR";
/// The process is killed when the ledger has so many entries.
const KILLS: [usize; 3] = [2, 5, 8];
/// Everything has to be over by then.
const LIMIT: Duration = Duration::from_secs(60);

/// Something that is shown while it happens.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Begins { process: usize, pid: u32 },
    GoesOn { process: usize, pid: u32, records: usize },
    Did { process: usize, what: String, again: bool },
    Approved,
    Killed { process: usize, pid: u32 },
    Over,
}

impl Event {
    fn text(&self) -> (Style, String) {
        match self {
            Event::Begins { process, pid } => {
                (Style::Busy, format!("process {process} (pid {pid}) begins"))
            }
            Event::GoesOn { process, pid, records } => {
                let text = format!("process {process} (pid {pid}) goes on after {records} records");
                (Style::Busy, text)
            }
            Event::Did { process, what, again: false } => {
                (Style::Plain, format!("  process {process}: {what}"))
            }
            Event::Did { process, what, again: true } => {
                let text = format!(
                    "  process {process}: {what}, again: the key is there already, so it is not done"
                );
                (Style::Plain, text)
            }
            Event::Approved => (
                Style::Head,
                "the budget is approved from outside, through the socket of that process".into(),
            ),
            Event::Killed { process, pid } => {
                (Style::Bad, format!("SIGKILL to process {process} (pid {pid})"))
            }
            Event::Over => (Style::Good, "the run is over".into()),
        }
    }
}

/// Plays a part in a demo, if this process was started for that; else shows one.
pub(super) fn demo(out: Out, options: &args::Demo, started: &Started<'_>) -> Done {
    if let (Ok(part), Some(dir)) = (std::env::var(PART), std::env::var_os(PLACE)) {
        match part.as_str() {
            "ledger" => ledger::serve(Path::new(&dir)).map_err(failed)?,
            _ => trip::work(Path::new(&dir))?,
        }
        return out.end(0);
    }
    let temporary = || std::env::temp_dir().join(format!("tiffany-demo-{}", std::process::id()));
    let dir = options.place.clone().unwrap_or_else(temporary);
    if std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!("{} is not empty; give `demo` a new directory", dir.display());
        return Err(CliError::Usage(message).into());
    }
    std::fs::create_dir_all(&dir).map_err(failed)?;
    let dir = dir.canonicalize().map_err(failed)?;
    let (began, pids) = (Instant::now(), Vec::new());
    Show { dir: &dir, out, started, began, shown: 0, approved: false, pids }.play()
}

fn failed(error: io::Error) -> Ending {
    CliError::Demo(error.to_string()).into()
}

fn run() -> Uuid {
    uuid_of(trip::ID)
}

fn run_file(dir: &Path) -> PathBuf {
    dir.join("wal").join(format!("{}.wal", run()))
}

/// A process of this program that plays a part. It ends with this.
struct Part(Child);

impl Part {
    fn start(started: &Started<'_>, part: &str, dir: &Path) -> Result<Part, Ending> {
        let mut again = match started.guest {
            Some(guest) => guest.again(),
            None => {
                let mut again = Command::new(std::env::current_exe().map_err(failed)?);
                again.args(std::env::args_os().skip(1));
                again
            }
        };
        let child = again
            .env(PART, part)
            .env(PLACE, dir)
            // The ledger ends when this is closed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Ok(Part(child.map_err(failed)?))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A demo that is being shown.
struct Show<'a> {
    dir: &'a Path,
    out: Out,
    started: &'a Started<'a>,
    began: Instant,
    /// How many entries of the ledger have been shown.
    shown: usize,
    approved: bool,
    /// The processes that worked, in order.
    pids: Vec<u32>,
}

impl Show<'_> {
    fn play(mut self) -> Done {
        self.say("A trip (the run `summer`) is planned by tasks that work at the same time. Their process is killed three times, and each")?;
        self.say("time another one reads the log and goes on. A ledger in a process of its own sees what is done.\n")?;
        let ledger = Part::start(self.started, "ledger", self.dir)?;
        let gaps = self.run()?;
        drop(ledger);
        let log = std::fs::read_to_string(run_file(self.dir)).map_err(failed)?;
        let proof = Proof::new(&ledger::read(self.dir), &log, self.pids.len())?;
        if self.out.json {
            self.out.json(&proof)?;
            return self.out.end(0);
        }
        self.say("")?;
        self.say(&Timeline::new(&log, &gaps).draw(self.out.colour))?;
        for line in proof.lines() {
            self.say(&format!("  {line}"))?;
        }
        let program = match self.started.guest {
            Some(_) => self.started.name.clone(),
            None => std::env::args().next().unwrap_or_else(|| "tiffany".into()),
        };
        let dir = self.dir.display().to_string();
        let commands = [
            (format!("{program} --dir {dir} show {}", trip::ID), "its tasks, and how each ended"),
            (format!("{program} --dir {dir} log {}", trip::ID), "its records, one by one"),
            (format!("cat {dir}/ledger.jsonl"), "what the ledger saw"),
            (format!("rm -r {dir}"), "when you are done"),
        ];
        let wide = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        self.say("\nLook at it yourself:")?;
        for (command, what) in commands {
            self.say(&format!("  {command:<wide$}  # {what}"))?;
        }
        self.out.end(0)
    }

    /// A line for people.
    fn say(&mut self, text: &str) -> Result<(), Ending> {
        if !self.out.json {
            self.out.line(text)?;
        }
        self.out.flush()
    }

    /// Shows what happens, with the time.
    fn tell(&mut self, event: &Event) -> Result<(), Ending> {
        let at = self.began.elapsed().as_secs_f64();
        if self.out.json {
            self.out.json(event)?;
        }
        let (style, text) = event.text();
        let text = paint(self.out.colour, style, &text);
        self.say(&format!("  {at:5.2} s  {text}"))
    }

    /// Lets the workflow come to its end, through all kills. Gives the times without a process.
    fn run(&mut self) -> Result<Vec<Gap>, Ending> {
        let mut gaps: Vec<Gap> = Vec::new();
        for kill_at in KILLS.into_iter().map(Some).chain([None]) {
            let mut worker = Part::start(self.started, "worker", self.dir)?;
            if let Some(gap) = gaps.last_mut() {
                gap.to = unix_nanos();
            }
            let (process, pid) = (self.pids.len() + 1, worker.0.id());
            self.pids.push(pid);
            let begins = match std::fs::read_to_string(run_file(self.dir)) {
                Ok(log) => Event::GoesOn { process, pid, records: log.lines().count() },
                Err(_) => Event::Begins { process, pid },
            };
            self.tell(&begins)?;
            if self.watch(&mut worker, kill_at)? {
                break;
            }
            drop(worker);
            gaps.push(Gap { from: unix_nanos(), to: u64::MAX });
            self.show_entries()?;
            self.tell(&Event::Killed { process, pid })?;
            std::thread::sleep(Duration::from_millis(300));
        }
        self.show_entries()?;
        self.tell(&Event::Over)?;
        Ok(gaps)
    }

    /// Watches a process until it is over, or until it is to be killed. `true`: the run is over.
    fn watch(&mut self, worker: &mut Part, kill_at: Option<usize>) -> Result<bool, Ending> {
        loop {
            self.show_entries()?;
            if let Some(status) = worker.0.try_wait().map_err(failed)? {
                let ended = CliError::Demo(format!("a process ended with {status}"));
                return if status.success() { Ok(true) } else { Err(ended.into()) };
            }
            if kill_at.is_some_and(|count| self.shown >= count) {
                // Not always at the same place.
                std::thread::sleep(Duration::from_millis(unix_nanos() / 1000 % 80));
                return Ok(false);
            }
            if self.pids.len() == KILLS.len() && !self.approved {
                self.approve()?;
            }
            if self.began.elapsed() > LIMIT {
                return Err(CliError::Demo(format!("it is not over after {LIMIT:?}")).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Settles what the budget waits for, as anybody else would from outside.
    fn approve(&mut self) -> Result<(), Ending> {
        let Some(promise) = promised(self.dir) else { return Ok(()) };
        let mut control = Control::open(self.dir)?;
        // At first the process may not have the log yet.
        if !control.is_offline() {
            control.settle(promise, &"approved")?;
            self.approved = true;
            self.tell(&Event::Approved)?;
        }
        Ok(())
    }

    fn show_entries(&mut self) -> Result<(), Ending> {
        for entry in ledger::read(self.dir).into_iter().skip(self.shown) {
            self.shown += 1;
            let process = self.pids.iter().position(|pid| *pid == entry.pid).map_or(0, |at| at + 1);
            self.tell(&Event::Did { process, what: entry.what, again: entry.repeated })?;
        }
        Ok(())
    }
}

/// The promise that the budget waits for, once the log has it.
fn promised(dir: &Path) -> Option<Uuid> {
    let log = std::fs::read_to_string(run_file(dir)).ok()?;
    let record = log.lines().find(|line| line.contains(r#""call":"create_external_promise""#))?;
    let record: serde_json::Value = serde_json::from_str(record).ok()?;
    Uuid::parse(record["uuid"].as_str()?)
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
