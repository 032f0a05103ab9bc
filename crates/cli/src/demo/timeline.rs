//! Draws a run's log as text: a row for each task, a column for each slice of time, a glyph for
//! what the task did in it. It uses records alone.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use tiffany::wal::Stamp;

/// The glyphs, their colours (terminal codes) and their meanings.
const LEGEND: [(char, u8, &str); 8] = [
    ('█', 32, "does a step"),
    ('░', 36, "sleeps"),
    ('─', 90, "waits for tasks"),
    ('◇', 35, "waits for a person"),
    ('╳', 31, "no process"),
    ('✓', 32, "done"),
    ('⊘', 94, "cancelled"),
    ('✗', 31, "failed"),
];

/// The most columns of a timeline.
const WIDEST: u64 = 62;

/// A gap without a process: from a kill to the next start, by the clock of the log.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
}

struct Row {
    name: String,
    cells: Vec<char>,
    /// The glyph for the cells until the next record; a blank after the end.
    state: char,
}

/// A timeline of a run.
pub(super) struct Timeline {
    began: u64,
    slice: u64,
    /// The rows in the order of the tree: the key of a task is its path from the root.
    rows: BTreeMap<Vec<u64>, Row>,
}

impl Timeline {
    /// Draws a log.
    pub(super) fn new(log: &str, gaps: &[Gap]) -> Timeline {
        let records: Vec<Value> =
            log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let times: Vec<u64> = records.iter().map(nanos).collect();
        let (began, ended) =
            (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
        let slice = ((ended - began) / WIDEST).max(1);
        let mut timeline = Timeline { began, slice, rows: BTreeMap::new() };
        let mut paths: BTreeMap<u64, Vec<u64>> = BTreeMap::from([(1, vec![1])]);
        for (record, at) in records.iter().zip(times) {
            timeline.enter(record, timeline.column(at), &mut paths);
        }
        for gap in gaps {
            timeline.blank_out(*gap);
        }
        timeline
    }

    fn column(&self, at: u64) -> usize {
        (at.saturating_sub(self.began) / self.slice) as usize
    }

    fn enter(&mut self, record: &Value, column: usize, paths: &mut BTreeMap<u64, Vec<u64>>) {
        let number = |field: &str| record[field].as_u64();
        let Some(tid) = number("tid") else { return };
        let (shown, state) = match record["type"].as_str().unwrap_or_default() {
            "RunStart" => {
                let name = record["function"].as_str().unwrap_or("?").to_owned();
                let cells = Vec::new();
                self.rows.insert(vec![tid], Row { name, cells, state: '─' });
                return;
            }
            "TaskSpawn" => {
                let (Some(child), Some(path)) = (number("child"), paths.get(&tid)) else { return };
                let mut path = path.clone();
                let indent = "  ".repeat(path.len());
                path.push(child);
                let name = format!("{indent}{}", record["name"].as_str().unwrap_or("?"));
                self.rows.insert(path.clone(), Row { name, cells: vec![' '; column], state: '─' });
                paths.insert(child, path);
                return;
            }
            "TaskYield" => match record["call"].as_str().unwrap_or_default() {
                "sleep" | "sleep_until" => ('░', '░'),
                "effect" => ('█', '█'),
                "approve" => ('◇', '◇'),
                "wait" | "gather" | "race" => ('─', '─'),
                _ => return,
            },
            "TaskExit" => ('✓', ' '),
            "TaskAbort" => ('✗', ' '),
            "TaskCancel" => ('⊘', ' '),
            _ => return,
        };
        let Some(row) = paths.get(&tid).and_then(|path| self.rows.get_mut(path)) else { return };
        row.cells.resize(row.cells.len().max(column), row.state);
        row.cells.truncate(column);
        row.cells.push(shown);
        row.state = state;
    }

    /// Clears the cells of a gap, in which no task made progress.
    fn blank_out(&mut self, gap: Gap) {
        let (from, to) = (self.column(gap.from), self.column(gap.to));
        for row in self.rows.values_mut() {
            let until = row.cells.len();
            for cell in &mut row.cells[from.min(until)..to.max(from + 1).min(until)] {
                if !matches!(cell, ' ' | '✓' | '⊘' | '✗') {
                    *cell = '╳';
                }
            }
        }
    }

    /// Returns the ruler, the rows and the legend.
    pub(super) fn draw(&self, colour: bool) -> String {
        let wide = self.rows.values().map(|row| row.name.chars().count()).max().unwrap_or(0) + 2;
        let mut picture = format!("  {}\n", painted(90, &self.ruler(wide), colour));
        for row in self.rows.values() {
            let cells: String = row.cells.iter().map(|cell| glyph(*cell, colour)).collect();
            let pad = " ".repeat(wide - row.name.chars().count());
            let _ = writeln!(picture, "  {}{pad}{cells}", row.name);
        }
        for line in LEGEND.chunks(4) {
            let meanings = line.iter().map(|(cell, _, text)| glyph(*cell, colour) + " " + text);
            let _ = write!(picture, "\n  {}", meanings.collect::<Vec<_>>().join("   "));
        }
        picture + "\n"
    }

    /// Returns a ruler with a mark for every second.
    fn ruler(&self, indent: usize) -> String {
        let columns = self.rows.values().map(|row| row.cells.len()).max().unwrap_or(0);
        let mut ruler = String::new();
        for second in 0.. {
            let column = self.column(self.began + second * 1_000_000_000);
            if column >= columns {
                break;
            }
            let filled = ruler.chars().count();
            ruler.push_str(&" ".repeat((indent + column).saturating_sub(filled)));
            let _ = write!(ruler, "│{second} s");
        }
        ruler
    }
}

fn nanos(record: &Value) -> u64 {
    record["ts"].as_str().and_then(Stamp::parse).map_or(0, |stamp| stamp.unix_nanos())
}

fn glyph(glyph: char, colour: bool) -> String {
    let number = LEGEND.iter().find(|entry| entry.0 == glyph).map_or(0, |entry| entry.1);
    painted(number, &glyph.to_string(), colour && number > 0)
}

fn painted(number: u8, text: &str, colour: bool) -> String {
    match colour {
        true => format!("\x1b[{number}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}
