//! Runs that are held while their steps wait in a named queue or for a slot.

use tiffany::durable::QueueSettings;

use super::*;

fn one_at_a_time() -> QueueSettings {
    QueueSettings { concurrency: Some(1), rate: None }
}

#[test]
fn a_step_of_a_held_run_passes_its_place_in_its_queue_on() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static LET_GO: AtomicBool = AtomicBool::new(false);
    async fn blocks(_: ()) -> Result<u32, TaskError> {
        step("blocks", || {
            BEGUN.store(true, Ordering::SeqCst);
            while !LET_GO.load(Ordering::SeqCst) {
                std::thread::sleep(ms(1));
            }
            Ok::<u32, String>(0)
        })
        .await
    }
    async fn queued(number: u32) -> Result<u32, TaskError> {
        step("queued", move || Ok::<u32, String>(number)).queue("mail").await
    }
    let dir = Dir::new();
    let builder = dir.builder().register("blocks", blocks).register("queued", queued);
    let mut runtime = builder.queue("mail", one_at_a_time()).step_slots(1).build().unwrap();
    let blocker = runtime.submit::<u32>("blocks", "blocker", &()).unwrap();
    run_until(&mut runtime, || BEGUN.load(Ordering::SeqCst));
    // The first has left the queue and waits for the slot; the others wait in the queue.
    let runs: Vec<_> = (1..=3)
        .map(|number| runtime.submit::<u32>("queued", &format!("run {number}"), &number).unwrap())
        .collect();
    run_until(&mut runtime, || (1..=3).all(|n| !log_of(&dir, &format!("run {n}")).is_empty()));
    runtime.run(sleep(ms(20))).unwrap();
    runtime.hold(&runs[0], "ada", None).unwrap();
    runtime.hold(&runs[1], "ada", None).unwrap();
    LET_GO.store(true, Ordering::SeqCst);
    assert_eq!(runtime.wait_for(&blocker).unwrap(), 0);
    let third = &runs[2];
    let limit = Instant::now() + Duration::from_secs(10);
    run_until(&mut runtime, || {
        assert!(Instant::now() < limit, "the third step never begins");
        dir_count(&dir, "run 3", "EffectResult") == 1
    });
    assert_eq!(runtime.wait_for(third).unwrap(), 3);
    assert_eq!(dir_count(&dir, "run 1", "EffectStart"), 0);
    for (number, run) in (1..=2).zip(&runs) {
        runtime.release(run, "ada", None).unwrap();
        assert_eq!(runtime.wait_for(run).unwrap(), number);
    }
}
