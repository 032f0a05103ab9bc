//! Open questions as the people who decide them see them, and their answers. It knows nothing of
//! runs.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Time, Value};

use crate::moment;
use crate::value::{Json, decode, encode};
use tiffany_log::{Stamp, to_the_second};

/// The maximum lengths of a name and of a reason, in bytes.
const MAX_NAME_BYTES: usize = 256;
const MAX_REASON_BYTES: usize = 64 << 10;

/// A question that waits for a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenApproval {
    /// The id with which it is decided: the run and the record of the call, `<run>/<record>`.
    pub id: String,
    /// Its run: the UUID, or the number if the run has no log.
    pub run: String,
    /// The id that its run was started with; `None` without a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The number of the task that asks.
    pub tid: u64,
    /// The name of that task, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The question.
    pub question: String,
    /// The choices. The last one is the rejection.
    pub choices: Vec<String>,
    /// Data that the person needs for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// When it was asked.
    #[serde(with = "moment")]
    pub since: Time,
    /// When it times out; `None` if it never does.
    #[serde(default, with = "moment::maybe", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

/// The circumstances of a question, without the question itself.
pub struct Place {
    /// The id with which the question is decided.
    pub id: String,
    /// Its run.
    pub run: String,
    /// The id that its run was started with.
    pub run_id: Option<String>,
    /// The number of the task that asks.
    pub tid: u64,
    /// The name of that task.
    pub task: Option<String>,
    /// When it was asked.
    pub since: Time,
    /// When it times out.
    pub deadline: Option<Time>,
}

impl OpenApproval {
    /// Makes an open question. `about` and `payload` are JSON from the log or from a task.
    pub fn new(
        about: &str,
        payload: Option<&str>,
        place: Place,
    ) -> Result<OpenApproval, TaskError> {
        let Question { question, choices } = decode(about)?;
        let payload = payload.map(decode).transpose()?;
        let Place { id, run, run_id, tid, task, since, deadline } = place;
        Ok(OpenApproval { id, run, run_id, tid, task, question, choices, payload, since, deadline })
    }
}

/// A person's answer to a question.
///
/// ```
/// use tiffany_records::request::Ruling;
///
/// let ruling = Ruling::no().by("Ada").because("not on a Friday");
/// # drop(ruling);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ruling {
    pick: Pick,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Pick {
    Yes,
    No,
    Choice(String),
}

impl Ruling {
    /// Picks the first of two choices. If there are more, use [`Ruling::choice`].
    pub fn yes() -> Ruling {
        Ruling::of(Pick::Yes)
    }

    /// Picks the last of the choices: the rejection.
    pub fn no() -> Ruling {
        Ruling::of(Pick::No)
    }

    /// Picks this choice.
    pub fn choice(choice: impl Into<String>) -> Ruling {
        Ruling::of(Pick::Choice(choice.into()))
    }

    /// Returns `approve` or `reject`.
    pub fn word(&self) -> &'static str {
        match self.pick {
            Pick::Yes | Pick::Choice(_) => "approve",
            Pick::No => "reject",
        }
    }

    fn of(pick: Pick) -> Ruling {
        Ruling { pick, by: None, uid: None, why: None }
    }

    /// Sets the name of the person. Requests through the socket of a directory also have the user's
    /// number, which the system reports; without this name, the name of that user is recorded.
    pub fn by(mut self, name: impl Into<String>) -> Ruling {
        self.by = Some(name.into());
        self
    }

    /// Sets the reason.
    pub fn because(mut self, why: impl Into<String>) -> Ruling {
        self.why = Some(why.into());
        self
    }

    /// Returns whether it has a reason.
    pub fn has_reason(&self) -> bool {
        self.why.is_some()
    }

    /// Sets the user that the system reports, instead of what the client claims.
    pub fn asked_by_user(mut self, uid: u32) -> Ruling {
        self.uid = Some(uid);
        self
    }

    /// Makes the answer to this question; fails if the ruling does not fit it.
    pub fn decide(self, open: &OpenApproval, at: Time) -> Result<Approval, TaskError> {
        let (choice, rejected) = self.pick(open)?;
        let uid = self.uid;
        let by = self.by.unwrap_or_else(|| user_name(uid.unwrap_or_else(own_uid)));
        check_length("a name", &by, MAX_NAME_BYTES)?;
        check_length("a reason", self.why.as_deref().unwrap_or_default(), MAX_REASON_BYTES)?;
        Ok(Approval { choice, rejected, by, uid, why: self.why, at })
    }

    fn pick(&self, open: &OpenApproval) -> Result<(String, bool), TaskError> {
        let choices = &open.choices;
        let place = match &self.pick {
            Pick::Yes if choices.len() == 2 => Some(0),
            Pick::Yes => {
                let message = format!("{:?} has the choices {}", open.question, listed(choices));
                return Err(TaskError::new(ErrorKind::BadChoice, message));
            }
            Pick::No => choices.len().checked_sub(1),
            Pick::Choice(choice) => choices.iter().position(|other| other == choice),
        };
        match (place.and_then(|place| choices.get(place)), &self.pick) {
            (Some(choice), _) => Ok((choice.clone(), choices.last() == Some(choice))),
            (None, Pick::Choice(choice)) => {
                let (question, choices) = (&open.question, listed(choices));
                let message = format!("{question:?} has no choice `{choice}`: it has {choices}");
                Err(TaskError::new(ErrorKind::BadChoice, message))
            }
            (None, _) => {
                let message = format!("{:?} has no choices", open.question);
                Err(TaskError::new(ErrorKind::BadChoice, message))
            }
        }
    }
}

fn listed(choices: &[String]) -> String {
    let choices: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
    choices.join(", ")
}

fn check_length(what: &str, text: &str, longest: usize) -> Result<(), TaskError> {
    match text.len() > longest {
        true => {
            let message = format!("{what} of {} bytes is longer than {longest}", text.len());
            Err(TaskError::new(ErrorKind::BadArgument, message))
        }
        false => Ok(()),
    }
}

/// Returns the user ID of this process.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the name of a user on this machine, or the number if the user has no name.
pub fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {uid}"))
}

/// Makes the error for a question that is not open.
pub fn no_such_approval(id: &str) -> TaskError {
    let message = format!(
        "no approval `{id}` is open: it does not exist, is decided, was withdrawn, or has timed out"
    );
    TaskError::new(ErrorKind::NoSuchApproval, message)
}

/// Makes the error for a decision that comes too late.
pub fn decided_already(id: &str, first: &Approval) -> TaskError {
    let Approval { choice, by, why, at, .. } = first;
    let when = match *at {
        Time::ZERO => String::new(),
        at => format!(" at {}", to_the_second(Stamp::from_unix_nanos(at.as_nanos()).as_str())),
    };
    let why = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
    let message = format!("the approval `{id}` is decided: {by} said `{choice}`{when}{why}");
    TaskError::new(ErrorKind::ApprovalDecided, message)
}

/// The recorded answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The choice.
    pub choice: String,
    /// Whether the choice is the last one: the rejection.
    #[serde(default)]
    pub rejected: bool,
    /// The name of the person who decided.
    pub by: String,
    /// The user ID on this machine as the system reports it, if the decision was made there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The reason, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was decided.
    #[serde(with = "moment", default, skip_serializing_if = "is_unknown")]
    pub at: Time,
}

fn is_unknown(at: &Time) -> bool {
    *at == Time::ZERO
}

/// Adds the time of its record to an answer from the log, for the task that gets it.
pub fn stamped(answer: &Value, at: Time) -> Value {
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
    /// Returns the answer as the log has it, where the time is that of the record.
    pub fn value(&self) -> Result<Value, TaskError> {
        let unstamped = Approval { at: Time::ZERO, ..self.clone() };
        Ok(Value::new(Json::new(encode(&unstamped)?)))
    }

    /// Makes an answer for a handler or a test that decides instead of a person.
    ///
    /// ```
    /// use tiffany_records::request::Approval;
    ///
    /// let answer = Approval::new("yes", "a test");
    /// assert!(answer.is("yes") && answer.granted().is_ok());
    /// ```
    pub fn new(choice: impl Into<String>, by: impl Into<String>) -> Approval {
        let (choice, by) = (choice.into(), by.into());
        Approval { choice, rejected: false, by, uid: None, why: None, at: Time::ZERO }
    }

    /// Returns the approval. A rejection becomes the error [`Rejected`](ErrorKind::Rejected), which
    /// says who decided and why.
    ///
    /// ```
    /// use tiffany_records::request::Approval;
    ///
    /// let rejected = Approval { rejected: true, ..Approval::new("no", "Ada") };
    /// assert!(rejected.granted().is_err());
    /// ```
    pub fn granted(self) -> Result<Approval, TaskError> {
        if !self.rejected {
            return Ok(self);
        }
        let why = self.why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("{} said `{}`{why}", self.by, self.choice);
        Err(TaskError::new(ErrorKind::Rejected, message))
    }

    /// Returns whether this choice was made.
    pub fn is(&self, choice: &str) -> bool {
        self.choice == choice
    }
}

/// A question in the form of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The question.
    pub question: String,
    /// The choices; the last one is the rejection.
    pub choices: Vec<String>,
}

impl Question {
    /// Fails if the question or a choice is empty, or there are not at least two distinct choices.
    pub fn check(&self) -> Result<(), TaskError> {
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
            0 | 1 => bad(format!("{:?} has no alternatives: give it at least two", self.question)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(choices: &[&str]) -> OpenApproval {
        let about = serde_json::json!({ "question": "Ship?", "choices": choices }).to_string();
        let (since, deadline) = (Time::ZERO, None);
        let (id, run) = ("1/1".into(), "1".into());
        let place = Place { id, run, run_id: None, tid: 1, task: None, since, deadline };
        OpenApproval::new(&about, None, place).unwrap()
    }

    #[test]
    fn yes_is_the_first_of_two_and_no_is_the_last_of_any() {
        let (two, three) = (open(&["ship", "hold"]), open(&["a", "b", "c"]));
        let (ok, bad) = (|choice, rejected| Ok((choice, rejected)), Err("TFY0183"));
        for (ruling, open, expected) in [
            (Ruling::yes(), &two, ok("ship", false)),
            (Ruling::no(), &two, ok("hold", true)),
            (Ruling::yes(), &three, bad),
            (Ruling::no(), &three, ok("c", true)),
            (Ruling::choice("b"), &three, ok("b", false)),
            (Ruling::choice("c"), &three, ok("c", true)),
            (Ruling::choice("d"), &three, bad),
            (Ruling::choice(""), &two, bad),
        ] {
            let told = format!("{ruling:?}");
            let decided = ruling.by("Ada").decide(open, Time::ZERO);
            let decided = decided.as_ref().map(|is| (is.choice.as_str(), is.rejected));
            assert_eq!(decided.map_err(TaskError::code), expected, "{told}");
        }
    }

    #[test]
    fn a_user_that_the_client_claims_to_be_is_ignored() {
        let claimed: Ruling =
            serde_json::from_str(r#"{"pick":"yes","by":"root","uid":0}"#).unwrap();
        let decided =
            claimed.asked_by_user(4242).decide(&open(&["yes", "no"]), Time::ZERO).unwrap();
        assert_eq!((decided.by.as_str(), decided.uid), ("root", Some(4242)));
        let unnamed = Ruling::yes().asked_by_user(u32::MAX - 7);
        let decided = unnamed.decide(&open(&["yes", "no"]), Time::ZERO).unwrap();
        assert_eq!(decided.by, format!("user {}", u32::MAX - 7));
    }

    #[test]
    fn names_and_reasons_have_a_maximum_length() {
        let open = open(&["yes", "no"]);
        let long = "x".repeat(MAX_REASON_BYTES + 1);
        for ruling in [Ruling::yes().by(&long[..MAX_NAME_BYTES + 1]), Ruling::yes().because(&long)]
        {
            let error = ruling.decide(&open, Time::ZERO).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadArgument);
        }
        let ruling = Ruling::yes().by(&long[..MAX_NAME_BYTES]).because(&long[..MAX_REASON_BYTES]);
        assert!(ruling.decide(&open, Time::ZERO).is_ok());
    }
}
