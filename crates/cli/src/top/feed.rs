//! Collects what the screen shows, on a separate thread, so that keys are never delayed: through
//! the socket of the process that owns the directory, or from the log if no process owns it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::clean;
use tiffany::control::{Control, RunPage, RunQuery, RunSummary};
use tiffany::history::{RecordQuery, RunIndex, TasksStanding};
use tiffany::{TaskError, Uuid};

use super::gauges::{self, Counted, Gauges};

/// How long the process has to answer. Until then the screen shows older data.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The most records of a task that are shown.
const RECORDS: usize = 200;

/// The data that the screen needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    pub(super) query: RunQuery,
    /// The run that is open.
    pub(super) run: Option<Uuid>,
    /// The task of the run that is open.
    pub(super) task: Option<u64>,
}

/// The collected data at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    /// The process that owns the directory.
    pub(super) pid: Option<u32>,
    pub(super) page: RunPage,
    pub(super) gauges: Option<Gauges>,
    pub(super) run: Option<RunSeen>,
    /// An error, or the result of an action.
    pub(super) said: Option<String>,
}

/// A run that is open.
#[derive(Clone, Debug)]
pub(super) struct RunSeen {
    pub(super) summary: RunSummary,
    pub(super) value: Option<String>,
    pub(super) tasks: Option<TasksStanding>,
    /// The records of the open task, the newest first.
    pub(super) records: Vec<String>,
}

enum LoopMessage {
    Want(Box<Wanted>),
    Cancel(Uuid),
}

/// The thread that collects the data.
pub(super) struct Feed {
    letters: Sender<LoopMessage>,
    pictures: Receiver<Picture>,
}

impl Feed {
    pub(super) fn start(dir: PathBuf, every: Duration) -> io::Result<Feed> {
        let (letters, asked) = channel();
        let (send, pictures) = channel();
        let mut looking = Looking { dir, run_index: None, counted: None, said: None };
        std::thread::Builder::new().name("tiffany-top".into()).spawn(move || {
            let mut wanted = Wanted::default();
            loop {
                if send.send(looking.look(&wanted)).is_err() {
                    return;
                }
                let next = Instant::now() + every;
                // A changed request is handled at once.
                loop {
                    match asked.recv_timeout(next.saturating_duration_since(Instant::now())) {
                        Ok(LoopMessage::Want(new)) if *new == wanted => {}
                        Ok(LoopMessage::Want(new)) => {
                            wanted = *new;
                            break;
                        }
                        Ok(LoopMessage::Cancel(run)) => {
                            looking.cancel(run);
                            break;
                        }
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        })?;
        Ok(Feed { letters, pictures })
    }

    /// Sets what to collect from now on.
    pub(super) fn want(&self, wanted: Wanted) {
        // The thread lives as long as this value.
        drop(self.letters.send(LoopMessage::Want(Box::new(wanted))));
    }

    pub(super) fn cancel(&self, run: Uuid) {
        drop(self.letters.send(LoopMessage::Cancel(run)));
    }

    /// Returns the latest data, if it is new.
    pub(super) fn take(&self) -> Option<Picture> {
        self.pictures.try_iter().last()
    }
}

struct Looking {
    dir: PathBuf,
    /// The index of the open run's records.
    run_index: Option<(Uuid, RunIndex)>,
    counted: Option<Counted>,
    /// The result of the last action.
    said: Option<String>,
}

impl Looking {
    fn look(&mut self, wanted: &Wanted) -> Picture {
        let mut picture = Picture { said: self.said.clone(), ..Picture::default() };
        match self.fill(wanted, &mut picture) {
            Ok(()) => {}
            Err(error) => picture.said = Some(clean(&error.to_string()).into_owned()),
        }
        picture
    }

    fn fill(&mut self, wanted: &Wanted, picture: &mut Picture) -> Result<(), TaskError> {
        let mut control = match Control::connect_within(&self.dir, CONNECT_TIMEOUT)? {
            Some(control) => control,
            None => Control::open(&self.dir)?,
        };
        if !control.is_offline() {
            picture.pid = Some(control.status()?.pid);
            let (gauges, counted) = gauges::read(&control.metrics()?, self.counted, Instant::now());
            picture.gauges = Some(gauges);
            self.counted = Some(counted);
        }
        picture.page = control.runs(&wanted.query)?;
        if let Some(run) = wanted.run {
            let detail = control.show(run)?;
            let seen = self.read(run, wanted.task);
            picture.run = Some(RunSeen {
                summary: detail.summary,
                value: detail.value.map(|value| value.get().to_owned()),
                tasks: seen.as_ref().ok().map(|(tasks, _)| tasks.clone()),
                records: seen.as_ref().map_or_else(|_| Vec::new(), |(_, records)| records.clone()),
            });
            if let Err(error) = seen {
                picture.said = Some(error);
            }
        }
        Ok(())
    }

    /// Reads the records of a run.
    fn read(
        &mut self,
        run: Uuid,
        task: Option<u64>,
    ) -> Result<(TasksStanding, Vec<String>), String> {
        let run_index = match self.run_index.take().filter(|(known, _)| *known == run) {
            Some((_, run_index)) => run_index,
            None => RunIndex::new(&self.dir, run),
        };
        let (_, run_index) = self.run_index.insert((run, run_index));
        let read = run_index.extend().and_then(|()| {
            let tasks = run_index.tasks(None)?;
            let query =
                RecordQuery { task, is_descending: true, limit: RECORDS, ..RecordQuery::default() };
            let records = match task {
                Some(_) => run_index.records(&query)?.records,
                None => Vec::new(),
            };
            Ok((tasks, records))
        });
        read.map_err(|error| clean(&error.to_string()).into_owned())
    }

    fn cancel(&mut self, run: Uuid) {
        let cancelled = Control::open(&self.dir).and_then(|mut control| control.cancel(run));
        self.said = Some(match cancelled {
            Ok(()) => format!("run {run} is asked to end"),
            Err(error) => clean(&error.to_string()).into_owned(),
        });
    }
}

/// Returns the tasks as a tree, each after its parent, with its depth.
pub(super) fn tree(tasks: &TasksStanding) -> Vec<(usize, usize)> {
    let known: BTreeMap<u64, usize> =
        tasks.tasks.iter().enumerate().map(|(at, task)| (task.tid, at)).collect();
    let mut children: BTreeMap<Option<u64>, Vec<usize>> = BTreeMap::new();
    for (at, task) in tasks.tasks.iter().enumerate() {
        let parent = task.parent.filter(|parent| known.contains_key(parent));
        children.entry(parent).or_default().push(at);
    }
    let mut rows = Vec::with_capacity(tasks.tasks.len());
    let mut open: Vec<(usize, usize)> = Vec::new();
    let of = |parent: Option<u64>| children.get(&parent).into_iter().flatten().rev();
    open.extend(of(None).map(|at| (*at, 0)));
    while let Some((at, depth)) = open.pop() {
        rows.push((at, depth));
        open.extend(of(Some(tasks.tasks[at].tid)).map(|child| (*child, depth + 1)));
    }
    rows
}
