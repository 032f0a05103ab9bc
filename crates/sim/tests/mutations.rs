//! The test of the tests: each mistake that can be put into the runtime, into its log or into the disk is noticed, by the
//! workflow that is named here or by generated ones.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use kit::Written;
use tiffany::mutation::Mutation;
use tiffany::wal::Barrier;
use tiffany::wal::sim::{Part, SimDisk};
use tiffany_sim::programs::{Mood, crashes};
use tiffany_sim::{Failure, Report};

/// What somebody noticed, in a line. A panic is noticed too.
fn noticed(check: impl Fn() -> Result<Report, Failure>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) => Some(failure.what.lines().next().unwrap_or_default().to_string()),
        Err(_) => Some("a panic".into()),
    }
}

/// Whether a workflow notices what is wrong.
fn by_workflow(name: &str) -> Option<String> {
    let (_, check) = kit::ALL.iter().find(|(known, _)| *known == name).expect("it is there");
    let all = [Written::Every, Written::Outward];
    all.into_iter().find_map(|written| noticed(|| check(written, 60)))
}

/// Whether a generated workflow does, on a disk like this.
fn by_programs(prepare: impl Fn(&SimDisk) + Clone + 'static) -> Option<String> {
    (0..20).find_map(|seed| {
        [Mood::Steady, Mood::Wild].into_iter().find_map(|mood| {
            let prepare = prepare.clone();
            noticed(|| crashes(seed, 3, mood).at_most(60).disk(prepare.clone()).report())
        })
    })
}

#[test]
fn which() {
    std::panic::set_hook(Box::new(|_| {}));
    for mutation in Mutation::ALL {
        for (name, _) in kit::ALL {
            if let Some(what) = mutation.during(|| by_workflow(name)) {
                println!("{mutation:?} {name} {what}");
            }
        }
        if let Some(what) =
            mutation.during(|| noticed(|| crashes(0, 3, Mood::Steady).at_most(60).report()))
        {
            println!("{mutation:?} programs {what}");
        }
    }
}

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    for barrier in Barrier::ALL {
        let what = by_programs(|disk| disk.ignore(*barrier));
        assert!(what.is_some(), "nobody noticed that {barrier:?} is left out");
    }
}

#[test]
fn every_write_that_comes_after_its_sync_is_noticed() {
    for part in Part::ALL {
        let what = by_programs(|disk| disk.late(*part));
        assert!(what.is_some(), "nobody noticed that writes to {part:?} come late");
    }
}
