//! Approvals: a task asks a person, and waits for the answer. This file is what a task sees of it; `ruling.rs` is what the
//! person says, `open.rs` the questions that a runtime has open.

use std::future::IntoFuture;
use std::panic::Location;
use std::time::Duration;

use serde::Serialize;
use tiffany_kernel::{Asking, CallKind, SystemCall, TaskError};

use crate::calls::call::TryCall;
use crate::calls::written::Written;
use tiffany_records::request::{Approval, Question};
use tiffany_records::value::encode;

/// The choices of a question that is given none.
const YES_OR_NO: [&str; 2] = ["yes", "no"];

/// Asks a person, and waits for the answer: for days if need be, and over restarts.
///
/// The question is open until a person decides it: with `tiffany approve`, by
/// [`Control::resolve`](crate::control::Control::resolve) or [`Runtime::resolve`](crate::runtime::Runtime::resolve). The first answer holds. A rejection is an
/// answer and no error, unless that is asked for by [`granted`](Approval::granted). If nobody answers in [time](Approve::timeout), that is the error
/// [`ApprovalTimedOut`](crate::ErrorKind::ApprovalTimedOut).
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
