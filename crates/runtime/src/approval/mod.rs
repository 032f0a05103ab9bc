//! Approvals: a task asks a person, and waits for the answer. This file is what a task sees of it; `ruling.rs` is what the
//! person says, `open.rs` the questions that a runtime has open.

mod moment;
mod open;
pub(crate) mod ruling;

use std::future::IntoFuture;
use std::panic::Location;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tiffany_kernel::{Asking, CallKind, ErrorKind, SystemCall, TaskError, Time, Value};

use crate::call::TryCall;
use crate::durable::{Json, Written, encode};
use tiffany_log::Stamp;

pub(crate) use open::Approvals;
pub use ruling::user_name;
pub use ruling::{OpenApproval, Ruling};
pub(crate) use ruling::{Place, decided_already, no_such_approval, own_uid};

/// The choices of a question that is given none.
const YES_OR_NO: [&str; 2] = ["yes", "no"];

/// Asks a person, and waits for the answer: for days if need be, and over restarts.
///
/// The question is open until somebody decides it: by `tiffany approve` and `tiffany reject`, by
/// [`Control::resolve`](crate::control::Control::resolve) or [`Runtime::resolve`](crate::Runtime::resolve). The first answer holds. A rejection is an
/// answer and no error, unless that is asked for by [`granted`](Approval::granted). If nobody answers in [time](Approve::timeout), that is the error
/// [`ApprovalTimedOut`](ErrorKind::ApprovalTimedOut).
///
/// ```
/// use std::time::Duration;
/// use tiffany::control::Ruling;
/// use tiffany::{Runtime, TaskError, approve};
///
/// let mut runtime = Runtime::new()?;
/// let mut control = runtime.handle().control();
/// let person = std::thread::spawn(move || -> Result<(), TaskError> {
///     let open = loop {
///         if let Some(open) = control.approvals()?.pop() {
///             break open;
///         }
///     };
///     assert_eq!(open.question, "Refund 40 EUR?");
///     control.resolve(&open.id, Ruling::yes().by("Ada").because("they are right")).map(drop)
/// });
/// let answer = runtime.try_run(async {
///     approve("Refund 40 EUR?").timeout(Duration::from_secs(3600)).await?.granted()
/// })?;
/// assert_eq!((answer.choice.as_str(), answer.by.as_str()), ("yes", "Ada"));
/// person.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn approve(question: impl Into<String>) -> Approve {
    let choices = YES_OR_NO.map(str::to_owned).into();
    let question = Question { question: question.into(), choices };
    Approve { question, payload: None, timeout: None, at: Location::caller() }
}

/// A question that is about to be asked.
#[must_use = "nobody is asked until this is awaited: add `.await`"]
pub struct Approve {
    question: Question,
    payload: Option<Result<String, TaskError>>,
    timeout: Option<Duration>,
    at: &'static Location<'static>,
}

impl Approve {
    /// What can be chosen, at least two different texts; `yes` and `no` unless it is said. The last one is the rejection.
    pub fn choices<C: Into<String>>(mut self, choices: impl IntoIterator<Item = C>) -> Approve {
        self.question.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// What the person has to see to decide. A resumed run that shows something else is told so, as with the question and the choices: an
    /// answer holds for what was seen.
    pub fn payload(mut self, payload: &impl Serialize) -> Approve {
        self.payload = Some(encode(payload));
        self
    }

    /// How long an answer is waited for; without this, for ever.
    pub fn timeout(mut self, timeout: Duration) -> Approve {
        self.timeout = Some(timeout);
        self
    }

    /// The call, whose answer is read in any way.
    pub(crate) fn into_call<R, D>(self) -> TryCall<R, D> {
        let Approve { question, payload, timeout, at } = self;
        let about = question.check().and_then(|()| encode(&question));
        match about.and_then(|about| Ok((about, payload.transpose()?))) {
            Ok((about, payload)) => {
                let (about, payload) = (about.into(), payload.map(Into::into));
                let asking = Asking { about, payload, timeout };
                TryCall::new_at(SystemCall::Approve(Box::new(asking)), at)
            }
            Err(error) => TryCall::bad_at(CallKind::Approve, error, at),
        }
    }
}

impl IntoFuture for Approve {
    type Output = Result<Approval, TaskError>;
    type IntoFuture = TryCall<Approval, Written>;

    fn into_future(self) -> TryCall<Approval, Written> {
        self.into_call()
    }
}

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// What was chosen.
    pub choice: String,
    /// Whether that is the last of the choices: the rejection.
    #[serde(default)]
    pub rejected: bool,
    /// Who decided.
    pub by: String,
    /// The number of the user on the machine, if it was decided there: not what somebody says, but what the system says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Why, if it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When.
    #[serde(with = "moment", default, skip_serializing_if = "is_unknown")]
    pub at: Time,
}

fn is_unknown(at: &Time) -> bool {
    *at == Time::ZERO
}

/// An answer as the log has it, with the moment of its record, as its task is given it.
pub(crate) fn stamped(answer: &Value, at: Time) -> Value {
    let Some(json) = answer.borrow::<Json>() else { return answer.clone() };
    match json.0.strip_suffix('}').filter(|open| open.len() > 1) {
        Some(open) => {
            let at = Stamp::from_unix_nanos(at.as_nanos());
            Value::new(Json::new(format!("{open},\"at\":\"{}\"}}", at.as_str())))
        }
        None => answer.clone(),
    }
}

impl Approval {
    /// As the log has it, whose records have their moments.
    pub(crate) fn value(&self) -> Result<Value, TaskError> {
        let unstamped = Approval { at: Time::ZERO, ..self.clone() };
        Ok(Value::new(Json::new(encode(&unstamped)?)))
    }

    /// What a handler or a test answers in the place of a person.
    ///
    /// ```
    /// use tiffany::testing::TestScheduler;
    /// use tiffany::{Approval, Reply, Runtime, SystemCall, Value, Verdict, approve, handler};
    ///
    /// let yes = handler("yes", |call, _| match call {
    ///     SystemCall::Approve(_) => {
    ///         Verdict::Answer(Reply::Value(Value::new(Approval::new("yes", "a test"))))
    ///     }
    ///     _ => Verdict::Pass,
    /// });
    /// let mut test = TestScheduler::with(Runtime::builder().handler(yes));
    /// let answer = test.run(async { approve("Ship?").await }).unwrap();
    /// assert!(answer.unwrap().is("yes"));
    /// ```
    pub fn new(choice: impl Into<String>, by: impl Into<String>) -> Approval {
        let (choice, by) = (choice.into(), by.into());
        Approval { choice, rejected: false, by, uid: None, why: None, at: Time::ZERO }
    }

    /// The same, if it is no rejection. That is the error [`Rejected`](ErrorKind::Rejected) then, which says who said so and why.
    ///
    /// ```no_run
    /// # use tiffany::{TaskError, approve};
    /// # async fn deploy() -> Result<(), TaskError> {
    /// approve("Deploy to production?").await?.granted()?;
    /// # Ok(()) }
    /// ```
    pub fn granted(self) -> Result<Approval, TaskError> {
        if !self.rejected {
            return Ok(self);
        }
        let why = self.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("{} said `{}`{why}", self.by, self.choice);
        Err(TaskError::new(ErrorKind::Rejected, message))
    }

    /// Whether this was chosen.
    pub fn is(&self, choice: &str) -> bool {
        self.choice == choice
    }
}

/// A question as the log has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) choices: Vec<String>,
}

impl Question {
    fn check(&self) -> Result<(), TaskError> {
        let bad = |message: String| Err(TaskError::new(ErrorKind::BadArgument, message));
        let choices = &self.choices;
        if self.question.trim().is_empty() {
            return bad("a person is asked nothing: the question is empty".into());
        }
        if choices.iter().any(|choice| choice.trim().is_empty()) {
            return bad(format!("a choice of {:?} is empty", self.question));
        }
        let twice = (1..choices.len()).find(|at| choices[..*at].contains(&choices[*at]));
        if let Some(at) = twice {
            let (question, choice) = (&self.question, &choices[at]);
            return bad(format!("{question:?} has the choice {choice:?} twice"));
        }
        match choices.len() {
            0 | 1 => bad(format!("{:?} leaves no choice: give it at least two", self.question)),
            _ => Ok(()),
        }
    }
}
