//! A line of waiters in which some stand for themselves and some as one item of a larger call, and from
//! which any can leave: those who are left are told in the order in which they came.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tiffany::{Future, cancel, gather, join, promise, race, sleep, spawn, yield_now};

type Told = Rc<RefCell<Vec<usize>>>;

/// Waits in one of several ways, and notes when it was told.
async fn waiter(way: u64, n: usize, gate: Future<u32>, never: Future<u32>, told: Told) {
    match way {
        0 => assert_eq!(gate.await, Ok(7)),
        1 => assert_eq!(gather([gate]).await, Ok(vec![7])),
        2 => assert_eq!(race([never, gate]).await.map(|won| won.value), Ok(7)),
        // Both calls of one task are in the same line.
        3 => assert_eq!(join!(wait(&gate), wait(&gate)), (7, 7)),
        // It has another call outstanding before it comes to the line.
        _ => {
            let other = async {
                sleep(Duration::from_secs(1)).await;
            };
            let (_, value) = join!(other, wait(&gate));
            assert_eq!(value, 7);
            // That was told of by the sleep at the latest; not by the gate alone.
            return;
        }
    }
    told.borrow_mut().push(n);
}

async fn wait(gate: &Future<u32>) -> u32 {
    gate.await.expect("it is completed")
}

#[test]
fn who_is_left_is_told_in_order() {
    for seed in 1..=150u64 {
        let mut state = seed;
        let mut dice = move |sides: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % sides
        };
        let told = Told::default();
        let seen = Rc::clone(&told);
        let expected = tiffany::testing::TestScheduler::new()
            .run(async move {
                let (gate, never) = (promise::<u32>().await, promise::<u32>().await);
                let mut line = Vec::new();
                for n in 0..dice(30) as usize {
                    let way = dice(5);
                    let waits = waiter(way, n, gate.future(), never.future(), Rc::clone(&told));
                    line.push((n, way, spawn(waits).await));
                    yield_now().await;
                }
                let mut left = Vec::new();
                for (n, way, task) in line {
                    match dice(3) {
                        0 => cancel(&task).await,
                        _ if way < 4 => left.push(n),
                        _ => {}
                    }
                }
                yield_now().await;
                assert!(told.borrow().is_empty());
                gate.complete(7).await.expect("settled once");
                left
            })
            .expect("it ends well");
        assert_eq!(*seen.borrow(), expected, "seed {seed}");
    }
}
