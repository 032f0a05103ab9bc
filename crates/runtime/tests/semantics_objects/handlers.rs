//! Handlers.

use std::cell::Cell;
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    CallKind, CustomCall, ErrorKind, EventKind, Handler, Reply, Runtime, SystemCall, TaskError,
    Tid, Time, Value, Verdict, answer_with, answering, ask, blocking, call, cancel, channel,
    charge, durable, external_promise, gather, get, get_handlers, get_log, get_tid, group, handler,
    kill_task, mutex, new_uuid, now, promise, put, race, random, read_wait, semaphore, sleep,
    sleep_until, spawn, tell, timeout, try_answer_with, wait, wait_task, write_wait, yield_now,
};

use super::{Notes, assert_names, ms, secs};

struct Add(i64, i64);

impl CustomCall for Add {
    const NAME: &'static str = "add";
    type Answer = i64;
}

struct WhoAnswers;

impl CustomCall for WhoAnswers {
    const NAME: &'static str = "who_answers";
    type Answer = String;
}

/// A handler that notes what it sees and passes it on.
fn watcher(
    name: &'static str,
    notes: &Notes<(&'static str, &'static str)>,
) -> impl Handler + use<> {
    let notes = notes.clone();
    handler(name, move |call, _| {
        notes.add((name, call.given_name().unwrap_or(call.kind().tag())));
        Verdict::Pass
    })
}

/// A handler that answers every `who_answers` with its own name.
fn named(name: &'static str) -> impl Handler {
    handler(name, move |call, _| match call {
        SystemCall::Custom("who_answers", _) => {
            Verdict::Answer(Reply::Value(Value::new(name.to_string())))
        }
        _ => Verdict::Pass,
    })
}

async fn names() -> Vec<String> {
    get_handlers().await.iter().map(|handler| handler.name().to_string()).collect()
}

/// "Handlers form a chain, innermost first": each sees a call before those outside it, until one answers.
#[test]
fn form_a_chain_innermost_first() {
    let notes = Notes::new();
    let seen = notes.clone();
    let settings = Runtime::builder()
        .handler(watcher("inner", &notes))
        .handler(watcher("outer", &notes))
        .handler(named("answers"))
        .handler(watcher("never", &notes));
    TestScheduler::with(settings)
        .run(async {
            assert_eq!(call(WhoAnswers).await.as_deref(), Ok("answers"));
        })
        .unwrap();
    assert_eq!(seen.take(), [("inner", "who_answers"), ("outer", "who_answers")]);
}

/// "inherits the parent's handler chain, or takes the one it is given": inherited, one added inside,
/// several added, replaced, replaced by none; and the children of such a task have its chain.
#[test]
fn inherited_added_and_replaced() {
    let mut runtime = Runtime::builder().handler(named("root")).build().unwrap();
    runtime
        .run(async {
            let inherited = spawn(names()).await;
            assert_eq!(inherited.await.unwrap(), ["root"]);
            let added = spawn(names()).handler(named("inside")).await;
            assert_eq!(added.await.unwrap(), ["inside", "root"]);
            let two = spawn(names()).handler(named("first")).handler(named("second")).await;
            assert_eq!(two.await.unwrap(), ["second", "first", "root"]);
            let chain: Vec<Rc<dyn Handler>> = vec![Rc::new(named("a")), Rc::new(named("b"))];
            let replaced = spawn(async { (names().await, call(WhoAnswers).await) });
            let (chain, answer) = replaced.handlers(chain).await.await.unwrap();
            assert_eq!((chain, answer), (vec!["a".into(), "b".into()], Ok("a".into())));
            let none = spawn(async { call(WhoAnswers).await }).handlers(Vec::new()).await;
            assert_eq!(none.await.unwrap().unwrap_err().kind(), ErrorKind::Unanswered);
            let parent = spawn(async { spawn(names()).await.await.unwrap() });
            let grandchild = parent.handler(named("inside")).await.await.unwrap();
            assert_eq!(grandchild, ["inside", "root"]);
            assert_eq!(names().await, ["root"], "what children are given is theirs");
        })
        .unwrap();
}

/// "A handler may answer … any call": the kernel's own never reaches the kernel then.
#[test]
fn may_answer() {
    let settings = Runtime::builder().handler(handler("stopped clock", |call, _| match call {
        SystemCall::Now => Verdict::Answer(Reply::Time(Time::from_nanos(42))),
        SystemCall::Sleep(_) => Verdict::Answer(Reply::Unit),
        SystemCall::Ask(_) => Verdict::Answer(Reply::Value(Value::new(7u32))),
        _ => Verdict::Pass,
    }));
    let mut test = TestScheduler::with(settings);
    test.run(async {
        sleep(secs(3600)).await;
        assert_eq!(now().await, Time::from_nanos(42));
        assert_eq!(ask::<u32>("no such key").await, Ok(7));
    })
    .unwrap();
    assert_eq!(test.now(), Time::ZERO, "nobody slept");
}

/// "A handler may … change … any call": the next one, and the kernel, see it changed.
#[test]
fn may_change() {
    let notes = Notes::new();
    let seen = notes.clone();
    let settings = Runtime::builder()
        .handler(handler("hurry", |call, _| {
            if let SystemCall::Sleep(time) = call {
                *time = ms(1);
            }
            Verdict::Pass
        }))
        .handler(handler("outside", move |call, _| {
            notes.add(call.to_string());
            Verdict::Pass
        }));
    let mut test = TestScheduler::with(settings);
    test.run(async { sleep(secs(3600)).await }).unwrap();
    assert_eq!(test.now().as_nanos(), 1_000_000);
    assert_eq!(seen.take(), ["sleep(1ms)"]);
}

/// "A handler may … refuse … any call": an error in the caller that names handler, call and line; not
/// caught, it ends the task alone.
#[test]
fn may_refuse() {
    let no_sleep = || {
        handler("no sleep", |call, caller| match call {
            SystemCall::Sleep(_) => Verdict::Refuse(format!("task {caller} may not sleep")),
            _ => Verdict::Pass,
        })
    };
    TestScheduler::with(Runtime::builder().handler(no_sleep()))
        .run(async {
            let line = line!() + 1;
            let error = sleep(ms(1)).checked().await.unwrap_err();
            assert_names(&error, "TFY0019", Tid(1), "sleep", line);
            assert!(error.message().contains("`no sleep`"), "{error}");
            assert!(error.message().contains("task 1 may not sleep"), "{error}");
            let line = line!() + 1;
            let sleeper = spawn(async { sleep(ms(1)).await }).await;
            let error = sleeper.await.unwrap_err();
            assert_names(&error, "TFY0019", Tid(2), "sleep", line);
        })
        .unwrap();
}

/// "A handler may … pass on any call": passed on by all, it is the kernel's, and works as ever.
#[test]
fn may_pass_on() {
    let notes = Notes::new();
    let settings =
        Runtime::builder().handler(watcher("one", &notes)).handler(watcher("two", &notes));
    TestScheduler::with(settings)
        .run(async {
            put("key", 1u32).await;
            assert_eq!(get::<u32>("key").await, Some(1));
        })
        .unwrap();
    assert_eq!(notes.take(), [("one", "put"), ("two", "put"), ("one", "get"), ("two", "get")]);
}

/// "any call but the scheduling ones": what each kind of call shows to a handler. Together they are all
/// kinds there are.
#[test]
fn any_call_but_the_scheduling_ones() {
    use CallKind::*;
    let scheduling = [
        Yield,
        GetTid,
        GetHandlers,
        Spawn,
        Wait,
        WaitTask,
        Gather,
        Race,
        Cancel,
        KillTask,
        CreateGroup,
        JoinGroup,
    ];
    let seen: Rc<std::cell::RefCell<std::collections::BTreeSet<CallKind>>> = Rc::default();
    let kinds = Rc::clone(&seen);
    let settings =
        Runtime::builder().env("key", 1u32).handler(handler("watcher", move |call, _| {
            kinds.borrow_mut().insert(call.kind());
            Verdict::Pass
        }));
    let mut runtime = settings.handler(answering(|add: &Add| Ok(add.0 + add.1))).build().unwrap();
    runtime
        .run(async {
            yield_now().await;
            get_tid().await;
            get_handlers().await;
            let group = group().await;
            let task = spawn(async {}).group(&group).await;
            wait(&task).await.unwrap();
            wait_task(task.tid()).await.unwrap();
            gather([&task]).await.unwrap();
            race([&task]).await.unwrap();
            cancel(&task).await;
            kill_task(task.tid()).await;
            group.join().await.unwrap();
            assert!(now().await > Time::ZERO);
            random().await;
            new_uuid().await;
            assert!(durable::patched("change").await);
            durable::continue_as::<()>(&1u32).await.unwrap_err();
            timeout(ms(0), durable::receive::<u32>("box")).await.unwrap_err();
            let one = promise::<u32>().await;
            one.complete(1).await.unwrap();
            one.fail(TaskError::failed("again")).await.unwrap_err();
            drop(external_promise::<u32>().await);
            durable::approve("Sure?").timeout(ms(0)).await.unwrap_err();
            sleep(ms(0)).await;
            sleep_until(Time::ZERO).await;
            let null = std::fs::File::open("/dev/null").unwrap();
            read_wait(&null).await.unwrap();
            write_wait(&null).await.unwrap();
            put("key", 1u32).await;
            get::<u32>("key").await.unwrap();
            tell(1u32).await;
            get_log().await;
            ask::<u32>("key").await.unwrap();
            let (sender, receiver) = channel::<u32>(1).await;
            sender.send(1).await.unwrap();
            receiver.receive().await.unwrap();
            drop(semaphore(1).await.acquire().await.unwrap());
            drop(mutex(1).await.lock().await.unwrap());
            blocking(|| ()).await.unwrap();
            charge(1).await.unwrap();
            tiffany::pal::progress(1, 2, "half").await;
            durable::add_tags(["gold"]).await.unwrap();
            durable::annotate(durable::AnnotationKind::ToolResult, "3").await.unwrap();
            call(Add(1, 2)).await.unwrap();
        })
        .unwrap();
    for kind in CallKind::ALL {
        let shown = seen.borrow().contains(kind);
        assert_eq!(shown, !scheduling.contains(kind), "{kind:?}");
    }
}

/// "and answers calls the kernel doesn't know": with a value, or by refusing.
#[test]
fn answers_calls_the_kernel_does_not_know() {
    let adder = answering(|add: &Add| add.0.checked_add(add.1).ok_or("too large".to_string()));
    TestScheduler::with(Runtime::builder().handler(adder))
        .run(async {
            assert_eq!(call(Add(2, 3)).await, Ok(5));
            let line = line!() + 1;
            let error = call(Add(i64::MAX, 1)).await.unwrap_err();
            assert_names(&error, "TFY0019", Tid(1), "add", line);
        })
        .unwrap();
}

/// "calls it makes itself see only the handlers outside it": a handler that calls out is asked neither
/// itself nor by those inside it.
#[test]
fn its_own_calls_see_only_the_handlers_outside() {
    let notes = Notes::new();
    let seen = notes.clone();
    let settings = Runtime::builder()
        .handler(watcher("inside", &notes))
        .handler(handler("calls out", |call, _| match call {
            SystemCall::Custom("add", _) => answer_with(async {
                sleep(secs(1)).await;
                assert_eq!(names().await, ["outside", "injected answers"]);
                let task = spawn(names()).await;
                assert_eq!(task.await.unwrap().len(), 2, "its children neither");
                99i64
            }),
            _ => Verdict::Pass,
        }))
        .handler(watcher("outside", &notes));
    let mut test = TestScheduler::with(settings);
    let answer = test.run(call(Add(1, 1))).unwrap();
    assert_eq!(answer, Ok(99));
    assert_eq!(test.now().as_nanos(), 1_000_000_000, "the caller waited");
    assert_eq!(seen.take(), [("inside", "add"), ("outside", "sleep")]);
}

/// "calls it makes itself see only the handlers outside it": one that makes the very call it answers does
/// not call itself.
#[test]
fn a_handler_that_makes_the_same_call() {
    let runs = Rc::new(Cell::new(0));
    let count = Rc::clone(&runs);
    let settings = Runtime::builder()
        .handler(handler("doubles", move |call, _| match call {
            SystemCall::Custom("add", _) => {
                count.set(count.get() + 1);
                try_answer_with(async { tiffany::call(Add(20, 1)).await.map(|sum| sum * 2) })
            }
            SystemCall::Now => answer_with(async { now().await }),
            _ => Verdict::Pass,
        }))
        .handler(answering(|add: &Add| Ok(add.0 + add.1)));
    TestScheduler::with(settings)
        .run(async {
            assert_eq!(call(Add(1, 1)).await, Ok(42));
            assert_eq!(now().await, Time::ZERO);
        })
        .unwrap();
    assert_eq!(runs.get(), 1);
}

/// "it is pure … (work goes through effects)": what goes wrong in the work of a handler is an error in the
/// caller: its own error, a panic in its coroutine, and a panic of the handler itself.
#[test]
fn what_goes_wrong_in_a_handler() {
    let settings = Runtime::builder().handler(handler("fragile", |call, _| match call {
        SystemCall::Custom("add", request) => match request.borrow::<Add>().map(|add| add.0) {
            Some(1) => try_answer_with(async { Err::<i64, _>(TaskError::failed("no sum")) }),
            Some(2) => answer_with(async { panic!("in its coroutine") }),
            _ => panic!("in the handler"),
        },
        _ => Verdict::Pass,
    }));
    let shown = Notes::new();
    let seen = shown.clone();
    let settings = settings.on_unobserved(move |error| shown.add(error.to_string()));
    TestScheduler::with(settings)
        .run(async {
            assert_eq!(call(Add(1, 0)).await.unwrap_err().message(), "no sum");
            assert_eq!(call(Add(2, 0)).await.unwrap_err().kind(), ErrorKind::Panicked);
            let line = line!() + 1;
            let error = call(Add(3, 0)).await.unwrap_err();
            assert_names(&error, "TFY0002", Tid(1), "add", line);
            assert!(error.message().contains("`fragile`"), "{error}");
        })
        .unwrap();
    assert_eq!(seen.take(), Vec::<String>::new(), "the caller was told");
}

/// "it is pure": an answer of the wrong type is an error in the caller that points at the handlers.
#[test]
fn an_answer_of_the_wrong_type() {
    let settings = Runtime::builder().handler(handler("confused", |call, _| match call {
        SystemCall::Now => Verdict::Answer(Reply::Unit),
        SystemCall::Custom("add", _) => {
            Verdict::Answer(Reply::Value(Value::new("five".to_string())))
        }
        _ => Verdict::Pass,
    }));
    TestScheduler::with(settings)
        .run(async {
            let line = line!() + 1;
            let error = now().checked().await.unwrap_err();
            assert_names(&error, "TFY0021", Tid(1), "now", line);
            assert!(error.message().contains("handler"), "{error}");
            assert_eq!(call(Add(2, 3)).await.unwrap_err().kind(), ErrorKind::WrongType);
        })
        .unwrap();
}

/// "Nobody answers: an error in the caller that names the call".
#[test]
fn nobody_answers() {
    TestScheduler::new()
        .run(async {
            let line = line!() + 1;
            let error = call(Add(1, 2)).await.unwrap_err();
            assert_names(&error, "TFY0018", Tid(1), "add", line);
            assert!(error.message().contains("`add`"), "{error}");
        })
        .unwrap();
}

/// "GetHandlers gives the chain", innermost first.
#[test]
fn get_handlers_gives_the_chain() {
    assert_eq!(tiffany::run(names()).unwrap(), Vec::<String>::new());
    let settings = Runtime::builder().handler(named("inner")).handler(named("outer"));
    assert_eq!(settings.build().unwrap().run(names()).unwrap(), ["inner", "outer"]);
}

/// "New calls need no change in the loop": a call of the user's own, answered by a handler that makes
/// others, is seen in the trace by its name.
#[test]
fn new_calls_need_no_change_in_the_loop() {
    let adder = answering(|add: &Add| Ok(add.0 + add.1));
    let mut test = TestScheduler::with(Runtime::builder().handler(adder));
    test.run(call(Add(1, 2))).unwrap().unwrap();
    let trace = test.trace();
    let called = trace
        .events()
        .iter()
        .any(|event| matches!(&event.kind, EventKind::Called { call, .. } if call.contains("add")));
    assert!(called, "{trace}");
}

/// "its waits are withdrawn": a caller that is cancelled while its handler works for it takes that work
/// with it.
#[test]
fn the_caller_is_cancelled_while_its_handler_runs() {
    let notes = Notes::new();
    let seen = notes.clone();
    struct Unwound(Notes<&'static str>);
    impl Drop for Unwound {
        fn drop(&mut self) {
            self.0.add("unwound");
        }
    }
    let settings = Runtime::builder().handler(handler("slow", move |call, _| match call {
        SystemCall::Custom("add", _) => {
            let notes = notes.clone();
            answer_with(async move {
                let _unwound = Unwound(notes.clone());
                sleep(secs(3600)).await;
                notes.add("answered");
                0i64
            })
        }
        _ => Verdict::Pass,
    }));
    let mut test = TestScheduler::with(settings);
    test.run(async {
        let caller = spawn(call(Add(1, 2))).await;
        sleep(secs(1)).await;
        cancel(&caller).await;
        assert!(caller.await.unwrap_err().is_cancelled());
    })
    .unwrap();
    assert_eq!(seen.take(), ["unwound"]);
    assert_eq!(test.now().as_nanos(), 1_000_000_000);
}

/// "it is pure": the caller's own store is what its handler's calls see, and they do not change it.
#[test]
fn a_handler_sees_a_snapshot_of_the_callers_store() {
    let settings = Runtime::builder().handler(handler("reader", |call, _| match call {
        SystemCall::Custom("add", _) => answer_with(async {
            let seen = get::<i64>("key").await.unwrap_or(0);
            put("key", 0i64).await;
            seen
        }),
        _ => Verdict::Pass,
    }));
    TestScheduler::with(settings)
        .run(async {
            put("key", 5i64).await;
            assert_eq!(call(Add(0, 0)).await, Ok(5));
            assert_eq!(get::<i64>("key").await, Some(5));
        })
        .unwrap();
}
