//! What is asked of a runtime from outside its tasks: by the program that drives it, by other threads, and by
//! other processes through the socket. Each is answered when the log has what the answer depends on.

use std::cell::RefCell;
use std::panic::Location;
use tiffany_records::errors::{log_failed, no_such_run, not_in_doubt, run_over, run_removed};
use tiffany_records::request::{
    Answer, Approval, Decision, Doubt, OpenApproval, Paused, Request, Ruling, Settlement, Status,
    no_such_approval, not_encodable, parse_key,
};
use tiffany_records::value::{Json, deserialize, own};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tiffany_kernel::{Completion, ErrorKind, RunId, TaskError, Uuid, Value};

use crate::calls::question;
use crate::host::inbox::unknown;
use crate::host::tell::Tell;
use crate::program::language::Wanted;
use crate::run_log::hold::Hold;
use crate::runtime::Runtime;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable::{Durable, no_log_here};
use crate::runtime::durable_runs::{DurableRun, Known};
use tiffany_records::RunError;
use tiffany_records::json::compact;
use tiffany_records::key::{Key, run_id};
use tiffany_records::value::plain::accept;

impl Runtime {
    /// Sends a message to a durable run, which takes it with
    /// [`receive`](crate::calls::receive::receive) under this name. It is durable once the log has
    /// it ([`flush`](Runtime::flush) waits for that), and stays there until a task takes it.
    pub fn send<T>(
        &mut self,
        run: &DurableRun<T>,
        name: &str,
        message: &impl Serialize,
    ) -> Result<(), RunError> {
        let message = own(message).map_err(RunError::Failed)?;
        let request = Request::Send { run: run.uuid(), name: name.into(), message };
        self.carry_out_accepted(request).map(drop).map_err(RunError::Failed)
    }

    /// Cancels a durable run: its tasks may clean up. A second cancel, after they had a turn, forces the end: no task of the
    /// run has another turn. So does the first cancel of a run whose root has failed.
    pub fn cancel<T>(&mut self, run: &DurableRun<T>) -> Result<(), RunError> {
        let request = Request::Cancel { run: run.uuid() };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Holds a durable run: it gets no turns until [`release`](Runtime::release). Running steps
    /// finish and are recorded.
    ///
    /// ```
    /// use tiffany::control::{RunQuery, State};
    /// use tiffany::durable::receive;
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-hold-{}", std::process::id()));
    /// let mut runtime = Runtime::builder()
    ///     .log_dir(&dir)
    ///     .register("greet", |()| async { receive::<String>("name").await })
    ///     .build()?;
    /// let run = runtime.submit::<String>("greet", "greet-1", &())?;
    /// runtime.hold(&run, "ada", Some("waits for the audit"))?;
    /// assert_eq!(runtime.runs(&RunQuery::default())?.runs[0].state, State::Held);
    ///
    /// runtime.send(&run, "name", &"Grace")?; // it is there when the run continues
    /// runtime.release(&run, "ada", None)?;
    /// assert_eq!(runtime.wait_for(&run)?, "Grace");
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn hold<T>(
        &mut self,
        run: &DurableRun<T>,
        by: &str,
        why: Option<&str>,
    ) -> Result<(), RunError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        let request = Request::Hold { run: run.uuid(), by, why };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Releases a durable run that a person or a limit holds, so that it continues. An exceeded
    /// limit is doubled for this run.
    pub fn release<T>(
        &mut self,
        run: &DurableRun<T>,
        by: &str,
        why: Option<&str>,
    ) -> Result<(), RunError> {
        let (by, why) = (by.to_owned(), why.map(str::to_owned));
        let request = Request::Release { run: run.uuid(), by, why };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Asks a durable run a question, which it answers with
    /// [`on_question`](crate::calls::question::on_question) once it can make no progress by itself.
    /// Drives all runs meanwhile.
    #[track_caller]
    pub fn question<T, A: DeserializeOwned>(
        &mut self,
        run: &DurableRun<T>,
        name: &str,
        input: &impl Serialize,
    ) -> Result<A, RunError> {
        let input = own(input).map_err(RunError::Failed)?;
        self.settle_down(Location::caller())?;
        let request = Request::Question { run: run.uuid(), name: name.into(), input };
        let answer = self.carry_out_accepted(request).map_err(RunError::Failed)?;
        match self.when_safe(Location::caller(), answer)? {
            Answer::Value(json) => deserialize(json.get()).map_err(RunError::Failed),
            _ => deserialize("null").map_err(RunError::Failed),
        }
    }

    /// Waits until all requests so far are durable in the log: runs that were submitted, messages
    /// that were sent. Drives all runs meanwhile.
    #[track_caller]
    pub fn flush(&mut self) -> Result<(), RunError> {
        if self.durable.is_none() {
            return Err(RunError::Failed(no_log_here()));
        }
        self.when_safe(Location::caller(), Answer::Done).map(drop)
    }

    /// The runs of the log that cannot continue, and why.
    pub fn paused(&self) -> Vec<Paused> {
        let runs = self.durable.iter().flat_map(|durable| durable.runs.unfinished());
        runs.filter_map(|(run, known)| match known {
            Known::Paused(error, _) => Some(Paused { run: *run, error: error.clone() }),
            Known::Live(_) => self.refusal(*run).map(|error| Paused { run: *run, error }),
            Known::Over(..) | Known::Removed => None,
        })
        .collect()
    }

    /// The steps that must not be done twice, were interrupted, and wait for a person's decision.
    pub fn doubts(&self) -> Vec<Doubt> {
        let dormant = self.durable.iter().flat_map(|durable| durable.runs.dormant());
        let dormant = dormant.flat_map(|dormant| dormant.doubts().cloned());
        self.steps_in_doubt().chain(dormant).collect()
    }

    /// Decides the outcome of a step in doubt, by its key.
    pub fn decide(&mut self, key: &str, decision: Decision) -> Result<(), RunError> {
        let request = Request::Decide { key: key.into(), decision };
        self.carry_out_accepted(request).map(drop).map_err(RunError::Failed)
    }

    /// Drives all runs until an answer may be given.
    fn when_safe(
        &mut self,
        at: &'static Location<'static>,
        answer: Answer,
    ) -> Result<Answer, RunError> {
        let (tell, told) = Tell::waited_for();
        self.answer_when_safe(tell, Ok(answer));
        let answer = RefCell::new(None);
        self.drive_until(at, |_| {
            let mut answer = answer.borrow_mut();
            if answer.is_none() {
                *answer = told.try_recv().ok();
            }
            answer.is_some()
        })?;
        let answer = answer.take().unwrap_or_else(|| Err(no_log_here()));
        answer.map_err(RunError::Failed)
    }

    /// Gives turns until no task is ready.
    pub(crate) fn settle_down(&mut self, at: &'static Location<'static>) -> Result<(), RunError> {
        self.drive_until(at, Runtime::is_quiet)
    }

    /// Carries out a client's request, unless the process is ending and the request would change
    /// something.
    pub(crate) fn serve_client(&mut self, request: Request, tell: Tell) {
        if let Some((request, tell)) = self.host.inbox.admit(request, tell) {
            self.serve(request, tell);
        }
    }

    /// Carries out a request; the client is answered when the result is durable.
    pub(crate) fn serve(&mut self, request: Request, tell: Tell) {
        let tell = match &self.settings.redactions {
            Some(rules) => tell.redacting(rules),
            None => tell,
        };
        let Some((request, tell)) = self.ask_failed_log(request, tell) else { return };
        match request {
            Request::Runs(query) => self.list_runs(query, tell),
            Request::Show { run } => self.show_run(run, tell),
            Request::Resolve { approval, ruling } => {
                let request = Request::Resolve { approval: approval.clone(), ruling };
                match self.carry_out(request) {
                    Err(error) if error.kind() == ErrorKind::NoSuchApproval => {
                        self.tell_why_not_open(approval, tell, error);
                    }
                    answer => self.answer_when_safe(tell, answer),
                }
            }
            request => {
                let answer = self.carry_out(request);
                self.answer_when_safe(tell, answer);
            }
        }
    }

    /// Sends an answer when everything written so far is durable. That a run is finished, for
    /// example, is not true before.
    pub(crate) fn answer_when_safe(&mut self, tell: Tell, answer: Result<Answer, TaskError>) {
        match &mut self.durable {
            Some(durable) if durable.failed.is_none() => {
                durable.after_commit.push(AfterCommit::Answer(tell, answer));
            }
            _ => tell.tell(answer),
        }
        self.hand_in();
    }

    /// Carries out a request from outside, whose values are plain JSON or encoded. The answer may
    /// be sent when everything written so far is durable.
    pub(crate) fn carry_out(&mut self, request: Request) -> Result<Answer, TaskError> {
        let request = request.accepted(|value| match &self.settings.registry.language {
            Some(language) => language.check(value.get()).map(|()| value),
            // Nobody here knows any codec, so nothing in it is a tag.
            None => accept(&value),
        })?;
        self.carry_out_accepted(request)
    }

    /// Carries out a request whose values are in the form of the log.
    pub(crate) fn carry_out_accepted(&mut self, request: Request) -> Result<Answer, TaskError> {
        match &self.durable {
            // A run answers from its memory, which is ahead of a log that has failed.
            Some(Durable { failed: Some(error), .. })
                if !request.only_looks() || matches!(request, Request::Question { .. }) =>
            {
                return Err(log_failed(error.clone()));
            }
            None if needs_log(&request) => return Err(no_log_here()),
            _ => {}
        }
        match request {
            Request::Status => Ok(Answer::Status(self.status())),
            Request::Health => self.log_failure().map_or(Ok(Answer::Done), |e| Err(log_failed(e))),
            Request::Runs(query) => self.runs(&query).map(Answer::Runs).map_err(into_task_error),
            Request::Find { name } => self.find_run(&name).map(Answer::Found),
            Request::Show { run } => {
                let (tell, told) = Tell::waited_for();
                self.show_run(run, tell);
                told.recv().unwrap_or_else(|_| Err(no_such_run(run)))
            }
            Request::Recorded { run } => self.recorded(run),
            Request::Submit { function, id, input } => {
                let is_new = !self.knows(run_id(&id));
                let function = match self.settings.registry.meant(&function) {
                    Ok(meant) => meant,
                    // A run that is there is the same run, whoever has its code.
                    Err(_) if !is_new => function,
                    Err(error) => return Err(error),
                };
                let submitted =
                    self.submit_json(&function, &id, &compact(input.get()), Wanted::Asked);
                submitted.map(|run| Answer::Run { run, is_new }).map_err(into_task_error)
            }
            Request::Send { run, name, message } => {
                self.refuse_secret("a message", &name)?;
                match self.live(run) {
                    Ok(id) => {
                        let message = compact(message.get());
                        self.refuse_message(self.places[&id], &message)?;
                        let message = Value::new(Json::new(message));
                        self.complete(id, Completion::Message(name.as_str().into(), message));
                    }
                    Err(error) => {
                        let (limits, mut sent) = (self.settings.run_limits, Ok(()));
                        self.on_dormant(run, error, |dormant, page, clock| {
                            sent = dormant.send(page, clock, limits.as_ref(), (&name, &message));
                        })?;
                        sent?;
                    }
                }
                Ok(Answer::Done)
            }
            Request::Hold { run, by, why } => {
                self.hold_run(run, &Hold::Person { by, why }).map(|()| Answer::Done)
            }
            Request::Release { run, by, why } => {
                self.release_run(run, &by, why.as_deref()).map(|()| Answer::Done)
            }
            Request::Cancel { run } => self.cancel_asked(run),
            Request::Settle { run, promise, result } => self.settle(run, promise, result),
            Request::Fork { run, at, fork } => {
                fork.names().try_for_each(|name| self.refuse_secret("a fork", name))?;
                self.fork_run(run, at, &fork).map(|(run, id)| Answer::Forked { run, id })
            }
            Request::Allow { run, names } => {
                names.iter().try_for_each(|name| self.refuse_secret("an effect", name))?;
                match self.live(run) {
                    Ok(_) => self.allow_effects(run, &names)?,
                    Err(error) => {
                        let mut allowed = Ok(());
                        self.on_dormant(run, error, |dormant, page, clock| {
                            allowed = dormant.allow(page, clock, &names);
                        })?;
                        allowed?;
                    }
                }
                Ok(Answer::Done)
            }
            Request::Question { run, name, input } => {
                let id = self.live(run)?;
                let answer = question::ask(&self.host.questions, id, &name, input.get())?;
                RawValue::from_string(answer).map(Answer::Value).map_err(|_| unknown(run))
            }
            Request::Remove { runs } => Ok(Answer::Each(self.remove_runs(&runs))),
            Request::RemoveDamaged { run } => self.remove_damaged(run),
            Request::Compact { remains } => Ok(Answer::Each(self.compact_runs(&remains))),
            Request::Collect { number } => self.collection(number),
            Request::Events(_) => {
                let message = "events are read by `Control::watch` or `Runtime::activity`";
                Err(TaskError::new(ErrorKind::BadArgument, message))
            }
            Request::Metrics => Ok(Answer::Metrics(self.metrics())),
            Request::LongTurns => Ok(Answer::LongTurns(self.handle().long_turns())),
            Request::Doubts => Ok(Answer::Doubts(self.doubts())),
            Request::Approvals => Ok(Answer::Approvals(self.approvals())),
            Request::Resolve { approval, ruling } => {
                self.rule(&approval, ruling).map(Answer::Approval)
            }
            Request::Decide { key, decision } => self.decide_doubt(&key, decision),
            Request::Encoded(_) => Err(not_encodable()),
        }
    }

    /// Cancels a run. One that can't be resumed keeps its cancel for later, and ends at once when it is cancelled again.
    fn cancel_asked(&mut self, run: Uuid) -> Result<Answer, TaskError> {
        if self.cancel_held(run)? {
            return Ok(Answer::Done);
        }
        let paused = match self.live(run) {
            Ok(id) => {
                self.cancel_run(id);
                return Ok(Answer::Done);
            }
            Err(error) => error,
        };
        if let Some(chain) = self.durable_mut().cancelled_dormant(run)? {
            return self.force_end_of_log(run, chain).map(|()| Answer::Done);
        }
        self.on_dormant(run, paused, |dormant, page, clock| dormant.cancel(page, clock))?;
        let warning = format!(
            "run {run} is paused, so it is cancelled when it can be resumed; to end it now without its cleanup, cancel it again"
        );
        Ok(Answer::Warned { answer: Box::new(Answer::Done), warning })
    }

    /// The questions of runs that are not running.
    pub(crate) fn shelved_approvals(&self) -> impl Iterator<Item = OpenApproval> {
        let now = self.host.clock.now();
        let dormant = self.durable.iter().flat_map(|durable| durable.runs.dormant());
        dormant.flat_map(move |dormant| dormant.approvals(now).cloned())
    }

    /// Decides a question of a run that is not running.
    pub(crate) fn resolve_shelved(
        &mut self,
        approval: &str,
        ruling: Ruling,
    ) -> Result<Approval, TaskError> {
        let otherwise = no_such_approval(approval);
        let (Some(key), Some(_)) = (Key::parse(approval), &self.durable) else {
            return Err(otherwise);
        };
        let mut resolved = Err(otherwise.clone());
        self.on_dormant(key.run, otherwise, |dormant, page, clock| {
            resolved = dormant.resolve(page, clock, approval, ruling);
        })?;
        resolved
    }

    /// The number of a live run in this process.
    pub(crate) fn live_run(&self, uuid: Uuid) -> Option<RunId> {
        self.live(uuid).ok()
    }

    /// The status of this runtime: its functions, the number of live runs, and which runs are
    /// paused and why.
    pub fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            functions: self.settings.registry.list(),
            url: self.settings.url.clone(),
            live: self.durable.as_ref().map_or(0, |durable| durable.runs.states().live),
            paused: self.paused(),
            failed: self.log_failure().map(log_failed),
        }
    }

    fn settle(
        &mut self,
        named: Option<Uuid>,
        promise: Uuid,
        result: Result<Box<RawValue>, TaskError>,
    ) -> Result<Answer, TaskError> {
        let live = match named.map(|run| self.live(run)).transpose() {
            Ok(live) => Some(live),
            // What is paused may be written to.
            Err(error) => match self.is_shelved(named) {
                true => None,
                false if error.kind() == ErrorKind::RunOver => {
                    return self.settle_late(promise, error);
                }
                false => return Err(error),
            },
        };
        let has_log = self.durable.is_some();
        let claimed = live.and_then(|of| self.host.inbox.promises().claim(promise, of, has_log));
        if let Some((run, settlement)) = claimed {
            if self.has_ended(run) {
                return match settlement {
                    Settlement::Ignored => Ok(self.ignore_answer()),
                    Settlement::Accepted => Err(nobody_waits(promise)),
                };
            }
            let result = match result {
                Ok(value) => Ok(Value::new(Json::new(compact(value.get())))),
                Err(error) => Err(error),
            };
            self.complete(run, Completion::Settle(promise, result));
            return match settlement {
                Settlement::Accepted => Ok(Answer::Settled(settlement)),
                Settlement::Ignored => Ok(self.ignore_answer()),
            };
        }
        let clock = self.host.clock.now();
        let Some(durable) = &mut self.durable else { return Err(unknown(promise)) };
        let page = &mut durable.page;
        let settled = durable.runs.find_shelved(|run, dormant| {
            let is_asked = named.is_none_or(|of| of == run);
            is_asked.then(|| dormant.settle(page, clock, (promise, named.is_some()), &result))?
        });
        match settled {
            Some(settlement) => Ok(Answer::Settled(settlement)),
            None => self.settle_late(promise, self.unknown_promise(promise)),
        }
    }

    /// Settles a promise that no run waits for any more. If it was settled before, the new answer
    /// is ignored; a promise that a fork has too is left to the fork.
    fn settle_late(&self, promise: Uuid, otherwise: TaskError) -> Result<Answer, TaskError> {
        let promises = self.host.inbox.promises();
        match promises.was_settled(promise).filter(|_| promises.sharing(promise).is_empty()) {
            Some(true) => Ok(self.ignore_answer()),
            Some(false) => Err(nobody_waits(promise)),
            None => Err(otherwise),
        }
    }

    fn ignore_answer(&self) -> Answer {
        self.host.inbox.meters.ignored.add(1);
        Answer::Settled(Settlement::Ignored)
    }

    fn is_shelved(&self, run: Option<Uuid>) -> bool {
        let known =
            self.durable.as_ref().zip(run).and_then(|(durable, run)| durable.runs.get(&run));
        matches!(known, Some(Known::Paused(_, Some(_))))
    }

    /// The error for a promise that is not known, which names the forks that have it.
    fn unknown_promise(&self, promise: Uuid) -> TaskError {
        let forks = self.host.inbox.promises().sharing(promise).into_iter().filter_map(|id| {
            let durable_state = self.runs[*self.places.get(&id)?].durable_state.as_ref()?;
            Some(durable_state.journal.run().to_string())
        });
        let forks: Vec<String> = forks.collect();
        match forks.is_empty() {
            true => unknown(promise),
            false => {
                let forks = forks.join(", ");
                let message = format!(
                    "the run that made promise {promise} is finished; name the fork whose promise is to be settled: {forks}"
                );
                TaskError::new(ErrorKind::UnknownPromise, message)
            }
        }
    }

    fn decide_doubt(&mut self, key: &str, decision: Decision) -> Result<Answer, TaskError> {
        let parsed = parse_key(key)?;
        if self.decide_step(key, &decision) {
            return Ok(Answer::Done);
        }
        let mut found = false;
        self.on_dormant(parsed.run, not_in_doubt(key), |dormant, page, clock| {
            found = dormant.decide(page, clock, parsed, &decision);
        })?;
        if found { Ok(Answer::Done) } else { Err(not_in_doubt(key)) }
    }

    /// Writes to the log of a run that is not running.
    fn on_dormant(
        &mut self,
        run: Uuid,
        otherwise: TaskError,
        write: impl FnOnce(
            &mut crate::run_log::dormant_run::DormantRun,
            &mut crate::run_log::page::Page,
            tiffany_kernel::Time,
        ),
    ) -> Result<(), TaskError> {
        let clock = self.host.clock.now();
        let durable = self.durable_mut();
        match durable.runs.get_mut(&run) {
            // Of a log that is too long nothing is known that a change would have to fit.
            Some(Known::Paused(error, Some(dormant))) if dormant.is_bare() => Err(error.clone()),
            Some(Known::Paused(_, Some(dormant))) => {
                write(dormant, &mut durable.page, clock);
                Ok(())
            }
            _ => Err(otherwise),
        }
    }

    pub(crate) fn knows(&self, uuid: Uuid) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.runs.contains_key(&uuid))
    }

    /// The number of an unfinished run in this process.
    pub(crate) fn live(&self, uuid: Uuid) -> Result<RunId, TaskError> {
        let Some(durable) = &self.durable else { return Err(no_log_here()) };
        match durable.runs.get(&uuid) {
            Some(Known::Live(id)) if !self.has_ended(*id) => Ok(*id),
            Some(Known::Paused(error, _)) => Err(error.clone()),
            Some(Known::Removed) => Err(run_removed(uuid)),
            Some(_) => Err(run_over(uuid)),
            None => Err(no_such_run(uuid)),
        }
    }

    /// Whether the end of a run is recorded, but perhaps not durable yet.
    fn has_ended(&self, id: RunId) -> bool {
        let durable_state =
            self.places.get(&id).and_then(|place| self.runs[*place].durable_state.as_ref());
        durable_state.is_some_and(|durable_state| durable_state.is_over)
    }
}

/// The rules of durable runs can be tested without a log, and any run may ask a person.
fn needs_log(request: &Request) -> bool {
    let without =
        matches!(request, Request::Settle { .. } | Request::Approvals | Request::Resolve { .. });
    !without
}

/// The error for an answer that no task waits for any more.
fn nobody_waits(promise: Uuid) -> TaskError {
    let message =
        format!("the run of promise {promise} is finished, and no task waits for it any more");
    TaskError::new(ErrorKind::UnknownPromise, message)
}

fn into_task_error(error: RunError) -> TaskError {
    match error {
        RunError::Log(error) => log_failed(error),
        error => match error.task_error() {
            Some(error) => error.clone(),
            None => TaskError::failed(error.to_string()),
        },
    }
}
