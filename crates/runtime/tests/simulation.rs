//! A simulated runtime repeats itself: one seed makes the same bytes on the disk, another one another order of
//! events, and no other thread is needed for steps, timeouts, retries, queues or the log.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tiffany::durable::{QueueSettings, Retry, Spawner, step, step_async, step_with};
use tiffany::testing::{Answer, Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::SimDisk;
use tiffany::{Builder, RunError, Settlement, TaskError, Time, gather, new_uuid, sleep, try_spawn};

/// Notes what is done.
#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl Watcher for Notes {
    fn begins(&self, made: &Made<'_>) -> bool {
        self.0.borrow_mut().push(format!("{} {} {}", made.kind, made.name, made.number));
        true
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

fn machine(seed: u64, disk: &SimDisk, notes: &Rc<Notes>) -> Machine {
    Machine {
        disk: Arc::new(disk.clone()),
        seed,
        life: 1,
        now: Time::ZERO,
        longest_work: Duration::from_millis(50),
        longest_commit: Duration::from_millis(5),
        watcher: Rc::clone(notes) as Rc<dyn Watcher>,
    }
}

async fn work(count: u64) -> Result<(u64, String), TaskError> {
    let mut tasks = Vec::new();
    for number in 0..count {
        tasks.push(
            try_spawn(async move {
                let twice = step("twice", move || Ok::<u64, String>(2 * number)).queue("narrow");
                let twice = twice.input(&number).await?;
                sleep(Duration::from_millis(twice)).await;
                let flaky = step_with("flaky", move |attempt| match attempt.number() {
                    1 => Err("not at first".to_string()),
                    _ => Ok(twice + 1),
                });
                flaky.retry(Retry::times(3)).await
            })
            .await,
        );
    }
    let all = gather(tasks).await?;
    let spawner = Spawner::new(|_| unreachable!("a simulation does it itself"));
    let sum: u64 = step_async("sum", &spawner, move |_| {
        let sum = all.iter().sum::<u64>();
        async move { Ok::<u64, String>(sum) }
    })
    .await?;
    Ok((sum, new_uuid().await.to_string()))
}

fn settings() -> Builder {
    let narrow = QueueSettings { concurrency: Some(2), rate: None };
    let log = tiffany::wal::Settings { segment_bytes: 1 << 14, ..Default::default() };
    Builder::new().queue("narrow", narrow).register("work", work).log_settings(log)
}

type Files = Vec<(PathBuf, Vec<u8>)>;

/// What one run leaves: the disk, the order of its steps, its outcome.
fn run(seed: u64) -> (Files, Vec<String>, (u64, String)) {
    let (disk, notes) = (SimDisk::new(), Rc::default());
    let mut simulation = Simulation::start(settings(), machine(seed, &disk, &notes)).unwrap();
    let (run, receipt) = simulation.submit::<(u64, String)>("work", "w", &5).unwrap();
    assert_eq!(receipt.answer(), Answer::None, "nobody is told before it is safe");
    let outcome = loop {
        simulation.drive().unwrap();
        match simulation.outcome(&run) {
            Some(outcome) => break outcome.unwrap(),
            None => simulation.set_clock(simulation.next_event().expect("it goes on")),
        }
    };
    assert_eq!(receipt.answer(), Answer::Safe(Settlement::Accepted));
    drop(simulation);
    let bytes = |path: PathBuf| (path.clone(), disk.contents(&path).unwrap());
    (disk.paths().into_iter().map(bytes).collect(), notes.0.take(), outcome)
}

#[test]
fn one_seed_makes_the_same_bytes() {
    let (disk, notes, outcome) = run(7);
    assert_eq!(outcome.0, 25);
    let again = run(7);
    assert!(disk == again.0, "the disks differ");
    assert_eq!((notes, outcome), (again.1, again.2));
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        assert!(!name.starts_with("tiffany"), "there is a thread {name}");
    }
}

#[test]
fn other_seeds_make_other_orders() {
    let all: Vec<_> = (0..8).map(run).collect();
    let orders: BTreeSet<_> = all.iter().map(|(_, notes, _)| notes.clone()).collect();
    assert!(orders.len() > 4, "{} orders of 8 seeds", orders.len());
    assert!(all.iter().all(|(_, _, outcome)| outcome.0 == 25));
    assert!(all.iter().all(|(_, notes, _)| notes.len() == 16));
}

#[test]
fn a_step_that_takes_longer_than_its_time_is_given_up_and_its_result_comes_too_late() {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let (disk, notes) = (SimDisk::new(), Rc::default());
    let settings = Builder::new().register("hasty", |(): ()| async {
        let slow = step("slow", || Ok::<u32, String>(DONE.fetch_add(1, Ordering::Relaxed)));
        slow.timeout(Duration::from_nanos(1)).await
    });
    let mut machine = machine(3, &disk, &notes);
    machine.longest_commit = Duration::ZERO;
    let mut simulation = Simulation::start(settings, machine).unwrap();
    let (run, _) = simulation.submit::<u32>("hasty", "h", &()).unwrap();
    let outcome = loop {
        simulation.drive().unwrap();
        match simulation.outcome(&run) {
            Some(outcome) => break outcome,
            None => simulation.set_clock(simulation.next_event().expect("it goes on")),
        }
    };
    let Err(RunError::Failed(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("took longer than 1ns"), "{error}");
}

#[test]
fn what_comes_for_a_run_that_has_just_ended_is_refused_and_stops_nobody() {
    let (disk, notes) = (SimDisk::new(), Rc::default());
    let settings = Builder::new()
        .register("short", |(): ()| async { Ok::<u32, TaskError>(1) })
        .register("long", |(): ()| async { tiffany::durable::receive::<u32>("word").await });
    let mut simulation = Simulation::start(settings, machine(3, &disk, &notes)).unwrap();
    let (short, _) = simulation.submit::<u32>("short", "s", &()).unwrap();
    let (long, _) = simulation.submit::<u32>("long", "l", &()).unwrap();
    simulation.drive().unwrap();
    assert!(simulation.outcome(&short).is_none(), "its end is not safe yet");
    for refused in [simulation.send(&short, "word", &1), simulation.cancel(&short)] {
        assert_eq!(refused.err().expect("it is refused").code(), "TFY0042");
    }
    simulation.send(&long, "word", &2).unwrap();
    let outcome = loop {
        simulation.drive().unwrap();
        match simulation.outcome(&long) {
            Some(outcome) => break outcome.unwrap(),
            None => simulation.set_clock(simulation.next_event().expect("it goes on")),
        }
    };
    assert_eq!((outcome, simulation.outcome(&short).unwrap().unwrap()), (2, 1));
}
