//! Tags and attributes of the run that calls: what it says about itself, so that people find it.

use std::panic::Location;

use tiffany_kernel::{AttributeChange, AttributeValue, CallKind, SystemCall, TaskError};
use tiffany_records::redact::refuse_installed;

use crate::calls::call::TryCall;

/// Gives attributes of this run new values. They are in the log and in lists of runs from then on; attributes of other
/// names stay as they are.
///
/// The name of an attribute has letters, digits, `_`, `.` and `-`. A value is a text, a whole number, a finite float, a
/// flag or a moment. What is not allowed, or too much, is the error
/// [`BadAttribute`](tiffany_kernel::ErrorKind::BadAttribute), and nothing has changed.
///
/// ```
/// use tiffany::durable::{AttributeValue, StartOptions, add_tags, set_attributes};
/// use tiffany::control::{AttributeFilter, RunQuery};
/// use tiffany::{Runtime, TaskError};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-attributes-{}", std::process::id()));
/// let order = |amount: i64| async move {
///     set_attributes([("amount", AttributeValue::from(amount)), ("paid", true.into())]).await?;
///     add_tags(["checked"]).await
/// };
/// let mut runtime = Runtime::builder().log_dir(&dir).register("order", order).build()?;
/// let options = StartOptions::new().tag("gold").attribute("customer", "ada");
/// let run = runtime.submit_with::<()>("order", "order-1", &17, &options)?;
/// runtime.wait_for(&run)?;
///
/// let filter = AttributeFilter::parse("amount>=10").map_err(tiffany::RunError::Failed)?;
/// let query = RunQuery { attributes: vec![filter], ..RunQuery::default() };
/// let found = runtime.runs(&query)?.runs;
/// assert_eq!(found[0].tags, ["checked", "gold"]);
/// assert_eq!(found[0].attributes["customer"], AttributeValue::from("ada"));
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn set_attributes<N, V>(values: impl IntoIterator<Item = (N, V)>) -> TryCall<()>
where
    N: Into<String>,
    V: Into<AttributeValue>,
{
    let set = |(name, value): (N, V)| AttributeChange::Set(name.into(), value.into());
    change_attributes(values.into_iter().map(set).collect())
}

/// Removes attributes of this run. One that is not there makes no difference.
#[track_caller]
pub fn remove_attributes<N: Into<String>>(names: impl IntoIterator<Item = N>) -> TryCall<()> {
    let remove = |name: N| AttributeChange::Remove(name.into());
    change_attributes(names.into_iter().map(remove).collect())
}

/// Adds tags to this run. A tag is a text without control characters.
#[track_caller]
pub fn add_tags<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> TryCall<()> {
    change_attributes(tags.into_iter().map(|tag| AttributeChange::AddTag(tag.into())).collect())
}

/// Removes tags of this run. One that is not there makes no difference.
#[track_caller]
pub fn remove_tags<T: Into<String>>(tags: impl IntoIterator<Item = T>) -> TryCall<()> {
    let remove = |tag: T| AttributeChange::RemoveTag(tag.into());
    change_attributes(tags.into_iter().map(remove).collect())
}

/// Makes several changes at once, or none.
#[track_caller]
pub fn change_attributes(changes: Vec<AttributeChange>) -> TryCall<()> {
    let at = Location::caller();
    match refuse_secrets(&changes) {
        Ok(()) => TryCall::new_at(SystemCall::SetAttributes(changes), at),
        Err(error) => TryCall::bad_at(CallKind::SetAttributes, error, at),
    }
}

/// Returns an error if a run would be found by a secret.
pub(crate) fn refuse_secrets(changes: &[AttributeChange]) -> Result<(), TaskError> {
    changes.iter().try_for_each(|change| match change {
        AttributeChange::Set(name, _) => refuse_installed("an attribute", name),
        AttributeChange::AddTag(tag) => refuse_installed("a tag", tag),
        AttributeChange::Remove(_) | AttributeChange::RemoveTag(_) => Ok(()),
    })
}
