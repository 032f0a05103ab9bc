//! Starts this program again, as a process that is killed or observed from outside. The process
//! reports its progress in lines on standard output.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use super::{CHILD, work};
use crate::counting_alloc;

/// A child process that is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> Result<Process, String> {
        let mut child = command(arguments)?.stdout(Stdio::piped()).spawn().map_err(not_started)?;
        let stdout = child.stdout.take().expect("it was piped");
        Ok(Process { child, lines: BufReader::new(stdout).lines() })
    }

    /// Reads the next line of its output.
    pub(crate) fn line(&mut self) -> Result<String, String> {
        match self.lines.next() {
            Some(Ok(line)) => Ok(line),
            Some(Err(error)) => Err(format!("cannot read what the process says: {error}")),
            None => Err("the process ended too early".into()),
        }
    }

    /// Returns its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn command(arguments: &[&str]) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(not_started)?;
    let mut command = Command::new(this);
    command.arg(CHILD).args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn not_started(error: std::io::Error) -> String {
    format!("cannot start a process: {error}")
}

/// Runs a process until it ends by itself, and returns all of its output.
pub(crate) fn output(arguments: &[&str]) -> Result<Vec<u8>, String> {
    let output = command(arguments)?.stderr(Stdio::inherit()).output().map_err(not_started)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("the process {arguments:?} ended with {}", output.status)),
    }
}

/// Runs the command of the child process.
pub(crate) fn serve(arguments: &[&str]) -> ExitCode {
    let done = match arguments {
        ["nothing"] => {
            println!();
            Ok(())
        }
        ["steps", log] => run(log, "shown_steps", "100000000"),
        ["mixed", log, count] => run(log, "mixed", count),
        ["long run", log, function, calls] => crate::history::serve_long_run(log, function, calls),
        ["backup", log, to] => crate::history::serve_backup(log, to),
        ["many", log, finished, live] => many(log, number(finished), number(live)),
        ["daemon", log] => crate::live::serve_daemon(log),
        ["watchers", address, run, count] => {
            crate::live::serve_watchers(address, run, number(count))
        }
        ["ps", log] => crate::live::serve_ps(log),
        ["sleepers", log, runs] => sleepers(log, number(runs)),
        other => Err(format!("there is no process {other:?}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tiffany-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("the parent gives numbers")
}

/// Starts a run, or resumes it, and waits for it.
fn run(log: &str, function: &str, input: &str) -> Result<(), String> {
    work::one(&mut work::open(Path::new(log))?, function, "run", number(input))
}

/// Starts runs that finish and runs that sleep. The first line of output says that all of it is
/// safe, the second that every run has its file.
fn many(log: &str, finished: u64, live: u64) -> Result<(), String> {
    let mut runtime = work::open(Path::new(log))?;
    let ids = (0..finished).map(|run| format!("done {run}"));
    let done = work::submit(&mut runtime, "done", ids, 1)?;
    work::wait_for_all(&mut runtime, &done)?;
    sleep(&mut runtime, "", live)?;
    println!();
    wait_for_files(log, finished + live);
    println!();
    work::wait_for_the_end()
}

/// Waits until this number of runs have files, and the log's threads have nothing left to do.
fn wait_for_files(log: &str, runs: u64) {
    let files = || std::fs::read_dir(Path::new(log).join("wal")).map_or(0, Iterator::count) as u64;
    while files() < runs {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
}

/// Starts runs that sleep, and waits until all of them do and the log contains this.
fn sleep(runtime: &mut tiffany::Runtime, name: &str, runs: u64) -> Result<(), String> {
    let ids = (0..runs).map(|run| format!("sleeper {name} {run}"));
    drop(work::submit(runtime, "sleeper", ids, 1)?);
    // This run gets its turn after all of them, and its step begins when their lines are safe.
    work::one(runtime, "steps", &format!("after {name}"), 1)
}

/// Prints the resident bytes before and after runs went to sleep, and the bytes that were allocated
/// for them.
fn sleepers(log: &str, runs: u64) -> Result<(), String> {
    let mut runtime = work::open(Path::new(log))?;
    sleep(&mut runtime, "before", 100)?;
    wait_for_files(log, 100);
    let before = memory("self", "VmRSS")?;
    counting_alloc::start();
    sleep(&mut runtime, "", runs)?;
    // Before that, lines of runs without a file are in memory too.
    wait_for_files(log, 100 + runs);
    let after = memory("self", "VmRSS")?;
    let asked = counting_alloc::live();
    counting_alloc::stop();
    println!("{before} {after} {asked}");
    Ok(())
}

/// Returns a figure about a process's memory in bytes: `VmRSS` is the resident memory, `VmHWM` its
/// maximum so far.
pub(crate) fn memory(process: &str, name: &str) -> Result<u64, String> {
    let path = format!("/proc/{process}/status");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let value = |line: &str| {
        let (known, value) = line.split_once(':')?;
        value.split_whitespace().next().filter(|_| known == name)?.parse::<u64>().ok()
    };
    let kib = text.lines().find_map(value);
    kib.map(|kib| kib * 1024).ok_or_else(|| format!("{path} has no {name}"))
}
