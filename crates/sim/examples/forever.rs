//! Crashes generated workflows at random places for any length of time:
//! `cargo xtask sim --seconds 60 --seed 7`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tiffany_sim::Plan;
use tiffany_sim::programs::{Mood, crashes};

/// The number of disasters per program.
const DISASTERS: usize = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut seconds, mut seed, mut only) = (60, 0, None);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let value = rest.next().map_or("", String::as_str);
        let is_fine = match name.as_str() {
            "--seconds" => value.parse().map(|number| seconds = number).is_ok(),
            "--seed" => value.parse().map(|number| seed = number).is_ok(),
            "--only" => value.parse::<Plan>().map(|plan| only = Some(plan)).is_ok(),
            _ => false,
        };
        if !is_fine {
            eprintln!("usage: sim [--seconds N] [--seed S] [--only PLAN]");
            return ExitCode::from(2);
        }
    }
    let began = Instant::now();
    let (mut programs, mut simulations, mut disturbed) = (0u64, 0, 0);
    let mut next = only.as_ref().map_or(seed, |plan| plan.seed);
    while began.elapsed() < Duration::from_secs(seconds) {
        // The seed determines the mood, so that the seed alone repeats the check.
        let mood = if next % 2 == 0 { Mood::Steady } else { Mood::Wild };
        let mut check = crashes(next / 2, 1 + next % 4, mood).seeds(next..next + 1);
        check = match &only {
            Some(plan) => check.only(plan.clone()),
            None => check.at_most(DISASTERS),
        };
        match check.report() {
            Ok(report) => {
                simulations += report.simulations;
                disturbed += report.crashes;
            }
            Err(failure) => {
                eprintln!(
                    "{}\nrepeat it with\n  cargo xtask sim --only '{}'",
                    failure.what, failure.plan
                );
                return ExitCode::FAILURE;
            }
        }
        programs += 1;
        if only.is_some() {
            break;
        }
        next += 1;
    }
    println!(
        "{simulations} simulations of {programs} programs (seeds {seed} to {}), {disturbed} crashes in {:.1?}: nothing was wrong",
        next.saturating_sub(1),
        began.elapsed()
    );
    ExitCode::SUCCESS
}
