//! Durable runs for the program: started under an id, waited for, and remembered when they are
//! finished.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use tiffany_records::key::{LogEnd, Received, refuse_ambiguous, run_id, run_id_in};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{
    Attributes, ErrorKind, LogLevel, Mode, Recording, RunId, Stage, TaskError, TaskInfo, Time,
    Uuid, Value,
};

use crate::host::tell::TellOutcome;
use crate::program::language::Wanted;
use crate::run_log::dormant_run::DormantRun;
use crate::run_log::earlier::{Continued, Earlier};
use crate::run_log::hold::Holding;
use crate::run_log::journal::{Journal, Started};
use crate::run_log::replay::decoded_log;
use crate::run_log::replay::decoded_log::DecodedLog;
use crate::run_log::terms::Terms;
use crate::runtime::Runtime;
use crate::runtime::durable::{DurableState, no_log, no_log_here};
use tiffany_log::{BlobHash, Chain};
use tiffany_records::RunError;
use tiffany_records::activity::Data;
use tiffany_records::errors::run_removed;
use tiffany_records::request::{Parent, StartOptions};
use tiffany_records::value::{Json, decode, encode, hash_of};

/// What a runtime knows of a durable run.
pub(crate) enum Known {
    Live(RunId),
    /// The end of its log, and the outcome of a run that finished recently, whose file may not have
    /// all of it yet.
    Over(LogEnd, Option<Box<Ended>>),
    /// Only its identity is left.
    Removed,
    /// It cannot continue with this program, or not at all because its log cannot be read.
    Paused(TaskError, Option<Box<DormantRun>>),
}

/// A run that ended in this process.
pub(crate) struct Ended {
    pub(crate) beginning: Beginning,
    pub(crate) outcome: Result<Arc<str>, RunError>,
    pub(crate) attributes: Box<Attributes>,
    pub(crate) deadline: Option<Time>,
}

/// Whether the outcome of a run is fixed while tasks of it are left.
#[derive(Default)]
pub(crate) enum Ending {
    #[default]
    No,
    /// It is written, and not durable yet.
    Written,
    /// It is durable, and is reported.
    Told(Box<Result<Arc<str>, RunError>>),
}

/// The beginning of a run, as far as it must be recognized.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub(crate) id: Rc<str>,
    pub(crate) function: Rc<str>,
    /// The hash of the input, which is equal for all texts of one value.
    pub(crate) input: BlobHash,
}

impl Beginning {
    pub(crate) fn new(id: &str, function: Rc<str>, input: &str) -> Beginning {
        Beginning { id: id.into(), function, input: hash_of(input) }
    }

    /// The beginning in a log. A later generation has the input of the first.
    pub(crate) fn read(begun: &decoded_log::Beginning, function: Rc<str>) -> Beginning {
        let first = begun.continued.as_ref().and_then(Continued::input);
        let input = first.unwrap_or_else(|| hash_of(&begun.input));
        Beginning { id: begun.id.as_str().into(), function, input }
    }
}

/// The number of finished runs that are known without reading their files.
const LATELY: usize = 1024;

/// A durable run, and the type of its value.
pub struct DurableRun<T> {
    uuid: Uuid,
    value: PhantomData<fn() -> T>,
}

impl<T> DurableRun<T> {
    pub(crate) fn of(uuid: Uuid) -> DurableRun<T> {
        DurableRun { uuid, value: PhantomData }
    }

    /// The run's identity, which is the name of its log.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }
}

impl Runtime {
    /// Starts a durable run of a registered function under an id that you choose. If a run with
    /// this id, function and input exists, the handle is for that run. A new run is durable when
    /// the log has it: [`flush`](Runtime::flush) waits for that.
    pub fn submit<T>(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
    ) -> Result<DurableRun<T>, RunError> {
        self.submit_with(function, id, input, &StartOptions::new())
    }

    /// Starts a durable run as [`submit`](Runtime::submit) does, with tags, attributes or a deadline. A run that is there
    /// keeps what it was started with.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tiffany::durable::{StartOptions, receive};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-deadline-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("waits", |()| async { receive::<u32>("number").await })
    ///     .build()?;
    /// let options = StartOptions::new().tag("demo").deadline_in(Duration::from_millis(10));
    /// let run = runtime.submit_with::<u32>("waits", "waits-1", &(), &options)?;
    /// let error = runtime.wait_for(&run).unwrap_err();
    /// assert_eq!(error.task_error().unwrap().code(), "TFY0271");
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn submit_with<T>(
        &mut self,
        function: &str,
        id: &str,
        input: &impl Serialize,
        options: &StartOptions,
    ) -> Result<DurableRun<T>, RunError> {
        let input = encode(input).map_err(RunError::Failed)?;
        let uuid = self.submit_json((function, id), &input, options, Wanted::New)?;
        Ok(DurableRun { uuid, value: PhantomData })
    }

    pub(crate) fn submit_json(
        &mut self,
        (function, id): (&str, &str),
        input: &str,
        options: &StartOptions,
        wanted: Wanted,
    ) -> Result<Uuid, RunError> {
        let Some(durable) = &mut self.durable else { return Err(no_log()) };
        if let Some(error) = &durable.failed {
            return Err(error.clone().into());
        }
        let uuid = run_id_in(options.in_namespace(), id);
        let is_known = durable.runs.contains_key(&uuid);
        self.refuse_secret("a run", id).map_err(RunError::Failed)?;
        self.refuse_secret("a function", function).map_err(RunError::Failed)?;
        if is_known {
            self.check_same(uuid, id, function, input)?;
            return Ok(uuid);
        }
        let knows = |run: Uuid| self.knows(run);
        refuse_ambiguous(id, knows).map_err(RunError::Failed)?;
        let clock = self.host.clock.now();
        let terms = self.terms(options, clock).map_err(RunError::Failed)?;
        let root = self.settings.registry.start(function, input, wanted);
        let root = root.map_err(RunError::Failed)?;
        let seed = self.host.entropy.seed_of(uuid);
        let recording = self.settings.recording;
        let language = self.settings.registry.language.as_ref().map(|language| language.note());
        let mut config = self.settings.run_config(root.at);
        (config.mode, config.recording, config.seed) = (Mode::Durable, recording, seed);
        terms.apply(&mut config);
        let started = Started {
            id,
            function,
            input,
            seed,
            recording: word(recording),
            rules: config.rules,
            language,
            continued: None,
            terms: &terms,
        };
        let mut journal = Journal::new(Chain::new(uuid));
        journal.start(&mut self.durable_mut().page, clock, &started);
        let durable_state = DurableState {
            journal,
            beginning: Beginning::new(
                id,
                self.settings.registry.name(function),
                &self.as_written(input),
            ),
            earlier: Earlier { calls: 0, since: clock },
            input: root.is_agent.then(|| input.into()),
            snapshot_at: 0,
            is_warned: false,
            settled: BTreeSet::new(),
            seed,
            begun: BTreeMap::new(),
            received: Received::default(),
            replay: None,
            branch: None,
            ending: Ending::No,
            is_over: false,
            holding: Holding::default(),
            terms,
        };
        let data = Data::Instruction { id: id.into(), function: function.into() };
        let told = (Stage::ReceivedInstruction, function.to_owned());
        self.feed.tell(&self.host, (uuid.into(), None), told, data);
        let run = self.add_run(root.coroutine, config, Some(Box::new(durable_state)), clock);
        self.durable_mut().runs.insert(uuid, Known::Live(run));
        self.host.inbox.meters.started_durable.add(1);
        Ok(uuid)
    }

    /// The terms of a run that is started now.
    fn terms(&self, options: &StartOptions, now: Time) -> Result<Terms, TaskError> {
        let attributes = options.checked_attributes()?;
        attributes.tags.iter().try_for_each(|tag| self.refuse_secret("a tag", tag))?;
        let mut names = attributes.values.keys();
        names.try_for_each(|name| self.refuse_secret("an attribute", name))?;
        self.refuse_secret("a namespace", options.in_namespace())?;
        let deadline = options.deadline_from(now)?;
        Ok(Terms { namespace: options.in_namespace().into(), deadline, attributes })
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
                let durable_state = self.runs.durable_state(*run);
                durable_state.map(|durable_state| durable_state.beginning.clone())
            }
            Some(Known::Over(_, Some(ended))) => Some(ended.beginning.clone()),
            Some(Known::Removed) => {
                let message = format!(
                    "the id `{id}` belongs to a run that was removed, and its outcome no longer exists"
                );
                return Err(RunError::Failed(TaskError::new(ErrorKind::RunRemoved, message)));
            }
            _ => None,
        };
        // The log may be older than the rules.
        let wanted = Beginning::new(id, function.into(), input);
        let written = Beginning::new(id, function.into(), &self.as_written(input));
        let known = match known {
            Some(known) => known,
            None => {
                self.hand_in();
                let begun = |decoded: &DecodedLog| !decoded.beginning.id.is_empty();
                let durable = self.durable_mut();
                let begun = durable.read_over(uuid, begun);
                let begun = begun.map_err(|error| match durable.runs.get(&uuid) {
                    // It was found when the log was opened.
                    Some(Known::Paused(damage, None)) => RunError::Failed(damage.clone()),
                    _ => error.into(),
                })?;
                let begun = begun.beginning;
                Beginning::read(&begun, begun.function.as_str().into())
            }
        };
        if known == wanted || known == written {
            return Ok(());
        }
        let what = if known.function == wanted.function { "input" } else { "function" };
        let message = format!("the id `{id}` belongs to a run with another {what}");
        Err(RunError::Failed(TaskError::new(ErrorKind::OtherRun, message)))
    }

    /// A value in the form of the log.
    fn as_written<'a>(&self, json: &'a str) -> Cow<'a, str> {
        match &self.settings.redactions {
            Some(rules) => rules.json(json),
            None => Cow::Borrowed(json),
        }
    }

    /// An error if the rules would redact a part of this name, so that it could not be found again.
    pub(crate) fn refuse_secret(&self, what: &str, name: &str) -> Result<(), TaskError> {
        self.settings.redactions.as_ref().map_or(Ok(()), |rules| rules.refuse_name(what, name))
    }

    /// Drives all runs until the outcome of this one is fixed and safe in the log, and gives its value. After a
    /// failure there may be tasks left that are being cancelled: they continue while the runtime is driven.
    #[track_caller]
    pub fn wait_for<T: DeserializeOwned>(&mut self, run: &DurableRun<T>) -> Result<T, RunError> {
        if self.durable.is_none() {
            return Err(no_log());
        }
        let uuid = run.uuid;
        self.drive_until(Location::caller(), |runtime| !runtime.is_live(uuid))?;
        decode(&self.outcome_of(uuid)?).map_err(RunError::Failed)
    }

    /// The value of a finished or ending run, as JSON.
    pub(crate) fn outcome_of(&mut self, uuid: Uuid) -> Result<Arc<str>, RunError> {
        if let Some(told) = self.view().told(uuid) {
            return told.clone();
        }
        let Some(durable) = &mut self.durable else { return Err(no_log()) };
        match durable.runs.get(&uuid) {
            Some(Known::Over(_, Some(ended))) => ended.outcome.clone(),
            Some(Known::Over(_, None)) => durable.read_outcome(uuid),
            Some(Known::Removed) => Err(RunError::Failed(run_removed(uuid))),
            _ => {
                let why = self.live(uuid).err().or_else(|| self.view().refusal(uuid));
                Err(RunError::Failed(why.unwrap_or_else(no_log_here)))
            }
        }
    }

    /// Answers with the outcome of a run now if it is known, and otherwise when it is.
    pub(crate) fn await_outcome(&mut self, run: Uuid, tell: TellOutcome) {
        if !self.is_live(run) {
            return tell(self.outcome_of(run));
        }
        let is_fork = self.view().is_fork(run);
        let Some(durable) = &mut self.durable else { return };
        durable.runs.waiters.add(run, is_fork, tell);
        if let Some(error) = &durable.failed {
            durable.runs.waiters.fail(error);
        }
    }

    /// Answers the threads that wait for outcomes which have become known. The loop calls this in
    /// every round.
    #[inline]
    pub(crate) fn tell_outcomes(&mut self) {
        if self.durable.as_ref().is_some_and(|durable| !durable.runs.waiters.is_empty()) {
            self.tell_known_outcomes();
        }
    }

    fn tell_known_outcomes(&mut self) {
        let Some(durable) = &mut self.durable else { return };
        if let Some(error) = &durable.failed {
            return durable.runs.waiters.fail(error);
        }
        let mut due = durable.runs.waiters.take_due();
        due.retain(|run| !self.is_live(*run));
        for run in due {
            for tell in self.durable_mut().runs.waiters.take(run) {
                tell(self.outcome_of(run));
            }
        }
    }

    /// The value of a finished run in the form of the log, for display.
    pub fn written_outcome(&mut self, uuid: Uuid) -> Result<Arc<str>, RunError> {
        let outcome = self.outcome_of(uuid)?;
        Ok(self.as_written(&outcome).into())
    }

    pub(crate) fn end_durable(&mut self, id: RunId) {
        let Some(durable_state) = self.runs.durable_state(id) else { return };
        let (uuid, beginning) = (durable_state.journal.run(), durable_state.beginning.clone());
        let deadline = durable_state.terms.deadline;
        let run = self.runs.of(id).map(|hosted| &hosted.run);
        let attributes = run.and_then(|run| run.attributes().cloned()).unwrap_or_default().into();
        let (started, parent) = (durable_state.earlier.since, durable_state.parent());
        let stand = LogEnd::of(&durable_state.journal.chain);
        let told = self.view().told(uuid).cloned();
        let outcome = self.end_run(id).map(json_of);
        let outcome = told.unwrap_or(outcome);
        let ended = Box::new(Ended { beginning, outcome, attributes, deadline });
        self.note_over((uuid, stand), (started, parent), ended);
    }

    /// Remembers the outcome of a run.
    pub(crate) fn note_over(
        &mut self,
        (uuid, stand): (Uuid, LogEnd),
        origin: (Time, Option<Parent>),
        ended: Box<Ended>,
    ) {
        let now = self.host.clock.now();
        let durable = self.durable_mut();
        durable.keep_finished(uuid, origin, now, &ended);
        durable.runs.insert(uuid, Known::Over(stand, Some(ended)));
        durable.ended.push_back(uuid);
        if durable.ended.len() > LATELY
            && let Some(long_ago) = durable.ended.pop_front()
            && let Some(Known::Over(_, ended)) = durable.runs.get_mut(&long_ago)
        {
            *ended = None;
        }
    }

    /// Reports the outcome of a run that has tasks left. The outcome is final and durable.
    pub(crate) fn tell_ending(&mut self, id: RunId) {
        let Some(hosted) = self.runs.of_mut(id) else { return };
        let (Some(durable_state), Some(outcome)) =
            (&mut hosted.durable_state, hosted.run.fixed_outcome())
        else {
            return;
        };
        let outcome = outcome.map(json_of).map_err(RunError::from);
        let error = outcome.as_ref().err().cloned();
        durable_state.ending = Ending::Told(Box::new(outcome));
        let uuid = durable_state.uuid();
        if let Some(durable) = &mut self.durable {
            durable.runs.may_have_settled(uuid);
        }
        if let Some(error) = error {
            self.host.tracer.run_failed(id, durable_state.who(), &error);
            let told =
                (Stage::Log, format!("the run failed, and its tasks are cancelled: {error}"));
            let data = Data::Log { level: LogLevel::Error, step: None };
            self.feed.tell(&self.host, (uuid.into(), None), told, data);
        }
    }

    /// The run of this id, if there is one.
    pub(crate) fn known_run<T>(&self, id: &str) -> Option<DurableRun<T>> {
        let uuid = run_id(id);
        let is_known =
            self.durable.as_ref().is_some_and(|durable| durable.runs.contains_key(&uuid));
        is_known.then_some(DurableRun { uuid, value: PhantomData })
    }

    /// All tasks of an unfinished run.
    pub(crate) fn tasks_of(&self, uuid: Uuid) -> Vec<TaskInfo> {
        let id = self.live(uuid).ok();
        id.and_then(|id| self.run_of(id)).map_or(Vec::new(), |run| run.tasks())
    }

    /// The open promises of durable runs, each with its run.
    pub(crate) fn open_promises(&self) -> Vec<(Uuid, Uuid)> {
        let open = self.host.inbox.promises().open().collect::<Vec<_>>().into_iter();
        open.filter_map(|(promise, run)| {
            let durable_state = self.runs.durable_state(run)?;
            Some((durable_state.journal.run(), promise))
        })
        .collect()
    }

    /// The runs for which [`is_live`](Runtime::is_live) may have changed to `false` since this was asked before; `None` if that is
    /// not known. Forks that wait for a permission are not noted.
    pub(crate) fn take_settled(&mut self) -> Option<Vec<Uuid>> {
        let durable = self.durable.as_mut()?;
        durable.runs.take_settled().filter(|_| !durable.has_forks)
    }

    /// Whether a run is known here and its outcome is not: it is not finished, ending or paused.
    pub(crate) fn is_live(&self, uuid: Uuid) -> bool {
        self.view().is_live(uuid)
    }
}

impl DurableState {
    /// The outcome, if it may be reported while tasks are left.
    pub(crate) fn told(&self) -> Option<&Result<Arc<str>, RunError>> {
        match &self.ending {
            Ending::Told(outcome) => Some(outcome),
            Ending::No | Ending::Written => None,
        }
    }
}

/// The value of a root, in the form of the log.
fn json_of(value: Value) -> Arc<str> {
    match value.borrow::<Json>() {
        Some(json) => Arc::clone(&json.0),
        None => "null".into(),
    }
}

/// The word for it in the log.
pub(crate) fn word(recording: Recording) -> &'static str {
    match recording {
        Recording::Outward => "outward",
        _ => "every",
    }
}
