//! What a run does again while it is brought back is told as a ghost; what it does then is not.

use tiffany::durable::receive;
use tiffany::pal::{Wanted, progress};
use tiffany::{Builder, TaskError, spawn};

use super::kit::{Dir, all, short};

fn program(builder: Builder) -> Builder {
    builder.register("wait", |()| async {
        progress(1, 2, "before").await;
        let child = spawn(async {}).await;
        child.await?;
        let word: String = receive("word").await?;
        progress(2, 2, "after").await;
        Ok::<_, TaskError>(word)
    })
}

#[test]
fn what_happens_again_is_a_ghost_and_what_comes_then_is_not() {
    let dir = Dir::new("ghosts");
    let mut runtime = program(dir.builder()).build().expect("a runtime");
    let first = runtime.activity();
    let run = runtime.submit::<String>("wait", "w", &()).expect("it is registered");
    runtime.flush().expect("the log is good");
    let seen = first.subscribe(Wanted::new().from(0));
    drop(runtime);
    let seen = all(seen);
    assert!(seen.iter().all(|event| !event.ghost));

    let mut runtime = program(dir.builder()).build().expect("a runtime");
    let hub = runtime.activity();
    assert_ne!(hub.epoch(), first.epoch(), "its numbers begin anew");
    let (every, live) = (Wanted::new().from(0), Wanted::new().from(0).ghosts(false));
    let (every, live) = (hub.subscribe(every), hub.subscribe(live.run(run.uuid())));
    let handle = runtime.handle();
    let uuid = run.uuid();
    let sender = std::thread::spawn(move || handle.control().send(uuid, "word", &"go"));
    assert_eq!(runtime.wait_for(&run).expect("it ends well"), "go");
    sender.join().expect("it does not panic").expect("it is sent");
    drop(runtime);
    let every = all(every);
    let (ghosts, lively): (Vec<_>, Vec<_>) = every.into_iter().partition(|event| event.ghost);
    assert_eq!(short(&ghosts), short(&seen), "the same happens again");
    assert!(ghosts.iter().zip(&seen).all(|(ghost, seen)| ghost.message == seen.message));
    assert!(ghosts.iter().all(|ghost| ghost.ts <= lively[0].ts), "they are told as of then");
    assert_eq!(short(&lively), ["1 Progress", "1 Completed", "- Completed"]);
    assert_eq!(lively[0].message, "after");
    assert_eq!(all(live), lively, "who wants none is told of none");
}
