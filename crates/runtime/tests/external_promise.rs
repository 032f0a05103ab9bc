//! A task that has its external promise may hand it out at once: whoever gets it can settle it.

use tiffany::{Runtime, Settlement, TaskError, blocking, external_promise};

#[test]
fn can_be_settled_as_soon_as_its_task_has_it() {
    tiffany::try_run(async {
        for n in 0..100u32 {
            let promise = external_promise::<u32>().await;
            assert_eq!(promise.complete(n)?, Settlement::Accepted);
            assert_eq!(promise.future().await?, n);
        }
        Ok::<(), TaskError>(())
    })
    .unwrap();
}

/// A promise that was settled and that nobody can reach is forgotten; that it was settled is not.
#[test]
fn a_settled_promise_is_forgotten_with_its_last_handle() {
    let mut runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let uuid = runtime
        .try_run(async move {
            let mut last = None;
            for n in 0..1_000u32 {
                let promise = external_promise::<u32>().await;
                let settle = promise.clone();
                let thread = std::thread::spawn(move || settle.complete(n));
                assert_eq!(promise.future().await?, n);
                assert_eq!(thread.join().unwrap(), Ok(Settlement::Accepted));
                last = Some(promise.uuid());
            }
            let uuid = last.unwrap();
            assert_eq!(handle.complete(uuid, 5u32), Ok(Settlement::Ignored));
            Ok::<_, TaskError>(uuid)
        })
        .unwrap();
    assert!(runtime.handle().complete(uuid, 5u32).is_err(), "unknown once its run is over");
}

/// A task asks for the handle of its own runtime, not of one beside it or around it.
#[test]
fn the_handle_of_the_runtime_a_task_is_in() {
    let answer = tiffany::try_run(async {
        let promise = external_promise::<u32>().await;
        let uuid = promise.uuid();
        let handle = tiffany::handle()?;
        let inner = move || {
            let inner = tiffany::run(async { tiffany::handle().unwrap() }).unwrap();
            assert!(inner.complete(uuid, 1u32).is_err(), "another runtime knows nothing of it");
            assert!(tiffany::handle().is_err(), "after the run there is none");
            handle.complete(uuid, 2u32).unwrap();
        };
        blocking(inner).await?;
        promise.future().await
    });
    assert_eq!(answer.unwrap(), 2);
}
