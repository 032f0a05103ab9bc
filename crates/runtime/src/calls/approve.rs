//! Approvals: a task asks a person, and waits for the answer. This file is the task's side;
//! `request/approval.rs` in `records` has the answer, `runtime/approvals.rs` the open questions of
//! a runtime.

use std::future::IntoFuture;
use std::panic::Location;
use std::time::Duration;

use serde::Serialize;
use tiffany_kernel::{Asking, CallKind, SystemCall, TaskError};

use crate::calls::call::TryCall;
use crate::calls::written::Written;
use tiffany_records::request::{Approval, Question};
use tiffany_records::value::encode;

/// The choices of a question without choices of its own.
const YES_OR_NO: [&str; 2] = ["yes", "no"];

/// Asks a person a question, and waits for the answer, for days if necessary and across restarts.
///
/// The question stays open until a person answers it: with `tiffany approve`,
/// [`Control::resolve`](crate::control::Control::resolve) or
/// [`Runtime::resolve`](crate::runtime::Runtime::resolve). The first answer counts. A rejection is
/// an answer and not an error, unless [`granted`](Approval::granted) is called on it. If the
/// [timeout](Approve::timeout) passes without an answer, the error is
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
#[must_use = "no person is asked until this is awaited: add `.await`"]
pub struct Approve {
    question: Question,
    payload: Option<Result<String, TaskError>>,
    timeout: Option<Duration>,
    at: &'static Location<'static>,
}

impl Approve {
    /// Sets the choices: at least two different texts, `yes` and `no` by default. The last one is
    /// the rejection.
    pub fn choices<C: Into<String>>(mut self, choices: impl IntoIterator<Item = C>) -> Approve {
        self.question.choices = choices.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the data that the person needs for the decision. If a resumed run asks with another
    /// payload, question or choices, that is an error: an answer is valid only for what the person
    /// saw.
    pub fn payload(mut self, payload: &impl Serialize) -> Approve {
        self.payload = Some(encode(payload));
        self
    }

    /// Sets how long the task waits for an answer; without a timeout it waits forever.
    pub fn timeout(mut self, timeout: Duration) -> Approve {
        self.timeout = Some(timeout);
        self
    }

    /// The call, with any decoding of its reply.
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
