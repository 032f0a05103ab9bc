//! DESIGN §3, Cancel.

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Direct, Priority, RunError, Semaphore, SystemCall, TaskContext, TaskError,
    TaskStatus, Tid, cancel, channel, get_log, get_tid, group, join, kill_task, now, promise,
    read_wait, semaphore, sleep, spawn, spawn_agent, tell, try_spawn, wait, yield_now,
};

use super::common::{Flag, Log, Own, own, poll_once, quiet, run, scheduler, secs, turns};
use super::targets::SlowCleanup;

/// Seconds on the run's clock.
async fn clock() -> u64 {
    now().await.as_nanos() / 1_000_000_000
}

/// "**Cancel** never blocks.": whatever the cleanup takes.
#[test]
fn cancel_never_blocks() {
    run(async {
        let slow = spawn_agent(SlowCleanup::new()).await;
        turns(2).await;
        cancel(&slow).await;
        assert_eq!(clock().await, 0, "the cleanup takes ten seconds, the cancel none");
        assert!(slow.await.unwrap_err().is_cancelled());
        assert_eq!(clock().await, 10);
    });
}

/// "Pending: Cancelled at once, never runs."
#[test]
fn a_pending_task_is_cancelled_at_once_and_never_runs() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let (inner, guard) = (notes.clone(), notes.guard("dropped"));
        let child = spawn(async move {
            let _guard = guard;
            inner.note("ran");
        });
        let (child, alive) = join!(child, kill_task(Tid(2)));
        assert!(alive);
        assert!(child.await.unwrap_err().is_cancelled());
        notes.note("over");
    });
    assert_eq!(log.text(), "dropped over");
}

/// "Pending: Cancelled at once": what its future held is released, and who waits for that is told.
#[test]
fn what_a_pending_task_held_is_released() {
    let mut test = scheduler(quiet().policy(|| Priority));
    let error = test.run(async {
        let held = promise::<()>().await;
        let future = held.future();
        let spawner = spawn(async move {
            let group = group().await;
            let low = spawn(async move { drop(held) }).group(&group);
            let high = try_spawn(async {
                turns(3).await;
                Err::<(), _>("cancels the other, which never ran")
            });
            let (low, high) = join!(low, high.group(&group).priority(9));
            // Nobody has a turn after the failure.
            sleep(secs(60)).await;
            assert!(low.await.unwrap_err().is_cancelled());
            assert!(high.await.is_err());
        });
        let spawner = spawner.priority(9).await;
        let error = future.await.unwrap_err();
        let told_at = clock().await;
        spawner.await.unwrap();
        (error.code(), told_at)
    });
    assert_eq!(error.unwrap(), ("TFY0026", 0), "abandoned, and told at once");
}

/// "Suspended […]: […] it becomes Cancelling": and goes no step further.
#[test]
fn a_suspended_task_goes_no_further() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let task = spawn(async move {
            let _guard = inner.guard("unwound");
            loop {
                inner.note("turn");
                yield_now().await;
            }
        })
        .await;
        turns(1).await;
        notes.note("cancel");
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
    });
    assert_eq!(log.text(), "turn turn cancel unwound");
}

/// "Blocked: its waits are withdrawn": a timer no longer holds the clock.
#[test]
fn a_withdrawn_timer_is_gone() {
    run(async {
        let sleeper = spawn(sleep(secs(3600))).await;
        turns(2).await;
        cancel(&sleeper).await;
        assert!(sleeper.await.is_err());
        sleep(secs(1)).await;
        assert_eq!(clock().await, 1);
    });
}

/// "its waits are withdrawn": the next in line for a permit gets it.
#[test]
fn a_withdrawn_acquire_leaves_the_line() {
    run(async {
        let semaphore = semaphore(1).await;
        let permit = semaphore.acquire().await.unwrap();
        let (first, second) = (semaphore.clone(), semaphore.clone());
        let first = spawn(async move { first.acquire().await.map(drop) }).await;
        let second = spawn(async move { second.acquire().await.map(drop) }).await;
        turns(2).await;
        cancel(&first).await;
        drop(permit);
        assert_eq!(second.await.unwrap(), Ok(()));
        assert!(first.await.unwrap_err().is_cancelled());
    });
}

/// "its waits are withdrawn": a message goes to the next receiver.
#[test]
fn a_withdrawn_receive_takes_no_message() {
    run(async {
        let (sender, receiver) = channel::<u32>(4).await;
        let shared = Rc::new(RefCell::new(receiver));
        let receive = |shared: Rc<RefCell<tiffany::Receiver<u32>>>| {
            let call = shared.borrow_mut().receive();
            spawn(async move { call.await.unwrap() })
        };
        let first = receive(Rc::clone(&shared)).await;
        let second = receive(Rc::clone(&shared)).await;
        turns(2).await;
        cancel(&first).await;
        sender.send(5).await.unwrap();
        assert_eq!(second.await.unwrap(), Some(5));
        assert!(first.await.is_err());
    });
}

/// "its waits are withdrawn": an end that comes later wakes nobody.
#[test]
fn withdrawn_waiters_are_not_woken() {
    let mut test = TestScheduler::new();
    test.run(async {
        let gate = promise::<u32>().await;
        let (one, two) = (gate.future(), gate.future());
        let waiting = spawn(async move { one.await.unwrap() }).await;
        let gathering =
            spawn(async move { tiffany::gather([two.clone(), two]).await.unwrap()[0] }).await;
        turns(2).await;
        cancel(&waiting).await;
        cancel(&gathering).await;
        turns(2).await;
        gate.complete(1).await.unwrap();
        turns(2).await;
        assert!(waiting.await.is_err() && gathering.await.is_err());
    })
    .unwrap();
    let woken = |tid: u64| {
        let of_it = |event: &&tiffany::Event| event.tid == Tid(tid);
        test.trace().events().iter().filter(of_it).any(|e| e.to_string().ends_with("woken"))
    };
    assert!(!woken(2) && !woken(3), "{}", test.trace());
}

/// "its waits are withdrawn": a descriptor is free for another.
#[test]
fn a_withdrawn_read_wait_leaves_the_descriptor() {
    run(async {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let reader = Rc::new(reader);
        let read = |reader: Rc<UnixStream>| spawn(async move { read_wait(&*reader).await });
        let first = read(Rc::clone(&reader)).await;
        let second = read(Rc::clone(&reader)).await;
        turns(2).await;
        cancel(&first).await;
        turns(2).await;
        writer.write_all(b"x").unwrap();
        assert_eq!(second.await.unwrap(), Ok(()));
        assert!(first.await.is_err());
    });
}

/// "its waits are withdrawn": what an effect gives later is dropped and counted.
#[test]
fn a_late_effect_is_counted() {
    let mut test = scheduler(quiet());
    let (go, wait_for_go) = std::sync::mpsc::channel::<()>();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let run = test.start(async move {
        let effect = spawn(tiffany::blocking(move || {
            done.send(()).unwrap();
            wait_for_go.recv()
        }))
        .await;
        turns(2).await;
        // Once the work has begun it can no longer be taken back.
        is_done.recv().unwrap();
        cancel(&effect).await;
        assert!(effect.await.is_err());
        go.send(()).unwrap();
        sleep(secs(1)).await;
    });
    let id = run.id();
    while test.counts(id).late == 0 {
        test.step();
    }
    test.finish(run).unwrap();
}

/// "Running (itself included): the same at its next call": what is before that call still happens.
#[test]
fn a_task_that_cancels_itself_goes_on_to_its_next_call() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let place = Own::<()>::default();
        let (mine, inner) = (Rc::clone(&place), notes.clone());
        let task = spawn(async move {
            let _guard = inner.guard("unwound");
            let me = own(&mine).await;
            mine.borrow_mut().take();
            cancel(&*me).await;
            inner.note("after");
            yield_now().await;
            inner.note("never");
        })
        .await;
        let task = Rc::new(task);
        *place.borrow_mut() = Some(Rc::clone(&task));
        assert!(wait(&*task).await.unwrap_err().is_cancelled());
    });
    assert_eq!(log.text(), "after unwound");
}

/// "Running (itself included)": by number too, and the root as well.
#[test]
fn the_root_may_kill_itself() {
    let error = super::common::result(async {
        let me = get_tid().await;
        assert!(kill_task(me).await, "it was alive");
        sleep(secs(9)).await;
        unreachable!("the call before was the last");
    });
    assert!(matches!(error, Err(RunError::Cancelled(_))), "{error:?}");
}

/// "at its next call": a task that makes none returns its value.
#[test]
fn a_task_that_cancels_itself_and_returns_is_completed() {
    run(async {
        let task = spawn(async {
            kill_task(get_tid().await).await;
            7
        })
        .await;
        assert_eq!(task.await, Ok(7));
    });
}

/// The same with a call that it makes in its last turn and leaves to others.
#[test]
fn a_call_left_behind_by_the_last_turn_is_no_next_call() {
    run(async {
        let own = Rc::new(RefCell::new(Some(group().await)));
        let left = Rc::new(RefCell::new(None));
        let (place, kept) = (Rc::clone(&own), Rc::clone(&left));
        let member = spawn(async move {
            drop(place.take());
            let mut call = Box::pin(yield_now());
            assert!(poll_once(call.as_mut()).await.is_pending());
            *kept.borrow_mut() = Some(call);
            7
        });
        let member = member.group(own.borrow().as_ref().unwrap());
        assert_eq!(member.await.await, Ok(7));
        drop(left);
    });
}

/// "Suspended or Blocked: […] it becomes Cancelling": so does one that cancelled itself and then
/// blocks on something that is no call.
#[test]
fn a_task_that_cancels_itself_and_waits_is_cancelled() {
    run(async {
        let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let foreign = spawn(async move {
            kill_task(get_tid().await).await;
            receiver.await.unwrap();
        })
        .await;
        let several = spawn(async {
            let me = get_tid().await;
            join!(sleep(secs(60)), kill_task(me));
        })
        .await;
        assert!(foreign.await.unwrap_err().is_cancelled());
        assert!(several.await.unwrap_err().is_cancelled());
        assert_eq!(clock().await, 0);
    });
}

/// Three futures, one inside the other, each with two guards.
pub(crate) async fn nested(log: Log, depth: u32) {
    let _first = log.guard(format!("{depth}a"));
    let _second = log.guard(format!("{depth}b"));
    match depth {
        3 => sleep(secs(9)).await,
        _ => Box::pin(nested(log.clone(), depth + 1)).await,
    }
}

/// "A Cancelling coroutine is unwound by the loop, innermost first: Rust futures are dropped".
#[test]
fn unwinding_goes_innermost_first() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let task = spawn(nested(notes.clone(), 1)).await;
        turns(2).await;
        notes.note("cancel");
        cancel(&task).await;
        notes.note("cancelled");
        assert!(task.await.is_err());
    });
    assert_eq!(log.text(), "cancel 3b 3a 2b 2a 1b 1a cancelled");
}

/// "is unwound by the loop": at the task's own turn, not inside the call of the one who cancels.
#[test]
fn unwinding_is_a_turn_of_the_task_itself() {
    let mut test = scheduler(quiet());
    let log = Log::new();
    let (notes, asked) = (log.clone(), Flag::default());
    let flag = Rc::clone(&asked);
    let run = test.start(async move {
        let task = spawn(nested(notes, 3)).await;
        yield_now().await;
        flag.set(true);
        cancel(&task).await;
        task.await
    });
    super::common::step_until(&mut test, &asked);
    assert_eq!(test.task_state(Tid(2)).unwrap().to_string(), "Cancelling");
    assert_eq!(log.text(), "");
    assert!(test.step());
    assert_eq!(test.task_state(Tid(2)).unwrap().to_string(), "Cancelled");
    assert_eq!(log.text(), "3b 3a");
    assert!(test.finish(run).unwrap().is_err());
}

/// "(calls made from `Drop` may only release or withdraw)": a permit, a promise and a sender go back.
#[test]
fn drop_releases() {
    run(async {
        let semaphore = semaphore(1).await;
        let held = promise::<()>().await;
        let (sender, receiver) = channel::<u32>(1).await;
        let (taken, future) = (semaphore.clone(), held.future());
        let task = spawn(async move {
            let _permit = taken.acquire().await.unwrap();
            let (_held, _sender) = (held, sender);
            sleep(secs(9)).await;
        })
        .await;
        turns(3).await;
        cancel(&task).await;
        drop(semaphore.acquire().await.unwrap());
        assert_eq!(future.await.unwrap_err().code(), "TFY0026", "abandoned");
        assert_eq!(receiver.receive().await, Ok(None), "no sender is left");
        assert!(task.await.is_err());
    });
}

/// Makes calls from `Drop`, by hand.
struct CallsFromDrop;

impl Drop for CallsFromDrop {
    fn drop(&mut self) {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut told = Box::pin(tell("from drop"));
        let mut spawned = Box::pin(spawn(async { panic!("spawned from drop") }));
        assert!(told.as_mut().poll(&mut cx).is_pending());
        assert!(spawned.as_mut().poll(&mut cx).is_pending());
        std::mem::forget((told, spawned));
    }
}

/// "calls made from `Drop` may only release or withdraw": any other is not made, on cancel and on
/// normal exit.
#[test]
fn other_calls_from_drop_do_not_happen() {
    let mut test = scheduler(quiet());
    test.run(async {
        let cancelled = spawn(async {
            let _calls = CallsFromDrop;
            sleep(secs(9)).await;
        })
        .await;
        let completed = spawn(async {
            let _calls = CallsFromDrop;
            yield_now().await;
        })
        .await;
        turns(3).await;
        cancel(&cancelled).await;
        assert!(cancelled.await.unwrap_err().is_cancelled());
        assert_eq!(tiffany::gather([completed]).await, Ok(vec![()]));
        assert!(get_log().await.is_empty());
    })
    .unwrap();
    assert!(!test.trace().to_string().contains("tell"), "{}", test.trace());
}

/// A state machine whose cleanup makes calls: it asks for its number, waits a while, and notes both.
struct CallingCleanup {
    log: Log,
    step: u32,
}

impl AgentTask for CallingCleanup {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        self.log.note("waits");
        TaskStatus::Waiting(SystemCall::Sleep(secs(3600)))
    }

    fn cancel(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<()> {
        self.step += 1;
        match self.step {
            1 => TaskStatus::Waiting(SystemCall::GetTid),
            2 => {
                let tid = ctx.reply::<Tid, Direct>();
                self.log.note(format!("cleanup of {}", tid.unwrap()));
                TaskStatus::Waiting(SystemCall::Sleep(secs(5)))
            }
            3 => TaskStatus::Ready,
            _ => {
                self.log.note("clean");
                TaskStatus::Completed(())
            }
        }
    }
}

/// "so `finally` runs and may make calls": in Rust this is a state machine's `cancel`.
#[test]
fn a_cleanup_may_make_calls() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let task = spawn_agent(CallingCleanup { log: notes.clone(), step: 0 }).await;
        turns(2).await;
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
        notes.note(format!("told at {}", clock().await));
    });
    assert_eq!(log.text(), "waits cleanup of 2 clean told at 5");
}

/// A state machine whose cleanup asks for a permit and does not take it.
struct CarelessCleanup {
    permits: Semaphore,
    asked: bool,
}

impl AgentTask for CarelessCleanup {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match std::mem::replace(&mut self.asked, true) {
            false => TaskStatus::acquire(&self.permits),
            true => TaskStatus::Completed(()),
        }
    }
}

/// "a reply delivered but not yet taken goes back […] (a permit to its semaphore)", at the end of a cleanup too.
#[test]
fn a_permit_that_a_cleanup_did_not_take_goes_back() {
    run(async {
        let permits = semaphore(1).await;
        let task = spawn_agent(CarelessCleanup { permits: permits.clone(), asked: false }).await;
        drop(spawn(turns(20)).await);
        turns(2).await;
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
        let _permit = permits.acquire().await.unwrap();
        assert_eq!(clock().await, 0);
    });
}

/// A state machine whose cleanup waits for a promise, for ever if need be, and notes its end.
pub(crate) struct Stuck {
    log: Log,
    on: tiffany::Future<()>,
    _guard: super::common::Guard,
}

impl Stuck {
    pub(crate) fn new(log: &Log, on: tiffany::Future<()>) -> Stuck {
        Stuck { log: log.clone(), on, _guard: log.guard("dropped") }
    }
}

impl AgentTask for Stuck {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::Waiting(SystemCall::Sleep(secs(3600)))
    }

    fn cancel(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<()> {
        use tiffany::Waitable;
        match ctx.reply::<(), Direct>() {
            Ok(()) if self.log.text().contains("stuck") => TaskStatus::Completed(()),
            _ => {
                self.log.note("stuck");
                let claim = <tiffany::Future<()> as Waitable>::claim();
                TaskStatus::Waiting(SystemCall::Wait(self.on.target(), claim))
            }
        }
    }
}

/// "a second cancel […] ends it": whatever the cleanup still waits for.
#[test]
fn a_second_cancel_ends_the_cleanup() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let never = promise::<()>().await;
        let task = spawn_agent(Stuck::new(&notes, never.future())).await;
        turns(2).await;
        cancel(&task).await;
        turns(3).await;
        notes.note("again");
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
        notes.note(format!("told at {}", clock().await));
    });
    assert_eq!(log.text(), "stuck again dropped told at 0");
}

/// "a second cancel […] ends it": by number too.
#[test]
fn a_kill_after_a_cancel_ends_the_cleanup() {
    run(async {
        let task = spawn_agent(SlowCleanup::new()).await;
        turns(2).await;
        assert!(kill_task(task.tid()).await);
        turns(3).await;
        assert!(kill_task(task.tid()).await, "it is alive while it cleans up");
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(clock().await, 0, "not the ten seconds of its cleanup");
    });
}

/// "or a deadline ends it": no later than that, even if nothing else could wake it.
#[test]
fn a_deadline_ends_the_cleanup() {
    let log = Log::new();
    let notes = log.clone();
    let mut test = scheduler(quiet().cancel_grace(secs(3)));
    let told_at = test.run(async move {
        let never = promise::<()>().await;
        let task = spawn_agent(Stuck::new(&notes, never.future())).await;
        turns(2).await;
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
        clock().await
    });
    assert_eq!(told_at.unwrap(), 3);
    assert_eq!(log.text(), "stuck dropped");
}

/// "or a deadline ends it": a cleanup that is done before it is not touched.
#[test]
fn a_cleanup_within_the_deadline_is_not_cut_short() {
    let log = Log::new();
    let notes = log.clone();
    let mut test = scheduler(quiet().cancel_grace(secs(6)));
    test.run(async move {
        let task = spawn_agent(CallingCleanup { log: notes, step: 0 }).await;
        turns(2).await;
        cancel(&task).await;
        assert!(task.await.unwrap_err().is_cancelled());
    })
    .unwrap();
    assert_eq!(log.text(), "waits cleanup of 2 clean");
}

/// "When it ends it is Cancelled, and its waiters get TaskCancelledError, an ordinary Exception": not
/// before its cleanup is over, each of them, as an error that can be handled.
#[test]
fn waiters_are_told_when_the_cleanup_is_over() {
    run(async {
        let task = Rc::new(spawn_agent(SlowCleanup::new()).await);
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let task = Rc::clone(&task);
            waiters.push(
                spawn(async move {
                    let error = wait(task).await.unwrap_err();
                    (error.code(), clock().await)
                })
                .await,
            );
        }
        turns(2).await;
        cancel(&*task).await;
        let told = tiffany::gather(waiters).await.unwrap();
        assert_eq!(told, [("TFY0003", 10); 3]);
    });
}

/// "an ordinary Exception": a waiter that passes it on fails; it is not cancelled itself.
#[test]
fn a_waiter_that_passes_it_on_has_failed() {
    let mut test = scheduler(quiet());
    let run = test.try_start(async {
        let doomed = spawn(sleep(secs(9))).await;
        turns(2).await;
        cancel(&doomed).await;
        doomed.await
    });
    test.step_until_idle();
    assert_eq!(test.task_state(Tid(1)).unwrap().to_string(), "Failed");
    let error = test.finish(run).unwrap_err();
    assert!(matches!(&error, RunError::Failed(error) if error.is_cancelled()), "{error}");
}

/// "Terminal: no effect."
#[test]
fn cancelling_what_is_over_has_no_effect() {
    run(async {
        let done = spawn(async { 7 }).await;
        let failed = try_spawn(async { Err::<u32, _>("own") }).await;
        let cancelled = spawn(sleep(secs(9))).await;
        turns(3).await;
        cancel(&cancelled).await;
        turns(3).await;
        for _ in 0..2 {
            cancel(&done).await;
            cancel(&failed).await;
            cancel(&cancelled).await;
        }
        assert_eq!(done.await, Ok(7));
        assert_eq!(failed.await.unwrap_err().message(), "own");
        assert!(cancelled.await.unwrap_err().is_cancelled());
    });
}

/// "KillTask(tid) is Cancel by number and answers whether that task was alive."
#[test]
fn kill_task_answers_whether_it_was_alive() {
    run(async {
        let log = Log::new();
        let task = spawn(nested(log.clone(), 3)).await;
        let tid = task.tid();
        turns(2).await;
        assert!(kill_task(tid).await);
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(log.text(), "3b 3a");
        assert!(!kill_task(tid).await, "over and forgotten");
        assert!(!kill_task(Tid(99)).await, "never was");
    });
}

/// Panics when it is dropped.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

/// "When it ends": by a panic while it is unwound, it is Failed; the rest of its cleanup and all other
/// tasks go on.
#[test]
fn a_panic_in_drop_fails_the_task_alone() {
    let log = Log::new();
    let notes = log.clone();
    run(async move {
        let inner = notes.clone();
        let task = spawn(async move {
            let _outer = inner.guard("outer");
            let _panics = Panics;
            let _inner = inner.guard("inner");
            sleep(secs(9)).await;
        })
        .await;
        let other = spawn(async {
            turns(9).await;
            7
        })
        .await;
        turns(2).await;
        cancel(&task).await;
        let error = task.await.unwrap_err();
        assert_eq!(error.code(), "TFY0002");
        assert!(error.message().contains("in drop"), "{error}");
        assert_eq!(other.await, Ok(7));
    });
    assert_eq!(log.text(), "inner outer");
}

/// A state machine that ends its cleanup badly.
struct BadCleanup(&'static str);

impl AgentTask for BadCleanup {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::Waiting(SystemCall::Sleep(secs(3600)))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        match self.0 {
            "fails" => TaskStatus::Failed(TaskError::failed("cleanup")),
            "panics" => panic!("cleanup"),
            _ => TaskStatus::Waiting(SystemCall::Sleep(secs(9))),
        }
    }
}

impl Drop for BadCleanup {
    fn drop(&mut self) {
        if self.0 == "panics when dropped" {
            panic!("dropped");
        }
    }
}

/// "When it ends": a cleanup that fails or panics makes its task Failed, and the loop goes on.
#[test]
fn a_bad_cleanup_fails_the_task() {
    for (how, code, text) in [("fails", "TFY0001", "cleanup"), ("panics", "TFY0002", "cleanup")] {
        run(async move {
            let task = spawn_agent(BadCleanup(how)).await;
            turns(2).await;
            cancel(&task).await;
            let error = task.await.unwrap_err();
            assert_eq!(error.code(), code, "{how}");
            assert!(error.message().contains(text), "{error}");
        });
    }
}

/// "a second cancel […] ends it": also a state machine that panics when it is dropped then.
#[test]
fn a_state_machine_that_panics_when_dropped_is_contained() {
    run(async {
        let task = spawn_agent(BadCleanup("panics when dropped")).await;
        turns(2).await;
        cancel(&task).await;
        turns(2).await;
        cancel(&task).await;
        assert!(task.await.is_err());
    });
}
