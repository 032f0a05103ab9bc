//! Python as the language of durable runs. `python/tiffany/durable/_workflows.py` finds and
//! describes the functions.

use pyo3::prelude::*;
use tiffany::binding::{Interrupter, Language, Wanted, Way};
use tiffany::control::Function;
use tiffany::kernel::{BoxCoroutine, Frame};
use tiffany::{Site, TaskError, Time, Uuid, Value};

use crate::durable::{agent, interrupt};
use crate::tasks::driver;
use crate::tasks::driver::ResultForm;
use crate::values::line::Line;
use crate::values::{errors, frames};

/// Python, with the functions of one runtime.
pub(crate) struct PythonLanguage {
    /// An object of the Python class `Functions`.
    functions: Py<PyAny>,
}

impl PythonLanguage {
    pub(crate) fn new(functions: Py<PyAny>) -> PythonLanguage {
        PythonLanguage { functions }
    }

    /// Calls a method of `Functions`. An exception in it is printed, and the run stays as it is.
    fn ask<T>(&self, what: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        Python::attach(|py| {
            let asked = what(self.functions.bind(py));
            asked.map_err(|error| error.write_unraisable(py, None)).ok()
        })
    }
}

/// Creates the program of a function from its input.
fn root(
    functions: &Bound<'_, PyAny>,
    name: &str,
    input: &str,
    wanted: Wanted,
) -> PyResult<Option<BoxCoroutine>> {
    let given = (name, wanted == Wanted::Again);
    let function = functions.call_method1("find", given)?;
    if function.is_none() {
        return Ok(None);
    }
    let py = functions.py();
    let input = crate::values::json::decode(py, input)?;
    let given = (&function, input, wanted == Wanted::Asked);
    let program = functions.call_method1("program", given)?;
    if let Some(kind) = kind(&function)? {
        return Ok(Some(agent::coroutine(program, kind, None)));
    }
    let (line, result) = (Line::of_program(&program), ResultForm::Written(function.unbind()));
    Ok(Some(driver::coroutine(&program, result, line)))
}

/// Returns the name of a class in the log, if it is a state machine.
fn kind(function: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    function
        .py()
        .import("tiffany.durable._state_machines")?
        .call_method1("name_of", (function,))?
        .extract()
}

/// Recreates a state machine from its recorded state.
fn restored(
    functions: &Bound<'_, PyAny>,
    kind: &str,
    state: &str,
    until: Option<Time>,
) -> PyResult<Option<BoxCoroutine>> {
    let py = functions.py();
    let class = functions.call_method1("find", (kind, true))?;
    if self::kind(&class)?.is_none() {
        return Ok(None);
    }
    let fields = crate::values::json::decode(py, state)?;
    let object =
        py.import("tiffany.durable._state_machines")?.call_method1("restored", (class, fields))?;
    Ok(Some(agent::coroutine(object, kind.to_owned(), until)))
}

impl Language for PythonLanguage {
    fn start(
        &self,
        function: &str,
        input: &str,
        wanted: Wanted,
    ) -> Option<Result<BoxCoroutine, TaskError>> {
        let started = Python::attach(|py| {
            let root = root(self.functions.bind(py), function, input, wanted);
            root.map_err(|error| errors::coded_by_python(py, &error)).transpose()
        });
        interrupt::note();
        started
    }

    fn is_agent(&self, function: &str) -> bool {
        let is_agent = self.ask(|functions| {
            Ok(kind(&functions.call_method1("find", (function, true))?)?.is_some())
        });
        is_agent.unwrap_or(false)
    }

    fn restore(
        &self,
        kind: &str,
        state: &str,
        until: Option<Time>,
    ) -> Option<Result<BoxCoroutine, TaskError>> {
        Python::attach(|py| {
            let restored = restored(self.functions.bind(py), kind, state, until);
            restored.map_err(|error| errors::from_python(py, &error)).transpose()
        })
    }

    fn check(&self, value: &str) -> Result<(), TaskError> {
        Python::attach(|py| match crate::values::json::decode(py, value) {
            Ok(_) => Ok(()),
            Err(error) => Err(errors::coded_by_python(py, &error)),
        })
    }

    fn name(&self) -> &'static str {
        "python"
    }

    fn functions(&self) -> Vec<Function> {
        type Listed = (String, Option<String>, Option<String>, Option<String>);
        let listed = self.ask(|functions| functions.call_method0("listed")?.extract());
        let listed: Vec<Listed> = listed.unwrap_or_default();
        let function = |(name, takes, input, doc): Listed| {
            let mut function = Function::new(&name, "python");
            (function.takes, function.doc) = (takes, doc);
            function.input = input.and_then(|input| serde_json::from_str(&input).ok());
            function
        };
        listed.into_iter().map(function).collect()
    }

    fn has(&self, function: &str) -> bool {
        let found =
            self.ask(|functions| Ok(!functions.call_method1("find", (function, true))?.is_none()));
        found.unwrap_or(false)
    }

    fn note(&self) -> String {
        let note = self.ask(|functions| functions.call_method0("note")?.extract());
        note.unwrap_or_else(|| "null".into())
    }

    fn suspects(&self, note: &str) -> Option<String> {
        self.ask(|functions| functions.call_method1("suspects", (note,))?.extract()).flatten()
    }

    fn source(&self, at: &Site) -> Option<String> {
        let text = self.ask(|functions| {
            functions.call_method1("source", (&*at.file, at.line))?.extract::<String>()
        });
        text.filter(|text| !text.is_empty())
    }

    fn patched(&self, id: &str, way: Way) -> Vec<String> {
        match way {
            Way::New => vec![format!("if await patched({id:?}): ...")],
            Way::Old => vec![format!("if not await patched({id:?}): ...")],
            Way::Both => vec![
                format!("if await patched({id:?}):"),
                "    ...  # the new code".into(),
                "else:".into(),
                "    ...  # the old code".into(),
            ],
        }
    }

    fn shown(&self, value: &Value) -> Option<String> {
        Python::attach(|py| {
            value.borrow::<Py<PyAny>>().map(|object| frames::shown(object.bind(py)))
        })
    }

    fn frames(&self, error: &TaskError) -> Vec<Frame> {
        Python::attach(|py| errors::frames(py, error))
    }

    fn post_mortem(&self, error: &TaskError) -> bool {
        let opened = Python::attach(|py| {
            let traceback = errors::traceback(py, error)?;
            let opened = py
                .import("pdb")
                .and_then(|pdb| pdb.call_method1("post_mortem", (traceback,)).map(drop));
            Some(opened.map_err(|error| error.write_unraisable(py, None)).is_ok())
        });
        opened.unwrap_or(false)
    }

    fn source_then(&self, file: &str, line: u32, then: Time) -> Option<String> {
        let seconds = then.as_nanos() as f64 / 1e9;
        let text = self.ask(|functions| {
            functions.call_method1("source_then", (file, line, seconds))?.extract::<String>()
        });
        text.filter(|text| !text.is_empty())
    }

    fn interrupter(&self) -> Option<Interrupter> {
        self.ask(|functions| interrupt::interrupter(functions.py()))
    }

    fn step_interrupter(&self) -> Option<Interrupter> {
        Some(interrupt::step_interrupter())
    }

    fn paused(&self, run: Uuid, error: &TaskError) {
        self.ask(|functions| {
            let error = error.to_string();
            let error = tiffany::redact::clean(&error);
            functions.call_method1("paused", (run.to_string(), &*error)).map(drop)
        });
    }
}
