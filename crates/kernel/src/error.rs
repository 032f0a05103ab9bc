//! What a task can be told went wrong. Serializable, because it is recorded; every kind has a stable
//! code, a cause and a next step. Assertions are for bugs of the kernel and are not here.

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

/// What a panic said. Its payload is dropped with care, as that is user code too and may panic again.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is no text")
        .to_string();
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    text
}

/// A task as people know it: number, name if it has one, and the line that spawned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLabel {
    /// The task's number.
    pub tid: Tid,
    /// The name it was given, if any.
    pub name: Option<String>,
    /// The line that spawned it.
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
        /// What kind of error it is. The codes are stable and explained in the book, one section each.
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

            /// What to do about it; empty where only the message can say that.
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
    TaskCancelled = "TFY0003", "handle it where you wait, or look for who cancels the task";
    /// A call was made where no task runs.
    OutsideTask = "TFY0004", "make the call inside a task: `tiffany::run(async { … })`";
    /// A task waited for itself.
    SelfWait = "TFY0005", "wait for another task, or return the value";
    /// A race over nothing.
    NothingToRace = "TFY0006", "give race at least one task or future";
    /// There is no such task, or its result is gone.
    UnknownTask = "TFY0007", "keep the handle of a task for as long as its result is wanted";
    /// The handle belongs to another run.
    ForeignRun = "TFY0008", "runs do not share handles: pass values between them by external promises";
    /// The promise was settled before.
    AlreadySettled = "TFY0009", "settle a promise once; the first value stays";
    /// There is no such promise.
    UnknownPromise = "TFY0010", "check the UUID, and that its run has not ended";
    /// The descriptor is not open, or cannot be waited for.
    BadDescriptor = "TFY0011", "wait on an open descriptor of a kind that can be polled";
    /// The descriptor was closed while a task waited on it.
    DescriptorClosed = "TFY0012", "wake or cancel the waiting task before closing its descriptor";
    /// A duration is negative, not a number, or reaches past the end of time.
    BadDuration = "TFY0013", "use a duration the clock can hold";
    /// More tasks than the run allows.
    TaskLimit = "TFY0014", "wait for some tasks before spawning more, or raise `max_tasks`";
    /// More calls than the run allows.
    CallLimit = "TFY0015", "look for a loop that never ends, or raise `max_calls`";
    /// The run took longer than it may.
    TimeLimit = "TFY0016", "raise `max_time`, or split the work";
    /// The run cost more than it may.
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
    /// The other side of a channel is gone.
    ChannelClosed = "TFY0023", "stop sending, or keep a receiver alive";
    /// Nothing is left that could wake the run.
    Deadlock = "TFY0024", "break the cycle: let one of its tasks not wait for the next";
    /// A runtime was started inside a task.
    NestedRuntime = "TFY0025", "spawn a task instead, or start the other runtime on another thread";
    /// A promise was dropped unsettled.
    Abandoned = "TFY0026", "complete or fail the promise before dropping it";
    /// A call was polled by another task than the one that made it.
    MovedCall = "TFY0027", "await a call in the task that first polled it";
    /// The wait took longer than allowed.
    TimedOut = "TFY0028", "allow more time, or handle the timeout";
    /// The host could not do what was asked of it.
    Host = "TFY0029", "see the system's message";
    /// A task has run for long without a call.
    Stuck = "TFY0030", "call `yield_now` now and then, or do long work with `blocking`";
    /// A semaphore or a group whose handle was dropped.
    Gone = "TFY0031", "keep the handle for as long as the thing is used";
    /// An argument that no call of this kind can have.
    BadArgument = "TFY0032", "correct what was given";
    /// More permits than the semaphore has in all.
    TooManyPermits = "TFY0033", "ask for fewer permits, or make the semaphore with more";
    /// A value that has to be written down cannot be.
    Unserializable = "TFY0034", "give that part of the value a form that JSON has";
    /// What was written down cannot be read as the type that is wanted.
    Unreadable = "TFY0035", "correct the input; if an older version of the program wrote it, let the type read that form as well";
    /// A durable run did something else than its log says it did.
    Diverged = "TFY0036", "bring the recorded call back, or let new code live with old runs by `patched`";
    /// An id that belongs to a run with another function or another input.
    OtherRun = "TFY0037", "use another id, or ask for the run that has it";
    /// No function of this name is registered.
    Unregistered = "TFY0038", "register the function before the runtime is built; with `--app`, give the file that has it";
    /// The log has stopped, and with it all that needs it.
    LogFailed = "TFY0039", "mend the cause and open the log again";
    /// A step that must not be done twice was cut off, and nobody knows whether it happened.
    InDoubt = "TFY0040", "find out whether it happened, and go on accordingly; it is not done again";
    /// The log has no run of this identity.
    NoSuchRun = "TFY0041", "check the id, and that this is the directory it was started in";
    /// The run is over: it takes no messages and answers no questions.
    RunOver = "TFY0042", "read its outcome, or start another run";
    /// Who has to do it does not answer.
    Unreachable = "TFY0043", "see with `tiffany doctor` why the process does not answer; in a program, drive the runtime with `wait_for` or `run`";
    /// The run answers no question of this name.
    NoSuchQuestion = "TFY0044", "let the run answer it by `on_question`, or ask it later";
    /// Something was yielded that is no call.
    NotACall = "TFY0045", "yield a call, a generator or coroutine, or nothing";
    /// A runtime was used on another thread than its own.
    WrongThread = "TFY0046", "use a runtime on the thread that made it; other threads go through its handle";
    /// A runtime was used in a process that was forked from its own.
    Forked = "TFY0047", "start a runtime after the fork, or use `spawn` as the start method of `multiprocessing`";
    /// A program was to run that had begun before.
    Begun = "TFY0048", "call its function again, which gives a new one";
    /// The package was imported in a sub-interpreter.
    Subinterpreter = "TFY0049", "import it in the main interpreter, and use processes for more processors";
    /// A key in the user's database belongs to another run.
    OtherKey = "TFY0050", "give each log directory a table of its own, or remove the keys of the run that is gone";
    /// A saga failed, and not all that it had done could be undone.
    NotUndone = "TFY0051", "undo what is named by hand";
    /// A step ended with an exception that cannot be made again from what was written down.
    StepFailed = "TFY0052", "let its class be importable under the same name, with arguments that can be written down";
    /// A program yielded again when it was to end.
    NotEnding = "TFY0054", "let `Cancelled` and `GeneratorExit` pass, and yield nothing after them";
    /// A call of Python's was thrown away before anybody made it.
    NeverMade = "TFY0055", "write `await` or `yield` before it";
    /// Somebody was about to stop a loop of asyncio that others use.
    SharedLoop = "TFY0056", "return from the step; the loop is tiffany's, and ends with the process";
    /// A call of `tiffany.pyos` where no scheduler of `tiffany.pyos` runs.
    NoPyosScheduler = "TFY0057", "start the task with `Scheduler.new`, or yield the call of that name from `tiffany`";
    /// A crash changed what a workflow does.
    NotCrashProof = "TFY0058", "repeat the simulation that is named, and look at what the workflow does outside its steps";
    /// Code and the log that was kept of it have parted ways.
    GoldenLog = "TFY0059", "if that is meant, record the log anew, by `pytest --golden-update` or `replay RUN --capture DIR --force`";
    /// A record that is no answer was to be changed in a fork.
    NotAnAnswer = "TFY0116", "give the number of an `EffectResult`, an `ApprovalDecided`, a `PromiseSettled` or a `Message`; `log` lists them";
    /// A run cannot be forked there.
    NotForkable = "TFY0117", "fork it at another record; `log` lists them";
    /// An answer for a fork has another shape than the recorded one.
    OtherShape = "TFY0118", "give an answer of the same shape, or say that it is meant: `as_is`, `--as-is`";
    /// A fork needs an effect that its parent has no answer for and that nobody has allowed.
    NotAllowed = "TFY0119", "permit it with `fork FORK --allow NAME`, or leave the fork as it is";
    /// A run cannot begin anew here.
    CannotContinue = "TFY0125", "wait for all tasks, then call `continue_as` in the root";
    /// A run cannot be written down as a whole.
    NoSnapshot = "TFY0126", "let every task be a registered state machine that waits, or use `continue_as`";
    /// What was written down of a run cannot be made a run again.
    NotRestored = "TFY0127", "register the state machine under the name it had, and let its type read what older versions wrote";
    /// The run was removed; its id stays taken.
    RunRemoved = "TFY0130", "start another run under another id, or restore the log from a backup";
    /// Of the run only its beginning and its end are left.
    RunCompacted = "TFY0131", "see by `show` what came of it; what happened on the way is in older backups only";
    /// The run is not over.
    NotOver = "TFY0132", "wait for its end, or end it by `cancel` and, if no process has the directory, `resume`; then do it again";
    /// A fork that is not over takes answers from the run.
    NeededByFork = "TFY0133", "wait for the fork's end, or end it by `cancel` and, if no process has the directory, `resume`; then do it again";
    /// The run is not any more what it was when it was read.
    ReadTooEarly = "TFY0134", "do it again";
    /// Events are of a process, and none has the log.
    NoActivity = "TFY0150", "start the program that the runs belong to; what is written down of them is shown by `log`";
    /// No person answered a question in time.
    ApprovalTimedOut = "TFY0180", "ask again, or say in the program what holds when nobody answers";
    /// No such question is open.
    NoSuchApproval = "TFY0181", "list the open ones with `tiffany approve`";
    /// The question has its answer.
    ApprovalDecided = "TFY0182", "the first answer holds; see it by `show`";
    /// The question does not have this choice.
    BadChoice = "TFY0183", "give one of its choices, which `tiffany approve` lists";
    /// A person said no.
    Rejected = "TFY0184", "see by `show` who said so and why; change what was asked for, and ask again";
    /// Something was to be called by a name that has a secret in it.
    SecretName = "TFY0192", "give it a name without what the rules of redaction take out";
    /// A value from outside the program that no program could read.
    RefusedValue = "TFY0220", "send JSON with at most 100 levels, numbers within the range of a double, whole surrogate pairs, and each name once in an object";
    /// Calls that share the runtime of a directory want other settings.
    OtherSettings = "TFY0221", "give all calls on one directory the same settings";
    /// The directory is in use by another event loop of this process.
    OtherLoop = "TFY0222", "await the call on that loop, or use another directory";
    /// A call that waits was made inside a running event loop.
    RunningLoop = "TFY0223", "write `await tiffany.arun(...)` instead";
    /// The log of a run follows rules that this version does not know.
    UnknownRules = "TFY0230", "open the directory with the version that started the run, or a newer one";
    /// A person or a limit holds the run.
    RunHeld = "TFY0235", "see why with `tiffany show`, then let it continue with `tiffany hold RUN --release`, or end it with `tiffany cancel`";
    /// The run is not held.
    NotHeld = "TFY0236", "see the state of the run with `tiffany show`";
    /// The run has not received the messages that it was sent before.
    InboxFull = "TFY0237", "send it again later, when the run has received some of them, or raise `messages` or `message_bytes` of the run limits";
    /// An async step kept the loop that all async steps share for too long and was interrupted.
    StepInterrupted = "TFY0240", "make it a plain `def` step, which has a thread of its own; or raise `turn` of the run limits";
    /// Code outside turns, such as what reads an input, took too long and was interrupted.
    Interrupted = "TFY0245", "let that code do less, and move long work into a step; or raise `turn` of the run limits";
    /// A run can't be read that may be a fork of the run, and so may need its answers.
    MayBeNeeded = "TFY0254", "restore the file of the run that can't be read from a copy, or remove that run with `tiffany rm --damaged`; then do it again";
    /// A run that isn't damaged was to be removed as a damaged one.
    NotDamaged = "TFY0256", "end it with `tiffany cancel` and remove it with `tiffany rm`";
}

/// Where an error was raised in code of another language, and the way there. It is written down with the error, and makes no error another one: lines move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// The innermost line that is the program's own.
    pub at: Site,
    /// The way there as that language shows it, the innermost last.
    pub lines: Vec<String>,
}

impl Trace {
    /// So many lines are kept.
    pub const MAX_LINES: usize = 40;
    /// So many characters of each.
    pub const MAX_LINE_CHARS: usize = 200;

    /// One that is short enough to be written down again and again: of a long way the first lines go, of a long line its end.
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

/// An error a task was given, or ended with.
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

/// The trace of an error, if it has one; with or without, it is the same error.
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

/// The error as another language has it. It stays in the process, and makes no error another one.
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
    /// An error with a message of one lower-case clause.
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

    /// An error of the task's own.
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

    /// Whether it says that a task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.kind == ErrorKind::TaskCancelled
    }

    /// What happened, without task, call and next step.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The task it happened in.
    pub fn task(&self) -> Option<&TaskLabel> {
        self.0.task.as_ref()
    }

    /// The line of the call it happened at.
    pub fn call_site(&self) -> Option<&Site> {
        self.0.call.as_ref().map(|(_, site)| site)
    }

    /// The tasks the error went through after the one it happened in, in that order.
    pub fn through(&self) -> &[TaskLabel] {
        &self.0.through
    }

    /// The labels of the parts of the task it happened in, outermost first.
    pub fn within(&self) -> &[Cow<'static, str>] {
        &self.0.within
    }

    /// The same error, said to have happened inside these labelled parts of its task.
    pub fn add_labels(&mut self, labels: &[Cow<'static, str>]) {
        if self.0.within.is_empty() {
            self.0.within.extend_from_slice(labels);
        }
    }

    /// The same error, with what another language needs to make its own error of it again. It is written down with it.
    pub fn with_detail(mut self, detail: String) -> TaskError {
        self.0.detail = Some(detail);
        self
    }

    /// What another language needs to make its own error of this one.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The same error, without what another language would make its own error of.
    #[must_use]
    pub fn without_detail(mut self) -> TaskError {
        self.0.detail = None;
        self
    }

    /// The same error, with the line of another language where it was raised, and the way there. It is written down with it.
    pub fn with_trace(mut self, trace: Trace) -> TaskError {
        self.0.trace = Raised(Some(Box::new(trace)));
        self
    }

    /// Where it was raised in another language, and the way there, if that is known.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.trace.0.as_deref()
    }

    /// The same error, with what it is in another language.
    pub fn with_origin<T: Any + Send + Sync>(mut self, origin: T) -> TaskError {
        self.0.origin = Origin(Some(Arc::new(origin)));
        self
    }

    /// What it is in another language, if it comes from there and has not left the process.
    pub fn origin<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.origin.0.as_ref()?.downcast_ref()
    }

    /// The same error, said to have happened in this task.
    pub(crate) fn in_task(mut self, task: impl FnOnce() -> TaskLabel) -> TaskError {
        if self.0.task.is_none() {
            self.0.task = Some(task());
        }
        self
    }

    /// The same error, said to have happened at this call.
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

    /// Says that it happened in this call at this line, unless that is known already.
    pub fn add_call(&mut self, call: &'static str, at: impl Into<Site>) {
        if self.0.call.is_none() {
            self.0.call = Some((Cow::Borrowed(call), at.into()));
        }
    }

    /// Says that it happened in this task, unless that is known already.
    pub fn add_task(&mut self, task: TaskLabel) {
        self.0.task.get_or_insert(task);
    }

    /// The same error, having ended this task too.
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
        // Lines move, and the error is the same.
        assert_eq!(traced, plain);
        assert_eq!(traced, plain.with_trace(Trace::new(at(8), [])));
    }
}
