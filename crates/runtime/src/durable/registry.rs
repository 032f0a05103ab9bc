//! Functions by name: what a durable run is started from, and started from again when it is resumed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{BoxCoroutine, ErrorKind, Step, TaskError, Value};

use super::json::{Json, decode, encode};
use super::language::{Language, Wanted};
use crate::future_task::{FutureTask, Output, into_task_error, panic_error};
use crate::panics;

/// Makes the root of a run out of its input.
type Start = dyn Fn(&str) -> Result<BoxCoroutine, TaskError>;

/// A function that runs can be started from.
#[derive(Clone)]
struct Function {
    start: Rc<Start>,
    /// Where it was registered, which is where its runs are said to come from, in this process and in later ones.
    at: &'static Location<'static>,
}

/// What a run is started with.
pub(crate) struct Root {
    pub(crate) coroutine: BoxCoroutine,
    pub(crate) at: &'static Location<'static>,
}

/// All functions of a runtime.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    functions: BTreeMap<Rc<str>, Function>,
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
        let function = Function { start: Rc::new(start), at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// A function that makes its root itself.
    #[track_caller]
    pub(crate) fn add_coroutine(
        &mut self,
        name: &str,
        start: impl Fn(&str) -> Result<BoxCoroutine, TaskError> + 'static,
    ) {
        let function = Function { start: Rc::new(start), at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// The names of all functions.
    pub(crate) fn names(&self) -> Vec<String> {
        let others = self.language.iter().flat_map(|language| language.names());
        self.functions.keys().map(|name| name.to_string()).chain(others).collect()
    }

    /// Whether there is none.
    #[cfg(feature = "cli")]
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.language.is_none()
    }

    /// Whether there is a function of this name.
    #[cfg(feature = "cli")]
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
            Some(Function { start, at }) => {
                // Reading the input is code of the user's too; a panic in it is this run's alone.
                let started = panics::noting(|| start(input)).unwrap_or_else(|payload| {
                    let what = format!("reading the input of `{name}` panicked");
                    Err(TaskError::new(
                        ErrorKind::Unreadable,
                        panic_error(payload, &what).message(),
                    ))
                });
                Ok(Root { coroutine: started?, at })
            }
            None => {
                let other = self.language.as_ref();
                if let Some(root) = other.and_then(|language| language.start(name, input, wanted)) {
                    return Ok(Root { coroutine: root?, at: Location::caller() });
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
