//! Blocking work that waits for a thread.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tiffany::durable::step;
use tiffany::{ErrorKind, Runtime, TaskError, blocking, cancel, gather, sleep, spawn};

use crate::test_process;

/// As much as a busy program may have: to search for each among the others would take very long.
#[test]
fn much_work_that_has_not_begun_is_cancelled_quickly() {
    const MANY: usize = 30_000;
    let mut runtime = Runtime::builder().blocking_threads(1).build().unwrap();
    let done = runtime.try_run(async {
        let (open, gate) = mpsc::channel::<()>();
        let busy = spawn(blocking(move || gate.recv())).await;
        sleep(Duration::from_millis(5)).await;
        let mut tasks = Vec::new();
        for n in 0..MANY {
            tasks.push(spawn(blocking(move || n)).await);
        }
        let stays = tasks.swap_remove(MANY / 2);
        let began = Instant::now();
        // The last first, which is the longest search.
        for task in tasks.iter().rev() {
            cancel(task).await;
        }
        sleep(Duration::from_millis(5)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        open.send(()).unwrap();
        busy.await??.unwrap();
        stays.await?
    });
    assert_eq!(done.unwrap(), MANY / 2);
}

/// How often the thread that adds others has waited so far.
fn waits_of_foreman() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        if status.starts_with("Name:\ttiffany-foreman\n") {
            let waits = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:\t"));
            return waits.unwrap().parse().unwrap();
        }
    }
    panic!("there is none");
}

/// Makes this process one of a user with a limited number of processes. Root may have any number.
fn become_limited() {
    if rustix::process::geteuid().is_root() {
        // SAFETY: it touches no memory, and changes all threads.
        assert_eq!(unsafe { libc::setuid(65533) }, 0);
    }
}

fn limit_threads(current: Option<u64>) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    setrlimit(Resource::Nproc, Rlimit { current: current.or(maximum), maximum }).unwrap();
}

/// Not a test: a process of the next one. Its user may have no more threads than there are.
#[test]
fn lacks_threads() {
    static GATE: Mutex<()> = Mutex::new(());
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    async fn works(waits: bool) -> Result<(), TaskError> {
        let work = move || {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            drop(waits.then(|| GATE.lock()));
            Ok::<_, String>(())
        };
        step("work", work).await
    }
    if std::env::var_os("BLOCKING_LACKS_THREADS").is_none() {
        return;
    }
    become_limited();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let dir = std::env::temp_dir().join(format!("tiffany-threads-{}", std::process::id()));
    let builder = Runtime::builder().register("works", works).log_dir(&dir);
    let mut runtime = builder.blocking_threads(1).step_slots(8).build().unwrap();
    let gate = GATE.lock().unwrap();
    let submit = |runtime: &mut Runtime, ids: [&str; 2], waits: bool| {
        ids.map(|id| runtime.submit::<()>("works", id, &waits).unwrap())
    };
    // One of these has the thread that is kept ready, and one has a thread that was added.
    let first = submit(&mut runtime, ["a", "b"], true);
    while BEGUN.load(Ordering::SeqCst) < 2 {
        runtime.run(sleep(Duration::from_millis(1))).unwrap();
    }
    limit_threads(Some(1));
    let before = waits_of_foreman();
    let others = submit(&mut runtime, ["c", "d"], false);
    runtime.run(sleep(Duration::from_secs(1))).unwrap();
    assert_eq!(BEGUN.load(Ordering::SeqCst), 2, "a thread was added");
    println!("\nwaits {}", waits_of_foreman() - before);
    limit_threads(None);
    others.iter().for_each(|run| runtime.wait_for(run).unwrap());
    drop(gate);
    first.iter().for_each(|run| runtime.wait_for(run).unwrap());
    drop(runtime);
    std::fs::remove_dir_all(dir).unwrap();
}

/// When the system gives no more threads, the pool asks less and less often, says so once, and grows when it can.
#[test]
fn a_pool_that_gets_no_thread_backs_off() {
    let helper = test_process::command(module_path!(), "lacks_threads")
        .env("BLOCKING_LACKS_THREADS", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&helper.stderr);
    let printed = String::from_utf8_lossy(&helper.stdout);
    assert!(helper.status.success(), "{told}{printed}");
    let waits = printed.lines().find_map(|line| line.strip_prefix("waits ")?.parse::<u64>().ok());
    // Every 5 ms would be 200.
    assert!(waits.unwrap() < 60, "{printed}");
    assert_eq!(told.matches("the system starts no more threads").count(), 1, "{told}");
}

/// Copies a directory without another process, of which this one may have none.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&from, &to),
            kind if kind.is_file() => drop(std::fs::copy(from, to).unwrap()),
            _ => {}
        }
    }
}

/// Not a test: a process of the next one.
#[test]
fn lacks_threads_for_many_steps() {
    const MANY: usize = 100;
    /// A thread is there, and four attempts may wait for it.
    const RECORDED: usize = 5;
    static GATE: Mutex<()> = Mutex::new(());
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    async fn works(steps: usize) -> Result<Vec<String>, TaskError> {
        let mut tasks = Vec::new();
        for _ in 0..steps {
            let once = step("once", || {
                BEGUN.fetch_add(1, Ordering::SeqCst);
                drop(GATE.lock());
                Ok::<_, String>(())
            });
            let once = async {
                once.at_most_once().await.map_or_else(|e| e.code().into(), |()| "done".into())
            };
            tasks.push(spawn(once).await);
        }
        gather(tasks).await
    }
    if std::env::var_os("BLOCKING_LACKS_THREADS").is_none() {
        return;
    }
    become_limited();
    let dir = std::env::temp_dir().join(format!("tiffany-many-{}", std::process::id()));
    let crashed = dir.with_extension("crashed");
    let build =
        |dir: &Path| Runtime::builder().register("works", works).log_dir(dir).build().unwrap();
    let mut runtime = build(&dir);
    let gate = GATE.lock().unwrap();
    let submit = |runtime: &mut Runtime, id: &str, steps: usize| {
        runtime.submit::<Vec<String>>("works", id, &steps).unwrap()
    };
    let first = submit(&mut runtime, "first", 1);
    while BEGUN.load(Ordering::SeqCst) < 1 {
        runtime.run(sleep(Duration::from_millis(1))).unwrap();
    }
    limit_threads(Some(1));
    let many = submit(&mut runtime, "many", MANY);
    runtime.run(sleep(Duration::from_millis(300))).unwrap();
    assert_eq!(BEGUN.load(Ordering::SeqCst), 1, "a thread was added");
    // What a process that is killed now leaves behind.
    copy(&dir, &crashed);
    limit_threads(None);
    let began = Instant::now();
    while BEGUN.load(Ordering::SeqCst) < 1 + MANY {
        assert!(began.elapsed() < Duration::from_secs(20), "the pool does not grow again");
        runtime.run(sleep(Duration::from_millis(1))).unwrap();
    }
    drop(gate);
    let outcomes = [&first, &many].map(|run| runtime.wait_for(run).unwrap()).concat();
    assert_eq!(outcomes, vec!["done".to_string(); 1 + MANY]);
    drop(runtime);
    let mut runtime = build(&crashed);
    let outcomes = [&first, &many].map(|run| runtime.wait_for(run).unwrap()).concat();
    let in_doubt = outcomes.iter().filter(|code| *code == ErrorKind::InDoubt.code()).count();
    let done = outcomes.iter().filter(|outcome| *outcome == "done").count();
    assert_eq!((in_doubt, done), (RECORDED, 1 + MANY - RECORDED));
    drop(runtime);
    [dir, crashed].iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
}

/// While the system starts no more threads, attempts at steps that no thread could make are not
/// recorded as started.
#[test]
fn steps_without_threads_do_not_begin() {
    let helper = test_process::command(module_path!(), "lacks_threads_for_many_steps")
        .env("BLOCKING_LACKS_THREADS", "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&helper.stderr);
    let printed = String::from_utf8_lossy(&helper.stdout);
    assert!(helper.status.success(), "{told}{printed}");
}
