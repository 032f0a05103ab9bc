//! Calls that change the tags and attributes of a durable run.

use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;
use pyo3::types::{PyDict, PyTuple};
use tiffany::binding;
use tiffany::durable::AttributeChange;

use crate::calls::call::{Op, SystemCall};
use crate::values::attributes::values;
use crate::values::errors::{Raise, TiffanyError, to_python};

/// The call for these changes. An error if a run would be found by a secret.
fn call(py: Python<'_>, changes: Vec<AttributeChange>) -> PyResult<SystemCall> {
    binding::check_attribute_changes(&changes).map_err(|error| to_python(py, &error))?;
    Ok(SystemCall::of(Op::SetAttributes(changes)))
}

fn tags(given: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
    let read = |tag: Bound<'_, PyAny>| {
        tag.extract::<String>().or_else(|_| {
            let message = format!("a tag is a str, not {}", tag.repr()?);
            Err(TiffanyError::BadAttribute.err(tag.py(), message))
        })
    };
    given.iter().map(read).collect()
}

/// Gives attributes of this run new values, by name or as a dict; `None` removes one. Lists and the dashboard show them
/// from then on.
///
/// >>> import tempfile
/// >>> @workflow(name="count")
/// ... async def count(number):
/// ...     await set_attributes(stage="done", number=number)
/// >>> with tempfile.TemporaryDirectory() as wal:
/// ...     with Runtime(wal=wal) as runtime:
/// ...         runtime.wait(runtime.submit(count, 7, id="c", tags=["small"]))
/// ...         [(run.tags, run.attributes) for run in runtime.runs()]
/// [(['small'], {'number': 7, 'stage': 'done'})]
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct SetAttributes;

#[pymethods]
impl SetAttributes {
    #[new]
    #[pyo3(signature = (values = None, /, **named))]
    fn new(
        py: Python<'_>,
        values: Option<&Bound<'_, PyDict>>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<SetAttributes>> {
        let mut changes = Vec::new();
        for given in values.into_iter().chain(named) {
            for (name, value) in self::values(given)? {
                changes.push(match value {
                    Some(value) => AttributeChange::Set(name, value),
                    None => AttributeChange::Remove(name),
                });
            }
        }
        Ok(PyClassInitializer::from(call(py, changes)?).add_subclass(SetAttributes))
    }
}

/// Adds tags to this run.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct AddTags;

#[pymethods]
impl AddTags {
    #[new]
    #[pyo3(signature = (*tags))]
    fn new(tags: &Bound<'_, PyTuple>) -> PyResult<PyClassInitializer<AddTags>> {
        let changes = self::tags(tags)?.into_iter().map(AttributeChange::AddTag).collect();
        Ok(PyClassInitializer::from(call(tags.py(), changes)?).add_subclass(AddTags))
    }
}

/// Removes tags of this run. One that is not there makes no difference.
#[pyclass(frozen, extends = SystemCall, module = "tiffany")]
pub(crate) struct RemoveTags;

#[pymethods]
impl RemoveTags {
    #[new]
    #[pyo3(signature = (*tags))]
    fn new(tags: &Bound<'_, PyTuple>) -> PyResult<PyClassInitializer<RemoveTags>> {
        let changes = self::tags(tags)?.into_iter().map(AttributeChange::RemoveTag).collect();
        Ok(PyClassInitializer::from(call(tags.py(), changes)?).add_subclass(RemoveTags))
    }
}

/// Adds these classes to the module.
pub(super) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SetAttributes>()?;
    module.add_class::<AddTags>()?;
    module.add_class::<RemoveTags>()
}
