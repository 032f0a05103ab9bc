//! Functions by name, from which durable runs are started and resumed.

use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{BoxCoroutine, ErrorKind, Step, TaskError, Time, Value};

use crate::calls::context;
use crate::calls::durable_agent;
use crate::calls::durable_agent::DurableAgent;
use crate::calls::future_task::{FutureTask, Output, into_task_error};
use crate::did_you_mean::did_you_mean;
use crate::host::panics;
use crate::host::panics::panic_error;
use crate::program::language::{Language, Wanted};
use crate::program::schema;
use tiffany_records::value::{Json, decode, encode};
use tiffany_records::{redact, request};

/// The number of functions that the error for an unknown one names.
const NAMED: usize = 10;

/// Builds the root of a run from its input.
type Start = dyn Fn(&str) -> Result<BoxCoroutine, TaskError>;

/// A function that runs can be started from.
#[derive(Clone)]
struct Function {
    start: Rc<Start>,
    /// Whether its root is a serializable state machine.
    is_agent: bool,
    /// The type of its input, if known.
    input: Option<&'static str>,
    /// Where it was registered: the line that counts as the start of its runs, in this process and
    /// later ones.
    at: &'static Location<'static>,
}

/// The root of a run.
pub(crate) struct Root {
    pub(crate) coroutine: BoxCoroutine,
    pub(crate) at: &'static Location<'static>,
    pub(crate) is_agent: bool,
}

/// Restores a state machine from its state, and until when it sleeps.
type Restore = dyn Fn(&str, Option<Time>) -> Result<BoxCoroutine, TaskError>;

/// All functions of a runtime.
#[derive(Clone, Default)]
pub struct Registry {
    functions: BTreeMap<Rc<str>, Function>,
    agents: BTreeMap<Rc<str>, Rc<Restore>>,
    /// Descriptions of functions that are registered here, or will be.
    described: BTreeMap<String, (String, serde_json::Value)>,
    /// The language of further functions.
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
            // Called inside the task, so that a panic in it belongs to the task.
            let root = async move { function(input).await };
            Ok(Box::pin(FutureTask::<_, WrittenDown>::new(root)))
        };
        self.insert(name, Rc::new(start), false, Some(type_name::<I>()));
    }

    #[track_caller]
    fn insert(
        &mut self,
        name: &str,
        start: Rc<Start>,
        is_agent: bool,
        input: Option<&'static str>,
    ) {
        let function = Function { start, is_agent, input, at: Location::caller() };
        self.functions.insert(name.into(), function);
    }

    /// Registers a function whose root is a serializable state machine.
    #[track_caller]
    pub(crate) fn add_agent<I, A, F>(&mut self, name: &str, function: F)
    where
        I: DeserializeOwned + 'static,
        A: DurableAgent,
        F: Fn(I) -> A + 'static,
    {
        self.add_kind::<A>();
        let start = move |input: &str| Ok(durable_agent::coroutine(function(decode::<I>(input)?)));
        self.insert(name, Rc::new(start), true, Some(type_name::<I>()));
    }

    /// Registers a type of state machine that can be restored.
    pub(crate) fn add_kind<A: DurableAgent>(&mut self) {
        self.agents.insert(A::NAME.into(), Rc::new(durable_agent::restored::<A>));
    }

    /// Restores a state machine. Reading its state is user code.
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

    /// Registers a function that builds its root itself.
    #[track_caller]
    pub(crate) fn add_coroutine(
        &mut self,
        name: &str,
        start: impl Fn(&str) -> Result<BoxCoroutine, TaskError> + 'static,
    ) {
        self.insert(name, Rc::new(start), false, None);
    }

    /// All functions, with their descriptions.
    pub(crate) fn list(&self) -> Vec<request::Function> {
        let ours = self.functions.iter().map(|(name, function)| {
            let (doc, input) = self.described.get(&**name).cloned().unzip();
            let takes = function.input.map(without_modules);
            let doc = doc.filter(|doc| !doc.is_empty());
            request::Function { takes, input, doc, ..request::Function::new(name, "rust") }
        });
        let theirs = self.language.iter().flat_map(|language| language.functions());
        ours.chain(theirs).collect()
    }

    /// Sets the description and the input schema of a function.
    pub(crate) fn describe(&mut self, name: &str, doc: &str, input: serde_json::Value) {
        self.described.insert(name.to_owned(), (doc.to_owned(), input));
    }

    /// Checks the input of a requested run against the described schema.
    fn check(&self, name: &str, input: &str) -> Result<(), TaskError> {
        let Some((_, schema)) = self.described.get(name) else { return Ok(()) };
        match schema::misfit(schema, &decode(input)?) {
            None => Ok(()),
            Some(why) => {
                let message = format!("the input of `{name}` is not as it has to be: {why}");
                Err(TaskError::new(ErrorKind::Unreadable, message))
            }
        }
    }

    /// Whether no function is registered.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.language.is_none()
    }

    /// Whether there is a function with this name.
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
            || self.language.as_ref().is_some_and(|language| language.has(name))
    }

    /// The name of a function, shared by all of its runs.
    pub(crate) fn name(&self, name: &str) -> Rc<str> {
        let known = self.functions.get_key_value(name);
        known.map_or_else(|| name.into(), |(known, _)| Rc::clone(known))
    }

    /// Finds the function that an outside request names: the one with this name; or, if names have
    /// a prefix before a colon (the module, in Python), the only one with this name after its
    /// prefix.
    pub fn meant(&self, name: &str) -> Result<String, TaskError> {
        if self.has(name) {
            return Ok(name.to_owned());
        }
        let mut names: Vec<String> = self.list().into_iter().map(|one| one.name).collect();
        let is_short =
            |full: &&String| full.rsplit_once(':').is_some_and(|(_, short)| short == name);
        let mut meant = names.iter().filter(is_short);
        if let (Some(full), None) = (meant.next(), meant.next()) {
            return Ok(full.clone());
        }
        names.sort_unstable();
        let there = match names.len() {
            0 => "there is none at all".to_owned(),
            many => {
                let first: Vec<String> =
                    names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
                let more = if many > NAMED { ", …" } else { "" };
                format!("there {} {}{more}", if many == 1 { "is" } else { "are" }, first.join(", "))
            }
        };
        let short = |full: &str| full.rsplit_once(':').map(|(_, short)| short.to_owned());
        let is_clear =
            |one: &String| names.iter().filter(|all| short(all).as_ref() == Some(one)).count() == 1;
        let shorts = names.iter().filter_map(|full| short(full)).filter(is_clear);
        let meant = did_you_mean(name, names.iter().cloned().chain(shorts));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
        let message = format!("no function `{name}` is registered; {there}{meant}");
        Err(TaskError::new(ErrorKind::Unregistered, message))
    }

    /// Builds the root of a run of this function.
    #[track_caller]
    pub(crate) fn start(&self, name: &str, input: &str, wanted: Wanted) -> Result<Root, TaskError> {
        let at = Location::caller();
        let read = || self.read(name, input, wanted, at);
        let what = || format!("input of `{name}`");
        context::with(|context| context.outside_turns(None, what, read))
    }

    /// Builds the root of a run from its input with the code of the program.
    fn read(
        &self,
        name: &str,
        input: &str,
        wanted: Wanted,
        caller: &'static Location<'static>,
    ) -> Result<Root, TaskError> {
        match self.functions.get(name) {
            Some(Function { start, is_agent, at, .. }) => {
                if wanted == Wanted::Asked {
                    self.check(name, input)?;
                }
                // Reading the input is user code too; a panic in it affects this run only.
                let started = panics::noting(|| start(input)).unwrap_or_else(|payload| {
                    let what = format!("reading the input of `{name}` panicked");
                    Err(TaskError::new(
                        ErrorKind::Unreadable,
                        panic_error(payload, &what).message(),
                    ))
                });
                let coroutine = started.map_err(|error| match wanted {
                    Wanted::New | Wanted::Asked => of_input(name, error),
                    Wanted::Again => error,
                })?;
                Ok(Root { coroutine, at, is_agent: *is_agent })
            }
            None => {
                let other = self.language.as_ref();
                if let Some(root) = other.and_then(|language| language.start(name, input, wanted)) {
                    let is_agent = other.is_some_and(|language| language.is_agent(name));
                    return Ok(Root { coroutine: root?, at: caller, is_agent });
                }
                let message = format!("no function `{name}` is registered");
                Err(TaskError::new(ErrorKind::Unregistered, message))
            }
        }
    }
}

/// How much of the reason an error quotes, because the reason quotes the input.
const MAX_REASON_CHARS: usize = 600;

/// The beginning of a long text, after redaction.
fn in_short(text: &str) -> String {
    let whole = redact::clean(text);
    let short: String = whole.chars().take(MAX_REASON_CHARS).collect();
    if short.len() < whole.len() { format!("{short}…") } else { short }
}

/// The error for an input that cannot be read. It was passed just now and not recorded before.
fn of_input(name: &str, error: TaskError) -> TaskError {
    let read = error.message().strip_prefix("the recorded value is not of type `");
    match read.and_then(|rest| rest.split_once("` at `")) {
        Some((wanted, rest)) => {
            let wanted = without_modules(wanted);
            let message = format!("the input of `{name}` is not of type `{wanted}` at `{rest}");
            TaskError::new(error.kind(), in_short(&message))
        }
        None => error,
    }
}

/// The name of a type without its modules.
fn without_modules(name: &str) -> String {
    let mut short = String::new();
    for part in name.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}

/// Converts the output of a durable run's root to its recorded form, or an error.
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

#[cfg(test)]
mod tests {
    use crate::program::registry::without_modules;

    #[test]
    fn types_are_told_without_their_modules() {
        let cases = [
            ("()", "()"),
            ("alloc::string::String", "String"),
            ("(u64, alloc::vec::Vec<core::option::Option<a::B>>)", "(u64, Vec<Option<B>>)"),
            ("&'static [core::time::Duration; 3]", "&'static [Duration; 3]"),
        ];
        for (name, expected) in cases {
            assert_eq!(without_modules(name), expected);
        }
    }
}
