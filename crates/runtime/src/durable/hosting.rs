//! How a runtime looks after its durable runs: their lines go to the log, and what leaves the process waits
//! until the lines it depends on are safe there. The loop itself never waits for the disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{
    CallRef, Completion, ErrorKind, Mode, ObjectRef, Order, Recording, RunId, TaskError, TaskInfo,
    Tid, Time, Uuid, Value,
};

use super::checkpoint::Receipt;
use super::journal::{Journal, Started};
use super::json::{Json, decode, encode};
use super::log::{CommitTime, Log};
use super::page::Page;
use super::post::{Post, Received};
use super::replay::Replay;
use super::resuming::log_failed;
use super::script::{Begun, Script};
use super::shelved::Shelved;
use crate::control::{Answer, Listening, Tell};
use crate::error::RunError;
use crate::host::Workers;
use crate::inbox::Letter;
use crate::mutation::Mutation;
use crate::pool::Work;
use crate::runtime::Runtime;
use crate::wal::{Batch, BlobHash, Chain, Disk, LogError, Notice, RunState, Ticket, Writer};

/// The durable side of a runtime.
pub(crate) struct Durable {
    pub(super) log: Log,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) root: PathBuf,
    pub(super) page: Page,
    /// What waits for lines that were not handed in yet, and for those that were.
    pub(super) held: Vec<Held>,
    pub(super) waiting: VecDeque<(Ticket, Vec<Held>)>,
    /// The last batch that was handed in, and the last one that is safe.
    handed_in: Ticket,
    safe: Ticket,
    /// More bytes wait for the disk than should. These runs could have a turn, and wait for that to end.
    pub(super) is_behind: bool,
    pub(super) held_back: Vec<usize>,
    pub(super) runs: BTreeMap<Uuid, Known>,
    ended: VecDeque<Uuid>,
    pub(super) failed: Option<LogError>,
    /// By which other processes ask; dropped before the log is closed.
    listening: Option<Listening>,
    pub(super) post: Post,
}

/// What a runtime knows of a durable run.
pub(super) enum Known {
    Live(RunId),
    /// What came of it, if it ended lately: its file may not have all of it yet.
    Over(Option<Box<Ended>>),
    /// It cannot go on with this program, or not at all if its log cannot be read.
    Paused(TaskError, Option<Box<Shelved>>),
}

/// A run that ended in this process.
pub(super) struct Ended {
    beginning: Beginning,
    outcome: Result<Arc<str>, RunError>,
}

/// What a run was started with, as far as it has to be known again.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Beginning {
    function: Rc<str>,
    input: BlobHash,
}

impl Beginning {
    pub(super) fn new(function: Rc<str>, input: &str) -> Beginning {
        Beginning { function, input: BlobHash::of(input.as_bytes()) }
    }
}

/// How many runs that are over are known without a look at their files.
const LATELY: usize = 1024;

/// Lines that nobody waits for are handed in when there are so many bytes of them, or when the log has nothing
/// else to do.
const ENOUGH: usize = 64 << 10;

impl Durable {
    /// Whether what was written should go to the log now and not with what comes next.
    fn should_hand_in(&self) -> bool {
        let is_idle = self.handed_in == self.safe;
        !self.held.is_empty() || is_idle || self.page.batch.len() >= ENOUGH
    }
}

/// Something that may happen once the log is safe.
pub(super) enum Held {
    /// The attempt of this number.
    Attempt(CallRef, u64),
    Committed(CallRef),
    Announce(Uuid, ObjectRef),
    Over(RunId),
    Answer(Tell, Result<Answer, TaskError>),
    Checkpoint(Receipt),
}

/// The durable side of one run.
pub(crate) struct Hosting {
    pub(super) journal: Journal,
    pub(super) beginning: Beginning,
    pub(super) settled: BTreeSet<Uuid>,
    /// Where its random numbers begin.
    pub(super) seed: u64,
    /// What the log knows of steps that have no result there.
    pub(super) begun: BTreeMap<u64, Begun>,
    /// What other runs have sent it.
    pub(super) received: Received,
    pub(super) replay: Option<Box<Replay>>,
    pub(super) is_over: bool,
}

/// A durable run, and the type of its value.
pub struct DurableRun<T> {
    uuid: Uuid,
    value: PhantomData<fn() -> T>,
}

impl<T> DurableRun<T> {
    /// The run's identity, by which its log is called.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

/// The identity that belongs to an id of the user's.
pub(crate) fn uuid_of(id: &str) -> Uuid {
    let BlobHash(hash) = BlobHash::of(id.as_bytes());
    let mut bits = [0; 16];
    bits.copy_from_slice(&hash[..16]);
    Uuid::from_random(u128::from_be_bytes(bits))
}

impl Runtime {
    /// Opens the log; what is unfinished there goes on.
    pub(crate) fn open_log(
        &mut self,
        root: PathBuf,
        disk: Arc<dyn Disk>,
        inline: Option<CommitTime>,
    ) -> Result<(), RunError> {
        let settings = self.settings.log_settings.clone();
        let page = Page::new(Batch::with_blob_limit(settings.blob_limit));
        let (writer, recovery) = Writer::open(disk.clone(), &root, settings)?;
        let mut runs = BTreeMap::new();
        let mut live = Vec::new();
        for (uuid, entry) in writer.runs() {
            match entry.state {
                RunState::Live => live.push((uuid, entry)),
                _ => drop(runs.insert(uuid, Known::Over(None))),
            }
        }
        let inbox = Arc::clone(&self.host.inbox);
        let safe = match &self.host.workers {
            Workers::Threads(pool) => Some(pool.starter()),
            Workers::Inline(_) => None,
        };
        let log = Log::start(writer, inbox, safe, inline)
            .map_err(|error| RunError::system("a thread for the log", &error))?;
        let listening = match inline {
            // On a simulated disk there is nobody else.
            Some(_) => None,
            None => self.listen(&root),
        };
        self.durable = Some(Durable {
            log,
            disk,
            root,
            page,
            held: Vec::new(),
            waiting: VecDeque::new(),
            handed_in: Ticket(0),
            safe: Ticket(0),
            is_behind: false,
            held_back: Vec::new(),
            runs,
            ended: VecDeque::new(),
            failed: None,
            listening,
            post: Post::default(),
        });
        for (uuid, error) in recovery.refused {
            live.retain(|(run, _)| *run != uuid);
            self.pause(uuid, log_failed(error), None);
        }
        self.durable_mut().post.begin();
        live.sort_by_key(|(uuid, _)| *uuid);
        for (uuid, entry) in live {
            self.resume(uuid, entry.chain(uuid));
        }
        self.open_post();
        Ok(())
    }

    /// Lets other processes ask. Without that, everything else goes on.
    fn listen(&self, root: &Path) -> Option<Listening> {
        let listening = Listening::start(root, Arc::clone(&self.host.inbox));
        listening
            .inspect_err(|error| {
                tracing::warn!(target: "tiffany", "other processes cannot reach this one: {error}");
            })
            .ok()
    }

    pub(super) fn durable_mut(&mut self) -> &mut Durable {
        self.durable.as_mut().expect("only asked for where there is a log")
    }

    /// Starts a durable run of a registered function under an id of one's own. If there is a run of that id, with the
    /// same function and input, this is that run. It is safe when the log has it: [`flush`](Runtime::flush) waits for that.
    #[track_caller]
    pub fn submit<T>(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
    ) -> Result<DurableRun<T>, RunError> {
        let input = encode(input).map_err(RunError::Failed)?;
        let uuid = self.submit_json(function, id, &input)?;
        Ok(DurableRun { uuid, value: PhantomData })
    }

    #[track_caller]
    pub(super) fn submit_json(
        &mut self,
        function: &str,
        id: &str,
        input: &str,
    ) -> Result<Uuid, RunError> {
        let Some(durable) = &mut self.durable else { return Err(no_log()) };
        if let Some(error) = &durable.failed {
            return Err(error.clone().into());
        }
        let uuid = uuid_of(id);
        if durable.runs.contains_key(&uuid) {
            self.check_same(uuid, id, function, input)?;
            return Ok(uuid);
        }
        let root = self.settings.registry.start(function, input).map_err(RunError::Failed)?;
        let seed = self.host.entropy.seed_of(uuid);
        let recording = self.settings.recording;
        let started = Started { id, function, input, seed, recording: word(recording) };
        let mut journal = Journal::new(Chain::new(uuid));
        let clock = self.host.clock.now();
        journal.start(&mut self.durable_mut().page, clock, &started);
        let mut config = self.settings.run_config(Location::caller());
        (config.mode, config.recording, config.seed) = (Mode::Durable, recording, seed);
        let hosting = Hosting {
            journal,
            beginning: Beginning::new(self.settings.registry.name(function), input),
            settled: BTreeSet::new(),
            seed,
            begun: BTreeMap::new(),
            received: Received::default(),
            replay: None,
            is_over: false,
        };
        let run = self.add_run(root, config, Some(Box::new(hosting)), clock);
        self.durable_mut().runs.insert(uuid, Known::Live(run));
        Ok(uuid)
    }

    /// An error if the run of this id has another function or another input.
    fn check_same(
        &mut self,
        uuid: Uuid,
        id: &str,
        function: &str,
        input: &str,
    ) -> Result<(), RunError> {
        let known = match self.durable.as_ref().and_then(|durable| durable.runs.get(&uuid)) {
            Some(Known::Live(run)) => {
                let hosting = self.runs[self.places[run]].hosting.as_ref();
                hosting.map(|hosting| hosting.beginning.clone())
            }
            Some(Known::Over(Some(ended))) => Some(ended.beginning.clone()),
            _ => None,
        };
        let known = match known {
            Some(known) => known,
            None => {
                let begun = |script: &Script| !script.beginning.id.is_empty();
                let beginning = self.durable_mut().read_over(uuid, begun)?.beginning;
                Beginning::new(beginning.function.into(), &beginning.input)
            }
        };
        let wanted = Beginning::new(function.into(), input);
        if known == wanted {
            return Ok(());
        }
        let what = if known.function == wanted.function { "input" } else { "function" };
        let message = format!("the id `{id}` belongs to a run with another {what}");
        Err(RunError::Failed(TaskError::new(ErrorKind::OtherRun, message)))
    }

    /// Drives all runs until this one is over and its end is safe in the log, and gives its value.
    #[track_caller]
    pub fn wait_for<T: DeserializeOwned>(&mut self, run: &DurableRun<T>) -> Result<T, RunError> {
        if self.durable.is_none() {
            return Err(no_log());
        }
        let uuid = run.uuid;
        self.drive_until(Location::caller(), |runtime| {
            let durable = runtime.durable.as_ref();
            durable.is_none_or(|durable| !matches!(durable.runs.get(&uuid), Some(Known::Live(_))))
        })?;
        decode(&self.outcome_of(uuid)?).map_err(RunError::Failed)
    }

    /// The value of a run that is over, as JSON.
    pub(crate) fn outcome_of(&mut self, uuid: Uuid) -> Result<Arc<str>, RunError> {
        let Some(durable) = &mut self.durable else { return Err(no_log()) };
        match durable.runs.get(&uuid) {
            Some(Known::Over(Some(ended))) => ended.outcome.clone(),
            Some(Known::Over(None)) => durable.read_outcome(uuid),
            _ => Err(RunError::Failed(self.live(uuid).err().unwrap_or_else(no_log_here))),
        }
    }

    /// Writes down what a durable run did, and does what it asks for once that is safe.
    pub(crate) fn empty_durable_outbox(&mut self, place: usize) {
        let Some(durable) = &mut self.durable else { return };
        let hosted = &mut self.runs[place];
        let Some(hosting) = &mut hosted.hosting else { return };
        if hosting.replay.is_some() {
            return;
        }
        for record in hosted.run.take_records() {
            hosting.journal.write(&mut durable.page, record);
        }
        let id = hosted.run.id();
        let ends = hosted.run.is_over() && !hosting.is_over;
        if ends {
            hosting.is_over = true;
            let (clock, failure) = (hosted.run.clock(), hosted.run.failure());
            hosting.journal.end(&mut durable.page, clock, failure);
            durable.page.batch.finish(&hosting.journal.chain);
            durable.held.push(Held::Over(id));
        }
        for order in hosted.run.take_orders() {
            self.execute_durable(place, order);
        }
        self.hand_in_if_due();
    }

    pub(super) fn execute_durable(&mut self, place: usize, order: Order) {
        let id = self.runs[place].run.id();
        let Some(durable) = &mut self.durable else { return self.execute(id, order) };
        match order {
            Order::Start(call, effect) if effect.work.is::<Work>() => {
                let message = "what blocking work gives cannot be written down; use a step";
                let error = TaskError::new(ErrorKind::NotDurable, message);
                self.complete(id, Completion::Call(call, Err(error)));
            }
            Order::Commit(call) => durable.held.push(Held::Committed(call)),
            Order::Announce(uuid, promise) if Mutation::PromiseBeforeCommit.is_on() => {
                self.host.inbox.announce(uuid, promise.run, true);
            }
            Order::Announce(uuid, promise) => durable.held.push(Held::Announce(uuid, promise)),
            other => self.execute(id, other),
        }
    }

    /// Hands what was written to the log thread.
    pub(crate) fn hand_in(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        if !durable.page.batch.is_empty() {
            durable.handed_in = durable.log.submit(&mut durable.page.batch, &self.host.clock);
            durable.look_at_backlog(self.settings.log_settings.backlog_bytes);
        }
        if durable.held.is_empty() {
            return;
        }
        let mut held = std::mem::take(&mut durable.held);
        if Mutation::AnswerBeforeCommit.is_on() {
            let early = |held: &mut Held| matches!(held, Held::Answer(..));
            let early: Vec<Held> = held.extract_if(.., early).collect();
            early.into_iter().for_each(|held| self.let_go(held));
        }
        let Some(durable) = &mut self.durable else { return };
        if Mutation::OutcomeBeforeCommit.is_on()
            && held.iter().any(|held| matches!(held, Held::Over(_)))
        {
            durable.waiting.push_front((durable.safe, held));
            return self.host.inbox.send(Letter::Logged(Notice::Durable(durable.safe)));
        }
        if durable.handed_in > durable.safe {
            let handed_in = durable.handed_in;
            for held in &held {
                if let Held::Attempt(call, number) = held {
                    self.stage(*call, *number, handed_in);
                }
            }
            self.durable_mut().waiting.push_back((handed_in, held));
        } else if held.iter().any(|held| matches!(held, Held::Over(_))) {
            // The log has its end already. It must not vanish under whoever is busy with it.
            durable.waiting.push_back((durable.handed_in, held));
            self.host.inbox.send(Letter::Logged(Notice::Durable(durable.safe)));
        } else {
            // All that was ever written is safe.
            held.into_iter().for_each(|held| self.let_go(held));
        }
    }

    /// When the log has something to do on the loop's thread.
    pub(crate) fn log_due(&self) -> Option<Time> {
        self.durable.as_ref().and_then(|durable| durable.log.due())
    }

    /// Lets the log do it.
    pub(crate) fn act_for_log(&mut self, now: Time) {
        if let Some(durable) = &mut self.durable {
            durable.log.act(now);
        }
    }

    /// The same, unless it should wait for more.
    pub(crate) fn hand_in_if_due(&mut self) {
        if self.durable.as_ref().is_some_and(Durable::should_hand_in) {
            self.hand_in();
        }
    }

    /// The same, if something waits for it.
    pub(crate) fn hand_in_held(&mut self) {
        if self.durable.as_ref().is_some_and(|durable| !durable.held.is_empty()) {
            self.hand_in();
        }
    }

    /// The log thread tells.
    pub(crate) fn logged(&mut self, notice: Notice) {
        match notice {
            Notice::Durable(ticket) => {
                if let Some(durable) = &mut self.durable {
                    durable.safe = durable.safe.max(ticket);
                }
                while let Some(durable) = &mut self.durable
                    && durable.waiting.front().is_some_and(|(waits, _)| *waits <= ticket)
                    && let Some((_, held)) = durable.waiting.pop_front()
                {
                    held.into_iter().for_each(|held| self.let_go(held));
                }
                self.catch_up();
            }
            Notice::Failed(error) => {
                if let Some(durable) = &mut self.durable {
                    // What waits will never be safe, and who asked must not wait for it.
                    let held = std::mem::take(&mut durable.held);
                    let waiting = std::mem::take(&mut durable.waiting);
                    let waiting = waiting.into_iter().flat_map(|(_, held)| held);
                    for held in held.into_iter().chain(waiting) {
                        if let Held::Answer(tell, _) = held {
                            drop(tell.try_send(Err(log_failed(error.clone()))));
                        }
                    }
                    durable.failed = Some(error);
                }
            }
        }
    }

    /// The log's failure, which stops everything that needs it.
    pub(crate) fn log_failure(&self) -> Option<LogError> {
        self.durable.as_ref().and_then(|durable| durable.failed.clone())
    }

    fn let_go(&mut self, held: Held) {
        match held {
            Held::Attempt(call, number) => self.launch(call, number),
            Held::Committed(call) => {
                self.complete(call.run, Completion::Call(call, Ok(Value::Unit)));
            }
            Held::Announce(uuid, promise) => self.host.inbox.announce(uuid, promise.run, true),
            Held::Over(id) => self.end_durable(id),
            // Who asked may have given up.
            Held::Answer(tell, answer) => drop(tell.try_send(answer)),
            Held::Checkpoint(receipt) => receipt.accept(),
        }
    }

    fn end_durable(&mut self, id: RunId) {
        let Some(place) = self.places.get(&id) else { return };
        let Some(hosting) = &self.runs[*place].hosting else { return };
        let (uuid, beginning) = (hosting.journal.run(), hosting.beginning.clone());
        let outcome = self.end_run(id).map(|value| match value.borrow::<Json>() {
            Some(json) => Arc::clone(&json.0),
            None => "null".into(),
        });
        let durable = self.durable_mut();
        durable.runs.insert(uuid, Known::Over(Some(Box::new(Ended { beginning, outcome }))));
        durable.ended.push_back(uuid);
        if durable.ended.len() > LATELY
            && let Some(long_ago) = durable.ended.pop_front()
        {
            durable.runs.insert(long_ago, Known::Over(None));
        }
    }

    /// Writes down what the outside tells a durable run, and tells it.
    pub(crate) fn tell(&mut self, place: usize, completion: Completion) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let (Some(hosting), Some(durable)) = (&mut hosted.hosting, &mut self.durable) else {
            return;
        };
        if hosting.is_over {
            return;
        }
        let (run, journal, page) = (&mut hosted.run, &mut hosting.journal, &mut durable.page);
        // What happened before has to stand before it.
        for record in run.take_records() {
            journal.write(page, record);
        }
        run.set_clock(now);
        let (clock, step) = (run.clock(), run.steps());
        match &completion {
            Completion::Call(call, result) => {
                let tid = run.caller(*call).unwrap_or(Tid(1));
                match result {
                    Ok(Value::Unit) => journal.woken(page, tid, clock, step, *call),
                    _ if Mutation::ResultNotRecorded.is_on() => {}
                    result => journal.effect_result(page, (tid, clock, step), *call, result),
                }
            }
            // Only the first answer counts.
            Completion::Settle(..) if Mutation::SettlementNotRecorded.is_on() => {}
            Completion::Message(..) if Mutation::MessageNotRecorded.is_on() => {}
            Completion::Settle(uuid, result)
                if hosting.settled.insert(*uuid) || Mutation::SettledTwice.is_on() =>
            {
                journal.settled(page, (clock, step), *uuid, result);
            }
            Completion::Message(name, value) => {
                let json = value.borrow::<Json>().map_or("null", |json| &json.0);
                journal.message(page, (clock, step), (name, json), None);
            }
            _ => {}
        }
        run.complete(completion);
        // A run that goes on writes more, which shares a sync with this.
        if !run.is_ready() {
            self.empty_outbox(place);
        }
        self.line_up(place);
    }

    /// The run of this id, if there is one.
    pub(crate) fn known_run<T>(&self, id: &str) -> Option<DurableRun<T>> {
        let uuid = uuid_of(id);
        let is_known =
            self.durable.as_ref().is_some_and(|durable| durable.runs.contains_key(&uuid));
        is_known.then_some(DurableRun { uuid, value: PhantomData })
    }

    /// All tasks of a run that is known here and not over.
    pub(crate) fn tasks_of(&self, uuid: Uuid) -> Vec<TaskInfo> {
        let id = self.live(uuid).ok();
        id.and_then(|id| self.run_of(id)).map_or(Vec::new(), |run| run.tasks())
    }

    /// Promises of durable runs that wait for somebody, each after its run.
    pub(crate) fn open_promises(&self) -> Vec<(Uuid, Uuid)> {
        let open = self.host.inbox.open_promises().into_iter();
        open.filter_map(|(promise, run)| {
            let hosting = self.runs[*self.places.get(&run)?].hosting.as_ref()?;
            Some((hosting.journal.run(), promise))
        })
        .collect()
    }

    /// Whether a run is known here and not over.
    pub(crate) fn is_live(&self, uuid: Uuid) -> bool {
        self.durable
            .as_ref()
            .is_some_and(|durable| matches!(durable.runs.get(&uuid), Some(Known::Live(_))))
    }

    /// Cancels a durable run, and writes that down.
    pub(crate) fn cancel_durable(&mut self, place: usize) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let (Some(hosting), Some(durable)) = (&mut hosted.hosting, &mut self.durable) else {
            return;
        };
        if hosting.is_over {
            return;
        }
        for record in hosted.run.take_records() {
            hosting.journal.write(&mut durable.page, record);
        }
        hosted.run.set_clock(now);
        hosting.journal.cancelled(&mut durable.page, hosted.run.clock(), hosted.run.steps());
        hosted.run.cancel_all();
        self.empty_outbox(place);
        self.line_up(place);
    }

    /// Says in every unfinished run's log that the process ended in good order, and closes the log.
    pub(crate) fn close_log(&mut self) {
        self.take_back_steps();
        let Some(mut durable) = self.durable.take() else { return };
        drop(durable.listening.take());
        let clock = self.host.clock.now();
        for (_, hosted) in self.runs.iter_mut() {
            if let Some(hosting) = &mut hosted.hosting
                && !hosting.is_over
            {
                for record in hosted.run.take_records() {
                    hosting.journal.write(&mut durable.page, record);
                }
                hosting.journal.shutdown(&mut durable.page, clock);
            }
        }
        durable.log.submit(&mut durable.page.batch, &self.host.clock);
        let closed = durable.log.close();
        if let Err(error) = &closed {
            tracing::error!(target: "tiffany", "closing the log: {error}");
        }
        // With the log everything in it is safe.
        let waiting = durable.waiting.into_iter().flat_map(|(_, held)| held);
        for held in durable.held.into_iter().chain(waiting) {
            if let Held::Answer(tell, answer) = held {
                drop(tell.try_send(closed.clone().map_err(log_failed).and(answer)));
            }
        }
    }
}

/// What the log calls it.
fn word(recording: Recording) -> &'static str {
    match recording {
        Recording::Outward => "outward",
        _ => "every",
    }
}

pub(super) fn no_log() -> RunError {
    RunError::Failed(no_log_here())
}

pub(super) fn no_log_here() -> TaskError {
    let message = "this runtime has no log; give its builder a `log_dir`";
    TaskError::new(ErrorKind::LogFailed, message)
}
