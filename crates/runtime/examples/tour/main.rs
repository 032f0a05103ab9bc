//! A tour of the scheduler in three acts: a small agent drawn as it runs in virtual time, the same run
//! ten times over, the real runtime under load, and a deadlock with its report.
//!
//! `cargo run --release -p tiffany --example tour`. Piped into a file it doesn't move; NO_COLOR is honoured.

mod agent;
#[path = "../deadlock.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod deadlock;
mod timeline;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use tiffany::prelude::*;
use tiffany::testing::TestScheduler;
use tiffany::{Event, RunError, Runtime};
use timeline::{Paint, Timeline};

const SLICE: Duration = Duration::from_millis(50);
const FRAME: Duration = Duration::from_millis(60);
const THINKING: Duration = Duration::from_millis(450);

/// Where the demo is shown.
struct Stage {
    paint: Paint,
    moving: bool,
}

impl Stage {
    fn new() -> Stage {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let moving = std::io::stdout().is_terminal() && !dumb;
        let no_color = std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty());
        let paint = if moving && !no_color { Paint::Coloured } else { Paint::Plain };
        Stage { paint, moving }
    }

    fn title(&self, act: u8, text: &str) {
        println!("\n{}  {}\n", self.paint.text(1, &format!("Act {act}")), self.paint.text(1, text));
    }

    /// Plays a timeline, column by column on a terminal, and prints the notes of its tasks.
    fn play(&self, timeline: &Timeline) {
        let columns = timeline.columns();
        let mut back = String::new();
        for until in if self.moving { 1..columns } else { 0..0 } {
            let frame = timeline.frame(until, self.paint);
            let note = timeline.notes(until).next_back().unwrap_or_default();
            let screen = format!("{back}{frame}\n{note}\n");
            // Written in one piece, and the next one over it.
            std::io::stdout().write_all(screen.as_bytes()).ok();
            back = format!("\x1b[{}A\x1b[J", frame.lines().count() + 2);
            std::thread::sleep(FRAME);
        }
        print!("{back}");
        println!("{}", timeline.frame(columns, self.paint));
        timeline.notes(columns).for_each(|note| println!("{note}"));
    }
}

/// Runs the agent in virtual time, and returns all events.
fn dry_run(thinking: Duration) -> Result<(Vec<Event>, String), RunError> {
    let mut test = TestScheduler::with(Runtime::builder().name("planner"));
    test.try_run(agent::research(thinking))?;
    Ok((test.trace().events().to_vec(), test.trace().to_string()))
}

fn hash(trace: &str) -> String {
    let mut hasher = DefaultHasher::new();
    trace.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

fn act_one(stage: &Stage) -> Result<(), RunError> {
    stage.title(1, "An agent at work, in virtual time: a row is a task, a column 50 ms");
    let began = Instant::now();
    let (events, trace) = dry_run(THINKING)?;
    let took = began.elapsed();
    stage.play(&Timeline::new(&events, SLICE));
    let seconds = events.last().map_or(0.0, |event| event.at.as_nanos() as f64 / 1e9);
    println!("\n  {seconds:.2} s on its clock, {:.2} ms on yours.\n", took.as_secs_f64() * 1e3);

    println!("  Nine more runs, and a hash of each trace ({} events):\n", events.len());
    let mut same = 1;
    print!("   {}", hash(&trace));
    for run in 2..=10 {
        let (_, again) = dry_run(THINKING)?;
        same += usize::from(again == trace);
        print!("{}  {}", if run == 6 { "\n " } else { "" }, hash(&again));
    }
    println!("\n\n  {same} of 10 are identical, byte for byte.");
    let (_, slower) = dry_run(THINKING + Duration::from_millis(1))?;
    println!("  With a reviewer who takes 1 ms longer it is {}.", hash(&slower));
    Ok(())
}

fn act_two(stage: &Stage) -> Result<(), RunError> {
    stage.title(2, "The real runtime: one thread, this machine, just now");
    let began = Instant::now();
    let sum = tiffany::try_run(async {
        let mut tasks = Vec::new();
        for n in 0..100_000_u64 {
            tasks.push(spawn(async move { n }).await);
        }
        Ok::<u64, TaskError>(gather(tasks).await?.into_iter().sum())
    })?;
    assert_eq!(sum, 4_999_950_000);
    figure("100,000 tasks spawned and gathered", began.elapsed(), 100_000, "task");

    let began = Instant::now();
    tiffany::try_run(async {
        let mut tasks = Vec::new();
        for _ in 0..100 {
            let task = spawn(async {
                for _ in 0..10_000 {
                    yield_now().await;
                }
            });
            tasks.push(task.await);
        }
        gather(tasks).await
    })?;
    figure("1,000,000 yields among 100 tasks", began.elapsed(), 1_000_000, "yield");
    if cfg!(debug_assertions) {
        println!("  (This is a debug build; with --release it is another matter.)");
    }
    Ok(())
}

fn figure(what: &str, took: Duration, count: u128, one: &str) {
    let (millis, each) = (took.as_secs_f64() * 1e3, took.as_nanos() / count);
    println!("  {what:<36} {millis:>7.1} ms  {each:>5} ns a {one}");
}

fn act_three(stage: &Stage) {
    stage.title(3, "Two tasks wait for each other: no hang, a report");
    match tiffany::try_run(deadlock::main_task(|line| println!("  {line}"))) {
        Err(RunError::Deadlock(report)) => {
            let report = report.to_string().replace("tour/../", "");
            let report = report.replace(" waits for", "\n    waits for");
            println!();
            report.lines().for_each(|line| println!("  {line}"));
        }
        other => println!("  expected a deadlock, and got {other:?}"),
    }
}

fn main() -> Result<(), RunError> {
    let stage = Stage::new();
    act_one(&stage)?;
    act_two(&stage)?;
    act_three(&stage);
    println!("\n{}\n", stage.paint.text(1, "What next"));
    println!("  change a sleep in crates/runtime/examples/tour/agent.rs, and look again");
    println!("  cargo run -p tiffany --example race      and its neighbours, one idea each");
    println!("  cargo doc -p tiffany --open              all there is, with examples");
    Ok(())
}
