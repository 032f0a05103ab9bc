//! A task's own store and log, and the environment that all tasks share. Store and log are
//! persistent data structures: a child's snapshot shares them with its parent, whatever their size.

use std::collections::BTreeMap;
use std::rc::Rc;

use rpds::{RedBlackTreeMap, Vector};

use crate::coroutine::BoxCoroutine;
use crate::error::TaskError;
use crate::handler::Handler;
use crate::value::Value;

/// Data that a task inherits from its parent: its store and its handlers. Copied when written.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    pub(crate) state: RedBlackTreeMap<Rc<str>, Value>,
    pub(crate) log: Vector<Value>,
    pub(crate) handlers: Chain,
}

/// A handler chain, innermost first, shared by all tasks that inherited it.
pub(crate) type Chain = Option<Rc<Link>>;

/// One handler, and the chain outside it.
pub(crate) struct Link {
    pub(crate) handler: Rc<dyn Handler>,
    pub(crate) outer: Chain,
}

/// Builds a chain of these handlers, the first of them innermost, inside another chain.
pub(crate) fn chain(handlers: Vec<Rc<dyn Handler>>, outer: Chain) -> Chain {
    handlers.into_iter().rev().fold(outer, |outer, handler| Some(Rc::new(Link { handler, outer })))
}

/// The handlers of a chain, innermost first.
pub(crate) fn handlers(chain: &Chain) -> Vec<Rc<dyn Handler>> {
    std::iter::successors(chain.as_ref(), |link| link.outer.as_ref())
        .map(|link| Rc::clone(&link.handler))
        .collect()
}

/// The shared, read-only environment of a run.
#[derive(Default)]
pub struct Env {
    entries: BTreeMap<Rc<str>, EnvEntry>,
    is_resolved: bool,
}

/// One key of the environment.
pub(crate) enum EnvEntry {
    /// The value is known.
    Known(Result<Value, TaskError>),
    /// The value is computed when it is first requested.
    Unknown(Box<dyn FnOnce() -> BoxCoroutine>),
    /// The value is being computed by this task.
    Resolving(u32),
}

impl Env {
    /// An environment without keys.
    pub fn new() -> Env {
        Env::default()
    }

    /// Sets a key to a value.
    pub fn set(&mut self, key: &str, value: Value) {
        self.entries.insert(key.into(), EnvEntry::Known(Ok(value)));
    }

    /// Sets a key to the result of a coroutine. The coroutine runs once, when the key is first
    /// requested.
    pub fn set_with(&mut self, key: &str, resolve: impl FnOnce() -> BoxCoroutine + 'static) {
        self.entries.insert(key.into(), EnvEntry::Unknown(Box::new(resolve)));
    }

    pub(crate) fn entry(&mut self, key: &str) -> Option<&mut EnvEntry> {
        self.entries.get_mut(key)
    }

    /// Stores the computed value of a key.
    pub(crate) fn resolve(&mut self, key: &str, result: Result<Value, TaskError>) {
        self.is_resolved = true;
        if let Some(entry) = self.entry(key) {
            *entry = EnvEntry::Known(result);
        }
    }

    /// Whether any key was computed.
    pub(crate) fn is_resolved(&self) -> bool {
        self.is_resolved
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Rc<str>> {
        self.entries.keys()
    }
}
