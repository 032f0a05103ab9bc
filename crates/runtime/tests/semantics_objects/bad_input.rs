//! Bad input: a clear error that names the task, the call and the line, and nothing lost.

use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, Candidate, ErrorKind, EventKind, Limits, Policy, RunError, Runtime, SystemCall,
    Task, TaskContext, TaskError, TaskStatus, Tid, Uuid, ask, cancel, channel, external_promise,
    gather, get_tid, group, now, promise, race, read_wait, semaphore, sleep, sleep_secs, spawn,
    timeout, wait, yield_now,
};

use super::{Notes, assert_ends_with_next_step, assert_names, ms, secs};

/// Polls a future once, outside any task.
fn poll_outside<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// "A result is kept while a handle to it lives": waiting on a task that is over and whose handle is gone is
/// an error (TFY0007) that says so. Only a state machine can do that: it may keep a bare reference.
#[test]
fn waiting_on_an_unknown_task() {
    struct Waits(Option<tiffany_kernel::TaskRef>);
    impl AgentTask for Waits {
        type Output = TaskError;
        fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<TaskError> {
            match self.0.take() {
                Some(stale) => TaskStatus::Waiting(SystemCall::Wait(
                    tiffany_kernel::Waitable::Task(stale),
                    tiffany_kernel::Claim::Share,
                )),
                None => match ctx.reply::<tiffany::Value, tiffany::Direct>() {
                    Err(error) => TaskStatus::Completed(error),
                    Ok(_) => TaskStatus::Failed(TaskError::failed("the wait worked")),
                },
            }
        }
    }
    TestScheduler::new()
        .run(async {
            let task = spawn(async {}).await;
            let stale = task.task_ref();
            task.await.unwrap();
            yield_now().await;
            let waits = tiffany::spawn_agent(Waits(Some(stale))).name("waits").await;
            let error = waits.await.unwrap();
            assert_eq!(error.code(), "TFY0007", "{error}");
            assert_eq!(error.task().unwrap().name.as_deref(), Some("waits"));
            assert!(error.message().contains("task 2"), "{error}");
            assert!(error.to_string().contains("in `wait` at "), "{error}");
            assert_ends_with_next_step(&error);
            assert_eq!(tiffany::wait_task(Tid(99)).await, Ok(false), "by bare number: it is over");
        })
        .unwrap();
}

/// "Queue, rounds, policy, tids, clock and limits are per run": handles of another run are errors (TFY0008) in
/// every call that takes one, and both runs go on.
#[test]
fn handles_of_another_run() {
    type Handles = (
        Rc<Task<u32>>,
        tiffany::Promise<u32>,
        (tiffany::Sender<u32>, tiffany::Receiver<u32>),
        tiffany::Semaphore,
        tiffany::Group,
    );
    let shared: Rc<RefCell<Option<Handles>>> = Rc::default();
    let (give, take) = (Rc::clone(&shared), shared);
    let mut test = TestScheduler::new();
    let owner = test.start(async move {
        let task = Rc::new(spawn(async { 7 }).await);
        let handles = (
            Rc::clone(&task),
            promise::<u32>().await,
            channel::<u32>(1).await,
            semaphore(1).await,
            group().await,
        );
        *give.borrow_mut() = Some(handles);
        sleep(secs(1)).await;
        wait(task).await
    });
    let stranger = test.start(async move {
        sleep(ms(1)).await;
        let (task, promise, (sender, receiver), semaphore, group) = take.take().unwrap();
        let here = Tid(1);
        let line = line!() + 1;
        assert_names(&wait(Rc::clone(&task)).await.unwrap_err(), "TFY0008", here, "wait", line);
        let line = line!() + 1;
        let error = gather([Rc::clone(&task)]).await.unwrap_err();
        assert_names(&error, "TFY0008", here, "gather", line);
        let line = line!() + 1;
        let error = race([Rc::clone(&task)]).await.map(|won| won.value).unwrap_err();
        assert_names(&error, "TFY0008", here, "race", line);
        let line = line!() + 1;
        assert_names(&cancel(&task).checked().await.unwrap_err(), "TFY0008", here, "cancel", line);
        let line = line!() + 1;
        let error = promise.complete(1).await.unwrap_err();
        assert_names(&error, "TFY0008", here, "complete_promise", line);
        let line = line!() + 1;
        let error = promise.fail(TaskError::failed("no")).await.unwrap_err();
        assert_names(&error, "TFY0008", here, "fail_promise", line);
        let line = line!() + 1;
        assert_names(&promise.future().await.unwrap_err(), "TFY0008", here, "wait", line);
        let line = line!() + 1;
        assert_names(&sender.send(1).await.unwrap_err(), "TFY0008", here, "send", line);
        let line = line!() + 1;
        assert_names(&receiver.receive().await.unwrap_err(), "TFY0008", here, "receive", line);
        let line = line!() + 1;
        assert_names(&semaphore.acquire().await.unwrap_err(), "TFY0008", here, "acquire", line);
        let line = line!() + 1;
        assert_names(&group.join().await.unwrap_err(), "TFY0008", here, "join_group", line);
        let line = line!() + 1;
        let error = spawn(async {}).group(&group).checked().await.unwrap_err();
        assert_names(&error, "TFY0008", here, "spawn", line);
    });
    test.finish(stranger).unwrap();
    assert_eq!(test.finish(owner).unwrap(), Ok(7), "nothing lost");
}

/// "a closed or bad one is an error in the waiter, never a hang": closing a descriptor that a task waits on is
/// told to that task, with its line; who settles up properly is not disturbed.
#[test]
fn closing_a_descriptor_someone_waits_on() {
    struct Raw(i32);
    impl AsRawFd for Raw {
        fn as_raw_fd(&self) -> i32 {
            self.0
        }
    }
    tiffany::run(async {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let fd = reader.as_raw_fd();
        let line = line!() + 1;
        let waits = spawn(async move { read_wait(&Raw(fd)).await }).name("waits").await;
        let other = spawn(async { sleep(ms(5)).await }).await;
        yield_now().await;
        yield_now().await;
        drop(reader);
        other.await.unwrap();
        let error = waits.await.unwrap().unwrap_err();
        assert_names(&error, "TFY0012", Tid(2), "read_wait", line);
        assert_eq!(error.task().unwrap().name.as_deref(), Some("waits"));
        assert!(error.message().contains(&fd.to_string()), "{error}");
        let line = line!() + 1;
        let error = read_wait(&Raw(-1)).await.unwrap_err();
        assert_names(&error, "TFY0011", Tid(1), "read_wait", line);
    })
    .unwrap();
}

/// "settling one twice is an error the caller can catch": it names task, call and line.
#[test]
fn settling_a_settled_promise() {
    TestScheduler::new()
        .run(async {
            let promise = promise::<u32>().await;
            promise.complete(1).await.unwrap();
            let line = line!() + 1;
            let error = promise.complete(2).await.unwrap_err();
            assert_names(&error, "TFY0009", Tid(1), "complete_promise", line);
            let line = line!() + 1;
            let error = promise.fail(TaskError::failed("no")).await.unwrap_err();
            assert_names(&error, "TFY0009", Tid(1), "fail_promise", line);
            assert_eq!(promise.future().await, Ok(1), "nothing lost");
        })
        .unwrap();
}

/// "settled … by its UUID": one that nobody has is an error that names it; the one that was meant still waits.
#[test]
fn an_unknown_uuid() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let value = runtime.run(async move {
        let promise = external_promise::<u32>().await;
        let Uuid(bits) = promise.uuid();
        let error = handle.complete(Uuid(bits ^ 1), 1u32).unwrap_err();
        assert_eq!(error.code(), "TFY0010");
        assert!(error.message().contains(&Uuid(bits ^ 1).to_string()), "{error}");
        assert_ends_with_next_step(&error);
        handle.complete(promise.uuid(), 2u32).unwrap();
        promise.future().await
    });
    assert_eq!(value.unwrap(), Ok(2));
}

/// "Errors give the line of the call": negative and overflowing durations, caught and not caught.
#[test]
fn negative_and_overflowing_durations() {
    TestScheduler::new()
        .run(async {
            let line = line!() + 1;
            let error = sleep_secs(-1.0).checked().await.unwrap_err();
            assert_names(&error, "TFY0013", Tid(1), "sleep", line);
            assert!(error.message().contains("-1"), "{error}");
            let line = line!() + 1;
            let error = sleep(Duration::MAX).checked().await.unwrap_err();
            assert_names(&error, "TFY0013", Tid(1), "sleep", line);
            let line = line!() + 1;
            let error = timeout(Duration::MAX, sleep(secs(1))).await.unwrap_err();
            assert_names(&error, "TFY0013", Tid(1), "sleep", line);
            let line = line!() + 1;
            let task = spawn(async { sleep_secs(f64::NAN).await }).name("sleeper").await;
            let error = task.await.unwrap_err();
            assert_names(&error, "TFY0013", Tid(2), "sleep", line);
            assert!(error.to_string().contains("`sleeper`"), "{error}");
        })
        .unwrap();
}

/// "Errors give the line of the call": more permits than there are in all, which nobody could ever give, are an
/// error (TFY0033) at the call. It takes none, and those behind it are not held up.
#[test]
fn more_permits_than_there_are() {
    TestScheduler::new()
        .run(async {
            let permits = semaphore(2).await;
            let held = permits.acquire().await.unwrap();
            let line = line!() + 1;
            let error = permits.acquire_many(3).await.unwrap_err();
            assert_names(&error, "TFY0033", Tid(1), "acquire", line);
            assert!(error.message().contains("2 permits in all, and not 3"), "{error}");
            drop(permits.acquire().await.unwrap());
            drop(held);
            drop(permits.acquire_many(2).await.unwrap());
            let none = semaphore(0).await;
            assert_eq!(none.acquire().await.unwrap_err().code(), "TFY0033");
            drop(none.acquire_many(0).await.unwrap());
        })
        .unwrap();
}

/// "per-run limits (tasks": ten thousand where a thousand are allowed. The spawner gets the error at its line;
/// those that were spawned go on and complete.
#[test]
fn more_tasks_than_the_limit() {
    let limits = Limits { max_tasks: Some(1_000), ..Limits::default() };
    let mut test = TestScheduler::with(Runtime::builder().limits(limits));
    let (spawned, refused) = test
        .run(async {
            let (mut tasks, mut refused) = (Vec::new(), 0);
            for n in 0..10_000u32 {
                let work = async move {
                    sleep(secs(1)).await;
                    n
                };
                let line = line!() + 1;
                match spawn(work).checked().await {
                    Ok(task) => tasks.push(task),
                    Err(error) => {
                        assert_names(&error, "TFY0014", Tid(1), "spawn", line);
                        refused += 1;
                    }
                }
            }
            (gather(tasks).await.unwrap(), refused)
        })
        .unwrap();
    assert_eq!(spawned, Vec::from_iter(0..999), "with the root it is a thousand");
    assert_eq!(refused, 10_000 - 999);

    let limits = Limits { max_tasks: Some(1_000), ..Limits::default() };
    let done = Notes::new();
    let seen = done.clone();
    let ended = TestScheduler::with(Runtime::builder().limits(limits).on_unobserved(|_| {}))
        .run(async move {
            let spawner = spawn(async move {
                for n in 0..10_000u32 {
                    let done = done.clone();
                    let task = async move {
                        sleep(secs(1)).await;
                        done.add(n);
                    };
                    drop(spawn(task).await);
                }
            });
            spawner.await.await
        })
        .unwrap();
    assert_eq!(ended.unwrap_err().code(), "TFY0014", "not caught, it ends the spawner");
    assert_eq!(seen.take().len(), 998, "and the others complete");
}

/// "Policies are a trait … each deterministic": one that names tasks that aren't ready, never were or twice is
/// passed over and reported; all tasks complete.
#[test]
fn a_policy_that_names_a_task_that_is_not_ready() {
    struct Confused;
    impl Policy for Confused {
        fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
            plan.extend([Tid(2), Tid(999)]);
            plan.extend(candidates.iter().rev().map(|candidate| candidate.tid));
            plan.extend(candidates.first().map(|candidate| candidate.tid));
        }
    }
    let mut test = TestScheduler::with(Runtime::builder().policy(|| Confused));
    let values = test.run(async {
        let sleeper = spawn(async {
            sleep(secs(1)).await;
            1
        })
        .await;
        let other = spawn(async {
            yield_now().await;
            2
        })
        .await;
        gather([sleeper, other]).await
    });
    assert_eq!(values.unwrap(), Ok(vec![1, 2]));
    let trace = test.trace();
    let reported: std::collections::BTreeSet<Tid> = trace
        .events()
        .iter()
        .filter(|event| matches!(event.kind, EventKind::NotReady))
        .map(|event| event.tid)
        .collect();
    assert!(reported.contains(&Tid(2)) && reported.contains(&Tid(999)), "{reported:?}");
}

/// "A call finds its task through a thread-local": made where no task runs, it is an error (TFY0004) with the
/// call and the line, or a panic with the same text where there is no result to put it in.
#[test]
fn a_call_from_outside_a_task() {
    fn text<T>(call: impl Future<Output = T>) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| poll_outside(call).is_ready())).unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }
    let line = line!() + 1;
    let Poll::Ready(Err(error)) = poll_outside(now().checked()) else { panic!("no error") };
    assert_eq!(error.code(), "TFY0004");
    assert_eq!(error.call_site().map(|site| site.line), Some(line));
    assert!(error.message().contains("`now`"), "{error}");
    assert_ends_with_next_step(&error);
    let line = line!() + 1;
    let Poll::Ready(Err(error)) = poll_outside(ask::<u32>("key")) else { panic!("no error") };
    assert_eq!((error.code(), error.call_site().map(|at| at.line)), ("TFY0004", Some(line)));
    let Poll::Ready(Err(error)) = poll_outside(spawn(async {}).checked()) else {
        panic!("no error")
    };
    assert_eq!(error.code(), "TFY0004");
    let line = line!() + 1;
    let error = tiffany::handle().unwrap_err();
    assert_eq!((error.code(), error.call_site().map(|at| at.line)), ("TFY0004", Some(line)));
    let line = line!() + 2;
    let texts = [
        text(yield_now()),
        text(get_tid()),
        text(spawn(async {})),
        text(promise::<u32>()),
        text(external_promise::<u32>()),
        text(sleep(ms(1))),
        text(group()),
        text(semaphore(1)),
    ];
    for (at, text) in texts.iter().enumerate() {
        assert!(text.contains("[TFY0004]"), "{at}: {text}");
        let lines = [line, line + 1, line + 2, line + 3, line + 4, line + 5, line + 6, line + 7];
        let named = lines.iter().any(|line| text.contains(&format!("bad_input.rs:{line}")));
        assert!(named, "{at}: {text}");
        assert!(text.ends_with(ErrorKind::OutsideTask.next_step()), "{at}: {text}");
    }
    assert_eq!(tiffany::run(async { 1 }).unwrap(), 1, "and nothing is broken by it");
}

/// A runtime inside a runtime is an error (TFY0025) that names the task it was started in, the call and the line;
/// the outer one goes on.
#[test]
fn a_runtime_inside_a_runtime() {
    let (error, line, tid) = tiffany::run(async {
        let child = spawn(async {
            let mut inner = Runtime::new().unwrap();
            let line = line!() + 1;
            let error = inner.run(async { 1 }).unwrap_err();
            (error, line, get_tid().await)
        })
        .name("outer");
        child.await.await.unwrap()
    })
    .unwrap();
    assert!(matches!(error, RunError::Nested(_)), "{error}");
    assert_names(error.task_error().unwrap(), "TFY0025", tid, "run", line);
    assert!(error.to_string().contains("`outer`"), "{error}");

    let nested = tiffany::run(async { tiffany::run(async { 1 }) }).unwrap();
    assert_eq!(nested.unwrap_err().code(), "TFY0025");
    let beside =
        tiffany::run(async { std::thread::spawn(|| tiffany::run(async { 2 })).join().unwrap() });
    assert_eq!(beside.unwrap().unwrap(), 2, "on another thread it is none");
}

/// "When it ends": by a panic, it is Failed. A panic in Drop while a task is cancelled fails that task alone, tells its waiters,
/// and the rest of its cleanup is done.
#[test]
fn a_panic_in_drop_during_cancel() {
    struct Cleanup(Notes<&'static str>, &'static str);
    impl Drop for Cleanup {
        fn drop(&mut self) {
            self.0.add(self.1);
            if self.1 == "panics" {
                panic!("during cancel");
            }
        }
    }
    let notes = Notes::new();
    let seen = notes.clone();
    TestScheduler::new()
        .run(async move {
            let task = spawn(async move {
                let _last = Cleanup(notes.clone(), "outer");
                let _panics = Cleanup(notes.clone(), "panics");
                let _first = Cleanup(notes, "inner");
                sleep(secs(3600)).await;
            })
            .name("messy")
            .await;
            yield_now().await;
            cancel(&task).await;
            let error = task.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Panicked);
            assert!(error.message().contains("during cancel"), "{error}");
            assert!(error.message().contains("bad_input.rs:"), "{error}");
            assert_eq!(error.task().unwrap().name.as_deref(), Some("messy"));
            assert_ends_with_next_step(&error);
        })
        .unwrap();
    assert_eq!(seen.take(), ["inner", "panics", "outer"]);
}

/// "calls it makes itself see only the handlers outside it": so a handler that calls itself is asked once, and
/// the call, which nobody outside answers, is an error that names it.
#[test]
fn a_handler_that_calls_itself() {
    struct Echo;
    impl tiffany::CustomCall for Echo {
        const NAME: &'static str = "echo";
        type Answer = u32;
    }
    let asked = Notes::new();
    let seen = asked.clone();
    let settings =
        Runtime::builder().handler(tiffany::handler("echo", move |call, caller| match call {
            SystemCall::Custom("echo", _) => {
                asked.add(caller);
                tiffany::try_answer_with(async { tiffany::call(Echo).await })
            }
            _ => tiffany::Verdict::Pass,
        }));
    let error = TestScheduler::with(settings).run(tiffany::call(Echo)).unwrap().unwrap_err();
    assert_eq!(error.code(), "TFY0018");
    assert!(error.message().contains("`echo`"), "{error}");
    assert_ends_with_next_step(&error);
    assert_eq!(seen.take(), [Tid(1)]);
}

/// "A call finds its task through a thread-local": one that was begun in a task and is polled in another is an
/// error (TFY0027) that names both; it is not answered twice.
#[test]
fn a_call_that_moves_to_another_task() {
    TestScheduler::new()
        .run(async {
            let line = line!() + 1;
            let mut begun = Box::pin(sleep(secs(1)).checked());
            std::future::poll_fn(|cx| {
                assert!(begun.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            let other = spawn(begun).await;
            let error = other.await.unwrap().unwrap_err();
            assert_names(&error, "TFY0027", Tid(2), "sleep", line);
            assert!(error.message().contains("task 1"), "{error}");
        })
        .unwrap();
}
