//! A process that is killed with SIGKILL at random moments, again and again, against a ledger: a file of its own
//! to which every step appends a synced line when it is done. Nothing that was written down is done again, and
//! nothing is left out.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::durable_kit::{TO_BE_KILLED, kill_until_over};
use tiffany::durable::step;
use tiffany::wal::Settings;
use tiffany::{Runtime, TaskError, gather, sleep, try_spawn};

const TASKS: usize = 3;
const ROUNDS: usize = 80;

/// Appends a line to the ledger, and gives its number.
fn enter(ledger: &Path, entry: &str) -> std::io::Result<usize> {
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(ledger)?;
    file.write_all(format!("{entry}\n").as_bytes())?;
    file.sync_all()?;
    let mut text = String::new();
    File::open(ledger)?.read_to_string(&mut text)?;
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines.iter().rposition(|line| *line == entry).expect("it was just written"))
}

async fn work(dir: PathBuf) -> Result<Vec<Vec<usize>>, TaskError> {
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let ledger = dir.join("ledger");
        tasks.push(
            try_spawn(async move {
                let mut lines = Vec::new();
                for round in 0..ROUNDS {
                    let ledger = ledger.clone();
                    let line = step("enter", move || enter(&ledger, &format!("{task} {round}")));
                    lines.push(line.input(&(task, round)).await?);
                    sleep(Duration::from_millis(1)).await;
                }
                Ok::<Vec<usize>, TaskError>(lines)
            })
            .await,
        );
    }
    gather(tasks).await
}

/// What the process does that is killed.
fn be_killed(dir: &Path) {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    let builder = Runtime::builder().log_dir(dir.join("log")).log_settings(settings);
    let runtime = builder.register("work", work).build();
    let mut runtime = runtime.expect("the log opens");
    let run =
        runtime.submit::<Vec<Vec<usize>>>("work", "killed", &dir).expect("it starts or goes on");
    let lines = runtime.wait_for(&run).expect("it ends well");
    std::fs::write(dir.join("outcome"), format!("{lines:?}")).expect("it can be written");
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
        "killed {kills} times in {runs} runs: every step was done, in order, and none again whose result was written down"
    );
}

/// One run to its end, and how often its process was killed.
fn one_run(number: u64) -> usize {
    let dir = std::env::temp_dir().join(format!("tiffany-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("it can be made");
    let kills = kill_until_over(module_path!(), &dir, 11 + number, (6, 8, 3));
    let ledger = std::fs::read_to_string(dir.join("ledger")).expect("there is a ledger");
    let outcome = std::fs::read_to_string(dir.join("outcome")).expect("there is an outcome");
    let entries: Vec<&str> = ledger.lines().collect();
    let mut used = Vec::new();
    for task in 0..TASKS {
        let mut last = None;
        let mut lines = Vec::new();
        for round in 0..ROUNDS {
            let entry = format!("{task} {round}");
            let at = entries.iter().rposition(|line| **line == entry);
            assert!(at > last, "task {task} did round {round} out of order:\n{ledger}");
            last = at;
            lines.push(at.expect("every round was done"));
        }
        used.push(lines);
    }
    // The result that was used is that of the last time the step was done: it was never done after that.
    assert_eq!(outcome, format!("{used:?}"), "after {kills} kills:\n{ledger}");
    let again = entries.len() - TASKS * ROUNDS;
    assert!(again <= kills * TASKS, "{again} steps were done again after {kills} kills");
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    kills
}
