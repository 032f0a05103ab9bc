//! A process that is killed with SIGKILL at random moments, against a ledger with the key of every piece of work that was
//! done: what may be done at most once is never done twice, and what is done again is done under its key.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::durable_kit::{TO_BE_KILLED, kill_until_over};
use tiffany::durable::{Retry, step_with};
use tiffany::wal::Settings;
use tiffany::{ErrorKind, Runtime, TaskError};

const ROUNDS: usize = 100;

/// Appends a line to the ledger, and takes its time, so that it is often cut off.
fn enter(dir: &Path, entry: &str) -> std::io::Result<()> {
    std::thread::sleep(Duration::from_millis(1));
    let mut ledger = OpenOptions::new().create(true).append(true).open(dir.join("ledger"))?;
    ledger.write_all(format!("{entry}\n").as_bytes())?;
    ledger.sync_all()?;
    std::thread::sleep(Duration::from_millis(1));
    Ok(())
}

/// How each round's work that may be done at most once ended.
async fn work(dir: PathBuf) -> Result<Vec<String>, TaskError> {
    let mut ends = Vec::new();
    for round in 0..ROUNDS {
        let to = dir.clone();
        let once = step_with("once", move |attempt| {
            enter(&to, &format!("once {round} {} {}", attempt.number(), attempt.key()))
        });
        ends.push(match once.at_most_once().input(&round).await {
            Ok(()) => "done".into(),
            Err(error) if error.kind() == ErrorKind::InDoubt => "in doubt".into(),
            Err(error) => return Err(error),
        });
        let to = dir.clone();
        let again = step_with("again", move |attempt| {
            enter(&to, &format!("again {round} {} {}", attempt.number(), attempt.key()))?;
            // The first attempt of every third round fails, and is tried again.
            match (round % 3, attempt.number()) {
                (0, 1) => Err(std::io::Error::other("not yet")),
                _ => Ok(()),
            }
        });
        again.retry(Retry::times(2).first(Duration::from_millis(2))).input(&round).await?;
    }
    Ok(ends)
}

/// What the process does that is killed.
fn be_killed(dir: &Path) {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    let builder = Runtime::builder().log_dir(dir.join("log")).log_settings(settings);
    let mut runtime = builder.register("work", work).build().expect("the log opens");
    let run = runtime.submit::<Vec<String>>("work", "killed", &dir).expect("it starts or goes on");
    let ends = runtime.wait_for(&run).expect("it ends well");
    std::fs::write(dir.join("outcome"), ends.join("\n")).expect("it can be written");
}

#[test]
fn killed_at_random_moments() {
    if let Ok(dir) = std::env::var(TO_BE_KILLED) {
        return be_killed(Path::new(&dir));
    }
    // One run, or as many as it takes to kill so often.
    let wanted = std::env::var("TIFFANY_KILLS").ok().and_then(|count| count.parse().ok());
    let (mut kills, mut runs) = (0, 0);
    while runs == 0 || kills < wanted.unwrap_or(0) {
        kills += one_run(runs);
        runs += 1;
    }
    println!(
        "killed {kills} times in {runs} runs: at most once never twice, the others only under their key, with attempts that count on"
    );
}

/// One run to its end, and how often its process was killed.
fn one_run(number: u64) -> usize {
    let dir = std::env::temp_dir().join(format!("tiffany-kill-kinds-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("it can be made");
    let kills = kill_until_over(module_path!(), &dir, 23 + number, (6, 8, 3));
    let ledger = std::fs::read_to_string(dir.join("ledger")).expect("there is a ledger");
    let outcome = std::fs::read_to_string(dir.join("outcome")).expect("there is an outcome");
    // By kind and round: the numbers and keys of its attempts.
    let mut done: BTreeMap<(&str, usize), Vec<(u64, &str)>> = BTreeMap::new();
    for line in ledger.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [kind, round, number, key] = parts[..] else { panic!("{line}") };
        let (round, number) = (round.parse().unwrap(), number.parse().unwrap());
        done.entry((kind, round)).or_default().push((number, key));
    }
    let ends: Vec<&str> = outcome.lines().collect();
    let mut keys = Vec::new();
    for (round, end) in ends.iter().enumerate() {
        let once = done.get(&("once", round)).map_or(0, Vec::len);
        match *end {
            "done" => assert_eq!(once, 1, "round {round} after {kills} kills:\n{ledger}"),
            _ => assert!(once <= 1, "round {round} was done {once} times:\n{ledger}"),
        }
        let again = &done[&("again", round)];
        let key = again[0].1;
        assert!(again.iter().all(|(_, other)| *other == key), "round {round}: {again:?}");
        let grows = again.windows(2).all(|pair| pair[0].0 < pair[1].0);
        assert!(grows, "round {round} has the same attempt twice: {again:?}");
        keys.push(key);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((ends.len(), keys.len()), (ROUNDS, ROUNDS));
    let doubts = ends.iter().filter(|end| **end == "in doubt").count();
    assert!(doubts <= kills, "{doubts} in doubt after {kills} kills");
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    kills
}
