//! The rules of the whole process. Its standard error and log lines belong to all runtimes in it,
//! so the rules of all of them apply. They stay in force when a runtime ends, because its values
//! may still be shown.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::{PLACEHOLDER, Redactions};
use tiffany_log::{end_of_value, parse_string};

static ANY: AtomicBool = AtomicBool::new(false);
static ALL: RwLock<Vec<Arc<Redactions>>> = RwLock::new(Vec::new());

/// Adds rules to those of the process.
pub fn install(rules: &Arc<Redactions>) {
    let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
    if !all.iter().any(|known| known.is_same(rules)) {
        all.push(Arc::clone(rules));
        ANY.store(true, Ordering::Release);
    }
}

/// Returns whether there are any rules.
#[inline]
pub fn any() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Returns the rules of all runtimes in this process, combined.
pub fn known() -> Option<Arc<Redactions>> {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner).clone();
    let all = all.into_iter().reduce(|a, b| Arc::new((*a).clone().and((*b).clone())));
    all.filter(|rules| !rules.is_empty())
}

pub(super) fn clean<'a>(
    text: &'a str,
    by: impl Fn(&Redactions, &str) -> Option<String>,
) -> Cow<'a, str> {
    let mut cleaned = Cow::Borrowed(text);
    if !any() {
        return cleaned;
    }
    // The lock is not held while rules run, because a panic in them would come back here.
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner).clone();
    for rules in all {
        if let Some(made) = by(&rules, &cleaned) {
            cleaned = Cow::Owned(made);
        }
    }
    cleaned
}

/// Redacts a text with this name. The result is owned if anything was redacted.
pub fn named_text<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    clean(text, |rules, text| match rules.named_text(name, text) {
        Cow::Owned(made) => Some(made),
        Cow::Borrowed(same) if same != text => Some(same.to_owned()),
        Cow::Borrowed(_) => None,
    })
}

/// Redacts the description of a call. A value that is stored under a redacted name is redacted too.
pub fn shown_call(call: &str) -> Cow<'_, str> {
    clean(call, |rules, call| {
        let key = call.strip_prefix("put(").and_then(|rest| {
            let end = end_of_value(rest.as_bytes(), 0)?;
            Some((rest.get(..end)?, parse_string(rest.get(..end)?)?))
        });
        match key {
            Some((raw, name)) if rules.means(&name) => Some(format!("put({raw}, {PLACEHOLDER})")),
            _ => rules.patterns.cleaned(call),
        }
    })
}

/// Wraps a value so that its text is redacted when it is displayed.
pub fn shown<T: fmt::Display>(what: T) -> Shown<T> {
    Shown(what)
}

pub struct Shown<T>(T);

impl<T: fmt::Display> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !any() {
            return self.0.fmt(f);
        }
        f.write_str(&super::clean(&self.0.to_string()))
    }
}
