//! The outputs in the book's chapters "Command line" and "Retention and backup" are those of the
//! real binaries on a directory that is kept in the repository. In an expected output, `…` matches
//! anything.
//!
//! `CLI_BLESS=book cargo nextest run -p tiffany-cli book` rewrites the outputs. `CLI_BLESS=golden`
//! creates a new directory; wait two minutes (a run in it sleeps that long), replace the UUIDs in
//! the commands of the book, and then rewrite the outputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::{Home, clean_env, copy, finish, golden, orders, tiffany};

fn chapter(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src").join(name)
}

/// Creates the directory, with runs that wait, have finished, failed or were killed, and with odd
/// text.
fn make_golden() {
    let home = Home::new();
    home.start("nap", "nap-1", "0.05", "").ok();
    assert_eq!(home.start("burn", "toast", "\"toast\"", "").code, 1);
    home.start("echo", "evil \u{1b}[31m", "\"\\u001b[2J\u{9b}1m\"", "").ok();
    home.start("echo", "large", &format!("\"{}\"", "tea ".repeat(5_000)), "").ok();
    home.start("order", "order-17", "\"tea\"", "0.3").ok();
    home.start("nap", "nap-2", "100", "0.2").ok();
    let holder = home.hold("pay", "pay-1", "60000", "");
    home.wait_for("pay-1", "EffectStart");
    holder.kill();
    // The state of an unsynced file after a loss of power.
    let file = home.run_file("pay-1");
    let text = fs::read_to_string(&file).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    fs::write(&file, &text[..last + 20]).unwrap();
    for name in ["control.sock", "lock"] {
        let _ = fs::remove_file(home.log().join(name));
    }
    let _ = fs::remove_dir_all(golden());
    copy(&home.log(), &golden());
}

/// Splits a command line into words; single quotation marks group words.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// Returns what a command prints: its output, then its errors, then its exit code if that is not 0.
fn output(home: &Home, line: &str) -> Vec<String> {
    let mut words = words(line).into_iter();
    let mut version = None;
    let program = words.by_ref().find(|word| match word.strip_prefix("ORDERS_VERSION=") {
        Some(number) => {
            version = Some(number.to_owned());
            false
        }
        None => true,
    });
    let mut command = Command::new(match program.as_deref() {
        Some("tiffany") => tiffany(),
        Some("orders") => orders(),
        // The book removes a directory for a drill.
        Some("rm") => "rm".into(),
        other => panic!("{other:?} is no program of the book"),
    });
    clean_env(&mut command);
    command.current_dir(&home.0).env("TIFFANY_DIR", "orders").args(words);
    if let Some(version) = version {
        command.env("ORDERS_VERSION", version);
    }
    let ran = finish(command);
    let mut lines: Vec<String> =
        ran.stdout.lines().chain(ran.stderr.lines()).map(String::from).collect();
    if ran.code != 0 {
        lines.push(format!("(exit code {})", ran.code));
    }
    lines
}

/// Returns whether a line matches the expected one.
fn fits(expected: &str, line: &str) -> bool {
    let mut rest = line;
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or("");
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let parts: Vec<&str> = parts.collect();
    if parts.is_empty() {
        return rest.is_empty();
    }
    for (at, part) in parts.iter().enumerate() {
        if at + 1 == parts.len() {
            return rest.ends_with(part);
        }
        let Some(found) = rest.find(part) else { return false };
        rest = &rest[found + part.len()..];
    }
    true
}

#[test]
fn the_outputs_in_the_book_are_real() {
    let bless = std::env::var("CLI_BLESS").unwrap_or_default();
    if bless == "golden" {
        return make_golden();
    }
    check_chapter("cli.md", 25, !bless.is_empty());
    check_chapter("retention.md", 8, !bless.is_empty());
}

fn check_chapter(name: &str, least: usize, bless: bool) {
    let text = fs::read_to_string(chapter(name)).unwrap();
    let mut fresh = String::new();
    let (mut commands, mut wrong) = (0, Vec::new());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("```console\n") {
        let (block, after) = after.split_once("```").expect("an end of the block");
        fresh.push_str(before);
        fresh.push_str("```console\n");
        let home = Home::golden();
        fs::write(home.0.join("price.json"), "1000\n").unwrap();
        for part in format!("\n{block}").split("\n$ ").skip(1) {
            let (line, expected) = part.split_once('\n').unwrap_or((part, ""));
            let expected: Vec<&str> = expected.trim_end_matches('\n').lines().collect();
            let printed = output(&home, line);
            commands += 1;
            let same = expected.len() == printed.len()
                && expected.iter().zip(&printed).all(|(expected, line)| fits(expected, line));
            if !same {
                wrong.push(format!(
                    "$ {line}\n{}\n-- in the book:\n{}",
                    printed.join("\n"),
                    expected.join("\n")
                ));
            }
            // Lines that match are kept, with their `…`.
            let kept: Vec<String> = match same {
                true => expected.iter().map(ToString::to_string).collect(),
                false => printed,
            };
            fresh.push_str(&format!("$ {line}\n"));
            kept.iter().for_each(|line| fresh.push_str(&format!("{line}\n")));
        }
        fresh.push_str("```");
        rest = after;
    }
    fresh.push_str(rest);
    if bless {
        return fs::write(chapter(name), fresh).unwrap();
    }
    assert!(commands >= least, "only {commands} commands in {name}");
    assert!(
        wrong.is_empty(),
        "the book is stale (CLI_BLESS=book writes it anew):\n{}",
        wrong.join("\n\n")
    );
}

#[test]
fn every_command_has_its_section() {
    let text = fs::read_to_string(chapter("cli.md")).unwrap();
    let help = Home::new().run(&["--help"]).ok().stdout;
    let commands = help.split_once("Runs:\n").unwrap().1.split("Global options:").next().unwrap();
    let lines = commands.lines().filter(|line| line.starts_with("  "));
    let mut count = 0;
    for command in lines.filter_map(|line| line.split_whitespace().next()) {
        count += 1;
        assert!(text.contains(&format!("\n### `{command}")), "{command} has no section");
    }
    assert!(count >= 26, "{help}");
}

#[test]
fn what_stands_for_anything_stands_for_nothing_else() {
    for (expected, line, fit) in [
        ("a b", "a b", true),
        ("a b", "a b c", false),
        ("a … c", "a b c", true),
        ("a … c", "a b d", false),
        ("…c…e", "abcde", true),
        ("…c…e", "abdce", true),
        ("…c…e", "abcdf", false),
    ] {
        assert_eq!(fits(expected, line), fit, "{expected} against {line}");
    }
}
