//! The threat: text from a log controls a user's terminal; colours appear where they cannot be
//! seen; lines don't fit. In a terminal, and in a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::{Holder, Home, LIMIT, orders, tiffany};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a terminal: the user's end, and the program's end.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let seat = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&seat).unwrap();
    unlockpt(&seat).unwrap();
    let name = ptsname(&seat, Vec::new()).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&seat, size).unwrap();
    let file = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(seat), file.into())
}

/// Returns what a command displays in a terminal of this width.
fn shown(mut command: Command, columns: u16) -> String {
    let (mut seat, program) = terminal(columns);
    command.stdout(program.try_clone().unwrap()).stderr(program);
    let child = command.spawn().unwrap();
    // Only the child may keep the program's end open, or the terminal never closes.
    drop(command);
    let mut holder = Holder(child);
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        // A closed terminal is reported as an error.
        while let Ok(count @ 1..) = seat.read(&mut piece) {
            bytes.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let begun = Instant::now();
    while holder.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "it does not come to its end");
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.join().unwrap()
}

/// Removes the colours from a text.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        assert!(
            matches!(after.as_bytes()[end], b'm' | b'K'),
            "a sequence of another kind: {after:?}"
        );
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

#[test]
fn a_terminal_gets_colours_and_lines_that_fit() {
    let home = Home::golden();
    for columns in [60, 100, 132] {
        for arguments in [
            &["ls"][..],
            &["show", "toast"],
            &["log", "order-17"],
            &["resume", "--dry-run"],
            &["doctor", "--verify"],
            &["doctor"],
        ] {
            let text = shown(home.command(&tiffany(), arguments), columns);
            assert!(text.contains("\x1b["), "{arguments:?} has no colours: {text:?}");
            for line in plain(&text).lines() {
                let width = line.trim_end_matches('\r').chars().count();
                assert!(
                    width <= usize::from(columns),
                    "{arguments:?} in {columns}: {width} {line}"
                );
            }
        }
    }
    // In a narrow terminal, times are short and not cut.
    let listed = plain(&shown(home.command(&tiffany(), &["ls"]), 80));
    assert!(listed.contains("live, no process") && listed.contains("11-16 04:14"), "{listed}");
    let narrow = plain(&shown(home.command(&tiffany(), &["log", "toast"]), 80));
    assert!(narrow.contains('…'), "{narrow}");
    let wide = plain(&shown(home.command(&tiffany(), &["log", "toast", "--wide"]), 80));
    assert!(!wide.contains('…') && wide.contains("[TFY0001]"), "{wide}");
    let short = plain(&shown(home.command(&tiffany(), &["ls"]), 100));
    assert!(short.contains("\n9f87c291  nap-1"), "{short}");
}

#[test]
fn what_went_wrong_is_read_to_its_end_in_a_narrow_terminal() {
    let home = Home::golden();
    for (program, arguments) in [
        (tiffany(), &["show", "toast"][..]),
        (orders(), &["show", "toast"]),
        (orders(), &["replay", "--step", "toast", "--at", "5"]),
    ] {
        let text = plain(&shown(home.command(&program, arguments), 50));
        assert!(!text.contains('…'), "{arguments:?}: {text}");
        for line in text.lines() {
            let width = line.trim_end_matches('\r').chars().count();
            assert!(width <= 50, "{arguments:?}: {width} {line}");
        }
        // Each error appears once in the head and once with the task.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("toast is on fire, in `light` at").count(), 2, "{text}");
        assert_eq!(words.matches("[TFY0001]").count(), 2, "{text}");
    }
}

#[test]
fn the_first_prompt_says_how_to_get_help_and_help_is_read_to_its_end() {
    let home = Home::golden();
    let mut command = home.command(&orders(), &["replay", "--step", "toast"]);
    let (mut seat, program) = terminal(60);
    command.stdin(program.try_clone().unwrap());
    command.stdout(program.try_clone().unwrap()).stderr(program);
    let mut holder = Holder(command.spawn().unwrap());
    drop(command);
    seat.write_all(b"h\nb\nq\n").unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = seat.read(&mut piece) {
        bytes.extend_from_slice(&piece[..count]);
    }
    assert!(holder.0.wait().unwrap().success());
    let text = plain(&String::from_utf8_lossy(&bytes));
    assert_eq!(text.matches("step (h for help)> ").count(), 1, "{text}");
    assert_eq!(text.matches("step> ").count(), 2, "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("n next, b back") && words.contains("q: the end; Enter does"), "{text}");
}

#[test]
fn colours_are_left_out_where_they_are_not_wanted() {
    let home = Home::golden();
    let mut without = home.command(&tiffany(), &["ls"]);
    without.env("NO_COLOR", "1");
    assert!(!shown(without, 100).contains('\x1b'));
    let mut dumb = home.command(&tiffany(), &["ls"]);
    dumb.env("TERM", "dumb");
    assert!(!shown(dumb, 100).contains('\x1b'));
    assert!(!shown(home.command(&tiffany(), &["ls", "--color", "never"]), 100).contains('\x1b'));
    assert!(!shown(home.command(&tiffany(), &["ls", "--json"]), 100).contains('\x1b'));
    assert!(!home.run(&["ls"]).ok().stdout.contains('\x1b'), "a pipe");
    assert!(home.run(&["ls", "--color", "always"]).ok().stdout.contains('\x1b'));
    assert!(!home.run(&["show", "nobody"]).stderr.contains('\x1b'));
    assert!(
        shown(home.command(&tiffany(), &["show", "nobody"]), 80)
            .contains("\x1b[1;31merror[TFY0041]\x1b[0m")
    );
}

#[test]
fn nothing_from_a_log_is_obeyed() {
    let home = Home::golden();
    let id = "evil \u{1b}[31m";
    let harmless = |text: &str| {
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(bad), "{text:?}");
    };
    for arguments in [
        &["ls"][..],
        &["ls", "--json"],
        &["show", id],
        &["show", id, "--json"],
        &["log", id],
        &["log", id, "--json"],
        &["show", "\u{1b}[2J"],
        &["show", "\u{1b}[2J", "--json"],
        &["\u{1b}[2J"],
        &["send", "order-17", "x", "\u{9b}2J"],
    ] {
        let ran = home.run(arguments);
        assert!(!ran.stdout.is_empty() || !ran.stderr.is_empty());
        harmless(&ran.stdout);
        harmless(&ran.stderr);
        let text = plain(&shown(home.command(&tiffany(), arguments), 200));
        harmless(&text.replace('\r', ""));
    }
    // The escaped text is still shown.
    assert!(home.run(&["ls"]).stdout.contains("evil \\u{1b}[31m"));
    let shown = home.run(&["show", id, "--json"]).ok().lines().remove(0);
    assert_eq!(shown["id"], id);
    assert_eq!(shown["outcome"]["value"], "\u{1b}[2J\u{9b}1m");
}

#[test]
fn long_work_shows_how_far_it_is_in_a_terminal_only() {
    let home = Home::new();
    home.start("nap", "n", "2", "0.1").ok();
    let text = shown(home.command(&orders(), &["resume", "--all"]), 100);
    assert!(text.contains("\r\x1b[Krunning ░"), "{text:?}");
    assert!(plain(&text).contains("completed"), "{text:?}");
    home.start("nap", "m", "2", "0.1").ok();
    let quiet = home.orders(&["resume", "--all"]).ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let home = Home::new();
    home.start("busy", "b", "3000", "").ok();
    let mut command = home.command(&tiffany(), &["log", "b", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut piece = [0; 100];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut piece).unwrap();
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let home = Home::golden();
    let mut command = home.command(&tiffany(), &["ls"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(told.starts_with("error[TFY0068]: cannot write the output"), "{told}");
}

/// A user at a terminal, who types when something is displayed.
struct Seat {
    file: File,
    seen: std::sync::Arc<std::sync::Mutex<String>>,
    reader: std::thread::JoinHandle<()>,
}

impl Seat {
    /// Starts a command in a terminal.
    fn start(mut command: Command, columns: u16) -> (Holder, Seat) {
        let (file, program) = terminal(columns);
        command.stdin(program.try_clone().unwrap());
        command.stdout(program.try_clone().unwrap()).stderr(program);
        let holder = Holder(command.spawn().unwrap());
        drop(command);
        let (mut from, seen) = (file.try_clone().unwrap(), std::sync::Arc::default());
        let fills: std::sync::Arc<std::sync::Mutex<String>> = std::sync::Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                bytes.extend_from_slice(&piece[..count]);
                *fills.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
            }
        });
        (holder, Seat { file, seen, reader })
    }

    /// Waits until this was displayed.
    fn until(&self, what: &str) {
        let begun = Instant::now();
        while !self.seen.lock().unwrap().contains(what) {
            let seen = self.seen.lock().unwrap().clone();
            assert!(begun.elapsed() < LIMIT, "no `{what}` in {seen:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn type_line(&mut self, line: &str) {
        self.file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Returns everything that was displayed, and the exit code.
    fn end(self, mut holder: Holder) -> (String, i32) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = holder.0.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "it does not end: {:?}", self.seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        };
        self.reader.join().unwrap();
        let seen = self.seen.lock().unwrap().clone();
        (seen, status.code().unwrap_or(-1))
    }
}

#[test]
fn who_watches_in_a_terminal_sees_a_tree_that_moves_in_its_place_and_is_asked() {
    let home = Home::new();
    let holder = home.hold("read", "book", "3", "");
    home.until("it does not read", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"book\"")
    });
    let (watching, seat) = Seat::start(home.command(&tiffany(), &["watch", "book"]), 80);
    seat.until("└─ ");
    seat.until("`reader`  ██████░░░░░░░░░░░░░░ 1/3 pages; receive_message `turn`");
    home.run(&["send", "book", "turn", "1"]).ok();
    seat.until("█████████████░░░░░░░ 2/3 pages");
    // The process is killed, and another one continues with the run.
    holder.kill();
    let _holder = home.hold("read", "book", "3", "");
    home.until("nobody reads", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"book\"")
    });
    home.run(&["send", "book", "turn", "2"]).ok();
    seat.until("████████████████████ 3/3 pages");
    home.run(&["send", "book", "turn", "3"]).ok();
    let (seen, code) = seat.end(watching);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\x1b[3A\x1b[J"), "drawn in its place: {seen:?}");
    let last = seen.rsplit("\x1b[J").next().unwrap();
    assert!(plain(last).contains("└─ ✓ 2 `reader`") && last.trim_end().ends_with('3'), "{last:?}");
    let widest = seen
        .split("\x1b[J")
        .flat_map(str::lines)
        .map(|line| plain(line.split("\x1b[3A").next().unwrap()).trim_end().chars().count());
    assert!(widest.max().unwrap() <= 80, "{seen}");
}

#[test]
fn who_sits_at_the_terminal_is_asked_and_may_say_why() {
    let home = Home::new();
    let _holder = home.hold("refund", "r-1", "40", "");
    home.until("it asks nothing", || home.run(&["approve", "--json"]).stdout.contains("r-1"));
    let (watching, mut seat) = Seat::start(home.command(&tiffany(), &["watch", "r-1"]), 100);
    seat.until("all / half / none (Enter leaves it open)? ");
    seat.type_line("perhaps");
    seat.until("`perhaps` is none of its choices");
    seat.until("`perhaps` is none of its choices: `all`, `half`, `none`");
    seat.type_line("h because it was half full");
    seat.until("decided: `half`, because it was half full");
    let (seen, code) = seat.end(watching);
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("\"20 EUR\""), "{seen}");
    let shown = home.run(&["show", "r-1", "--json"]).ok().lines().remove(0);
    let answer = &shown["decisions"][0]["answer"];
    assert_eq!((&answer["choice"], &answer["why"]), (&"half".into(), &"it was half full".into()));

    // Another answer may come first, and a command may leave questions to others.
    let _holder = home.hold("nap", "holder", "600", "");
    home.until("nobody has it", || {
        home.run(&["ls", "--active", "--json"]).stdout.contains("\"holder\"")
    });
    let command =
        home.command(&tiffany(), &["submit", "refund", "--id", "r-2", "--input", "40", "--follow"]);
    let (following, mut seat) = Seat::start(command, 100);
    seat.until("(Enter leaves it open)? ");
    seat.type_line("");
    seat.until("it stays open");
    home.run(&["approve", "r-2", "--choice", "all"]).ok();
    let (seen, code) = seat.end(following);
    assert!(code == 0 && seen.contains("\"40 EUR\""), "{seen}");
    let (waiting, seat) = Seat::start(
        home.command(&tiffany(), &["submit", "refund", "--id", "r-3", "--input", "40", "--wait"]),
        100,
    );
    seat.until("(Enter leaves it open)? ");
    home.run(&["approve", "--reject", "r-3"]).ok();
    let (seen, code) = seat.end(waiting);
    assert!(
        code == 0 && seen.contains("\"0 EUR\"") && seen.contains("not open any more"),
        "{seen}"
    );
}
