//! Blocking work that waits for a thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tiffany::durable::step;
use tiffany::{Runtime, TaskError, blocking, cancel, sleep, spawn};

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
    if rustix::process::geteuid().is_root() {
        // Root may have any number.
        // SAFETY: it touches no memory, and changes all threads.
        assert_eq!(unsafe { libc::setuid(65533) }, 0);
    }
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
