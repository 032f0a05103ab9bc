//! A task that has its external promise may hand it out at once: whoever gets it can settle it.

use tiffany::{Runtime, Settlement, TaskError, external_promise};

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
