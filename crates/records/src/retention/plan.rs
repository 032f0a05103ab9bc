//! A plan of what retention rules would do to the runs of a log. It changes nothing.

use std::collections::BTreeSet;

use serde::Serialize;
use tiffany_kernel::{TaskError, Time, Uuid};

use tiffany_log::{LogError, Stamp, View};

use super::facts::{FactCache, FinishedRun, RetentionFacts};
use super::needed::NeededBy;
use super::rule::Retention;
use crate::errors::log_failed;
use crate::outline::Outcome;

/// The runs that retention rules would remove or compact.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// Runs that would be removed, in the order in which they ended.
    pub remove: Vec<Candidate>,
    /// Runs that would be compacted.
    pub compact: Vec<Candidate>,
    /// Runs that a rule would remove or compact but that are kept because a fork needs or may need
    /// them.
    pub kept: Vec<Kept>,
    /// Finished runs that are damaged. No rule removes or compacts them: they may be restored from
    /// a copy.
    pub damaged: Vec<(Uuid, TaskError)>,
    /// The number of finished runs.
    pub over: usize,
    /// The size of the files of all runs, including unfinished ones, in bytes.
    pub bytes: u64,
}

/// A run that a rule would remove or compact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The run.
    pub run: Uuid,
    /// The id that it was started with.
    pub id: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// When it ended.
    pub ended: Time,
    /// The size of its file, in bytes.
    pub bytes: u64,
    /// The part of the rule that selected it.
    pub why: Why,
}

impl Candidate {
    fn new(fact: &FinishedRun, why: Why) -> Candidate {
        let FinishedRun { run, outcome, ended, bytes, .. } = *fact;
        Candidate { run, id: fact.id.clone(), outcome, ended, bytes, why }
    }

    /// Returns when it ended, as RFC 3339.
    pub fn ended_text(&self) -> String {
        Stamp::from_unix_nanos(self.ended.as_nanos()).as_str().to_owned()
    }
}

/// The part of a rule that selected a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It ended too long ago.
    Age,
    /// There are too many runs.
    Count,
    /// The runs take too many bytes.
    Size,
}

impl Why {
    /// Returns `age`, `count` or `size`.
    pub fn word(self) -> &'static str {
        match self {
            Why::Age => "age",
            Why::Count => "count",
            Why::Size => "size",
        }
    }
}

/// A run that a rule would remove or compact but that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// The run.
    pub run: Candidate,
    /// The reason why it is kept.
    pub by: NeededBy,
}

impl Plan {
    /// Plans what these rules would do now to the log in a view. With the cache of an earlier call,
    /// finished runs are not read again, except for those that would be removed, which are checked
    /// first.
    pub fn of(
        view: &View,
        rules: &[Retention],
        now: Time,
        cache: &mut FactCache,
    ) -> Result<Plan, TaskError> {
        let blobs = rules.iter().any(|rule| rule.max_bytes.is_some());
        let facts = cache.read(view, blobs).map_err(log_failed)?;
        let mut plan = Plan::new(&facts, rules, now);
        plan.keep_damaged(view, facts.damaged);
        Ok(plan)
    }

    /// Applies the rules at this time. A run that any of them removes is removed, not compacted.
    fn new(facts: &RetentionFacts, rules: &[Retention], now: Time) -> Plan {
        let mut plan = Plan { over: facts.over.len(), bytes: facts.bytes, ..Plan::default() };
        let (mut removed, mut compacted, mut kept) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for rule in rules {
            for (fact, fate, why) in judge(facts, rule, now) {
                if let Some(by) = facts.needed.get(fact.run) {
                    if kept.insert(fact.run) {
                        plan.kept.push(Kept { run: Candidate::new(fact, why), by });
                    }
                } else if fate == Fate::Remove && removed.insert(fact.run) {
                    plan.remove.push(Candidate::new(fact, why));
                } else if fate == Fate::Compact && compacted.insert(fact.run) {
                    plan.compact.push(Candidate::new(fact, why));
                }
            }
        }
        plan.compact.retain(|candidate| !removed.contains(&candidate.run));
        plan.remove.sort_by_key(|candidate| (candidate.ended, candidate.run));
        plan
    }

    /// Keeps damaged runs. This reads every line of each run that would be removed.
    fn keep_damaged(&mut self, view: &View, known: Vec<(Uuid, LogError)>) {
        let mut damaged = known;
        self.remove.retain(|candidate| match check(view, candidate.run) {
            Ok(()) => true,
            Err(error) => {
                damaged.push((candidate.run, error));
                false
            }
        });
        self.damaged = damaged.into_iter().map(|(run, error)| (run, log_failed(error))).collect();
    }

    /// Returns whether the rules would do nothing.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.compact.is_empty()
    }
}

/// Reads and checks all lines of a run.
fn check(view: &View, run: Uuid) -> Result<(), LogError> {
    let mut reader = view.reader(run)?;
    while let Some(line) = reader.next() {
        line?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Remove,
    Compact,
}

/// Applies one rule, without regard to forks that need a run.
fn judge<'a>(
    facts: &'a RetentionFacts,
    rule: &Retention,
    now: Time,
) -> Vec<(&'a FinishedRun, Fate, Why)> {
    let about: Vec<&FinishedRun> =
        facts.over.iter().filter(|fact| rule.is_about(fact.outcome)).collect();
    let age = |fact: &FinishedRun| now.saturating_since(fact.ended);
    let mut judged = Vec::new();
    let mut rest = Vec::new();
    let too_many = rule.keep.map_or(0, |keep| about.len().saturating_sub(keep));
    for (at, fact) in about.into_iter().enumerate() {
        if rule.older_than.is_some_and(|oldest| age(fact) > oldest) {
            judged.push((fact, Fate::Remove, Why::Age));
        } else if at < too_many {
            judged.push((fact, Fate::Remove, Why::Count));
        } else {
            rest.push(fact);
        }
    }
    let is_compacted = |fact: &FinishedRun| {
        rule.compact_after.is_some_and(|after| age(fact) > after) && !fact.is_compacted
    };
    // A compacted run is almost empty, but the parent of a fork is not compacted.
    let size = |fact: &FinishedRun| match is_compacted(fact) && facts.needed.get(fact.run).is_none()
    {
        true => 0,
        false => fact.bytes + fact.blobs.unwrap_or(0),
    };
    let mut total: u64 = rest.iter().map(|fact| size(fact)).sum();
    for fact in rest {
        if rule.max_bytes.is_some_and(|most| total > most) && size(fact) > 0 {
            judged.push((fact, Fate::Remove, Why::Size));
            if facts.needed.get(fact.run).is_none() {
                total -= size(fact);
            }
        } else if is_compacted(fact) {
            judged.push((fact, Fate::Compact, Why::Age));
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::retention::needed::NeededRuns;

    /// Makes facts about runs of 100 bytes each, of which run n ended at second n.
    fn facts(count: u64) -> RetentionFacts {
        let over = (1..=count).map(|n| FinishedRun {
            run: Uuid(u128::from(n)),
            id: format!("run-{n}"),
            outcome: if n % 3 == 0 { Outcome::Failed } else { Outcome::Completed },
            ended: Time::from_nanos(n * 1_000_000_000),
            bytes: 100,
            blobs: None,
            is_compacted: false,
        });
        RetentionFacts { over: over.collect(), bytes: 100 * count, ..RetentionFacts::default() }
    }

    fn removed(facts: &RetentionFacts, rule: Retention) -> Vec<u128> {
        let plan = Plan::new(facts, &[rule], Time::from_nanos(10_000_000_000));
        plan.remove.iter().map(|candidate| candidate.run.0).collect()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn each_part_of_a_rule_selects_its_runs() {
        let facts = facts(6);
        let new = Retention::new;
        assert_eq!(removed(&facts, new()), []);
        assert_eq!(removed(&facts, new().older_than(seconds(7))), [1, 2]);
        assert_eq!(removed(&facts, new().keep(2)), [1, 2, 3, 4]);
        assert_eq!(removed(&facts, new().keep(100)), []);
        assert_eq!(removed(&facts, new().max_bytes(350)), [1, 2, 3]);
        assert_eq!(removed(&facts, new().max_bytes(0)), [1, 2, 3, 4, 5, 6]);
        assert_eq!(removed(&facts, new().only(Outcome::Failed).keep(1)), [3]);
        assert_eq!(removed(&facts, new().only(Outcome::Cancelled).keep(0)), []);
        // The strictest part counts.
        let all = new().older_than(seconds(8)).keep(5).max_bytes(400);
        assert_eq!(removed(&facts, all), [1, 2]);
    }

    #[test]
    fn removed_runs_are_not_compacted_and_compacted_runs_have_no_size() {
        let facts = facts(6);
        let rule = Retention::new().older_than(seconds(8)).compact_after(seconds(5));
        let plan = Plan::new(&facts, std::slice::from_ref(&rule), Time::from_nanos(10_000_000_000));
        let runs = |list: &[Candidate]| list.iter().map(|one| one.run.0).collect::<Vec<_>>();
        assert_eq!((runs(&plan.remove), runs(&plan.compact)), (vec![1], vec![2, 3, 4]));
        let plan = Plan::new(&facts, &[rule.max_bytes(150)], Time::from_nanos(10_000_000_000));
        assert_eq!((runs(&plan.remove), runs(&plan.compact)), (vec![1, 5], vec![2, 3, 4]));
    }

    #[test]
    fn a_run_that_a_fork_needs_is_kept_and_others_are_removed_instead() {
        let mut facts = facts(4);
        let forks = [(Uuid(77), Ok(Some(Uuid(1))))];
        facts.needed = NeededRuns::of(forks, |_| Ok(None));
        let rule = Retention::new().max_bytes(200);
        let plan = Plan::new(&facts, &[rule], Time::from_nanos(10_000_000_000));
        let gone: Vec<u128> = plan.remove.iter().map(|one| one.run.0).collect();
        assert_eq!(gone, [2, 3], "200 bytes are left: those that the fork needs, and the newest");
        assert_eq!(plan.kept.len(), 1);
        assert_eq!((plan.kept[0].run.run, plan.kept[0].by), (Uuid(1), NeededBy::Fork(Uuid(77))));
    }

    #[test]
    fn the_first_rule_that_removes_a_run_counts() {
        let facts = facts(6);
        let rules = [
            Retention::new().only(Outcome::Failed).keep(1),
            Retention::new().only(Outcome::Completed).compact_after(seconds(7)).keep(3),
            Retention::new().compact_after(seconds(1)),
        ];
        let plan = Plan::new(&facts, &rules, Time::from_nanos(10_000_000_000));
        let runs = |list: &[Candidate]| list.iter().map(|one| one.run.0).collect::<Vec<_>>();
        assert_eq!(runs(&plan.remove), [1, 3]);
        assert_eq!(runs(&plan.compact), [2, 4, 5, 6]);
    }
}
