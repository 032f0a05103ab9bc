//! A line on standard error that shows the progress of long work. It appears only on a terminal,
//! and is removed when the work is done.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::out::Out;

/// How often the line is drawn.
const PACE: Duration = Duration::from_millis(100);
const BAR: usize = 24;

pub(super) struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    /// When the line was last drawn; `None` if standard error is not a terminal.
    drawn: Option<Instant>,
    visible: bool,
}

impl Progress {
    pub(super) fn new(out: &Out, what: &'static str, total: u64) -> Progress {
        let seen = !out.json && std::io::stderr().is_terminal();
        Progress { what, total, done: 0, drawn: seen.then(Instant::now), visible: false }
    }

    pub(super) fn add(&mut self, more: u64) {
        self.done += more;
        self.set(self.done);
    }

    /// Sets the progress and the total, if the total becomes known during the work.
    pub(super) fn set_of(&mut self, done: u64, total: u64) {
        self.total = total;
        self.set(done);
    }

    pub(super) fn set(&mut self, done: u64) {
        self.done = done;
        let Some(drawn) = self.drawn.filter(|drawn| drawn.elapsed() >= PACE) else { return };
        // Short work needs no bar.
        if !self.visible && drawn.elapsed() < PACE * 2 {
            return;
        }
        self.drawn = Some(Instant::now());
        self.visible = true;
        let share = self.done.min(self.total) * BAR as u64 / self.total.max(1);
        let bar: String = (0..BAR as u64).map(|at| if at < share { '█' } else { '░' }).collect();
        let percent = self.done.min(self.total) * 100 / self.total.max(1);
        let _ = write!(std::io::stderr(), "\r\x1b[K{} {bar} {percent:>3}%", self.what);
    }

    /// Removes the line, so that something else can be printed.
    pub(super) fn clear(&mut self) {
        if self.visible {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.visible = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
