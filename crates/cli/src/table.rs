//! A table whose columns are as wide as their content, within the width of the terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::error::Ending;
use super::out::{Out, Style, clean, paint};

/// A cell: its text, the number of columns that it takes, and its style.
pub(super) struct Cell {
    text: String,
    width: usize,
    style: Style,
}

impl Cell {
    pub(super) fn new(style: Style, text: &str) -> Cell {
        let text = clean(text).into_owned();
        // Most cells are ASCII, and a list may have ten thousand lines.
        let width = if text.is_ascii() { text.len() } else { text.width() };
        Cell { text, width, style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(Style::Plain, text.as_ref())
    }
}

pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// The number of blanks between two columns.
const GAP: usize = 2;
/// The width below which no column is shrunk.
const LEAST: usize = 8;

impl Table {
    pub(super) fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    pub(super) fn row(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn print(self, out: &mut Out) -> Result<(), Ending> {
        let mut widths: Vec<usize> = self.head.iter().map(|head| head.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width);
            }
        }
        if let Some(limit) = out.width {
            shrink(&mut widths, limit);
        }
        let head: Vec<Cell> = self.head.iter().map(|head| Cell::new(Style::Head, head)).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let line = line(row, &widths, out.colour);
            out.line(&line)?;
        }
        Ok(())
    }
}

fn line(row: &[Cell], widths: &[usize], colour: bool) -> String {
    let mut line = String::new();
    let mut blank = 0;
    for (cell, width) in row.iter().zip(widths) {
        line.extend(std::iter::repeat_n(' ', blank));
        let (text, used) = match cell.width <= *width {
            true => (Cow::Borrowed(&cell.text), cell.width),
            false => {
                let short = cut(&cell.text, *width);
                let used = short.width();
                (Cow::Owned(short), used)
            }
        };
        match colour && !text.is_empty() {
            true => line.push_str(&paint(true, cell.style, &text)),
            false => line.push_str(&text),
        }
        blank = width - used + GAP;
    }
    line.truncate(line.trim_end().len());
    line
}

/// Shrinks the widest column until all columns fit. If all are at their minimum, the last ones are
/// left out.
fn shrink(widths: &mut Vec<usize>, limit: usize) {
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    while widths.len() > 1 && total(widths) > limit {
        match widths.iter_mut().max() {
            Some(widest) if *widest > LEAST => *widest -= 1,
            _ => drop(widths.pop()),
        }
    }
}

/// Cuts a text to this width, with a mark where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// Wraps a text to this width, between words if possible. All lines but the first start with a
/// margin.
pub(super) fn wrap(text: &str, width: usize, margin: usize) -> Vec<String> {
    // A margin that leaves too little room is dropped.
    let margin = if margin + LEAST <= width { margin } else { 0 };
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let lead = if lines.is_empty() { 0 } else { margin };
        let room = width.saturating_sub(lead).max(1);
        let end = if rest.width() <= room { rest.len() } else { break_in(rest, room) };
        lines.push(format!("{:lead$}{}", "", rest[..end].trim_end()));
        rest = rest[end..].trim_start();
        if rest.is_empty() {
            return lines;
        }
    }
}

/// Returns where a line of text has to end: before the last word that doesn't fit, or inside a word
/// that is longer than a line.
fn break_in(text: &str, room: usize) -> usize {
    let (mut used, mut blank, mut has_word) = (0, None, false);
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        // Leading blanks are not a place to break.
        if c == ' ' && has_word {
            blank = Some(at);
        }
        has_word |= c != ' ';
        if used > room && at > 0 {
            return blank.unwrap_or(at);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_and_not_by_bytes() {
        for (text, width, expected) in [
            ("tea", 3, "tea"),
            ("teapot", 4, "tea…"),
            ("grüner Tee", 5, "grün…"),
            ("茶茶茶", 4, "茶…"),
            ("茶茶茶", 6, "茶茶茶"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, width), expected, "{text} to {width}");
        }
    }

    #[test]
    fn text_is_wrapped_between_words_or_inside_long_ones() {
        for (text, width, margin, expected) in [
            ("tea", 10, 2, vec!["tea"]),
            ("", 10, 2, vec![""]),
            ("green tea and cake", 10, 0, vec!["green tea", "and cake"]),
            ("green tea and cake", 12, 4, vec!["green tea", "    and cake"]),
            ("    green tea and", 12, 4, vec!["    green", "    tea and"]),
            ("0123456789abcdef", 10, 2, vec!["0123456789", "  abcdef"]),
            ("see 0123456789abcdef", 10, 0, vec!["see", "0123456789", "abcdef"]),
            ("茶茶茶茶", 4, 0, vec!["茶茶", "茶茶"]),
            ("茶茶", 1, 8, vec!["茶", "茶"]),
            ("a b", usize::MAX, 4, vec!["a b"]),
        ] {
            assert_eq!(wrap(text, width, margin), expected, "{text} to {width}");
        }
    }

    #[test]
    fn the_widest_column_gives_first() {
        let mut widths = vec![4, 50, 20];
        shrink(&mut widths, 44);
        assert_eq!(widths, [4, 18, 18]);
        shrink(&mut widths, 24);
        assert_eq!(widths, [4, 8, 8], "as narrow as can be");
        shrink(&mut widths, 15);
        assert_eq!(widths, [4, 8], "and then the last is left out");
    }
}
