//! A durable run that is cut off after any of its records goes on from there: the same outcome, the same
//! interleaving, and no step done again whose result was written down.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use tiffany::durable::step;
use tiffany::wal::Settings;
use tiffany::{Runtime, TaskError, gather, new_uuid, now, random, sleep, yield_now};

/// The steps that were done, in the order they were begun.
static DONE: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn done(what: String) {
    DONE.lock().unwrap().push(what);
}

/// Tasks that share a list of who did what, with steps, sleeps and plain yields between.
async fn shop(orders: u32) -> Result<Vec<String>, TaskError> {
    let shared: Rc<RefCell<Vec<String>>> = Rc::default();
    let mut tasks = Vec::new();
    for n in 0..orders {
        let shared = Rc::clone(&shared);
        let task = tiffany::try_spawn(async move {
            for round in 0..2 {
                let price: u32 = step("price", move || {
                    done(format!("price {n} {round}"));
                    Ok::<u32, String>(10 * n + round)
                })
                .input(&(n, round))
                .await?;
                shared.borrow_mut().push(format!("order {n} costs {price}"));
                for _ in 0..n {
                    yield_now().await;
                }
                shared.borrow_mut().push(format!("order {n} looks around"));
                sleep(Duration::from_millis(u64::from(3 - n))).await;
            }
            Ok::<(), TaskError>(())
        });
        tasks.push(task.await);
    }
    let watcher = Rc::clone(&shared);
    tasks.push(
        tiffany::try_spawn(async move {
            for _ in 0..5 {
                let seen = watcher.borrow().len();
                let (at, number) = (now().await, random().await);
                let uuid = new_uuid().await;
                watcher.borrow_mut().push(format!("saw {seen} at {at}: {number} {uuid}"));
                yield_now().await;
            }
            Ok::<(), TaskError>(())
        })
        .await,
    );
    gather(tasks).await?;
    let list = shared.borrow().clone();
    Ok(list)
}

/// Whether every call is written down, or only those that concern the world.
#[derive(Clone, Copy)]
enum Written {
    Every,
    Outward,
}

fn runtime(dir: &Path, written: Written) -> Runtime {
    // Small segments, because a hundred logs are opened here.
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    let builder = Runtime::builder().log_dir(dir).log_settings(settings).register("shop", shop);
    let builder = match written {
        Written::Every => builder,
        Written::Outward => builder.record_outward_only(),
    };
    builder.build().expect("the log opens")
}

fn outcome(dir: &Path, written: Written) -> Vec<String> {
    let mut runtime = runtime(dir, written);
    let run = runtime.submit::<Vec<String>>("shop", "today", &3).expect("it starts");
    runtime.wait_for(&run).expect("it ends well")
}

fn fresh(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tiffany-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

fn log_of(dir: &Path) -> (String, String) {
    let mut files = std::fs::read_dir(dir.join("wal")).expect("there is a log");
    let file = files.find_map(|file| {
        let path = file.expect("it can be read").path();
        path.extension().is_some_and(|ending| ending == "wal").then_some(path)
    });
    let path = file.expect("there is a run");
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    (name, std::fs::read_to_string(path).expect("it can be read"))
}

#[test]
fn after_any_record() {
    cut_after_any_record(Written::Every, 60);
    cut_after_any_record(Written::Outward, 30);
}

fn cut_after_any_record(written: Written, at_least: usize) {
    let dir = fresh("whole");
    let whole = outcome(&dir, written);
    let all_done = DONE.lock().unwrap().split_off(0);
    let (name, log) = log_of(&dir);
    assert_eq!(outcome(&dir, written), whole, "it is over, and is not run again");
    assert!(DONE.lock().unwrap().is_empty());
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    assert!(lines.len() > at_least, "{log}");
    for kept in 1..lines.len() {
        let dir = fresh("cut");
        std::fs::create_dir_all(dir.join("wal")).unwrap();
        std::fs::write(dir.join("wal").join(&name), lines[..kept].concat()).unwrap();
        let result = outcome(&dir, written);
        let again = DONE.lock().unwrap().split_off(0);
        let text = lines[..kept].concat();
        let results = text.matches("EffectResult").count();
        assert_eq!(again.len(), all_done.len() - results, "cut after {kept}:\n{text}");
        // What had been seen before the cut was seen by the same task at the same time.
        let (_, now) = log_of(&dir);
        assert!(now.starts_with(&text), "cut after {kept}");
        assert_eq!(result.len(), whole.len(), "cut after {kept}");
        // All the watcher's calls concern the world, so what it saw is in the log, and its entries are the
        // same up to its last record there.
        let watched = text.matches(r#""tid":5"#).count();
        let same = whole.iter().zip(&result).take_while(|(was, is)| was == is).count();
        let saw = whole[..same].iter().filter(|entry| entry.starts_with("saw")).count();
        assert!(saw + 1 >= watched / 4, "cut after {kept}: {same} entries are the same\n{text}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
