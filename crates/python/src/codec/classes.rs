//! Classes by name: `module:qualname`, found among what the program has imported. Nothing is ever imported by a name
//! out of a log.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use super::error::Fail;

/// The name that a class has in the log. It is an error if the class could not be found again by it.
pub(super) fn name_of(class: &Bound<'_, PyType>) -> Result<String, Fail> {
    let name = shown(class);
    match find(class.py(), &name) {
        Ok(found) if found.is(class) => Ok(name),
        _ => {
            let what =
                format!("the class `{name}` cannot be found again: its module has no such class");
            let next = "define it at the top level of a module, or inside another class there, under its own name";
            Err(Fail::new(what).next(next))
        }
    }
}

/// The name of a class as it is shown; plain for what is built in. Never fails.
pub(super) fn shown(class: &Bound<'_, PyType>) -> String {
    let part = |name: &Bound<'_, PyString>| {
        class
            .getattr(name)
            .ok()
            .and_then(|text| text.cast_into::<PyString>().ok())
            .map_or_else(|| "?".to_owned(), |text| text.to_string_lossy().into_owned())
    };
    let py = class.py();
    format!("{}:{}", part(intern!(py, "__module__")), part(intern!(py, "__qualname__")))
}

/// The same in a sentence: what is built in needs no module.
pub(super) fn type_of(value: &Bound<'_, PyAny>) -> String {
    let name = shown(&value.get_type());
    name.strip_prefix("builtins:").map(str::to_owned).unwrap_or(name)
}

/// The class of this name, if the program has it.
pub(super) fn find<'py>(py: Python<'py>, name: &str) -> Result<Bound<'py, PyType>, Fail> {
    let Some((module_name, path)) = name.split_once(':') else {
        return Err(Fail::new(format!("`{name}` is no name of a class: that is `module:class`")));
    };
    let Some(module) = module(py, module_name)? else {
        let what = format!("the class `{name}` is not here: no module `{module_name}` is imported");
        return Err(Fail::new(what).next(format!("import `{module_name}` before the run goes on")));
    };
    let missing = || {
        let what = format!("the class `{name}` is not here: the module `{module_name}` has none");
        Fail::new(what)
            .next("bring the class back under its old name, or keep an alias of it there")
    };
    // Names of generic models have dots in brackets.
    let mut found = match entry(&module, path)? {
        Some(found) => found,
        None => {
            let mut inner = module;
            for part in path.split('.') {
                inner = entry(&inner, part)?.ok_or_else(missing)?;
            }
            inner
        }
    };
    if let Ok(class) = found.cast::<PyType>() {
        return Ok(class.clone());
    }
    found = found.get_type().into_any();
    Err(Fail::new(format!("`{name}` is no class but a `{}`", shown(found.cast::<PyType>()?))))
}

/// A module that the program has imported.
pub(super) fn module<'py>(py: Python<'py>, name: &str) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    static MODULES: Known = Known::new("sys", "modules");
    let module = MODULES.get(py)?.cast::<PyDict>()?.get_item(name)?;
    Ok(module.filter(|module| !module.is_none()))
}

/// What stands in the dictionary of a module or class. No code of theirs runs.
fn entry<'py>(of: &Bound<'py, PyAny>, name: &str) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let Some(entries) = of.getattr_opt(intern!(of.py(), "__dict__"))? else { return Ok(None) };
    // A class gives a read-only view.
    match entries.cast::<PyDict>() {
        Ok(entries) => Ok(entries.get_item(name)?),
        Err(_) => {
            let found = entries.call_method1(intern!(of.py(), "get"), (name,))?;
            Ok(Some(found).filter(|found| !found.is_none()))
        }
    }
}

/// A class or function of the standard library, imported once.
pub(super) struct Known {
    module: &'static str,
    name: &'static str,
    cell: PyOnceLock<Py<PyAny>>,
}

impl Known {
    pub(super) const fn new(module: &'static str, name: &'static str) -> Known {
        Known { module, name, cell: PyOnceLock::new() }
    }

    pub(super) fn get<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>, Fail> {
        Ok(self.cell.import(py, self.module, self.name)?)
    }
}
