//! Running the code of a run again: `step` and `replay`. It is done in a process of its own, so that code that loops, crashes or fills the memory
//! harms nobody else; there are few of them at once, and each has so much time.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;

use crate::app::App;
use crate::error::DaemonError;
use crate::http::{Answered, Named, Problem, Query};

/// Where a run is to be looked at.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct At {
    at: Option<u64>,
}

pub(super) async fn step(
    State(app): State<App>,
    Named(name): Named<String>,
    Query(At { at }): Query<At>,
) -> Answered {
    let run = app.find(&name).await?;
    let mut arguments = vec!["step".to_owned(), run.to_string()];
    if let Some(at) = at {
        arguments.extend(["--at".into(), at.to_string()]);
    }
    rerun(app, arguments).await
}

pub(super) async fn replay(State(app): State<App>, Named(name): Named<String>) -> Answered {
    let run = app.find(&name).await?;
    rerun(app, vec!["replay".into(), run.to_string()]).await
}

/// What a process may say.
const LONGEST: u64 = 64 << 20;
const PACE: Duration = Duration::from_millis(10);

async fn rerun(app: App, arguments: Vec<String>) -> Answered {
    let place = app.children.try_acquire();
    let _place = place.map_err(|_| DaemonError::Busy(app.limits.children))?;
    let mut command = app.again.command();
    command.args(&arguments).arg("--json");
    let limit = app.limits.child_time;
    let ran = tokio::task::spawn_blocking(move || run(command, limit)).await;
    let said = ran.map_err(|error| Problem::from(DaemonError::Child(error.to_string())))??;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], said).into_response())
}

/// Ends a process that is not waited for any more.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What the process says, if it comes to its end in time.
fn run(mut command: Command, limit: Duration) -> Result<String, Problem> {
    let failed = |error: std::io::Error| DaemonError::Child(error.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Reaped(command.spawn().map_err(failed)?);
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            // What is no text is no answer either.
            drop(pipe.map(|pipe| pipe.take(LONGEST).read_to_string(&mut text)));
            text
        })
    };
    let out = read(child.0.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = read(child.0.stderr.take().map(|pipe| Box::new(pipe) as _));
    let begun = Instant::now();
    let status = loop {
        match child.0.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if begun.elapsed() > limit => return Err(DaemonError::ChildSlow(limit).into()),
            None => std::thread::sleep(PACE),
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    // What a replay found is told as JSON whether it is good or not.
    if serde_json::from_str::<Value>(&out).is_ok() {
        return Ok(out);
    }
    match err.lines().find_map(error_of) {
        Some(problem) => Err(problem),
        None => Err(DaemonError::Child(format!("it ended with {status}")).into()),
    }
}

/// An error as the command line tells it.
fn error_of(line: &str) -> Option<Problem> {
    let said: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| said["error"][name].as_str();
    let (code, message, next) = (text("code")?, text("message")?, text("next")?);
    Some(Problem::new(code, 422, &format!("{message} [{code}]; {next}")))
}
