//! The finished runs of a log, one line each, so that a list of them reads no file. The catalogue
//! is made when it is first needed, on a thread of its own, and is then told which runs end and
//! which are removed. The loop lists the running ones; here they are merged with the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tiffany_kernel::{Attributes, ErrorKind, TaskError, Time, Uuid};

use crate::host::tell::Tell;
use crate::run_log::dormant_run::why_not_open;
use crate::run_log::replay::read::read_outcome;
use tiffany_log::{Disk, LogError, RunEntry, RunState, Stamp};
use tiffany_records::RunOutline;
use tiffany_records::errors::log_failed;
use tiffany_records::key::LogEnd;
use tiffany_records::request::{
    Answer, ErrorSummary, Outcome, Parent, Row, RunDetail, RunPage, RunQuery, RunSummary, State,
    moment,
};
use tiffany_records::value::plain::unmark;

/// How often a run that has just ended is looked for, because it may not be in its file yet, and
/// the time between.
const LOOKS: usize = 100;
const LOOK: Duration = Duration::from_millis(20);
/// These numbers for an entry that may not exist.
const IDLE_LOOKS: usize = 5;
/// The number of files that are read before requests are checked.
const FILES_BATCH: usize = 64;

/// A finished run, or the beginning of an unfinished one.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: Box<str>,
    pub(crate) function: Arc<str>,
    pub(crate) state: State,
    pub(crate) started: Time,
    pub(crate) ended: Option<Time>,
    pub(crate) error: Option<Box<ErrorSummary>>,
    pub(crate) parent: Option<Box<Parent>>,
    /// Its tags and attributes, if it has any, and its deadline.
    pub(crate) attributes: Option<Box<Attributes>>,
    pub(crate) deadline: Option<Time>,
}

/// A run that does not continue here.
pub(crate) type PausedRun = (Uuid, Option<TaskError>, State, Option<Attributes>);

/// A query, with the loop's part of the answer.
pub(crate) struct Listing {
    pub(crate) query: RunQuery,
    /// Running runs, as many as a page can have, and the number of all that match.
    pub(crate) live: Vec<(Time, RunSummary)>,
    pub(crate) live_total: u64,
    /// Runs that do not continue here, the reasons, and their tags and attributes if they are
    /// known; and the removed runs, if they are wanted.
    pub(crate) paused: Vec<PausedRun>,
    pub(crate) removed: Vec<Uuid>,
}

/// The loop's knowledge of a run that does not continue.
pub(crate) enum Shown {
    Paused(Option<TaskError>, State, Option<Attributes>),
    /// With its value or its error, if it ended recently.
    Over(LogEnd, Option<Result<Arc<str>, TaskError>>),
}

/// A message to the catalogue.
pub(crate) enum Job {
    Over(Uuid, Box<Entry>),
    Removed(Vec<Uuid>),
    List(Box<Listing>, Tell),
    Show(Uuid, Shown, Tell),
    /// A decision about a question that is not open.
    NotOpen(String, Tell),
}

/// The number of outcomes that are kept, and the length up to which one is.
const OUTCOMES: usize = 32;
const MAX_OUTCOME_BYTES: usize = 1 << 16;

pub(crate) struct Catalogue {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    over: BTreeMap<Uuid, Entry>,
    /// The beginnings of paused runs that were read.
    heads: BTreeMap<Uuid, Entry>,
    /// The outcomes of the runs that were shown last, each of which takes a whole log to read.
    outcomes: VecDeque<(Uuid, Ended)>,
    functions: BTreeSet<Arc<str>>,
    /// The runtime that writes, if there is one. When it is gone, no client waits for an answer.
    writer: Option<Weak<()>>,
    /// The work between two checks.
    rest: Box<dyn Fn() + Send>,
}

/// The thread of a catalogue. It ends when this is dropped.
pub(crate) struct Cataloguing {
    jobs: Sender<Job>,
    /// Questions that are not open are looked up in whole logs, on a separate thread, so that lists
    /// don't wait for that.
    not_open: Sender<(String, Tell)>,
    _alive: Arc<()>,
}

impl Cataloguing {
    /// Reads these runs, and then answers requests.
    pub(crate) fn start(
        mut catalogue: Catalogue,
        over: Vec<(Uuid, LogEnd)>,
    ) -> std::io::Result<Cataloguing> {
        let (jobs, wanted) = channel();
        let alive = Arc::new(());
        catalogue.writer = Some(Arc::downgrade(&alive));
        let mut decided = Catalogue::new(Arc::clone(&catalogue.disk), catalogue.root.clone());
        decided.writer.clone_from(&catalogue.writer);
        let (not_open, asked) = channel::<(String, Tell)>();
        std::thread::Builder::new()
            .name("tiffany-catalogue".into())
            .spawn(move || catalogue.work(over, &wanted))?;
        std::thread::Builder::new().name("tiffany-decided".into()).spawn(move || {
            for (approval, tell) in asked {
                tell.tell(Err(decided.why_not_open(&approval)));
            }
        })?;
        Ok(Cataloguing { jobs, not_open, _alive: alive })
    }

    pub(crate) fn send(&self, job: Job) {
        // A thread that has panicked answers no request; dropping the requests informs the clients.
        match job {
            Job::NotOpen(approval, tell) => drop(self.not_open.send((approval, tell))),
            job => drop(self.jobs.send(job)),
        }
    }
}

impl Catalogue {
    pub(crate) fn new(disk: Arc<dyn Disk>, root: PathBuf) -> Catalogue {
        let (over, heads, functions) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (outcomes, rest) = (VecDeque::new(), Box::new(|| std::thread::sleep(LOOK)));
        Catalogue { disk, root, over, heads, outcomes, functions, writer: None, rest }
    }

    fn work(mut self, over: Vec<(Uuid, LogEnd)>, jobs: &Receiver<Job>) {
        let mut later = VecDeque::new();
        for (count, (run, stand)) in over.into_iter().enumerate() {
            self.read_over(run, stand);
            if !count.is_multiple_of(FILES_BATCH) {
                continue;
            }
            // A list of running runs does not wait for the finished ones.
            loop {
                match jobs.try_recv() {
                    Ok(Job::List(listing, tell)) if needs_over(&listing.query) => {
                        later.push_back(Job::List(listing, tell));
                    }
                    // The runs that end now were running when that list was requested.
                    Ok(job @ (Job::Over(..) | Job::Removed(_))) if !later.is_empty() => {
                        later.push_back(job);
                    }
                    Ok(job) => self.do_job(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
        }
        later.into_iter().for_each(|job| self.do_job(job));
        while let Ok(job) = jobs.recv() {
            self.do_job(job);
        }
    }

    /// Reads these runs, which no process writes.
    pub(crate) fn read(&mut self, over: Vec<(Uuid, LogEnd)>) {
        over.into_iter().for_each(|(run, stand)| self.read_over(run, stand));
    }

    pub(crate) fn do_job(&mut self, job: Job) {
        match job {
            Job::Over(run, entry) => self.insert(run, *entry),
            Job::Removed(runs) => {
                runs.iter().for_each(|run| drop(self.over.remove(run)));
                self.outcomes.retain(|(run, _)| !runs.contains(run));
            }
            Job::List(listing, tell) => tell.tell(self.list(*listing)),
            Job::Show(run, shown, tell) => tell.tell(self.show(run, shown)),
            Job::NotOpen(approval, tell) => tell.tell(Err(self.why_not_open(&approval))),
        }
    }

    /// Returns why a question is not open. An answer that was given a moment ago may not be in its
    /// file yet.
    fn why_not_open(&self, approval: &str) -> TaskError {
        let mut why = why_not_open(&*self.disk, &self.root, approval);
        for _ in 0..IDLE_LOOKS {
            if why.kind() != ErrorKind::NoSuchApproval || self.is_left() {
                break;
            }
            (self.rest)();
            why = why_not_open(&*self.disk, &self.root, approval);
        }
        why
    }

    fn insert(&mut self, run: Uuid, mut entry: Entry) {
        // There are few functions.
        match self.functions.get(&entry.function) {
            Some(known) => entry.function = Arc::clone(known),
            None => drop(self.functions.insert(Arc::clone(&entry.function))),
        }
        self.heads.remove(&run);
        self.over.insert(run, entry);
    }

    fn is_left(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.strong_count() == 0)
    }

    fn read_over(&mut self, run: Uuid, stand: LogEnd) {
        let entry = RunEntry {
            state: RunState::Finished,
            generation: stand.generation,
            len: 0,
            seq: stand.seq,
            crc: stand.crc,
        };
        for _ in 0..LOOKS {
            match RunOutline::at_file(&*self.disk, &self.root, run, entry) {
                Ok(outline) if outline.outcome.is_some() || outline.damage.is_some() => {
                    return self.insert(run, Entry::of(outline, RunState::Finished));
                }
                _ if self.is_left() => return,
                Ok(_) => (self.rest)(),
                Err(error) if is_missing(&error) => (self.rest)(),
                Err(error) => return self.insert(run, Entry::damaged(&error)),
            }
        }
        self.insert(run, Entry::damaged(&LogError::UnknownRun(run)));
    }

    /// The beginning of a paused run.
    fn head(&mut self, run: Uuid) -> Entry {
        if let Some(known) = self.heads.get(&run) {
            return known.clone();
        }
        let entry =
            RunEntry { state: RunState::Live, generation: 2, len: 0, seq: u64::MAX, crc: 0 };
        match RunOutline::at_file(&*self.disk, &self.root, run, entry) {
            Ok(outline) => {
                let entry = Entry::of(outline, RunState::Live);
                self.heads.insert(run, entry.clone());
                entry
            }
            Err(error) => Entry::damaged(&error),
        }
    }

    pub(crate) fn list(&mut self, listing: Listing) -> Outcome {
        let Listing { query, live, live_total, paused, removed } = listing;
        let looked = query.look()?;
        let mut others: BTreeMap<Uuid, Entry> = BTreeMap::new();
        for (run, error, state, attributes) in paused {
            others.insert(run, self.head(run).stopped(error.as_ref(), state, attributes));
        }
        others.extend(removed.into_iter().map(|run| (run, Entry::removed())));
        // The running runs were counted by the loop.
        let attributes: Vec<Attributes> =
            live.iter().map(|(_, summary)| summary.all_attributes()).collect();
        let lives = live.iter().zip(&attributes).map(|((started, summary), attributes)| Row {
            uuid: summary.uuid,
            id: &summary.id,
            function: &summary.function,
            state: summary.state,
            started: *started,
            ended: None,
            parent: summary.parent.map(|parent| parent.run),
            attributes: Some(attributes),
            what: Found::Live(summary),
        });
        let lives_given = live.len() as u64;
        let entries = self.over.iter().chain(&others).map(|(run, entry)| entry.row(*run));
        let (mut rows, total) = looked.pick(entries.chain(lives));
        let is_more = rows.len() > looked.limit();
        rows.truncate(looked.limit());
        let next = rows.last().filter(|_| is_more).map(|row| looked.cursor(row));
        let runs = rows.iter().map(|row| match row.what {
            Found::Live(summary) => summary.clone(),
            Found::Entry(entry) => entry.summary(row.uuid),
        });
        let total = total - lives_given + live_total;
        Ok(Answer::Runs(RunPage { runs: runs.collect(), total, next }))
    }

    pub(crate) fn show(&mut self, run: Uuid, shown: Shown) -> Outcome {
        let (entry, outcome) = match shown {
            Shown::Paused(error, state, attributes) => {
                (self.head(run).stopped(error.as_ref(), state, attributes), None)
            }
            Shown::Over(stand, outcome) => {
                if !self.over.contains_key(&run) {
                    self.read_over(run, stand);
                }
                // If the process ended before it was found, that says nothing about the run.
                let entry = self.over.get(&run).cloned().ok_or_else(left)?;
                match outcome {
                    Some(outcome) => (entry, Some(outcome)),
                    None if entry.state == State::Damaged => (entry, None),
                    None => self.checked(run, entry)?,
                }
            }
        };
        let value = outcome.as_ref().and_then(|outcome| raw_text(unmark(outcome.as_ref().ok()?)));
        let recorded = outcome.and_then(|outcome| match outcome {
            Ok(json) => raw_text(&json).map(Ok),
            Err(error) => Some(Err(error)),
        });
        let summary = entry.summary(run);
        let detail =
            RunDetail { summary, tasks: Vec::new(), promises: Vec::new(), value, recorded };
        Ok(Answer::Shown(Box::new(detail)))
    }

    /// Returns a finished run with its value, for which its whole log is read. If the log is
    /// damaged, the run is listed as damaged from now on.
    fn checked(&mut self, run: Uuid, entry: Entry) -> Result<(Entry, Option<Ended>), TaskError> {
        match self.outcome(run) {
            Ok(Some(outcome)) => Ok((entry, Some(outcome))),
            Ok(None) => Err(TaskError::new(ErrorKind::LogFailed, "its log has no end")),
            Err(error) if is_damage(&error) => {
                let Entry { error, .. } = Entry::damaged(&error);
                let entry = Entry { state: State::Damaged, error, ..entry };
                self.over.insert(run, entry.clone());
                Ok((entry, None))
            }
            Err(error) => Err(log_failed(error)),
        }
    }

    /// The outcome of a finished run, which does not change.
    fn outcome(&mut self, run: Uuid) -> Result<Option<Ended>, LogError> {
        if let Some((_, known)) = self.outcomes.iter().find(|(known, _)| *known == run) {
            return Ok(Some(known.clone()));
        }
        let Some(outcome) = read_outcome(&*self.disk, &self.root, run)? else { return Ok(None) };
        let outcome = outcome.map(Arc::<str>::from);
        if outcome.as_ref().map_or(true, |json| json.len() <= MAX_OUTCOME_BYTES) {
            self.outcomes.truncate(OUTCOMES - 1);
            self.outcomes.push_front((run, outcome.clone()));
        }
        Ok(Some(outcome))
    }
}

fn raw_text(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// The value of a run as JSON, or its error.
type Ended = Result<Arc<str>, TaskError>;

/// Whether an error means that a log, or a value in it, is damaged.
fn is_damage(error: &LogError) -> bool {
    matches!(
        error,
        LogError::DamagedRun { .. }
            | LogError::DamagedBlob(_)
            | LogError::MissingBlob(_)
            | LogError::NotRegular { .. }
            | LogError::Link { .. }
    )
}

/// The source of a row.
#[derive(Clone, Copy)]
enum Found<'a> {
    Live(&'a RunSummary),
    Entry(&'a Entry),
}

fn needs_over(query: &RunQuery) -> bool {
    State::ALL.into_iter().any(|state| state.is_over() && query.wants(state))
}

fn left() -> TaskError {
    TaskError::new(ErrorKind::Unreachable, "the runtime has ended")
}

fn is_missing(error: &LogError) -> bool {
    matches!(error, LogError::Vanished { .. })
}

/// Tags and attributes, if there are any: nearly all runs have none.
fn boxed(attributes: Attributes) -> Option<Box<Attributes>> {
    (!attributes.is_empty()).then(|| attributes.into())
}

impl Entry {
    fn of(outline: RunOutline, known: RunState) -> Entry {
        let time = |ts: &str| Stamp::parse(ts).map(|stamp| Time::from_nanos(stamp.unix_nanos()));
        let damage = outline.damage.as_ref().map(Entry::damaged);
        let state = match (known, outline.outcome) {
            _ if damage.is_some() => State::Damaged,
            (RunState::Finished, Some(outcome)) => State::from(outcome),
            _ if outline.is_held => State::Held,
            _ => State::Paused,
        };
        let error = outline.error.as_ref().map(|error| Box::new(error.into()));
        let parent = outline.fork.map(|(run, at)| Box::new(Parent { run, at }));
        Entry {
            id: outline.id.into(),
            function: outline.function.into(),
            state,
            started: time(&outline.started).unwrap_or_default(),
            ended: time(&outline.changed).filter(|_| state.is_over()),
            error: damage.map_or(error, |damage| damage.error),
            parent,
            deadline: outline.deadline.as_deref().and_then(time),
            attributes: boxed(outline.attributes),
        }
    }

    /// The summary of a run that does not continue. The given tags and attributes are newer than
    /// those that were read.
    fn stopped(
        self,
        error: Option<&TaskError>,
        state: State,
        attributes: Option<Attributes>,
    ) -> Entry {
        let error = error.map(|error| Box::new(ErrorSummary::from(error)));
        let attributes = match attributes {
            Some(known) => boxed(known),
            None => self.attributes,
        };
        Entry { state, error, attributes, ..self }
    }

    fn damaged(error: &LogError) -> Entry {
        let error = ErrorSummary { code: error.code().into(), message: error.to_string() };
        Entry { state: State::Damaged, error: Some(Box::new(error)), ..Entry::removed() }
    }

    fn removed() -> Entry {
        Entry {
            id: "".into(),
            function: "".into(),
            state: State::Removed,
            started: Time::ZERO,
            ended: None,
            error: None,
            parent: None,
            attributes: None,
            deadline: None,
        }
    }

    fn row(&self, uuid: Uuid) -> Row<'_, Found<'_>> {
        Row {
            uuid,
            id: &self.id,
            function: &self.function,
            state: self.state,
            started: self.started,
            ended: self.ended,
            parent: self.parent.as_ref().map(|parent| parent.run),
            attributes: self.attributes.as_deref(),
            what: Found::Entry(self),
        }
    }

    fn summary(&self, uuid: Uuid) -> RunSummary {
        RunSummary {
            uuid,
            id: self.id.to_string(),
            function: self.function.to_string(),
            state: self.state,
            started: moment(self.started),
            ended: self.ended.map(moment),
            error: self.error.as_deref().cloned(),
            tasks: 0,
            waits: Vec::new(),
            parent: self.parent.as_deref().copied(),
            tags: self.attributes.iter().flat_map(|all| all.tags.iter().cloned()).collect(),
            attributes: self.attributes.as_ref().map(|all| all.values.clone()).unwrap_or_default(),
            deadline: self.deadline.map(moment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use tiffany_log::{RealDisk, View};

    /// A finished run in a directory of its own, and its file.
    fn ended(name: &str) -> (PathBuf, Uuid, LogEnd, PathBuf) {
        let dir = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&dir));
        let echo = |value: u32| async move { Ok::<_, TaskError>(value) };
        let builder = Runtime::builder().log_dir(&dir).register("echo", echo);
        let mut runtime = builder.build().unwrap();
        let run = runtime.submit::<u32>("echo", "e", &7).unwrap();
        runtime.wait_for(&run).unwrap();
        drop(runtime);
        let view = View::open(Arc::new(RealDisk), &dir).unwrap();
        let (run, entry) = view.runs().next().unwrap();
        let file = dir.join(format!("wal/{run}.wal"));
        (dir, run, LogEnd::of(&entry.chain(run)), file)
    }

    fn shown(answer: Outcome) -> RunDetail {
        match answer {
            Ok(Answer::Shown(detail)) => *detail,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_whose_file_is_not_there_yet_is_waited_for() {
        let (dir, run, stand, file) = ended("late-file");
        let away = file.with_extension("away");
        std::fs::rename(&file, &away).unwrap();
        let alive = Arc::new(());
        let mut catalogue = Catalogue::new(Arc::new(RealDisk), dir.clone());
        catalogue.writer = Some(Arc::downgrade(&alive));
        catalogue.rest = Box::new(move || std::fs::rename(&away, &file).unwrap());
        let outcome = Some(Ok("7".into()));
        let detail = shown(catalogue.show(run, Shown::Over(stand, outcome)));
        assert_eq!((detail.summary.id.as_str(), detail.summary.state), ("e", State::Completed));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_runtime_that_is_gone_says_nothing_of_a_run_that_was_not_found() {
        let (dir, run, stand, file) = ended("left-file");
        std::fs::remove_file(file).unwrap();
        let mut catalogue = Catalogue::new(Arc::new(RealDisk), dir.clone());
        catalogue.writer = Some(Weak::new());
        let error = catalogue.show(run, Shown::Over(stand, Some(Ok("7".into())))).unwrap_err();
        assert_eq!(error.code(), "TFY0043");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
