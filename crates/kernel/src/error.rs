//! The errors that tasks receive. They are serializable, because they are recorded; every kind has
//! a stable code, a cause and a next step. Bugs of the kernel are assertions, not errors.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::CallKind;
use crate::id::Tid;

/// A line of source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The file, as the compiler was given it.
    pub file: Cow<'static, str>,
    /// The line, from 1.
    pub line: u32,
}

impl From<&'static Location<'static>> for Site {
    fn from(at: &'static Location<'static>) -> Site {
        Site { file: Cow::Borrowed(at.file()), line: at.line() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The message of a panic. The payload is dropped with care: it is user code too and may panic
/// again.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is not text")
        .to_string();
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    text
}

/// A task in messages: its number, its name if it has one, and the line that spawned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLabel {
    /// The task's number.
    pub tid: Tid,
    /// The task's name, if it has one.
    pub name: Option<String>,
    /// The line that spawned the task.
    pub spawned_at: Site,
}

impl fmt::Display for TaskLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.tid)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        write!(f, " (spawned at {})", self.spawned_at)
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $next:literal;)+) => {
        /// The kind of an error. The codes are stable, and each has a section in the book.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)+
        }

        impl ErrorKind {
            /// All kinds, in the order of their codes.
            pub const ALL: &[ErrorKind] = &[$(ErrorKind::$name),+];

            /// The stable code, such as `TFY0003`.
            pub fn code(self) -> &'static str {
                match self { $(ErrorKind::$name => $code),+ }
            }

            /// Returns the next step for the user; empty for kinds whose messages contain their
            /// own.
            pub fn next_step(self) -> &'static str {
                match self { $(ErrorKind::$name => $next),+ }
            }
        }
    };
}

kinds! {
    /// The task returned an error of its own.
    Failed = "TFY0001", "";
    /// The task panicked.
    Panicked = "TFY0002", "fix the panic, or return an error from the task instead";
    /// The task was cancelled.
    TaskCancelled = "TFY0003", "handle it where you wait, or find out what cancels the task";
    /// A call was made outside a task.
    OutsideTask = "TFY0004", "make the call inside a task: `tiffany::run(async { … })`";
    /// A task waited for itself.
    SelfWait = "TFY0005", "wait for another task, or return the value";
    /// A race over no tasks and no futures.
    NothingToRace = "TFY0006", "give race at least one task or future";
    /// There is no such task, or its result is gone.
    UnknownTask = "TFY0007", "keep the handle of a task for as long as its result is wanted";
    /// A handle was used in another run than its own.
    ForeignRun = "TFY0008", "runs do not share handles: pass values between them by external promises";
    /// The promise is already settled.
    AlreadySettled = "TFY0009", "settle a promise once; the first value stays";
    /// There is no such promise.
    UnknownPromise = "TFY0010", "check the UUID, and that its run has not ended";
    /// The descriptor is not open, or can't be waited on.
    BadDescriptor = "TFY0011", "wait on an open descriptor of a kind that can be polled";
    /// The descriptor was closed while a task waited on it.
    DescriptorClosed = "TFY0012", "wake or cancel the waiting task before closing its descriptor";
    /// A duration is negative, not a number, or reaches past the end of time.
    BadDuration = "TFY0013", "use a duration the clock can hold";
    /// The run has reached its limit of tasks.
    TaskLimit = "TFY0014", "wait for some tasks before spawning more, or raise `max_tasks`";
    /// The run has made more calls than its limit allows.
    CallLimit = "TFY0015", "look for a loop that never ends, or raise `max_calls`";
    /// The run took longer than its limit allows.
    TimeLimit = "TFY0016", "raise `max_time`, or split the work";
    /// The run cost more than its limit allows.
    CostLimit = "TFY0017", "raise `max_cost`, or spend less";
    /// No handler answered the call.
    Unanswered = "TFY0018", "install a handler that answers this call";
    /// A handler refused the call.
    Refused = "TFY0019", "see the handler's message";
    /// The call is not allowed in a durable run.
    NotDurable = "TFY0020", "use a step: durable runs reach the world through effects only";
    /// A value was not of the expected type.
    WrongType = "TFY0021", "make both ends agree on the type";
    /// The shared environment has no such key.
    NoSuchKey = "TFY0022", "give the run this key with `env`";
    /// The other end of the channel is gone.
    ChannelClosed = "TFY0023", "stop sending, or keep a receiver alive";
    /// All tasks wait, and nothing can wake them.
    Deadlock = "TFY0024", "break the cycle: let one of its tasks not wait for the next";
    /// A runtime was started inside a task.
    NestedRuntime = "TFY0025", "spawn a task instead, or start the other runtime on another thread";
    /// A promise was dropped unsettled.
    Abandoned = "TFY0026", "complete or fail the promise before dropping it";
    /// A call was polled by a task other than the one that made it.
    MovedCall = "TFY0027", "await a call in the task that first polled it";
    /// The wait timed out.
    TimedOut = "TFY0028", "allow more time, or handle the timeout";
    /// The host could not do what a call asked for.
    Host = "TFY0029", "see the system's message";
    /// A task has kept its turn for long without a call.
    Stuck = "TFY0030", "call `yield_now` now and then, or do long work with `blocking`";
    /// The last handle of a semaphore or a group was dropped.
    Gone = "TFY0031", "keep the handle for as long as the thing is used";
    /// An argument is not valid for this call.
    BadArgument = "TFY0032", "correct what was given";
    /// The call asks for more permits than the semaphore has in all.
    TooManyPermits = "TFY0033", "ask for fewer permits, or make the semaphore with more";
    /// A value that must be recorded can't be serialized.
    Unserializable = "TFY0034", "give that part of the value a form that JSON has";
    /// A recorded value can't be read as the wanted type.
    Unreadable = "TFY0035", "correct the input; if an older version of the program wrote it, make the type accept that form too";
    /// A durable run's code did something other than what its log contains.
    Diverged = "TFY0036", "restore the recorded call, or use `patched` to let new code work with old runs";
    /// The id belongs to a run with another function or another input.
    OtherRun = "TFY0037", "use another id, or ask for the run that has it";
    /// No function is registered under this name.
    Unregistered = "TFY0038", "register the function before the runtime is built; with `--app`, give the file that has it";
    /// The log has stopped after an error, so that durable runs can't continue.
    LogFailed = "TFY0039", "fix the cause and open the log again";
    /// An at-most-once step was interrupted, and whether it happened is unknown.
    InDoubt = "TFY0040", "find out whether it happened, and continue accordingly; it is not done again";
    /// The log has no run with this id.
    NoSuchRun = "TFY0041", "check the id, and that this is the directory it was started in";
    /// The run is finished: it takes no messages and answers no questions.
    RunOver = "TFY0042", "read its outcome, or start another run";
    /// The process that has to act does not respond.
    Unreachable = "TFY0043", "see with `tiffany doctor` why the process does not answer; in a program, drive the runtime with `wait_for` or `run`";
    /// The run has no answer for questions of this name.
    NoSuchQuestion = "TFY0044", "answer it in the run with `on_question`, or ask it later";
    /// A program yielded something that is not a call.
    NotACall = "TFY0045", "yield a call, a generator or coroutine, or nothing";
    /// A runtime was used on a thread other than its own.
    WrongThread = "TFY0046", "use a runtime on the thread that made it; other threads go through its handle";
    /// A runtime was used in a process that was forked from its own.
    Forked = "TFY0047", "start a runtime after the fork, or use `spawn` as the start method of `multiprocessing`";
    /// The program to be run has already started.
    Begun = "TFY0048", "call its function again, which returns a new one";
    /// The package was imported in a sub-interpreter.
    Subinterpreter = "TFY0049", "import it in the main interpreter, and use processes for more processors";
    /// A key in the user's database belongs to another run.
    OtherKey = "TFY0050", "give each log directory a table of its own, or remove the keys of the run that no longer exists";
    /// A saga failed, and not all of its steps could be undone.
    NotUndone = "TFY0051", "undo the named steps by hand";
    /// A step ended with an exception that can't be rebuilt from its record.
    StepFailed = "TFY0052", "make its class importable under the same name, with serializable arguments";
    /// A program yielded again after it was told to end.
    NotEnding = "TFY0054", "let `Cancelled` and `GeneratorExit` pass, and yield nothing after them";
    /// A Python call was discarded before it was made.
    NeverMade = "TFY0055", "write `await` or `yield` before it";
    /// Code tried to stop an asyncio loop that other code shares.
    SharedLoop = "TFY0056", "return from the step; the loop is tiffany's, and ends with the process";
    /// A call of `tiffany.pyos` was made outside a scheduler of `tiffany.pyos`.
    NoPyosScheduler = "TFY0057", "start the task with `Scheduler.new`, or yield the call of that name from `tiffany`";
    /// A crash changed what a workflow does.
    NotCrashProof = "TFY0058", "repeat the simulation that is named, and look at what the workflow does outside its steps";
    /// The code no longer does what its golden log contains.
    GoldenLog = "TFY0059", "if the change is intended, record the log again with `pytest --golden-update` or `replay RUN --capture DIR --force`";
    /// The record to be changed in a fork is not an answer.
    NotAnAnswer = "TFY0116", "give the number of an `EffectResult`, an `ApprovalDecided`, a `PromiseSettled` or a `Message`; `log` lists them";
    /// The run can't be forked at this record.
    NotForkable = "TFY0117", "fork it at another record; `log` lists them";
    /// An answer for a fork has another shape than the recorded one.
    OtherShape = "TFY0118", "give an answer of the same shape, or confirm the change with `as_is` or `--as-is`";
    /// A fork needs an effect that its parent has no answer for and that is not allowed.
    NotAllowed = "TFY0119", "permit it with `fork FORK --allow NAME`, or leave the fork as it is";
    /// The run can't start again here.
    CannotContinue = "TFY0125", "wait for all tasks, then call `continue_as` in the root";
    /// No snapshot of the run can be taken.
    NoSnapshot = "TFY0126", "let every task be a registered state machine that waits, or use `continue_as`";
    /// A run can't be restored from its snapshot.
    NotRestored = "TFY0127", "register the state machine under the name it had, and let its type read what older versions wrote";
    /// The run was removed; its id stays taken.
    RunRemoved = "TFY0130", "start another run under another id, or restore the log from a backup";
    /// The run was compacted: only its input and its outcome are left.
    RunCompacted = "TFY0131", "see by `show` what came of it; what happened on the way is in older backups only";
    /// The run is not finished.
    NotOver = "TFY0132", "wait for its end, or end it by `cancel` and, if no process has the directory, `resume`; then do it again";
    /// An unfinished fork takes answers from the run.
    NeededByFork = "TFY0133", "wait for the fork's end, or end it by `cancel` and, if no process has the directory, `resume`; then do it again";
    /// The run has changed since it was read.
    ReadTooEarly = "TFY0134", "do it again";
    /// Events come from a running process, and no process owns the directory.
    NoActivity = "TFY0150", "start the program that the runs belong to; `log` shows what is recorded of them";
    /// A question to a person was not answered in time.
    ApprovalTimedOut = "TFY0180", "ask again, or define in the program what happens when no person answers";
    /// There is no open question with this name.
    NoSuchApproval = "TFY0181", "list the open ones with `tiffany approve`";
    /// The question has already been answered.
    ApprovalDecided = "TFY0182", "the first answer holds; see it by `show`";
    /// The question does not have this choice.
    BadChoice = "TFY0183", "give one of its choices, which `tiffany approve` lists";
    /// A person rejected what was asked.
    Rejected = "TFY0184", "see with `show` who decided and why; change the request, and ask again";
    /// A name contains a secret.
    SecretName = "TFY0192", "use a name without text that the redaction rules remove";
    /// A value from outside the program has a form that no program could read.
    RefusedValue = "TFY0220", "send JSON with at most 100 levels, numbers within the range of a double, whole surrogate pairs, and each name once in an object";
    /// Calls that share the runtime of a directory have different settings.
    OtherSettings = "TFY0221", "give all calls on one directory the same settings";
    /// The directory is in use by another event loop of this process.
    OtherLoop = "TFY0222", "await the call on that loop, or use another directory";
    /// A blocking call was made inside a running event loop.
    RunningLoop = "TFY0223", "write `await tiffany.arun(...)` instead";
    /// An asynchronous runtime was used before it was opened.
    NotStarted = "TFY0226", "use it inside `async with runtime:`, which a web service does in its lifespan";
    /// The log of a run follows rules that this version does not know.
    UnknownRules = "TFY0230", "open the directory with the version that started the run, or a newer one";
    /// A person or a limit holds the run.
    RunHeld = "TFY0235", "see why with `tiffany show`, then let it continue with `tiffany hold RUN --release`, or end it with `tiffany cancel`";
    /// The run is not held.
    NotHeld = "TFY0236", "see the state of the run with `tiffany show`";
    /// The run has too many unread messages.
    InboxFull = "TFY0237", "send it again later, when the run has received some of them, or raise `messages` or `message_bytes` of the run limits";
    /// An async step kept the shared event loop for too long and was interrupted.
    StepInterrupted = "TFY0240", "make it a plain `def` step, which has a thread of its own; or raise `turn` of the run limits";
    /// Code outside turns, such as code that reads an input, took too long and was interrupted.
    Interrupted = "TFY0245", "let that code do less, and move long work into a step; or raise `turn` of the run limits";
    /// A damaged run may be a fork of this run, and so may need its answers.
    MayBeNeeded = "TFY0254", "restore the file of the run that can't be read from a copy, or remove that run with `tiffany rm --damaged`; then do it again";
    /// A run that isn't damaged was to be removed as a damaged one.
    NotDamaged = "TFY0256", "end it with `tiffany cancel` and remove it with `tiffany rm`";
    /// A tag or an attribute is not allowed, or there are too many.
    BadAttribute = "TFY0270", "correct it; the chapter \"Tags, attributes and deadlines\" has the types and limits";
    /// The run had not ended at its deadline.
    DeadlinePassed = "TFY0271", "start it again under another id with a later deadline, or let it do less";
    /// A value has a name that is reserved in the log.
    ReservedName = "TFY0272", "give that member another name, or put the value into a list or under another name";
    /// A deadline is past, or not a deadline.
    BadDeadline = "TFY0273", "give a moment in the future, or how long the run may take";
}

/// The line where an error was raised in another language, with its traceback. It is recorded with
/// the error, but not compared: lines move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The innermost line of the program's own code.
    pub at: Site,
    /// The traceback as that language shows it, the innermost frame last.
    pub lines: Vec<String>,
}

impl Trace {
    /// The number of lines that are kept.
    pub const MAX_LINES: usize = 40;
    /// The number of characters of a line that are kept.
    pub const MAX_LINE_CHARS: usize = 200;

    /// A trace that is short enough to be recorded many times: of a long traceback only the last
    /// lines are kept, of a long line only its beginning.
    pub fn new(at: Site, lines: impl IntoIterator<Item = String>) -> Trace {
        let mut lines: Vec<String> = lines.into_iter().collect();
        lines.drain(..lines.len().saturating_sub(Trace::MAX_LINES));
        for line in &mut lines {
            if let Some((end, _)) = line.char_indices().nth(Trace::MAX_LINE_CHARS) {
                line.truncate(end);
                line.push('…');
            }
        }
        Trace { at, lines }
    }
}

/// An error that a task received, or ended with.
///
/// The message names the task, the call and the line, and ends with the next step:
///
/// ```
/// # use tiffany_kernel::{ErrorKind, TaskError};
/// let error = TaskError::new(ErrorKind::NothingToRace, "race over nothing");
/// assert_eq!(error.code(), "TFY0006");
/// assert_eq!(
///     error.to_string(),
///     "race over nothing [TFY0006]; give race at least one task or future"
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    kind: ErrorKind,
    message: String,
    task: Option<TaskLabel>,
    call: Option<(Cow<'static, str>, Site)>,
    within: Vec<Cow<'static, str>>,
    through: Vec<TaskLabel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(default, skip_serializing_if = "Raised::is_unknown")]
    trace: Raised,
    #[serde(skip)]
    origin: Origin,
}

/// The trace of an error, if it has one. It is ignored when errors are compared.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Raised(Option<Box<Trace>>);

impl Raised {
    fn is_unknown(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for Raised {
    fn eq(&self, _: &Raised) -> bool {
        true
    }
}

impl Eq for Raised {}

/// The error object of another language. It stays in the process, and is ignored when errors are
/// compared.
#[derive(Clone, Default)]
struct Origin(Option<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl Eq for Origin {}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Origin" } else { "-" })
    }
}

impl TaskError {
    /// Creates an error with a message, which is one lower-case clause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> TaskError {
        let message = message.into();
        TaskError(Box::new(Inner {
            kind,
            message,
            task: None,
            call: None,
            within: Vec::new(),
            through: Vec::new(),
            detail: None,
            trace: Raised::default(),
            origin: Origin::default(),
        }))
    }

    /// Creates an error that the task itself returned.
    pub fn failed(message: impl Into<String>) -> TaskError {
        TaskError::new(ErrorKind::Failed, message)
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code, such as `TFY0003`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// Whether this is the error of a cancelled task.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == ErrorKind::TaskCancelled
    }

    /// The message, without task, call and next step.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The task in which the error happened.
    pub fn task(&self) -> Option<&TaskLabel> {
        self.0.task.as_ref()
    }

    /// The line of the call at which the error happened.
    pub fn call_site(&self) -> Option<&Site> {
        self.0.call.as_ref().map(|(_, site)| site)
    }

    /// The tasks that the error passed through after the one in which it happened, in that order.
    pub fn through(&self) -> &[TaskLabel] {
        &self.0.through
    }

    /// The labels of the parts of the task in which it happened, outermost first.
    pub fn within(&self) -> &[Cow<'static, str>] {
        &self.0.within
    }

    /// Adds the labels of the parts of the task in which the error happened.
    pub fn add_labels(&mut self, labels: &[Cow<'static, str>]) {
        if self.0.within.is_empty() {
            self.0.within.extend_from_slice(labels);
        }
    }

    /// Adds the data that another language needs to rebuild its own error. It is recorded with the
    /// error.
    pub fn with_detail(mut self, detail: String) -> TaskError {
        self.0.detail = Some(detail);
        self
    }

    /// The data from which another language rebuilds its own error.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Removes the data from which another language would rebuild its own error.
    #[must_use]
    pub fn without_detail(mut self) -> TaskError {
        self.0.detail = None;
        self
    }

    /// Adds the line in another language where the error was raised, with its traceback. Both are
    /// recorded with the error.
    pub fn with_trace(mut self, trace: Trace) -> TaskError {
        self.0.trace = Raised(Some(Box::new(trace)));
        self
    }

    /// The line in another language where the error was raised, with its traceback, if known.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.trace.0.as_deref()
    }

    /// Adds the error object of another language.
    pub fn with_origin<T: Any + Send + Sync>(mut self, origin: T) -> TaskError {
        self.0.origin = Origin(Some(Arc::new(origin)));
        self
    }

    /// The error object of another language, if the error comes from there and has not left the
    /// process.
    pub fn origin<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.origin.0.as_ref()?.downcast_ref()
    }

    /// Adds the task in which the error happened.
    pub(crate) fn in_task(mut self, task: impl FnOnce() -> TaskLabel) -> TaskError {
        if self.0.task.is_none() {
            self.0.task = Some(task());
        }
        self
    }

    /// Adds the call at which the error happened.
    pub(crate) fn at_call(
        mut self,
        kind: CallKind,
        name: Option<&'static str>,
        at: impl FnOnce() -> Site,
    ) -> TaskError {
        if self.0.call.is_none() {
            self.0.call = Some((Cow::Borrowed(name.unwrap_or(kind.tag())), at()));
        }
        self
    }

    /// Adds the call and its line, unless they are known already.
    pub fn add_call(&mut self, call: &'static str, at: impl Into<Site>) {
        if self.0.call.is_none() {
            self.0.call = Some((Cow::Borrowed(call), at.into()));
        }
    }

    /// Adds the task in which the error happened, unless it is known already.
    pub fn add_task(&mut self, task: TaskLabel) {
        self.0.task.get_or_insert(task);
    }

    /// Adds a task that ended with this error after the one in which it happened.
    pub fn through_task(mut self, label: TaskLabel) -> TaskError {
        match &self.0.task {
            None => self.0.task = Some(label),
            Some(first) if first.tid == label.tid => {}
            Some(_) if self.0.through.iter().any(|hop| hop.tid == label.tid) => {}
            Some(_) => self.0.through.push(label),
        }
        self
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        if let Some(task) = &inner.task {
            write!(f, "{task}: ")?;
        }
        write!(f, "{}", inner.message)?;
        if let Some(trace) = self.trace() {
            write!(f, ", raised at {}", trace.at)?;
        }
        if let Some((name, site)) = &inner.call {
            write!(f, ", in `{name}` at {site}")?;
        }
        for label in inner.within.iter().rev() {
            write!(f, ", within `{label}`")?;
        }
        for hop in &inner.through {
            write!(f, ", then through {hop}")?;
        }
        write!(f, " [{}]", inner.kind.code())?;
        match inner.kind.next_step() {
            "" => Ok(()),
            next_step => write!(f, "; {next_step}"),
        }
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TaskError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32) -> Site {
        Site { file: "shop.py".into(), line }
    }

    #[test]
    fn a_trace_is_shown_by_its_line_is_bounded_and_makes_no_other_error() {
        let plain = TaskError::failed("no tea");
        let lines = (0..100).map(|number| format!("{number} {}", "ä".repeat(300)));
        let traced = plain.clone().with_trace(Trace::new(at(7), lines));
        assert_eq!(traced.to_string(), "no tea, raised at shop.py:7 [TFY0001]");
        let kept = traced.trace().unwrap();
        assert_eq!(kept.lines.len(), Trace::MAX_LINES);
        assert!(kept.lines[0].starts_with("60 ") && kept.lines[39].starts_with("99 "));
        assert_eq!(kept.lines[0].chars().count(), Trace::MAX_LINE_CHARS + 1);
        // Lines move, but the error stays equal.
        assert_eq!(traced, plain);
        assert_eq!(traced, plain.with_trace(Trace::new(at(8), [])));
    }
}
