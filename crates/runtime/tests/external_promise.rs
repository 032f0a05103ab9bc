//! A task that has its external promise may hand it out at once: whoever gets it can settle it.

use tiffany::{Settlement, TaskError, external_promise};

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
