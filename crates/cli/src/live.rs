//! The state of a run in progress: its tasks from its records, and their progress from its process.
//! It doesn't decide how that is displayed.

use std::collections::{BTreeMap, BTreeSet};
use tiffany_records::Record;

use serde_json::{Value, json};
use tiffany_kernel::{Tid, Time};

use tiffany::pal::{Activity, Stage};
use tiffany_log::{LogLine, RecordType};
use tiffany_records::tasks::{Seen, TaskSeen, Tasks, error_text};
use tiffany_records::wait_reason::Waiting;

/// The width of a progress bar.
const BAR: u64 = 20;

#[derive(Default)]
pub(super) struct Live {
    pub(super) tasks: Tasks,
    bars: BTreeMap<u64, Bar>,
}

/// The progress of a task.
struct Bar {
    done: u64,
    total: Option<u64>,
    message: String,
    /// The step that reports the progress, unless the task itself does.
    step: Option<String>,
}

/// A line for a task.
pub(super) struct Row<'a> {
    pub(super) tid: u64,
    /// The branches of the tree before the task.
    pub(super) lead: String,
    pub(super) task: &'a TaskSeen,
    bar: Option<&'a Bar>,
}

impl Live {
    pub(super) fn record(&mut self, record: &LogLine<'_>) {
        let tid = record.tid.0;
        let is_over = match record.record_type() {
            // The end of the step removes its bar.
            Some(RecordType::EffectResult) => {
                self.bars.get(&tid).is_some_and(|bar| bar.step.is_some())
            }
            kind => matches!(
                kind,
                Some(RecordType::TaskExit | RecordType::TaskAbort | RecordType::TaskCancel)
            ),
        };
        if is_over {
            self.bars.remove(&tid);
        }
        self.tasks.add(record, &Record::read(record));
    }

    /// Adds an event of the process. Returns the task and the text if it has something to print at
    /// once.
    pub(super) fn event(&mut self, event: &Activity) -> Option<(u64, String)> {
        let tid = event.tid.unwrap_or(Tid(1)).0;
        if event.ghost {
            return None;
        }
        match event.stage {
            Stage::Progress => {
                let data = event.data.to_json();
                let is_over =
                    self.tasks.all.get(&tid).is_some_and(|task| task.state != Seen::Going);
                if let Some(done) = data["done"].as_u64().filter(|_| !is_over) {
                    let step = data["step"].as_str().map(str::to_owned);
                    let (total, message) = (data["total"].as_u64(), event.message.to_string());
                    self.bars.insert(tid, Bar { done, total, message, step });
                }
                None
            }
            Stage::Log | Stage::Output => Some((tid, event.message.trim_end().to_owned())),
            _ => None,
        }
    }

    /// Returns the records of the calls that wait for a person.
    pub(super) fn questions(&self) -> BTreeSet<u64> {
        let waits = self.tasks.waits().filter(|(.., waiting)| waiting.call == "approve");
        waits.map(|(_, record, _)| record).collect()
    }

    /// Returns the tasks as a tree, each after its parent.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let mut children: BTreeMap<Option<u64>, Vec<u64>> = BTreeMap::new();
        for (tid, task) in &self.tasks.all {
            // A task whose spawn is in an earlier generation is shown at the top level.
            let parent = task.parent.filter(|parent| self.tasks.all.contains_key(parent));
            children.entry(parent).or_default().push(*tid);
        }
        let mut rows = Vec::new();
        // A task, its branch, and the branch of its children.
        let mut open: Vec<(u64, String, String)> = Vec::new();
        let roots = children.get(&None).into_iter().flatten().rev();
        open.extend(roots.map(|tid| (*tid, String::new(), String::new())));
        while let Some((tid, lead, below)) = open.pop() {
            let of_task = children.get(&Some(tid)).map_or(&[][..], Vec::as_slice);
            for (at, child) in of_task.iter().enumerate().rev() {
                let (branch, next) = match at + 1 == of_task.len() {
                    true => ("└─ ", "   "),
                    false => ("├─ ", "│  "),
                };
                open.push((*child, format!("{below}{branch}"), format!("{below}{next}")));
            }
            rows.push(Row { tid, lead, task: &self.tasks.all[&tid], bar: self.bars.get(&tid) });
        }
        rows
    }
}

impl Row<'_> {
    pub(super) fn name(&self) -> String {
        self.task.name.as_ref().map_or(String::new(), |name| format!(" `{name}`"))
    }

    /// Describes the state of the task and what it waits for, with words that only change when
    /// these change.
    pub(super) fn what(&self) -> String {
        self.words(Waiting::what)
    }

    /// Describes the state of the task and what it waits for, at a moment.
    pub(super) fn what_at(&self, now: Time) -> String {
        self.words(|waiting| waiting.what_at(now))
    }

    fn words(&self, say: impl Fn(&Waiting) -> String) -> String {
        let waits = self.task.waits.values().filter(|waiting| !waiting.maybe_over);
        let mut parts: Vec<String> = self.bar.iter().map(|bar| bar.text()).collect();
        parts.extend(waits.map(say));
        parts.extend(self.task.error.as_ref().map(error_text));
        parts.join("; ")
    }

    pub(super) fn json(&self) -> Value {
        let waits: Vec<String> = self.task.waits.values().map(|waiting| waiting.what()).collect();
        let bar = self.bar.map(|bar| {
            json!({ "done": bar.done, "total": bar.total, "message": bar.message, "step": bar.step })
        });
        json!({
            "tid": self.tid, "parent": self.task.parent, "name": self.task.name,
            "state": self.task.word(), "waits": waits, "progress": bar, "error": self.task.error,
        })
    }
}

impl Bar {
    fn text(&self) -> String {
        let Bar { done, total, message, .. } = self;
        let bar = match total {
            Some(total) => {
                let (done, all) = (*done.min(total), (*total).max(1));
                let full = (u128::from(done) * u128::from(BAR) / u128::from(all)) as u64;
                let bar: String = (0..BAR).map(|at| if at < full { '█' } else { '░' }).collect();
                format!("{bar} {done}/{total}")
            }
            None => done.to_string(),
        };
        format!("{bar} {message}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Bar;

    #[test]
    fn a_bar_is_as_full_as_its_task_is_far() {
        let text = |done, total| Bar { done, total, message: "pages".into(), step: None }.text();
        assert_eq!(text(0, Some(4)), "░░░░░░░░░░░░░░░░░░░░ 0/4 pages");
        assert_eq!(text(1, Some(4)), "█████░░░░░░░░░░░░░░░ 1/4 pages");
        assert_eq!(text(9, Some(4)), "████████████████████ 4/4 pages");
        assert_eq!(text(u64::MAX, Some(u64::MAX)).chars().filter(|c| *c == '█').count(), 20);
        assert_eq!(text(0, Some(0)), "░░░░░░░░░░░░░░░░░░░░ 0/0 pages");
        assert_eq!(text(7, None), "7 pages");
    }
}
