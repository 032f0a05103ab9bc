//! The test of the tests: each mistake that can be put into the runtime, into its log or into the disk is noticed by a
//! named workflow, or by generated ones.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kit::Written;
use tiffany::mutation::Mutation;
use tiffany::wal::Barrier;
use tiffany::wal::sim::{Part, SimDisk};
use tiffany_sim::Failure;
use tiffany_sim::programs::{Mood, crashes};

/// Looks for somebody who notices.
fn hunt(lie: fn(&SimDisk, usize), number: usize) -> Result<String, ()> {
    let noticed = |name: String, report: &dyn Fn() -> Result<tiffany_sim::Report, Failure>| {
        match catch_unwind(AssertUnwindSafe(report)) {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some(format!("{name}: {}", failure.what.lines().next()?)),
            Err(_) => Some(format!("{name}: a panic")),
        }
    };
    for (name, report) in kit::ALL {
        for written in [Written::Every, Written::Outward] {
            if number == usize::MAX
                && let Some(noticed) = noticed(format!("{name} {written:?}"), &|| report(written))
            {
                return Ok(noticed);
            }
        }
    }
    for seed in 0..40 {
        for mood in [Mood::Steady, Mood::Wild] {
            let check = || {
                let check = crashes(seed, 3, mood).at_most(60);
                check
                    .disk(move |disk| {
                        if number != usize::MAX {
                            lie(disk, number)
                        }
                    })
                    .report()
            };
            if let Some(noticed) = noticed(format!("{mood:?} program {seed}"), &check) {
                return Ok(noticed);
            }
        }
    }
    Err(())
}

fn all_are_noticed<T: std::fmt::Debug>(what: &[T], hunt: impl Fn(usize, &T) -> Result<String, ()>) {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for (at, one) in what.iter().enumerate() {
        match hunt(at, one) {
            Ok(noticed) => println!("{one:?}: {noticed}"),
            Err(()) => {
                println!("{one:?}: NOT NOTICED");
                missed.push(format!("{one:?}"));
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

fn no_lie(_: &SimDisk, _: usize) {}

fn runtime_mistakes(range: std::ops::Range<usize>) {
    let end = range.end.min(Mutation::ALL.len());
    all_are_noticed(&Mutation::ALL[range.start..end], |_, mutation| {
        mutation.during(|| hunt(no_lie, usize::MAX))
    });
}

#[test]
fn mistakes_of_the_runtime_are_noticed_0() {
    runtime_mistakes(0..7);
}

#[test]
fn mistakes_of_the_runtime_are_noticed_1() {
    runtime_mistakes(7..14);
}

#[test]
fn mistakes_of_the_runtime_are_noticed_2() {
    runtime_mistakes(14..21);
}

#[test]
fn mistakes_of_the_runtime_are_noticed_3() {
    runtime_mistakes(21..usize::MAX);
}

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    all_are_noticed(Barrier::ALL, |at, _| hunt(|disk, at| disk.ignore(Barrier::ALL[at]), at));
}

#[test]
fn every_write_that_comes_after_its_sync_is_noticed() {
    all_are_noticed(Part::ALL, |at, _| hunt(|disk, at| disk.late(Part::ALL[at]), at));
}
