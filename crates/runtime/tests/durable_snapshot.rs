//! Runs made of state machines, whose log begins anew with a snapshot of all of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::durable_kit::{Dir, ms};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiffany::durable::{
    DurableAgent, DurablePromise, DurableTask, Fork, TimeTravel, step, step_with,
};
use tiffany::history::{DiffSettings, diff};
use tiffany::wal::{RealDisk, View};
use tiffany::{
    Builder, ErrorKind, RunError, Runtime, Settlement, SystemCall, TaskContext, TaskError,
    TaskStatus, Uuid, sleep,
};

/// Adds up what its children give, which each sleep, count in a step and take a message; and draws a random number now and then.
#[derive(Serialize, Deserialize)]
struct Team {
    doing: Doing,
    left: u64,
    sum: u64,
    child: Option<DurableTask<u64>>,
    drawn: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
enum Doing {
    Spawning,
    Joining,
    Drawing,
}

impl DurableAgent for Team {
    const NAME: &'static str = "team";
    type Output = (u64, Vec<u64>);

    fn wants(&self) -> TaskStatus<(u64, Vec<u64>)> {
        match (&self.doing, &self.child) {
            _ if self.left == 0 => TaskStatus::Completed((self.sum, self.drawn.clone())),
            (Doing::Spawning, _) => {
                TaskStatus::spawn_durable(Member { number: self.left, at: Place::Sleeping })
            }
            (Doing::Joining, Some(child)) => TaskStatus::wait(child),
            (Doing::Drawing, _) | (Doing::Joining, None) => TaskStatus::Waiting(SystemCall::Random),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.doing = match self.doing {
            Doing::Spawning => {
                self.child = Some(ctx.durable_task()?);
                Doing::Joining
            }
            Doing::Joining => {
                if let Some(child) = self.child.take() {
                    self.sum += ctx.output(&child)?;
                }
                Doing::Drawing
            }
            Doing::Drawing => {
                self.drawn.push(ctx.reply::<u64, tiffany::Direct>()?);
                self.left -= 1;
                Doing::Spawning
            }
        };
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Member {
    number: u64,
    at: Place,
}

#[derive(Serialize, Deserialize)]
enum Place {
    Sleeping,
    Counting,
    Receiving(u64),
    Over(u64),
}

impl DurableAgent for Member {
    const NAME: &'static str = "member";
    type Output = u64;

    fn wants(&self) -> TaskStatus<u64> {
        let number = self.number;
        match self.at {
            Place::Sleeping => TaskStatus::sleep(ms(1)),
            Place::Counting => TaskStatus::step(step("count", move || Ok::<u64, String>(number))),
            Place::Receiving(_) => TaskStatus::receive_message("number"),
            Place::Over(sum) => TaskStatus::Completed(sum),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.at = match self.at {
            Place::Sleeping => Place::Counting,
            Place::Counting => Place::Receiving(ctx.written()?),
            Place::Receiving(count) => Place::Over(count + ctx.written::<u64>()?),
            Place::Over(sum) => Place::Over(sum),
        };
        Ok(())
    }
}

fn team(builder: Builder) -> Builder {
    let start = |left| {
        let (doing, child, drawn) = (Doing::Spawning, None, Vec::new());
        Team { doing, left, sum: 0, child, drawn }
    };
    builder.register_agent("team", start).agent::<Member>()
}

fn lines(dir: &Dir) -> Vec<Value> {
    dir.log().lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// Runs ten members, with a restart before each message.
fn restarted(dir: &Dir, every: u64) -> (u64, Vec<u64>) {
    let start = || team(dir.builder()).snapshot_every(every).build().unwrap();
    for number in 1..=10u64 {
        let mut runtime = start();
        let run = runtime.submit::<(u64, Vec<u64>)>("team", "t", &10u64).unwrap();
        runtime.send(&run, "number", &(number * 100)).unwrap();
        runtime.run(async { sleep(ms(15)).await }).unwrap();
    }
    let mut runtime = start();
    let run = runtime.submit::<(u64, Vec<u64>)>("team", "t", &10u64).unwrap();
    runtime.wait_for(&run).unwrap()
}

/// The random numbers of a run (SplitMix64).
fn numbers(seed: &Value) -> Vec<u64> {
    let mut state: u64 = seed.as_str().unwrap().parse().unwrap();
    let next = |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..10).map(next).collect()
}

#[test]
fn a_run_goes_on_from_its_snapshot_as_if_there_had_been_none() {
    for every in [0, 6] {
        let dir = Dir::new();
        let (sum, drawn) = restarted(&dir, every);
        let log = lines(&dir);
        assert_eq!((sum, drawn), (55 + 5500, numbers(&log[0]["seed"])));
        assert_eq!(log[0]["id"], "t");
        if every == 0 {
            assert_eq!((&log[0]["gen"], log.len() > 90), (&Value::from(1), true));
        } else {
            assert!(log[0]["gen"].as_u64().unwrap() > 4, "{}", log[0]);
            assert_eq!(log[1]["type"], "Snapshot");
            assert!(log.len() < 30, "{}", log.len());
        }
    }
}

/// A step that is under way when the snapshot is taken, in this process and the next.
#[derive(Serialize, Deserialize)]
struct Long(u32);

static LONG: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());
static ENDS: AtomicU32 = AtomicU32::new(0);

impl DurableAgent for Long {
    const NAME: &'static str = "long";
    type Output = u32;

    fn wants(&self) -> TaskStatus<u32> {
        if self.0 > 0 {
            return TaskStatus::Completed(self.0);
        }
        TaskStatus::step(step_with("long", |attempt| {
            LONG.lock().unwrap().push((attempt.key().to_owned(), attempt.number()));
            // The directory is held until it ends.
            while ENDS.load(Ordering::Relaxed) == 0 && !attempt.is_given_up() {
                std::thread::sleep(ms(1));
            }
            Ok::<u32, String>(7)
        }))
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.0 = ctx.written()?;
        Ok(())
    }
}

#[test]
fn a_generation_that_begins_with_a_snapshot_is_travelled_and_forked_like_any_other() {
    let dir = Dir::new();
    let (sum, drawn) = restarted(&dir, 20);
    let all = lines(&dir);
    assert_eq!(all[1]["type"], "Snapshot");
    let program = || team(Runtime::builder()).snapshot_every(20);
    let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
    let run = view.runs().next().unwrap().0;
    let mut travel = TimeTravel::open(program(), &dir.0, run).unwrap();
    let records = travel.records();
    assert_eq!(records, all.len() as u64);
    let seen = |travel: &mut TimeTravel, seq| format!("{:?}", travel.seek(seq).unwrap().tasks);
    let forwards: Vec<String> = (1..=records).map(|seq| seen(&mut travel, seq)).collect();
    for seq in (1..=records).rev() {
        let mut at_once = TimeTravel::open(program(), &dir.0, run).unwrap();
        assert_eq!(seen(&mut at_once, seq), forwards[seq as usize - 1], "record {seq}");
    }
    assert_eq!(travel.seek(records).unwrap().tasks[0].state, "completed");
    let whole = 2 + all[1]["lines"].as_u64().unwrap();
    assert_eq!(travel.seek(whole).unwrap().tasks[0].state, "waiting", "it goes on where it stood");

    let mut runtime = team(dir.builder()).build().unwrap();
    let parent = runtime.submit::<(u64, Vec<u64>)>("team", "t", &10u64).unwrap();
    for at in all.iter().filter(|line| line["type"] == "EffectResult").map(|line| &line["seq"]) {
        let at = at.as_u64().unwrap();
        let fork = runtime.fork(&parent, at, Fork::new().set_reply(&5000).unwrap()).unwrap();
        // What came from outside after that comes from outside again.
        for line in all.iter().skip(at as usize).filter(|line| line["type"] == "Message") {
            runtime.send(&fork, "number", &line["value"]).unwrap();
        }
        let (other, drawn_again) = runtime.wait_for(&fork).unwrap();
        let was: u64 = serde_json::from_value(all[at as usize - 1]["value"].clone()).unwrap();
        assert_eq!(other, sum + 5000 - was, "another answer at record {at}");
        assert_eq!(drawn_again.len(), drawn.len());
        let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
        let (a, b) = ((&view, parent.uuid()), (&view, fork.uuid()));
        let diff = diff(a, b, DiffSettings::default()).unwrap();
        let parting = diff.parting.as_ref().expect("they part");
        assert_eq!(parting.a.as_ref().map(|call| call.record), Some(at));
    }
}

/// Works and sleeps in turn. The work takes longer from the third time on.
#[derive(Serialize, Deserialize)]
struct Shifts {
    worked: u32,
    sleeps: bool,
}

impl DurableAgent for Shifts {
    const NAME: &'static str = "shifts";
    type Output = u32;

    fn wants(&self) -> TaskStatus<u32> {
        let worked = self.worked;
        match self.sleeps {
            _ if worked == 6 => TaskStatus::Completed(worked),
            true => TaskStatus::sleep(ms(10)),
            false => TaskStatus::step(step("work", move || {
                std::thread::sleep(ms(if worked < 3 { 0 } else { 100 }));
                Ok::<u32, String>(worked)
            })),
        }
    }

    fn take(&mut self, _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.worked += u32::from(!self.sleeps);
        self.sleeps = !self.sleeps;
        Ok(())
    }
}

/// A generation may begin while a task sleeps, and go on when it has slept.
#[test]
fn a_run_whose_generation_began_in_a_sleep_is_resumed() {
    for every in 4..10 {
        let dir = Dir::new();
        let shifts = |_: ()| Shifts { worked: 0, sleeps: false };
        let build = || {
            let builder = dir.builder().snapshot_every(every);
            builder.register_agent("shifts", shifts).build().unwrap()
        };
        let mut runtime = build();
        let run = runtime.submit::<u32>("shifts", "a", &()).unwrap();
        for _ in 0..4 {
            runtime.run(sleep(ms(60))).unwrap();
            drop(runtime);
            runtime = build();
            assert!(runtime.paused().is_empty(), "every {every}: {:?}", runtime.paused());
        }
        assert_eq!(runtime.wait_for(&run).unwrap(), 6);
    }
}

/// Waits for a message, sleeps, and works.
#[derive(Serialize, Deserialize)]
enum Alarm {
    Unset,
    Sleeping,
    Awake,
    Over(u32),
}

impl DurableAgent for Alarm {
    const NAME: &'static str = "alarm";
    type Output = u32;

    fn wants(&self) -> TaskStatus<u32> {
        match self {
            Alarm::Unset => TaskStatus::receive_message("set"),
            Alarm::Sleeping => TaskStatus::sleep(ms(10)),
            Alarm::Awake => TaskStatus::step(step("work", || Ok::<u32, String>(1))),
            Alarm::Over(worked) => TaskStatus::Completed(*worked),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        *self = match self {
            Alarm::Unset => Alarm::Sleeping,
            Alarm::Sleeping => Alarm::Awake,
            Alarm::Awake | Alarm::Over(_) => Alarm::Over(ctx.written()?),
        };
        Ok(())
    }
}

/// The clock of a fork begins with that of its generation, and not with the moment of the fork.
#[test]
fn a_fork_sleeps_again_what_its_generation_slept() {
    let dir = Dir::new();
    let start = || dir.builder().register_agent("alarm", |(): ()| Alarm::Unset).build().unwrap();
    let mut runtime = start();
    let run = runtime.submit::<u32>("alarm", "a", &()).unwrap();
    // It waits for its message, so the sleep comes after the snapshot.
    runtime.snapshot(&run).unwrap();
    runtime.send(&run, "set", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    drop(runtime);
    let log = lines(&dir);
    assert_eq!((&log[0]["gen"], &log[1]["type"]), (&Value::from(2), &Value::from("Snapshot")));
    let place = |fits: &dyn Fn(&Value) -> bool| log.iter().position(fits).expect("it is recorded");
    let slept = place(&|line| line["call"] == "sleep");
    let worked = place(&|line| line["type"] == "EffectResult");
    assert!(slept < worked);
    let at = log[worked]["seq"].as_u64().unwrap();
    let mut runtime = start();
    let fork = runtime.fork(&run, at, Fork::new().set_reply(&5).unwrap()).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 5);
}

#[test]
fn a_step_under_way_keeps_its_key_and_its_attempts() {
    let dir = Dir::new();
    let start = || dir.builder().register_agent("long", |(): ()| Long(0)).build().unwrap();
    let begun = |count: usize, runtime: &mut Runtime| {
        while LONG.lock().unwrap().len() < count {
            runtime.run(async { sleep(ms(1)).await }).unwrap();
        }
    };
    let mut runtime = start();
    let run = runtime.submit::<u32>("long", "l", &()).unwrap();
    begun(1, &mut runtime);
    runtime.snapshot(&run).unwrap();
    runtime.snapshot(&run).unwrap();
    drop(runtime);
    let mut runtime = start();
    begun(2, &mut runtime);
    runtime.snapshot(&run).unwrap();
    ENDS.store(1, Ordering::Relaxed);
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    drop(runtime);
    let key = format!("{}/2", run.uuid());
    assert_eq!(*LONG.lock().unwrap(), [(key.clone(), 1), (key, 2)]);
    let log = lines(&dir);
    assert_eq!(log[0]["gen"], 4);
    assert_eq!(dir.count("\"type\":\"EffectResult\""), 1);
    // The call, made once.
    assert_eq!(log[0]["continued"]["calls"], 1);
}

/// Waits for a promise, and then for nothing.
#[derive(Serialize, Deserialize)]
enum Asking {
    New,
    Waiting(DurablePromise<u32>),
    Over(u32),
}

impl DurableAgent for Asking {
    const NAME: &'static str = "asking";
    type Output = u32;

    fn wants(&self) -> TaskStatus<u32> {
        match self {
            Asking::New => TaskStatus::external_promise(),
            Asking::Waiting(promise) => TaskStatus::wait(promise),
            Asking::Over(answer) => TaskStatus::Completed(*answer),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        *self = match self {
            Asking::New => Asking::Waiting(ctx.durable_promise()?),
            Asking::Waiting(promise) => Asking::Over(ctx.output(promise)?),
            Asking::Over(answer) => Asking::Over(*answer),
        };
        Ok(())
    }
}

#[test]
fn promises_are_settled_after_a_snapshot_here_and_in_the_next_process() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let start =
            || dir.builder().register_agent("asking", |(): ()| Asking::New).build().unwrap();
        let mut runtime = start();
        let run = runtime.submit::<u32>("asking", "a", &()).unwrap();
        runtime.run(async { sleep(ms(30)).await }).unwrap();
        // The promise is there once the log has it.
        runtime.flush().unwrap();
        runtime.snapshot(&run).unwrap();
        runtime.flush().unwrap();
        let promise = {
            drop(runtime);
            let line = &lines(&dir)[1];
            let uuid = line["tables"]["promises"][0]["uuid"].as_str().expect("it is there");
            Uuid::parse(uuid).unwrap()
        };
        let settled = match restarts {
            // Nobody has the log: what is settled waits there.
            false => tiffany::control::Control::open(&dir.0).unwrap().settle(promise, &5u32),
            true => {
                let mut runtime = start();
                let handle = runtime.handle();
                let settling =
                    std::thread::spawn(move || handle.settle_durable(promise, Ok(&5u32)));
                runtime.run(async { sleep(ms(60)).await }).unwrap();
                settling.join().unwrap()
            }
        };
        assert_eq!(settled.unwrap(), Settlement::Accepted);
        let mut runtime = start();
        assert_eq!(runtime.wait_for(&run).unwrap(), 5);
    }
}

#[test]
fn what_cannot_be_written_down_is_told() {
    let dir = Dir::new();
    let mut runtime = team(dir.builder())
        .register("plain", |(): ()| async {
            sleep(ms(10_000)).await;
            Ok::<(), TaskError>(())
        })
        .build()
        .unwrap();
    let run = runtime.submit::<()>("plain", "p", &()).unwrap();
    let Err(RunError::Failed(error)) = runtime.snapshot(&run) else {
        panic!("it was written down")
    };
    assert_eq!(error.kind(), ErrorKind::NoSnapshot);
    assert!(error.message().contains("not a serializable state machine"), "{error}");
}

#[test]
fn a_snapshot_of_an_unknown_state_machine_pauses_its_run() {
    let dir = Dir::new();
    let mut runtime = team(dir.builder()).build().unwrap();
    let run = runtime.submit::<(u64, Vec<u64>)>("team", "t", &10u64).unwrap();
    runtime.run(async { sleep(ms(20)).await }).unwrap();
    runtime.snapshot(&run).unwrap();
    drop(runtime);
    let unknown = dir.builder().build().unwrap();
    let paused = unknown.paused();
    assert_eq!((paused.len(), paused[0].error.kind()), (1, ErrorKind::NotRestored), "{paused:?}");
    drop(unknown);
    // It goes on with a program that has it.
    let mut runtime = team(dir.builder()).build().unwrap();
    assert!(runtime.paused().is_empty());
    for number in 1..=10u64 {
        runtime.send(&run, "number", &number).unwrap();
    }
    assert_eq!(runtime.wait_for(&run).unwrap().0, 110);
}

/// A log that was cut inside its snapshot is refused: begun from its function, the run would do everything again.
#[test]
fn a_snapshot_that_is_not_whole_is_refused() {
    let dir = Dir::new();
    let mut runtime = team(dir.builder()).build().unwrap();
    let run = runtime.submit::<(u64, Vec<u64>)>("team", "t", &10u64).unwrap();
    runtime.send(&run, "other", &1).unwrap();
    runtime.run(async { sleep(ms(20)).await }).unwrap();
    runtime.snapshot(&run).unwrap();
    drop(runtime);
    let log = dir.log();
    let whole = 2 + lines(&dir)[1]["lines"].as_u64().unwrap() as usize;
    assert_eq!(whole, 5, "a message, the root's wait and the child's: {log}");
    for records in 1..=whole {
        let cut: String = log.split_inclusive('\n').take(records).collect();
        let cut = dir.with_log(&cut);
        let runtime = team(cut.builder()).build().unwrap();
        let refused: Vec<ErrorKind> =
            runtime.paused().iter().map(|paused| paused.error.kind()).collect();
        match records < whole {
            true => assert_eq!(refused, [ErrorKind::NotRestored], "after {records} records"),
            false => assert_eq!(refused, []),
        }
    }
}

/// Waits for a message beside a daemon task.
#[derive(Serialize, Deserialize)]
struct Host {
    guest: Option<DurableTask<u64>>,
    is_over: bool,
}

impl DurableAgent for Host {
    const NAME: &'static str = "host";
    type Output = u64;

    fn wants(&self) -> TaskStatus<u64> {
        match &self.guest {
            _ if self.is_over => TaskStatus::Completed(5),
            None => TaskStatus::spawn_durable_daemon(Member { number: 1, at: Place::Receiving(0) }),
            Some(_) => TaskStatus::receive_message("leave"),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        match self.guest {
            None => self.guest = Some(ctx.durable_task()?),
            Some(_) => self.is_over = true,
        }
        Ok(())
    }
}

#[test]
fn a_snapshot_keeps_daemon_tasks_and_the_rules() {
    let dir = Dir::new();
    let start = || {
        let host = |()| Host { guest: None, is_over: false };
        let builder = dir.builder().register_agent("host", host).agent::<Member>();
        builder.build().unwrap()
    };
    let mut runtime = start();
    let run = runtime.submit::<u64>("host", "h", &()).unwrap();
    runtime.snapshot(&run).unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    let begun = lines(&dir);
    assert_eq!((&begun[0]["gen"], &begun[0]["rules"]), (&2.into(), &2.into()));
    let tasks = begun[1]["tables"]["tasks"].as_array().unwrap();
    let daemons = tasks.iter().filter(|task| task.get("daemon").is_some());
    assert_eq!(daemons.map(|task| &task["tid"]).collect::<Vec<_>>(), [2]);
    let mut runtime = start();
    let run = runtime.submit::<u64>("host", "h", &()).unwrap();
    runtime.send(&run, "leave", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 5);
    drop(runtime);
    let ends = lines(&dir).into_iter().filter(|line| line["type"] == "TaskCancel");
    assert_eq!(ends.map(|line| line["tid"].as_u64().unwrap()).collect::<Vec<_>>(), [2]);
}
