//! `--url`: a daemon instead of a directory. Requests go over HTTP (`rest.rs`), live events come as a stream (`events.rs`), and the
//! records of a run are copied into a directory of their own (`mirror.rs`), where every command reads them as it reads any log.

mod connection;
mod events;
mod mirror;
mod rest;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tiffany::control::{Answer, Control, LongTurn, Request, RunQuery, State, Transport, Watching};
use tiffany::pal::Wanted;
use tiffany_kernel::{TaskError, Uuid};
use tiffany_log::RunEntry;

use super::summary::Summary;

use connection::{Connection, Sent};
pub(super) use mirror::Mirror;
pub(super) use settings::{Remote, RemoteOptions, needs_files};

/// What a request over HTTP needs: a connection to the daemon, opened when it is first used.
pub(super) struct Http {
    remote: Arc<Remote>,
    connection: Connection,
    pid: Option<u32>,
}

impl Http {
    fn new(remote: &Arc<Remote>) -> Result<Http, TaskError> {
        Ok(Http { remote: Arc::clone(remote), connection: Connection::new(remote)?, pid: None })
    }

    /// Asks for JSON.
    fn json(&mut self, sent: &Sent) -> Result<Value, TaskError> {
        self.connection.json(sent)
    }
}

impl Remote {
    /// A control of the daemon's runs.
    pub(super) fn control(self: &Arc<Remote>) -> Result<Control, TaskError> {
        Ok(Control::over(Box::new(Http::new(self)?)))
    }
}

impl Transport for Http {
    fn ask(&mut self, request: &Request) -> Result<Answer, TaskError> {
        let (sent, read) = rest::of(request)?;
        let told = self.connection.json(&sent)?;
        let answer = read(told).ok_or_else(|| settings::old_daemon(&sent.what()))?;
        if let Answer::Status(status) = &answer {
            self.pid = Some(status.pid);
        }
        Ok(answer)
    }

    fn watch(self: Box<Self>, wanted: Wanted) -> Result<Watching, TaskError> {
        events::open(&self.remote, &wanted)
    }

    fn peer(&self) -> Option<u32> {
        self.pid
    }
}

impl Remote {
    /// A page of runs with what their files say, and where the next one begins.
    pub(super) fn runs(
        self: &Arc<Remote>,
        query: &RunQuery,
    ) -> Result<(Vec<Summary>, Option<String>), TaskError> {
        let sent = Sent::get(format!("{}&log=true", rest::list(query)));
        let told = Http::new(self)?.json(&sent)?;
        let lacks = || settings::old_daemon(&format!("{} with `log`", sent.what()));
        let runs = told["runs"].as_array().ok_or_else(lacks)?.iter();
        let runs = runs.map(summary).collect::<Option<Vec<Summary>>>().ok_or_else(lacks)?;
        Ok((runs, told["next"].as_str().map(str::to_owned)))
    }

    /// Tasks that have waited for long, and the turn that keeps all others from running.
    pub(super) fn stuck(
        self: &Arc<Remote>,
        after: Option<Duration>,
        limit: usize,
    ) -> Result<RemoteStuck, TaskError> {
        let after = after.map_or_else(String::new, |after| format!("&after={}", after.as_secs()));
        let sent = Sent::get(format!("/api/v1/stuck?limit={limit}{after}"));
        let told = Http::new(self)?.connection.bytes(&sent)?;
        serde_json::from_slice(&told).map_err(|_| settings::old_daemon(&sent.what()))
    }
}

/// Tasks that have waited for long, as a daemon lists them.
#[derive(Deserialize)]
pub(super) struct RemoteStuck {
    pub(super) stuck: Vec<Box<RawValue>>,
    pub(super) total: usize,
    pub(super) looked_at: usize,
    pub(super) left_out: usize,
    pub(super) turns: Vec<LongTurn>,
}

/// A run in one line, of the list of a daemon.
fn summary(told: &Value) -> Option<Summary> {
    let text = |name: &str| told[name].as_str().map(str::to_owned);
    let run = Uuid::parse(told["uuid"].as_str()?)?;
    let log = &told["log"];
    let number = |name: &str| log[name].as_u64().unwrap_or(0);
    let entry = RunEntry {
        generation: u32::try_from(number("generation")).ok()?,
        len: number("bytes"),
        seq: number("records"),
        ..RunEntry::unborn(run)
    };
    let fork = match &told["parent"] {
        Value::Null => None,
        parent => Some((Uuid::parse(parent["run"].as_str()?)?, parent["at"].as_u64()?)),
    };
    let compacted = &log["compacted"];
    Some(Summary {
        run,
        entry,
        state: State::parse(told["state"].as_str()?)?,
        id: text("id")?,
        function: text("function")?,
        fork,
        started: text("started")?,
        changed: log["changed"].as_str().unwrap_or_default().to_owned(),
        calls_before: number("calls_before"),
        compacted: compacted["records"].as_u64().zip(compacted["bytes"].as_u64()),
    })
}
