//! Standard output: coloured and cut to the width of the terminal for people, JSON for programs.
//! Text from a log is never trusted: control sequences in it are escaped.

use std::borrow::Cow;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use super::args::{Args, When};
use super::error::Ending;
use super::{Done, json};
use tiffany_records::redact;

/// The kind of a text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Head,
    Dim,
    Good,
    Busy,
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Head => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Busy => "36",
            Style::Bad => "1;31",
        }
    }

    /// Returns the style of a state's name.
    pub(super) fn of_state(word: &str) -> Style {
        match word {
            "completed" | "ok" | "identical" => Style::Good,
            "failed" | "damaged" | "bad" | "in doubt" | "differs" | "paused" | "held" => Style::Bad,
            "live" | "ending" | "waiting" | "ready" | "note" => Style::Busy,
            _ => Style::Dim,
        }
    }
}

/// Adds the colour of a style to a text.
pub(super) fn paint(colour: bool, style: Style, text: &str) -> String {
    match colour && style != Style::Plain {
        true => format!("\x1b[{}m{text}\x1b[0m", style.code()),
        false => text.to_owned(),
    }
}

/// Returns whether a character controls a terminal instead of being shown: control characters, and
/// those that change the text direction.
pub(super) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes a text from a log for a terminal.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_unsafe(c) {
            true => clean.extend(c.escape_default()),
            false => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

impl When {
    /// Returns whether standard output should be coloured.
    pub(super) fn is_wanted(self) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => std::io::stdout().is_terminal() && may_colour(),
        }
    }
}

/// Returns whether the environment allows colours.
pub(super) fn may_colour() -> bool {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !no_colour && !dumb
}

/// Returns whether errors are coloured by default.
pub(super) fn colours_errors() -> bool {
    std::io::stderr().is_terminal() && may_colour()
}

/// The output of a command.
pub(super) struct Out {
    to: BufWriter<StdoutLock<'static>>,
    pub(super) json: bool,
    pub(super) colour: bool,
    /// The maximal width of a line, if there is one.
    pub(super) width: Option<usize>,
    is_terminal: bool,
}

/// The settings of an output, for another thread that writes in its place.
#[derive(Clone, Copy)]
pub(super) struct Form {
    json: bool,
    colour: bool,
    width: Option<usize>,
    is_terminal: bool,
}

impl Form {
    pub(super) fn open(self) -> Out {
        let to = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
        let Form { json, colour, width, is_terminal } = self;
        Out { to, json, colour, width, is_terminal }
    }
}

impl Out {
    pub(super) fn new(args: &Args) -> Out {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let colour = args.color.is_wanted();
        let width = match is_terminal && !args.wide {
            true => Some(terminal_width(&stdout)),
            false => None,
        };
        let to = BufWriter::with_capacity(1 << 16, stdout.lock());
        Out { to, json: args.json, colour: colour && !args.json, width, is_terminal }
    }

    /// Returns the settings of the output, so that another thread can write it.
    pub(super) fn into_form(mut self) -> Result<Form, Ending> {
        self.flush()?;
        let Out { json, colour, width, is_terminal, .. } = self;
        Ok(Form { json, colour, width, is_terminal })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Returns the number of lines of the terminal.
    pub(super) fn height(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let rows = size.map(|size| usize::from(size.ws_row));
        rows.filter(|rows| *rows > 0).unwrap_or(24)
    }

    pub(super) fn colours_errors(&self, args: &Args) -> bool {
        match args.color {
            When::Always => true,
            When::Never => false,
            When::Auto => colours_errors(),
        }
    }

    /// Prints an object on one line.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Ending> {
        Ok(self.to.write_all(json::line(value).as_bytes())?)
    }

    /// Prints a line that is JSON already.
    pub(super) fn json_text(&mut self, text: &str) -> Result<(), Ending> {
        self.to.write_all(json::escape(text).as_bytes())?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// Prints a line whose parts are escaped already.
    pub(super) fn line(&mut self, line: &str) -> Result<(), Ending> {
        self.to.write_all(line.as_bytes())?;
        Ok(self.to.write_all(b"\n")?)
    }

    /// Prints a line of text, cut to the width of the terminal.
    pub(super) fn text(&mut self, style: Style, text: &str) -> Result<(), Ending> {
        // Redacted before it is cut: a part of a secret could not be recognized.
        let text = redact::clean(text);
        let text = clean(&text);
        let text = super::table::cut(&text, self.width.unwrap_or(usize::MAX));
        let line = paint(self.colour, style, &text);
        self.line(&line)
    }

    /// Prints text in full: on a terminal it wraps, with a margin of `margin` columns.
    pub(super) fn whole(&mut self, style: Style, text: &str, margin: usize) -> Result<(), Ending> {
        let text = redact::clean(text);
        let text = clean(&text);
        for line in super::table::wrap(&text, self.width.unwrap_or(usize::MAX), margin) {
            let line = paint(self.colour, style, &line);
            self.line(&line)?;
        }
        Ok(())
    }

    /// Prints the start of a line at once.
    pub(super) fn part(&mut self, text: &str) -> Result<(), Ending> {
        self.to.write_all(text.as_bytes())?;
        self.flush()
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        Ok(self.to.write_all(bytes)?)
    }

    /// Writes escaped bytes, for callers that handle failures themselves.
    pub(super) fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.to.write_all(bytes)
    }

    pub(super) fn flush(&mut self) -> Result<(), Ending> {
        Ok(self.to.flush()?)
    }

    /// Ends a command, once all output is written.
    pub(super) fn end(mut self, code: u8) -> Done {
        self.flush()?;
        Ok(code)
    }
}

fn terminal_width(of: &impl std::os::fd::AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(of).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 0).unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_terminal_gets_through() {
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let text = format!("a{c}b");
            let clean = clean(&text);
            assert!(!clean.chars().any(|c| c.is_control()), "{clean:?}");
        }
        assert_eq!(clean("tea \x1b[2J\u{9b}\u{202e}!"), "tea \\u{1b}[2J\\u{9b}\\u{202e}!");
        assert_eq!(clean("grün 茶"), "grün 茶");
    }
}
