//! Classes by name: `module:qualname`, looked up among the modules that the program has imported. A
//! name from a log never causes an import.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyType};

use super::error::Fail;

/// Returns the name that a class has in the log. Returns an error if the class could not be found
/// again by this name.
pub(super) fn name_of(class: &Bound<'_, PyType>) -> Result<String, Fail> {
    let name = shown(class);
    let is_it = |name: &str| find(class.py(), name).is_ok_and(|found| found.is(class));
    if let Some((module, path)) = name.split_once(':')
        && MAIN.contains(&module)
        && let Some(known) = main_name(class.py())?.map(|known| format!("{known}:{path}"))
        && is_it(&known)
    {
        return Ok(known);
    }
    if is_it(&name) {
        return Ok(name);
    }
    let what = format!("the class `{name}` cannot be found again: its module has no such class");
    let next =
        "define it at the top level of a module, or inside another class there, under its own name";
    Err(Fail::new(what).next(next))
}

/// The names of the module that Python was started with, while it runs. In the log it has the name
/// of its file.
const MAIN: [&str; 2] = ["__main__", "__mp_main__"];

fn main_name(py: Python<'_>) -> Result<Option<String>, Fail> {
    static MAIN_NAME: Known = Known::new("tiffany._names", "main_name");
    Ok(MAIN_NAME.get(py)?.call0()?.extract()?)
}

/// Returns the name of a class for display, without the module for built-in classes. It never
/// fails.
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

/// Returns the name of a value's class for a message, without the module for built-in classes.
pub(super) fn type_of(value: &Bound<'_, PyAny>) -> String {
    let name = shown(&value.get_type());
    name.strip_prefix("builtins:").map(str::to_owned).unwrap_or(name)
}

/// Returns the class of this name, if the program has it.
pub(super) fn find<'py>(py: Python<'py>, name: &str) -> Result<Bound<'py, PyType>, Fail> {
    let Some((module_name, path)) = name.split_once(':') else {
        return Err(Fail::new(format!(
            "`{name}` is not the name of a class, which is `module:class`"
        )));
    };
    if let Some(code) = path.rsplit('.').next().filter(|code| code.starts_with("TFY"))
        && module_name == "tiffany.errors"
    {
        // Classes of errors are created on first use.
        return a_class(name, crate::values::errors::class(py, code)?);
    }
    let imported = module(py, module_name)?;
    if let Some(found) = inside(imported.as_ref(), path)? {
        return a_class(name, found);
    }
    let main = match main_name(py)?.as_deref() == Some(module_name) {
        true => module(py, "__main__")?,
        false => None,
    };
    if let Some(found) = inside(main.as_ref(), path)? {
        return a_class(name, found);
    }
    if imported.is_none() && main.is_none() {
        let what = format!("the class `{name}` is not here: no module `{module_name}` is imported");
        return Err(
            Fail::new(what).next(format!("import `{module_name}` before the run is resumed"))
        );
    }
    let what = format!("the class `{name}` is not here: the module `{module_name}` has none");
    Err(Fail::new(what).next("restore the class under its old name, or keep an alias there"))
}

fn a_class<'py>(name: &str, found: Bound<'py, PyAny>) -> Result<Bound<'py, PyType>, Fail> {
    found.cast_into::<PyType>().map_err(|error| {
        let class = shown(&error.into_inner().get_type());
        Fail::new(format!("`{name}` is not a class but a `{class}`"))
    })
}

/// Returns the object in a module at a path of names.
fn inside<'py>(
    module: Option<&Bound<'py, PyAny>>,
    path: &str,
) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let Some(module) = module else { return Ok(None) };
    // Names of generic models have dots in brackets.
    if let Some(found) = entry(module, path)? {
        return Ok(Some(found));
    }
    let mut inner = module.clone();
    for part in path.split('.') {
        match entry(&inner, part)? {
            Some(found) => inner = found,
            None => return Ok(None),
        }
    }
    Ok(Some(inner))
}

/// Returns a module that the program has imported.
pub(super) fn module<'py>(py: Python<'py>, name: &str) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    static MODULES: Known = Known::new("sys", "modules");
    let module = MODULES.get(py)?.cast::<PyDict>()?.get_item(name)?;
    Ok(module.filter(|module| !module.is_none()))
}

/// Returns an entry of the dictionary of a module or class, without running their code.
fn entry<'py>(of: &Bound<'py, PyAny>, name: &str) -> Result<Option<Bound<'py, PyAny>>, Fail> {
    let Some(entries) = of.getattr_opt(intern!(of.py(), "__dict__"))? else { return Ok(None) };
    // A class returns a read-only view.
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
