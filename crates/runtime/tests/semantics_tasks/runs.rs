//! DESIGN §3, Runs.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    Candidate, Limits, Policy, RunError, RunId, Tid, channel, durable, get_tid, now, promise,
    read_wait, select, sleep, spawn, try_spawn, wait, write_wait, yield_now,
};

use super::common::{Log, chant, quiet, scheduler, secs, turns};

/// A run with a bit of everything, whose order could be disturbed.
async fn busy(log: Log) {
    let gate = promise::<u32>().await;
    let mut tasks = Vec::new();
    for n in 0..4u64 {
        let (log, future) = (log.clone(), gate.future());
        tasks.push(
            spawn(async move {
                log.note(format!("start{n}"));
                sleep(secs(4 - n)).await;
                log.note(format!("slept{n}"));
                turns(n as usize).await;
                let value = wait(&future).await.unwrap();
                log.note(format!("got{n}:{value}"));
            })
            .await,
        );
    }
    sleep(secs(3)).await;
    gate.complete(7).await.unwrap();
    tiffany::gather(tasks).await.unwrap();
}

/// Disturbs, if anything can: other timers, tasks, promises and endless turns.
async fn noise() {
    let mut tasks = Vec::new();
    for n in 1..20u64 {
        tasks.push(
            spawn(async move {
                turns(n as usize * 3).await;
                sleep(secs(n) / 4).await;
                let inner = promise::<u64>().await;
                inner.complete(n).await.unwrap();
                inner.future().await.unwrap()
            })
            .await,
        );
    }
    tiffany::gather(tasks).await.unwrap();
}

fn lines_of(test: &TestScheduler, run: RunId) -> Vec<String> {
    let events = test.trace();
    events.events().iter().filter(|event| event.run == run).map(ToString::to_string).collect()
}

/// "Queue, rounds, policy, tids, clock and limits are per run, so one run never changes another's
/// order." The whole trace of a run, clock included, is the same alone and beside a noisy one.
#[test]
fn a_run_takes_the_same_way_alone_and_beside_another() {
    let alone_log = Log::new();
    let mut alone = TestScheduler::new();
    let run = alone.start(busy(alone_log.clone()));
    let id = run.id();
    alone.finish(run).unwrap();
    let expected = lines_of(&alone, id);
    assert!(expected.len() > 50, "a run worth comparing");

    let log = Log::new();
    let mut both = TestScheduler::new();
    let other = both.start(noise());
    let run = both.start(busy(log.clone()));
    let id = run.id();
    both.finish(run).unwrap();
    both.finish(other).unwrap();
    assert_eq!(lines_of(&both, id), expected);
    assert_eq!(log.text(), alone_log.text());
}

/// "Queue, rounds […] are per run": runs take turns, one round each.
#[test]
fn runs_take_turns_round_by_round() {
    let log = Log::new();
    let mut test = scheduler(quiet());
    let two = |first: &'static str, second: &'static str| {
        let log = log.clone();
        async move {
            let child = spawn(chant(log.clone(), first, 3)).await;
            chant(log, second, 3).await;
            child.await.unwrap();
        }
    };
    let one = test.start(two("a1", "a2"));
    let other = test.start(two("b1", "b2"));
    test.finish(one).unwrap();
    test.finish(other).unwrap();
    assert_eq!(log.text(), "a1 a2 b1 b2 a1 a2 b1 b2 a1 a2 b1 b2");
}

/// "tids […] are per run": given in order from 1, in each run anew.
#[test]
fn tids_are_given_in_order_in_each_run() {
    let mut test = scheduler(quiet());
    let tids = || async {
        let mut tids = vec![get_tid().await];
        for _ in 0..3 {
            tids.push(spawn(get_tid()).await.await.unwrap());
        }
        tids
    };
    let (one, two) = (test.start(tids()), test.start(tids()));
    let expected = vec![Tid(1), Tid(2), Tid(3), Tid(4)];
    assert_eq!(test.finish(one).unwrap(), expected);
    assert_eq!(test.finish(two).unwrap(), expected);
}

/// Counts its own rounds, and puts them where the test can see them.
struct CountRounds(Rc<RefCell<Vec<u32>>>, usize);

impl Policy for CountRounds {
    fn plan(&mut self, _: &[Candidate], _: &mut Vec<Tid>) {
        self.0.borrow_mut()[self.1] += 1;
    }
}

/// "policy […] per run": each run has an instance of its own, asked for that run's rounds alone.
#[test]
fn each_run_has_its_own_policy() {
    let counts = Rc::new(RefCell::new(Vec::new()));
    let shared = Rc::clone(&counts);
    let mut test = TestScheduler::with(quiet().policy(move || {
        shared.borrow_mut().push(0);
        CountRounds(Rc::clone(&shared), shared.borrow().len() - 1)
    }));
    let long = test.start(turns(10));
    let short = test.start(turns(3));
    test.finish(long).unwrap();
    test.finish(short).unwrap();
    assert_eq!(*counts.borrow(), [11, 4], "a turn for each yield and one to end");
}

/// "clock […] per run": the run's clock is read where the run is, whatever others wait for.
#[test]
fn each_run_reads_the_time_for_itself() {
    let mut test = scheduler(quiet());
    let sleeper = |seconds: Vec<u64>| async move {
        let mut times = Vec::new();
        for seconds in seconds {
            sleep(secs(seconds)).await;
            times.push(now().await.as_nanos() / 1_000_000_000);
        }
        times
    };
    let (one, two) = (test.start(sleeper(vec![2, 2])), test.start(sleeper(vec![1, 2, 3])));
    assert_eq!(test.finish(one).unwrap(), [2, 4]);
    assert_eq!(test.finish(two).unwrap(), [1, 3, 6]);
}

/// "limits are per run": what one run uses up, another still has.
#[test]
fn limits_count_for_each_run_alone() {
    let limits = Limits { max_tasks: Some(3), max_calls: Some(40), ..Limits::default() };
    let mut test = TestScheduler::with(quiet().limits(limits));
    let full = || async {
        let held: Vec<_> = [spawn(turns(5)).await, spawn(turns(5)).await].into();
        let refused = spawn(turns(5)).checked().await.is_err();
        tiffany::gather(held).await.unwrap();
        refused
    };
    let (one, two) = (test.start(full()), test.start(full()));
    let greedy = test.start(turns(100));
    assert!(test.finish(one).unwrap(), "the third child of the first run is one too many");
    assert!(test.finish(two).unwrap(), "and so is that of the second, not its first");
    assert!(
        matches!(test.finish(greedy), Err(RunError::Limit(_))),
        "while a third run uses up its own"
    );
}

/// "In *ephemeral* runs tasks may use descriptors, foreign futures and anything else."
#[test]
fn ephemeral_tasks_may_use_anything() {
    let mut test = scheduler(quiet());
    let text = test.run(async {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let waiting = spawn(async move { read_wait(&reader).await.map(|()| "readable") }).await;
        write_wait(&writer).await.unwrap();
        writer.write_all(b"x").unwrap();
        let descriptor = waiting.await.unwrap().unwrap();

        let (sender, receiver) = tokio::sync::oneshot::channel();
        let foreign = spawn(receiver).await;
        yield_now().await;
        sender.send("foreign").unwrap();
        let foreign = foreign.await.unwrap().unwrap();

        let thread = std::thread::spawn(|| "thread").join().unwrap();
        format!("{descriptor} {foreign} {thread}")
    });
    assert_eq!(text.unwrap(), "readable foreign thread");
}

/// "and anything else": a handle that ends up in another run is given back to its own.
#[test]
fn a_handle_dropped_in_another_run_goes_back_to_its_own() {
    let place: Rc<RefCell<Option<tiffany::Promise<u32>>>> = Rc::default();
    let (put, taken) = (Rc::clone(&place), Rc::clone(&place));
    let mut test = scheduler(quiet());
    let owner = test.start(async move {
        let own = promise::<u32>().await;
        let future = own.future();
        *put.borrow_mut() = Some(own);
        future.await.unwrap_err().code()
    });
    let other = test.start(async move {
        turns(5).await;
        drop(taken.borrow_mut().take());
    });
    // By turns, because the owner alone would be found to wait for nothing.
    for _ in 0..20 {
        test.step();
    }
    test.finish(other).unwrap();
    assert_eq!(test.finish(owner).unwrap(), "TFY0026");
}

/// "In *durable* runs the world is reached through effects, timers, promises and messages only": these
/// four work.
#[test]
fn durable_tasks_use_effects_timers_promises_and_messages() {
    let mut test = TestScheduler::durable_rules(quiet());
    let handle = test.runtime().handle();
    let text = test.try_run(async move {
        let effect = durable::step("work", || Ok::<_, String>("effect".to_string())).await?;
        sleep(secs(1)).await;
        let own = promise::<&str>().await;
        own.complete("promise").await?;
        let outside = durable::external_promise::<String>().await;
        let uuid = outside.uuid();
        std::thread::spawn(move || handle.settle_durable(uuid, Ok(&"external")));
        let (sender, receiver) = channel::<&str>(1).await;
        sender.send("message").await?;
        let message = receiver.receive().await?.unwrap_or("none");
        let (own, outside) = (own.future().await?, outside.wait().await?);
        Ok::<_, tiffany::TaskError>(format!("{effect} {own} {outside} {message}"))
    });
    assert_eq!(text.unwrap(), "effect promise external message");
}

/// "ReadWait, WriteWait […] are errors there, which name the line and say: use a step."
#[test]
fn durable_tasks_may_not_wait_on_descriptors() {
    let mut test = TestScheduler::durable_rules(quiet());
    test.run(async {
        let (reader, writer) = UnixStream::pair().unwrap();
        let (read, read_line) = (read_wait(&reader), line!());
        let (write, write_line) = (write_wait(&writer), line!());
        for (error, line) in
            [(read.await.unwrap_err(), read_line), (write.await.unwrap_err(), write_line)]
        {
            assert_eq!(error.code(), "TFY0020");
            let text = error.to_string();
            assert!(text.contains(&format!("{}:{line}", file!())), "names the line: {text}");
            assert!(text.contains("use a step"), "{text}");
        }
    })
    .unwrap();
}

/// "sockets, child processes […] are errors there, which name the line and say: use a step."
#[test]
fn durable_tasks_may_not_use_sockets_or_child_processes() {
    use tiffany::net::{TcpListener, TcpStream, UdpSocket};
    let mut test = TestScheduler::durable_rules(quiet());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    test.run(async move {
        let mut command = tiffany::process::Command::new("true");
        let errors = [
            (TcpListener::bind("127.0.0.1:0").await.err(), line!()),
            (TcpStream::connect(address).await.err(), line!()),
            (UdpSocket::bind("127.0.0.1:0").await.err(), line!()),
            (tiffany::net::UnixStream::connect("/nowhere").await.err(), line!()),
            (command.status().await.err(), line!()),
        ];
        for (error, line) in errors {
            let text = error.unwrap().to_string();
            assert!(text.contains("TFY0020") && text.contains("use a step"), "{text}");
            assert!(text.contains(&format!("{}:{line}", file!())), "names the line: {text}");
        }
    })
    .unwrap();
    let nobody = listener.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock, "nothing was done to the world");
}

/// "in a durable run that is an error": beside a system call too, as soon as they wake the task.
#[test]
fn durable_tasks_may_not_select_on_foreign_futures() {
    let mut test = TestScheduler::durable_rules(quiet());
    let (sender, receiver) = tokio::sync::oneshot::channel::<u32>();
    let error = test
        .try_run(async {
            let task = spawn(async move {
                select! {
                    got = receiver => format!("foreign {got:?}"),
                    () = sleep(secs(10)) => "timer".to_string(),
                }
            })
            .await;
            turns(3).await;
            sender.send(1).unwrap();
            task.await
        })
        .unwrap_err();
    assert_eq!(error.code(), "TFY0020");
}

/// "foreign futures are errors there, which name the line and say: use a step." The kernel cannot see
/// the line of a foreign `.await`; it names the line of the task.
#[test]
fn durable_tasks_may_not_await_foreign_futures() {
    let mut test = TestScheduler::durable_rules(quiet());
    let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
    test.run(async {
        let (foreign, line) = (spawn(receiver).name("foreign"), line!());
        let text = foreign.await.await.unwrap_err().to_string();
        assert!(text.contains("TFY0020"), "{text}");
        assert!(text.contains(&format!("{}:{line}", file!())), "names the line: {text}");
        assert!(text.contains("`foreign`") && text.contains("use a step"), "{text}");
    })
    .unwrap();
}

/// "Tasks of one run may share memory": in durable runs too.
#[test]
fn tasks_of_one_run_share_memory() {
    let mut test = TestScheduler::durable_rules(quiet());
    let total = test.run(async {
        let total = Rc::new(Cell::new(0));
        let mut tasks = Vec::new();
        for n in 1..=4 {
            let total = Rc::clone(&total);
            tasks.push(
                try_spawn(async move {
                    turns(n).await;
                    total.set(total.get() + n);
                    Ok::<(), String>(())
                })
                .await,
            );
        }
        tiffany::gather(tasks).await.unwrap();
        total.get()
    });
    assert_eq!(total.unwrap(), 10);
}
