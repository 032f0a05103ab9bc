//! Checks names that are given from outside: ids of runs and names of messages. They are shown to
//! people and used in URLs.

use tiffany_kernel::{ErrorKind, TaskError};

/// The maximum number of characters in a name.
const MAX_NAME_CHARS: usize = 512;

/// Fails if a name is empty, too long, or has characters that would affect how it or the text
/// around it is displayed.
pub fn check_name(what: &str, name: &str) -> Result<(), TaskError> {
    let wrong = match name {
        "" => "is empty".to_owned(),
        name if name.chars().nth(MAX_NAME_CHARS).is_some() => {
            format!("has more than {MAX_NAME_CHARS} characters")
        }
        name => match name.chars().find(|c| c.is_control() || turns_text(*c)) {
            Some(bad) => format!("has {bad:?} in it"),
            None => return Ok(()),
        },
    };
    Err(TaskError::new(ErrorKind::BadArgument, format!("{what} {wrong}")))
}

/// Returns whether a character changes the direction of the text around it, which could make a name
/// look like another one.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
