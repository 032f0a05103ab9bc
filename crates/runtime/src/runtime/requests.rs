//! Requests to a runtime from outside its tasks: from the program that drives it, from other
//! threads, and from other processes through the socket. Each is answered when the lines that the
//! answer depends on are durable.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::panic::Location;

use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, RunId, TaskError, Uuid};

use crate::calls::question;
use crate::control::asked_run;
use crate::control::catalogue::Job;
use crate::host::inbox::unknown;
use crate::host::tell::Tell;
use crate::program::language::Wanted;
use crate::runtime::Runtime;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable::{Durable, no_log_here};
use crate::runtime::run_list::Showing;
use tiffany_records::RunError;
use tiffany_records::errors::{log_failed, no_such_run};
use tiffany_records::json::compact;
use tiffany_records::key::run_id;
use tiffany_records::request::{Answer, Fork, Request, RunQuery, StartOptions, not_encodable};
use tiffany_records::value::plain::accept;

impl Runtime {
    /// Drives all runs until an answer may be given.
    pub(crate) fn when_safe(
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
        let asked = match &mut self.durable {
            Some(durable) => durable.ask_failed_log(request, tell),
            None => Some((request, tell)),
        };
        let Some((request, tell)) = asked else { return };
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
            // No codec is known here, so nothing in it is a tag.
            None => accept(&value),
        })?;
        self.carry_out_accepted(request)
    }

    /// Carries out a request whose values are in the form of the log.
    pub(crate) fn carry_out_accepted(&mut self, request: Request) -> Result<Answer, TaskError> {
        self.check_request(&request)?;
        let request = match asked_run::carry_out(self, request) {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(request) => request,
        };
        match request {
            Request::Status => Ok(Answer::Status(self.status())),
            Request::Health => self.log_failure().map_or(Ok(Answer::Done), |e| Err(log_failed(e))),
            Request::Runs(query) => self.runs(&query).map(Answer::Runs).map_err(into_task_error),
            Request::Find { name } => self.view().find(&name).map(Answer::Found),
            Request::Show { run } => {
                let (tell, told) = Tell::waited_for();
                self.show_run(run, tell);
                told.recv().unwrap_or_else(|_| Err(no_such_run(run)))
            }
            Request::Recorded { run } => self.view().recorded(run),
            Request::Submit { function, id, input, options } => {
                self.submit_asked(function, &id, &input, &options)
            }
            Request::Fork { run, at, fork } => {
                self.fork_run(run, at, &fork).map(|(run, id)| Answer::Forked { run, id })
            }
            Request::Question { run, name, input } => {
                let id = self.live(run)?;
                let answer = question::ask(&self.host.questions, id, &name, input.get())?;
                RawValue::from_string(answer).map(Answer::Value).map_err(|_| unknown(run))
            }
            Request::Remove { runs } => {
                let needed = self.view().needed_by_forks();
                Ok(Answer::Each(self.durable_mut().remove_runs(&runs, &needed)))
            }
            Request::RemoveDamaged { run } => {
                let forks = self.view().needed_by_forks().forks_of(run);
                self.durable_mut().remove_damaged(run, forks)
            }
            Request::Compact { remains } => {
                let (needed, now) = (self.view().needed_by_forks(), self.host.clock.now());
                Ok(Answer::Each(self.durable_mut().compact_runs(&remains, &needed, now)))
            }
            Request::Collect { number } => {
                self.hand_in();
                self.durable_mut().collection(number)
            }
            Request::Events(_) => {
                let message = "events are read by `Control::watch` or `Runtime::activity`";
                Err(TaskError::new(ErrorKind::BadArgument, message))
            }
            Request::Metrics => Ok(Answer::Metrics(self.metrics())),
            Request::LongTurns => Ok(Answer::LongTurns(self.handle().long_turns())),
            Request::Doubts => Ok(Answer::Doubts(self.doubts())),
            Request::Approvals => Ok(Answer::Approvals(self.approvals())),
            Request::Encoded(_) => Err(not_encodable()),
            Request::Hold { .. }
            | Request::Release { .. }
            | Request::Cancel { .. }
            | Request::Send { .. }
            | Request::Allow { .. }
            | Request::Settle { .. }
            | Request::Decide { .. }
            | Request::Resolve { .. } => unreachable!("what is asked of one run was answered"),
        }
    }

    /// An error if the log has failed or is missing and the request needs it, or if a name in the
    /// request would be redacted.
    fn check_request(&self, request: &Request) -> Result<(), TaskError> {
        match &self.durable {
            // A run answers from its memory, which is ahead of a log that has failed.
            Some(Durable { failed: Some(error), .. })
                if !request.only_looks() || matches!(request, Request::Question { .. }) =>
            {
                return Err(log_failed(error.clone()));
            }
            None if needs_log(request) => return Err(no_log_here()),
            _ => {}
        }
        let mut names = asked_run::names_in(request).into_iter();
        names.try_for_each(|(what, name)| self.refuse_secret(what, name))
    }

    /// Starts a run that another thread or process asked for.
    fn submit_asked(
        &mut self,
        function: String,
        id: &str,
        input: &RawValue,
        options: &StartOptions,
    ) -> Result<Answer, TaskError> {
        let is_new = !self.knows(run_id(id));
        let function = match self.settings.registry.meant(&function) {
            Ok(meant) => meant,
            // A run that exists is the same run, whichever program has its code.
            Err(_) if !is_new => function,
            Err(error) => return Err(error),
        };
        let input = compact(input.get());
        let submitted = self.submit_json((&function, id), &input, options, Wanted::Asked);
        submitted.map(|run| Answer::Run { run, is_new }).map_err(into_task_error)
    }

    pub(crate) fn list_runs(&mut self, query: RunQuery, tell: Tell) {
        match self.view().listing(query) {
            Err(error) => tell.tell(Err(error)),
            Ok(listing) => {
                self.durable_mut().ask_catalogue(|| Job::List(Box::new(listing), tell));
            }
        }
    }

    /// Answers with the details of one run.
    fn show_run(&mut self, run: Uuid, tell: Tell) {
        match self.view().show(run) {
            Err(error) => tell.tell(Err(error)),
            Ok(Showing::Here(detail)) => tell.tell(Ok(Answer::Shown(detail))),
            Ok(Showing::OnDisk(shown)) => {
                self.durable_mut().ask_catalogue(|| Job::Show(run, shown, tell));
            }
        }
    }

    /// Returns why a question is not open, from the log if there is one, which has the decisions of
    /// earlier processes.
    pub(crate) fn tell_why_not_open(&mut self, approval: String, tell: Tell, error: TaskError) {
        match &mut self.durable {
            Some(durable) => durable.ask_catalogue(|| Job::NotOpen(approval, tell)),
            None => tell.tell(Err(error)),
        }
    }

    /// Makes a fork, and resumes it.
    fn fork_run(
        &mut self,
        parent: Uuid,
        at: u64,
        fork: &Fork,
    ) -> Result<(Uuid, String), TaskError> {
        self.durable_mut().check_parent(parent)?;
        self.hand_in();
        let (now, entropy) = (self.host.clock.now(), &self.host.entropy);
        let Some(durable) = &mut self.durable else { return Err(no_log_here()) };
        let forked = durable.copy_fork((parent, at), fork, (now, entropy))?;
        let run = forked.chain.run();
        self.bring_back(run, forked.chain.clone(), &|durable| forked.read(durable));
        self.host.inbox.meters.started_durable.add(1);
        Ok((run, forked.id))
    }

    pub(crate) fn knows(&self, uuid: Uuid) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.runs.contains_key(&uuid))
    }

    /// The number of an unfinished run in this process.
    pub(crate) fn live(&self, uuid: Uuid) -> Result<RunId, TaskError> {
        self.view().live(uuid)
    }
}

/// The rules of durable runs can be tested without a log, and any run may ask a person.
fn needs_log(request: &Request) -> bool {
    let without =
        matches!(request, Request::Settle { .. } | Request::Approvals | Request::Resolve { .. });
    !without
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
