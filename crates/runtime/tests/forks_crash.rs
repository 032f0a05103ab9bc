//! The threat: the power goes while a fork is made, refused, allowed or under way, and the fork is there in part, gone though it was told to be safe, or does again what
//! must not be done twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tiffany::durable::{DurableRun, Fork, step};
use tiffany::testing::{Answer, Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::{Builder, RunError, TaskError, Time, random, sleep};

/// Every attempt that began, by its key and its name.
#[derive(Default)]
struct Ledger {
    begun: RefCell<BTreeMap<(String, &'static str), usize>>,
    disk: RefCell<SimDisk>,
}

impl Watcher for Ledger {
    fn begins(&self, made: &Made<'_>) -> bool {
        let is_on = !self.disk.borrow().is_down();
        if is_on {
            *self.begun.borrow_mut().entry((made.key.to_owned(), made.name)).or_default() += 1;
        }
        is_on
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

/// Looks for a price, pays once, and tells.
async fn buy(_: ()) -> Result<String, TaskError> {
    let price: u32 = step("price", || Ok::<u32, String>(10)).await?;
    let lot = random().await;
    sleep(Duration::from_millis(5)).await;
    let paid: u32 =
        step("pay", move || Ok::<u32, String>(price)).input(&price).at_most_once().await?;
    step("tell", move || Ok::<u32, String>(paid)).input(&paid).await?;
    Ok(format!("{paid} {lot}"))
}

fn settings() -> Builder {
    let log = tiffany::wal::Settings { segment_bytes: 1 << 13, ..Default::default() };
    Builder::new().register("buy", buy).log_settings(log)
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

/// Drives to where nothing happens any more, or to a failure of the disk.
fn drive(simulation: &mut Simulation) -> Result<(), RunError> {
    loop {
        simulation.drive()?;
        match simulation.next_event() {
            Some(time) => simulation.set_clock(time),
            None => return Ok(()),
        }
    }
}

/// Forks, lets it be refused, allows what it needs, and drives to the end. Tells what was told to be safe.
fn life(
    simulation: &mut Simulation,
    run: &DurableRun<String>,
    at: u64,
) -> (bool, Result<(), RunError>) {
    let mut is_safe = false;
    let mut act = || {
        let known = simulation.run::<String>("what if");
        let (fork, receipt) = match known {
            Some(fork) => (fork, None),
            None => {
                let fork = Fork::new().set_reply(&20).map_err(RunError::Failed)?.id("what if");
                let (fork, receipt) = simulation.fork(run, at, fork)?;
                (fork, Some(receipt))
            }
        };
        drive(simulation)?;
        is_safe = receipt.is_none_or(|receipt| matches!(receipt.answer(), Answer::Safe(_)));
        for name in ["pay", "tell"] {
            // It may be over, if it had been allowed before the power went.
            let refused = simulation.outcome(&fork).and_then(Result::err);
            if refused.is_some_and(|error| error.to_string().contains("TFY0119")) {
                simulation.allow(&fork, name)?;
                drive(simulation)?;
            }
        }
        Ok(())
    };
    let done = act();
    (is_safe, done)
}

#[test]
fn the_power_goes_at_every_operation_of_the_disk() {
    // A parent that is over.
    let (disk, ledger) = (SimDisk::new(), Rc::<Ledger>::default());
    let mut simulation = start(&disk, &ledger, 1).unwrap();
    let (run, _) = simulation.submit::<String>("buy", "buy", &()).unwrap();
    drive(&mut simulation).unwrap();
    let value = simulation.outcome(&run).unwrap().unwrap();
    drop(simulation);
    let file = |run: &DurableRun<String>| format!("/log/wal/{}.wal", run.uuid());
    let parent = disk.contents(file(&run).as_ref()).unwrap();
    let text = String::from_utf8(parent.clone()).unwrap();
    let at = text.lines().position(|line| line.contains("EffectResult")).unwrap() as u64 + 1;
    // What comes of it undisturbed.
    let (calm, quiet) = (disk.copy(), Rc::<Ledger>::default());
    let mut simulation = start(&calm, &quiet, 2).unwrap();
    let before = calm.operation_count();
    life(&mut simulation, &run, at).1.unwrap();
    let fork = simulation.run::<String>("what if").unwrap();
    let forked = simulation.outcome(&fork).unwrap().unwrap();
    assert!(forked.starts_with("20 "), "{forked}");
    assert_ne!(forked.split(' ').nth(1), value.split(' ').nth(1), "another seed from there on");
    drop(simulation);
    let operations = calm.operation_count();
    assert!(operations > before + 10, "{before} {operations}");
    for operation in before..operations {
        for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(operation as u64)] {
            let (disk, ledger) = (disk.copy(), Rc::<Ledger>::default());
            let mut simulation = start(&disk, &ledger, 2).unwrap();
            disk.crash_at(operation, 100);
            let (is_safe, _) = life(&mut simulation, &run, at);
            drop(simulation);
            disk.crash(survivors);
            let mut simulation = start(&disk, &ledger, 3).unwrap();
            let what = format!("operation {operation}, {survivors:?}");
            let known = simulation.run::<String>("what if").is_some();
            assert!(known || !is_safe, "{what}: it was told to be safe");
            life(&mut simulation, &run, at).1.unwrap();
            let fork = simulation.run::<String>("what if").unwrap();
            let begun = ledger.begun.borrow();
            let pays: usize =
                begun.iter().filter(|((_, name), _)| *name == "pay").map(|(_, count)| count).sum();
            assert!(pays <= 1, "{what}: {begun:?}");
            assert!(
                begun.keys().all(|(key, _)| key.starts_with(&fork.uuid().to_string())),
                "{begun:?}"
            );
            match simulation.outcome(&fork) {
                Some(Ok(outcome)) => assert_eq!(outcome, forked, "{what}"),
                Some(Err(error)) => {
                    assert!(error.to_string().contains("TFY0040"), "{what}: {error}");
                }
                None => panic!("{what}: it does not end"),
            }
            drop(simulation);
            assert_eq!(disk.contents(file(&run).as_ref()).unwrap(), parent, "{what}");
        }
    }
}
