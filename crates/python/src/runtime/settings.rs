//! The settings of a runtime, read from a dictionary that `python/tiffany/_settings.py` made.

use std::rc::Rc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};
use tiffany::Runtime;
use tiffany::durable::RunLimits;
use tiffany::redact::Redactions;
use tiffany::{DependencyAware, End, Limits, Priority, binding};

use crate::calls::duration;
use crate::durable;
use crate::process::{interpreter, session};
use crate::tasks::handler::PyHandler;
use crate::tasks::spawn;
use crate::tasks::stack::is_program;
use crate::values::argument::Argument;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{argument, errors};

/// A value of the environment that is computed when a task first asks for it: the function is
/// called once for all tasks. It returns the value, or a program that returns it.
///
/// >>> def find():
/// ...     print("looking")
/// ...     return 42
/// >>> async def main():
/// ...     return await ask("answer") + await ask("answer")
/// >>> run(main(), env={"answer": Lazy(find)})
/// looking
/// 84
#[pyclass(frozen, module = "tiffany")]
pub(crate) struct Lazy {
    find: Py<PyAny>,
}

#[pymethods]
impl Lazy {
    #[new]
    fn new(find: Bound<'_, PyAny>) -> PyResult<Lazy> {
        argument::check_callable("find", &find)?;
        Ok(Lazy { find: find.unbind() })
    }

    fn __traverse__(&self, visit: pyo3::gc::PyVisit<'_>) -> Result<(), pyo3::gc::PyTraverseError> {
        visit.call(&self.find)
    }
}

/// Settings as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings<'py> {
    env: Option<Bound<'py, PyDict>>,
    handlers: Option<Bound<'py, PyList>>,
    #[pyo3(from_py_with = argument::name)]
    name: Option<String>,
    #[pyo3(from_py_with = argument::end)]
    end: String,
    limits: Option<Bound<'py, PyDict>>,
    run_limits: Option<Bound<'py, PyDict>>,
    cancel_grace: Option<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = argument::policy)]
    policy: String,
    #[pyo3(from_py_with = argument::threads)]
    threads: usize,
    #[pyo3(from_py_with = argument::step_slots)]
    step_slots: usize,
    #[pyo3(default, from_py_with = argument::clock)]
    clock: Option<String>,
    /// Redaction rules.
    #[pyo3(default)]
    redact: Vec<String>,
    #[pyo3(default)]
    durable: Option<durable::settings::Settings<'py>>,
}

impl<'py> Settings<'py> {
    /// Reads the settings.
    pub(crate) fn read(given: &Bound<'py, PyDict>) -> PyResult<Settings<'py>> {
        given.extract().map_err(|error| argument::of_a_part(given.py(), error))
    }

    /// Whether the runtime has a log.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable.as_ref().is_some_and(durable::settings::Settings::has_log)
    }

    /// Returns a builder with these settings. The loop releases the interpreter while it waits.
    pub(crate) fn builder(&self, py: Python<'_>) -> PyResult<tiffany::Builder> {
        self.applied(py, Runtime::builder())
    }

    /// Applies these settings to a builder.
    pub(crate) fn applied(
        &self,
        py: Python<'_>,
        builder: tiffany::Builder,
    ) -> PyResult<tiffany::Builder> {
        let mut builder = builder.around_wait(Rc::new(wait));
        builder = builder.blocking_threads(self.threads).step_slots(self.step_slots);
        let thread = py.import("threading")?.call_method0("get_ident")?.extract::<u64>()?;
        builder = builder.on_stuck(move |stuck| {
            let thread = if stuck.is_async_step { None } else { Some(thread) };
            interpreter::inside(|py| errors::show_stuck(py, &stuck.to_string(), thread));
        });
        builder = builder.on_unobserved(move |error| {
            Python::attach(|py| errors::show_unobserved(py, error));
        });
        builder = match self.end.as_str() {
            "all" => builder.end(End::AllTasks),
            "root" => builder.end(End::Root),
            other => {
                let message = format!(
                    "a run ends with \"all\" of its tasks or with its \"root\", not with {other:?}"
                );
                return Err(TiffanyError::BadArgument.err(py, message));
            }
        };
        builder = match self.policy.as_str() {
            "fifo" => builder,
            "priority" => builder.policy(Priority::default),
            "dependency" => builder.policy(DependencyAware::default),
            other => {
                let message = format!(
                    "a run's policy is \"fifo\", \"priority\" or \"dependency\", not {other:?}"
                );
                return Err(TiffanyError::BadArgument.err(py, message));
            }
        };
        builder = match self.clock.as_deref().unwrap_or("system") {
            "system" => builder,
            "virtual" => builder.virtual_clock(),
            other => {
                let message =
                    format!("the clock is the \"system\"'s or \"virtual\", not {other:?}");
                return Err(TiffanyError::BadArgument.err(py, message));
            }
        };
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(grace) = &self.cancel_grace {
            builder = builder.cancel_grace(duration(grace)?);
        }
        if let Some(limits) = &self.limits {
            builder = builder.limits(read_limits(limits)?);
        }
        if let Some(limits) = &self.run_limits {
            builder = builder.run_limits(read_run_limits(limits)?);
        }
        for handler in self.handlers.iter().flatten() {
            builder = builder.handler(PyHandler::new(&handler)?);
        }
        for (key, value) in self.env.iter().flatten() {
            builder = add_env(builder, &String::read("a key of `env`", &key)?, value);
        }
        let rules = self.redact.iter().try_fold(Redactions::new(), |rules, rule| rules.rule(rule));
        builder = builder.redact(rules.map_err(|error| errors::coded(py, error.code(), &error))?);
        match &self.durable {
            Some(durable) => durable.apply(py, builder),
            None => Ok(builder),
        }
    }
}

fn add_env(builder: tiffany::Builder, key: &str, value: Bound<'_, PyAny>) -> tiffany::Builder {
    let Ok(lazy) = value.cast::<Lazy>() else {
        return builder.env(key, crate::values::value::to_value(value));
    };
    let lazy = lazy.clone().unbind();
    builder.env_coroutine(key, move || {
        Python::attach(|py| {
            let find = || {
                let found = lazy.get().find.bind(py).call0()?;
                match is_program(&found) {
                    true => spawn::coroutine(&found, None),
                    false => {
                        let value = crate::values::value::to_value(found);
                        Ok(binding::from_future(async move { Ok(value) }))
                    }
                }
            };
            find().unwrap_or_else(|error: PyErr| {
                let error = errors::from_python(py, &error);
                binding::from_future(async move { Err(error) })
            })
        })
    })
}

/// Reads a duration. `True` is refused, although Python would take it for one second.
fn period(given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if given.is_instance_of::<PyBool>() {
        let message = "`bool` is not a duration; pass a number of seconds or a timedelta";
        return Err(TiffanyError::BadDuration.err(given.py(), message));
    }
    duration(given)
}

fn read_limits(limits: &Bound<'_, PyDict>) -> PyResult<Limits> {
    let mut read = Limits::default();
    for (key, value) in limits {
        match String::read("a key of `limits`", &key)?.as_str() {
            "max_tasks" => read.max_tasks = Some(Argument::read("`max_tasks`", &value)?),
            "max_calls" => read.max_calls = Some(Argument::read("`max_calls`", &value)?),
            "max_time" => read.max_time = Some(period(&value)?),
            "max_cost" => read.max_cost = Some(Argument::read("`max_cost`", &value)?),
            other => {
                let message = format!(
                    "there is no limit `{other}`; there are max_tasks, max_calls, max_time and max_cost"
                );
                return Err(TiffanyError::BadArgument.err(limits.py(), message));
            }
        }
    }
    Ok(read)
}

fn read_run_limits(limits: &Bound<'_, PyDict>) -> PyResult<RunLimits> {
    let mut read = RunLimits::default();
    for (key, value) in limits {
        let key = String::read("a key of `run_limits`", &key)?;
        let number = || Argument::read(&format!("`{key}`"), &value).map(Some);
        match key.as_str() {
            "tasks" => read.tasks = number()?,
            "calls" => read.calls = number()?,
            "records" => read.records = number()?,
            "log_bytes" => read.log_bytes = number()?,
            "memory_bytes" => read.memory_bytes = number()?,
            "messages" => read.messages = number()?,
            "message_bytes" => read.message_bytes = number()?,
            "deaths" => read.deaths = number()?,
            "turn" => read.turn = Some(period(&value)?),
            other => {
                let message = format!(
                    "there is no run limit `{other}`; there are tasks, calls, records, log_bytes, memory_bytes, messages, message_bytes, deaths and turn"
                );
                return Err(TiffanyError::BadArgument.err(limits.py(), message));
            }
        }
    }
    Ok(read)
}

/// Releases the interpreter while the loop waits, then handles signals.
pub(crate) fn wait(wait: &mut dyn FnMut()) {
    Python::attach(|py| {
        interpreter::without(py, || session::pausing(wait));
        if let Err(error) = py.check_signals() {
            session::interrupt(error);
        }
    });
}
