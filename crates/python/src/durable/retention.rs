//! Removing, compacting and pruning finished runs, on a runtime or through a connection.
//! `python/tiffany/_retention.py` converts the results to objects.

use std::collections::HashSet;
use std::path::Path;

use pyo3::prelude::*;
use tiffany::control::Control;
use tiffany::history::Outcome;
use tiffany::retention::{Candidate, Plan, Pruned, Retention};
use tiffany::wal::Collected;
use tiffany::{Runtime, TaskError, Uuid, binding};

use crate::durable::runs::{identity, raised};
use crate::process::interpreter;
use crate::values::errors;

/// A rule that `python/tiffany` has checked: minimum age in seconds, number of runs to keep,
/// maximum bytes, outcomes, and seconds until runs are compacted.
pub(crate) type RuleParts = (Option<f64>, Option<usize>, Option<u64>, Vec<String>, Option<f64>);

/// A run that a rule selects: UUID, id, outcome, end, bytes, and why it is selected.
type CandidateParts = (String, String, &'static str, String, u64, &'static str);

/// Runs that were not changed, with the reasons.
type RefusedParts = Vec<(String, Py<PyAny>)>;

/// The number of removed blobs, their bytes, and the number of damaged runs.
pub(crate) type CollectedParts = (u64, u64, u64);

/// The runs that the rules remove, compact, and keep because a fork needs them.
type PlanParts = (Vec<CandidateParts>, Vec<CandidateParts>, Vec<(CandidateParts, String)>);

/// The result: runs that were not compacted, runs that were not changed, freed bytes, blobs.
pub(crate) type DoneParts = (Vec<String>, RefusedParts, u64, CollectedParts);

/// Runs with the result of compacting them.
pub(crate) type CompactedParts = (Vec<String>, DoneParts);

/// A plan, and its result if it was carried out.
pub(crate) type PrunedParts = (PlanParts, Option<DoneParts>);

/// Converts rules for the runtime.
pub(crate) fn rules(given: Vec<RuleParts>) -> Vec<Retention> {
    given.into_iter().map(rule).collect()
}

fn rule((older_than, keep, max_bytes, only, compact_after): RuleParts) -> Retention {
    let mut rule = Retention::new();
    if let Some(age) = older_than {
        rule = rule.older_than(super::seconds(age));
    }
    if let Some(runs) = keep {
        rule = rule.keep(runs);
    }
    if let Some(bytes) = max_bytes {
        rule = rule.max_bytes(bytes);
    }
    if let Some(age) = compact_after {
        rule = rule.compact_after(super::seconds(age));
    }
    let all = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled];
    let named = all.into_iter().filter(|outcome| only.iter().any(|word| word == outcome.word()));
    named.fold(rule, Retention::only)
}

/// Returns the UUIDs of runs, each once.
pub(super) fn identities(runs: &[Bound<'_, PyAny>]) -> PyResult<Vec<Uuid>> {
    let mut found = Vec::with_capacity(runs.len());
    let mut seen = HashSet::new();
    for run in runs {
        let uuid = identity(run)?;
        if seen.insert(uuid) {
            found.push(uuid);
        }
    }
    Ok(found)
}

pub(crate) fn remove(runtime: &mut Runtime, run: &Bound<'_, PyAny>) -> PyResult<()> {
    let (py, run) = (run.py(), binding::durable_run::<()>(identity(run)?));
    raised(py, interpreter::without(py, || runtime.remove(&run)))
}

pub(crate) fn compact(
    py: Python<'_>,
    runtime: &mut Runtime,
    runs: &[Bound<'_, PyAny>],
) -> PyResult<CompactedParts> {
    let runs = identities(runs)?;
    let compacted = interpreter::without(py, || binding::compact(runtime, &runs));
    raised(py, compacted).map(|pruned| compacted_parts(py, &runs, pruned))
}

pub(crate) fn prune(
    py: Python<'_>,
    runtime: &mut Runtime,
    given: Vec<RuleParts>,
    is_dry_run: bool,
) -> PyResult<PrunedParts> {
    let rules = rules(given);
    let pruned = interpreter::without(py, || match is_dry_run {
        true => runtime.plan(&rules).map(|plan| (plan, None)),
        false => binding::prune(runtime, &rules).map(|(plan, pruned)| (plan, Some(pruned))),
    });
    raised(py, pruned).map(|pruned| parts(py, pruned))
}

pub(crate) fn collect_blobs(py: Python<'_>, runtime: &mut Runtime) -> PyResult<CollectedParts> {
    let collected = interpreter::without(py, || runtime.collect_blobs());
    raised(py, collected).map(collected_parts)
}

/// Applies rules through a connection: plans, and carries the plan out unless it is a dry run.
pub(super) fn prune_by(
    control: &mut Control,
    dir: &Path,
    rules: &[Retention],
    is_dry_run: bool,
) -> Result<(Plan, Option<Pruned>), TaskError> {
    let plan = binding::plan_for(dir, rules)?;
    let pruned = match is_dry_run {
        true => None,
        false => Some(binding::carry_out_by(control, dir, &plan)?),
    };
    Ok((plan, pruned))
}

pub(super) fn parts(py: Python<'_>, (plan, pruned): (Plan, Option<Pruned>)) -> PrunedParts {
    let kept = plan.kept.iter().map(|kept| (candidate(&kept.run), kept.by.run().to_string()));
    let candidates = |runs: &[Candidate]| runs.iter().map(candidate).collect();
    let planned = (candidates(&plan.remove), candidates(&plan.compact), kept.collect());
    (planned, pruned.map(|pruned| done(py, pruned)))
}

fn candidate(one: &Candidate) -> CandidateParts {
    let (run, ended) = (one.run.to_string(), one.ended_text());
    (run, one.id.clone(), one.outcome.word(), ended, one.bytes, one.why.word())
}

pub(super) fn compacted_parts(py: Python<'_>, runs: &[Uuid], pruned: Pruned) -> CompactedParts {
    (runs.iter().map(Uuid::to_string).collect(), done(py, pruned))
}

fn done(py: Python<'_>, pruned: Pruned) -> DoneParts {
    let Pruned { unchanged, refused, bytes, collected, .. } = pruned;
    let raised = |error| errors::to_python(py, &error).into_value(py).into_any();
    let refused = refused.into_iter().map(|(run, error)| (run.to_string(), raised(error)));
    let unchanged = unchanged.iter().map(Uuid::to_string).collect();
    (unchanged, refused.collect(), bytes, collected_parts(collected))
}

pub(super) fn collected_parts(collected: Collected) -> CollectedParts {
    (collected.blobs, collected.bytes, collected.damaged)
}
