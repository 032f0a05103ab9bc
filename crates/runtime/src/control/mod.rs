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
use tiffany_records::metrics::Snapshot;
pub use tiffany_records::request::LongTurn;
#[doc(hidden)]
pub use tiffany_records::request::check_name;
pub use tiffany_records::request::{Answer, Decision, Doubt, Function, Paused, Request, Status};
use tiffany_records::request::{Approval, Fork, Settlement};
pub use tiffany_records::request::{
    ErrorSummary, Parent, RunDetail, RunPage, RunQuery, RunSummary, SortBy, State, TaskSummary,
    parse_moment,
};
pub use tiffany_records::request::{OpenApproval, Ruling, user_name};
use tiffany_records::value::{deserialize, raw};

/// How long an answer is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client waits for it. The process that is asked waits for its loop and then says why nothing comes, which
/// it can't do if it is stopped.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(33);

/// Asks the runtime that has a log, or writes to the log itself where none has it.
///
/// Every method comes back when what it did is safe in the log.
pub struct Control {
    way: Way,
    on_warning: fn(&str),
    values: Values,
}

/// What the values are that requests carry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Plain JSON.
    Plain,
    /// Texts that the codec of a language made.
    Encoded,
}

enum Way {
    /// A runtime of this process, with what its runs are doing where that may be watched.
    Here(Arc<Inbox>, Option<Hub>),
    Socket(Client),
    /// Another way to the process that has it.
    Other(Box<dyn Transport>),
    /// Nobody has the directory, so this has.
    Offline(Box<Offline>),
}

impl Control {
    /// The log in a directory: by the process that has it, or, where none has, by taking it for as long as this lives. Then runs are written to on the
    /// level of their records, and take notice when they are brought back.
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

    /// What this changes on a log that no process has is seen by somebody, as the process sees it that has one: see [`Builder::audit_hook`](crate::runtime::builder::Builder::audit_hook).
    pub fn audited_by(mut self, audit_hook: Arc<dyn AuditHook>) -> Control {
        if let Way::Offline(offline) = &mut self.way {
            offline.audit_hook = Some(audit_hook);
        }
        self
    }

    /// The process that has the log in a directory, if one has it and listens. The log itself is not touched.
    pub fn connect(dir: &Path) -> Result<Option<Control>, TaskError> {
        Control::connect_within(dir, CLIENT_TIMEOUT)
    }

    /// The same; each answer is waited for so long at most. A process that is stopped, or whose loop is kept by a
    /// task, does not answer.
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

    /// Calls this with warnings about changes that were made (that an audit could not be completed, say) and about
    /// damage that was found in a log that no process has. Without it, warnings are logged.
    pub fn on_warning(self, on_warning: fn(&str)) -> Control {
        Control { on_warning, ..self }
    }

    /// Calls this with the directory if the process that has the log takes longer than two seconds to answer. The
    /// answer is waited for all the same.
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

    /// The same with what its runs are doing.
    pub(crate) fn with_hub(inbox: Arc<Inbox>, hub: Hub) -> Control {
        Control::by(Way::Here(inbox, Some(hub)))
    }

    /// The same for values that the codec of a language made.
    pub(crate) fn encoded(self) -> Control {
        Control { values: Values::Encoded, ..self }
    }

    /// What the runs of the runtime are doing, from now on or from those events on that it still knows. Events are of a process: where none has the log,
    /// that is an error.
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

    /// Whether no process has the log, so that what is done here waits until its runs are brought back.
    pub fn is_offline(&self) -> bool {
        matches!(self.way, Way::Offline(_))
    }

    /// The number of the process that has the log, as the system says, if it is another one that is asked.
    pub fn peer(&self) -> Option<u32> {
        match &self.way {
            Way::Socket(client) => client.peer(),
            Way::Other(transport) => transport.peer(),
            Way::Here(..) | Way::Offline(_) => None,
        }
    }

    /// How the runtime stands.
    pub fn status(&mut self) -> Result<Status, TaskError> {
        match self.ask(Request::Status)? {
            Answer::Status(status) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    /// Starts a durable run, as [`Runtime::submit`](crate::runtime::Runtime::submit) does, and gives its identity.
    pub fn submit(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
    ) -> Result<Uuid, TaskError> {
        let input = raw(input)?;
        match self.ask(Request::Submit { function: function.into(), id: id.into(), input })? {
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

    /// The same for a promise that a fork has in common with its parent: it is the fork's if the fork is named.
    pub fn settle_in(
        &mut self,
        run: Uuid,
        promise: Uuid,
        value: &impl Serialize,
    ) -> Result<Settlement, TaskError> {
        self.settled(Some(run), promise, Ok(raw(value)?))
    }

    /// Fails an external promise of a run: who waits for it is given an error with this message.
    pub fn fail(
        &mut self,
        promise: Uuid,
        message: impl Into<String>,
    ) -> Result<Settlement, TaskError> {
        self.settled(None, promise, Err(TaskError::failed(message)))
    }

    /// The same for a promise that a fork has in common with its parent: it is the fork's if the fork is named.
    pub fn fail_in(
        &mut self,
        run: Uuid,
        promise: Uuid,
        message: impl Into<String>,
    ) -> Result<Settlement, TaskError> {
        self.settled(Some(run), promise, Err(TaskError::failed(message)))
    }

    /// Forks a run at a record, as [`Runtime::fork`](crate::runtime::Runtime::fork) does, and gives the fork's identity. Where no process has the log, the fork is
    /// written there, and goes on when its directory is opened.
    pub fn fork(&mut self, run: Uuid, at: u64, fork: Fork) -> Result<Uuid, TaskError> {
        self.fork_named(run, at, fork).map(|(fork, _)| fork)
    }

    /// The same, with the id that the fork has.
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

    /// Lets a fork do effects of these names, `*` for all, as [`Runtime::allow`](crate::runtime::Runtime::allow) does.
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

    /// Holds a run: it gets no turns until it is released. Steps that are under way come to their end.
    pub fn hold(&mut self, run: Uuid, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        self.ask(Request::Hold { run, by, why }).map(drop)
    }

    /// Lets a run continue that a person or a limit holds.
    pub fn release(&mut self, run: Uuid, by: &str, why: Option<&str>) -> Result<(), TaskError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        self.ask(Request::Release { run, by, why }).map(drop)
    }

    /// Asks a run, which answers by [`on_question`](crate::calls::question::on_question).
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

    /// What the runtime has counted and measured so far, as [`RuntimeHandle::metrics`](crate::handle::RuntimeHandle::metrics) tells.
    pub fn metrics(&mut self) -> Result<Snapshot, TaskError> {
        match self.ask(Request::Metrics)? {
            Answer::Metrics(metrics) => Ok(metrics),
            other => Err(unexpected(&other)),
        }
    }

    /// The last turns that took so long that nothing else went on, the oldest first. It is answered while one of them does, too.
    pub fn long_turns(&mut self) -> Result<Vec<LongTurn>, TaskError> {
        match self.ask(Request::LongTurns)? {
            Answer::LongTurns(turns) => Ok(turns),
            other => Err(unexpected(&other)),
        }
    }

    /// The steps that are in doubt.
    pub fn doubts(&mut self) -> Result<Vec<Doubt>, TaskError> {
        match self.ask(Request::Doubts)? {
            Answer::Doubts(doubts) => Ok(doubts),
            other => Err(unexpected(&other)),
        }
    }

    /// Decides on a step in doubt, by its key.
    pub fn decide(&mut self, key: &str, decision: Decision) -> Result<(), TaskError> {
        self.ask(Request::Decide { key: key.into(), decision }).map(drop)
    }

    /// The questions that wait for a person, of all runs. They are asked by [`approve`](crate::calls::approve::approve).
    pub fn approvals(&mut self) -> Result<Vec<OpenApproval>, TaskError> {
        match self.ask(Request::Approvals)? {
            Answer::Approvals(approvals) => Ok(approvals),
            other => Err(unexpected(&other)),
        }
    }

    /// Decides such a question, by its id, and gives what is recorded. The first answer holds; who comes later is given the error
    /// [`ApprovalDecided`](ErrorKind::ApprovalDecided) or [`NoSuchApproval`](ErrorKind::NoSuchApproval).
    pub fn resolve(&mut self, approval: &str, ruling: Ruling) -> Result<Approval, TaskError> {
        match self.ask(Request::Resolve { approval: approval.into(), ruling })? {
            Answer::Approval(approval) => Ok(approval),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes a run that is over, as [`Runtime::remove`](crate::runtime::Runtime::remove) does.
    pub fn remove(&mut self, run: Uuid) -> Result<(), TaskError> {
        match self.ask(Request::Remove { runs: vec![run] })? {
            Answer::Each(each) => each.into_iter().next().unwrap_or(Ok(())),
            other => Err(unexpected(&other)),
        }
    }

    /// The runs there are, as many as a page has.
    pub fn runs(&mut self, query: &RunQuery) -> Result<RunPage, TaskError> {
        match self.ask(Request::Runs(query.clone()))? {
            Answer::Runs(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }

    /// One run with its tasks, or with its value if it is over.
    pub fn show(&mut self, run: Uuid) -> Result<RunDetail, TaskError> {
        match self.ask(Request::Show { run })? {
            Answer::Shown(detail) => Ok(*detail),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks for anything. The other methods are this with a type.
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

/// Who waits for an answer keeps all tasks of this thread waiting, and for an answer of its own runtime for ever.
fn not_on_the_loop() -> Result<(), TaskError> {
    match context::current().host() {
        None => Ok(()),
        Some(_) => {
            let message = "this waits, and was called on the thread of a loop; do it in a step, or on another thread";
            Err(TaskError::new(ErrorKind::BadArgument, message))
        }
    }
}

/// Asks a runtime of this process, which another thread drives.
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

/// What is answered without the loop, because it is wanted most when the loop does not answer.
fn answer_at_once(inbox: &Inbox, request: &Request) -> Option<Answer> {
    match request {
        Request::Metrics => Some(Answer::Metrics(read_metrics(inbox))),
        Request::LongTurns => Some(Answer::LongTurns(turns::long_turns(inbox))),
        _ => None,
    }
}

/// What is said of a request that was not answered.
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

/// The error where no process has the log: nothing is happening in it.
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
    // On the loop's own thread nobody would answer.
    if context::current().host().is_none() && !inbox.is_closed() {
        inbox.meters.ask(|| inbox.send(LoopMessage::Measure));
    }
    inbox.meters.read()
}
