//! Runs the code of a run again, for `replay` and `replay --step`, in a separate process, so that
//! code that loops, crashes or exhausts memory affects nothing else. The number and the running
//! time of such processes are limited. Their output is redacted once more.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::IntoResponse;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde_json::Value;
use tiffany::redact::Redactions;

use crate::app::{App, Phase};
use crate::auth::AuthError;
use crate::error::{Crowd, DaemonError};
use crate::http::{Answered, Problem};
use crate::http::{Named, Query};

/// The record at which to inspect a run.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct At {
    at: Option<u64>,
}

pub(super) async fn step(
    State(app): State<App>,
    Named(name): Named<String>,
    Query(At { at }): Query<At>,
    headers: HeaderMap,
) -> Answered {
    of_own_page(&headers)?;
    let run = app.find(&name).await?;
    let mut arguments = vec!["replay".to_owned(), run.to_string(), "--step".into()];
    if let Some(at) = at {
        arguments.extend(["--at".into(), at.to_string()]);
    }
    rerun(app, arguments).await
}

pub(super) async fn replay(State(app): State<App>, Named(name): Named<String>) -> Answered {
    let run = app.find(&name).await?;
    rerun(app, vec!["replay".into(), run.to_string()]).await
}

/// Refuses requests that another site's page caused. Links and redirects carry no `Origin`, and
/// these routes run code.
fn of_own_page(headers: &HeaderMap) -> Result<(), Problem> {
    let site = headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or("?"));
    match site {
        None | Some("same-origin" | "none") => Ok(()),
        Some(site) => {
            let given = site.chars().take(100).collect();
            Err(AuthError::Stranger { what: "the site of the page", given }.into())
        }
    }
}

/// The most bytes that a process may print.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
const PACE: Duration = Duration::from_millis(10);

async fn rerun(app: App, arguments: Vec<String>) -> Answered {
    let crowded = |_| DaemonError::Busy(Crowd::Children, app.limits.children);
    let place = Arc::clone(&app.children).try_acquire_owned().map_err(crowded)?;
    let mut command = app.relaunch.command();
    command.args(&arguments).arg("--json");
    // Dropped with this future when the client stops waiting.
    let waits = Arc::new(());
    let is_awaited = Arc::downgrade(&waits);
    let asked = app.clone();
    let run = move || {
        // The place is taken until the process ends, even if the client has left.
        let _place = place;
        let goes_on = || is_awaited.strong_count() > 0 && asked.phase() != Phase::Closing;
        run(command, asked.limits.child_time, goes_on)
    };
    let ran = tokio::task::spawn_blocking(run).await;
    drop(waits);
    let said = ran.map_err(|error| Problem::from(DaemonError::Child(error.to_string())))??;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], said.told(&app.rules)?).into_response())
}

/// A process with its descendants. Dropping it kills them.
struct Group(Child);

impl Group {
    /// Returns whether the process has ended, without reaping it: until then its process id cannot
    /// be reused.
    fn has_ended(&self) -> std::io::Result<bool> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.0)), how)?.is_some())
    }

    /// Kills what is left of the group, and reaps the process.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        kill_process_group(Pid::from_child(&self.0), Signal::KILL).ok();
        self.0.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// The output of a pipe. Reading doesn't wait for the end of the pipe, since descendants may hold
/// it open.
struct Heard<P> {
    pipe: P,
    bytes: Vec<u8>,
}

impl<P: Read + AsFd> Heard<P> {
    fn new(pipe: P) -> std::io::Result<Heard<P>> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Heard { pipe, bytes: Vec::new() })
    }

    /// Reads the available output. Returns `true` if there was any.
    fn hear(&mut self) -> std::io::Result<bool> {
        let before = self.bytes.len();
        let room = (MAX_OUTPUT_BYTES + 1).saturating_sub(before) as u64;
        match (&mut self.pipe).take(room).read_to_end(&mut self.bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if self.bytes.len() > MAX_OUTPUT_BYTES => {
                Err(std::io::Error::other(format!("it says more than {MAX_OUTPUT_BYTES} bytes")))
            }
            _ => Ok(self.bytes.len() > before),
        }
    }
}

/// The output of a process.
struct Said {
    status: ExitStatus,
    out: String,
    err: String,
}

/// Runs a process until it ends, its time is up, or the client leaves.
fn run(
    mut command: Command,
    limit: Duration,
    goes_on: impl Fn() -> bool,
) -> Result<Said, DaemonError> {
    let failed = |error: std::io::Error| DaemonError::Child(error.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut group = Group(command.spawn().map_err(failed)?);
    let no_pipe = || DaemonError::Child("it has no pipes".into());
    let mut out = Heard::new(group.0.stdout.take().ok_or_else(no_pipe)?).map_err(failed)?;
    let mut err = Heard::new(group.0.stderr.take().ok_or_else(no_pipe)?).map_err(failed)?;
    let begun = Instant::now();
    loop {
        // The order matters: output from before the end is read after the end is seen.
        let has_ended = group.has_ended().map_err(failed)?;
        let is_news = out.hear().map_err(failed)? | err.hear().map_err(failed)?;
        match () {
            () if has_ended => break,
            () if begun.elapsed() > limit => return Err(DaemonError::ChildSlow(limit)),
            () if !goes_on() => return Err(DaemonError::NotNow("is ending")),
            () if is_news => {}
            () => std::thread::sleep(PACE),
        }
    }
    // Output that is not UTF-8 counts as empty.
    let text = |bytes| String::from_utf8(bytes).unwrap_or_default();
    let status = group.end().map_err(failed)?;
    Ok(Said { status, out: text(out.bytes), err: text(err.bytes) })
}

impl Said {
    /// Returns the output as an answer, redacted.
    fn told(self, rules: &Redactions) -> Result<String, Problem> {
        // A replay reports its findings as JSON whether it succeeds or fails.
        if let Ok(mut said) = serde_json::from_str::<Value>(&self.out) {
            for part in MEMORY {
                if let Some(part) = said.get_mut(part) {
                    clean(part, rules);
                }
            }
            return Ok(said.to_string());
        }
        match self.err.lines().find_map(|line| error_of(line, rules)) {
            Some(problem) => Err(problem),
            None => Err(DaemonError::Child(format!("it ended with {}", self.status)).into()),
        }
    }
}

/// The parts of an answer that come from the memory of the run rather than from its log.
const MEMORY: [&str; 2] = ["tasks", "error"];

fn clean(part: &mut Value, rules: &Redactions) {
    let cleaned = serde_json::from_str(&rules.json(&part.to_string()));
    // Redaction leaves valid JSON; if it ever didn't, the part is left out.
    *part = cleaned.unwrap_or_default();
}

/// Parses an error line of the command line into a problem.
fn error_of(line: &str, rules: &Redactions) -> Option<Problem> {
    let said: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| said["error"][name].as_str();
    let (code, message, next) = (text("code")?, rules.text(text("message")?), text("next")?);
    Some(Problem::new(code, 422, &format!("{message} [{code}]; {next}")))
}
