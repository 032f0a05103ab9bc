//! Functions by name: what a durable run is started from, and started from again when it is resumed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{BoxCoroutine, ErrorKind, Step, TaskError, Time, Value};

use super::agent::{self, DurableAgent};
use super::json::{Json, decode, encode};
use super::language::{FunctionAbout, Language, Wanted};
use crate::future_task::{FutureTask, Output, into_task_error, panic_error};
use crate::panics;

/// Makes the root of a run out of its input.
type Start = dyn Fn(&str) -> Result<BoxCoroutine, TaskError>;

/// A function that runs can be started from.
#[derive(Clone)]
struct Function {
    start: Rc<Start>,
    /// Its root is a state machine that can be written down.
    is_agent: bool,
    /// Where it was registered, which is where its runs are said to come from, in this process and in later ones.
    at: &'static Location<'static>,
}

/// What a run is started with.
pub(crate) struct Root {
    pub(crate) coroutine: BoxCoroutine,
    pub(crate) at: &'static Location<'static>,
    pub(crate) is_agent: bool,
}

/// Makes a state machine again out of its state, and until when it sleeps.
type Restore = dyn Fn(&str, Option<Time>) -> Result<BoxCoroutine, TaskError>;

/// All functions of a runtime.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    functions: BTreeMap<Rc<str>, Function>,
    agents: BTreeMap<Rc<str>, Rc<Restore>>,
    /// What was said of functions that are registered here, or will be.
    described: BTreeMap<String, FunctionAbout>,
    /// Who knows of others.
    pub(crate) language: Option<Rc<dyn Language>>,
}

impl Registry {
    #[track_caller]
    pub(crate) fn add<I, O, E, F, R>(&mut self, name: &str, function: F)
    where
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        E: Display + 'static,
        F: Fn(I) -> R + 'static,
        R: Future<Output = Result<O, E>> + 'static,
    {
        let function = Rc::new(function);
        let start = move |input: &str| -> Result<BoxCoroutine, TaskError> {
            let (input, function) = (decode::<I>(input)?, Rc::clone(&function));
            // Called inside the task, so that a panic in it is the task's.
            let root = async move { function(input).await };
            Ok(Box::pin(FutureTask::<_, WrittenDown>::new(root)))
        };
        let function = Function { start: Rc::new(start), is_agent: false, at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// A function whose root is a state machine that can be written down.
    #[track_caller]
    pub(crate) fn add_agent<I, A, F>(&mut self, name: &str, function: F)
    where
        I: DeserializeOwned + 'static,
        A: DurableAgent,
        F: Fn(I) -> A + 'static,
    {
        self.add_kind::<A>();
        let start = move |input: &str| Ok(agent::coroutine(function(decode::<I>(input)?)));
        let function = Function { start: Rc::new(start), is_agent: true, at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// A kind of state machine that can be made again.
    pub(crate) fn add_kind<A: DurableAgent>(&mut self) {
        self.agents.insert(A::NAME.into(), Rc::new(agent::restored::<A>));
    }

    /// A state machine made again. Reading its state is code of the user's.
    pub(crate) fn restore(
        &self,
        kind: &str,
        state: &str,
        until: Option<Time>,
    ) -> Result<BoxCoroutine, TaskError> {
        let refused = |why: String| TaskError::new(ErrorKind::NotRestored, why);
        let restored = match (self.agents.get(kind), &self.language) {
            (Some(restore), _) => {
                panics::noting(|| restore(state, until)).unwrap_or_else(|payload| {
                    Err(panic_error(payload, &format!("reading a `{kind}` panicked")))
                })
            }
            (None, Some(language)) => language
                .restore(kind, state, until)
                .ok_or_else(|| refused(format!("no state machine `{kind}` is registered")))?,
            (None, None) => {
                return Err(refused(format!("no state machine `{kind}` is registered")));
            }
        };
        restored.map_err(|error| refused(format!("a `{kind}` cannot be read: {}", error.message())))
    }

    /// Where a function was registered.
    pub(crate) fn place(&self, name: &str) -> Option<&'static Location<'static>> {
        self.functions.get(name).map(|function| function.at)
    }

    /// A function that makes its root itself.
    #[track_caller]
    pub(crate) fn add_coroutine(
        &mut self,
        name: &str,
        start: impl Fn(&str) -> Result<BoxCoroutine, TaskError> + 'static,
    ) {
        let function = Function { start: Rc::new(start), is_agent: false, at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// The names of all functions.
    pub(crate) fn names(&self) -> Vec<String> {
        let others = self.language.iter().flat_map(|language| language.names());
        self.functions.keys().map(|name| name.to_string()).chain(others).collect()
    }

    /// What is given to a function, and what it is for.
    pub(crate) fn describe(&mut self, about: FunctionAbout) {
        self.described.insert(about.name.clone(), about);
    }

    /// What is known of all functions.
    pub(crate) fn about(&self) -> Vec<FunctionAbout> {
        let ours = self.functions.keys().map(|name| {
            let known = self.described.get(&**name).cloned();
            known.unwrap_or_else(|| FunctionAbout::new(name, "rust"))
        });
        let others = self
            .language
            .iter()
            .flat_map(|language| language.names().into_iter().map(|name| language.describe(&name)));
        ours.chain(others).collect()
    }

    /// Whether there is none.
    #[cfg(feature = "cli")]
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.language.is_none()
    }

    /// Whether there is a function of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
            || self.language.as_ref().is_some_and(|language| language.has(name))
    }

    /// A function's name, shared by all of its runs.
    pub(crate) fn name(&self, name: &str) -> Rc<str> {
        let known = self.functions.get_key_value(name);
        known.map_or_else(|| name.into(), |(known, _)| Rc::clone(known))
    }

    /// The root of a run of this function.
    #[track_caller]
    pub(crate) fn start(&self, name: &str, input: &str, wanted: Wanted) -> Result<Root, TaskError> {
        match self.functions.get(name) {
            Some(Function { start, is_agent, at }) => {
                // Reading the input is code of the user's too; a panic in it is this run's alone.
                let started = panics::noting(|| start(input)).unwrap_or_else(|payload| {
                    let what = format!("reading the input of `{name}` panicked");
                    Err(TaskError::new(
                        ErrorKind::Unreadable,
                        panic_error(payload, &what).message(),
                    ))
                });
                Ok(Root { coroutine: started?, at, is_agent: *is_agent })
            }
            None => {
                let other = self.language.as_ref();
                if let Some(root) = other.and_then(|language| language.start(name, input, wanted)) {
                    let is_agent = other.is_some_and(|language| language.is_agent(name));
                    return Ok(Root { coroutine: root?, at: Location::caller(), is_agent });
                }
                let message = format!("no function `{name}` is registered");
                Err(TaskError::new(ErrorKind::Unregistered, message))
            }
        }
    }
}

/// The output of a durable run's root: written down, or an error.
struct WrittenDown;

impl<O: Serialize + 'static, E: Display + 'static> Output<Result<O, E>> for WrittenDown {
    fn step(output: Result<O, E>) -> Step {
        match output {
            Ok(value) => match encode(&value) {
                Ok(json) => Step::Done(Value::new(Json::new(json))),
                Err(error) => Step::Failed(error),
            },
            Err(error) => Step::Failed(into_task_error(error)),
        }
    }
}
