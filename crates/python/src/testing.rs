//! The compiled part of the test kit: a scheduler that is stepped by hand. The public part is
//! `python/tiffany/testing`.

mod crashes;
mod golden;

use std::cell::{RefCell, RefMut};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use tiffany::testing::TestScheduler;
use tiffany::{Event, EventKind, RunHandle, Site, Time, Value, binding};

use crate::calls::duration;
use crate::process::session;
use crate::process::session::Registered;
use crate::process::thread::OneThread;
use crate::runtime::settings::Settings;
use crate::tasks::asyncgens::{Hooks, OfRun};
use crate::tasks::spawn;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{argument, errors, value};

/// A scheduler stepped by hand, with the runs that were started in it.
struct Stepped {
    test: TestScheduler,
    runs: Vec<Option<RunHandle<Value>>>,
    _registered: Registered,
}

/// A scheduler stepped by hand, on the thread that created it. `tiffany.testing.Scheduler` is built
/// on it.
#[pyclass(frozen, name = "_Scheduler", module = "tiffany._core")]
pub(crate) struct Scheduler {
    inner: OneThread<RefCell<Option<Stepped>>>,
}

/// A task: number, name, state, what it waits for, the line it waits at, the line that spawned it.
type TaskParts = (u64, Option<String>, String, Option<String>, Option<String>, String);

impl Scheduler {
    fn open(&self, py: Python<'_>) -> PyResult<RefMut<'_, Stepped>> {
        let inner = self.inner.get(py, "scheduler")?;
        let Ok(open) = inner.try_borrow_mut() else {
            let message = "this scheduler is running; a task of it cannot step it";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        };
        RefMut::filter_map(open, Option::as_mut)
            .map_err(|_| TiffanyError::Gone.err(py, "this scheduler is closed"))
    }
}

#[pymethods]
impl Scheduler {
    #[new]
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Scheduler> {
        let builder = Settings::read(settings)?.builder(settings.py())?;
        let mut test = TestScheduler::with(builder);
        let registered = Registered::new(test.runtime().handle());
        let stepped = Stepped { test, runs: Vec::new(), _registered: registered };
        Ok(Scheduler { inner: OneThread::new(RefCell::new(Some(stepped))) })
    }

    /// Starts a run of a program and returns its index.
    fn start(&self, program: Bound<'_, PyAny>) -> PyResult<usize> {
        spawn::check(&program)?;
        let mut open = self.open(program.py())?;
        let root = spawn::coroutine(&program, Line::of_program(&program))?;
        let run = binding::start_test(&mut open.test, root);
        open.runs.push(Some(run));
        Ok(open.runs.len() - 1)
    }

    /// Gives the next ready task one turn. Returns `False` if no task is ready.
    fn step(&self, py: Python<'_>) -> PyResult<bool> {
        let _looping = session::Looping::new();
        let _hooks = Hooks::new(py)?;
        let stepped = self.open(py)?.test.step();
        interrupted()?;
        Ok(stepped)
    }

    /// Gives turns until no task is ready. The clock does not advance.
    fn run_until_idle(&self, py: Python<'_>) -> PyResult<()> {
        while self.step(py)? {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Advances the clock by this much, from timer to timer.
    fn advance(&self, seconds: Bound<'_, PyAny>) -> PyResult<()> {
        let by = duration(&seconds)?;
        let _looping = session::Looping::new();
        let _hooks = Hooks::new(seconds.py())?;
        self.open(seconds.py())?.test.advance(by);
        interrupted()
    }

    /// Sets the clock, in seconds since 1970. It never goes back.
    fn set_clock(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::seconds)] seconds: f64,
    ) -> PyResult<()> {
        let nanos = seconds * 1e9;
        if !(0.0..=u64::MAX as f64).contains(&nanos) {
            let message = format!("{seconds} is not a moment that the clock can represent");
            return Err(TiffanyError::BadDuration.err(py, message));
        }
        self.open(py)?.test.set_clock(Time::from_nanos(nanos as u64));
        Ok(())
    }

    /// Returns the time of the clock, in seconds since 1970.
    fn now(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.open(py)?.test.now().as_nanos() as f64 / 1e9)
    }

    /// Returns the known tasks of a run.
    fn tasks(&self, py: Python<'_>, run: usize) -> PyResult<Vec<TaskParts>> {
        let open = self.open(py)?;
        let Some(Some(run)) = open.runs.get(run) else { return Ok(Vec::new()) };
        let tasks = open.test.tasks(run.id()).into_iter().map(|task| {
            (
                task.label.tid.0,
                task.label.name,
                task.state.to_string(),
                task.waits_for,
                task.waits_at.as_ref().map(Site::to_string),
                task.label.spawned_at.to_string(),
            )
        });
        Ok(tasks.collect())
    }

    /// Returns the events so far, one line for each event.
    fn trace(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let open = self.open(py)?;
        let mut runs = Vec::new();
        let trace = open.test.trace();
        let lines = trace.events().iter().map(|event| {
            if !runs.contains(&event.run) {
                runs.push(event.run);
            }
            let place = runs.iter().position(|run| *run == event.run).unwrap_or_default();
            match (open.runs.len() > 1, line(event)) {
                (true, line) => format!("run {} {line}", place + 1),
                (false, line) => line,
            }
        });
        Ok(lines.collect())
    }

    /// Runs a run to its end and returns its value. Whenever all tasks are idle, the clock jumps
    /// ahead.
    fn finish(&self, py: Python<'_>, run: usize) -> PyResult<Py<PyAny>> {
        let open = &mut *self.open(py)?;
        let Some(run) = open.runs.get_mut(run).and_then(Option::take) else {
            return Err(TiffanyError::Gone.err(py, "this run was finished before"));
        };
        let _looping = session::Looping::new();
        let _hooks = Hooks::new(py)?;
        let _generators = OfRun(run.id());
        let ended = binding::finish_test(&mut open.test, &run, session::is_interrupted);
        interrupted()?;
        match ended {
            Some(Ok(value)) => value::from_value(py, value),
            Some(Err(error)) => Err(errors::run_error(py, &error)),
            None => Err(TiffanyError::Gone.err(py, "the run was left")),
        }
    }

    /// Closes the scheduler and its unfinished tasks.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner.get(py, "scheduler")?;
        let Ok(mut open) = inner.try_borrow_mut() else {
            let message = "this scheduler is running; a task of it cannot close it";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        };
        let stepped = open.take();
        drop(open);
        drop(stepped);
        Ok(())
    }
}

/// Raises the exception with which a task ended the whole loop, such as `KeyboardInterrupt`.
fn interrupted() -> PyResult<()> {
    session::take_interrupt().map_or(Ok(()), Err)
}

/// Formats an event as one line. Directories and object types are left out, so a trace is the same
/// on every machine.
fn line(event: &Event) -> String {
    let object = format!("<{}>", std::any::type_name::<Py<PyAny>>());
    let text = event.to_string().replace(&object, "<object>");
    match &event.kind {
        EventKind::Called { at, .. } | EventKind::Spawned { at, .. } => {
            let file = at.file.rsplit('/').next().unwrap_or_default();
            format!("{text} at {file}:{}", at.line)
        }
        _ => text,
    }
}

/// Adds these classes and functions to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Scheduler>()?;
    crashes::add(module)?;
    module.add_function(wrap_pyfunction!(golden::replay, module)?)?;
    module.add_function(wrap_pyfunction!(golden::keep, module)?)
}
