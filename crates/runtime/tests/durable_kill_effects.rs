//! Processes that are killed with SIGKILL at random moments while their runs send each other messages, keep checkpoints and undo what they did: each
//! message comes once and in order, what was kept is not lost, and everything that was booked is unbooked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::durable_kit::{Dir, TO_BE_KILLED, kill_until_over};
use tiffany::durable::{StepError, receive, run_id, saga, send, step_with};
use tiffany::wal::Settings;
use tiffany::{Runtime, TaskError};

const ROUNDS: u64 = 40;
const PARTS: u64 = 4;

/// Appends a line to the ledger.
fn enter(dir: &Path, entry: &str) -> std::io::Result<()> {
    let mut ledger = OpenOptions::new().create(true).append(true).open(dir.join("ledger"))?;
    ledger.write_all(format!("{entry}\n").as_bytes())?;
    ledger.sync_all()
}

fn entering(dir: &Path, what: String) -> tiffany::durable::Step<String> {
    let dir = dir.to_owned();
    step_with("enter", move |attempt| {
        enter(&dir, &format!("{what} {}", attempt.key()))?;
        Ok::<_, StepError>(what.clone())
    })
}

async fn sender(dir: PathBuf) -> Result<u64, TaskError> {
    for round in 0..ROUNDS {
        send(run_id("taker"), "round", &round).await?;
        let to = dir.clone();
        let parts = step_with("parts", move |attempt| {
            let from: u64 = attempt.last_checkpoint()?.unwrap_or(0);
            for part in from..PARTS {
                enter(&to, &format!("part {round} {part} {}", attempt.key()))?;
                attempt.checkpoint(&(part + 1))?;
                // Safe from here on: no later attempt may begin before this.
                enter(&to, &format!("kept {round} {} {}", part + 1, attempt.key()))?;
            }
            Ok::<_, StepError>(from)
        });
        parts.input(&round).await?;
        let to = dir.clone();
        let failed = saga(async move |saga| {
            for what in ["flight", "hotel"] {
                let undo = to.clone();
                saga.step(entering(&to, format!("book {round} {what}")), move |_| {
                    entering(&undo, format!("unbook {round} {what}"))
                })
                .await?;
            }
            Err::<(), TaskError>(TaskError::failed("no money"))
        });
        let failed = failed.await.unwrap_err();
        if failed.undone().len() != 2 {
            return Err(failed.into());
        }
    }
    Ok(ROUNDS)
}

async fn taker(_: PathBuf) -> Result<Vec<u64>, TaskError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(receive("round").await?);
    }
    Ok(rounds)
}

fn be_killed(dir: &Path) {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    let builder = Runtime::builder().log_dir(dir.join("log")).log_settings(settings);
    let builder = builder.register("sender", sender).register("taker", taker);
    let mut runtime = builder.build().expect("the log opens");
    let taker = runtime.submit::<Vec<u64>>("taker", "taker", &dir).expect("it starts or goes on");
    let sender = runtime.submit::<u64>("sender", "sender", &dir).expect("it starts or goes on");
    assert_eq!(runtime.wait_for(&sender).expect("it ends well"), ROUNDS);
    let taken = runtime.wait_for(&taker).expect("it ends well");
    assert_eq!(taken, (0..ROUNDS).collect::<Vec<u64>>());
}

#[test]
fn killed_at_random_moments() {
    if let Ok(dir) = std::env::var(TO_BE_KILLED) {
        return be_killed(Path::new(&dir));
    }
    let dir = Dir::new();
    std::fs::create_dir_all(&dir.0).expect("it can be made");
    let kills = kill_until_over(module_path!(), &dir.0, 31, (10, 20, 2));
    let ledger = std::fs::read_to_string(dir.0.join("ledger")).expect("there is a ledger");
    check(&ledger, kills);
}

fn check(ledger: &str, kills: usize) {
    // By what was done: its keys.
    let mut keys: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut kept: BTreeMap<&str, u64> = BTreeMap::new();
    let mut done: BTreeSet<(&str, u64)> = BTreeSet::new();
    for line in ledger.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [what, round, which, key] = parts[..] else { panic!("{line}") };
        match what {
            "kept" => drop(kept.insert(round, which.parse().unwrap())),
            "part" => {
                let (part, safe) = (which.parse::<u64>().unwrap(), kept.get(round).copied());
                assert!(part >= safe.unwrap_or(0), "{line} after {kills} kills:\n{ledger}");
                done.insert((round, part));
            }
            _ => keys.entry(format!("{what} {round} {which}")).or_default().push(key),
        }
    }
    assert_eq!(done.len() as u64, ROUNDS * PARTS, "a part was left out:\n{ledger}");
    for round in 0..ROUNDS {
        for what in ["flight", "hotel"] {
            for act in ["book", "unbook"] {
                let keys = &keys[&format!("{act} {round} {what}")];
                assert!(keys.iter().all(|key| *key == keys[0]), "{act} {round} {what}: {keys:?}");
            }
        }
    }
}
