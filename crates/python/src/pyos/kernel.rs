//! The tasks of a pyos scheduler: all tasks, the ready ones, and the requests to the kernel on
//! their behalf. The scheduler's main loop is a run of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use tiffany::binding::{self, Release};
use tiffany::kernel::{Rules, TaskRef};
use tiffany::{End, RunError, Runtime, RuntimeHandle, TaskError, Tid};

use super::driver::Driven;
use super::task::{Place, PyosTask};
use crate::process::session::Registered;
use crate::process::signals::{Second, Watch};
use crate::process::{interpreter, session, signals};
use crate::runtime::settings;
use crate::values::errors;
use crate::values::errors::{Raise, TiffanyError};

/// The number of the first task of a run.
const ROOT: Tid = Tid(1);

/// The number of threads for blocking work, as with `tiffany.run`.
const THREADS: usize = 4;

/// The part of a pyos scheduler that is written in Rust.
#[pyclass(name = "_PyosKernel", module = "tiffany._core")]
pub(crate) struct PyosKernel {
    /// The tasks that were scheduled and are unfinished, by address.
    live: BTreeMap<usize, Py<PyosTask>>,
    /// The number of ready tasks.
    ready: usize,
    /// How often a task became ready.
    scheduled: u64,
    errands: Vec<Errand>,
    /// The handle of the main loop, while it runs.
    running: Option<RuntimeHandle>,
    /// Whether a task of this scheduler has its turn. That task carries out the errands at the end
    /// of the turn.
    in_turn: bool,
    /// Whether the main loop is being left, in which case unfinished tasks stay as they are.
    is_leaving: bool,
    /// The number of tasks that were spawned in the kernel.
    spawned: u64,
    /// Tasks whose failure was printed, by their number in the kernel.
    shown: BTreeSet<Tid>,
}

/// A request to the kernel, which only a task can make.
pub(crate) enum Errand {
    Spawn(Py<PyosTask>),
    Kill(Py<PyosTask>),
}

#[pymethods]
impl PyosKernel {
    #[new]
    fn new() -> PyosKernel {
        PyosKernel {
            live: BTreeMap::new(),
            ready: 0,
            scheduled: 0,
            errands: Vec::new(),
            running: None,
            in_turn: false,
            is_leaving: false,
            spawned: 0,
            shown: BTreeSet::new(),
        }
    }

    /// Makes a task ready, on any thread.
    fn schedule(&mut self, task: &Bound<'_, PyosTask>) {
        let place = task.borrow().place;
        if place == Place::Over {
            return;
        }
        self.mark_ready(task);
        match place {
            Place::Outside => {
                self.live.insert(address(task), task.clone().unbind());
                if self.running.is_some() {
                    task.borrow_mut().place = Place::Starting;
                    self.send_out(task.py(), Errand::Spawn(task.clone().unbind()));
                }
            }
            Place::Kernel(at) => self.wake(at),
            Place::Starting | Place::Over => {}
        }
    }

    /// Ends a task. Has no effect on a finished task.
    fn kill(slf: &Bound<'_, Self>, task: &Bound<'_, PyosTask>) {
        let place = task.borrow().place;
        match place {
            Place::Over => {}
            Place::Outside => {
                PyosTask::close(task);
                slf.borrow_mut().schedule(task);
            }
            Place::Starting | Place::Kernel(_) => {
                let errand = Errand::Kill(task.clone().unbind());
                slf.borrow_mut().send_out(slf.py(), errand);
            }
        }
    }

    /// Handles a call of `exit` for a task. A task that is in the kernel is killed.
    fn retire(slf: &Bound<'_, Self>, task: &Bound<'_, PyosTask>) {
        let place = task.borrow().place;
        match place {
            Place::Starting | Place::Kernel(_) => {
                task.borrow_mut().has_exited = true;
                PyosKernel::kill(slf, task);
            }
            Place::Outside | Place::Over => slf.borrow_mut().forget(task),
        }
    }

    /// Makes a task check what it waits for, which has changed.
    fn nudge(&self, task: &Bound<'_, PyosTask>) {
        if let Place::Kernel(at) = task.borrow().place {
            self.wake(at);
        }
    }

    /// Returns the number of ready tasks.
    fn count_ready(&self) -> usize {
        self.ready
    }

    /// Takes the task that has been ready longest. It doesn't run until it is scheduled again.
    fn take_first(&mut self, py: Python<'_>) -> Option<Py<PyosTask>> {
        let since = |task: &&Py<PyosTask>| task.bind(py).borrow().ready_since;
        let ready = self.live.values().filter(|task| since(task).is_some());
        let first = ready.min_by_key(since)?.clone_ref(py);
        self.take_ready(first.bind(py));
        Some(first)
    }

    /// Whether the main loop runs.
    #[getter]
    fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Runs the tasks of a scheduler until all have finished.
    fn mainloop(slf: &Bound<'_, Self>, scheduler: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if slf.borrow().running.is_some() || binding::in_task() {
            let message = "the main loop was started inside a task, or twice";
            return Err(TiffanyError::NestedRuntime.err(py, message));
        }
        while !slf.borrow().live.is_empty() {
            run(slf, scheduler)?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.live.values().try_for_each(|task| visit.call(task))?;
        self.errands.iter().try_for_each(|errand| match errand {
            Errand::Spawn(task) | Errand::Kill(task) => visit.call(task),
        })
    }

    fn __clear__(&mut self) {
        self.live.clear();
        self.errands.clear();
    }
}

impl PyosKernel {
    /// Marks a task as ready.
    pub(crate) fn mark_ready(&mut self, task: &Bound<'_, PyosTask>) {
        let mut task = task.borrow_mut();
        if task.ready_since.is_none() {
            self.scheduled += 1;
            self.ready += 1;
            task.ready_since = Some(self.scheduled);
        }
    }

    /// Marks a task as not ready. Returns `false` if it was not ready before.
    pub(crate) fn take_ready(&mut self, task: &Bound<'_, PyosTask>) -> bool {
        let was_ready = task.borrow_mut().ready_since.take().is_some();
        self.ready -= usize::from(was_ready);
        was_ready
    }

    /// Begins a turn of a task of this scheduler.
    pub(crate) fn begin_turn(&mut self) {
        self.in_turn = true;
    }

    /// Ends a turn of a task of this scheduler. Returns the errands that the task has to carry out.
    pub(crate) fn end_turn(&mut self) -> Vec<Errand> {
        self.in_turn = false;
        std::mem::take(&mut self.errands)
    }

    /// Takes the errands so far.
    pub(crate) fn take_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    /// Removes a finished task.
    pub(crate) fn forget(&mut self, task: &Bound<'_, PyosTask>) {
        self.take_ready(task);
        self.live.remove(&address(task));
        task.borrow_mut().place = Place::Over;
    }

    /// Notes that the failure of a task was printed.
    pub(crate) fn was_shown(&mut self, tid: Tid) {
        self.shown.insert(tid);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Returns a name for a task in the kernel, if its number there differs from its number in
    /// pyos.
    pub(crate) fn name_for(&mut self, task: &Bound<'_, PyosTask>) -> Option<String> {
        self.spawned += 1;
        let tid = task.borrow().tid;
        (tid != self.spawned).then(|| format!("pyos task {tid}"))
    }

    /// Assigns an errand to the task that has its turn, or else to any task.
    fn send_out(&mut self, py: Python<'_>, errand: Errand) {
        self.errands.push(errand);
        if self.in_turn {
            return;
        }
        let mut places = self.live.values().map(|task| task.bind(py).borrow().place);
        if let Some(Place::Kernel(at)) = places.find(|place| matches!(place, Place::Kernel(_))) {
            self.wake(at);
        }
    }

    fn wake(&self, at: TaskRef) {
        let current = binding::current_task();
        if current == Some(at) {
            return;
        }
        let wake = Release::Wake(at);
        if current.is_some_and(|task| task.run == at.run) {
            binding::release(wake);
        } else if let Some(handle) = &self.running {
            handle.release(wake);
        }
    }

    /// Begins a run, in which all tasks will be spawned. Returns its root.
    fn begin(&mut self, py: Python<'_>) -> Option<Py<PyosTask>> {
        let mut tasks: Vec<_> = self.live.values().map(|task| task.clone_ref(py)).collect();
        tasks.sort_by_key(|task| {
            let task = task.bind(py).borrow();
            (task.ready_since.is_none(), task.ready_since, task.tid)
        });
        for task in &tasks {
            task.bind(py).borrow_mut().place = Place::Starting;
        }
        self.spawned = 0;
        self.shown.clear();
        let mut tasks = tasks.into_iter();
        let root = tasks.next()?;
        self.errands.extend(tasks.map(Errand::Spawn));
        Some(root)
    }

    /// Ends a run. Unfinished tasks become as they were before the run. Returns the errands that
    /// were not carried out.
    fn end(&mut self, py: Python<'_>) -> Vec<Errand> {
        self.running = None;
        self.in_turn = false;
        for task in self.live.values() {
            task.bind(py).borrow_mut().place = Place::Outside;
        }
        std::mem::take(&mut self.errands)
    }
}

/// Runs all tasks until they have finished.
fn run(kernel: &Bound<'_, PyosKernel>, scheduler: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = kernel.py();
    let Some(root) = kernel.borrow_mut().begin(py) else { return Ok(()) };
    let mut builder = Runtime::builder()
        .around_wait(Rc::new(settings::wait))
        .blocking_threads(THREADS)
        .end(End::AllTasks)
        .rules(Rules::First)
        .on_unobserved(show_unobserved(kernel));
    if let Some(name) = kernel.borrow_mut().name_for(root.bind(py)) {
        builder = builder.name(&name);
    }
    let mut runtime = builder.build().map_err(|error| {
        let undone = kernel.borrow_mut().end(py);
        drop(undone);
        errors::run_error(py, &error)
    })?;
    let registered = Registered::new(runtime.handle());
    let _looping = session::Looping::new();
    kernel.borrow_mut().running = Some(runtime.handle());
    let root = Driven::coroutine(root.bind(py), scheduler, kernel);
    let run = binding::start(&mut runtime, root);
    signals::wake(&runtime)?;
    let watch = Watch::new(py, Second::Raises)?;
    let ended = binding::drive(&mut runtime, &run, session::is_interrupted);
    drop(watch);
    let interrupt = session::take_interrupt();
    kernel.borrow_mut().is_leaving = true;
    interpreter::without(py, || drop((runtime, registered)));
    let (undone, is_shown) = {
        let mut left = kernel.borrow_mut();
        left.is_leaving = false;
        (left.end(py), left.shown.contains(&ROOT))
    };
    drop(undone);
    match (interrupt, ended) {
        (Some(interrupt), _) => Err(interrupt),
        (None, Some(Ok(_) | Err(RunError::Cancelled(_)))) => Ok(()),
        (None, Some(Err(RunError::Failed(_)))) if is_shown => Ok(()),
        (None, Some(Err(error))) => Err(errors::run_error(py, &error)),
        (None, None) => Err(TiffanyError::Gone.err(py, "the main loop was left")),
    }
}

/// Prints failures of the run's other tasks at its end; pyos tasks are printed when they fail.
fn show_unobserved(kernel: &Bound<'_, PyosKernel>) -> impl Fn(&TaskError) + 'static {
    let kernel = kernel.clone().unbind();
    move |error| {
        Python::attach(|py| {
            let mut tids = error.task().into_iter().chain(error.through()).map(|task| task.tid);
            let last = tids.next_back();
            if !last.is_some_and(|tid| kernel.bind(py).borrow().shown.contains(&tid)) {
                errors::show_unobserved(py, error);
            }
        });
    }
}

fn address(task: &Bound<'_, PyosTask>) -> usize {
    task.as_ptr() as usize
}
