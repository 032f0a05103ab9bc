//! Workflows made from seeds, crashed at drawn places. `cargo xtask sim` does the same with other seeds for as long as
//! one likes.

use tiffany_sim::programs::{Mood, crashes};

fn many(seeds: std::ops::Range<u64>, mood: Mood, disasters: usize) {
    let mut simulations = 0;
    for seed in seeds {
        let count = 1 + seed % 3;
        simulations += crashes(seed, count, mood).at_most(disasters).check().simulations;
    }
    assert!(simulations > 100, "{simulations} simulations show nothing");
}

#[test]
fn steady_programs_come_to_the_same() {
    many(0..12, Mood::Steady, 40);
}

#[test]
fn wild_programs_keep_the_rules() {
    many(100..112, Mood::Wild, 40);
}
