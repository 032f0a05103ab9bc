//! Tasks of another language: they wait without a call, and are woken by whoever has a turn.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tiffany::binding::{self, Program, Release};
use tiffany::kernel::TaskRef;
use tiffany::{RunError, Runtime, Site, TaskError, Value, cancel, yield_now};

/// What the tests and their tasks know of each other.
#[derive(Default)]
struct Shared {
    at: Cell<Option<TaskRef>>,
    is_ready: Cell<bool>,
    said: RefCell<Vec<&'static str>>,
}

/// Waits until it is ready, and in its cleanup once more.
struct Waits(Rc<Shared>, bool);

impl Future for Waits {
    type Output = Result<Value, TaskError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.at.set(binding::current_task());
        if !self.0.is_ready.take() {
            return Poll::Pending;
        }
        self.0.said.borrow_mut().push(if self.1 { "cleaned up" } else { "went on" });
        Poll::Ready(Ok(Value::Unit))
    }
}

impl Program for Waits {
    fn cancel(mut self: Pin<&mut Self>) {
        self.1 = true;
    }

    fn line(&self) -> Option<Site> {
        Some(Site { file: Cow::Borrowed("there.py"), line: 7 })
    }

    fn waits_for(&self) -> Option<Cow<'static, str>> {
        Some("somebody".into())
    }
}

impl Shared {
    fn wake(&self) {
        self.is_ready.set(true);
        assert!(binding::release(Release::Wake(self.at.get().expect("it has had a turn"))));
    }
}

#[test]
fn a_task_that_has_a_turn_wakes_one_that_waits_in_no_call() {
    let shared = Rc::new(Shared::default());
    let other = Rc::clone(&shared);
    Runtime::new()
        .unwrap()
        .run(async move {
            let task = binding::spawn(binding::coroutine(Waits(Rc::clone(&other), false), || None));
            let task = task.await;
            yield_now().await;
            other.wake();
            other.said.borrow_mut().push("woke it");
            yield_now().await;
            other.said.borrow_mut().push("had another turn");
            task.await.unwrap();
        })
        .unwrap();
    assert_eq!(*shared.said.borrow(), ["woke it", "went on", "had another turn"]);
}

#[test]
fn a_task_that_waits_in_its_cleanup_is_woken() {
    let shared = Rc::new(Shared::default());
    let other = Rc::clone(&shared);
    Runtime::new()
        .unwrap()
        .run(async move {
            let task = binding::spawn(binding::coroutine(Waits(Rc::clone(&other), false), || None));
            let task = task.await;
            yield_now().await;
            cancel(&task).await;
            yield_now().await;
            other.wake();
            assert!(task.await.unwrap_err().is_cancelled());
        })
        .unwrap();
    assert_eq!(*shared.said.borrow(), ["cleaned up"]);
}

#[test]
fn a_task_that_nobody_wakes_is_a_deadlock_that_says_what_it_waits_for() {
    let mut runtime =
        Runtime::builder().cancel_grace(std::time::Duration::from_millis(1)).build().unwrap();
    let root = binding::coroutine(Waits(Rc::default(), false), || None);
    let run = binding::start(&mut runtime, root);
    let ended = binding::drive(&mut runtime, &run, || false);
    let Some(Err(RunError::Deadlock(report))) = ended else { panic!("no deadlock: {ended:?}") };
    assert_eq!(report.waiting[0].on, "somebody");
    assert_eq!(report.waiting[0].at, Some(Site { file: Cow::Borrowed("there.py"), line: 7 }));
}
