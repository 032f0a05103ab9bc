//! `Step`: a function whose calls are steps. Calling it returns a call for the scheduler, which has
//! the arguments that are recorded. The decorator is in `python/tiffany/durable/_steps.py`.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::{PyDict, PyString, PyTuple};
use tiffany::binding;
use tiffany::durable::Retry;
use tiffany::{Reply, Site, SystemCall as KernelCall, TryCall};

use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::pending::Pending;
use crate::durable::elsewhere::{self, AsyncAttempt};
use crate::durable::seconds;
use crate::durable::work::{Given, Work, is_constant};
use crate::process::interpreter;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{argument, errors, json, names};

/// A function whose calls are steps of durable runs. `@step` creates it.
#[pyclass(frozen, dict, generic, name = "Step", module = "tiffany")]
pub(crate) struct Step {
    function: Py<PyAny>,
    settings: Settings,
    /// The options of the decorator.
    options: Py<PyDict>,
    /// The positional parameters, and how many of them are required; `None` if there are others.
    positional: Option<(Vec<Py<PyString>>, usize)>,
    signature: Py<PyAny>,
}

/// The options of a step, as `python/tiffany/durable/_steps.py` passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings {
    #[pyo3(from_py_with = argument::name)]
    name: String,
    kind: String,
    is_async: bool,
    attempts: u64,
    /// The first wait in seconds, the factor, the longest wait in seconds, and the jitter.
    backoff: (f64, f64, f64, f64),
    timeout: Option<f64>,
    heartbeat: Option<f64>,
    #[pyo3(from_py_with = argument::queue)]
    queue: Option<String>,
    hold_in_doubt: bool,
    no_retry: Py<PyAny>,
    transact: Option<Py<PyAny>>,
    positional: Option<(Vec<Py<PyString>>, usize)>,
    signature: Py<PyAny>,
}

#[pymethods]
impl Step {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.options)?;
        visit.call(&self.signature)?;
        visit.call(&self.settings.no_retry)?;
        visit.call(&self.settings.transact)
    }

    #[new]
    fn new(
        function: Py<PyAny>,
        settings: &Bound<'_, PyAny>,
        options: Py<PyDict>,
    ) -> PyResult<Step> {
        let py = settings.py();
        let read = settings.extract::<Settings>();
        let mut settings = read.map_err(|error| argument::of_a_part(py, error))?;
        let positional = settings.positional.take();
        let signature = settings.signature.clone_ref(py);
        Ok(Step { function, settings, options, positional, signature })
    }

    /// Returns the call of this step with these arguments: yield it, or await it.
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        slf: Bound<'_, Self>,
        args: Bound<'_, PyTuple>,
        kwargs: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Py<StepCall>> {
        let py = slf.py();
        let arguments = slf.get().named(&args, kwargs.as_ref())?.unbind();
        let by_position = slf.get().is_by_position(&args, kwargs.as_ref());
        let args = by_position.then(|| args.unbind());
        let stepping = stepping(&slf);
        Py::new(py, stepping.add_subclass(StepCall { step: slf.unbind(), arguments, args }))
    }

    /// Binds the step to an object, as a method.
    fn __get__<'py>(
        slf: Bound<'py, Self>,
        object: Option<Bound<'py, PyAny>>,
        _class: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match object {
            Some(object) => slf.py().import("types")?.getattr("MethodType")?.call1((slf, object)),
            None => Ok(slf.into_any()),
        }
    }

    /// Returns this step with other options, for one or more calls:
    /// `pay.with_options(retries=5)(order)`.
    #[pyo3(signature = (**options))]
    fn with_options<'py>(
        slf: Bound<'py, Self>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let all = slf.get().options.bind(py).copy()?;
        if let Some(options) = options {
            all.update(options.as_mapping())?;
        }
        let decorate =
            py.import("tiffany.durable._steps")?.getattr("step")?.call((), Some(&all))?;
        decorate.call1((slf.get().function.bind(py),))
    }

    /// The options given to the decorator.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.options.bind(py).copy()
    }

    /// The name of the step in the log.
    #[getter]
    fn name(&self) -> &str {
        &self.settings.name
    }

    /// The function itself.
    #[getter]
    fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        format!("Step({})", self.settings.name)
    }
}

impl Step {
    fn is_by_position(
        &self,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> bool {
        let fits =
            |(names, required): &(Vec<_>, usize)| (*required..=names.len()).contains(&args.len());
        kwargs.is_none_or(|kwargs| kwargs.is_empty()) && self.positional.as_ref().is_some_and(fits)
    }

    /// Binds arguments to the names of the parameters. Wrong arguments are an error at the call.
    fn named<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = args.py();
        if self.is_by_position(args, kwargs)
            && let Some((names, _)) = &self.positional
        {
            let named = PyDict::new(py);
            for (name, value) in names.iter().zip(args) {
                named.set_item(name, value)?;
            }
            return Ok(named);
        }
        let signature = self.signature.bind(py);
        let bound = signature.getattr("bind")?.call(args.clone(), kwargs).map_err(|error| {
            let text = error.value(py).str().map_or_else(|_| "?".into(), |text| text.to_string());
            let message = format!("{}(): {text}", self.settings.name);
            match error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) {
                true => TiffanyError::BadArgument.err(py, message),
                false => error,
            }
        })?;
        Ok(bound.getattr("arguments")?.cast_into::<PyDict>()?)
    }

    fn work(&self, py: Python<'_>, given: Given) -> Work {
        Work {
            name: names::name(&self.settings.name),
            function: self.function.clone_ref(py),
            given,
            no_retry: self.settings.no_retry.clone_ref(py),
            transact: self.settings.transact.as_ref().map(|transact| transact.clone_ref(py)),
        }
    }

    /// Creates the runtime's step.
    fn step(&self, work: Work) -> tiffany::durable::Step<()> {
        let settings = &self.settings;
        let (name, work) = (work.name, Arc::new(work));
        let mut step = match settings.is_async {
            // There is no other thread: the loop's own thread runs the coroutine to its end.
            true if binding::is_simulated() => binding::step(name, move |attempt| {
                let done = interpreter::inside(|py| work.attempt_here(py, attempt));
                done.unwrap_or_else(|| Err("the interpreter is ending".into()))
            }),
            true => binding::step_elsewhere(name, &elsewhere::spawner(), move |attempt| {
                AsyncAttempt::new(Arc::clone(&work), attempt)
            }),
            false => binding::step(name, move |attempt| {
                let done = interpreter::inside(|py| work.attempt(py, attempt));
                done.unwrap_or_else(|| Err("the interpreter is ending".into()))
            }),
        };
        step = match settings.kind.as_str() {
            "at_most_once" => step.at_most_once(),
            "pure" => step.pure(),
            "transactional" => binding::transactional(step),
            _ => step,
        };
        if settings.attempts > 1 {
            let (first, factor, max, jitter) = settings.backoff;
            let retry = Retry::times(settings.attempts).first(seconds(first)).factor(factor);
            step = step.retry(retry.max(seconds(max)).jitter(jitter));
        }
        if let Some(timeout) = settings.timeout {
            step = step.timeout(seconds(timeout));
        }
        if let Some(heartbeat) = settings.heartbeat {
            step = step.heartbeat(seconds(heartbeat));
        }
        if let Some(queue) = &settings.queue {
            step = step.queue(queue);
        }
        if settings.hold_in_doubt { step.hold_in_doubt() } else { step }
    }
}

/// The call of a step.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct StepCall {
    /// The step that is called.
    #[pyo3(get)]
    step: Py<Step>,
    /// The arguments, by the names of the parameters.
    #[pyo3(get)]
    arguments: Py<PyDict>,
    args: Option<Py<PyTuple>>,
}

#[pymethods]
impl StepCall {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.step)?;
        visit.call(&self.arguments)?;
        visit.call(&self.args)
    }

    /// Returns this call with other options.
    #[pyo3(signature = (**options))]
    fn with_options(
        slf: PyRef<'_, Self>,
        py: Python<'_>,
        options: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Py<StepCall>> {
        // The new call replaces this one.
        slf.as_super().made();
        let step = Step::with_options(slf.step.bind(py).clone(), options)?.cast_into::<Step>()?;
        let stepping = stepping(&step);
        let args = slf.args.as_ref().map(|args| args.clone_ref(py));
        let arguments = slf.arguments.clone_ref(py);
        Py::new(py, stepping.add_subclass(StepCall { step: step.unbind(), arguments, args }))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = &self.step.get().settings.name;
        Ok(format!("{name}(**{})", self.arguments.bind(py).repr()?))
    }
}

impl StepCall {
    /// Returns the arguments for the attempts.
    fn given(&self, py: Python<'_>, json: &str) -> Given {
        let is_constant = |args: &Py<PyTuple>| args.bind(py).iter().all(|arg| is_constant(&arg));
        match &self.args {
            Some(args) if is_constant(args) => Given::Same(args.clone_ref(py)),
            Some(_) => Given::Copied { json: json.into(), signature: None },
            None => {
                let signature = self.step.get().signature.clone_ref(py);
                Given::Copied { json: json.into(), signature: Some(signature) }
            }
        }
    }
}

/// Begins the step.
struct Stepping(Py<Step>);

fn stepping(step: &Bound<'_, Step>) -> PyClassInitializer<SystemCall> {
    let stepping = Stepping(step.clone().unbind());
    PyClassInitializer::from(SystemCall::of(Op::Other(Box::new(stepping))))
}

impl Perform for Stepping {
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    fn name(&self, _py: Python<'_>) -> String {
        self.0.get().settings.name.clone()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let site = at().and_then(|line| line.site(call.py()));
        Ok(Pending::Call(made(call, site)?, call.clone().unbind()))
    }

    fn request(&self, call: &Bound<'_, SystemCall>) -> PyResult<Option<KernelCall>> {
        let request = binding::request(made(call, None)?);
        request.map(Some).map_err(|error| errors::to_python(call.py(), &error))
    }
}

/// Creates the pending call of a step at this line.
fn made(call: &Bound<'_, SystemCall>, at: Option<Site>) -> PyResult<TryCall<Reply>> {
    let py = call.py();
    let made = call.cast::<StepCall>()?.get();
    let step = made.step.get();
    let subject = || format!("the arguments of step `{}`", step.settings.name);
    let input = json::encode(made.arguments.bind(py).as_any(), subject)?;
    let work = step.work(py, made.given(py, &input));
    let step = binding::with_origin(step.step(work), Arc::new(call.clone().unbind()));
    Ok(binding::make_step(step, input, at))
}
