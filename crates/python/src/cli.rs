//! The command line inside Python. Rust parses the arguments; `tiffany._cli.command` handles Python
//! files.

use std::ffi::OsString;
use std::process::Command;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tiffany::Builder;
use tiffany_cli::{CommandLine, Guest, GuestError, ProgramFile, TestFile, TestOf};

use crate::process::signals::{Second, Watch};
use crate::runtime::settings::Settings;
use crate::tasks::asyncgens::Hooks;
use crate::values::errors;

/// Runs the command given by the arguments, the first of which is the name of the program, and
/// returns the exit code. The host handles Python files.
#[pyfunction]
fn _command_line(arguments: Vec<OsString>, host: &Bound<'_, PyAny>) -> PyResult<u8> {
    let _hooks = Hooks::new(host.py())?;
    let host = Host(host);
    let line = CommandLine::new(Builder::new()).guest(&host);
    Ok(line.run(&arguments))
}

struct Host<'a, 'py>(&'a Bound<'py, PyAny>);

impl Guest for Host<'_, '_> {
    fn run(&self, program: &ProgramFile) -> Result<u8, GuestError> {
        let py = self.0.py();
        let run = || -> PyResult<u8> {
            let options = PyDict::new(py);
            options.set_item("program", &program.program)?;
            options.set_item("arguments", &program.arguments)?;
            options.set_item("wal", &program.wal)?;
            options.set_item("id", &program.id)?;
            let env = PyDict::new(py);
            for (key, value) in &program.env {
                env.set_item(key, value)?;
            }
            options.set_item("env", env)?;
            options.set_item("json", program.json)?;
            options.set_item("questions", program.questions.word())?;
            self.0.call_method("run", (), Some(&options))?.extract()
        };
        run().map_err(|error| told(py, &error))
    }

    fn app(&self, file: &OsString) -> Result<Builder, GuestError> {
        let py = self.0.py();
        let build = || -> PyResult<Builder> {
            let settings = self.0.call_method1("app", (file,))?;
            // Tasks run from here to the end of the process, and none of them receives Ctrl-C.
            std::mem::forget(Watch::new(py, Second::Exits)?);
            settings.extract::<Settings<'_>>()?.builder(py)
        };
        build().map_err(|error| told(py, &error))
    }

    fn test(&self, test: &TestOf) -> Result<TestFile, GuestError> {
        let py = self.0.py();
        let make = || -> PyResult<TestFile> {
            let options = PyDict::new(py);
            options.set_item("app", &test.app)?;
            options.set_item("out", &test.out)?;
            options.set_item("name", &test.name)?;
            options.set_item("fixture", &test.fixture)?;
            options.set_item("made_by", &test.made_by)?;
            let made = self.0.call_method("test", (), Some(&options))?;
            let (file, text, command) = made.extract()?;
            Ok(TestFile { file, text, command })
        };
        make().map_err(|error| told(py, &error))
    }

    fn again(&self) -> Command {
        let words = self.0.call_method0("again").and_then(|words| words.extract());
        let words: Vec<OsString> = words.unwrap_or_else(|_| vec!["tiffany".into()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

/// Converts an exception to an error of the command line.
fn told(py: Python<'_>, error: &PyErr) -> GuestError {
    let exception = error.value(py);
    let given = |name: &str| exception.getattr(name).ok();
    let code = given("code").and_then(|code| code.extract::<String>().ok());
    match code {
        Some(code) => GuestError {
            code,
            text: exception.to_string(),
            exit: given("exit_code").and_then(|exit| exit.extract().ok()),
        },
        None => GuestError { code: "TFY0001".into(), text: errors::text(exception), exit: None },
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_command_line, module)?)
}
