//! Crash tests of Python workflows with `tiffany-sim`. The public part is
//! `python/tiffany/testing/_crashes.py`.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::Builder;
use tiffany_sim::{Crashes, Failure, Plan, Question, Report, Seen};

use crate::process::session;
use crate::runtime::settings::Settings;
use crate::tasks::asyncgens::Hooks;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::{errors, json};

/// The settings of a crash test, as `_crashes.py` passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Told<'py> {
    function: String,
    id: String,
    input: String,
    settings: Py<PyDict>,
    /// Messages for the run: delay in seconds, name, and value as JSON.
    messages: Vec<(f64, String, String)>,
    /// Returns the value of the external promise with this number as JSON, or an error.
    answer: Option<Py<PyAny>>,
    world: Option<Py<PyAny>>,
    holds: Option<Py<PyAny>>,
    may_differ: bool,
    seeds: u64,
    at_most: Option<usize>,
    faults: bool,
    only: Option<Bound<'py, PyAny>>,
}

/// The Python side of one simulation.
struct World(Py<PyAny>);

/// Crashes a workflow at every place. Returns the number of seeds, operations, attempts,
/// simulations, crashes and refused logs.
#[pyfunction]
#[pyo3(name = "_crash_everywhere")]
pub(super) fn crash_everywhere(told: &Bound<'_, PyAny>) -> PyResult<[usize; 6]> {
    let (py, told) = (told.py(), told.extract::<Told<'_>>()?);
    // Invalid settings are reported before the first simulation.
    told.settings.bind(py).extract::<Settings<'_>>()?.builder(py)?;
    let _hooks = Hooks::new(py)?;
    let report = match &told.world {
        None => {
            let holds = told.holds.as_ref().map(|holds| holds.clone_ref(py));
            let id = told.id.clone();
            let crashes =
                Crashes::in_world(|| ()).holds(move |(), seen| held(&holds, None, &id, seen));
            told.report(py, crashes)
        }
        Some(world) => {
            let world = world.clone_ref(py);
            let holds = told.holds.as_ref().map(|holds| holds.clone_ref(py));
            let id = told.id.clone();
            let crashes = Crashes::in_world(move || made(&world))
                .holds(move |world: &World, seen| held(&holds, Some(&world.0), &id, seen));
            told.report(py, crashes)
        }
    }?;
    let Report { seeds, operations, steps, simulations, crashes, refused } = report;
    Ok([seeds, operations, steps, simulations, crashes, refused])
}

impl Told<'_> {
    fn report<W: 'static>(&self, py: Python<'_>, crashes: Crashes<W>) -> PyResult<Report> {
        let settings = self.settings.clone_ref(py);
        let mut crashes = crashes
            .set_up(move |_, builder| set_up(&settings, builder))
            .run(&self.function, &self.id, &json::raw_text(self.input.clone()))
            .seeds(0..self.seeds);
        for (after, name, message) in &self.messages {
            let after = Duration::try_from_secs_f64(*after).unwrap_or(Duration::MAX);
            crashes = crashes.send(after, &self.id, name, &json::raw_text(message.clone()));
        }
        if let Some(answer) = &self.answer {
            let answer = answer.clone_ref(py);
            crashes = crashes.answer(move |question| answered(&answer, question));
        }
        crashes = if self.may_differ { crashes.may_differ() } else { crashes };
        crashes = if self.faults { crashes } else { crashes.no_faults() };
        if let Some(most) = self.at_most {
            crashes = crashes.at_most(most);
        }
        if let Some(only) = &self.only {
            let plan = only.str()?.to_string().parse::<Plan>();
            let plan = plan.map_err(|why| TiffanyError::BadArgument.err(py, why.to_string()))?;
            crashes = crashes.only(plan);
        }
        let report = crashes.report();
        // The exception ends the whole loop, or comes from the test's own functions.
        if let Some(error) = session::take_interrupt() {
            return Err(error);
        }
        report.map_err(|failure| wrong(py, &failure))
    }
}

fn wrong(py: Python<'_>, failure: &Failure) -> PyErr {
    let Failure { plan, what } = failure;
    let message = format!("{what}\nin the simulation {plan}; repeat it with only=\"{plan}\"");
    TiffanyError::NotCrashProof.err(py, message)
}

/// Starts the simulated machine. Ctrl-C is handled between starts.
fn set_up(settings: &Py<PyDict>, builder: Builder) -> Builder {
    Python::attach(|py| {
        let set_up = || {
            py.check_signals()?;
            settings.bind(py).extract::<Settings<'_>>()?.applied(py, Builder::new())
        };
        let unobserved = |set: Builder| set.on_unobserved(|_| {});
        set_up().map(unobserved).unwrap_or_else(|error| {
            session::interrupt(error);
            builder
        })
    })
}

/// Calls a function of the test. An exception in it ends the crash test.
fn called<T>(act: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
    Python::attach(|py| act(py).map_err(session::interrupt).ok())
}

fn made(world: &Py<PyAny>) -> World {
    let made = called(|py| world.call0(py));
    World(made.unwrap_or_else(|| Python::attach(|py| py.None())))
}

fn answered(
    answer: &Py<PyAny>,
    question: &Question,
) -> Result<Box<serde_json::value::RawValue>, String> {
    let given = called(|py| {
        let given = answer.call1(py, (question.number,))?;
        given.extract::<(bool, String)>(py)
    });
    match given {
        Some((true, json)) => Ok(json::raw_text(json)),
        Some((false, why)) => Err(why),
        None => Err("the test itself failed".into()),
    }
}

/// Calls the test's `holds` at the end of a simulation.
fn held(
    holds: &Option<Py<PyAny>>,
    world: Option<&Py<PyAny>>,
    id: &str,
    seen: &Seen<'_>,
) -> Result<(), String> {
    if session::is_interrupted() {
        return Err("it was interrupted".into());
    }
    let Some(holds) = holds else { return Ok(()) };
    let ledger: Vec<(String, String, String, u64, u64)> = seen
        .ledger()
        .iter()
        .map(|entry| {
            let (name, kind, key) = (entry.name.clone(), entry.kind.clone(), entry.key.clone());
            (name, kind, key, entry.attempt, entry.life)
        })
        .collect();
    Python::attach(|py| {
        let outcome = match seen.outcome(id) {
            Some(Ok(value)) => (Some(value.to_string()), None),
            Some(Err(error)) => (None, Some(error.clone())),
            None => (None, None),
        };
        let held = holds.call1(py, (world, ledger, seen.crashes(), outcome.0, outcome.1));
        held.map(drop).map_err(|error| {
            match error.is_instance_of::<pyo3::exceptions::PyAssertionError>(py) {
                true => errors::text(error.value(py)),
                false => {
                    session::interrupt(error);
                    "the test itself failed".into()
                }
            }
        })
    })
}

/// Adds these functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(crash_everywhere, module)?)
}
