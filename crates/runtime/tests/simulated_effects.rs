//! Checkpoints, sagas and messages between runs on a simulated machine, which crashes in the middle of every single operation of its
//! disk, or whose log fails there: after a restart both runs come to their end, and every message was received once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tiffany::durable::{DurableRun, receive, run_id, saga, send, step, step_with};
use tiffany::testing::{Machine, Made, Simulation, Watcher};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::{Builder, TaskError, Time, join};

/// Notes which step was done under which key.
#[derive(Default)]
struct Ledger(RefCell<Vec<(String, &'static str)>>);

impl Watcher for Ledger {
    fn begins(&self, made: &Made<'_>) -> bool {
        self.0.borrow_mut().push((made.key.to_owned(), made.name));
        true
    }

    fn ended(&self, _: &Made<'_>, _: Result<&str, &TaskError>) {}
}

type Sent = (u64, String, Vec<&'static str>);

/// Counts, books and fails, and sends all along.
async fn sends(_: ()) -> Result<(u64, String, Vec<String>), TaskError> {
    let to = run_id("taker");
    send(to, "number", &1).await?;
    let counted = step_with("count", |attempt| {
        let from = attempt.last_checkpoint()?.unwrap_or(0);
        (from..4).try_for_each(|number: u64| attempt.checkpoint(&(number + 1)))?;
        Ok::<u64, tiffany::durable::StepError>(4)
    });
    let (counted, sent) = join!(counted.into_future(), send(to, "number", &2));
    sent?;
    let failed = saga(async move |saga| {
        for name in ["flight", "hotel"] {
            saga.step(step(name, move || Ok::<_, String>(name.to_string())), |_| {
                step("undo", || Ok::<_, String>(()))
            })
            .await?;
        }
        send(run_id("taker"), "number", &3).await?;
        Err::<(), TaskError>(TaskError::failed("enough"))
    });
    let failed = failed.await.unwrap_err();
    send(to, "number", &4).await?;
    let undone = failed.undone().iter().map(ToString::to_string).collect();
    Ok((counted?, failed.cause().message().to_string(), undone))
}

async fn takes(_: ()) -> Result<Vec<u64>, TaskError> {
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(receive("number").await?);
    }
    Ok(taken)
}

fn expected() -> Sent {
    (4, "enough".into(), vec!["hotel", "flight"])
}

struct World {
    disk: SimDisk,
    ledger: Rc<Ledger>,
    seed: u64,
    life: u64,
    now: Time,
}

/// How a life of the machine ended.
enum End {
    Done((u64, String, Vec<String>), Vec<u64>),
    LogFailed(String),
}

impl World {
    fn new(seed: u64) -> World {
        World { disk: SimDisk::new(), ledger: Rc::default(), seed, life: 0, now: Time::ZERO }
    }

    /// One life of the machine.
    fn live(&mut self) -> End {
        self.life += 1;
        let machine = Machine {
            disk: Arc::new(self.disk.clone()),
            seed: self.seed,
            life: self.life,
            now: self.now,
            longest_work: Duration::from_millis(20),
            longest_commit: Duration::from_millis(5),
            watcher: Rc::clone(&self.ledger) as Rc<dyn Watcher>,
        };
        let log = tiffany::wal::Settings { segment_bytes: 1 << 14, ..Default::default() };
        let settings = Builder::new().register("sends", sends).register("takes", takes);
        let mut simulation = match Simulation::start(settings.log_settings(log), machine) {
            Ok(simulation) => simulation,
            Err(error) => return End::LogFailed(error.to_string()),
        };
        let taker = simulation.submit::<Vec<u64>>("takes", "taker", &());
        let sender = simulation.submit("sends", "sender", &());
        let (Ok((taker, _)), Ok((sender, _))) = (taker, sender) else {
            return End::LogFailed("it cannot be submitted".into());
        };
        let end = self.drive(&mut simulation, &sender, &taker);
        self.now = simulation.now();
        end
    }

    fn drive(
        &self,
        simulation: &mut Simulation,
        sender: &DurableRun<(u64, String, Vec<String>)>,
        taker: &DurableRun<Vec<u64>>,
    ) -> End {
        for _ in 0..10_000 {
            if let Err(error) = simulation.drive() {
                return End::LogFailed(error.to_string());
            }
            match (simulation.outcome(sender), simulation.outcome(taker)) {
                (Some(sent), Some(taken)) => return End::Done(sent.unwrap(), taken.unwrap()),
                _ => match simulation.next_event() {
                    Some(time) => simulation.set_clock(time),
                    None => panic!("nothing will ever happen"),
                },
            }
        }
        panic!("it does not come to its end");
    }

    /// Lives until both runs are over, and looks at what they did.
    fn check(&mut self, what: &str) {
        for _ in 0..5 {
            let End::Done((counted, failed, undone), taken) = self.live() else { continue };
            let undone: Vec<&str> = undone.iter().map(String::as_str).collect();
            let (all, cause, names) = expected();
            assert_eq!((counted, &failed, undone), (all, &cause, names), "{what}");
            assert_eq!(taken, [1, 2, 3, 4], "{what}");
            // What is done again is done under its key, so there are five of them in all.
            let mut keys = self.ledger.0.borrow().clone();
            keys.sort_unstable();
            keys.dedup();
            let names: Vec<&str> = keys.iter().map(|(_, name)| *name).collect();
            assert_eq!(names.len(), 5, "{what}: {keys:?}");
            return;
        }
        panic!("{what}: it does not come to its end");
    }
}

/// How many operations of the disk an undisturbed life has.
fn operations(seed: u64) -> usize {
    let mut world = World::new(seed);
    world.check("undisturbed");
    world.disk.operations().len()
}

#[test]
fn a_crash_in_any_operation_of_the_disk() {
    let seed = 5;
    let all = operations(seed);
    assert!(all > 50, "{all} operations");
    for operation in 0..all {
        for survivors in [Survivors::Nothing, Survivors::All, Survivors::Some(operation as u64)] {
            let mut world = World::new(seed);
            world.disk.crash_at(operation, operation % 700);
            let End::LogFailed(_) = world.live() else { continue };
            world.disk.crash(survivors);
            world.check(&format!("crash in operation {operation}, {survivors:?}"));
        }
    }
}

#[test]
fn a_log_that_fails_in_any_operation_while_steps_are_under_way() {
    const EIO: i32 = 5;
    let seed = 6;
    let (mut failed, mut said) = (0, 0);
    for operation in 0..operations(seed) {
        let mut world = World::new(seed);
        world.disk.fail(operation, EIO);
        // Some are failures of the last sync, when all is done.
        if let End::LogFailed(error) = world.live() {
            failed += 1;
            said += usize::from(error.contains("TFY01"));
        }
        world.disk.heal();
        world.disk.crash(Survivors::Some(operation as u64));
        world.check(&format!("operation {operation} fails"));
    }
    assert!(
        failed > 20 && said == failed,
        "{failed} failures, {said} of them told by a code of the log"
    );
}
