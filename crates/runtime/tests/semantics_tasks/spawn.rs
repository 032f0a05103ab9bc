//! DESIGN §3, Spawn.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tiffany::{
    CustomCall, Handler, Tid, Value, answering, call, get, get_handlers, get_log, get_tid, put,
    spawn, tell, try_spawn, wait,
};

use super::common::{run, turns};

fn texts(log: Vec<Value>) -> Vec<&'static str> {
    log.into_iter().map(|entry| entry.get::<&str>().unwrap()).collect()
}

/// "**Spawn** returns a Task": its number is the child's own, its value the child's.
#[test]
fn spawn_returns_a_task() {
    run(async {
        let task = spawn(async { (get_tid().await, "value") }).name("child").await;
        let tid = task.tid();
        assert_eq!(task.await.unwrap(), (tid, "value"));
        assert_eq!(tid, Tid(2));
    });
}

/// "**Spawn** returns a Task": at once, whatever becomes of the child.
#[test]
fn spawn_does_not_wait_for_the_child() {
    run(async {
        let endless = spawn(async {
            loop {
                turns(1).await;
            }
        })
        .await;
        tiffany::cancel(&endless).await;
        let failing = try_spawn(async { Err::<(), _>("at its first turn") }).await;
        assert!(wait(&failing).await.is_err());
    });
}

/// "The child gets a snapshot of the parent's store": what the parent had put and told before.
#[test]
fn the_child_sees_the_store_as_it_was() {
    run(async {
        put("key", 1u32).await;
        tell("before").await;
        let child = spawn(async { (get::<u32>("key").await, texts(get_log().await)) }).await;
        assert_eq!(child.await.unwrap(), (Some(1), vec!["before"]));
    });
}

/// "a snapshot": what the parent does later is not in it.
#[test]
fn the_child_does_not_see_what_the_parent_does_later() {
    run(async {
        put("key", 1u32).await;
        let child = spawn(async {
            turns(5).await;
            (get::<u32>("key").await, get::<u32>("new").await, get_log().await.len())
        })
        .await;
        put("key", 2u32).await;
        put("new", 3u32).await;
        tell("later").await;
        assert_eq!(child.await.unwrap(), (Some(1), None, 0));
    });
}

/// "a snapshot": what the child does is not in the parent's store, nor in a sibling's.
#[test]
fn the_parent_does_not_see_what_the_child_does() {
    run(async {
        put("key", 1u32).await;
        let child = spawn(async {
            put("key", 9u32).await;
            tell("child").await;
        })
        .await;
        let sibling = spawn(async {
            turns(3).await;
            get::<u32>("key").await
        })
        .await;
        child.await.unwrap();
        assert_eq!(sibling.await.unwrap(), Some(1));
        assert_eq!(get::<u32>("key").await, Some(1));
        assert!(get_log().await.is_empty());
    });
}

/// How long spawning so many children takes, with so many keys and log entries in the store.
async fn time_spawns(entries: usize, children: usize) -> Duration {
    for n in 0..entries {
        put(&format!("key {n}"), n).await;
        tell(n).await;
    }
    let begun = Instant::now();
    for _ in 0..children {
        // A child that writes, so that a snapshot made late is counted too.
        spawn(put("own", 1u32)).await.await.unwrap();
    }
    begun.elapsed()
}

/// "in O(1) (persistent structures, never a copy per switch)": a store of ten thousand entries costs a
/// child about what an empty one does. A copy would cost some thousand times as much.
#[test]
fn the_snapshot_does_not_depend_on_the_size_of_the_store() {
    let small = run(time_spawns(1, 300));
    let large = run(time_spawns(10_000, 300));
    assert!(large < small * 100 + Duration::from_millis(20), "{small:?} grew to {large:?}");
}

struct Who;

impl CustomCall for Who {
    const NAME: &'static str = "who";
    type Answer = &'static str;
}

fn is(name: &'static str) -> impl Handler {
    answering(move |_: &Who| Ok(name))
}

/// "and inherits the parent's handler chain": over any number of generations.
#[test]
fn the_child_inherits_the_handlers() {
    run(async {
        let child = spawn(async {
            let grandchild = spawn(async { call(Who).await.unwrap() }).await;
            (call(Who).await.unwrap(), grandchild.await.unwrap())
        })
        .handler(is("parent's"))
        .await;
        assert_eq!(child.await.unwrap(), ("parent's", "parent's"));
    });
}

/// "or takes the one it is given": which then replaces that of the parent.
#[test]
fn the_child_takes_the_handlers_it_is_given() {
    let names = |chain: Vec<Rc<dyn Handler>>| -> Vec<String> {
        chain.iter().map(|handler| handler.name().to_string()).collect()
    };
    run(async move {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let theirs = Rc::clone(&seen);
        let child = spawn(async move {
            let given: Vec<Rc<dyn Handler>> = vec![Rc::new(is("given"))];
            let replaced =
                spawn(async move { (call(Who).await.unwrap(), get_handlers().await.len()) })
                    .handlers(given)
                    .await;
            let added = spawn(async move { call(Who).await.unwrap() }).handler(is("added")).await;
            let none = spawn(async { call(Who).await.unwrap_err().code() }).handlers(vec![]).await;
            let own = names(get_handlers().await);
            theirs.borrow_mut().extend(own);
            (replaced.await.unwrap(), added.await.unwrap(), none.await.unwrap())
        })
        .handler(is("parent's"))
        .await;
        assert_eq!(child.await.unwrap(), (("given", 1), "added", "TFY0018"));
        assert_eq!(seen.borrow()[0], "who", "the parent's own chain is as it was");
    });
}
