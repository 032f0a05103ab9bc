//! The state of the screen, and the effect of keys. It doesn't depend on a terminal.

use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use serde_json::Value;
use tiffany::Uuid;
use tiffany::control::{RunQuery, RunSummary, SortBy, State};
use tiffany::history::TaskStanding;

use super::feed::{Picture, Wanted, tree};
use super::stack::Stack;

/// An action that a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Collect different data.
    Look,
    Cancel(Uuid),
    Stack(Uuid),
}

/// The current view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Runs,
    Run(Uuid),
    Task(Uuid, u64),
}

/// The runs that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    All,
    GoOn,
    Failed,
}

/// The meaning of keys at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Look,
    /// A filter is being typed.
    Type,
    /// A confirmation before a run is cancelled, with its UUID and its name.
    Sure(Uuid, String),
    Help,
}

pub(super) struct Top {
    pub(super) dir: String,
    pub(super) colour: bool,
    pub(super) view: View,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) listed: Listed,
    pub(super) sort: SortBy,
    pub(super) picture: Picture,
    /// No data has arrived yet.
    pub(super) is_new: bool,
    /// The selected row, and the first row on the screen.
    pub(super) chosen: usize,
    pub(super) first: usize,
    /// The selected rows of the views that led here.
    trail: Vec<usize>,
    /// The result of a replay of the open run.
    pub(super) stack: Option<Result<Value, String>>,
    /// Whether a replay is in progress.
    pub(super) is_replaying: bool,
}

/// The most runs that are listed.
const MAX_RUNS: usize = 2_000;
/// The number of rows by which the page keys move.
const PAGE: usize = 10;

/// The states of unfinished runs.
const UNFINISHED: [State; 4] = [State::Live, State::Ending, State::Paused, State::Held];

impl Top {
    pub(super) fn new(dir: String, colour: bool) -> Top {
        Top {
            dir,
            colour,
            view: View::Runs,
            mode: Mode::Look,
            filter: String::new(),
            listed: Listed::All,
            sort: SortBy::Started,
            picture: Picture::default(),
            is_new: true,
            chosen: 0,
            first: 0,
            trail: Vec::new(),
            stack: None,
            is_replaying: false,
        }
    }

    /// Returns what has to be collected.
    pub(super) fn wanted(&self) -> Wanted {
        let states = match self.listed {
            Listed::All => Vec::new(),
            Listed::GoOn => UNFINISHED.to_vec(),
            Listed::Failed => vec![State::Failed, State::Damaged, State::Paused, State::Held],
        };
        let text = Some(self.filter.clone()).filter(|text| !text.is_empty());
        let descending = matches!(self.sort, SortBy::Started | SortBy::Ended);
        let query = RunQuery {
            states,
            text,
            sort: self.sort,
            descending,
            limit: MAX_RUNS,
            ..RunQuery::default()
        };
        let (run, task) = match self.view {
            View::Runs => (None, None),
            View::Run(run) => (Some(run), None),
            View::Task(run, task) => (Some(run), Some(task)),
        };
        Wanted { query, run, task }
    }

    /// Adds new data. The selected run stays selected, wherever it is now.
    pub(super) fn picture(&mut self, picture: Picture) {
        let before = self.chosen_run().map(|run| run.uuid);
        self.picture = picture;
        self.is_new = false;
        if let (View::Runs, Some(run)) = (self.view, before)
            && let Some(at) = self.picture.page.runs.iter().position(|one| one.uuid == run)
        {
            self.chosen = at;
        }
        self.chosen = self.chosen.min(self.rows().saturating_sub(1));
    }

    pub(super) fn stack(&mut self, stack: Stack) {
        let is_it = match self.view {
            View::Runs => false,
            View::Run(run) | View::Task(run, _) => run == stack.run,
        };
        if is_it {
            self.is_replaying = false;
            self.stack = Some(stack.told);
        }
    }

    /// Returns the tasks of the open run in the order of the tree, with their depth.
    pub(super) fn tasks(&self) -> Vec<(&TaskStanding, usize)> {
        let standing = self.picture.run.as_ref().and_then(|run| run.tasks.as_ref());
        let rows = standing.map(|tasks| (tasks, tree(tasks)));
        rows.map_or_else(Vec::new, |(tasks, rows)| {
            rows.into_iter().map(|(at, depth)| (&tasks.tasks[at], depth)).collect()
        })
    }

    /// Returns the open task.
    pub(super) fn task(&self) -> Option<&TaskStanding> {
        let View::Task(_, tid) = self.view else { return None };
        let tasks = self.picture.run.as_ref()?.tasks.as_ref()?;
        tasks.tasks.iter().find(|task| task.tid == tid)
    }

    fn chosen_run(&self) -> Option<&RunSummary> {
        match self.view {
            View::Runs => self.picture.page.runs.get(self.chosen),
            _ => Some(&self.picture.run.as_ref()?.summary),
        }
    }

    /// Returns the number of rows that can be selected.
    pub(super) fn rows(&self) -> usize {
        match self.view {
            View::Runs => self.picture.page.runs.len(),
            View::Run(_) => {
                let tasks = self.picture.run.as_ref().and_then(|run| run.tasks.as_ref());
                tasks.map_or(0, |tasks| tasks.tasks.len())
            }
            View::Task(..) => self.picture.run.as_ref().map_or(0, |run| run.records.len()),
        }
    }

    /// Handles a key.
    pub(super) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Option<Wish> {
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Wish::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => self.look(code),
            Mode::Type => self.type_in(code),
            // Any key closes the help.
            Mode::Help => None,
            Mode::Sure(run, _) => match code {
                KeyCode::Char('y' | 'Y') => Some(Wish::Cancel(run)),
                _ => None,
            },
        }
    }

    fn look(&mut self, code: KeyCode) -> Option<Wish> {
        let last = self.rows().saturating_sub(1);
        match code {
            KeyCode::Char('q') => return Some(Wish::Quit),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::PageDown => self.chosen = (self.chosen + PAGE).min(last),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.chosen = 0,
            KeyCode::End | KeyCode::Char('G') => self.chosen = last,
            KeyCode::Enter | KeyCode::Right => return self.enter(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => return self.leave(),
            KeyCode::Char('c') => {
                // A finished run cannot be changed.
                let goes_on = |run: &&RunSummary| UNFINISHED.contains(&run.state);
                if let Some(run) = self.chosen_run().filter(goes_on) {
                    let id = if run.id.is_empty() { "?" } else { &run.id };
                    self.mode = Mode::Sure(run.uuid, id.to_owned());
                }
            }
            KeyCode::Char('t') => {
                let (View::Run(run) | View::Task(run, _)) = self.view else { return None };
                self.is_replaying = true;
                return Some(Wish::Stack(run));
            }
            KeyCode::Char('/') if self.view == View::Runs => self.mode = Mode::Type,
            KeyCode::Char('s') if self.view == View::Runs => {
                self.sort = match self.sort {
                    SortBy::Started => SortBy::Ended,
                    SortBy::Ended => SortBy::Id,
                    SortBy::Id => SortBy::Function,
                    SortBy::Function => SortBy::Started,
                };
                return Some(Wish::Look);
            }
            KeyCode::Char('a') if self.view == View::Runs => {
                self.listed = match self.listed {
                    Listed::All => Listed::GoOn,
                    Listed::GoOn => Listed::Failed,
                    Listed::Failed => Listed::All,
                };
                self.chosen = 0;
                return Some(Wish::Look);
            }
            _ => {}
        }
        None
    }

    fn enter(&mut self) -> Option<Wish> {
        let next = match self.view {
            View::Runs => View::Run(self.chosen_run()?.uuid),
            View::Run(run) => View::Task(run, self.tasks().get(self.chosen)?.0.tid),
            View::Task(..) => return None,
        };
        self.trail.push(self.chosen);
        self.move_to(next, 0)
    }

    fn leave(&mut self) -> Option<Wish> {
        let back = match self.view {
            View::Runs if self.filter.is_empty() => return None,
            View::Runs => {
                self.filter.clear();
                return Some(Wish::Look);
            }
            View::Run(_) => View::Runs,
            View::Task(run, _) => View::Run(run),
        };
        let chosen = self.trail.pop().unwrap_or(0);
        self.move_to(back, chosen)
    }

    fn move_to(&mut self, view: View, chosen: usize) -> Option<Wish> {
        let is_same_run = matches!((self.view, view), (View::Run(a), View::Task(b, _)) | (View::Task(a, _), View::Run(b)) if a == b);
        if !is_same_run {
            (self.stack, self.is_replaying) = (None, false);
            self.picture.run = None;
        }
        (self.view, self.chosen, self.first) = (view, chosen, 0);
        Some(Wish::Look)
    }

    fn type_in(&mut self, code: KeyCode) -> Option<Wish> {
        match code {
            KeyCode::Enter => return None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Backspace => {
                self.filter.pop();
                self.mode = Mode::Type;
            }
            KeyCode::Char(c) if !c.is_control() => {
                self.filter.push(c);
                self.mode = Mode::Type;
            }
            _ => {
                self.mode = Mode::Type;
                return None;
            }
        }
        self.chosen = 0;
        Some(Wish::Look)
    }
}

#[cfg(test)]
mod tests {
    use tiffany::control::RunPage;

    use super::*;

    const ID: [&str; 3] = ["one", "two", "three"];

    /// Returns a screen with three runs.
    fn top() -> Top {
        let mut top = Top::new("dir".into(), false);
        top.picture(picture(&[1, 2, 3]));
        top
    }

    fn picture(uuids: &[u128]) -> Picture {
        let runs = uuids.iter().map(|uuid| {
            let id = ID[(*uuid - 1) as usize];
            let text = format!(
                r#"{{"uuid":"{}","id":"{id}","function":"f","state":"live","started":""}}"#,
                Uuid(*uuid)
            );
            serde_json::from_str(&text).unwrap()
        });
        let page = RunPage { runs: runs.collect(), ..RunPage::default() };
        Picture { page, ..Picture::default() }
    }

    fn press(top: &mut Top, keys: &str) -> Vec<Option<Wish>> {
        keys.chars().map(|key| top.key(code(key), KeyModifiers::NONE)).collect()
    }

    /// Parses a key: `<` is Esc, `>` is Enter.
    fn code(key: char) -> KeyCode {
        match key {
            '<' => KeyCode::Esc,
            '>' => KeyCode::Enter,
            key => KeyCode::Char(key),
        }
    }

    #[test]
    fn keys_choose_enter_and_leave() {
        let mut top = top();
        press(&mut top, "jjjj");
        assert_eq!(top.chosen, 2, "there is no row after the last");
        press(&mut top, "k");
        assert_eq!(press(&mut top, ">"), [Some(Wish::Look)]);
        assert_eq!(top.view, View::Run(Uuid(2)));
        assert_eq!(top.wanted().run, Some(Uuid(2)));
        assert_eq!(press(&mut top, ">"), [None], "no task is known yet");
        assert_eq!(press(&mut top, "t"), [Some(Wish::Stack(Uuid(2)))]);
        assert_eq!(press(&mut top, "<"), [Some(Wish::Look)]);
        assert_eq!((top.view, top.chosen), (View::Runs, 1), "one is where one was");
    }

    #[test]
    fn the_run_that_is_chosen_stays_so() {
        let mut top = top();
        press(&mut top, "j");
        top.picture(picture(&[3, 1, 2]));
        assert_eq!(top.chosen, 2);
        top.picture(picture(&[1]));
        assert_eq!(top.chosen, 0);
        top.picture(picture(&[]));
        assert_eq!((top.chosen, press(&mut top, "jkG>c")), (0, vec![None; 5]));
    }

    #[test]
    fn a_run_is_cancelled_only_if_one_is_sure() {
        let mut top = top();
        assert_eq!(press(&mut top, "cn"), [None, None]);
        assert_eq!(top.mode, Mode::Look);
        assert_eq!(press(&mut top, "c<"), [None, None]);
        assert_eq!(press(&mut top, "jcy"), [None, None, Some(Wish::Cancel(Uuid(2)))]);
        // Data that arrives in between doesn't change which run is meant.
        press(&mut top, "c");
        top.picture(picture(&[3]));
        assert_eq!(press(&mut top, "y"), [Some(Wish::Cancel(Uuid(2)))]);
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let mut top = top();
        press(&mut top, "/q?c");
        assert_eq!(top.filter, "q?c", "all keys are letters while one types");
        assert_eq!(top.key(KeyCode::Backspace, KeyModifiers::NONE), Some(Wish::Look));
        press(&mut top, ">");
        assert_eq!(top.wanted().query.text.as_deref(), Some("q?"));
        assert_eq!(press(&mut top, "<"), [Some(Wish::Look)]);
        assert_eq!(top.wanted().query.text, None);
    }

    #[test]
    fn lists_and_orders_go_round() {
        let mut top = top();
        let lists = press(&mut top, "a");
        assert_eq!(
            (lists, top.wanted().query.states),
            (vec![Some(Wish::Look)], UNFINISHED.to_vec())
        );
        press(&mut top, "aa");
        assert!(top.wanted().query.states.is_empty());
        let mut orders = Vec::new();
        for _ in 0..4 {
            press(&mut top, "s");
            orders.push((top.wanted().query.sort, top.wanted().query.descending));
        }
        let expected = [
            (SortBy::Ended, true),
            (SortBy::Id, false),
            (SortBy::Function, false),
            (SortBy::Started, true),
        ];
        assert_eq!(orders, expected);
    }

    #[test]
    fn ctrl_c_and_q_leave_at_once() {
        let mut top = top();
        assert_eq!(press(&mut top, "q"), [Some(Wish::Quit)]);
        press(&mut top, "/");
        assert_eq!(top.key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Quit));
    }
}
