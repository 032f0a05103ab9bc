//! Workflows generated from seeds, crashed at random places. `cargo xtask sim` does this with other
//! seeds for any length of time.

use tiffany_sim::programs::{Mood, crashes};

fn many(seeds: std::ops::Range<u64>, mood: Mood) {
    let mut simulations = 0;
    for seed in seeds {
        let count = 1 + seed % 3;
        simulations += crashes(seed, count, mood).at_most(15).check().simulations;
    }
    assert!(simulations > 60, "{simulations} simulations show nothing");
}

#[test]
fn steady_programs_come_to_the_same_0() {
    many(0..6, Mood::Steady);
}

#[test]
fn steady_programs_come_to_the_same_1() {
    many(6..12, Mood::Steady);
}

#[test]
fn wild_programs_keep_the_rules_0() {
    many(100..106, Mood::Wild);
}

#[test]
fn wild_programs_keep_the_rules_1() {
    many(106..112, Mood::Wild);
}
