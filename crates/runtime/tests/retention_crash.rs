//! The threat: the power goes, or the disk is full, while runs are compacted, removed and their blobs collected; and a run is gone that should be there, comes back that was
//! told to be gone, lacks a blob, or does its steps a second time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tiffany::durable::{DurableRun, Fork, step};
use tiffany::retention::Retention;
use tiffany::testing::{Answer, Machine, Made, Receipt, Simulation, Watcher};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::{Builder, RunError, TaskError, Time, sleep};

/// Every attempt that began, by its key.
#[derive(Default)]
struct Ledger {
    begun: RefCell<BTreeMap<String, usize>>,
    disk: RefCell<SimDisk>,
}

impl Watcher for Ledger {
    fn begins(&self, made: &Made<'_>) -> bool {
        let is_on = !self.disk.borrow().is_down();
        if is_on {
            *self.begun.borrow_mut().entry(made.key.to_owned()).or_default() += 1;
        }
        is_on
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

/// Some steps, one with a large answer, and a large value.
async fn build(name: String) -> Result<String, TaskError> {
    let long: String = step("long", || Ok::<String, String>("x".repeat(300))).await?;
    for number in 0..5_u32 {
        step("part", move || Ok::<u32, String>(number)).input(&number).await?;
    }
    sleep(Duration::from_millis(5)).await;
    Ok(format!("{name} {long}"))
}

/// Goes on for long.
async fn waits(_: ()) -> Result<u32, TaskError> {
    let mut sum = 0;
    for _ in 0..20 {
        sum += step("tick", || Ok::<u32, String>(1)).await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(sum)
}

fn settings() -> Builder {
    let log = tiffany::wal::Settings {
        segment_bytes: 1 << 13,
        segments: 2,
        blob_limit: 200,
        single_syncs: 4,
        index_slack: 2,
        ..Default::default()
    };
    Builder::new().register("build", build).register("waits", waits).log_settings(log)
}

fn start(disk: &SimDisk, ledger: &Rc<Ledger>, life: u64) -> Result<Simulation, RunError> {
    ledger.disk.replace(disk.clone());
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        seed: 5,
        life,
        now: Time::from_nanos(life * 3_600_000_000_000),
        longest_work: Duration::from_millis(3),
        longest_commit: Duration::from_millis(2),
        watcher: Rc::clone(ledger) as Rc<dyn Watcher>,
    };
    Simulation::start(settings(), machine)
}

/// Drives for some simulated time, or to a failure of the disk.
fn drive(simulation: &mut Simulation, time: Duration) -> Result<(), RunError> {
    let until = simulation.now().checked_add(time).unwrap();
    loop {
        simulation.drive()?;
        match simulation.next_event() {
            Some(next) if next <= until => simulation.set_clock(next),
            _ => return Ok(()),
        }
    }
}

const NAMES: [&str; 4] = ["kept", "compacted", "removed", "ruled"];

fn named(simulation: &Simulation, name: &str) -> DurableRun<String> {
    simulation.run(name).unwrap_or_else(|| panic!("{name} is not known"))
}

/// Compacts one run, removes another, lets a rule remove a third, and collects blobs, while something goes on. What was told to be safe is noted.
fn keep(simulation: &mut Simulation, safe: &mut [bool; 3]) -> Result<(), RunError> {
    let moment = Duration::from_millis(50);
    let is_safe = |receipt: Receipt| matches!(receipt.answer(), Answer::Safe(_));
    let run = named(simulation, "compacted");
    let receipt = simulation.compact(&run)?;
    drive(simulation, moment)?;
    safe[0] = is_safe(receipt);
    simulation.collect_blobs()?;
    let run = named(simulation, "removed");
    if simulation.outcome(&run).is_some_and(|outcome| outcome.is_ok()) {
        let receipt = simulation.remove(&run)?;
        drive(simulation, moment)?;
        safe[1] = is_safe(receipt);
    }
    simulation.collect_blobs()?;
    // The one that ended first, of those that are left.
    let (_, receipt) = simulation.prune(&[Retention::new().keep(2)])?;
    drive(simulation, moment)?;
    safe[2] = is_safe(receipt);
    simulation.collect_blobs()?;
    Ok(())
}

fn value(name: &str) -> String {
    format!("{name} {}", "x".repeat(300))
}

/// What must be true whatever happened.
fn check(simulation: &mut Simulation, safe: [bool; 3], what: &str) {
    for (name, may_be_gone) in NAMES.into_iter().zip([false, false, true, true]) {
        let run = named(simulation, name);
        let gone = match simulation.outcome(&run).expect("it is over") {
            Ok(given) => {
                assert_eq!(given, value(name), "{what}: {name}");
                false
            }
            Err(error) => {
                assert_eq!(error.code(), "TFY0130", "{what}: {name}: {error}");
                true
            }
        };
        assert!(!gone || may_be_gone, "{what}: {name} is gone");
        let must_be_gone = (name == "removed" && safe[1]) || (name == "ruled" && safe[2]);
        assert!(gone || !must_be_gone, "{what}: {name} is back");
        // The id runs nothing.
        let again = simulation.submit::<String>("build", name, &name).map(drop);
        assert_eq!(again.is_err(), gone, "{what}: {name}");
    }
}

/// Four runs that are over, with the same blob, and one that goes on.
fn prepared() -> (SimDisk, Rc<Ledger>) {
    let (disk, ledger) = (SimDisk::new(), Rc::<Ledger>::default());
    let mut simulation = start(&disk, &ledger, 1).unwrap();
    // The one that the rule is about ends first.
    for name in ["ruled", "removed", "compacted", "kept"] {
        simulation.submit::<String>("build", name, &name).unwrap();
        drive(&mut simulation, Duration::from_millis(200)).unwrap();
    }
    simulation.submit::<u32>("waits", "waits", &()).unwrap();
    drive(&mut simulation, Duration::from_secs(3)).unwrap();
    drop(simulation);
    (disk, ledger)
}

fn steps_done(ledger: &Ledger) -> usize {
    ledger.begun.borrow().values().sum()
}

#[test]
fn the_power_goes_at_every_operation_of_the_disk() {
    let (disk, _) = prepared();
    let (calm, quiet) = (disk.copy(), Rc::<Ledger>::default());
    let mut simulation = start(&calm, &quiet, 2).unwrap();
    let before = calm.operation_count();
    let mut safe = [false; 3];
    keep(&mut simulation, &mut safe).unwrap();
    assert_eq!(safe, [true; 3]);
    check(&mut simulation, safe, "undisturbed");
    drop(simulation);
    let operations = calm.operation_count();
    assert!(operations > before + 20, "{before} {operations}");
    for operation in before..operations {
        for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(operation as u64)] {
            let (disk, ledger) = (disk.copy(), Rc::<Ledger>::default());
            let mut simulation = start(&disk, &ledger, 2).unwrap();
            disk.crash_at(operation, 100);
            let mut safe = [false; 3];
            drop(keep(&mut simulation, &mut safe));
            drop(simulation);
            disk.crash(survivors);
            let what = format!("operation {operation}, {survivors:?}");
            let mut simulation = start(&disk, &ledger, 3).unwrap();
            let ticks = steps_done(&ledger);
            check(&mut simulation, safe, &what);
            // All of it once more, to its end.
            keep(&mut simulation, &mut safe).unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&mut simulation, [true; 3], &what);
            drive(&mut simulation, Duration::from_secs(60)).unwrap();
            let waits: DurableRun<u32> = simulation.run("waits").unwrap();
            assert_eq!(simulation.outcome(&waits).unwrap().unwrap(), 20, "{what}");
            assert!(steps_done(&ledger) - ticks <= 20, "{what}: {:?}", ledger.begun);
            // Only the steps of the one that goes on were done.
            let mine = |key: &String| key.starts_with(&waits.uuid().to_string());
            assert!(ledger.begun.borrow().keys().all(mine), "{what}: {:?}", ledger.begun);
            // Nothing is left that nobody names: one value each for two runs, and one answer.
            let blobs = disk.paths();
            let blobs = blobs.iter().filter(|path| path.starts_with("/log/wal/blobs/")).count();
            assert_eq!(blobs, 3, "{what}");
        }
    }
}

#[test]
fn a_full_disk_stops_with_a_code_or_not_at_all_and_loses_nothing() {
    const ENOSPC: i32 = 28;
    let (disk, _) = prepared();
    let calm = disk.copy();
    let mut simulation = start(&calm, &Rc::default(), 2).unwrap();
    let before = calm.operation_count();
    keep(&mut simulation, &mut [false; 3]).unwrap();
    drop(simulation);
    for operation in before..calm.operation_count() {
        let (disk, ledger) = (disk.copy(), Rc::<Ledger>::default());
        let mut simulation = start(&disk, &ledger, 2).unwrap();
        disk.fail(operation, ENOSPC);
        let mut safe = [false; 3];
        if let Err(error) = keep(&mut simulation, &mut safe) {
            let said = error.to_string();
            assert!(said.contains("TFY0103"), "operation {operation}: {said}");
        }
        drop(simulation);
        disk.heal();
        disk.crash(Survivors::Some(operation as u64));
        let mut simulation = start(&disk, &ledger, 3).unwrap();
        check(&mut simulation, safe, &format!("operation {operation}"));
    }
}

#[test]
fn a_fork_and_the_removal_of_its_parent_survive_in_any_order_of_crashes() {
    let (disk, _) = prepared();
    let calm = disk.copy();
    let act = |simulation: &mut Simulation| -> Result<(), RunError> {
        let run = named(simulation, "removed");
        if simulation.run::<String>("fork").is_none() {
            simulation.fork(&run, 3, Fork::new().id("fork").allow("*"))?;
        }
        drive(simulation, Duration::from_millis(200))?;
        let fork = named(simulation, "fork");
        // It may have been cut off before it was over.
        assert!(simulation.outcome(&fork).is_some());
        match simulation.remove(&run) {
            Ok(_) => drive(simulation, Duration::from_millis(50))?,
            Err(error) => assert_eq!(error.code(), "TFY0130"),
        }
        simulation.collect_blobs().map(drop)
    };
    let mut simulation = start(&calm, &Rc::default(), 2).unwrap();
    let before = calm.operation_count();
    act(&mut simulation).unwrap();
    drop(simulation);
    for operation in before..calm.operation_count() {
        for survivors in [Survivors::Nothing, Survivors::Some(operation as u64)] {
            let disk = disk.copy();
            let mut simulation = start(&disk, &Rc::default(), 2).unwrap();
            disk.crash_at(operation, 60);
            drop(act(&mut simulation));
            drop(simulation);
            disk.crash(survivors);
            let mut simulation = start(&disk, &Rc::default(), 3).unwrap();
            act(&mut simulation).unwrap();
            let fork = named(&simulation, "fork");
            let given = simulation.outcome(&fork).unwrap();
            let what = format!("operation {operation}, {survivors:?}");
            assert_eq!(given.unwrap_or_else(|e| panic!("{what}: {e}")), value("removed"), "{what}");
        }
    }
}
