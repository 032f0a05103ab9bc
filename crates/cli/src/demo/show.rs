//! The course of the demo: which processes are started and killed when, and what is printed.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Invocation, clean, json_line};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use tiffany::Uuid;
use tiffany::control::{Control, Ruling, State};
use tiffany::wal::{RealDisk, View};
use tiffany_daemon::{Relaunch, shell_word};

use super::proof::Proof;
use super::timeline::{Gap, Timeline};
use super::{ADDRESS, NAME, PART, PLACE, failed, ledger, trip};
use tiffany_daemon::DaemonError;

/// The numbers of entries in the ledger at which the daemon is killed.
const KILLS: [usize; 3] = [2, 5, 8];
/// The time in which the trip has to finish.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the daemon may take to stop when the demo ends.
const LAST: Duration = Duration::from_secs(5);

/// An event of the demo, which is printed at once.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Serving { url: &'a str },
    Begins { process: usize, pid: u32 },
    GoesOn { process: usize, pid: u32, records: usize },
    Did { process: usize, what: String, again: bool },
    Approved,
    Killed { process: usize, pid: u32 },
    Over,
}

/// Colours, by their terminal codes.
const GREEN: u8 = 32;
const RED: u8 = 31;
const CYAN: u8 = 36;
const BOLD: u8 = 1;

impl Event<'_> {
    fn text(&self) -> (u8, String) {
        match self {
            Event::Serving { url } => (BOLD, format!("it is at {url}")),
            Event::Begins { process, pid } => {
                (CYAN, format!("daemon {process} (pid {pid}) starts"))
            }
            Event::GoesOn { process, pid, records } => {
                (CYAN, format!("daemon {process} (pid {pid}) continues after {records} records"))
            }
            Event::Did { process, what, again: false } => {
                (0, format!("  daemon {process}: {what}"))
            }
            Event::Did { process, what, again: true } => {
                let why = "the key exists already, so the step is not repeated";
                (0, format!("  daemon {process}: {what}, again: {why}"))
            }
            Event::Approved => {
                (BOLD, "the budget is approved, through the socket of that daemon".into())
            }
            Event::Killed { process, pid } => {
                (RED, format!("SIGKILL to daemon {process} (pid {pid})"))
            }
            Event::Over => (GREEN, "the trip is planned".into()),
        }
    }
}

/// Shows a demo in an empty directory.
pub(super) fn play(
    asked: &Invocation<'_>,
    dir: &Path,
    address: SocketAddr,
    headless: bool,
) -> Result<(), DaemonError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    let mut show = Show {
        dir,
        address,
        relaunch: asked.relaunch.clone(),
        json: asked.json,
        colour: asked.colour,
        began: Instant::now(),
        trip: Uuid(0),
        shown: 0,
        approved: false,
        pids: Vec::new(),
        stop,
    };
    show.say("A daemon plans a trip (the run `summer`) by tasks that work at the same time. It is killed three times, and each time another")?;
    show.say(
        "one reads the log and continues. A ledger in a process of its own records what is done.\n",
    )?;
    let ledger = show.start("ledger")?;
    let (daemon, gaps) = show.run()?;
    show.prove(&gaps)?;
    if !headless {
        show.linger()?;
    }
    daemon.end()?;
    ledger.end()
}

/// A process of this program that plays a part. It ends when its standard input closes, or when
/// this is dropped.
struct Part(Child);

impl Part {
    /// Closes the standard input of the process, and waits until it ends.
    fn end(mut self) -> Result<(), DaemonError> {
        drop(self.0.stdin.take());
        let began = Instant::now();
        while began.elapsed() < LAST {
            if self.0.try_wait().map_err(failed)?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A demo in progress.
struct Show<'a> {
    dir: &'a Path,
    address: SocketAddr,
    relaunch: Relaunch,
    json: bool,
    colour: bool,
    began: Instant,
    /// The run of the trip.
    trip: Uuid,
    /// How many entries of the ledger have been shown.
    shown: usize,
    approved: bool,
    /// The process ids of the daemons, in order.
    pids: Vec<u32>,
    /// Whether Ctrl-C was pressed.
    stop: Arc<AtomicBool>,
}

impl Show<'_> {
    fn start(&self, part: &str) -> Result<Part, DaemonError> {
        let child = self
            .relaunch
            .clone()
            .with([NAME])
            .command()
            .env(PART, part)
            .env(PLACE, self.dir)
            .env(ADDRESS, self.address.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the demo, which ends its processes in order.
            .process_group(0)
            .spawn();
        Ok(Part(child.map_err(failed)?))
    }

    /// Runs the trip to its end, through all kills. Returns the last daemon, and the gaps without
    /// one.
    fn run(&mut self) -> Result<(Part, Vec<Gap>), DaemonError> {
        let mut gaps: Vec<Gap> = Vec::new();
        for kill_at in KILLS.into_iter().map(Some).chain([None]) {
            let mut daemon = self.start("daemon")?;
            if let Some(gap) = gaps.last_mut() {
                gap.to = unix_nanos();
            }
            let (process, pid) = (self.pids.len() + 1, daemon.0.id());
            self.pids.push(pid);
            if process == 1 {
                self.tell(&Event::Begins { process, pid })?;
                self.begin(&mut daemon)?;
                let url = format!("http://{}", self.address);
                self.tell(&Event::Serving { url: &url })?;
            } else {
                let records = self.log()?.lines().count();
                self.tell(&Event::GoesOn { process, pid, records })?;
            }
            if self.watch(&mut daemon, kill_at)? {
                self.show_entries()?;
                self.tell(&Event::Over)?;
                return Ok((daemon, gaps));
            }
            drop(daemon);
            gaps.push(Gap { from: unix_nanos(), to: u64::MAX });
            self.show_entries()?;
            self.tell(&Event::Killed { process, pid })?;
            std::thread::sleep(Duration::from_millis(300));
        }
        Err(DaemonError::Demo("the last daemon was not the last".into()))
    }

    /// Starts the runs.
    fn begin(&mut self, daemon: &mut Part) -> Result<(), DaemonError> {
        let mut control = loop {
            self.is_alive(daemon)?;
            match Control::connect(self.dir).map_err(said)? {
                Some(control) => break control,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        self.trip = control.submit(trip::NAME, trip::ID, &10).map_err(said)?;
        control.submit("report", "report-7", &40).map_err(said)?;
        control.submit("refund", "refund-17", &40).map_err(said)?;
        control.submit("import", "import-3", &5).map_err(said)?;
        control.submit("pulse", "pulse", &()).map_err(said)?;
        Ok(())
    }

    /// Watches a daemon until the trip has finished, or until the daemon has to be killed. Returns
    /// `true` if the trip has finished.
    fn watch(&mut self, daemon: &mut Part, kill_at: Option<usize>) -> Result<bool, DaemonError> {
        loop {
            self.is_alive(daemon)?;
            self.show_entries()?;
            if kill_at.is_some_and(|count| self.shown >= count) {
                // A delay that varies, so that the kill hits different places.
                std::thread::sleep(Duration::from_millis(unix_nanos() / 1000 % 80));
                return Ok(false);
            }
            if self.pids.len() >= KILLS.len() && !self.approved {
                self.approve()?;
            }
            if kill_at.is_none() && self.is_planned()? {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_alive(&self, daemon: &mut Part) -> Result<(), DaemonError> {
        if let Some(status) = daemon.0.try_wait().map_err(failed)? {
            return Err(DaemonError::Demo(format!("a daemon ended with {status}")));
        }
        if self.stop.load(Ordering::SeqCst) {
            return Err(DaemonError::Demo("it was interrupted".into()));
        }
        if self.began.elapsed() > LIMIT {
            return Err(DaemonError::Demo(format!("it is not finished after {LIMIT:?}")));
        }
        Ok(())
    }

    /// Decides the approval that the budget waits for, as any client would.
    fn approve(&mut self) -> Result<(), DaemonError> {
        let Ok(Some(mut control)) = Control::connect(self.dir) else { return Ok(()) };
        // The daemon may not own the log yet.
        let Ok(open) = control.approvals() else { return Ok(()) };
        if let Some(asked) = open.iter().find(|one| one.question == trip::QUESTION) {
            let ruling = Ruling::choice("yes").because("it is a demo");
            control.resolve(&asked.id, ruling).map_err(said)?;
            self.approved = true;
            self.tell(&Event::Approved)?;
        }
        Ok(())
    }

    fn is_planned(&self) -> Result<bool, DaemonError> {
        let Ok(Some(mut control)) = Control::connect(self.dir) else { return Ok(false) };
        let Ok(detail) = control.show(self.trip) else { return Ok(false) };
        match detail.summary.state {
            State::Completed => Ok(true),
            State::Live => Ok(false),
            other => Err(DaemonError::Demo(format!("the trip is {}", other.word()))),
        }
    }

    /// Compares the ledger with the log, and draws the trip.
    fn prove(&mut self, gaps: &[Gap]) -> Result<(), DaemonError> {
        let log = self.log()?;
        let proof = Proof::new(self.trip, &ledger::read(self.dir), &log, self.pids.len())?;
        if self.json {
            return write(&json_line(&proof));
        }
        self.say("")?;
        self.say(&Timeline::new(&log, gaps).draw(self.colour))?;
        for line in proof.lines() {
            self.say(&format!("  {line}"))?;
        }
        let (program, dir) = (self.relaunch.typed(), self.dir.display().to_string());
        let (ledger, dir) = (format!("{dir}/ledger.jsonl"), shell_word(&dir));
        let commands = [
            (format!("{program} --dir {dir} ls"), "all runs; one of them failed"),
            (format!("{program} --dir {dir} show {}", trip::ID), "its tasks, and how each ended"),
            (format!("{program} --dir {dir} log {}", trip::ID), "its records, one by one"),
            (format!("cat {}", shell_word(&ledger)), "what the ledger saw"),
            (format!("rm -r {dir}"), "when you are done"),
        ];
        let wide = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
        self.say("\nLook at it yourself:")?;
        for (command, what) in commands {
            self.say(&format!("  {command:<wide$}  # {what}"))?;
        }
        Ok(())
    }

    /// Keeps the daemon and its page running.
    fn linger(&mut self) -> Result<(), DaemonError> {
        let url = self.paint(BOLD, &format!("http://{}", self.address));
        self.say(&format!("\nThe daemon keeps running at {url}: a refund waits there for you, an import has failed. Ctrl-C ends it."))?;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.say("")
    }

    /// Returns the durable records of the trip, as lines.
    fn log(&self) -> Result<String, DaemonError> {
        let told = |error: tiffany::wal::LogError| DaemonError::Demo(error.to_string());
        let view = View::open(Arc::new(RealDisk), self.dir).map_err(told)?;
        let mut reader = view.reader(self.trip).map_err(told)?;
        let mut log = String::new();
        while let Some(record) = reader.next() {
            log.push_str(record.map_err(told)?.json);
            log.push('\n');
        }
        Ok(log)
    }

    fn show_entries(&mut self) -> Result<(), DaemonError> {
        for entry in ledger::read(self.dir).into_iter().skip(self.shown) {
            self.shown += 1;
            let process = self.pids.iter().position(|pid| *pid == entry.pid).map_or(0, |at| at + 1);
            self.tell(&Event::Did { process, what: entry.what, again: entry.repeated })?;
        }
        Ok(())
    }

    /// Prints a line of text.
    fn say(&self, text: &str) -> Result<(), DaemonError> {
        if self.json { Ok(()) } else { write(&format!("{text}\n")) }
    }

    /// Prints an event with its time.
    fn tell(&self, event: &Event<'_>) -> Result<(), DaemonError> {
        if self.json {
            return write(&json_line(event));
        }
        let (colour, text) = event.text();
        let at = self.began.elapsed().as_secs_f64();
        self.say(&format!("  {at:5.2} s  {}", self.paint(colour, &clean(&text))))
    }

    fn paint(&self, colour: u8, text: &str) -> String {
        match self.colour && colour > 0 {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

fn write(text: &str) -> Result<(), DaemonError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

fn said(error: tiffany::TaskError) -> DaemonError {
    DaemonError::Demo(error.to_string())
}

fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
