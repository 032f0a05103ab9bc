//! Get, Put and Tell use the task's own store; Ask reads the environment that all tasks share.

use std::panic::Location;
use std::rc::Rc;

use crate::call::Reply;
use crate::calls::Answer;
use crate::error::ErrorKind;
use crate::id::CallId;
use crate::outstanding::Wait;
use crate::run::Run;
use crate::store::EnvEntry;
use crate::task::Mark;
use crate::value::Value;

impl Run {
    pub(crate) fn get(&self, me: u32, key: &str) -> Answer {
        let scope = self.tasks[me as usize].scope.as_deref();
        let value = scope.and_then(|scope| scope.state.get(key).cloned());
        Answer::Now(value.map_or(Reply::Nothing, Reply::Value))
    }

    pub(crate) fn put(&mut self, me: u32, key: Rc<str>, value: Value) -> Answer {
        let scope = Rc::make_mut(self.tasks[me as usize].scope.get_or_insert_default());
        scope.state.insert_mut(key, value);
        Answer::Now(Reply::Unit)
    }

    pub(crate) fn tell(&mut self, me: u32, value: Value) -> Answer {
        let scope = Rc::make_mut(self.tasks[me as usize].scope.get_or_insert_default());
        scope.log.push_back_mut(value);
        Answer::Now(Reply::Unit)
    }

    pub(crate) fn get_log(&self, me: u32) -> Answer {
        let scope = self.tasks[me as usize].scope.as_deref();
        let log = scope.map_or_else(Box::default, |scope| scope.log.iter().cloned().collect());
        Answer::Now(Reply::Values(log))
    }

    pub(crate) fn ask(
        &mut self,
        me: u32,
        id: CallId,
        key: &Rc<str>,
        at: &'static Location<'static>,
    ) -> Answer {
        let Some(entry) = self.env.entry(key) else {
            let known: Vec<&str> = self.env.keys().map(|key| &**key).collect();
            let message = format!("the environment has no key {key:?}, only {known:?}");
            return Answer::error(ErrorKind::NoSuchKey, message);
        };
        let task = match entry {
            EnvEntry::Known(Ok(value)) => return Answer::Now(Reply::Value(value.clone())),
            EnvEntry::Known(Err(error)) => return error.clone().into(),
            EnvEntry::Resolving(task) if *task == me => {
                let message = format!("finding out {key:?} asked for {key:?}");
                return Answer::error(ErrorKind::SelfWait, message);
            }
            EnvEntry::Resolving(task) => *task,
            EnvEntry::Unknown(_) => {
                if let Err(error) = self.room_for_task() {
                    return error.into();
                }
                self.resolve(me, key, at)
            }
        };
        Answer::Later(Wait::Resolve { task, place: self.wait_for_task(task, me, id) })
    }

    /// Starts a task that computes a key of the environment.
    fn resolve(&mut self, me: u32, key: &Rc<str>, at: &'static Location<'static>) -> u32 {
        let Some(entry) = self.env.entry(key) else { unreachable!("the caller found the entry") };
        // The slot is not known yet; the entry is not read before it is.
        let EnvEntry::Unknown(start) = std::mem::replace(entry, EnvEntry::Resolving(u32::MAX))
        else {
            unreachable!("the caller found it unresolved")
        };
        let parent = self.tasks[me as usize].tid;
        let task = self.add_task(start(), at, None, None);
        self.tasks[task as usize].marks.clear(Mark::Held);
        self.extra(task).resolves = Some(key.clone());
        self.set_name(task, format!("env {key}").into());
        if let Some(entry) = self.env.entry(key) {
            *entry = EnvEntry::Resolving(task);
        }
        self.announce_spawn(task, Some(parent));
        task
    }

    /// Stores the computed value of a key of the environment.
    pub(crate) fn resolved(&mut self, task: u32, key: &str) {
        let result = self.tasks[task as usize].end().map(|(outcome, _)| outcome.share());
        self.tasks[task as usize].marks.set(Mark::Observed);
        if let Some(result) = result {
            self.env.resolve(key, result);
        }
    }
}
