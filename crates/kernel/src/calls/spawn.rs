//! Spawn: a new task, with a snapshot of its parent's store and its parent's handlers.

use std::panic::Location;
use std::rc::Rc;

use crate::call::{Handlers, Reply, SpawnOptions};
use crate::calls::Answer;
use crate::coroutine::BoxCoroutine;
use crate::error::{ErrorKind, TaskError};
use crate::run::Run;
use crate::store::{Scope, chain, handlers};

impl Run {
    pub(crate) fn spawn(
        &mut self,
        me: u32,
        coroutine: BoxCoroutine,
        options: Option<Box<SpawnOptions>>,
        at: &'static Location<'static>,
    ) -> Answer {
        if let Err(error) = self.room_for_task() {
            return error.into();
        }
        let parent = &self.tasks[me as usize];
        let parent_tid = parent.tid;
        let scope = parent.scope.clone();
        let is_daemon = options.as_ref().is_some_and(|options| options.daemon);
        let child = match options {
            None => self.add_task(coroutine, at, scope, None),
            Some(options) => match self.spawn_with(coroutine, at, scope, *options) {
                Ok(child) => child,
                Err(error) => return error.into(),
            },
        };
        self.inherit_daemon(child, me, is_daemon);
        self.announce_spawn(child, Some(parent_tid));
        Answer::Now(Reply::Task(self.task_ref(child)))
    }

    /// Returns an error if the run has reached its limit of tasks. Spawns, handlers and the
    /// environment all add tasks.
    #[inline]
    pub(crate) fn room_for_task(&self) -> Result<(), TaskError> {
        match self.rare.limits.max_tasks {
            Some(limit) if self.live >= limit => Err(TaskError::new(
                ErrorKind::TaskLimit,
                format!("the run has {limit} tasks, which is its limit"),
            )),
            _ => Ok(()),
        }
    }

    fn spawn_with(
        &mut self,
        coroutine: BoxCoroutine,
        at: &'static Location<'static>,
        mut scope: Option<Rc<Scope>>,
        options: SpawnOptions,
    ) -> Result<u32, TaskError> {
        let group = match options.group {
            Some(group) => Some(self.find_open_group(group)?),
            None => None,
        };
        if !matches!(options.handlers, Handlers::Inherit) {
            let inherited = scope.as_deref().cloned().unwrap_or_default();
            let handlers = match options.handlers {
                Handlers::Inherit => inherited.handlers.clone(),
                Handlers::Inside(inner) => chain(inner, inherited.handlers.clone()),
                Handlers::Replace(all) => chain(all, None),
            };
            scope = Some(Rc::new(Scope { handlers, ..inherited }));
        }
        let child = self.add_task(coroutine, at, scope, Some(options.priority));
        if let Some(name) = options.name {
            self.set_name(child, name);
        }
        if let Some(group) = group {
            self.extra(child).group = Some(group);
            self.rare.groups[group as usize].add(child);
        }
        Ok(child)
    }

    pub(crate) fn get_handlers(&self, me: u32) -> Answer {
        let scope = self.tasks[me as usize].scope.as_deref();
        let chain = scope.map_or(Vec::new(), |scope| handlers(&scope.handlers));
        Answer::Now(Reply::Handlers(chain.into()))
    }
}
