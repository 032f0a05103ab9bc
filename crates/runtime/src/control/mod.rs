//! Reaching durable runs from outside their runtime's thread: from another thread, from another process, or on a
//! directory that no process has at present.
//!
//! ```
//! use tiffany::control::Control;
//! use tiffany::durable::receive;
//! use tiffany::{Runtime, TaskError};
//!
//! # let dir = std::env::temp_dir().join(format!("tiffany-control-{}", std::process::id()));
//! let mut runtime = Runtime::builder()
//!     .log_dir(&dir)
//!     .register("greet", |()| async { receive::<String>("name").await })
//!     .build()?;
//! let run = runtime.submit::<String>("greet", "greet-1", &())?;
//!
//! // In another thread or another process:
//! let (path, uuid) = (dir.clone(), run.uuid());
//! let other = std::thread::spawn(move || {
//!     let mut control = Control::open(&path)?;
//!     control.send(uuid, "name", &"Ada") // comes back when the log has it
//! });
//! assert_eq!(runtime.wait_for(&run)?, "Ada");
//! other.join().unwrap()?;
//! # drop(runtime);
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod asked_run;
pub(crate) mod audit_hook;
pub(crate) mod audit_thread;
pub(crate) mod catalogue;
pub(crate) mod event_stream;
pub(crate) mod offline;
pub(crate) mod server;
pub(crate) mod socket;
pub(crate) mod transport;
pub(crate) mod turns;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use crate::activity::hub::Hub;
use crate::calls::context;
pub use crate::control::audit_hook::{AuditHook, Change, Finish};
pub use crate::control::event_stream::{Next, Watching};
pub use crate::control::transport::{EventSource, Transport};
use crate::host::inbox::{Inbox, LoopMessage};
use crate::host::tell::Tell;
pub(crate) use offline::Offline;
use socket::Client;
pub use tiffany_records::activity::Beginning;
use tiffany_records::activity::Wanted;
pub use tiffany_records::attributes::{
    AttributeFilter, Comparison, literal, parse_filters, parse_literal, parse_tags, parse_values,
};
use tiffany_records::metrics::Snapshot;
pub use tiffany_records::request::LongTurn;
#[doc(hidden)]
pub use tiffany_records::request::check_name;
pub use tiffany_records::request::{Answer, Decision, Doubt, Function, Paused, Request, Status};
use tiffany_records::request::{Approval, Fork, Settlement, StartOptions};
pub use tiffany_records::request::{
    ErrorSummary, Parent, RunDetail, RunPage, RunQuery, RunSummary, SortBy, State, TaskSummary,
    parse_moment,
};
pub use tiffany_records::request::{OpenApproval, Ruling, user_name};
use tiffany_records::value::{deserialize, raw};

/// How long to wait for an answer of the loop.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client waits for an answer. The other process waits for its loop, and then reports
/// why there is no answer, which it can't do if it is stopped.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(33);

/// Sends requests to the runtime that owns a log, or writes to the log itself if no process owns
/// it.
///
/// Every method returns when its change is durable in the log.
pub struct Control {
    way: Way,
    on_warning: fn(&str),
    values: Values,
}

/// The form of the values in requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Plain JSON.
    Plain,
    /// Texts that the codec of a language wrote.
    Encoded,
}

enum Way {
    /// A runtime of this process, with its events if they may be watched.
    Here(Arc<Inbox>, Option<Hub>),
    Socket(Client),
    /// Another way to the process that owns the directory.
    Other(Box<dyn Transport>),
    /// No other process owns the directory, so this one does.
    Offline(Box<Offline>),
}

impl Control {
    /// Opens the log in a directory: through the process that owns it or, if there is none, by
    /// locking the directory until this is dropped. Changes are then written to the logs of the
    /// runs, which receive them when they are resumed.
    pub fn open(dir: &Path) -> Result<Control, TaskError> {
        not_on_the_loop()?;
        let begun = Instant::now();
        loop {
            if let Some(client) = Client::connect(dir, CLIENT_TIMEOUT)? {
                return Ok(Control::by(Way::Socket(client)));
            }
            match Offline::open(dir) {
                Ok(offline) => return Ok(Control::by(Way::Offline(Box::new(offline)))),
                // A process that has just taken it is about to listen; one that ends does not any more.
                Err(offline::Refused::InUse(_)) if begun.elapsed() < Duration::from_secs(1) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    /// Calls an audit hook for the changes that this makes to a log that no process owns, as an
    /// owning process does: see
    /// [`Builder::audit_hook`](crate::runtime::builder::Builder::audit_hook).
    pub fn audited_by(mut self, audit_hook: Arc<dyn AuditHook>) -> Control {
        if let Way::Offline(offline) = &mut self.way {
            offline.audit_hook = Some(audit_hook);
        }
        self
    }

    /// Connects to the process that owns the log in a directory, if there is one and it listens.
    /// The log itself is not touched.
    pub fn connect(dir: &Path) -> Result<Option<Control>, TaskError> {
        Control::connect_within(dir, CLIENT_TIMEOUT)
    }

    /// Connects as [`connect`](Control::connect) does, and waits for each answer no longer than
    /// `patience`. A process that is stopped, or whose loop is kept by a task, does not answer.
    pub fn connect_within(dir: &Path, patience: Duration) -> Result<Option<Control>, TaskError> {
        Ok(Client::connect(dir, patience)?.map(|client| Control::by(Way::Socket(client))))
    }

    /// The process that this leads to.
    pub fn over(transport: Box<dyn Transport>) -> Control {
        Control::by(Way::Other(transport))
    }

    fn by(way: Way) -> Control {
        let on_warning: fn(&str) = |text| tracing::warn!(target: "tiffany", "{text}");
        Control { way, on_warning, values: Values::Plain }
    }

    /// Calls a function with warnings about changes that were made (an audit that could not be
    /// completed, for example) and about damage that was found in a log that no process owns.
    /// Without it, warnings are logged.
    pub fn on_warning(self, on_warning: fn(&str)) -> Control {
        Control { on_warning, ..self }
    }

    /// Calls a function with the directory if the process that owns the log takes longer than two
    /// seconds to answer. The answer is still waited for.
    pub fn on_silence(mut self, on_silence: fn(&Path)) -> Control {
        if let Way::Socket(client) = &mut self.way {
            client.on_silence = Some(on_silence);
        }
        self
    }

    /// The runtime of this process with this inbox.
    pub(crate) fn of(inbox: Arc<Inbox>) -> Control {
        Control::by(Way::Here(inbox, None))
    }

    /// The runtime of this process with this inbox and its events.
    pub(crate) fn with_hub(inbox: Arc<Inbox>, hub: Hub) -> Control {
        Control::by(Way::Here(inbox, Some(hub)))
    }

    /// Sends values in the form that the codec of a language writes.
    pub(crate) fn encoded(self) -> Control {
        Control { values: Values::Encoded, ..self }
    }

    /// Subscribes to the events of the runtime, from now on or from an event that is still kept.
    /// Events belong to a process: if no process owns the log, this is an error.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tiffany::control::Next;
    /// use tiffany::pal::{Told, Wanted, log, LogLevel};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-watch-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |()| async { Ok::<_, TaskError>(log(LogLevel::Info, "hello").await) })
    ///     .build()?;
    /// let run = runtime.submit::<()>("greet", "greet-1", &())?;
    /// runtime.wait_for(&run)?;
    ///
    /// // In another process it would be `Control::open(&dir)?`.
    /// let control = runtime.handle().control();
    /// let mut events = control.watch(Wanted::new().run(run.uuid()).from(1))?;
    /// while let Next::Told(Told::Event(event)) = events.next(Duration::from_secs(1))? {
    ///     println!("{} {}", event.stage, event.message);
    /// #   if event.stage == tiffany::pal::Stage::Completed { break }
    /// }
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(self, wanted: Wanted) -> Result<Watching, TaskError> {
        match self.way {
            Way::Here(_, Some(hub)) => Ok(Watching::here(&hub, wanted)),
            Way::Socket(client) => client.watch(wanted),
            Way::Other(transport) => transport.watch(wanted),
            Way::Here(_, None) | Way::Offline(_) => Err(no_activity()),
        }
    }

    /// Whether no other process owns the log, so that changes wait until the runs are resumed.
    pub fn is_offline(&self) -> bool {
        matches!(self.way, Way::Offline(_))
    }

    /// The id of the process that owns the log, as the system reports it, if it is another process.
    pub fn peer(&self) -> Option<u32> {
        match &self.way {
            Way::Socket(client) => client.peer(),
            Way::Other(transport) => transport.peer(),
            Way::Here(..) | Way::Offline(_) => None,
        }
    }

    /// Returns the status of the runtime.
    pub fn status(&mut self) -> Result<Status, TaskError> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    /// Starts a durable run, as [`Runtime::submit`](crate::runtime::Runtime::submit) does, and
    /// returns its UUID.
    pub fn submit(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
    ) -> Result<Uuid, TaskError> {
        self.submit_with(function, id, input, StartOptions::new())
    }

    /// Starts a durable run with tags, attributes or a deadline, as
    /// [`Runtime::submit_with`](crate::runtime::Runtime::submit_with) does, and returns its identity.
    pub fn submit_with(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
        options: StartOptions,
    ) -> Result<Uuid, TaskError> {
        let (function, id, input) = (function.into(), id.into(), raw(input)?);
        match self.ask(Request::Submit { function, id, input, options })? {
            Answer::Run { run, .. } => Ok(run),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a message to a run, which takes it with [`receive`](crate::calls::receive::receive).
    pub fn send(
        &mut self,
        run: Uuid,
        name: &str,
        message: &impl Serialize,
    ) -> Result<(), TaskError> {
        let message = raw(message)?;
        self.ask(Request::Send { run, name: name.into(), message }).map(drop)
    }

    /// Completes an external promise of a run.
    pub fn settle(
        &mut self,
        promise: Uuid,
        value: &impl Serialize,
    ) -> Result<Settlement, TaskError> {
        self.settled(None, promise, Ok(raw(value)?))
    }

    /// Settles a promise that a fork has in common with its parent, for the run that is named.
    pub fn settle_in(
        &mut self,
        run: Uuid,
        promise: Uuid,
        value: &impl Serialize,
    ) -> Result<Settlement, TaskError> {
        self.settled(Some(run), promise, Ok(raw(value)?))
    }

    /// Fails an external promise of a run: tasks that wait for it get an error with this message.
    pub fn fail(
        &mut self,
        promise: Uuid,
        message: impl Into<String>,
    ) -> Result<Settlement, TaskError> {
        self.settled(None, promise, Err(TaskError::failed(message)))
    }

    /// Fails a promise that a fork has in common with its parent, for the run that is named.
    pub fn fail_in(
        &mut self,
        run: Uuid,
        promise: Uuid,
        message: impl Into<String>,
    ) -> Result<Settlement, TaskError> {
        self.settled(Some(run), promise, Err(TaskError::failed(message)))
    }

    /// Forks a run at a record, as [`Runtime::fork`](crate::runtime::Runtime::fork) does, and
    /// returns the fork's UUID. If no process owns the log, the fork is written there, and runs
    /// when a process opens the directory.
    pub fn fork(&mut self, run: Uuid, at: u64, fork: Fork) -> Result<Uuid, TaskError> {
        self.fork_named(run, at, fork).map(|(fork, _)| fork)
    }

    /// Forks a run, and returns the fork's UUID and id.
    pub(crate) fn fork_named(
        &mut self,
        run: Uuid,
        at: u64,
        fork: Fork,
    ) -> Result<(Uuid, String), TaskError> {
        match self.ask(Request::Fork { run, at, fork })? {
            Answer::Forked { run, id } => Ok((run, id)),
            other => Err(unexpected(&other)),
        }
    }

    /// Allows a fork to do the steps with these names, `*` for all, as
    /// [`Runtime::allow`](crate::runtime::Runtime::allow) does.
    pub fn allow(
        &mut self,
        fork: Uuid,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), TaskError> {
        let names = names.into_iter().map(Into::into).collect();
        self.ask(Request::Allow { run: fork, names }).map(drop)
    }

    pub(crate) fn settled(
        &mut self,
        run: Option<Uuid>,
        promise: Uuid,
        result: Result<Box<RawValue>, TaskError>,
    ) -> Result<Settlement, TaskError> {
        match self.ask(Request::Settle { run, promise, result })? {
            Answer::Settled(settlement) => Ok(settlement),
            other => Err(unexpected(&other)),
        }
    }

    /// Cancels a run.
    pub fn cancel(&mut self, run: Uuid) -> Result<(), TaskError> {
        self.ask(Request::Cancel { run }).map(drop)
    }

    /// Holds a run: it gets no turns until it is released. Running steps finish.
    pub fn hold(&mut self, run: Uuid, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        self.ask(Request::Hold { run, by, why }).map(drop)
    }

    /// Releases a run that a person or a limit holds, so that it continues.
    pub fn release(&mut self, run: Uuid, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        self.ask(Request::Release { run, by, why }).map(drop)
    }

    /// Asks a run a question, which it answers with
    /// [`on_question`](crate::calls::question::on_question).
    pub fn question<A: DeserializeOwned>(
        &mut self,
        run: Uuid,
        name: &str,
        input: &impl Serialize,
    ) -> Result<A, TaskError> {
        let input = raw(input)?;
        match self.ask(Request::Question { run, name: name.into(), input })? {
            Answer::Value(json) => deserialize(json.get()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the metrics of the runtime, as
    /// [`RuntimeHandle::metrics`](crate::handle::RuntimeHandle::metrics) does.
    pub fn metrics(&mut self) -> Result<Snapshot, TaskError> {
        match self.ask(Request::Metrics)? {
            Answer::Metrics(metrics) => Ok(metrics),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the last turns that took so long that no other task could run, oldest first. The
    /// answer comes even during such a turn.
    pub fn long_turns(&mut self) -> Result<Vec<LongTurn>, TaskError> {
        match self.ask(Request::LongTurns)? {
            Answer::LongTurns(turns) => Ok(turns),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the steps in doubt.
    pub fn doubts(&mut self) -> Result<Vec<Doubt>, TaskError> {
        match self.ask(Request::Doubts)? {
            Answer::Doubts(doubts) => Ok(doubts),
            other => Err(unexpected(&other)),
        }
    }

    /// Decides the outcome of a step in doubt, by its key.
    pub fn decide(&mut self, key: &str, decision: Decision) -> Result<(), TaskError> {
        self.ask(Request::Decide { key: key.into(), decision }).map(drop)
    }

    /// Returns the questions of all runs that wait for a person. Runs ask them with
    /// [`approve`](crate::calls::approve::approve).
    pub fn approvals(&mut self) -> Result<Vec<OpenApproval>, TaskError> {
        match self.ask(Request::Approvals)? {
            Answer::Approvals(approvals) => Ok(approvals),
            other => Err(unexpected(&other)),
        }
    }

    /// Decides such a question, by its id, and returns the decision as it is recorded. The first
    /// answer counts; later callers get the error [`ApprovalDecided`](ErrorKind::ApprovalDecided)
    /// or [`NoSuchApproval`](ErrorKind::NoSuchApproval).
    pub fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        match self.ask(Request::Resolve { approval: approval.into(), ruling })? {
            Answer::Approval(approval) => Ok(approval),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes a finished run, as [`Runtime::remove`](crate::runtime::Runtime::remove) does.
    pub fn remove(&mut self, run: Uuid) -> Result<(), TaskError> {
        match self.ask(Request::Remove { runs: vec![run] })? {
            Answer::Each(each) => each.into_iter().next().unwrap_or(Ok(())),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns a page of the runs.
    pub fn runs(&mut self, query: &RunQuery) -> Result<RunPage, TaskError> {
        match self.ask(Request::Runs(query.clone()))? {
            Answer::Runs(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns one run with its tasks, or with its value if it is finished.
    pub fn show(&mut self, run: Uuid) -> Result<RunDetail, TaskError> {
        match self.ask(Request::Show { run })? {
            Answer::Shown(detail) => Ok(*detail),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends any request. The other methods call this one.
    pub fn ask(&mut self, request: Request) -> Result<Answer, TaskError> {
        not_on_the_loop()?;
        let request = match self.values {
            Values::Encoded if request.carries_value() => Request::Encoded(Box::new(request)),
            _ => request,
        };
        let answer = match &mut self.way {
            Way::Here(inbox, _) => ask_here(inbox, request),
            Way::Socket(client) => client.ask(&request),
            Way::Other(transport) => transport.ask(&request),
            Way::Offline(offline) => {
                offline.losses.drain(..).for_each(|loss| (self.on_warning)(&loss.to_string()));
                offline.ask(request)
            }
        }?;
        Ok(match answer {
            Answer::Warned { answer, warning } => {
                (self.on_warning)(&warning);
                *answer
            }
            answer => answer,
        })
    }
}

/// Fails on a runtime's own thread: waiting for an answer would block all of its tasks, and waiting
/// for its own runtime would never end.
fn not_on_the_loop() -> Result<(), TaskError> {
    match context::current().host() {
        None => Ok(()),
        Some(_) => {
            let message = "this waits, and was called on the thread of a loop; do it in a step, or on another thread";
            Err(TaskError::new(ErrorKind::BadArgument, message))
        }
    }
}

/// Sends a request to a runtime of this process that another thread drives.
pub(crate) fn ask_here(inbox: &Inbox, request: Request) -> Result<Answer, TaskError> {
    if let Some(answer) = answer_at_once(inbox, &request) {
        return Ok(answer);
    }
    let (tell, told) = Tell::waited_for();
    inbox.send(LoopMessage::Request(request, tell));
    match told.recv_timeout(ANSWER_TIMEOUT) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Disconnected) => Err(runtime_gone()),
        Err(RecvTimeoutError::Timeout) => Err(slow_answer(inbox)),
    }
}

/// Answers requests that need no loop, because they matter most when the loop does not answer.
fn answer_at_once(inbox: &Inbox, request: &Request) -> Option<Answer> {
    match request {
        Request::Metrics => Some(Answer::Metrics(read_metrics(inbox))),
        Request::LongTurns => Some(Answer::LongTurns(turns::long_turns(inbox))),
        _ => None,
    }
}

/// The error for a request that was not answered.
pub const UNANSWERED: &str = "if it was to change something, that may still happen: see with `tiffany ls` or `tiffany show` whether it did, before you ask again";

fn runtime_gone() -> TaskError {
    let message = format!("the runtime ended before it answered; {UNANSWERED}");
    TaskError::new(ErrorKind::Unreachable, message)
}

/// The error for a request that the loop has not answered in time.
fn slow_answer(inbox: &Inbox) -> TaskError {
    let why = turns::who_keeps_it(inbox);
    let why = why.unwrap_or_else(|| "it is not driven, or a task keeps its turn".into());
    let message =
        format!("the runtime has not answered for {ANSWER_TIMEOUT:?}: {why}; {UNANSWERED}");
    TaskError::new(ErrorKind::Unreachable, message)
}

/// The error for events of a log that no process owns.
pub fn no_activity() -> TaskError {
    let message = "no process has this log, so nothing is happening in it";
    TaskError::new(ErrorKind::NoActivity, message)
}

/// The error of an answer that does not belong to its request.
pub fn unexpected(answer: &Answer) -> TaskError {
    let message = format!("the other process speaks another version: it answered {answer:?}");
    TaskError::new(ErrorKind::Unreachable, message)
}

/// Reads all meters of the runtime with this inbox, on any thread.
pub(crate) fn read_metrics(inbox: &Inbox) -> Snapshot {
    // On the loop's own thread there is no loop to answer.
    if context::current().host().is_none() && !inbox.is_closed() {
        inbox.meters.ask(|| inbox.send(LoopMessage::Measure));
    }
    inbox.meters.read()
}
