//! Redaction: secrets are taken out of everything that leaves a runtime's memory. Rules say what is a secret; a run works with the real value, and what is
//! written has a placeholder. The guide is the book's chapter "Redaction".
//!
//! Text becomes bytes that others see in few places, and each of them asks the rules:
//!
//! | what | where | why nothing goes past |
//! |---|---|---|
//! | records, commit-log segments, blobs | `wal::Line`: [`end`](tiffany_log::Line::end), and where a payload becomes a blob | no byte of a line reaches a batch in another way, and files, segments, backups, exports and captures are made of batches |
//! | what a replay compares | `into_fields` of the same line | it is the same code |
//! | events | `Draft::cleaned` of the hub | `State::add`, by which all events with words in them come, takes nothing else |
//! | answers to other threads and processes | `Tell::redacting`, on the way out of `Runtime::serve` | its match has no rest: a new answer has to say what is in it |
//! | errors that leave a runtime | `Display` of [`RunError`](crate::error::RunError) | its `Debug` is the same |
//! | log lines | `Tracer`, which makes them, and the visitor in `logging` through which all fields pass | also those of the program and of other crates |
//! | labels of metrics | `Family::add` | a metric has no other way to a label |
//! | panics, and what has no log to go to | the panic hook; `shown` around each `eprintln!` | |
//!
//! The first four use the rules of one runtime, which its `Builder` was given. The rest is the process's, and uses the rules of all
//! runtimes that were ever built in it.
//!
//! It knows nothing of runs. Rules that take values out of a log that is there already, for the fixture of a test, are
//! `tiffany::testing::Redaction`; both share field paths and the way through a record.

mod error;
mod forms;
mod kind;
mod place;
mod process;
mod record;
mod text;
mod tree;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use tiffany_kernel::{ErrorKind, TaskError};

pub use self::error::RedactError;
pub use self::forms::FORMS;
pub use self::kind::{Kind, kind_of, moment};
pub use self::place::{Place, Step};
pub use self::process::{any, named_text};
pub use self::process::{install, known, shown, shown_call};
use self::text::Patterns;
pub use self::tree::Node;
pub use self::walk::{Area, Leaf, Reach, Walk, text_of};
use tiffany_log::RuleMark;

/// A text without what the rules of all runtimes of this process take out, for who shows something by other ways than these.
///
/// ```
/// use std::sync::Arc;
///
/// use tiffany_records::redact::{Redactions, clean, install};
///
/// install(&Arc::new(Redactions::new().pattern("sk-[0-9]+")?));
/// assert_eq!(clean("with sk-1234"), "with [redacted]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn clean(text: &str) -> Cow<'_, str> {
    process::clean(text, |rules, text| rules.patterns.cleaned(text))
}

/// What stands for a text that was taken out. A number becomes 0, a flag `false`, a date the first of January 2000: what is read again is of the same kind.
pub const PLACEHOLDER: &str = "[redacted]";

/// A value that is shorter is part of too many other texts.
const SHORTEST: usize = 4;

/// Rules by which secrets are taken out of everything that a runtime writes: records, blobs, events, log lines, errors and answers.
///
/// - A **field** is meant by its name wherever it stands in a value (`password`), by the last names on the way to it (`customer.card`, `*.secret`), or by a
///   JSON pointer into a record (`/input/token`). All that is in it is replaced.
/// - A **pattern** is a regular expression. What it finds in a text, a number, bytes or a name is replaced; if it has groups, only what they find.
/// - A **value** is a secret that is known. It is replaced wherever it stands, also as JSON, Python, Rust and addresses write it, and in base 64.
///
/// ```
/// use tiffany_records::redact::Redactions;
///
/// let rules = Redactions::new()
///     .field("password")?
///     .pattern(r"sk-[A-Za-z0-9]{8,}")?
///     .pattern(r"(?i)bearer (\S+)")?
///     .value("correct horse")?;
/// let json = rules.json(r#"{"user":"ada","password":"x","note":"uses sk-abcdefgh1","pin":7}"#);
/// assert_eq!(json, r#"{"user":"ada","password":"[redacted]","note":"uses [redacted]","pin":7}"#);
/// assert_eq!(rules.text("Authorization: Bearer abc"), "Authorization: Bearer [redacted]");
/// assert_eq!(rules.text("q=correct%20horse"), "q=[redacted]");
/// # Ok::<(), tiffany_records::redact::RedactError>(())
/// ```
#[derive(Clone, Default)]
pub struct Redactions {
    places: Vec<Place>,
    patterns: Patterns,
    /// The rules as they are shown: of a value only that there is one.
    rules: Vec<String>,
    /// The last names of the fields that are meant, if that says enough to know a record that has none of them.
    names: Vec<String>,
    any_name: bool,
}

impl Redactions {
    /// Nothing is taken out.
    pub fn new() -> Redactions {
        Redactions::default()
    }

    /// Takes out what stands in this field too.
    pub fn field(mut self, rule: &str) -> Result<Redactions, RedactError> {
        let bad = |why: &str| RedactError::BadRule {
            rule: format!("field {rule}"),
            line: None,
            why: why.to_owned(),
        };
        let place = Place::parse(rule).map_err(bad)?;
        match place.last_name() {
            Some(name) => self.names.push(name.to_owned()),
            None => self.any_name = true,
        }
        self.places.push(place);
        self.rules.push(format!("field {rule}"));
        Ok(self)
    }

    /// Takes out what this regular expression finds too. It is followed byte by byte: `\w`, `\d` and `(?i)` know the letters of ASCII.
    pub fn pattern(mut self, pattern: &str) -> Result<Redactions, RedactError> {
        let bad = |why| RedactError::BadPattern { rule: pattern.to_owned(), line: None, why };
        self.patterns.add(pattern).map_err(bad)?;
        self.rules.push(format!("pattern {pattern}"));
        Ok(self)
    }

    /// Takes out this text too, wherever it stands.
    pub fn value(self, value: &str) -> Result<Redactions, RedactError> {
        self.secret(value, "a value")
    }

    /// Takes out what a variable of the environment has now.
    pub fn env(self, variable: &str) -> Result<Redactions, RedactError> {
        let what = format!("the variable `{variable}`");
        let none = |why| RedactError::NoValue { what: what.clone(), line: None, why };
        match std::env::var(variable) {
            Ok(value) => self.secret(&value, &what),
            Err(std::env::VarError::NotPresent) => Err(none("it is not set")),
            Err(std::env::VarError::NotUnicode(_)) => Err(none("it is not text")),
        }
    }

    fn secret(mut self, value: &str, what: &str) -> Result<Redactions, RedactError> {
        let none = |why| RedactError::NoValue { what: what.to_owned(), line: None, why };
        if value.chars().count() < SHORTEST {
            return Err(none("it is too short to be distinguished from other text"));
        }
        self.patterns.add(&Patterns::of_value(value)).map_err(|_| none("it is too long"))?;
        self.rules.push(match what {
            "a value" => what.to_owned(),
            _ => format!("the value of {what}"),
        });
        Ok(self)
    }

    /// Reads rules, one in each line: `field NAME`, `field /POINTER`, `pattern REGEX`, `value TEXT` or `env VARIABLE`. Empty lines, and those that begin
    /// with `#`, say nothing. An error names the line.
    ///
    /// ```
    /// use tiffany_records::redact::Redactions;
    ///
    /// let rules = Redactions::parse("# keys\nfield customer.card\npattern sk-[a-z0-9]{8,}\n")?;
    /// assert_eq!(rules.text("sk-12345678"), "[redacted]");
    ///
    /// let error = Redactions::parse("field a\npattern (").unwrap_err();
    /// assert_eq!(error.code(), "TFY0191");
    /// assert!(error.to_string().starts_with("the pattern `(` in line 2 cannot be followed: "));
    /// # Ok::<(), tiffany_records::redact::RedactError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Redactions, RedactError> {
        let mut rules = Redactions::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            rules = rules.rule(line).map_err(|error| error.at_line(at + 1))?;
        }
        Ok(rules)
    }

    /// Adds a rule as [`parse`](Redactions::parse) reads it.
    pub fn rule(self, rule: &str) -> Result<Redactions, RedactError> {
        let (word, rest) = rule.split_once(char::is_whitespace).unwrap_or((rule, ""));
        let rest = rest.trim_start();
        match word {
            "field" => self.field(rest),
            "pattern" => self.pattern(rest),
            "value" => self.value(rest),
            "env" => self.env(rest),
            _ => {
                // What comes after it may be a secret.
                let (rule, why) = (word.to_owned(), format!("`{word}` is not a kind of rule"));
                Err(RedactError::BadRule { rule, line: None, why })
            }
        }
    }

    /// Whether nothing is taken out.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, as they can be shown.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(String::as_str)
    }

    /// What each rule is known by, without saying what it says.
    pub fn marks(&self) -> BTreeSet<RuleMark> {
        self.rules().map(|rule| crc32c::crc32c(rule.as_bytes()) as RuleMark).collect()
    }

    /// A text without what the rules take out.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.patterns.cleaned(text) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => Cow::Borrowed(text),
        }
    }

    /// A text that stands under a name, which may be that of a field that is taken out.
    pub fn named_text<'a>(&self, name: &str, text: &'a str) -> Cow<'a, str> {
        match self.means(name) {
            true => Cow::Borrowed(PLACEHOLDER),
            false => self.text(text),
        }
    }

    /// Whether a field of this name is taken out wherever it stands.
    fn means(&self, name: &str) -> bool {
        let way = [Step::Name(name.to_owned())];
        self.places.iter().any(|place| matches!(place, Place::Path(_)) && place.is_at(&way))
    }

    /// These rules and those. What both say counts once.
    pub fn and(mut self, others: Redactions) -> Redactions {
        self.patterns.join(others.patterns);
        self.places.extend(others.places);
        self.names.extend(others.names);
        self.any_name |= others.any_name;
        self.rules.extend(others.rules);
        self
    }

    /// An error if they take something out of a name by which something is found.
    pub fn refuse_name(&self, what: &str, name: &str) -> Result<(), TaskError> {
        if !self.take_from(name) {
            return Ok(());
        }
        let message = format!(
            "the name of {what} has something in it that is taken out of the log: `{}`",
            self.text(name)
        );
        Err(TaskError::new(ErrorKind::SecretName, message))
    }

    /// Whether they are the same rules.
    fn is_same(&self, other: &Redactions) -> bool {
        self.places == other.places && self.patterns.is_same(&other.patterns)
    }

    /// Whether a name has something in it that is taken out: it could not be found again under it.
    pub fn take_from(&self, name: &str) -> bool {
        self.patterns.cleaned(name).is_some()
    }
}

/// The rules; of a value only that there is one.
impl fmt::Debug for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}
