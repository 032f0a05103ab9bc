//! DESIGN §3, Order: policies.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tiffany::testing::TestScheduler;
use tiffany::{
    Builder, Candidate, DependencyAware, Future, Limits, Policy, Priority, Task, Tid, gather, join,
    kill_task, promise, sleep, spawn, wait, yield_now,
};

use super::common::{Flag, Log, quiet, scheduler, secs, turns};
use super::order::endless;

/// A task that notes its name so many times once the gate is open.
async fn behind(
    gate: Future<()>,
    log: Log,
    name: &'static str,
    times: usize,
    priority: u8,
) -> Rc<Task<()>> {
    let task = spawn(async move {
        gate.await.unwrap();
        for _ in 0..times {
            log.note(name);
            yield_now().await;
        }
    });
    Rc::new(task.priority(priority).await)
}

/// Opens a gate with all these behind it, under a policy, and tells in which order they then ran.
fn order(settings: Builder, tasks: &'static [(&'static str, u8)], times: usize) -> String {
    let log = Log::new();
    let notes = log.clone();
    scheduler(settings)
        .run(async move {
            let gate = promise::<()>().await;
            let mut all = Vec::new();
            for (name, priority) in tasks {
                all.push(behind(gate.future(), notes.clone(), name, times, *priority).await);
            }
            gate.complete(()).await.unwrap();
            gather(all).await.unwrap();
        })
        .unwrap();
    log.text()
}

/// "Policies are a trait: FIFO": priorities mean nothing to it.
#[test]
fn fifo_does_not_look_at_priorities() {
    assert_eq!(order(quiet(), &[("a", 0), ("b", 9), ("c", 3)], 2), "a b c a b c");
}

/// "priorities": a task has the one it is spawned with, which its children do not inherit; without, it has the
/// lowest.
#[test]
fn a_task_has_the_priority_it_is_given() {
    struct Look(Rc<RefCell<Vec<(Tid, u8)>>>);
    impl Policy for Look {
        fn plan(&mut self, candidates: &[Candidate], _: &mut Vec<Tid>) {
            self.0.borrow_mut().extend(candidates.iter().map(|one| (one.tid, one.priority)));
        }
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let shared = Rc::clone(&seen);
    scheduler(quiet().policy(move || Look(Rc::clone(&shared))))
        .run(async {
            let parent = spawn(async { spawn(async {}).await.await.unwrap() }).priority(200).await;
            parent.await.unwrap();
        })
        .unwrap();
    let mut seen = seen.take();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [(Tid(1), 0), (Tid(2), 200), (Tid(3), 0)]);
}

/// "priority (FIFO inside a level)"
#[test]
fn priority_takes_the_highest_level_first_in_first_out() {
    let settings = quiet().policy(|| Priority);
    let tasks = &[("l1", 0), ("h1", 5), ("m", 3), ("h2", 5), ("l2", 0)];
    assert_eq!(order(settings, tasks, 2), "h1 h2 h1 h2 m m l1 l2 l1 l2");
}

/// "dependency-aware (the task most others wait for first)": directly or through others.
#[test]
fn dependency_aware_takes_the_task_most_others_wait_for() {
    let log = Log::new();
    let notes = log.clone();
    scheduler(quiet().policy(|| DependencyAware))
        .run(async move {
            let gate = promise::<()>().await;
            let mut tasks = Vec::new();
            for name in ["none", "one", "two"] {
                tasks.push(behind(gate.future(), notes.clone(), name, 1, 0).await);
            }
            let (one, two) = (Rc::clone(&tasks[1]), Rc::clone(&tasks[2]));
            tasks.push(Rc::new(spawn(async move { wait(one).await.unwrap() }).await));
            let direct = Rc::new(spawn(async move { wait(two).await.unwrap() }).await);
            let through = Rc::clone(&direct);
            tasks.push(Rc::new(spawn(async move { wait(through).await.unwrap() }).await));
            tasks.push(direct);
            turns(3).await;
            gate.complete(()).await.unwrap();
            gather(tasks).await.unwrap();
        })
        .unwrap();
    assert_eq!(log.text(), "two one none");
}

/// "each deterministic": the same program takes the same way each time, under each policy.
#[test]
fn each_policy_is_deterministic() {
    let settings: [fn() -> Builder; 3] =
        [quiet, || quiet().policy(|| Priority), || quiet().policy(|| DependencyAware)];
    for make in settings {
        let traced = || {
            let mut test = TestScheduler::with(make());
            test.run(async {
                let mut tasks = Vec::new();
                for n in 0..8u8 {
                    let task = spawn(async move {
                        turns(usize::from(n % 3)).await;
                        sleep(secs(u64::from(n % 2))).await;
                        turns(usize::from(n)).await;
                    });
                    tasks.push(task.priority(n * 7 % 5).await);
                }
                gather(tasks).await.unwrap();
            })
            .unwrap();
            test.trace().to_string()
        };
        assert_eq!(traced(), traced());
    }
}

/// "with ageing so that none starves": beside endless work of the highest priority, of each kind, a
/// task of the lowest comes to its end.
#[test]
fn the_lowest_priority_does_not_starve() {
    for noise in ["yields", "timers", "spawns", "messages", "a foreign future that wakes itself"] {
        let limits = Limits { max_calls: Some(2_000_000), ..Limits::default() };
        let mut runtime = quiet().limits(limits).policy(|| Priority).build().unwrap();
        let result = runtime.run(async move {
            let done = Flag::default();
            let stop = Rc::clone(&done);
            let low = spawn(async move {
                turns(5).await;
                done.set(true);
            })
            .await;
            let high = spawn(endless(noise, stop)).priority(20).await;
            gather([low, high]).await.unwrap();
        });
        assert!(result.is_ok(), "starved beside {noise}: {result:?}");
    }
}

/// "with ageing so that none starves": a task nobody waits for, beside one that many wait for.
#[test]
fn a_task_nobody_waits_for_does_not_starve() {
    let limits = Limits { max_calls: Some(100_000), ..Limits::default() };
    let mut test = TestScheduler::with(quiet().limits(limits).policy(|| DependencyAware));
    test.run(async {
        let done = Flag::default();
        let stop = Rc::clone(&done);
        let wanted = Rc::new(spawn(endless("yields", stop)).await);
        let mut waiters = Vec::new();
        for _ in 0..10 {
            let wanted = Rc::clone(&wanted);
            waiters.push(spawn(async move { wait(wanted).await.unwrap() }).await);
        }
        let alone = spawn(async move {
            turns(3).await;
            done.set(true);
        });
        drop(alone.await);
        gather(waiters).await.unwrap();
    })
    .unwrap();
}

/// "with ageing": a task passed over for long rises, but one level at a time.
#[test]
fn ageing_lifts_a_task_step_by_step() {
    let log = Log::new();
    let notes = log.clone();
    scheduler(quiet().policy(|| Priority))
        .run(async move {
            let gate = promise::<()>().await;
            let tasks = [
                behind(gate.future(), notes.clone(), "low", 1, 0).await,
                behind(gate.future(), notes.clone(), "mid", 1, 1).await,
                behind(gate.future(), notes.clone(), "high", 60, 3).await,
            ];
            gate.complete(()).await.unwrap();
            gather(tasks).await.unwrap();
        })
        .unwrap();
    let text = log.text();
    let place = |name: &str| text.split(' ').position(|word| word == name).unwrap();
    assert!(place("high") < place("mid"), "{text}");
    assert!(place("mid") < place("low"), "{text}");
    assert!(place("low") < 60, "before the highest has ended: {text}");
}

/// Chooses with a closure.
struct Choose<F>(F);

impl<F: FnMut(&[Candidate], &mut Vec<Tid>)> Policy for Choose<F> {
    fn plan(&mut self, candidates: &[Candidate], plan: &mut Vec<Tid>) {
        (self.0)(candidates, plan);
    }
}

/// "Policies are a trait": one of the user's own decides the order.
#[test]
fn a_policy_of_ones_own_decides() {
    let settings = quiet().policy(|| {
        Choose(|candidates: &[Candidate], plan: &mut Vec<Tid>| {
            plan.extend(candidates.iter().map(|candidate| candidate.tid));
            plan.sort_by_key(|tid| std::cmp::Reverse(*tid));
        })
    });
    assert_eq!(order(settings, &[("a", 0), ("b", 0), ("c", 0)], 2), "c b a c b a");
}

/// "Policies are a trait": one that names none lets all run, in order.
#[test]
fn a_policy_that_names_none_lets_all_run() {
    let settings = quiet().policy(|| Choose(|_: &[Candidate], _: &mut Vec<Tid>| {}));
    assert_eq!(order(settings, &[("a", 0), ("b", 0), ("c", 0)], 2), "a b c a b c");
}

/// "Policies are a trait": a name that is no ready task's is passed over and reported.
#[test]
fn a_policy_that_names_one_that_is_not_ready_is_told() {
    let settings = quiet().policy(|| {
        Choose(|candidates: &[Candidate], plan: &mut Vec<Tid>| {
            // Task 2 is blocked throughout; a task 99 never was.
            plan.extend([Tid(99), Tid(2)]);
            plan.extend(candidates.iter().map(|candidate| candidate.tid).filter(|tid| tid.0 != 2));
        })
    });
    let mut test = TestScheduler::with(settings);
    let log = Log::new();
    let notes = log.clone();
    let run = test.start(async move {
        let blocked = spawn(sleep(secs(5))).await;
        notes.note("a");
        yield_now().await;
        notes.note("b");
        blocked.await.unwrap();
    });
    test.finish(run).unwrap();
    assert_eq!(log.text(), "a b", "the others run all the same");
    let reports: Vec<String> = test
        .trace()
        .events()
        .iter()
        .map(ToString::to_string)
        .filter(|e| e.contains("policy"))
        .collect();
    for named in ["task 2 ", "task 99 "] {
        assert!(reports.iter().any(|report| report.contains(named)), "{named}: {}", test.trace());
    }
}

/// What each candidate's age was, round by round.
type Ages = Rc<RefCell<Vec<(u64, u32)>>>;

/// A policy that leaves one task out while told to, and notes all ages.
fn holding(held: Rc<Cell<Option<Tid>>>, ages: Ages) -> Builder {
    quiet().policy(move || {
        let (held, ages) = (Rc::clone(&held), Rc::clone(&ages));
        Choose(move |candidates: &[Candidate], plan: &mut Vec<Tid>| {
            ages.borrow_mut().extend(candidates.iter().map(|c| (c.tid.0, c.age)));
            plan.extend(candidates.iter().map(|c| c.tid).filter(|tid| Some(*tid) != held.get()));
        })
    })
}

/// "with ageing": what a policy leaves out stays ready, keeps its place and grows older by a round.
#[test]
fn what_is_left_out_stays_ready_and_grows_older() {
    let (held, ages) = (Rc::new(Cell::new(Some(Tid(2)))), Ages::default());
    let log = Log::new();
    let (notes, hold) = (log.clone(), Rc::clone(&held));
    scheduler(holding(Rc::clone(&held), Rc::clone(&ages)))
        .run(async move {
            let inner = notes.clone();
            let left_out = spawn(async move { inner.note("left out") }).await;
            turns(3).await;
            notes.note("now");
            hold.set(None);
            yield_now().await;
            notes.note("root");
            left_out.await.unwrap();
        })
        .unwrap();
    assert_eq!(log.text(), "now left out root", "it had waited longest, so it comes first");
    let of_it: Vec<u32> =
        ages.borrow().iter().filter(|(tid, _)| *tid == 2).map(|(_, age)| *age).collect();
    assert_eq!(of_it, [0, 1, 2, 3, 4]);
}

/// "with ageing": a new task begins young, also in the place of one that grew old and was cancelled.
#[test]
fn a_new_task_begins_young() {
    let (held, ages) = (Rc::new(Cell::new(Some(Tid(2)))), Ages::default());
    scheduler(holding(Rc::clone(&held), Rc::clone(&ages)))
        .run(async move {
            drop(spawn(async {}).await);
            turns(5).await;
            assert!(kill_task(Tid(2)).await);
            turns(2).await;
            held.set(Some(Tid(3)));
            let (task, _) = join!(spawn(async {}), yield_now());
            turns(2).await;
            held.set(None);
            task.await.unwrap();
        })
        .unwrap();
    let of_it: Vec<u32> =
        ages.borrow().iter().filter(|(tid, _)| *tid == 3).map(|(_, age)| *age).collect();
    assert_eq!(of_it, [0, 1, 2, 3]);
}
