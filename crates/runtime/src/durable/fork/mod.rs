//! Forks: another run that has been what a run was up to a record, and goes its own way from there. What its parent was answered it is answered too;
//! what nobody has answered is refused until it is allowed by name, so that a fork does nothing to the world unasked.
//!
//! `copy.rs` writes the fork's log, `shape.rs` compares an answer with the one it replaces, `inheritance.rs` has what the parent was answered, and
//! `branch.rs` is what becomes of a fork's effects while it goes on.

mod branch;
mod copy;
mod inheritance;
mod shape;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

pub(in crate::durable) use self::branch::Branch;
pub(crate) use self::copy::{Copied, Source, copy};
use super::plain::accept;
use super::runs::{DurableRun, Known};
use super::serving::raw;
use crate::approval::user_name;
use crate::control::{Answer, Request, unexpected};
use crate::runtime::Runtime;
use tiffany_records::RunError;

/// Allows every effect.
pub(in crate::durable) const ALL: &str = "*";

/// How a fork differs from its parent.
///
/// ```
/// use tiffany::durable::Fork;
///
/// let fork = Fork::new().set_reply(&7)?.allow("mail").id("what if");
/// # drop(fork);
/// # Ok::<(), tiffany::TaskError>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fork {
    reply: Option<Reply>,
    as_is: bool,
    allow: BTreeSet<String>,
    id: Option<String>,
    #[serde(default)]
    by: Option<String>,
}

/// What the record at which a fork begins says instead.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Value(Box<RawValue>),
    Error(TaskError),
}

impl Fork {
    /// One that is as its parent was, and does nothing that its parent has not done.
    pub fn new() -> Fork {
        Fork::default()
    }

    /// The answer in the record at which the fork begins is this instead. It must have the shape of the one that is there.
    pub fn set_reply(self, value: &impl Serialize) -> Result<Fork, TaskError> {
        Ok(Fork { reply: Some(Reply::Value(raw(value)?)), ..self })
    }

    /// The answer in the record at which the fork begins is an error with this message instead.
    pub fn fail(self, message: impl Into<String>) -> Fork {
        self.fail_with(TaskError::failed(message))
    }

    /// The same with an error as it is.
    pub(crate) fn fail_with(self, error: TaskError) -> Fork {
        Fork { reply: Some(Reply::Error(error)), ..self }
    }

    /// The fork with another value, or another error, as its answer.
    pub(crate) fn with_reply(
        self,
        value: impl Fn(Box<RawValue>) -> Result<Box<RawValue>, TaskError>,
        error: impl Fn(TaskError) -> TaskError,
    ) -> Result<Fork, TaskError> {
        let reply = match self.reply {
            Some(Reply::Value(given)) => Some(Reply::Value(value(given)?)),
            Some(Reply::Error(given)) => Some(Reply::Error(error(given))),
            None => None,
        };
        Ok(Fork { reply, ..self })
    }

    /// What it is called, and what it names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.id.iter().chain(&self.allow)
    }

    /// Whether it has another answer than its parent.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The answer may have another shape than the one that is there.
    pub fn as_is(self) -> Fork {
        Fork { as_is: true, ..self }
    }

    /// The fork may do effects of this name that its parent has no answer for; those of every name if it is `*`. Messages to other runs have the
    /// name `send`.
    pub fn allow(mut self, name: impl Into<String>) -> Fork {
        self.allow.insert(name.into());
        self
    }

    /// Who makes the fork: its log has this name beside the answer that it changes. Requests through the control socket are known by the
    /// user who makes them.
    pub fn by(self, name: impl Into<String>) -> Fork {
        Fork { by: Some(name.into()), ..self }
    }

    /// Names the user who asks, unless a user is named already.
    pub(crate) fn asked_by_user(self, uid: u32) -> Fork {
        Fork { by: self.by.or_else(|| Some(user_name(uid))), ..self }
    }

    /// The id that it was given, if it was.
    pub(crate) fn new_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The fork's id. Without one it is the parent's, with the number of the record: `order-7~12`.
    pub fn id(self, id: impl Into<String>) -> Fork {
        Fork { id: Some(id.into()), ..self }
    }
}

impl Runtime {
    /// Forks a run at a record: a new run begins with all that the other one had up to there, and goes its own way.
    ///
    /// Where its parent has an answer to the same call, an effect of the fork is given that. Otherwise it is refused, unless it is
    /// [allowed](Fork::allow): the fork is then [paused](Runtime::paused), and goes on when it is allowed by [`allow`](Runtime::allow). The parent is left as
    /// it is, whether it goes on or is over.
    ///
    /// ```
    /// use tiffany::durable::{Fork, step};
    /// use tiffany::{Runtime, TaskError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("tiffany-doc-fork-{}", std::process::id()));
    /// async fn order(item: String) -> Result<String, TaskError> {
    ///     let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    ///     Ok(format!("{item} for {price}"))
    /// }
    ///
    /// let mut runtime = Runtime::builder().log_dir(&dir).register("order", order).build()?;
    /// let run = runtime.submit::<String>("order", "order-1", &"tea")?;
    /// assert_eq!(runtime.wait_for(&run)?, "tea for 42");
    ///
    /// // Record 4 is the answer of the step. What if it had been another one?
    /// let dear = runtime.fork(&run, 4, Fork::new().set_reply(&1000).map_err(tiffany::RunError::Failed)?)?;
    /// assert_eq!(runtime.wait_for(&dear)?, "tea for 1000");
    /// assert_eq!(runtime.wait_for(&run)?, "tea for 42");
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn fork<T>(
        &mut self,
        parent: &DurableRun<T>,
        at: u64,
        fork: Fork,
    ) -> Result<DurableRun<T>, RunError> {
        let fork = fork.with_reply(|value| accept(&value), TaskError::without_detail);
        let fork = fork.map_err(RunError::Failed)?;
        self.fork_named(parent.uuid(), at, fork).map(|(fork, _)| DurableRun::of(fork))
    }

    /// The same with an answer as the log has it, and with the id that the fork has.
    pub(crate) fn fork_named(
        &mut self,
        parent: Uuid,
        at: u64,
        fork: Fork,
    ) -> Result<(Uuid, String), RunError> {
        let request = Request::Fork { run: parent, at, fork };
        match self.carry_out_accepted(request).map_err(RunError::Failed)? {
            Answer::Forked { run, id } => Ok((run, id)),
            other => Err(RunError::Failed(unexpected(&other))),
        }
    }

    /// Lets a fork do effects of these names, `*` for all. What it was paused for and is allowed now begins.
    pub fn allow<T>(
        &mut self,
        fork: &DurableRun<T>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), RunError> {
        let names = names.into_iter().map(Into::into).collect();
        let request = Request::Allow { run: fork.uuid(), names };
        self.carry_out(request).map(drop).map_err(RunError::Failed)
    }

    /// Makes a fork, and lets it go on.
    pub(in crate::durable) fn fork_run(
        &mut self,
        parent: Uuid,
        at: u64,
        fork: &Fork,
    ) -> Result<(Uuid, String), TaskError> {
        match self.durable_mut().runs.get(&parent) {
            None => return Err(tiffany_records::errors::no_such_run(parent)),
            Some(Known::Removed) => return Err(tiffany_records::errors::run_removed(parent)),
            Some(Known::Paused(error, None)) => return Err(error.clone()),
            Some(_) => {}
        }
        self.hand_in();
        let clock = self.host.clock.now();
        let durable = self.durable.as_mut().expect("only asked for where there is a log");
        durable.log.catch_up().map_err(super::log_failed)?;
        let source = Source { disk: &*durable.disk, root: &durable.root, run: parent };
        let (entropy, empty) = (&self.host.entropy, durable.page.batch.another());
        let Copied { id, chain, mut batch } = copy(&source, at, fork, clock, empty, |id| {
            let uuid = super::runs::uuid_of(id);
            let knows = |run: Uuid| durable.runs.contains_key(&run);
            let is_free = !knows(uuid) && super::runs::refuse_ambiguous(id, knows).is_ok();
            is_free.then(|| entropy.seed_of(uuid))
        })?;
        let uuid = chain.run();
        let (text, blobs) = (batch.text().to_owned(), batch.blobs.clone());
        durable.page.batch.append(&mut batch);
        // Its file is not there before the log is safe.
        self.bring_back(uuid, chain, &|durable| {
            let source = Source { disk: &*durable.disk, root: &durable.root, run: uuid };
            source.script_of(&text, &blobs)
        });
        self.host.inbox.meters.started_durable.add(1);
        Ok((uuid, id))
    }
}

/// An error if a run is no fork.
pub(in crate::durable) fn no_fork(run: Uuid) -> TaskError {
    let message = format!("run {run} is no fork: its effects need nobody's leave");
    TaskError::new(ErrorKind::BadArgument, message)
}
