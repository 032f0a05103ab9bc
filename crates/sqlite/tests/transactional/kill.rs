//! A process is killed with SIGKILL, between any two stages of an attempt and at random moments.
//! The user's table must have each effect exactly once.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tiffany::TaskError;
use tiffany::durable::StepError;
use tiffany_sqlite::{Sqlite, Stage};

use super::{Dir, builder};

const STAGES: [Stage; 5] =
    [Stage::Begun, Stage::LookedUp, Stage::Done, Stage::Written, Stage::Committed];

fn die() {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("it can be killed");
    std::thread::sleep(Duration::from_secs(60));
}

/// The process that is killed. It dies when a stage is reached for the `nth` time.
fn be_killed(dir: &Path, rounds: i64, die_at: Option<(Stage, u64)>) {
    let reached = AtomicU64::new(0);
    let db = Sqlite::new(dir.join("db")).on_stage(move |stage, _| {
        if let Some((at, nth)) = die_at
            && stage == at
            && reached.fetch_add(1, Ordering::SeqCst) + 1 == nth
        {
            die();
        }
    });
    let work = move |()| {
        let db = db.clone();
        async move {
            let mut sum = 0;
            for round in 0..rounds {
                let step = db.step("enter", move |transaction, attempt| {
                    let enter = "INSERT INTO effect VALUES (?1, ?2)";
                    transaction.execute(enter, (round, attempt.key()))?;
                    let sum = "SELECT sum(round) FROM effect";
                    Ok::<i64, StepError>(transaction.query_row(sum, [], |row| row.get(0))?)
                });
                sum = step.input(&round).await?;
            }
            Ok::<i64, TaskError>(sum)
        }
    };
    let mut runtime = builder(&dir.join("log")).register("work", work).build().expect("it opens");
    let run = runtime.submit::<i64>("work", "killed", &()).expect("it starts or goes on");
    let sum = runtime.wait_for(&run).expect("it ends well");
    std::fs::write(dir.join("outcome"), sum.to_string()).expect("it can be written");
}

/// Starts this test again as the process that is killed.
fn start(test: &str, dir: &Dir, what: &str) -> std::process::Child {
    Command::new(std::env::current_exe().expect("it has a name"))
        .args(["--exact", test, "--nocapture"])
        .env("TIFFANY_TO_BE_KILLED", &dir.0)
        .env("TIFFANY_DIE_AT", what)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

fn told() -> Option<(std::path::PathBuf, String)> {
    let dir = std::env::var_os("TIFFANY_TO_BE_KILLED")?;
    Some((dir.into(), std::env::var("TIFFANY_DIE_AT").unwrap_or_default()))
}

fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(9)
}

fn check(dir: &Dir, rounds: i64, kills: usize) {
    let once: Vec<(i64, i64)> = (0..rounds).map(|round| (round, 1)).collect();
    assert_eq!(dir.effects(), once, "after {kills} kills");
    let outcome = std::fs::read_to_string(dir.0.join("outcome")).expect("there is an outcome");
    assert_eq!(outcome, (0..rounds).sum::<i64>().to_string());
}

#[test]
fn killed_between_any_two_parts_of_an_attempt() {
    const ROUNDS: i64 = 3;
    if let Some((dir, what)) = told() {
        let (stage, nth) = what.split_once(' ').expect("a stage and a number");
        let stage = STAGES.into_iter().find(|at| format!("{at:?}") == stage);
        let nth = nth.parse().expect("a number");
        return be_killed(&dir, ROUNDS, stage.map(|stage| (stage, nth)));
    }
    for stage in STAGES {
        for nth in 1..=ROUNDS {
            let dir = Dir::new();
            let test = "kill::killed_between_any_two_parts_of_an_attempt";
            let mut kills = 0;
            // The first process dies in the nth round; each later one dies in its first.
            for nth in [nth, 1] {
                let status =
                    start(test, &dir, &format!("{stage:?} {nth}")).wait().expect("it ends");
                if was_killed(status) {
                    kills += 1;
                } else {
                    // The last round was committed, so no stage was left to be reached.
                    assert!(status.success(), "{stage:?} {nth}");
                }
            }
            assert!(kills >= 1, "{stage:?} {nth}: never killed, so this shows nothing");
            assert!(start(test, &dir, "none 0").wait().expect("it ends").success());
            check(&dir, ROUNDS, kills);
        }
    }
}

#[test]
fn killed_at_random_moments() {
    const ROUNDS: i64 = 250;
    if let Some((dir, _)) = told() {
        return be_killed(&dir, ROUNDS, None);
    }
    let dir = Dir::new();
    let (mut kills, mut state) = (0, 29u64);
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(50), "it does not come to its end");
        let mut child = start("kill::killed_at_random_moments", &dir, "");
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // The intervals grow, so that a slow machine finishes too.
        std::thread::sleep(Duration::from_millis(6 + (state >> 33) % (8 + 2 * kills as u64)));
        if let Some(status) = child.try_wait().expect("it can be asked") {
            assert!(status.success());
            break;
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ended");
        kills += 1;
    }
    assert!(kills >= 5, "killed {kills} times only, so this shows nothing");
    check(&dir, ROUNDS, kills);
}
