//! The threat: a fork does something to the world that nobody allowed, does again what its parent did, changes its parent, or is another one after
//! a restart.

use std::sync::{Arc, Mutex};

use crate::durable_kit::{Dir, ms};
use tiffany::durable::{
    DurableRun, Fork, TimeTravel, external_promise, receive, run_id, send, step_with,
};
use tiffany::wal::{RealDisk, View};
use tiffany::{
    Builder, ErrorKind, RunError, Runtime, Settlement, TaskError, Uuid, gather, new_uuid, race,
    random, sleep, spawn, try_spawn,
};

/// All effects that were really done, by their keys.
static LEDGER: Mutex<Vec<(String, &'static str)>> = Mutex::new(Vec::new());

/// The effects that a run has done, in order.
fn done<T>(run: &DurableRun<T>) -> Vec<&'static str> {
    let ledger = LEDGER.lock().unwrap();
    let of_run = ledger.iter().filter(|(key, _)| key.starts_with(&run.uuid().to_string()));
    of_run.map(|(_, name)| *name).collect()
}

async fn act<T>(name: &'static str, value: T) -> Result<T, TaskError>
where
    T: Clone + Send + Sync + serde::Serialize + serde::de::DeserializeOwned + 'static,
{
    let given = value.clone();
    let work = move |attempt: tiffany::durable::Attempt| {
        LEDGER.lock().unwrap().push((attempt.key().to_owned(), name));
        Ok::<T, String>(value.clone())
    };
    step_with(name, work).input(&given).await
}

/// Asks for a fare; books and tells so, or gives up if it is too dear.
async fn trip(city: String) -> Result<String, TaskError> {
    let before = (random().await, new_uuid().await);
    let fare = act("fare", 80_u32).await?;
    let after = (random().await, new_uuid().await);
    let what = match fare {
        0..100 => act("book", city).await?,
        _ => act("refuse", "too dear".to_string()).await?,
    };
    act("mail", what.clone()).await?;
    Ok(format!("{what} {fare} {before:?} {after:?}"))
}

/// Fails with what a step says.
async fn fragile(_: ()) -> Result<String, TaskError> {
    let work = step_with("lift", |attempt| {
        LEDGER.lock().unwrap().push((attempt.key().to_owned(), "lift"));
        Err::<String, String>("it broke".into())
    });
    let lifted = work.await?;
    act("place", format!("{lifted} placed")).await
}

/// Two tasks that are answered in another order than they ask.
async fn rivals(_: ()) -> Result<String, TaskError> {
    let slow = try_spawn(async {
        let work = step_with("slow", |_| {
            std::thread::sleep(ms(150));
            Ok::<String, String>("slow".into())
        });
        work.await
    });
    let slow = slow.await;
    let fast = try_spawn(act("fast", "fast".to_string())).await;
    let first = race([slow, fast]).await?;
    let _ = gather(first.rest).await?;
    Ok(first.value)
}

/// Waits for an answer, then for a message, and sends one.
async fn asks(to: String) -> Result<String, TaskError> {
    let promise = external_promise::<u32>().await;
    let number = promise.wait().await?;
    let word: String = receive("word").await?;
    if !to.is_empty() {
        send(run_id(&to), "news", &word).await?;
    }
    Ok(format!("{number} {word}"))
}

/// Takes whatever comes.
async fn listens(_: ()) -> Result<String, TaskError> {
    receive("news").await
}

/// Does something that must not be done twice, slowly.
async fn pays(_: ()) -> Result<u32, TaskError> {
    let work = step_with("pay", |attempt| {
        LEDGER.lock().unwrap().push((attempt.key().to_owned(), "pay"));
        std::thread::sleep(ms(30));
        Ok::<u32, String>(1)
    });
    work.at_most_once().await
}

/// Sleeps between steps.
/// Does two steps, and the others when it is told to.
async fn slow(count: u32) -> Result<u32, TaskError> {
    let mut sum = 0;
    for number in 0..count {
        if number == 2 {
            receive::<()>("go").await?;
        }
        sum += act("add", number).await?;
        sleep(ms(1)).await;
    }
    Ok(sum)
}

fn program(builder: Builder) -> Builder {
    builder
        .register("trip", trip)
        .register("fragile", fragile)
        .register("rivals", rivals)
        .register("asks", asks)
        .register("listens", listens)
        .register("pays", pays)
        .register("slow", slow)
}

fn runtime(dir: &Dir) -> Runtime {
    program(dir.builder()).build().unwrap()
}

/// The lines of a run, as whoever looks sees them: none, if the log does not have it yet.
fn lines<T>(dir: &Dir, run: &DurableRun<T>) -> Vec<String> {
    let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
    let mut lines = Vec::new();
    if view.run(run.uuid()).is_none() {
        return lines;
    }
    let mut reader = view.reader(run.uuid()).unwrap();
    while let Some(record) = reader.next() {
        lines.push(record.unwrap().json.to_owned());
    }
    lines
}

/// The number of the nth record that has this in it.
fn record<T>(dir: &Dir, run: &DurableRun<T>, nth: usize, what: &str) -> u64 {
    let lines = lines(dir, run);
    let mut with = lines.iter().enumerate().filter(|(_, line)| line.contains(what));
    let found = with.nth(nth - 1).map(|(at, _)| at as u64 + 1);
    found.unwrap_or_else(|| panic!("no {nth} {what} in {lines:#?}"))
}

/// Drives all runs for a moment.
fn rest(runtime: &mut Runtime) {
    let nap = runtime.start(sleep(ms(20)));
    runtime.finish(nap).unwrap();
}

/// The promise of a run, once the log has it, and how many records there are then.
fn promise<T>(dir: &Dir, runtime: &mut Runtime, run: &DurableRun<T>) -> (Uuid, u64) {
    loop {
        rest(runtime);
        let lines = lines(dir, run);
        let made = lines.iter().find_map(|line| line.split_once("\"uuid\":\""));
        // It may be settled once its task was given it.
        let is_given = lines.iter().any(|line| line.contains("TaskWake"));
        if let Some((_, made)) = made.filter(|_| is_given) {
            return (Uuid::parse(&made[..36]).unwrap(), lines.len() as u64);
        }
    }
}

fn kind<T>(result: Result<T, RunError>) -> (ErrorKind, String) {
    let error = result.err().expect("it must fail");
    let task = error.task_error().unwrap_or_else(|| panic!("{error}"));
    (task.kind(), task.message().to_string())
}

fn finished(runtime: &mut Runtime) -> (DurableRun<String>, String) {
    let run = runtime.submit::<String>("trip", "trip", &"Rome").unwrap();
    let value = runtime.wait_for(&run).unwrap();
    (run, value)
}

#[test]
fn a_fork_without_a_change_is_answered_by_its_parent_wherever_it_begins() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, value) = finished(&mut runtime);
    let parts: Vec<&str> = value.split(' ').collect();
    let records = lines(&dir, &run);
    let drawn = record(&dir, &run, 2, "new_uuid");
    assert_eq!(done(&run), ["fare", "book", "mail"]);
    for at in 1..records.len() as u64 {
        let fork = runtime.fork(&run, at, Fork::new()).unwrap();
        let forked = runtime.wait_for(&fork).unwrap_or_else(|error| panic!("at {at}: {error}"));
        let others: Vec<&str> = forked.split(' ').collect();
        assert_eq!(parts[..2], others[..2], "at {at}");
        // Records 2 and 3 drew a random number and a UUID, and those before `drawn` too.
        for (part, record) in [(2, 2), (3, 3), (4, drawn - 1), (5, drawn)] {
            let is_same = parts[part] == others[part];
            assert_eq!(is_same, at >= record, "at {at}: {value} {forked}");
        }
        assert_eq!(done(&fork), [""; 0], "at {at}");
        let log = lines(&dir, &fork).join("\n");
        let given = log.matches("\"from\":\"parent\"").count();
        let of_parent = records[at as usize..].join("\n").matches("\"EffectResult\"").count();
        assert_eq!(given, of_parent, "at {at}: {log}");
    }
    let (why, message) = kind(runtime.fork(&run, records.len() as u64, Fork::new()));
    assert_eq!(why, ErrorKind::NotForkable);
    assert!(message.contains("the run was finished there"), "{message}");
    assert_eq!(lines(&dir, &run), records, "the parent is as it was");
}

#[test]
fn another_answer_takes_another_way_which_is_refused_until_it_is_allowed() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, value) = finished(&mut runtime);
    let at = record(&dir, &run, 1, "EffectResult");
    let dear = || Fork::new().set_reply(&500).unwrap();
    let fork = runtime.fork(&run, at, dear()).unwrap();
    let (why, message) = kind(runtime.wait_for(&fork));
    assert_eq!(why, ErrorKind::NotAllowed);
    assert!(message.contains("needs `refuse`"), "{message}");
    let paused = runtime.paused();
    assert_eq!((paused.len(), paused[0].run), (1, fork.uuid()));
    assert_eq!(done(&fork), [""; 0]);
    // A restart changes nothing, and does not say it twice.
    drop(runtime);
    let mut runtime = self::runtime(&dir);
    assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::NotAllowed);
    let refused = lines(&dir, &fork).iter().filter(|line| line.contains("EffectRefused")).count();
    assert_eq!(refused, 1);
    runtime.allow(&fork, ["refuse"]).unwrap();
    assert!(kind(runtime.wait_for(&fork)).1.contains("needs `mail`"));
    assert_eq!(done(&fork), ["refuse"]);
    drop(runtime);
    let mut runtime = self::runtime(&dir);
    assert!(kind(runtime.wait_for(&fork)).1.contains("needs `mail`"), "what was allowed is known");
    runtime.allow(&fork, ["*"]).unwrap();
    assert!(runtime.wait_for(&fork).unwrap().starts_with("too dear 500 "));
    assert_eq!(done(&fork), ["refuse", "mail"]);
    assert!(runtime.paused().is_empty());
    // All of it can be allowed at once.
    let fork = runtime.fork(&run, at, dear().allow("refuse").allow("mail").id("dear")).unwrap();
    assert_eq!(fork.uuid(), run_id("dear"));
    assert!(runtime.wait_for(&fork).unwrap().starts_with("too dear 500 "));
    assert_eq!(done(&fork), ["refuse", "mail"]);
    assert_eq!(done(&run), ["fare", "book", "mail"]);
    assert_eq!(runtime.wait_for(&run).unwrap(), value);
    assert_eq!(kind(runtime.fork(&run, at, dear().id("dear"))).0, ErrorKind::OtherRun);
    assert!(kind(runtime.allow(&run, ["*"])).1.contains("is finished"));
}

#[test]
fn a_failed_run_completes_with_the_failing_answer_changed_and_the_other_way_round() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<String>("fragile", "fragile", &()).unwrap();
    runtime.wait_for(&run).unwrap_err();
    let at = record(&dir, &run, 1, "EffectResult");
    let fork = Fork::new().set_reply(&"a stone").unwrap().allow("place");
    let fork = runtime.fork(&run, at, fork).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), "a stone placed");
    assert_eq!((done(&run), done(&fork)), (vec!["lift"], vec!["place"]));
    // The fork has a past like any other: it can be forked too.
    let last = record(&dir, &fork, 2, "EffectResult");
    let failed = runtime.fork(&fork, last, Fork::new().fail("nowhere to put it")).unwrap();
    assert!(kind(runtime.wait_for(&failed)).1.contains("nowhere to put it"));
    let again = runtime.fork(&fork, at, Fork::new()).unwrap();
    assert_eq!(runtime.wait_for(&again).unwrap(), "a stone placed");
    let from_the_start = runtime.fork(&fork, 1, Fork::new()).unwrap();
    assert_eq!(runtime.wait_for(&from_the_start).unwrap(), "a stone placed");
    assert_eq!((done(&again), done(&from_the_start)), (vec![], vec![]));
}

#[test]
fn a_fork_of_a_paused_fork_is_answered_by_the_parent_of_its_parent() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, _) = finished(&mut runtime);
    let at = record(&dir, &run, 1, "EffectResult");
    let paused = runtime.fork(&run, at, Fork::new().set_reply(&500).unwrap()).unwrap();
    runtime.wait_for(&paused).unwrap_err();
    let fork = runtime.fork(&paused, at, Fork::new().set_reply(&70).unwrap()).unwrap();
    assert!(runtime.wait_for(&fork).unwrap().starts_with("Rome 70 "));
    assert_eq!(done(&fork), [""; 0]);
}

#[test]
fn answers_of_the_parent_come_in_the_order_in_which_the_parent_had_them() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<String>("rivals", "rivals", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "fast");
    let last = lines(&dir, &run).len() as u64;
    for at in 1..last {
        let fork = runtime.fork(&run, at, Fork::new()).unwrap();
        assert_eq!(runtime.wait_for(&fork).unwrap(), "fast", "at {at}");
        assert_eq!(done(&fork), [""; 0], "at {at}");
    }
}

#[test]
fn a_restart_after_any_record_makes_the_same_fork() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, _) = finished(&mut runtime);
    let at = record(&dir, &run, 1, "EffectResult");
    let fork = Fork::new().set_reply(&500).unwrap().allow("*");
    let fork = runtime.fork(&run, at, fork).unwrap();
    let value = runtime.wait_for(&fork).unwrap();
    drop(runtime);
    let log = lines(&dir, &fork);
    let parent = lines(&dir, &run);
    for cut in at as usize + 1..log.len() {
        let other = Dir::new();
        std::fs::create_dir_all(other.0.join("wal")).unwrap();
        for (uuid, lines) in [(fork.uuid(), &log[..cut]), (run.uuid(), &parent[..])] {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(other.0.join(format!("wal/{uuid}.wal")), text).unwrap();
        }
        let mut runtime = self::runtime(&other);
        let again = runtime.wait_for(&fork).unwrap();
        // UUIDs that were not in the log are others.
        let parts = |value: &str| value.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (was, is) = (parts(&value), parts(&again));
        assert_eq!(
            (&was[..6], was.len()),
            (&is[..6], is.len()),
            "cut after {cut}: {value} {again}"
        );
        let drawn = record(&dir, &fork, 2, "new_uuid") as usize;
        assert_eq!(was[6] == is[6], cut >= drawn, "cut after {cut}: {value} {again}");
    }
}

/// Drives a runtime until another thread has what it asked for.
fn drive_until_finished<T>(runtime: &mut Runtime, thread: &std::thread::JoinHandle<T>) {
    while !thread.is_finished() {
        rest(runtime);
    }
}

#[test]
fn an_inherited_promise_is_settled_by_naming_the_fork() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<String>("asks", "asks", &"").unwrap();
    let (promise, at) = promise(&dir, &mut runtime, &run);
    let handle = runtime.handle();
    let fork = runtime.fork(&run, at, Fork::new()).unwrap();
    let fork_uuid = fork.uuid();
    let settle = move |value: u32, of: Option<Uuid>| {
        let handle = handle.clone();
        std::thread::spawn(move || match of {
            Some(run) => handle.control().settle_in(run, promise, &value),
            None => handle.control().settle(promise, &value),
        })
    };
    let parents = settle(1, None);
    drive_until_finished(&mut runtime, &parents);
    assert_eq!(parents.join().unwrap().unwrap(), Settlement::Accepted);
    let forks = settle(2, Some(fork_uuid));
    drive_until_finished(&mut runtime, &forks);
    assert_eq!(forks.join().unwrap().unwrap(), Settlement::Accepted);
    let again = settle(3, Some(fork_uuid));
    drive_until_finished(&mut runtime, &again);
    assert_eq!(again.join().unwrap().unwrap(), Settlement::Ignored);
    runtime.send(&run, "word", &"parent").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "1 parent");
    let gone = settle(4, None);
    drive_until_finished(&mut runtime, &gone);
    let error = gone.join().unwrap().unwrap_err();
    assert!(error.message().contains(&fork_uuid.to_string()), "{error}");
    runtime.send(&fork, "word", &"fork").unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), "2 fork");
}

#[test]
fn an_inherited_promise_is_settled_offline_by_naming_the_fork() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<String>("asks", "asks", &"").unwrap();
    let (promise, at) = promise(&dir, &mut runtime, &run);
    drop(runtime);
    let mut control = tiffany::control::Control::open(&dir.0).unwrap();
    let fork = control.fork(run.uuid(), at, Fork::new().id("other")).unwrap();
    assert_eq!(control.settle(promise, &1).unwrap(), Settlement::Accepted);
    assert_eq!(
        control.settle(promise, &1).unwrap(),
        Settlement::Ignored,
        "the fork's is not meant"
    );
    assert_eq!(control.settle_in(fork, promise, &2).unwrap(), Settlement::Accepted);
    control.send(run.uuid(), "word", &"parent").unwrap();
    control.send(fork, "word", &"fork").unwrap();
    drop(control);
    let mut runtime = self::runtime(&dir);
    let fork = runtime.submit::<String>("asks", "other", &"").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "1 parent");
    assert_eq!(runtime.wait_for(&fork).unwrap(), "2 fork");
}

#[test]
fn a_message_to_another_run_is_an_effect() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let listener = runtime.submit::<String>("listens", "listener", &()).unwrap();
    let run = runtime.submit::<String>("asks", "asks", &"listener").unwrap();
    let (promise, _) = promise(&dir, &mut runtime, &run);
    let handle = runtime.handle();
    let settled = std::thread::spawn(move || handle.settle_durable(promise, Ok(&7)));
    while !settled.is_finished() {
        rest(&mut runtime);
    }
    settled.join().unwrap().unwrap();
    runtime.send(&run, "word", &"hello").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "7 hello");
    assert_eq!(runtime.wait_for(&listener).unwrap(), "hello");
    // The same message has been sent by the parent; another one is refused.
    let at = record(&dir, &run, 1, "\"type\":\"Message\"");
    let same = runtime.fork(&run, at, Fork::new()).unwrap();
    assert_eq!(runtime.wait_for(&same).unwrap(), "7 hello");
    let other = runtime.fork(&run, at, Fork::new().set_reply(&"bye").unwrap()).unwrap();
    assert!(kind(runtime.wait_for(&other)).1.contains("needs `send`"));
    runtime.allow(&other, ["send"]).unwrap();
    let (why, _) = kind(runtime.wait_for(&other));
    assert_eq!(why, ErrorKind::RunOver, "it is really sent now, and the other run is over");
}

#[test]
fn a_fork_of_a_run_that_goes_on_leaves_it_alone() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<u32>("slow", "slow", &20).unwrap();
    let results = || lines(&dir, &run).join("\n").matches("EffectResult").count();
    while results() < 2 {
        rest(&mut runtime);
    }
    let at = record(&dir, &run, 2, "EffectResult");
    let fork = runtime.fork(&run, at, Fork::new().set_reply(&100).unwrap()).unwrap();
    runtime.send(&fork, "go", &()).unwrap();
    let (why, message) = kind(runtime.wait_for(&fork));
    assert_eq!(why, ErrorKind::NotAllowed, "{message}");
    runtime.send(&run, "go", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 190);
    assert_eq!(done(&run).len(), 20);
    // By now its parent has the answers.
    runtime.allow(&fork, [""; 0]).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 190 - 1 + 100);
    assert_eq!(done(&fork), [""; 0]);
}

#[test]
fn what_must_not_be_done_twice_is_not_done_again_by_a_fork() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let run = runtime.submit::<u32>("pays", "pays", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    let at = record(&dir, &run, 1, "EffectStart");
    let fork = runtime.fork(&run, at, Fork::new()).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 1, "its parent has the answer");
    drop(runtime);
    // With a parent that was cut off in the middle, it is refused, and in doubt if it is allowed.
    let log: String =
        lines(&dir, &run)[..at as usize].iter().map(|line| format!("{line}\n")).collect();
    let other = Dir::new();
    std::fs::create_dir_all(other.0.join("wal")).unwrap();
    std::fs::write(other.0.join(format!("wal/{}.wal", run.uuid())), log).unwrap();
    let mut control = tiffany::control::Control::open(&other.0).unwrap();
    control.fork(run.uuid(), at, Fork::new()).unwrap();
    drop(control);
    let mut runtime = self::runtime(&other);
    let fork = runtime.submit::<u32>("pays", "pays~3", &()).unwrap();
    assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::NotAllowed);
    runtime.allow(&fork, ["pay"]).unwrap();
    assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::InDoubt);
    assert_eq!(done(&fork), [""; 0]);
    assert_eq!(done(&run), ["pay"]);
}

#[test]
fn a_fork_is_looked_at_like_any_other_run_and_outlives_its_parent() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, _) = finished(&mut runtime);
    let at = record(&dir, &run, 1, "EffectResult");
    let fork = Fork::new().set_reply(&500).unwrap().allow("refuse");
    let fork = runtime.fork(&run, at, fork).unwrap();
    runtime.wait_for(&fork).unwrap_err();
    drop(runtime);
    let mut travel = TimeTravel::open(program(Runtime::builder()), &dir.0, fork.uuid()).unwrap();
    for record in 1..=travel.records() {
        travel.seek(record).unwrap_or_else(|error| panic!("record {record}: {error}"));
    }
    drop(travel);
    let settings = tiffany::wal::Settings::default();
    let (mut writer, _) = tiffany::wal::Writer::open(Arc::new(RealDisk), &dir.0, settings).unwrap();
    let mut batch = tiffany::wal::Batch::new();
    batch.remove(run.uuid());
    writer.commit(&mut batch, |_| {}).unwrap();
    writer.close().unwrap();
    let mut runtime = self::runtime(&dir);
    assert!(kind(runtime.wait_for(&fork)).1.contains("needs `mail`"));
    runtime.allow(&fork, ["mail"]).unwrap();
    assert!(runtime.wait_for(&fork).unwrap().starts_with("too dear 500 "));
    assert_eq!(kind(runtime.fork(&run, 1, Fork::new())).0, ErrorKind::RunRemoved);
}

#[test]
fn what_cannot_be_forked_is_told() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, _) = finished(&mut runtime);
    let records = lines(&dir, &run).len() as u64;
    for (at, fork, expected, words) in [
        (0, Fork::new(), ErrorKind::NotForkable, "records are counted from 1".to_string()),
        (999, Fork::new(), ErrorKind::NotForkable, format!("it has records 1 to {records}")),
        (1, Fork::new().set_reply(&1).unwrap(), ErrorKind::NotAnAnswer, "`RunStart`".into()),
        (2, Fork::new().set_reply(&1).unwrap(), ErrorKind::NotAnAnswer, "`TaskYield`".into()),
        (2, Fork::new().fail("no"), ErrorKind::NotAnAnswer, "`TaskYield`".into()),
        (
            record(&dir, &run, 1, "EffectResult"),
            Fork::new().set_reply(&"much").unwrap(),
            ErrorKind::OtherShape,
            "was a whole number, is a text".into(),
        ),
    ] {
        let (why, message) = kind(runtime.fork(&run, at, fork));
        assert_eq!(why, expected, "{message}");
        assert!(message.contains(&words), "{message}");
    }
    assert_eq!(
        View::open(Arc::new(RealDisk), &dir.0).unwrap().runs().count(),
        1,
        "nothing was made"
    );
    let at = record(&dir, &run, 1, "EffectResult");
    let odd = Fork::new().set_reply(&"much").unwrap().as_is();
    let fork = runtime.fork(&run, at, odd).unwrap();
    assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::Unreadable);
    let nobody = tiffany::binding::durable_run::<u32>(Uuid(7));
    assert_eq!(kind(runtime.fork(&nobody, 1, Fork::new())).0, ErrorKind::NoSuchRun);
    let live = runtime.submit::<u32>("slow", "slow", &1).unwrap();
    assert!(kind(runtime.allow(&live, ["add"])).1.contains("is not a fork"));
}

#[test]
fn a_damaged_stretch_cannot_be_forked_and_what_is_before_it_can() {
    let dir = Dir::new();
    let mut runtime = runtime(&dir);
    let (run, _) = finished(&mut runtime);
    drop(runtime);
    let at = record(&dir, &run, 1, "EffectResult");
    let file = dir.0.join(format!("wal/{}.wal", run.uuid()));
    let mut text = std::fs::read_to_string(&file).unwrap();
    let place = text.find("Rome\"},\"at\"").unwrap();
    text.replace_range(place..place + 1, "H");
    std::fs::write(&file, text).unwrap();
    let mut control = tiffany::control::Control::open(&dir.0).unwrap();
    let damaged = control.fork(run.uuid(), at + 4, Fork::new()).unwrap_err();
    assert!(damaged.message().contains("TFY0107"), "{damaged}");
    let fork = control.fork(run.uuid(), at, Fork::new().allow("*").id("saved")).unwrap();
    drop(control);
    let mut runtime = self::runtime(&dir);
    let saved = tiffany::binding::durable_run::<String>(fork);
    // Its parent may have done these, and can't be asked: what was allowed before does not count.
    let (why, message) = kind(runtime.wait_for(&saved));
    assert_eq!(why, ErrorKind::NotAllowed);
    assert!(message.contains("which can't be read") && message.contains("TFY0107"), "{message}");
    assert_eq!(done(&saved), [""; 0]);
    runtime.allow(&saved, ["*"]).unwrap();
    assert!(runtime.wait_for(&saved).unwrap().starts_with("Rome 80"));
    assert_eq!(done(&saved), ["book", "mail"]);
}

#[test]
fn a_parent_that_was_cut_between_two_lines_or_emptied_is_damaged() {
    for left in [6, 0] {
        let dir = Dir::new();
        let mut runtime = runtime(&dir);
        let (run, _) = finished(&mut runtime);
        drop(runtime);
        let mut control = tiffany::control::Control::open(&dir.0).unwrap();
        let fork = control.fork(run.uuid(), 2, Fork::new().allow("*").id("saved")).unwrap();
        drop(control);
        let kept: String =
            lines(&dir, &run)[..left].iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(dir.0.join(format!("wal/{}.wal", run.uuid())), kept).unwrap();
        let mut runtime = self::runtime(&dir);
        let saved = tiffany::binding::durable_run::<String>(fork);
        let (why, message) = kind(runtime.wait_for(&saved));
        assert_eq!(why, ErrorKind::NotAllowed, "{left}: {message}");
        assert_eq!(done(&saved), [""; 0], "{left}: its parent has done them");
        let (why, message) = kind(runtime.wait_for(&run));
        assert!(why == ErrorKind::LogFailed && message.contains("TFY0107"), "{left}: {message}");
        if left == 0 {
            let again = runtime.submit::<String>("trip", "trip", &"Rome");
            let (why, message) = kind(again);
            assert!(why == ErrorKind::LogFailed && message.contains("TFY0107"), "{message}");
        }
    }
}

/// A step that must not be done twice.
async fn pay_once(number: u32, takes: std::time::Duration) -> Result<u32, TaskError> {
    let work = move |attempt: tiffany::durable::Attempt| {
        LEDGER.lock().unwrap().push((attempt.key().to_owned(), "pay"));
        std::thread::sleep(takes);
        Ok::<u32, String>(number)
    };
    step_with("pay", work).at_most_once().input(&number).await
}

/// Pays, waits, pays again; and perhaps begins anew then.
async fn pays_again(begins_anew: bool) -> Result<u32, TaskError> {
    let first = pay_once(1, ms(0)).await?;
    receive::<()>("go").await?;
    let second = pay_once(2, ms(300)).await?;
    if begins_anew {
        return tiffany::durable::continue_as(&false).await;
    }
    Ok(first + second)
}

/// What must not be done twice and has begun or ended in the parent since the fork was made is not done by the fork.
#[test]
fn a_fork_knows_what_its_parent_has_done_since() {
    for (restarts, waits) in [(false, true), (true, true), (false, false)] {
        let dir = Dir::new();
        let build = || dir.builder().register("pays_again", pays_again).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<u32>("pays_again", "a", &false).unwrap();
        while !lines(&dir, &run).join("").contains("EffectResult") {
            rest(&mut runtime);
        }
        let at = record(&dir, &run, 1, "EffectResult");
        let fork = runtime.fork(&run, at, Fork::new().allow("*")).unwrap();
        runtime.send(&run, "go", &()).unwrap();
        match waits {
            true => assert_eq!(runtime.wait_for(&run).unwrap(), 3),
            false => {
                while done(&run).len() < 2 {
                    rest(&mut runtime)
                }
            }
        }
        if restarts {
            drop(runtime);
            runtime = build();
        }
        runtime.send(&fork, "go", &()).unwrap();
        match waits {
            true => assert_eq!(runtime.wait_for(&fork).unwrap(), 3, "its parent has the answer"),
            false => assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::InDoubt),
        }
        assert_eq!(done(&fork), [""; 0]);
        assert_eq!(runtime.wait_for(&run).unwrap(), 3);
    }
}

/// A fork that begins between the call of such a step and the start of its attempt has no record of that start.
#[test]
fn a_step_that_the_parent_has_begun_is_in_doubt_for_a_fork_of_its_call() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("pays_again", pays_again).build().unwrap();
    let run = runtime.submit::<u32>("pays_again", "a", &false).unwrap();
    runtime.send(&run, "go", &()).unwrap();
    while done(&run).len() < 2 {
        rest(&mut runtime);
    }
    let starts: Vec<usize> = (1..=lines(&dir, &run).len())
        .filter(|at| lines(&dir, &run)[at - 1].contains("EffectStart"))
        .collect();
    let at = *starts.last().unwrap() as u64 - 1;
    let fork = runtime.fork(&run, at, Fork::new().allow("*")).unwrap();
    assert_eq!(kind(runtime.wait_for(&fork)).0, ErrorKind::InDoubt);
    assert_eq!(done(&fork), [""; 0]);
    assert_eq!(runtime.wait_for(&run).unwrap(), 3);
}

/// The records of another generation have the numbers of this one, and say nothing about it.
#[test]
fn a_fork_takes_no_answers_of_another_generation() {
    for restarts in [false, true] {
        let dir = Dir::new();
        let build = || dir.builder().register("pays_again", pays_again).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<u32>("pays_again", "a", &true).unwrap();
        while !lines(&dir, &run).join("").contains("EffectResult") {
            rest(&mut runtime);
        }
        let at = record(&dir, &run, 1, "EffectResult");
        let fork = runtime.fork(&run, at, Fork::new().allow("*")).unwrap();
        runtime.send(&run, "go", &()).unwrap();
        while !lines(&dir, &run).join("").contains("\"gen\":2") {
            rest(&mut runtime);
        }
        if restarts {
            drop(runtime);
            runtime = build();
        }
        runtime.send(&fork, "go", &()).unwrap();
        let (why, message) = kind(runtime.wait_for(&fork));
        assert_eq!(why, ErrorKind::NotAllowed, "{message}");
        assert!(message.contains("it is in generation 2 by now"), "{message}");
        assert_eq!(done(&fork), [""; 0]);
    }
}

/// Counts to three, beginning anew for each.
async fn anew(count: u32) -> Result<u32, TaskError> {
    match count {
        3 => act("end", count).await,
        _ => {
            act("count", count).await?;
            tiffany::durable::continue_as(&(count + 1)).await
        }
    }
}

/// What a fork may do stands in its log, so a new generation must not take the place of that.
#[test]
fn a_fork_does_not_begin_anew_and_so_does_nothing_unasked() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("anew", anew).build().unwrap();
    let run = runtime.submit::<u32>("anew", "anew", &0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 3);
    let at = 3; // The last generation's step has begun.
    let fork = runtime.fork(&run, at, Fork::new().id("end")).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 3, "its parent has the answer");
    assert_eq!(done(&fork), Vec::<&str>::new());
    drop(runtime);

    let dir = Dir::new();
    let mut runtime = dir.builder().register("anew", anew).build().unwrap();
    let run = runtime.submit::<u32>("anew", "anew", &0).unwrap();
    let fork = runtime.fork(&run, 1, Fork::new().allow("count")).unwrap();
    let Err(RunError::Failed(error)) = runtime.wait_for(&fork) else { panic!("it began anew") };
    assert_eq!(error.kind(), ErrorKind::CannotContinue, "{error}");
    assert_eq!(done(&fork), ["count"], "what it was allowed, and nothing of a later generation");
    assert_eq!(runtime.wait_for(&run).unwrap(), 3, "its parent goes on");
}

/// Fails beside a task that listens.
async fn stumbles(_: ()) -> Result<(), TaskError> {
    drop(try_spawn(async { receive::<u32>("news").await }).await);
    drop(spawn(sleep(ms(3_600_000))).daemon().await);
    let fare = act("fare", 80_u32).await?;
    Err(TaskError::failed(format!("{fare} is too dear")))
}

#[test]
fn a_fork_ends_by_the_rules_of_its_parent() {
    let dir = Dir::new();
    let start = || dir.builder().register("stumbles", stumbles).build().unwrap();
    let mut runtime = start();
    let run = runtime.submit::<()>("stumbles", "s", &()).unwrap();
    runtime.wait_for(&run).unwrap_err();
    drop(runtime);
    let mut runtime = start();
    let at = dir.log().lines().position(|line| line.contains("EffectResult")).unwrap() as u64 + 1;
    let fork = runtime.fork(&run, at, Fork::new().set_reply(&90_u32).unwrap()).unwrap();
    let error = runtime.wait_for(&fork).unwrap_err();
    assert_eq!(error.task_error().unwrap().message(), "90 is too dear");
    drop(runtime);
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", fork.uuid()))).unwrap();
    assert!(log.lines().next().unwrap().contains("\"rules\":2,"), "{log}");
    assert_eq!(log.matches("\"daemon\":true").count(), 1, "{log}");
    assert_eq!(log.matches("\"TaskCancel\"").count(), 2, "{log}");
}
