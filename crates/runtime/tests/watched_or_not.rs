//! Programs made of a seed, each run in several ways: watched and not, stepped by hand and not, past a handler,
//! beside another run. Calls that nobody watches or handles take short ways through the kernel; what a program
//! can see must be the same on all of them. A program notes what it does, what comes of it and when its values are
//! dropped, and its random numbers are drawn in the order its tasks run, so that a change of order changes all.
//!
//! `TIFFANY_SEEDS=100000` looks longer, `TIFFANY_SEED=7` at one program only.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Builder, DependencyAware, End, Future as Read, Group, Mutex, Permit, Priority,
    Promise, Receiver, Semaphore, Sender, Task, TaskContext, TaskError, TaskStatus, Tid, Verdict,
    cancel, channel, gather, gather_settled, get_log, get_tid, group, handler, join, join_all,
    kill_task, mutex, now, promise, race, select, semaphore, sleep, spawn_agent, tell, timeout,
    try_spawn, unbounded_channel, wait, wait_task, yield_now,
};

const SEEDS: u64 = 250;
const MAX_TASKS: u64 = 24;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;
/// What tasks return, send and settle promises with.
type Shared = Rc<Parcel>;

/// A value that holds others, handles mostly. It notes its end, and may panic then.
struct Parcel {
    world: Rc<World>,
    number: u64,
    panics: bool,
    _inside: Vec<Box<dyn Any>>,
}

impl Drop for Parcel {
    fn drop(&mut self) {
        self.world.note(format!("parcel {} dropped", self.number));
        if self.panics && !std::thread::panicking() {
            // Without a word on standard error.
            resume_unwind(Box::new("a parcel panicked"));
        }
    }
}

/// What the tasks of a program share.
struct World {
    random: Cell<u64>,
    notes: Rc<RefCell<Vec<String>>>,
    spawned: Cell<u64>,
    parcels: Cell<u64>,
    tasks: RefCell<Vec<Rc<Task<Shared>>>>,
    promises: RefCell<Vec<Rc<Promise<Shared>>>>,
    futures: RefCell<Vec<Read<Shared>>>,
    senders: RefCell<Vec<Sender<Shared>>>,
    receivers: RefCell<Vec<Receiver<Shared>>>,
    semaphores: RefCell<Vec<Semaphore>>,
    mutexes: RefCell<Vec<Mutex<u64>>>,
    groups: RefCell<Vec<Rc<Group>>>,
    permits: RefCell<Vec<Permit>>,
    /// Calls that were made and not waited for.
    calls: RefCell<Vec<Boxed<()>>>,
}

impl World {
    fn new(seed: u64) -> Rc<World> {
        let world = World {
            random: Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            notes: Rc::default(),
            spawned: Cell::new(0),
            parcels: Cell::new(0),
            tasks: RefCell::default(),
            promises: RefCell::default(),
            futures: RefCell::default(),
            senders: RefCell::default(),
            receivers: RefCell::default(),
            semaphores: RefCell::default(),
            mutexes: RefCell::default(),
            groups: RefCell::default(),
            permits: RefCell::default(),
            calls: RefCell::default(),
        };
        for _ in 0..4 {
            world.next(2);
        }
        Rc::new(world)
    }

    fn note(&self, what: String) {
        self.notes.borrow_mut().push(what);
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

    fn pick<T: Clone>(&self, list: &RefCell<Vec<T>>) -> Option<T> {
        let list = list.borrow();
        list.get(self.next(list.len() as u64) as usize).cloned()
    }

    fn take<T>(&self, list: &RefCell<Vec<T>>) -> Option<T> {
        let count = list.borrow().len() as u64;
        let at = self.next(count) as usize;
        (count > 0).then(|| list.borrow_mut().swap_remove(at))
    }

    fn some_tasks(&self) -> Vec<Rc<Task<Shared>>> {
        (0..self.next(5)).filter_map(|_| self.pick(&self.tasks)).collect()
    }

    /// Something that is given up when what is returned is dropped.
    fn anything(&self) -> Option<Box<dyn Any>> {
        fn boxed<T: 'static>(thing: Option<T>) -> Option<Box<dyn Any>> {
            thing.map(|thing| Box::new(thing) as Box<dyn Any>)
        }
        match self.next(9) {
            0 => boxed(self.take(&self.tasks)),
            1 => boxed(self.take(&self.promises)),
            2 => boxed(self.take(&self.futures)),
            3 => boxed(self.take(&self.senders)),
            4 => boxed(self.take(&self.receivers)),
            5 => boxed(self.take(&self.semaphores)),
            6 => boxed(self.take(&self.groups)),
            7 => boxed(self.take(&self.permits)),
            _ => boxed(self.take(&self.calls)),
        }
    }

    fn parcel(self: &Rc<World>) -> Shared {
        let number = self.parcels.replace(self.parcels.get() + 1);
        let inside = (0..self.next(3)).filter_map(|_| self.anything()).collect();
        let panics = self.next(8) == 0;
        Rc::new(Parcel { world: Rc::clone(self), number, panics, _inside: inside })
    }
}

fn brief(result: &Result<Shared, TaskError>) -> String {
    match result {
        Ok(parcel) => format!("parcel {}", parcel.number),
        Err(error) => error.to_string(),
    }
}

/// A task: some random acts. What goes wrong in them is mostly caught.
fn body(world: Rc<World>, depth: u64) -> Boxed<Result<Shared, TaskError>> {
    let me = world.spawned.replace(world.spawned.get() + 1);
    Box::pin(async move {
        for _ in 0..world.next(14) {
            let act = world.next(7);
            world.note(format!("{me}: act {act}"));
            let came = match act {
                0 => on_tasks(&world, depth).await?,
                1 => on_promises(&world).await?,
                2 => on_channels(&world).await?,
                3 => on_locks(&world).await?,
                4 => on_calls(&world).await?,
                5 => on_groups(&world, depth).await?,
                _ => on_time(&world).await?,
            };
            world.note(format!("{me}: {came}"));
        }
        match world.next(12) {
            0 => Err(TaskError::failed(format!("task {me} gave up"))),
            1 => resume_unwind(Box::new(format!("task {me} panicked"))),
            _ => Ok(world.parcel()),
        }
    })
}

async fn on_tasks(world: &Rc<World>, depth: u64) -> Result<String, TaskError> {
    Ok(match world.next(14) {
        0..4 if depth < 4 && world.spawned.get() < MAX_TASKS => {
            let child = try_spawn(body(Rc::clone(world), depth + 1));
            let task = match world.next(4) {
                0 => child.priority(world.next(3) as u8).await,
                1 => child.name("named").await,
                _ => child.await,
            };
            let tid = task.tid();
            match world.next(5) {
                0 => drop(task),
                1 => return Ok(brief(&task.await)),
                _ => world.tasks.borrow_mut().push(Rc::new(task)),
            }
            format!("spawned {tid}")
        }
        4 if world.spawned.get() < MAX_TASKS => {
            world.spawned.set(world.spawned.get() + 1);
            let machine =
                Machine { world: Rc::clone(world), left: world.next(6), asked: Asked::Nothing };
            let task = spawn_agent(machine).await;
            world.tasks.borrow_mut().push(Rc::new(task));
            "spawned a machine".into()
        }
        5 | 6 => match world.pick(&world.tasks) {
            Some(task) => brief(&wait(task).await),
            None => String::new(),
        },
        7 => match gather(world.some_tasks()).await {
            Ok(all) => format!("{} gathered", all.len()),
            Err(error) => error.to_string(),
        },
        8 => match gather_settled(world.some_tasks()).await {
            Ok(all) => all.iter().map(brief).collect::<Vec<_>>().join(", "),
            Err(error) => error.to_string(),
        },
        9 => match race(world.some_tasks()).await {
            Ok(won) => format!("parcel {} won", won.value.number),
            Err(error) => error.to_string(),
        },
        10 => {
            if let Some(task) = world.pick(&world.tasks) {
                cancel(&task).await;
            }
            "cancelled".into()
        }
        11 => format!("killed: {}", kill_task(Tid(world.next(24) + 2)).await),
        12 => format!("over: {:?}", wait_task(Tid(world.next(24) + 2)).await),
        _ => {
            // Itself; it meets that at its next call.
            if world.next(4) == 0 {
                let tid = get_tid().await;
                kill_task(tid).await;
            }
            String::new()
        }
    })
}

async fn on_promises(world: &Rc<World>) -> Result<String, TaskError> {
    Ok(match world.next(8) {
        0 | 1 => {
            let promise = promise::<Shared>().await;
            for _ in 0..world.next(3) {
                world.futures.borrow_mut().push(promise.future());
            }
            world.promises.borrow_mut().push(Rc::new(promise));
            "promised".into()
        }
        2 => match world.pick(&world.promises) {
            Some(promise) => {
                // Handles are given back just before a common call.
                let dropped = (0..world.next(3)).filter_map(|_| world.anything());
                dropped.for_each(drop);
                format!("{:?}", promise.complete(world.parcel()).await)
            }
            None => String::new(),
        },
        3 => match world.pick(&world.promises) {
            Some(promise) => format!("{:?}", promise.fail(TaskError::failed("unkept")).await),
            None => String::new(),
        },
        4 => match world.pick(&world.futures) {
            Some(future) => brief(&future.await),
            None => String::new(),
        },
        5 => match (world.pick(&world.futures), world.pick(&world.futures)) {
            (Some(one), Some(two)) => select! {
                value = one => brief(&value),
                value = two => brief(&value),
                () = sleep(ms(world.next(3))) => "late".into(),
            },
            _ => String::new(),
        },
        _ => {
            let mut dropped = 0;
            for _ in 0..world.next(4) {
                dropped += u32::from(world.anything().map(drop).is_some());
            }
            if world.next(2) == 0 {
                yield_now().await;
            }
            format!("dropped {dropped}")
        }
    })
}

async fn on_channels(world: &Rc<World>) -> Result<String, TaskError> {
    Ok(match world.next(8) {
        0 | 1 => {
            let (sender, receiver) = match world.next(4) {
                0 => unbounded_channel().await,
                capacity => channel(capacity as usize - 1).await,
            };
            world.senders.borrow_mut().push(sender);
            world.receivers.borrow_mut().push(receiver);
            "channel".into()
        }
        2 | 3 => match world.pick(&world.senders) {
            Some(sender) => format!("{:?}", timeout(ms(3), sender.send(world.parcel())).await),
            None => String::new(),
        },
        4 => match world.pick(&world.receivers) {
            Some(receiver) => match receiver.receive().await? {
                Some(parcel) => format!("received {}", parcel.number),
                None => "nothing more".into(),
            },
            None => String::new(),
        },
        5 => match world.pick(&world.receivers) {
            Some(receiver) => {
                let (one, two) = (receiver.receive(), receiver.receive());
                let (one, two) = join!(timeout(ms(1), one), timeout(ms(2), two));
                let number = |parcel: Option<Shared>| parcel.map(|parcel| parcel.number);
                format!("{:?} {:?}", one?.map(number), two?.map(number))
            }
            None => String::new(),
        },
        _ => match (world.pick(&world.receivers), world.pick(&world.futures)) {
            (Some(receiver), Some(future)) => select! {
                got = receiver.receive() => format!("{:?}", got.map(|parcel| parcel.map(|parcel| parcel.number))),
                value = future => brief(&value),
                () = yield_now() => "a turn".into(),
            },
            _ => String::new(),
        },
    })
}

async fn on_locks(world: &Rc<World>) -> Result<String, TaskError> {
    Ok(match world.next(8) {
        0 => {
            let made = semaphore(world.next(4) as usize).await;
            world.semaphores.borrow_mut().push(made);
            "semaphore".into()
        }
        1 => {
            let made = mutex(0).await;
            world.mutexes.borrow_mut().push(made);
            "mutex".into()
        }
        2 | 3 => match world.pick(&world.semaphores) {
            Some(semaphore) => {
                let many = semaphore.acquire_many(world.next(4) as usize);
                match timeout(ms(world.next(3)), many).await.and_then(|permit| permit) {
                    Ok(permit) => {
                        world.permits.borrow_mut().push(permit);
                        "acquired".into()
                    }
                    Err(error) => error.to_string(),
                }
            }
            None => String::new(),
        },
        4 => match world.pick(&world.semaphores) {
            Some(semaphore) => {
                let permit = semaphore.acquire().await?;
                yield_now().await;
                drop(permit);
                "acquired and released".into()
            }
            None => String::new(),
        },
        5 => match (world.pick(&world.mutexes), world.pick(&world.mutexes)) {
            (Some(one), Some(two)) => {
                let mut one = one.lock().await?;
                *one += 1;
                // Its own, perhaps: a deadlock.
                let inner = timeout(ms(world.next(3)), two.lock()).await;
                format!("{one:?} {:?}", inner.map(|_| ()))
            }
            _ => String::new(),
        },
        6 => match (world.pick(&world.semaphores), world.pick(&world.semaphores)) {
            (Some(one), Some(two)) => {
                let calls = [one.acquire(), two.acquire(), one.acquire()];
                let got = timeout(ms(1), join_all(calls)).await;
                format!("{:?}", got.map(|all| all.len()))
            }
            _ => String::new(),
        },
        _ => {
            drop(world.take(&world.permits));
            "released".into()
        }
    })
}

/// Some call, to be made and then left.
fn some_call(world: &Rc<World>) -> Boxed<()> {
    match world.next(9) {
        0 => Box::pin(yield_now()),
        1 => Box::pin(sleep(ms(world.next(4)))),
        2 => match world.pick(&world.tasks) {
            Some(task) => Box::pin(async { drop(wait(task).await) }),
            None => Box::pin(yield_now()),
        },
        3 => match world.pick(&world.receivers) {
            Some(receiver) => Box::pin(async move { drop(receiver.receive().await) }),
            None => Box::pin(async { drop(promise::<Shared>().await) }),
        },
        4 => match world.pick(&world.semaphores) {
            Some(semaphore) => Box::pin(async move { drop(semaphore.acquire().await) }),
            None => Box::pin(async { drop(group().await) }),
        },
        5 => match world.pick(&world.futures) {
            Some(future) => Box::pin(async { drop(future.await) }),
            None => Box::pin(sleep(ms(1))),
        },
        6 => match world.pick(&world.senders) {
            Some(sender) => {
                let parcel = world.parcel();
                Box::pin(async move { drop(sender.send(parcel).await) })
            }
            None => Box::pin(async { drop(channel::<Shared>(1).await) }),
        },
        7 => {
            let tasks = world.some_tasks();
            Box::pin(async { drop(race(tasks).await) })
        }
        _ if world.spawned.get() < MAX_TASKS => {
            let child = body(Rc::clone(world), 4);
            Box::pin(async { drop(try_spawn(child).await) })
        }
        _ => Box::pin(yield_now()),
    }
}

async fn on_calls(world: &Rc<World>) -> Result<String, TaskError> {
    Ok(match world.next(8) {
        // Made, and dropped in the same turn or kept for anybody to drop.
        0..3 => {
            let mut made: Vec<Boxed<()>> = (0..=world.next(3)).map(|_| some_call(world)).collect();
            poll_fn(|cx| {
                made.iter_mut().for_each(|call| _ = call.as_mut().poll(cx));
                Poll::Ready(())
            })
            .await;
            let count = made.len();
            for call in made {
                match world.next(2) {
                    0 => drop(call),
                    _ => world.calls.borrow_mut().push(call),
                }
            }
            format!("left some of {count} calls")
        }
        // Of another task, most likely: an error, beside replies that wait.
        3 => {
            let kept = world.take(&world.calls);
            let mut own = std::pin::pin!(timeout(ms(2), some_call(world)));
            let mut polls = 0;
            if let Some(mut kept) = kept {
                poll_fn(|cx| {
                    polls += 1;
                    let ready = kept.as_mut().poll(cx).is_ready();
                    match own.as_mut().poll(cx).is_ready() || ready || polls > 3 {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
            format!("polled {polls} times")
        }
        4 => {
            let (one, two, three) = (some_call(world), some_call(world), some_call(world));
            let all = async { join!(one, two, three) };
            format!("joined: {}", timeout(ms(world.next(4)), all).await.is_ok())
        }
        5 => {
            let mut all = FuturesUnordered::new();
            for number in 0..=world.next(3) {
                let call = some_call(world);
                all.push(async move {
                    call.await;
                    number
                });
            }
            let mut order = Vec::new();
            while let Ok(Some(number)) = timeout(ms(2), all.next()).await {
                order.push(number);
            }
            format!("unordered: {order:?}")
        }
        6 => {
            let (one, two, three) = (some_call(world), some_call(world), some_call(world));
            select! {
                () = one => "first".into(),
                () = two => "second".into(),
                () = three => "third".into(),
                () = sleep(ms(2)) => "none".into(),
            }
        }
        _ => {
            for _ in 0..3 {
                drop(world.take(&world.calls));
            }
            "withdrew".into()
        }
    })
}

async fn on_groups(world: &Rc<World>, depth: u64) -> Result<String, TaskError> {
    Ok(match world.next(5) {
        0 | 1 => {
            let group = Rc::new(group().await);
            world.groups.borrow_mut().push(Rc::clone(&group));
            for _ in 0..world.next(4) {
                if world.spawned.get() < MAX_TASKS {
                    let member = try_spawn(body(Rc::clone(world), depth + 2)).group(&group);
                    let member = member.await;
                    if world.next(2) == 0 {
                        world.tasks.borrow_mut().push(Rc::new(member));
                    }
                }
            }
            "grouped".into()
        }
        2 => match world.pick(&world.groups) {
            Some(group) => format!("{:?}", group.join().await),
            None => String::new(),
        },
        _ => {
            // A member may be who drops it, and may then end, wait or call.
            drop(world.take(&world.groups));
            if world.next(2) == 0 {
                let mut call = some_call(world);
                poll_fn(|cx| Poll::Ready(_ = call.as_mut().poll(cx))).await;
                world.calls.borrow_mut().push(call);
            }
            "ungrouped".into()
        }
    })
}

async fn on_time(world: &Rc<World>) -> Result<String, TaskError> {
    Ok(match world.next(6) {
        0 => {
            sleep(ms(world.next(4))).await;
            "slept".into()
        }
        1 => {
            for _ in 0..world.next(5) {
                yield_now().await;
            }
            "yielded".into()
        }
        2 => format!("{:?}", timeout(ms(world.next(2)), sleep(ms(world.next(3)))).await.is_ok()),
        3 => {
            tell(world.next(100)).await;
            format!("{} told", get_log().await.len())
        }
        4 => {
            // Timers that are withdrawn, and some that are due together.
            let sleeps: Vec<Boxed<()>> =
                (0..8).map(|_| Box::pin(sleep(ms(world.next(3)))) as Boxed<()>).collect();
            timeout(ms(1), join_all(sleeps)).await.is_ok().to_string()
        }
        _ => format!("{:?}", now().await),
    })
}

/// A task that is no future. It does not take every answer, and its cleanup makes calls.
struct Machine {
    world: Rc<World>,
    left: u64,
    asked: Asked,
}

enum Asked {
    Nothing,
    Permit(Semaphore),
    Message(Receiver<Shared>),
    Done,
}

impl Machine {
    fn take_answer(&mut self, ctx: &mut TaskContext<'_>) {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        if self.world.next(2) == 0 {
            return self.world.note("machine: not taken".into());
        }
        let came = match asked {
            Asked::Permit(semaphore) => match ctx.permit(&semaphore) {
                Ok(permit) => {
                    self.world.permits.borrow_mut().push(permit);
                    "a permit".into()
                }
                Err(error) => error.to_string(),
            },
            Asked::Message(from) => {
                format!("{:?}", ctx.message(&from).map(|parcel| parcel.map(|parcel| parcel.number)))
            }
            Asked::Done | Asked::Nothing => format!("{:?}", ctx.done()),
        };
        self.world.note(format!("machine: {came}"));
    }

    fn ask<T>(&mut self) -> TaskStatus<T> {
        let world = Rc::clone(&self.world);
        self.asked = Asked::Done;
        let sleep = || TaskStatus::sleep(ms(world.next(3)));
        match world.next(6) {
            0 => TaskStatus::Ready,
            1 => match world.pick(&world.semaphores) {
                Some(semaphore) => {
                    let status = TaskStatus::acquire(&semaphore);
                    // Half of the time it keeps no handle.
                    if world.next(2) == 0 {
                        self.asked = Asked::Permit(semaphore);
                    }
                    status
                }
                None => sleep(),
            },
            2 => match world.pick(&world.receivers) {
                Some(receiver) => {
                    let status = TaskStatus::receive(&receiver);
                    if world.next(2) == 0 {
                        self.asked = Asked::Message(receiver);
                    }
                    status
                }
                None => sleep(),
            },
            3 => match world.pick(&world.senders) {
                Some(sender) => TaskStatus::send(&sender, world.parcel()),
                None => sleep(),
            },
            4 => match world.pick(&world.futures) {
                Some(future) => TaskStatus::wait(&future),
                None => TaskStatus::Ready,
            },
            _ => sleep(),
        }
    }
}

impl AgentTask for Machine {
    type Output = Shared;

    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<Shared> {
        self.take_answer(ctx);
        if self.left == 0 {
            return TaskStatus::Completed(self.world.parcel());
        }
        self.left -= 1;
        self.ask()
    }

    fn cancel(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<()> {
        self.world.note("machine: cleanup".into());
        self.take_answer(ctx);
        if self.left == 0 {
            return TaskStatus::Completed(());
        }
        self.left = self.left.min(3) - 1;
        self.ask()
    }
}

/// The ways a program can be run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Watched,
    WatchedStepped,
    Unwatched,
    UnwatchedStepped,
    /// Past a handler that has nothing to say.
    Handled,
    /// With another run in the same runtime.
    Beside,
}

fn settings(seed: u64, notes: &Rc<RefCell<Vec<String>>>) -> Builder {
    let notes = Rc::clone(notes);
    let settings = Builder::new()
        .end(if seed.is_multiple_of(5) { End::Root } else { End::AllTasks })
        .on_unobserved(move |error| notes.borrow_mut().push(format!("unobserved: {error}")));
    match seed % 6 {
        2 => settings.policy(|| Priority),
        3 => settings.policy(|| DependencyAware),
        4 => settings.cancel_grace(ms(2)),
        _ => settings,
    }
}

/// Runs the program of a seed in one way, and tells what could be seen of it.
fn run(seed: u64, way: Way) -> Vec<String> {
    let world = World::new(seed);
    let notes = Rc::clone(&world.notes);
    let settings = settings(seed, &notes);
    let mut test = match way {
        Way::Watched | Way::WatchedStepped => TestScheduler::with(settings),
        Way::Handled => {
            TestScheduler::unwatched(settings.handler(handler("none", |_, _| Verdict::Pass)))
        }
        _ => TestScheduler::unwatched(settings),
    };
    let root = test.try_start(async move {
        for _ in 0..world.next(5) {
            let task = try_spawn(body(Rc::clone(&world), 1)).await;
            world.tasks.borrow_mut().push(Rc::new(task));
        }
        let result = body(Rc::clone(&world), 0).await.map(|parcel| parcel.number);
        if world.next(4) == 0 {
            // What is left is dropped with the last task, or by the root while others run.
            drop((world.tasks.take(), world.calls.take(), world.groups.take()));
        }
        result
    });
    let other = (way == Way::Beside).then(|| {
        test.start(async {
            for n in 0..300 {
                match n % 50 {
                    49 => sleep(Duration::from_micros(700)).await,
                    _ => yield_now().await,
                }
            }
        })
    });
    if let Way::WatchedStepped | Way::UnwatchedStepped = way {
        while test.step() {}
    }
    let result = test.finish(root);
    notes.borrow_mut().push(match result {
        Ok(number) => format!("parcel {number}"),
        Err(error) => error.to_string(),
    });
    if let Some(other) = other {
        test.finish(other).expect("the other run ends");
    }
    drop(test);
    notes.take()
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("TIFFANY_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("TIFFANY_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

#[track_caller]
fn assert_same(one: &[String], two: &[String], way: Way) {
    if one != two {
        let at = one.iter().zip(two).take_while(|(a, b)| a == b).count();
        let before = one[at.saturating_sub(12)..at].join("\n");
        panic!("{way:?}:\n{before}\n< {:?}\n> {:?}", one.get(at), two.get(at));
    }
}

/// "The same kernel runs in production, in tests (virtual clock, stepping)", and "one run never changes another's
/// order": whoever watches, steps, handles or runs beside a program, it takes the same way.
#[test]
fn a_program_takes_the_same_way_watched_or_not() {
    for seed in seeds() {
        let check = || {
            let watched = run(seed, Way::Watched);
            if std::env::var("TIFFANY_SEED").is_ok() {
                println!("{}", watched.join("\n"));
            }
            for way in [
                Way::WatchedStepped,
                Way::Unwatched,
                Way::UnwatchedStepped,
                Way::Handled,
                Way::Beside,
            ] {
                assert_same(&watched, &run(seed, way), way);
            }
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(check)) {
            eprintln!(
                "repeat with: TIFFANY_SEED={seed} cargo nextest run -p tiffany watched_or_not"
            );
            resume_unwind(panic);
        }
    }
}
