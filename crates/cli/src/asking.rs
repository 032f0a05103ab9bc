//! Handles the questions of a run that a command waits for: they are asked at the terminal; or
//! denied, so that nothing hangs without a person; or left to others.

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, IsTerminal, Write};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::approvals;
use super::args::{AboutApprovals, ToDoAboutApprovals};
use super::error::{CliError, Ending};
use super::out::clean;
use super::place::Place;
use tiffany::control::{OpenApproval, Ruling};

/// The reason for a denied question.
const NOBODY: &str = "no person could be asked: the command that waits for the run had no terminal, or was told to deny";

impl ToDoAboutApprovals {
    /// Returns whether one of the options was given.
    pub(super) fn is_given(self) -> bool {
        self.approvals.is_some() || self.deny_approvals
    }

    /// Returns how to handle questions. Without an option, they are asked if standard input is a
    /// terminal, and otherwise handled as `unasked` says.
    pub(super) fn manner(self, unasked: AboutApprovals) -> Result<AboutApprovals, Ending> {
        let can_ask = std::io::stdin().is_terminal();
        match (self.approvals, self.deny_approvals) {
            (_, true) => Ok(AboutApprovals::Deny),
            (Some(AboutApprovals::Ask), _) if !can_ask => {
                let message = "`--approvals ask` takes a terminal as standard input";
                Err(CliError::Usage(message.into()).into())
            }
            (Some(manner), _) => Ok(manner),
            (None, _) if can_ask => Ok(AboutApprovals::Ask),
            (None, _) => Ok(unasked),
        }
    }
}

/// The questions of a run.
pub(super) struct Questions<'a> {
    place: &'a Place,
    run: Uuid,
    manner: AboutApprovals,
    /// The records of questions that are handled or queued.
    known: BTreeSet<u64>,
    /// The queued questions with their records; the first one is being asked.
    to_ask: VecDeque<(u64, OpenApproval)>,
    is_asked: bool,
    typed: Option<Receiver<String>>,
    pub(super) denied: usize,
}

impl<'a> Questions<'a> {
    pub(super) fn new(place: &'a Place, run: Uuid, manner: AboutApprovals) -> Questions<'a> {
        let (known, to_ask) = (BTreeSet::new(), VecDeque::new());
        Questions { place, run, manner, known, to_ask, is_asked: false, typed: None, denied: 0 }
    }

    /// Handles the open questions, given by the records of their calls. Returns `true` while one is
    /// being asked and so uses the terminal.
    pub(super) fn look(&mut self, open: &BTreeSet<u64>) -> Result<bool, Ending> {
        self.known.retain(|record| open.contains(record));
        if self.manner != AboutApprovals::Wait && open.iter().any(|one| !self.known.contains(one)) {
            self.find(open)?;
        }
        while let Some((record, _)) = self.to_ask.front() {
            if open.contains(record) {
                break;
            }
            if std::mem::take(&mut self.is_asked) {
                eprintln!("\nthe question is not open any more");
            }
            self.to_ask.pop_front();
        }
        self.listen()?;
        self.ask();
        Ok(self.is_asked)
    }

    /// Reads the new questions, and denies or queues them.
    fn find(&mut self, open: &BTreeSet<u64>) -> Result<(), Ending> {
        let found = match approvals::read(self.place, &self.place.look()?) {
            Ok((found, _)) => found,
            // The process is starting or ending; later there is another one, or none.
            Err(Ending::Error(error)) if error.code == ErrorKind::Unreachable.code() => {
                return Ok(());
            }
            Err(ending) => return Err(ending),
        };
        let run = self.run.to_string();
        for approval in found.into_iter().filter(|approval| approval.run == run) {
            let record = approval.id.rsplit(['/', '.']).next().and_then(|text| text.parse().ok());
            let Some(record) = record.filter(|record| open.contains(record)) else { continue };
            if !self.known.insert(record) {
                continue;
            }
            match self.manner {
                AboutApprovals::Deny => self.deny(record, &approval)?,
                _ => self.to_ask.push_back((record, approval)),
            }
        }
        Ok(())
    }

    fn deny(&mut self, record: u64, approval: &OpenApproval) -> Result<(), Ending> {
        match self.resolve(approval, Ruling::no().because(NOBODY)) {
            Ok(true) => {
                self.denied += 1;
                let (question, run) = (clean(&approval.question), &approval.run);
                eprintln!(
                    "tiffany: denied, because no person can be asked: {question} (run {run})"
                );
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Unreachable => {
                self.known.remove(&record);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a question. Returns `false` if another answer came first.
    fn resolve(&self, approval: &OpenApproval, ruling: Ruling) -> Result<bool, TaskError> {
        let decided = self.place.control()?.resolve(&approval.id, ruling);
        match decided.map_err(|error| (error.kind(), error)) {
            Ok(_) => Ok(true),
            Err((
                ErrorKind::NoSuchApproval | ErrorKind::ApprovalDecided | ErrorKind::RunOver,
                _,
            )) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }

    /// Asks the first queued question.
    fn ask(&mut self) {
        let Some((_, approval)) = self.to_ask.front().filter(|_| !self.is_asked) else { return };
        let mut text = format!("\n{}\n", clean(&approval.question));
        if let Some(payload) = &approval.payload {
            text.push_str(&format!("  {}\n", clean(payload.get())));
        }
        let choices: Vec<String> = approval.choices.iter().map(|c| clean(c).into_owned()).collect();
        text.push_str(&format!("{} (Enter leaves it open)? ", choices.join(" / ")));
        let mut stderr = std::io::stderr();
        // If the question cannot be printed, no one answers it.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        self.is_asked = true;
        if self.typed.is_none() {
            self.typed = Some(lines());
        }
    }

    /// Handles a line that was typed.
    fn listen(&mut self) -> Result<(), Ending> {
        let Some(typed) = self.typed.as_ref().filter(|_| self.is_asked) else { return Ok(()) };
        let line = match typed.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Empty) => return Ok(()),
            // Standard input has ended.
            Err(TryRecvError::Disconnected) => String::new(),
        };
        self.is_asked = false;
        let Some((record, approval)) = self.to_ask.pop_front() else { return Ok(()) };
        let (choice, why) = match line.split_once(" because ") {
            Some((choice, why)) => (choice.trim(), Some(why.trim())),
            None => (line.trim(), None),
        };
        if choice.is_empty() {
            eprintln!("it stays open: `approve` and `approve --reject` decide it");
            return Ok(());
        }
        let choice = match pick(&approval.choices, choice) {
            Ok(choice) => choice,
            Err(why) => {
                eprintln!("{why}");
                self.to_ask.push_front((record, approval));
                return Ok(());
            }
        };
        let ruling = Ruling::choice(choice);
        let ruling = why.map_or(ruling.clone(), |why| ruling.because(why));
        match self.resolve(&approval, ruling) {
            Ok(true) => {
                let why = why.map_or_else(String::new, |why| format!(", because {}", clean(why)));
                eprintln!("decided: `{}`{why}", clean(choice));
                Ok(())
            }
            Ok(false) => {
                eprintln!("another answer came first");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the choice that was typed, in full or as an unambiguous prefix. Otherwise returns what
/// is wrong.
fn pick<'a>(choices: &'a [String], typed: &str) -> Result<&'a str, String> {
    if let Some(choice) = choices.iter().find(|choice| *choice == typed) {
        return Ok(choice);
    }
    let lower = typed.to_lowercase();
    let whole = |choice: &&String| choice.to_lowercase() == lower;
    let begins = |choice: &&String| choice.to_lowercase().starts_with(&lower);
    let mut fitting: Vec<&String> = choices.iter().filter(whole).collect();
    if fitting.is_empty() {
        fitting = choices.iter().filter(begins).collect();
    }
    let named = |choices: &mut dyn Iterator<Item = &String>, or: &str| {
        choices.map(|choice| format!("`{}`", clean(choice))).collect::<Vec<_>>().join(or)
    };
    match fitting.as_slice() {
        [one] => Ok(one),
        [] => {
            let all = named(&mut choices.iter(), ", ");
            Err(format!("`{}` is none of its choices: {all}", clean(typed)))
        }
        several => {
            let which = named(&mut several.iter().copied(), " or ");
            Err(format!("`{}` could be {which}: type more of it", clean(typed)))
        }
    }
}

/// Returns the lines of standard input as they are typed.
fn lines() -> Receiver<String> {
    let (send, typed) = channel();
    // The thread ends with the input or with the process.
    let reads = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if send.send(line).is_err() {
                return;
            }
        }
    };
    drop(std::thread::Builder::new().name("tiffany-typed".into()).spawn(reads));
    typed
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn a_choice_is_named_whole_or_by_a_beginning_that_is_clear() {
        let choices = ["pay", "pay half", "keep", "Go", "go"].map(str::to_owned);
        let none = "is none of its choices: `pay`, `pay half`, `keep`, `Go`, `go`";
        for (typed, expected) in [
            ("pay", Ok("pay")),
            ("PAY HALF", Ok("pay half")),
            ("k", Ok("keep")),
            ("go", Ok("go")),
            ("pa", Err("`pa` could be `pay` or `pay half`: type more of it".to_owned())),
            ("GO", Err("`GO` could be `Go` or `go`: type more of it".to_owned())),
            ("x", Err(format!("`x` {none}"))),
            ("keeper", Err(format!("`keeper` {none}"))),
        ] {
            assert_eq!(pick(&choices, typed), expected, "{typed}");
        }
    }
}
