//! Redaction: secrets are removed from everything that leaves a runtime's memory. Rules define what
//! is secret. A run works with the real values, and everything that is written has placeholders.
//! The book's chapter "Redaction" is the guide.
//!
//! Text becomes bytes that others can see in only a few places, and each of them applies the rules:
//!
//! | what | where | why nothing can bypass it |
//! |---|---|---|
//! | records, commit log segments, blobs | `wal::Line`: [`end`](tiffany_log::Line::end), and where a payload becomes a blob | every line reaches a batch in this way, and files, segments, backups, exports and captures are made from batches |
//! | what a replay compares | `into_fields` of the same line | it is the same code |
//! | events | `Draft::cleaned` of the hub | `State::add`, through which all events with text pass, accepts nothing else |
//! | answers to other threads and processes | `Tell::redacting`, called by `Runtime::serve` before it sends them | its match has no wildcard: a new answer must say what it contains |
//! | errors that leave a runtime | `Display` of [`RunError`](crate::error::RunError) | its `Debug` is the same |
//! | log lines | `Tracer`, which makes them, and the visitor in `logging`, through which all fields pass | includes those of the program and of other crates |
//! | labels of metrics | `Family::add` | it is the only way to set a label |
//! | panics, and messages printed without a log | the panic hook; `shown` around each `eprintln!` | |
//!
//! The first four use the rules that the `Builder` of the runtime was given. The others concern the
//! whole process, and use the rules of all runtimes that were ever built in it.
//!
//! This module knows nothing of runs. Rules that redact an existing log, for the fixture of a test,
//! are `tiffany::testing::Redaction`; both share field paths and the walk through a record.

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

/// Returns an error if the rules of this process take something out of a name by which something is found.
pub fn refuse_installed(what: &str, name: &str) -> Result<(), TaskError> {
    match process::known() {
        Some(rules) if process::any() => rules.refuse_name(what, name),
        _ => Ok(()),
    }
}

/// Redacts a text with the rules of all runtimes in this process. It serves code that shows text to
/// people or other programs directly.
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

/// The replacement for a redacted text. A number becomes 0, a Boolean `false`, and a date January
/// 1, 2000, so that a value that is read again has the same type.
pub const PLACEHOLDER: &str = "[redacted]";

/// The minimum length of a value. A shorter one would be part of too many other texts.
const SHORTEST: usize = 4;

/// Rules for redacting secrets in everything that a runtime writes: records, blobs, events, log
/// lines, errors and answers.
///
/// - A **field** rule matches by name anywhere in a value (`password`), by the last names on the
///   path to it (`customer.card`, `*.secret`), or by a JSON pointer into a record (`/input/token`).
///   Everything in the field is replaced.
/// - A **pattern** rule is a regular expression. Its matches in texts, numbers, bytes and names
///   are replaced; if it has groups, only these are.
/// - A **value** rule is a known secret. It is replaced wherever it appears, also as escaped by
///   JSON, Python, Rust and URLs, and in Base64.
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
    /// The rules as they can be shown: for a value, only that there is one.
    rules: Vec<String>,
    /// The last names of the matching fields, if they are enough to rule out records that contain
    /// none of them.
    names: Vec<String>,
    any_name: bool,
}

impl Redactions {
    /// Makes rules that redact nothing.
    pub fn new() -> Redactions {
        Redactions::default()
    }

    /// Adds a rule that redacts this field.
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

    /// Adds a rule that redacts matches of this regular expression. It works on bytes: `\w`, `\d`
    /// and `(?i)` know only ASCII letters.
    pub fn pattern(mut self, pattern: &str) -> Result<Redactions, RedactError> {
        let bad = |why| RedactError::BadPattern { rule: pattern.to_owned(), line: None, why };
        self.patterns.add(pattern).map_err(bad)?;
        self.rules.push(format!("pattern {pattern}"));
        Ok(self)
    }

    /// Adds a rule that redacts this text wherever it appears.
    pub fn value(self, value: &str) -> Result<Redactions, RedactError> {
        self.secret(value, "a value")
    }

    /// Adds a rule that redacts the current value of an environment variable.
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

    /// Parses rules, one per line: `field NAME`, `field /POINTER`, `pattern REGEX`, `value TEXT` or
    /// `env VARIABLE`. Empty lines and those that begin with `#` are ignored. An error names the
    /// line.
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

    /// Adds a rule in the format of [`parse`](Redactions::parse).
    pub fn rule(self, rule: &str) -> Result<Redactions, RedactError> {
        let (word, rest) = rule.split_once(char::is_whitespace).unwrap_or((rule, ""));
        let rest = rest.trim_start();
        match word {
            "field" => self.field(rest),
            "pattern" => self.pattern(rest),
            "value" => self.value(rest),
            "env" => self.env(rest),
            _ => {
                // The rest of the rule may be a secret.
                let (rule, why) = (word.to_owned(), format!("`{word}` is not a kind of rule"));
                Err(RedactError::BadRule { rule, line: None, why })
            }
        }
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the rules as they can be shown.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(String::as_str)
    }

    /// Returns short hashes that identify the rules without revealing them.
    pub fn marks(&self) -> BTreeSet<RuleMark> {
        self.rules().map(|rule| crc32c::crc32c(rule.as_bytes()) as RuleMark).collect()
    }

    /// Redacts a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.patterns.cleaned(text) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => Cow::Borrowed(text),
        }
    }

    /// Redacts a text with this name. If a rule matches the name, the whole text is replaced.
    pub fn named_text<'a>(&self, name: &str, text: &'a str) -> Cow<'a, str> {
        match self.means(name) {
            true => Cow::Borrowed(PLACEHOLDER),
            false => self.text(text),
        }
    }

    /// Returns whether a rule matches fields of this name wherever they are.
    fn means(&self, name: &str) -> bool {
        let way = [Step::Name(name.to_owned())];
        self.places.iter().any(|place| matches!(place, Place::Path(_)) && place.is_at(&way))
    }

    /// Combines two sets of rules, without duplicates.
    pub fn and(mut self, others: Redactions) -> Redactions {
        self.patterns.join(others.patterns);
        self.places.extend(others.places);
        self.names.extend(others.names);
        self.any_name |= others.any_name;
        self.rules.extend(others.rules);
        self
    }

    /// Fails if the rules match a name that something is found by.
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

    /// Returns whether both have the same rules.
    fn is_same(&self, other: &Redactions) -> bool {
        self.places == other.places && self.patterns.is_same(&other.patterns)
    }

    /// Returns whether the rules match part of a name, so that nothing could be found by it again.
    pub fn take_from(&self, name: &str) -> bool {
        self.patterns.cleaned(name).is_some()
    }
}

/// Shows the rules; for a value, only that there is one.
impl fmt::Debug for Redactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}
