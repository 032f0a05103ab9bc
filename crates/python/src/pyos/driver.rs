//! A pyos task as a task of the kernel. Each turn resumes it once. The `handle` of a pyos call
//! changes the scheduler as the task requests; the rest becomes calls of the kernel: a turn, a
//! wait, tasks to spawn or to kill.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tiffany::binding::{self, Program, Release};
use tiffany::kernel::{BoxCoroutine, SpawnOptions};
use tiffany::{Reply, Site, SystemCall as KernelCall, TaskError, TryCall, Value};

use super::kernel::{Errand, PyosKernel};
use super::task::{self, Place, PyosTask, Turn, WaitsFor};
use crate::calls::call;
use crate::calls::call::{Op, SystemCall};
use crate::calls::pending::Pending;
use crate::calls::pyos_call::PyosCall;
use crate::process::session;
use crate::process::session::Process;
use crate::tasks::contextvars::TaskContext;
use crate::tasks::{program, spawn};
use crate::values::errors;
use crate::values::line::Line;

/// How often to check whether other threads still exist that could schedule a task.
const LOOK_AT_THREADS: Duration = Duration::from_millis(500);

/// A running pyos task.
pub(crate) struct Driven {
    task: Py<PyosTask>,
    scheduler: Py<PyAny>,
    kernel: Py<PyosKernel>,
    /// The pending yield of the task.
    yielding: Option<tiffany::Yield>,
    /// The other pending calls.
    calls: Vec<Outstanding>,
    /// The call of `tiffany` that the task made itself.
    native: Option<Pending>,
    /// The outcome of the task, once it has ended.
    end: Option<Result<Value, TaskError>>,
    is_over: bool,
    methods: Methods,
    context: TaskContext,
    /// The process that the task belongs to.
    process: Process,
}

/// The methods that are overridden; the others need not be called.
#[derive(Clone, Copy)]
struct Methods {
    runs_plainly: bool,
    schedules_plainly: bool,
}

struct Outstanding {
    why: Why,
    call: TryCall<Reply>,
}

/// The reason for a call.
enum Why {
    Spawn(Py<PyosTask>),
    Kill,
    /// To resume the task again.
    Turn,
    Read(i32),
    Write(i32),
    Exit(Py<PyosTask>),
    /// To check whether other threads still exist.
    Threads,
}

impl Driven {
    /// Returns the kernel's coroutine for a task.
    pub(crate) fn coroutine(
        task: &Bound<'_, PyosTask>,
        scheduler: &Bound<'_, PyAny>,
        kernel: &Bound<'_, PyosKernel>,
    ) -> BoxCoroutine {
        let program = task.borrow().target.clone_ref(task.py());
        let driven = Driven {
            task: task.clone().unbind(),
            scheduler: scheduler.clone().unbind(),
            kernel: kernel.clone().unbind(),
            yielding: None,
            calls: Vec::new(),
            native: None,
            end: None,
            is_over: false,
            methods: Methods::of(task, scheduler),
            context: TaskContext::copy(task.py()),
            process: Process::current(),
        };
        binding::coroutine(driven, move || {
            Python::attach(|py| Line::of_program(program.bind(py))?.site(py))
        })
    }
}

impl Methods {
    fn of(task: &Bound<'_, PyosTask>, scheduler: &Bound<'_, PyAny>) -> Methods {
        let py = task.py();
        let is_same = |object: &Bound<'_, PyType>, class: &Bound<'_, PyType>, name: &str| {
            let (own, plain) = (object.getattr(name), class.getattr(name));
            matches!((own, plain), (Ok(own), Ok(plain)) if own.is(&plain))
        };
        Methods {
            runs_plainly: is_same(&task.get_type(), &py.get_type::<PyosTask>(), "run"),
            schedules_plainly: plain_scheduler(py)
                .is_ok_and(|plain| is_same(&scheduler.get_type(), plain, "schedule")),
        }
    }
}

impl Future for Driven {
    type Output = Result<Value, TaskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Value, TaskError>> {
        let driven = self.get_mut();
        driven.process.end_if_forked();
        Python::attach(|py| {
            let _inside = driven.context.enter(py);
            driven.kernel.bind(py).borrow_mut().begin_turn();
            let polled = driven.advance(py, cx);
            let errands = driven.kernel.bind(py).borrow_mut().end_turn();
            if errands.is_empty() {
                return polled;
            }
            // The task's errands are carried out before it ends.
            if let Poll::Ready(end) = polled {
                driven.end = Some(end);
            }
            let asked = driven.carry_out(py, cx, errands);
            match driven.end.take() {
                Some(end) if !asked => Poll::Ready(end),
                end => {
                    driven.end = end;
                    Poll::Pending
                }
            }
        })
    }
}

impl Driven {
    /// Takes the answers, and continues if the task is ready.
    fn advance(&mut self, py: Python<'_>, cx: &mut Context<'_>) -> Poll<Result<Value, TaskError>> {
        let task = self.task.clone_ref(py).into_bound(py);
        if let Some(call) = &mut self.yielding
            && Pin::new(call).poll(cx).is_ready()
        {
            self.yielding = None;
        }
        if !self.calls.is_empty() {
            self.take_answers(py, cx);
        }
        if let Some(end) = self.end.take() {
            if self.calls.is_empty() {
                return Poll::Ready(end);
            }
            self.end = Some(end);
            return Poll::Pending;
        }
        let place = task.borrow().place;
        if !matches!(place, Place::Kernel(_)) {
            self.settle_in(&task, cx);
        }
        self.poll_native(&task, cx);
        if self.yielding.is_some() || self.native.is_some() {
            return Poll::Pending;
        }
        loop {
            if !self.kernel.bind(py).borrow_mut().take_ready(&task) {
                self.park(&task, cx);
                return Poll::Pending;
            }
            self.stop_waiting(&task);
            let turn = self.turn(&task);
            self.process.end_if_forked();
            let flow = match turn {
                Turn::Yielded => self.reschedule(&task),
                Turn::Call(call) => self.handle(&task, call.bind(py)),
                Turn::Native(call) => self.begin_native(&task, call.bind(py), cx),
                Turn::Returned => return Poll::Ready(self.finish(&task, None)),
                Turn::Raised(error) => return Poll::Ready(self.finish(&task, Some(error))),
            };
            match flow {
                Flow::GoOn => self.kernel.bind(py).borrow_mut().mark_ready(&task),
                Flow::Ask(call) => {
                    self.ask(&task, call, cx);
                    return Poll::Pending;
                }
                Flow::Wait => return Poll::Pending,
            }
        }
    }

    /// Prepares the task for its first turn in the kernel.
    fn settle_in(&mut self, task: &Bound<'_, PyosTask>, cx: &mut Context<'_>) {
        let py = task.py();
        let Some(at) = binding::current_task() else { return };
        let (is_killed, unanswered) = {
            let mut this = task.borrow_mut();
            this.place = Place::Kernel(at);
            (std::mem::take(&mut this.is_killed), this.unanswered.take())
        };
        if is_killed {
            self.kernel.bind(py).borrow_mut().take_ready(task);
            self.begin(py, Why::Kill, KernelCall::KillTask(at.tid), cx);
        } else if let Some(call) = unanswered
            && !matches!(self.begin_native(task, call.bind(py), cx), Flow::Wait)
        {
            self.kernel.bind(py).borrow_mut().mark_ready(task);
        }
    }

    /// Resumes the task.
    fn turn(&mut self, task: &Bound<'_, PyosTask>) -> Turn {
        if self.methods.runs_plainly || task.borrow().throwing.is_some() {
            return task::resume(task);
        }
        match task.call_method0("run") {
            Ok(object) if object.is_instance_of::<PyosCall>() => Turn::Call(object.unbind()),
            Ok(object) => match object.cast_into::<SystemCall>() {
                Ok(call) => Turn::Native(call.unbind()),
                Err(_) => Turn::Yielded,
            },
            Err(error) if error.is_instance_of::<PyStopIteration>(task.py()) => Turn::Returned,
            Err(error) => Turn::Raised(error),
        }
    }

    /// Handles a task that gives up its turn.
    fn reschedule(&mut self, task: &Bound<'_, PyosTask>) -> Flow {
        let py = task.py();
        if self.methods.schedules_plainly {
            self.kernel.bind(py).borrow_mut().mark_ready(task);
            return Flow::Ask(None);
        }
        match self.scheduler.bind(py).call_method1("schedule", (task,)) {
            Ok(_) => Flow::Ask(None),
            Err(error) => self.fail(task, error),
        }
    }

    /// Handles a pyos call of the task by calling its `handle`.
    fn handle(&mut self, task: &Bound<'_, PyosTask>, call: &Bound<'_, PyAny>) -> Flow {
        let py = task.py();
        let handled = call
            .setattr(intern!(py, "task"), task)
            .and_then(|()| call.setattr(intern!(py, "sched"), &self.scheduler))
            .and_then(|()| call.call_method0(intern!(py, "handle")));
        if let Err(error) = handled {
            return self.fail(task, error);
        }
        let is_get_tid = get_tid(py).is_ok_and(|class| call.is_instance(class).unwrap_or(false));
        Flow::Ask(is_get_tid.then_some(KernelCall::GetTid))
    }

    /// Raises an exception at the task's yield, in its next turn.
    #[cold]
    fn fail(&self, task: &Bound<'_, PyosTask>, error: PyErr) -> Flow {
        task.borrow_mut().throwing = Some(error);
        self.kernel.bind(task.py()).borrow_mut().mark_ready(task);
        Flow::Ask(None)
    }

    /// Makes the kernel calls that are due before the task continues: at least a turn, with the
    /// given call or by giving up the current one.
    fn ask(&mut self, task: &Bound<'_, PyosTask>, call: Option<KernelCall>, cx: &mut Context<'_>) {
        let py = task.py();
        let errands = self.kernel.bind(py).borrow_mut().take_errands();
        let asked = !errands.is_empty() && self.carry_out(py, cx, errands);
        let is_ready = task.borrow().ready_since.is_some();
        match call {
            _ if !is_ready => self.park(task, cx),
            Some(call) => self.begin(py, Why::Turn, call, cx),
            None if asked => {}
            None => {
                let call = self.yielding.insert(tiffany::yield_now());
                let _ = Pin::new(call).poll(cx);
            }
        }
    }

    /// Begins a call of `tiffany`, which the kernel answers later.
    fn begin_native(
        &mut self,
        task: &Bound<'_, PyosTask>,
        call: &Bound<'_, SystemCall>,
        cx: &mut Context<'_>,
    ) -> Flow {
        let py = task.py();
        let target = task.borrow().target.clone_ref(py);
        call.get().made();
        let started = match &call.get().op {
            Op::Call(program) => match program.bind(py).cast::<program::Program>() {
                Ok(rust) => spawn::inner(py, rust),
                Err(_) => match PyosTask::push(task, program.clone_ref(py)) {
                    Ok(()) => return Flow::GoOn,
                    Err(error) => Err(error),
                },
            },
            _ => call::start(call, || Line::of(target.bind(py))),
        };
        let mut pending = match started {
            Ok(pending) => pending,
            Err(error) => return self.fail(task, error),
        };
        match pending.poll(py, cx) {
            Poll::Pending => {
                PyosTask::keep_call(task, Some(call.clone().unbind()));
                self.native = Some(pending);
                Flow::Wait
            }
            Poll::Ready(Ok(value)) => {
                PyosTask::send(task, value);
                Flow::GoOn
            }
            Poll::Ready(Err(error)) => self.fail(task, error),
        }
    }

    /// Takes the answer to a call of `tiffany`. A task that was scheduled meanwhile no longer waits
    /// for it.
    fn poll_native(&mut self, task: &Bound<'_, PyosTask>, cx: &mut Context<'_>) {
        let Some(pending) = &mut self.native else { return };
        let py = task.py();
        let is_ready = task.borrow().ready_since.is_some();
        if !is_ready {
            match pending.poll(py, cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(value)) => PyosTask::send(task, value),
                Poll::Ready(Err(error)) => task.borrow_mut().throwing = Some(error),
            }
            self.kernel.bind(py).borrow_mut().mark_ready(task);
        }
        self.native = None;
        PyosTask::keep_call(task, None);
    }

    /// Takes the answers to the other calls.
    fn take_answers(&mut self, py: Python<'_>, cx: &mut Context<'_>) {
        let mut at = 0;
        while let Some(outstanding) = self.calls.get_mut(at) {
            match Pin::new(&mut outstanding.call).poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    let why = self.calls.remove(at).why;
                    self.answered(py, why, answer);
                }
            }
        }
    }

    fn answered(&mut self, py: Python<'_>, why: Why, answer: Result<Reply, TaskError>) {
        let answer = match answer {
            Ok(Reply::Error(error)) => Err(error),
            answer => answer,
        };
        let task = self.task.clone_ref(py).into_bound(py);
        match (why, answer) {
            (Why::Spawn(child), Ok(Reply::Task(at))) => {
                let mut child = child.bind(py).borrow_mut();
                if child.place == Place::Starting {
                    child.place = Place::Kernel(at);
                }
                session::release(Release::Task(at));
            }
            (Why::Spawn(child), Err(error)) => {
                self.show(child.bind(py), &errors::to_python(py, &error));
            }
            (Why::Read(fd), Ok(_)) => self.is_io_ready(&task, "read", fd),
            (Why::Write(fd), Ok(_)) => self.is_io_ready(&task, "write", fd),
            (Why::Read(_) | Why::Write(_) | Why::Exit(_), Err(error)) => {
                self.fail(&task, errors::to_python(py, &error));
            }
            _ => {}
        }
    }

    /// Handles a ready descriptor, if the scheduler's table says that this task still waits for it.
    fn is_io_ready(&mut self, task: &Bound<'_, PyosTask>, what: &str, fd: i32) {
        let py = task.py();
        let told = self.scheduler.bind(py).call_method1("_io_ready", (task, what, fd));
        if let Err(error) = told {
            self.fail(task, error);
        }
    }

    /// Makes and withdraws waits so that they match what the task is registered for.
    fn park(&mut self, task: &Bound<'_, PyosTask>, cx: &mut Context<'_>) {
        let py = task.py();
        let wanted: Vec<(Why, Option<KernelCall>)> = {
            let this = task.borrow();
            self.calls.retain(|call| match &call.why {
                Why::Spawn(_) | Why::Kill | Why::Turn => true,
                Why::Threads => this.waits.is_empty(),
                why => this.waits.iter().any(|wait| why.is(wait)),
            });
            let is_new = |wait: &&WaitsFor| !self.calls.iter().any(|call| call.why.is(wait));
            this.waits.iter().filter(is_new).map(|wait| Why::of(py, wait)).collect()
        };
        for (why, call) in wanted {
            if let Some(call) = call {
                self.begin(py, why, call, cx);
            }
        }
        if self.calls.is_empty() && other_threads(py) {
            self.begin(py, Why::Threads, KernelCall::Sleep(LOOK_AT_THREADS), cx);
        }
    }

    /// Continues the task, which no longer waits for anything.
    fn stop_waiting(&mut self, task: &Bound<'_, PyosTask>) {
        let py = task.py();
        self.calls.retain(|call| matches!(call.why, Why::Spawn(_) | Why::Kill));
        let waits = std::mem::take(&mut task.borrow_mut().waits);
        for wait in waits {
            let (table, key) = match wait {
                WaitsFor::Read(fd) => ("read", i64::from(fd)),
                WaitsFor::Write(fd) => ("write", i64::from(fd)),
                WaitsFor::Exit(other) => {
                    let other = other.bind(py).borrow();
                    if other.place == Place::Over {
                        continue;
                    }
                    ("exit", other.tid as i64)
                }
            };
            let scheduler = self.scheduler.bind(py);
            if let Err(error) = scheduler.call_method1("_stop_waiting", (task, table, key)) {
                error.write_unraisable(py, Some(scheduler));
            }
        }
    }

    /// Makes the kernel calls of the scheduler's errands. Returns `false` if there were none.
    fn carry_out(&mut self, py: Python<'_>, cx: &mut Context<'_>, errands: Vec<Errand>) -> bool {
        let mut asked = false;
        for errand in errands {
            let (why, call) = match errand {
                Errand::Spawn(child) => {
                    let (scheduler, kernel) = (self.scheduler.bind(py), self.kernel.bind(py));
                    let name = kernel.borrow_mut().name_for(child.bind(py));
                    let options = name.map(|name| {
                        Box::new(SpawnOptions { name: Some(name.into()), ..Default::default() })
                    });
                    let coroutine = Driven::coroutine(child.bind(py), scheduler, kernel);
                    (Why::Spawn(child), KernelCall::Spawn(coroutine, options))
                }
                Errand::Kill(victim) => {
                    let victim = victim.bind(py);
                    let place = victim.borrow().place;
                    match place {
                        Place::Kernel(at) => {
                            if victim.is(&self.task) {
                                // The task doesn't continue.
                                self.kernel.bind(py).borrow_mut().take_ready(victim);
                            }
                            (Why::Kill, KernelCall::KillTask(at.tid))
                        }
                        Place::Starting => {
                            victim.borrow_mut().is_killed = true;
                            continue;
                        }
                        Place::Outside | Place::Over => continue,
                    }
                }
            };
            self.begin(py, why, call, cx);
            asked = true;
        }
        asked
    }

    /// Makes a call.
    fn begin(&mut self, py: Python<'_>, why: Why, call: KernelCall, cx: &mut Context<'_>) {
        let mut call = binding::call(call);
        match Pin::new(&mut call).poll(cx) {
            Poll::Pending => self.calls.push(Outstanding { why, call }),
            Poll::Ready(answer) => self.answered(py, why, answer),
        }
    }

    /// Ends the task.
    fn finish(
        &mut self,
        task: &Bound<'_, PyosTask>,
        error: Option<PyErr>,
    ) -> Result<Value, TaskError> {
        let py = task.py();
        self.is_over = true;
        self.native = None;
        self.stop_waiting(task);
        let place = task.borrow().place;
        self.kernel.bind(py).borrow_mut().forget(task);
        let error = error.map(|error| errors::explained(py, error));
        let result = match &error {
            None => Ok(Value::Unit),
            Some(error) => {
                if errors::ends_the_run(py, error) {
                    session::interrupt(error.clone_ref(py));
                } else {
                    self.show(task, error);
                }
                if let Place::Kernel(at) = place {
                    self.kernel.bind(py).borrow_mut().was_shown(at.tid);
                }
                Err(errors::from_python(py, error))
            }
        };
        let has_exited = task.borrow().has_exited;
        let scheduler = self.scheduler.bind(py);
        if !has_exited && let Err(error) = scheduler.call_method1("exit", (task,)) {
            error.write_unraisable(py, Some(scheduler));
        }
        result
    }

    /// Prints the failure of a task.
    #[cold]
    fn show(&self, task: &Bound<'_, PyosTask>, error: &PyErr) {
        let py = task.py();
        let scheduler = self.scheduler.bind(py);
        if let Err(error) = scheduler.call_method1("_failed", (task, error.value(py))) {
            error.write_unraisable(py, Some(scheduler));
        }
    }
}

/// The continuation after a turn.
enum Flow {
    /// The task continues at once.
    GoOn,
    /// The task continues with its next turn in the kernel, with this call if there is one.
    Ask(Option<KernelCall>),
    /// The task waits for the answer to a call of `tiffany`.
    Wait,
}

impl Why {
    /// Returns the reason and the kernel call for a wait of a task. There is no call for a task
    /// that the kernel does not know yet.
    fn of(py: Python<'_>, wait: &WaitsFor) -> (Why, Option<KernelCall>) {
        match wait {
            WaitsFor::Read(fd) => (Why::Read(*fd), Some(KernelCall::ReadWait(*fd))),
            WaitsFor::Write(fd) => (Why::Write(*fd), Some(KernelCall::WriteWait(*fd))),
            WaitsFor::Exit(other) => {
                let call = match other.bind(py).borrow().place {
                    Place::Kernel(at) => Some(KernelCall::WaitTask(at.tid)),
                    _ => None,
                };
                (Why::Exit(other.clone_ref(py)), call)
            }
        }
    }

    fn is(&self, wait: &WaitsFor) -> bool {
        match (self, wait) {
            (Why::Read(one), WaitsFor::Read(other)) => one == other,
            (Why::Write(one), WaitsFor::Write(other)) => one == other,
            (Why::Exit(one), WaitsFor::Exit(other)) => one.is(other),
            _ => false,
        }
    }
}

impl Program for Driven {
    fn cancel(self: Pin<&mut Self>) {
        let driven = self.get_mut();
        driven.yielding = None;
        driven.native = None;
        driven.calls.clear();
        Python::attach(|py| {
            let task = driven.task.bind(py);
            PyosTask::keep_call(task, None);
            PyosTask::begin_unwinding(task);
            driven.kernel.bind(py).borrow_mut().mark_ready(task);
        });
    }

    fn line(&self) -> Option<Site> {
        Python::attach(|py| {
            let target = self.task.bind(py).borrow().target.clone_ref(py);
            Line::of(target.bind(py))?.site(py)
        })
    }

    fn waits_for(&self) -> Option<Cow<'static, str>> {
        (self.calls.is_empty() && self.native.is_none()).then(|| "other code to schedule it".into())
    }
}

impl Drop for Driven {
    /// Handles an unfinished task that was killed before its first turn, or whose cleanup takes too
    /// long. While the main loop is being left, the task stays as it is.
    fn drop(&mut self) {
        if self.is_over || !self.process.is_current() {
            return;
        }
        Python::attach(|py| {
            let _inside = self.context.enter(py);
            if self.kernel.bind(py).borrow().is_leaving() {
                return;
            }
            let task = self.task.clone_ref(py).into_bound(py);
            PyosTask::close(&task);
            let _ = self.finish(&task, None);
        });
    }
}

/// Whether another thread could schedule a task.
fn other_threads(py: Python<'_>) -> bool {
    let count = py.import("threading").and_then(|threading| threading.call_method0("active_count"));
    count.and_then(|count| count.extract::<usize>()).is_ok_and(|count| count > 1)
}

fn get_tid(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "tiffany.pyos", "GetTid")
}

fn plain_scheduler(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "tiffany.pyos", "Scheduler")
}
