//! Programs made of a seed. Whatever they do, the same program takes the same way every time, comes to an end,
//! and leaves a trace in which every task lives and ends once.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    Builder, DependencyAware, End, Event, EventKind, Future as Read, Limits, Priority, Promise,
    Receiver, RunError, Runtime, Semaphore, Sender, Task, TaskError, Tid, cancel, channel, gather,
    gather_settled, get, get_log, group, join, kill_task, now, promise, put, race, select,
    semaphore, sleep, tell, timeout, try_spawn, unbounded_channel, wait, yield_now,
};

use super::{Notes, ms};

const SEEDS: u64 = 400;
const MAX_TASKS: usize = 24;
const MAX_STEPS: usize = 50_000;

/// What the tasks of a program share. The random numbers too, so that a change of order changes everything.
struct World {
    random: Cell<u64>,
    spawned: Cell<usize>,
    tasks: RefCell<Vec<Rc<Task<u64>>>>,
    promises: RefCell<Vec<Rc<Promise<u64>>>>,
    futures: RefCell<Vec<Read<u64>>>,
    senders: RefCell<Vec<Sender<u64>>>,
    receivers: RefCell<Vec<Rc<RefCell<Receiver<u64>>>>>,
    semaphores: RefCell<Vec<Semaphore>>,
}

impl World {
    fn new(seed: u64) -> Rc<World> {
        let world = World {
            random: Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            spawned: Cell::new(0),
            tasks: RefCell::default(),
            promises: RefCell::default(),
            futures: RefCell::default(),
            senders: RefCell::default(),
            receivers: RefCell::default(),
            semaphores: RefCell::default(),
        };
        for _ in 0..4 {
            world.next(2);
        }
        Rc::new(world)
    }

    /// A number below `limit`, by xorshift.
    fn next(&self, limit: u64) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 20) % limit.max(1)
    }

    /// One of a list, if it has any.
    fn pick<T: Clone>(&self, list: &RefCell<Vec<T>>) -> Option<T> {
        let list = list.borrow();
        list.get(self.next(list.len() as u64) as usize).cloned()
    }

    fn some_tasks(&self) -> Vec<Rc<Task<u64>>> {
        (0..self.next(4)).filter_map(|_| self.pick(&self.tasks)).collect()
    }

    /// Gives up one of a list.
    fn forget<T>(&self, list: &RefCell<Vec<T>>) {
        let count = list.borrow().len() as u64;
        if count > 0 {
            let at = self.next(count) as usize;
            let gone = list.borrow_mut().swap_remove(at);
            drop(gone);
        }
    }
}

type Body = Pin<Box<dyn Future<Output = Result<u64, TaskError>>>>;

/// A task: some random acts. What goes wrong in them is mostly caught.
fn body(world: Rc<World>, depth: u64) -> Body {
    Box::pin(async move {
        let mut held = Vec::new();
        let mut sum = 0u64;
        for _ in 0..world.next(16) {
            match world.next(4) {
                0 => act_on_tasks(&world, depth, &mut sum).await?,
                1 => act_on_promises(&world, &mut sum).await?,
                2 => act_on_channels(&world, &mut sum).await?,
                _ => match world.next(9) {
                    0 => yield_now().await,
                    1 => sleep(ms(world.next(4))).await,
                    2 => {
                        let made = semaphore(world.next(3) as usize).await;
                        world.semaphores.borrow_mut().push(made);
                    }
                    3 => {
                        if let Some(semaphore) = world.pick(&world.semaphores) {
                            let many = semaphore.acquire_many(world.next(3) as usize);
                            held.extend(timeout(ms(3), many).await.and_then(|permit| permit));
                        }
                    }
                    4 => {
                        if let Some(semaphore) = world.pick(&world.semaphores) {
                            held.push(semaphore.acquire().await?);
                        }
                    }
                    5 => held.clear(),
                    6 => {
                        put("key", world.next(100)).await;
                        tell(world.next(100)).await;
                    }
                    7 => sum += get::<u64>("key").await.unwrap_or(0) + get_log().await.len() as u64,
                    _ => sum += now().await.as_nanos(),
                },
            }
        }
        match world.next(12) {
            0 => Err(TaskError::failed(format!("sum {sum}"))),
            // A panic without a word on standard error.
            1 => resume_unwind(Box::new(format!("panic at sum {sum}"))),
            _ => Ok(sum),
        }
    })
}

async fn act_on_tasks(world: &Rc<World>, depth: u64, sum: &mut u64) -> Result<(), TaskError> {
    match world.next(12) {
        0..=3 if depth < 4 && world.spawned.get() < MAX_TASKS => {
            world.spawned.set(world.spawned.get() + 1);
            let child = try_spawn(body(Rc::clone(world), depth + 1));
            let task = child.priority(world.next(3) as u8).await;
            world.tasks.borrow_mut().push(Rc::new(task));
        }
        4 => {
            if let Some(task) = world.pick(&world.tasks) {
                *sum += wait(task).await.unwrap_or(1);
            }
        }
        5 => *sum += gather(world.some_tasks()).await.map_or(1, |all| all.iter().sum()),
        6 => *sum += gather_settled(world.some_tasks()).await?.len() as u64,
        7 => *sum += race(world.some_tasks()).await.map_or(1, |won| won.value),
        8 => {
            if let Some(task) = world.pick(&world.tasks) {
                cancel(&task).await;
            }
        }
        9 => *sum += u64::from(kill_task(Tid(world.next(20) + 2)).await),
        10 => {
            let group = group().await;
            for _ in 0..world.next(3) {
                let member = body(Rc::clone(world), 4);
                drop(try_spawn(member).group(&group).await);
            }
            if world.next(2) == 0 {
                group.join().await.ok();
            }
        }
        _ => world.forget(&world.tasks),
    }
    Ok(())
}

async fn act_on_promises(world: &Rc<World>, sum: &mut u64) -> Result<(), TaskError> {
    match world.next(7) {
        0 | 1 => {
            let promise = promise::<u64>().await;
            world.futures.borrow_mut().push(promise.future());
            world.promises.borrow_mut().push(Rc::new(promise));
        }
        2 => {
            if let Some(promise) = world.pick(&world.promises) {
                promise.complete(world.next(100)).await.ok();
            }
        }
        3 => {
            if let Some(promise) = world.pick(&world.promises) {
                promise.fail(TaskError::failed("unkept")).await.ok();
            }
        }
        4 => {
            if let Some(future) = world.pick(&world.futures) {
                *sum += future.await.unwrap_or(1);
            }
        }
        5 => {
            if let (Some(one), Some(two)) = (world.pick(&world.futures), world.pick(&world.futures))
            {
                *sum += select! {
                    value = one => value.unwrap_or(1),
                    value = two => value.unwrap_or(2),
                    () = sleep(ms(2)) => 3,
                };
            }
        }
        _ => world.forget(&world.promises),
    }
    Ok(())
}

async fn act_on_channels(world: &Rc<World>, sum: &mut u64) -> Result<(), TaskError> {
    match world.next(7) {
        0 => {
            let (sender, receiver) = match world.next(4) {
                0 => unbounded_channel().await,
                capacity => channel(capacity as usize - 1).await,
            };
            world.senders.borrow_mut().push(sender);
            world.receivers.borrow_mut().push(Rc::new(RefCell::new(receiver)));
        }
        1 | 2 => {
            if let Some(sender) = world.pick(&world.senders) {
                sender.send(world.next(100)).await.ok();
            }
        }
        3 => {
            if let Some(receiver) = world.pick(&world.receivers) {
                let call = receiver.borrow_mut().receive();
                *sum += call.await?.unwrap_or(1);
            }
        }
        4 => {
            if let Some(receiver) = world.pick(&world.receivers) {
                let (one, two) = (receiver.borrow_mut().receive(), receiver.borrow_mut().receive());
                let (one, two) = join!(timeout(ms(1), one), timeout(ms(2), two));
                *sum += u64::from(one.is_ok()) + u64::from(two.is_ok());
            }
        }
        5 => world.forget(&world.senders),
        _ => world.forget(&world.receivers),
    }
    Ok(())
}

fn settings(seed: u64) -> Builder {
    let limits = Limits { max_calls: Some(5_000), ..Limits::default() };
    let settings = Runtime::builder().limits(limits);
    let settings = match seed % 4 {
        2 => settings.policy(|| Priority),
        3 => settings.policy(|| DependencyAware),
        _ => settings,
    };
    settings.end(if seed.is_multiple_of(5) { End::Root } else { End::AllTasks })
}

/// Everything a run showed to the outside.
#[derive(PartialEq)]
struct Outcome {
    result: String,
    shown: Vec<String>,
    trace: String,
}

#[derive(Clone, Copy)]
enum Drive {
    Through,
    Step,
}

/// Runs the program of a seed and checks the trace.
fn run(seed: u64, drive: Drive) -> Outcome {
    let notes = Notes::new();
    let shown = notes.clone();
    let settings = settings(seed).on_unobserved(move |error| notes.add(error.to_string()));
    let mut test = TestScheduler::with(settings);
    let world = World::new(seed);
    let run = test.try_start(async move {
        for _ in 0..world.next(6) {
            world.spawned.set(world.spawned.get() + 1);
            let task = try_spawn(body(Rc::clone(&world), 1)).await;
            world.tasks.borrow_mut().push(Rc::new(task));
        }
        body(world, 0).await
    });
    if let Drive::Step = drive {
        let mut steps = 0;
        while test.step() {
            steps += 1;
            assert!(steps < MAX_STEPS, "no end in sight");
        }
    }
    let result = match test.finish(run) {
        Ok(sum) => format!("Ok({sum})"),
        Err(error @ (RunError::Failed(_) | RunError::Cancelled(_))) => format!("{error}"),
        Err(error @ (RunError::Deadlock(_) | RunError::Limit(_))) => format!("{error}"),
        Err(other) => panic!("an end it cannot have: {other}"),
    };
    check_lives(test.trace().events());
    Outcome { result, shown: shown.take(), trace: test.trace().to_string() }
}

/// What must hold in every trace, told only from outside.
fn check_lives(events: &[Event]) {
    #[derive(Default)]
    struct Life {
        over: bool,
        blocked: bool,
        cancelling: bool,
        open_calls: BTreeSet<u64>,
    }
    let mut lives: BTreeMap<Tid, Life> = BTreeMap::new();
    let mut clock = 0;
    for event in events {
        assert!(event.at.as_nanos() >= clock, "the clock went back: {event}");
        clock = event.at.as_nanos();
        if let EventKind::Spawned { .. } = event.kind {
            assert_eq!(event.tid.0, lives.len() as u64 + 1, "numbers are given in order: {event}");
            lives.insert(event.tid, Life::default());
            continue;
        }
        let Some(life) = lives.get_mut(&event.tid) else { panic!("before its spawn: {event}") };
        assert!(!life.over, "after its end: {event}");
        match &event.kind {
            EventKind::Running => assert!(!life.blocked, "ran while blocked: {event}"),
            EventKind::Called { id, .. } => {
                assert!(life.open_calls.insert(id.0), "made twice: {event}");
            }
            EventKind::Answered { id, .. } => {
                assert!(life.open_calls.remove(&id.0), "answered without being asked: {event}");
            }
            EventKind::Blocked(_) => life.blocked = true,
            EventKind::Woken => {
                assert!(life.blocked, "woken while awake: {event}");
                life.blocked = false;
            }
            EventKind::Cancelling => {
                assert!(!life.cancelling, "cancelled twice: {event}");
                (life.cancelling, life.blocked) = (true, false);
            }
            EventKind::Completed => {
                assert!(!life.cancelling, "completed although cancelled: {event}");
                life.over = true;
            }
            EventKind::Failed(_) | EventKind::Cancelled => life.over = true,
            _ => {}
        }
    }
    for (tid, life) in lives {
        assert!(life.over, "task {tid} has no end");
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("TIFFANY_SEED") {
        Ok(seed) => vec![seed.parse().expect("TIFFANY_SEED is a number")],
        Err(_) => (1..=count()).collect(),
    }
}

/// How many seeds there are to check: `TIFFANY_SEEDS=100000` looks longer.
fn count() -> u64 {
    std::env::var("TIFFANY_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(SEEDS)
}

/// Checks every seed; a failure says how to repeat it.
fn for_every_seed(test: &str, check: impl Fn(u64)) {
    for seed in seeds() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(seed))) {
            eprintln!(
                "repeat with: TIFFANY_SEED={seed} cargo nextest run -p tiffany semantics_objects::determinism::{test}"
            );
            resume_unwind(panic);
        }
    }
}

/// Where two texts begin to differ, with some lines before.
fn difference(one: &str, two: &str) -> String {
    let lines: Vec<(&str, &str)> = one.lines().zip(two.lines()).collect();
    let at = lines.iter().position(|(a, b)| a != b).unwrap_or(lines.len());
    let before: Vec<&str> = lines[at.saturating_sub(10)..at].iter().map(|(a, _)| *a).collect();
    let next = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_string();
    format!("{}\n< {}\n> {}", before.join("\n"), next(one), next(two))
}

fn assert_same(one: &Outcome, two: &Outcome) {
    assert!(one.trace == two.trace, "{}", difference(&one.trace, &two.trace));
    assert_eq!(one.result, two.result);
    assert_eq!(one.shown, two.shown);
}

/// "deterministic cooperative": the same program with the same answers takes the same way every time, comes to
/// an end, and in its trace every task is spawned first, ends once and does nothing after that.
#[test]
fn the_same_program_takes_the_same_way() {
    let ends = RefCell::new(BTreeMap::<String, u32>::new());
    for_every_seed("the_same_program_takes_the_same_way", |seed| {
        let outcome = run(seed, Drive::Through);
        assert_same(&outcome, &run(seed, Drive::Through));
        let end = match &outcome.result {
            ok if ok.starts_with("Ok") => "value",
            deadlock if deadlock.starts_with("deadlock") => "deadlock",
            _ => "error",
        };
        *ends.borrow_mut().entry(end.to_string()).or_default() += 1;
        if std::env::var("TIFFANY_SEED").is_ok() {
            println!("{}\n{}", outcome.trace, outcome.result);
        }
    });
    if seeds().len() > 1 {
        assert_eq!(ends.borrow().len(), 3, "programs that end in every way: {:?}", ends.borrow());
    }
}

/// "The same kernel runs in production, in tests (virtual clock, stepping)": stepped through by hand, a program
/// takes the way it takes by itself.
#[test]
fn stepping_changes_nothing() {
    for_every_seed("stepping_changes_nothing", |seed| {
        assert_same(&run(seed, Drive::Through), &run(seed, Drive::Step));
    });
}
