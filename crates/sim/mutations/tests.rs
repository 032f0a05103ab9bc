//! Tests of the tests: each mistake that can be put into the runtime, its log or the disk is
//! detected, by the workflow that is named here or by generated ones.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kit::Written;
use tiffany::mutation::Mutation;
use tiffany::wal::Barrier;
use tiffany::wal::sim::{Part, SimDisk};
use tiffany_sim::programs::{Mood, crashes};
use tiffany_sim::{Failure, Report};

/// Runs a check, and returns the first line of what it detected. A panic counts.
fn noticed(check: impl Fn() -> Result<Report, Failure>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) => Some(failure.what.lines().next().unwrap_or_default().to_string()),
        Err(_) => Some("a panic".into()),
    }
}

/// Runs the workflow with this name, and returns what it detected.
fn by_workflow(name: &str) -> Option<String> {
    if name == "programs" {
        return by_programs(|_| {});
    }
    let (_, check) = kit::ALL.iter().find(|(known, _)| *known == name).expect("it is there");
    let all = [Written::Every, Written::Outward];
    all.into_iter().find_map(|written| noticed(|| check(written, 60)))
}

/// Runs generated workflows on a disk that was prepared like this, and returns what they detected.
fn by_programs(prepare: impl Fn(&SimDisk) + Clone + 'static) -> Option<String> {
    (0..20).find_map(|seed| {
        [Mood::Steady, Mood::Wild].into_iter().find_map(|mood| {
            let prepare = prepare.clone();
            noticed(|| crashes(seed, 3, mood).at_most(60).disk(prepare.clone()).report())
        })
    })
}

/// The workflow that detects each mistake.
const NOTICED_BY: &[(Mutation, &str)] = &[
    (Mutation::NoticeBeforeCommit, "talk"),
    (Mutation::EffectBeforeCommit, "steps"),
    (Mutation::PromiseBeforeCommit, "talk"),
    (Mutation::AnswerBeforeCommit, "ends"),
    (Mutation::OutcomeBeforeCommit, "steps"),
    (Mutation::ResultNotRecorded, "steps"),
    (Mutation::AttemptNotRecorded, "bank"),
    (Mutation::FailureNotRecorded, "stubborn"),
    (Mutation::MessageNotRecorded, "talk"),
    (Mutation::SettlementNotRecorded, "talk"),
    (Mutation::SettledTwice, "talk"),
    (Mutation::SettlementForgotten, "talk"),
    (Mutation::DoubtIgnored, "bank"),
    (Mutation::AttemptsForgotten, "bank"),
    (Mutation::FailuresForgotten, "stubborn"),
    (Mutation::KeyChanges, "bank"),
    (Mutation::SeedForgotten, "programs"),
    (Mutation::ResultForgotten, "bank"),
    (Mutation::EndWrittenTwice, "steps"),
    (Mutation::IndexBeforeFiles, "programs"),
    (Mutation::ReleaseBeforeCheckpoint, "programs"),
    (Mutation::IndexNamedFirst, "programs"),
    (Mutation::SegmentNamedFirst, "programs"),
    (Mutation::ChecksumIgnored, "programs"),
];

#[test]
fn every_mistake_has_a_workflow_that_detects_it() {
    let named: Vec<Mutation> = NOTICED_BY.iter().map(|(mutation, _)| *mutation).collect();
    assert_eq!(named, Mutation::ALL);
}

/// Tests a sixth of the mistakes, so that no test takes long.
fn part(which: usize) {
    std::panic::set_hook(Box::new(|_| {}));
    let part = NOTICED_BY.iter().enumerate().filter(|(at, _)| at % 6 == which);
    let mut missed = Vec::new();
    for (_, (mutation, name)) in part {
        match mutation.during(|| by_workflow(name)) {
            Some(what) => println!("{mutation:?}: {name}: {what}"),
            None => missed.push(mutation),
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
fn mistakes_are_noticed_0() {
    part(0);
}

#[test]
fn mistakes_are_noticed_1() {
    part(1);
}

#[test]
fn mistakes_are_noticed_2() {
    part(2);
}

#[test]
fn mistakes_are_noticed_3() {
    part(3);
}

#[test]
fn mistakes_are_noticed_4() {
    part(4);
}

#[test]
fn mistakes_are_noticed_5() {
    part(5);
}

fn syncs(part: &[Barrier]) {
    for barrier in part.iter().copied() {
        let what = by_programs(move |disk| disk.ignore(barrier));
        assert!(what.is_some(), "nobody noticed that {barrier:?} is left out");
    }
}

#[test]
fn every_sync_that_is_left_out_is_noticed_0() {
    syncs(&Barrier::ALL[..1]);
}

#[test]
fn every_sync_that_is_left_out_is_noticed_1() {
    syncs(&Barrier::ALL[1..4]);
}

#[test]
fn every_sync_that_is_left_out_is_noticed_2() {
    syncs(&Barrier::ALL[4..8]);
}

#[test]
fn every_sync_that_is_left_out_is_noticed_3() {
    syncs(&Barrier::ALL[8..]);
}

#[test]
fn every_write_that_comes_after_its_sync_is_noticed() {
    for part in Part::ALL.iter().copied() {
        let what = by_programs(move |disk| disk.late(part));
        assert!(what.is_some(), "nobody noticed that writes to {part:?} come late");
    }
}
