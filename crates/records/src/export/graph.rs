//! Exports the tasks of a run as a Mermaid flowchart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::record::{Inline, owned};
use crate::record::{Record, TaskYield};
use tiffany_log::LogError;

/// The number of edges that Mermaid draws by default.
const MAX_EDGES: usize = 500;

#[derive(Default)]
pub(super) struct Graph {
    tasks: BTreeMap<u64, Task>,
    spawned: Vec<(u64, u64)>,
    waits: BTreeSet<(u64, u64)>,
}

#[derive(Default)]
struct Task {
    name: String,
    end: Option<&'static str>,
}

impl Graph {
    pub(super) fn add(&mut self, tid: u64, record: &Record<'_>) {
        match record {
            Record::RunStart(start) => {
                self.tasks.insert(tid, Task { name: owned(start.function), end: None });
            }
            Record::TaskSpawn(spawn) => {
                let Some(child) = spawn.child else { return };
                self.tasks.insert(child, Task { name: owned(spawn.name), end: None });
                self.spawned.push((tid, child));
            }
            Record::TaskYield(call) => {
                if matches!(&*call.tag(), "wait" | "wait_task" | "gather" | "race") {
                    self.waits.extend(targets(call).into_iter().map(|target| (tid, target)));
                }
            }
            Record::TaskExit(_) => self.ended(tid, "completed"),
            Record::TaskAbort(_) => self.ended(tid, "failed"),
            Record::TaskCancel(_) => self.ended(tid, "cancelled"),
            _ => {}
        }
    }

    fn ended(&mut self, tid: u64, how: &'static str) {
        let task = self.tasks.entry(tid).or_default();
        // A run that fails later is recorded under the root's number, after the root's end.
        task.end = Some(how);
    }

    pub(super) fn text(&self, unread: Option<&LogError>) -> String {
        let mut text = String::from("flowchart TD\n");
        if let Some(error) = unread {
            text.push_str(&format!("  %% not all could be read: {}\n", escape(&error.to_string())));
        }
        let edges = self.spawned.len() + self.waits.len();
        if edges > MAX_EDGES {
            text.push_str(&format!("  %% {edges} edges: set maxEdges, or Mermaid draws none\n"));
        }
        for (tid, task) in &self.tasks {
            let name = match task.name.is_empty() {
                true => tid.to_string(),
                false => format!("{tid} {}", escape(&task.name)),
            };
            let class = task.end.unwrap_or("live");
            text.push_str(&format!("  t{tid}[\"{name}\"]:::{class}\n"));
        }
        for (parent, child) in &self.spawned {
            text.push_str(&format!("  t{parent} --> t{child}\n"));
        }
        for (tid, target) in &self.waits {
            text.push_str(&format!("  t{tid} -. waits for .-> t{target}\n"));
        }
        text.push_str("  classDef completed stroke:#2a2,color:#060,fill:#efe\n");
        text.push_str("  classDef failed stroke:#c00,color:#900,fill:#fdd,stroke-width:3px\n");
        text.push_str("  classDef cancelled stroke:#888,color:#555,fill:#eee,stroke-dasharray:4\n");
        text.push_str("  classDef live stroke:#27c,color:#036,fill:#def\n");
        text
    }
}

/// Returns the tasks that a call waits for.
pub(super) fn targets(call: &TaskYield<'_>) -> Vec<u64> {
    if let Some(task) = call.task {
        return vec![task];
    }
    let items = call.items.and_then(|Inline(json)| serde_json::from_str::<Vec<Value>>(json).ok());
    items.unwrap_or_default().iter().filter_map(|item| item["task"].as_u64()).collect()
}

/// Escapes text for use inside Mermaid's quotation marks.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '#' => out.push_str("#35;"),
            ';' => out.push_str("#59;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '`' => out.push_str("#96;"),
            '\\' => out.push_str("#92;"),
            c if c.is_control()
                || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push(' ')
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_quotation_marks() {
        assert_eq!(escape("a\"] --> x;\n#<b>"), "a#quot;] --#gt; x#59; #35;#lt;b#gt;");
        assert_eq!(escape("grün 茶"), "grün 茶");
    }
}
