//! The place of a part inside a value, in a readable form: `.orders[3].customer`.

use std::fmt::{self, Write as _};

use super::text;

/// One step of a path.
#[derive(Debug)]
pub(super) enum Step {
    /// `.name`, or `["any text"]`: an entry of a dict, a field.
    Name(String),
    /// `[3]`: an element of a list or tuple.
    Index(usize),
    /// `[(1, 2)]`: an entry of a dict whose key is not a string, with the key's `repr`.
    Key(String),
    /// `.keys()[3]`: a key itself.
    KeyAt(usize),
    /// `{…}`: an element of a set, which has no position.
    Element,
}

/// The path to a part, from the outermost value.
#[derive(Debug, Default)]
pub(super) struct Path(pub(super) Vec<Step>);

/// The numbers of steps that are shown at the two ends of a long path.
const HEAD: usize = 12;
const TAIL: usize = 4;
/// The number of characters of a name that are shown.
const NAME: usize = 60;

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = &self.0;
        if steps.is_empty() {
            return f.write_str(".");
        }
        if steps.len() <= HEAD + TAIL {
            return steps.iter().try_for_each(|step| step.fmt(f));
        }
        steps[..HEAD].iter().try_for_each(|step| step.fmt(f))?;
        write!(f, " … {} levels … ", steps.len() - HEAD - TAIL)?;
        steps[steps.len() - TAIL..].iter().try_for_each(|step| step.fmt(f))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Name(name) => {
                let name = shortened(name, NAME);
                let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '…';
                if !name.is_empty() && name.chars().all(is_word) {
                    return write!(f, ".{name}");
                }
                let mut quoted = String::new();
                text::write_str(&mut quoted, &name);
                write!(f, "[{quoted}]")
            }
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{}]", shortened(key, NAME)),
            Step::KeyAt(index) => write!(f, ".keys()[{index}]"),
            Step::Element => f.write_str("{…}"),
        }
    }
}

/// Returns at most `most` characters of a text, on one line.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let mut short = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == most {
            short.push('…');
            break;
        }
        match c.is_control() {
            true => _ = write!(short, "{}", c.escape_default()),
            false => short.push(c),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_python() {
        let steps = vec![
            Step::Name("orders".into()),
            Step::Index(3),
            Step::Name("a b\"".into()),
            Step::Key("(1, 2)".into()),
            Step::KeyAt(1),
            Step::Element,
        ];
        assert_eq!(Path(steps).to_string(), r#".orders[3]["a b\""][(1, 2)].keys()[1]{…}"#);
        assert_eq!(Path::default().to_string(), ".");
    }

    #[test]
    fn a_long_path_shows_its_ends() {
        let steps = (0..1000).map(Step::Index).collect();
        let text = Path(steps).to_string();
        assert!(text.starts_with("[0][1]"), "{text}");
        assert!(text.contains("[11] … 984 levels … [996]"), "{text}");
        assert!(text.ends_with("[999]"), "{text}");
        assert_eq!(shortened(&"é".repeat(70), 60).chars().count(), 61);
    }
}
