//! A trace as a picture: a row for each task, a column for each slice of time, and a glyph for what
//! the task did in it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tiffany::{BlockReason, CallKind, Event, EventKind, Tid};

/// The glyphs, their colours (as terminals number them) and what they mean.
const LEGEND: [(char, u8, &str); 8] = [
    ('█', 1, "has a turn"),
    ('░', 36, "sleeps"),
    ('─', 90, "waits for tasks"),
    ('▒', 33, "waits for a permit"),
    ('◇', 35, "waits for a promise"),
    ('✓', 32, "done"),
    ('✗', 31, "failed"),
    ('⊘', 94, "cancelled"),
];

fn glyph(reason: BlockReason) -> char {
    match reason {
        BlockReason::Sleep => '░',
        BlockReason::Join | BlockReason::Gather | BlockReason::Race => '─',
        BlockReason::Lock => '▒',
        BlockReason::Promise | BlockReason::External => '◇',
        _ => '·',
    }
}

/// Whether colours are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Coloured,
}

impl Paint {
    pub(crate) fn text(self, colour: u8, text: &str) -> String {
        match self {
            Paint::Plain => text.to_string(),
            Paint::Coloured => format!("\x1b[{colour}m{text}\x1b[0m"),
        }
    }

    fn glyph(self, glyph: char) -> String {
        let colour = LEGEND.iter().find(|entry| entry.0 == glyph).map_or(0, |entry| entry.1);
        self.text(colour, &glyph.to_string())
    }
}

/// The picture.
pub(crate) struct Timeline {
    slice: Duration,
    /// In the order of the tree: the key of a task is the path to it from the root.
    rows: BTreeMap<Vec<Tid>, Row>,
    /// What tasks have told, each with its column.
    notes: Vec<(usize, String)>,
}

struct Row {
    name: String,
    cells: Vec<char>,
    /// Fills the cells until the next event; after the end it is a blank.
    state: char,
}

impl Timeline {
    /// Draws the events, with this much time to a column.
    pub(crate) fn new(events: &[Event], slice: Duration) -> Timeline {
        let mut timeline = Timeline { slice, rows: BTreeMap::new(), notes: Vec::new() };
        let mut paths: BTreeMap<Tid, Vec<Tid>> = BTreeMap::new();
        for event in events {
            let column = (u128::from(event.at.as_nanos()) / slice.as_nanos()) as usize;
            if let EventKind::Spawned { parent, name, .. } = &event.kind {
                let mut path = parent.map_or(Vec::new(), |parent| paths[&parent].clone());
                let name = "  ".repeat(path.len()) + name.as_deref().unwrap_or("?");
                path.push(event.tid);
                let row = Row { name, cells: vec![' '; column], state: '█' };
                timeline.rows.insert(path.clone(), row);
                paths.insert(event.tid, path);
            }
            timeline.enter(column, &paths[&event.tid], &event.kind);
        }
        timeline
    }

    fn enter(&mut self, column: usize, path: &[Tid], kind: &EventKind) {
        let (shown, state) = match kind {
            EventKind::Running => ('█', '█'),
            EventKind::Blocked(reason) => ('█', glyph(*reason)),
            EventKind::Completed => ('✓', ' '),
            EventKind::Failed(_) => ('✗', ' '),
            EventKind::Cancelled => ('⊘', ' '),
            EventKind::Called { kind: CallKind::Tell, call, .. } => {
                let text = call.trim_start_matches("tell(\"").trim_end_matches("\")");
                return self.notes.push((column, text.to_string()));
            }
            _ => return,
        };
        let Some(row) = self.rows.get_mut(path) else { return };
        row.cells.resize(row.cells.len().max(column), row.state);
        row.cells.truncate(column);
        row.cells.push(shown);
        row.state = state;
    }

    pub(crate) fn columns(&self) -> usize {
        self.rows.values().map(|row| row.cells.len()).max().unwrap_or(0)
    }

    /// The picture up to a column: the time, the rows, the legend. A task's name appears when the
    /// task does.
    pub(crate) fn frame(&self, until: usize, paint: Paint) -> String {
        let mut frame = paint.text(90, &self.ruler()) + "\n";
        for row in self.rows.values() {
            let cells = &row.cells[..row.cells.len().min(until)];
            let there = cells.iter().any(|cell| *cell != ' ');
            let cells: String = cells.iter().map(|cell| paint.glyph(*cell)).collect();
            writeln!(frame, "  {:<13}{cells}", if there { &row.name } else { "" }).ok();
        }
        for line in LEGEND.chunks(4) {
            let meanings = line.iter().map(|(cell, _, text)| paint.glyph(*cell) + " " + text);
            write!(frame, "\n  {}", meanings.collect::<Vec<_>>().join("   ")).ok();
        }
        frame + "\n"
    }

    /// A mark for every half second.
    fn ruler(&self) -> String {
        let mut ruler = String::new();
        for half in 0.. {
            let column = (500 * half / self.slice.as_millis()) as usize;
            if column >= self.columns() {
                break;
            }
            let mark = format!("│{:.1} s", half as f64 / 2.0);
            ruler = format!("{ruler:<width$}{mark}", width = 15 + column);
        }
        ruler
    }

    /// The notes of tasks before a column, with their times.
    pub(crate) fn notes(&self, until: usize) -> impl DoubleEndedIterator<Item = String> + '_ {
        self.notes.iter().filter(move |(column, _)| *column < until).map(|(column, note)| {
            let at = self.slice.mul_f64(*column as f64).as_secs_f64();
            format!("  {at:.2} s  {note}")
        })
    }
}
