//! Errors of redaction rules. They never reveal what a rule redacts.

/// The error of an invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedactError {
    /// The rule cannot be parsed.
    #[error(
        "the rule `{rule}`{} is none: {why} [TFY0190]; write `field NAME`, `field /POINTER`, `pattern REGEX`, `value TEXT` or `env VARIABLE`",
        in_line(*.line)
    )]
    BadRule {
        /// The rule.
        rule: String,
        /// Its line number, from 1, if it was read from a text.
        line: Option<usize>,
        /// What is wrong with it.
        why: String,
    },
    /// The pattern is not a regular expression, or is not supported.
    #[error(
        "the pattern `{rule}`{} cannot be followed: {why} [TFY0191]; the book's chapter \"Redaction\" has the patterns that can",
        in_line(*.line)
    )]
    BadPattern {
        /// The pattern.
        rule: String,
        /// Its line number, from 1, if it was read from a text.
        line: Option<usize>,
        /// What is wrong with it.
        why: String,
    },
    /// There is no value to redact.
    #[error(
        "{what}{} has nothing to redact: {why} [TFY0193]; give a value of at least {} characters",
        in_line(*.line), super::SHORTEST
    )]
    NoValue {
        /// The rule or variable that should have provided it.
        what: String,
        /// Its line number, from 1, if it was read from a text.
        line: Option<usize>,
        /// What is wrong with it.
        why: &'static str,
    },
}

fn in_line(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(" in line {line}"))
}

impl RedactError {
    /// All codes, in order.
    pub const CODES: &[&str] = &["TFY0190", "TFY0191", "TFY0193"];

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            RedactError::BadRule { .. } => "TFY0190",
            RedactError::BadPattern { .. } => "TFY0191",
            RedactError::NoValue { .. } => "TFY0193",
        }
    }

    /// Adds the line number of the rule to the error.
    pub(super) fn at_line(mut self, number: usize) -> RedactError {
        let (RedactError::BadRule { line, .. }
        | RedactError::BadPattern { line, .. }
        | RedactError::NoValue { line, .. }) = &mut self;
        *line = Some(number);
        self
    }
}
