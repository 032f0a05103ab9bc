//! `watch` without a run in a real terminal: tmux, with 80 columns and 24 lines, with a process
//! that has runs, and on a log without an owner.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::kit::{Home, orders, served::Served, tiffany};

/// How long a change may take to appear on the screen.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(20);

/// A terminal with its own tmux server, which ends with it.
struct Terminal(String);

impl Terminal {
    /// Opens a terminal in which this command runs.
    fn open(home: &Home, command: &Command) -> Terminal {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let terminal = Terminal(format!("tiffany-top-{}-{number}", std::process::id()));
        let mut words = vec![command.get_program().to_string_lossy().into_owned()];
        words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        // The sleep keeps the final screen visible.
        let line = format!("{}; echo \"left with $?\"; sleep 60", quoted.join(" "));
        let mut tmux = terminal.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &line]);
        let started = tmux.current_dir(&home.0).env("TERM", "xterm-256color").status();
        assert!(started.expect("tmux is installed by `cargo xtask servers`").success());
        terminal
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.0]);
        command
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux().args(["send-keys", "-t", "0"]).args(keys).status().unwrap().success());
    }

    fn screen(&self) -> String {
        let seen = self.tmux().args(["capture-pane", "-p", "-t", "0"]).output().unwrap();
        String::from_utf8(seen.stdout).unwrap()
    }

    /// Waits until all of these are on the screen.
    fn sees(&self, parts: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if parts.iter().all(|part| screen.contains(part)) {
                return screen;
            }
            assert!(begun.elapsed() < SCREEN_TIMEOUT, "{parts:?} in\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

#[test]
fn runs_tasks_and_records_are_seen_and_a_run_is_cancelled() {
    let home = Home::new();
    let house = Served::start(&home, &orders(), &["--listen", "127.0.0.1:0"]);
    for (function, id, input) in
        [("nap", "nap-1", "3600"), ("burn", "toast", "\"toast\""), ("family", "home", "null")]
    {
        home.run(&["submit", function, "--id", id, "--input", input]).ok();
    }
    let terminal = Terminal::open(&home, &home.command(&orders(), &["watch", "--every", "200ms"]));
    let screen = terminal.sees(&["nap-1", "home", "✗ failed", "toast is on fire", "records"]);
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.lines().last().unwrap().contains("cancel"), "the keys are in sight:\n{screen}");

    terminal.press(&["/"]);
    // The keys `home` as four letters, not the Home key.
    terminal.press(&["-l", "home"]);
    terminal.press(&["Enter"]);
    terminal.sees(&["1 of 1: all runs, with `home`"]);
    terminal.press(&["Enter"]);
    terminal.sees(&["sleeper", "… waiting", "lost"]);
    // The fourth task sleeps; its stack comes from a replay in this program, which has the code.
    terminal.press(&["Down", "Down", "Down", "Enter"]);
    terminal.sees(&["task ", "RECORD", "TaskYield"]);
    terminal.press(&["t"]);
    terminal.sees(&["stack, as a replay has it", "orders.rs:"]);
    terminal.press(&["Escape"]);
    terminal.sees(&["Enter records"]);
    terminal.press(&["Escape"]);
    terminal.sees(&["with `home`"]);
    terminal.press(&["Escape"]);
    terminal.sees(&["nap-1"]);

    terminal.press(&["s", "s"]);
    terminal.sees(&["by id"]);
    terminal.press(&["/"]);
    terminal.press(&["-l", "home"]);
    terminal.press(&["Enter"]);
    terminal.sees(&["1 of 1: all runs, with `home`"]);
    terminal.press(&["c"]);
    terminal.sees(&["cancel `home`? y"]);
    terminal.press(&["y"]);
    terminal.sees(&["– cancelled"]);
    terminal.press(&["q"]);
    terminal.sees(&["left with 0"]);
    drop(house);
}

#[test]
fn a_log_that_nobody_has_is_seen_too_and_a_pipe_is_refused() {
    let home = Home::golden();
    let terminal = Terminal::open(&home, &home.command(&tiffany(), &["watch"]));
    terminal.sees(&["no process owns the directory", "order-17", "evil \\u{1b}[31m"]);
    terminal.press(&["?"]);
    terminal.sees(&["Any key closes this."]);
    terminal.press(&["x", "q"]);
    terminal.sees(&["left with 0"]);
    home.run(&["watch"]).failed(2, "TFY0067");
}
