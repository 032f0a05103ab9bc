//! Forks: new runs that start with the history of another run up to a record.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::durable::Fork;
use tiffany::{Runtime, binding};

use crate::durable::runs::{identity, raised};
use crate::process::interpreter;
use crate::values::argument::Argument;
use crate::values::{argument, json};

/// How a fork differs from its parent, as `python/tiffany/durable/_control.py` passes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Wanted<'py> {
    /// The replaced answer, in a list that is empty if there is none.
    reply: Option<Bound<'py, PyAny>>,
    fail: Option<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = argument::as_is)]
    as_is: bool,
    allow: Vec<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = argument::id)]
    id: Option<String>,
}

/// Reads the options of a fork.
pub(crate) fn wanted(given: &Bound<'_, PyDict>) -> PyResult<Fork> {
    let wanted: PyResult<Wanted<'_>> = given.extract();
    let wanted = wanted.map_err(|error| argument::of_a_part(given.py(), error))?;
    let mut fork = Fork::new();
    if let Some(reply) = wanted.reply {
        let reply = json::raw(&reply.get_item(0)?, || "the answer of a fork".into())?;
        fork = fork
            .set_reply(&reply)
            .map_err(|error| crate::values::errors::to_python(given.py(), &error))?;
    }
    if let Some(error) = wanted.fail {
        fork = binding::failing(fork, crate::durable::control::failure(error));
    }
    if wanted.as_is {
        fork = fork.as_is();
    }
    if let Some(id) = wanted.id {
        fork = fork.id(id);
    }
    names(&wanted.allow)?.into_iter().try_fold(fork, |fork, name| Ok(fork.allow(name)))
}

/// Reads names of steps.
pub(crate) fn names(given: &[Bound<'_, PyAny>]) -> PyResult<Vec<String>> {
    given.iter().map(|name| String::read("a name in `allow`", name)).collect()
}

/// Forks a run and returns the fork's id and UUID.
pub(crate) fn fork(
    runtime: &mut Runtime,
    run: &Bound<'_, PyAny>,
    at: u64,
    given: &Bound<'_, PyDict>,
) -> PyResult<(String, String)> {
    let (py, parent, fork) = (run.py(), identity(run)?, wanted(given)?);
    let forked = interpreter::without(py, || binding::fork(runtime, parent, at, fork));
    raised(py, forked).map(|(uuid, id)| (id, uuid.to_string()))
}

/// Allows a fork to execute the steps with these names.
pub(crate) fn allow(
    runtime: &mut Runtime,
    of: &Bound<'_, PyAny>,
    given: &[Bound<'_, PyAny>],
) -> PyResult<()> {
    let (py, run) = (of.py(), binding::durable_run::<()>(identity(of)?));
    let names = names(given)?;
    raised(py, interpreter::without(py, || runtime.allow(&run, names)))
}
