//! Judges whether a disturbed simulation had the same result as the undisturbed one: outcome,
//! effects and log.

use std::collections::{BTreeMap, BTreeSet};

use crate::logs::difference;
use crate::outside::by_id;
use crate::universe::{Story, place_of};

/// Whether the outcome may depend on timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    /// The outcome must be the same.
    Same,
    /// The outcome may differ: only conditions that always hold are checked.
    MayDiffer,
}

/// Checks a disturbed simulation. The error is a description of the problem.
pub(crate) fn judge(undisturbed: &Story, story: &Story, sameness: Sameness) -> Result<(), String> {
    if story.refused.is_some() {
        return Ok(());
    }
    check_ledger(story)?;
    check_none_paused(story)?;
    let doubts = |story: &Story| story.logs.runs.values().map(|log| log.in_doubt()).sum::<usize>();
    // The task of a step in doubt gets an error, and may then do something else.
    if sameness == Sameness::MayDiffer || doubts(story) > doubts(undisturbed) {
        return Ok(());
    }
    for (id, outcome) in &undisturbed.outcomes {
        let is = story.outcomes.get(id);
        if is != Some(outcome) {
            return Err(format!(
                "the outcome of `{id}` is another\n  undisturbed {outcome:?}\n  crashed     {is:?}"
            ));
        }
    }
    let (was, is) = (by_id(&undisturbed.logs), by_id(&story.logs));
    for (id, log) in &was {
        let Some(crashed) = is.get(id) else { return Err(format!("`{id}` has no log")) };
        if let Some(difference) = difference(log, crashed) {
            return Err(format!("the log of `{id}` differs: {difference}"));
        }
    }
    check_same_steps(undisturbed, story)
}

/// Checks that no run is paused by a divergence: the program is the same in all lives, so it must
/// match its log.
fn check_none_paused(story: &Story) -> Result<(), String> {
    let paused = story.outcomes.iter().find_map(|(id, outcome)| match outcome {
        Err(error) if error.contains("[TFY0036]") => Some((id, error)),
        _ => None,
    });
    match paused {
        Some((id, error)) => Err(format!("`{id}` does not fit its own log: {error}")),
        None => Ok(()),
    }
}

/// Checks the conditions on the ledger that always hold.
pub(crate) fn check_ledger(story: &Story) -> Result<(), String> {
    let mut attempts: BTreeMap<&str, u64> = BTreeMap::new();
    // A pure step waits for nothing, so its attempt may be lost, and its key be used for another.
    for entry in story.ledger.iter().filter(|entry| entry.kind != "pure") {
        let last = attempts.insert(&entry.key, entry.attempt);
        let told = |what: &str| {
            let all = story.ledger.iter().filter(|other| other.key == entry.key);
            let all: Vec<String> = all.map(|entry| format!("  {entry}")).collect();
            Err(format!("{what}\n{}", all.join("\n")))
        };
        match (entry.kind.as_str(), last) {
            (_, None) => {}
            ("at_most_once", Some(_)) => {
                return told("a step that is at most once was begun twice");
            }
            ("idempotent", Some(last)) if last >= entry.attempt => {
                return told("attempts of one step have the same number, or go backwards");
            }
            _ => {}
        }
        let (run, generation, seq) = place_of(&entry.key);
        let log = story.logs.runs.get(run);
        if log.is_some_and(|log| log.generation() > generation) {
            continue;
        }
        let is_step = log.is_some_and(|log| {
            let call = (seq as usize).checked_sub(1).and_then(|at| log.records.get(at));
            call.is_some_and(|call| call["name"] == *entry.name.as_str())
        });
        if !is_step {
            return told("the log has no call for a step that was begun");
        }
    }
    for (run, log) in &story.logs.runs {
        if let Some(twice) = twice(log) {
            return Err(format!("run {run} was told twice: {twice}"));
        }
    }
    Ok(())
}

/// Finds a step with two results, or a promise that is settled twice.
fn twice(log: &crate::logs::RunLog) -> Option<String> {
    let mut seen = BTreeSet::new();
    for record in &log.records {
        let what = match record["type"].as_str() {
            Some("EffectResult") if record.get("retry_at").is_none() => {
                format!("result of {}", record["of"])
            }
            Some("ApprovalDecided") => format!("answer of {}", record["of"]),
            Some("PromiseSettled") => format!("promise {}", record["promise"]),
            _ => continue,
        };
        if !seen.insert(what.clone()) {
            return Some(what);
        }
    }
    None
}

/// Checks that the same steps were performed.
fn check_same_steps(undisturbed: &Story, story: &Story) -> Result<(), String> {
    let steps = |story: &Story| {
        let mut keys: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for entry in story.ledger.iter().filter(|entry| entry.kind != "pure") {
            let place = (entry.kind.clone(), entry.name.clone());
            keys.entry(place).or_default().insert(entry.key.clone());
        }
        keys.into_iter().map(|(place, keys)| (place, keys.len())).collect::<BTreeMap<_, _>>()
    };
    let (was, is) = (steps(undisturbed), steps(story));
    match was == is {
        true => Ok(()),
        false => Err(format!("other steps were done\n  undisturbed {was:?}\n  crashed     {is:?}")),
    }
}
