//! The threat: a rule, a command or a collection takes what is still needed: a run that goes on, the parent of a fork, a blob that is named, an id that must not be
//! run twice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::durable_kit::{Dir, ms};
use tiffany::control::Control;
use tiffany::durable::{DurableRun, Fork, TimeTravel, receive, run_id, send, step};
use tiffany::history::{DiffSettings, Outcome, diff};
use tiffany::retention::{Keeper, Plan, Retention, Why, plan_of};
use tiffany::wal::{Payload, RealDisk, RunState, View};
use tiffany::{Builder, RunError, Runtime, TaskError, Uuid};

/// How often the step of `big` was really done.
static DONE: AtomicUsize = AtomicUsize::new(0);

/// A step with a large answer, which is a blob, that ends with a large value.
async fn big(text: String) -> Result<String, TaskError> {
    let long: String = step("lengthen", {
        let text = text.clone();
        move || {
            DONE.fetch_add(1, Ordering::Relaxed);
            Ok::<String, String>(text.repeat(30_000))
        }
    })
    .input(&text)
    .await?;
    Ok(long[..20_000].to_owned())
}

async fn small(number: u32) -> Result<u32, TaskError> {
    for _ in 0..20 {
        step("add", || Ok::<u32, String>(1)).await?;
    }
    match number {
        0..100 => Ok(number),
        _ => Err(TaskError::failed("too large")),
    }
}

async fn listens(_: ()) -> Result<String, TaskError> {
    receive("word").await
}

/// Sends a word to `listener`, and takes a step that its forks have to ask for.
async fn tells(word: String) -> Result<String, TaskError> {
    send(run_id("listener"), "word", &word).await?;
    let again: String = receive("again").await?;
    step("more", move || Ok::<String, String>(again.clone())).await
}

/// Where secrets are put: what a run is started with and ends with, and what only its steps and messages have.
const SECRETS: [&str; 4] = ["secret-input", "secret-step", "secret-message", "secret-blob"];

/// Has a secret wherever a run can have one, the last in a payload that is a blob.
async fn secretive(_: String) -> Result<String, TaskError> {
    let word: String = receive("word").await?;
    step("whisper", || Ok::<String, String>("secret-step".into())).input(&word).await?;
    step("shout", || Ok::<String, String>("secret-blob".repeat(3_000))).await?;
    step("fail", || Err::<(), String>("secret-step".into())).await.ok();
    Ok("secret-input".into())
}

/// Each secret that some file of a directory has, with the file.
fn betrayed(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(betrayed(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let has = |secret: &&&str| memchr::memmem::find(&bytes, secret.as_bytes()).is_some();
            let secrets = SECRETS.iter().filter(has);
            found.extend(secrets.map(|secret| format!("{secret} in {}", path.display())));
        }
    }
    found
}

/// Two such runs that are over, and what a process that ended left of them.
fn with_secrets(dir: &Path) -> [DurableRun<String>; 2] {
    let mut runtime = open(dir);
    let runs = ["a", "b"].map(|id| {
        let run = runtime.submit::<String>("secretive", id, &"secret-input").unwrap();
        runtime.send(&run, "word", &"secret-message").unwrap();
        runtime.wait_for(&run).unwrap();
        run
    });
    drop(runtime);
    for secret in SECRETS {
        assert!(betrayed(dir).iter().any(|found| found.contains(secret)), "{secret} is nowhere");
    }
    runs
}

#[test]
fn removed_runs_leave_no_secret_behind_whoever_removes_them() {
    for way in ["runtime", "closed", "process", "offline", "rule"] {
        let dir = Dir::new();
        let runs = with_secrets(&dir.0);
        match way {
            "runtime" | "closed" => {
                let mut runtime = open(&dir.0);
                runs.iter().for_each(|run| runtime.remove(run).unwrap());
                let begun = Instant::now();
                // It is done in the background without a request, while other runs continue.
                while way == "runtime" && !betrayed(&dir.0).is_empty() {
                    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", betrayed(&dir.0));
                    runtime.run(tiffany::sleep(ms(20))).unwrap();
                }
                runtime.flush().unwrap();
                if way == "closed" {
                    runtime.collect_blobs().unwrap();
                }
            }
            "process" => {
                let mut runtime = open(&dir.0);
                let path = dir.0.clone();
                let waiting = runtime.submit::<String>("listens", "listener", &()).unwrap();
                runtime.flush().unwrap();
                let (uuids, waits) = (runs.map(|run| run.uuid()), waiting.uuid());
                let asking = std::thread::spawn(move || {
                    let mut keeper = Keeper::open(&path).unwrap();
                    uuids.into_iter().for_each(|run| keeper.remove(run).unwrap());
                    let collected = keeper.collect_blobs();
                    Control::open(&path).unwrap().send(waits, "word", &"done").unwrap();
                    collected.unwrap()
                });
                runtime.wait_for(&waiting).unwrap();
                let collected = asking.join().unwrap();
                assert!(collected.segments > 0, "{collected:?}");
                assert_eq!(betrayed(&dir.0), Vec::<String>::new(), "{way}");
            }
            "offline" => {
                let mut keeper = Keeper::open(&dir.0).unwrap();
                runs.iter().for_each(|run| keeper.remove(run.uuid()).unwrap());
            }
            _ => drop(open(&dir.0).prune(&[Retention::new().keep(0)]).unwrap()),
        }
        assert_eq!(betrayed(&dir.0), Vec::<String>::new(), "{way}");
        let view = view(&dir.0);
        assert!(view.runs().all(|(run, _)| !view.is_unerased(run)), "{way}");
    }
}

#[test]
fn a_compacted_run_leaves_only_its_beginning_and_its_end() {
    let dir = Dir::new();
    let runs = with_secrets(&dir.0);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    let compacted = keeper.compact(&[runs[0].uuid(), runs[1].uuid()]).unwrap();
    assert_eq!(compacted.compacted, 2);
    drop(keeper);
    let left = betrayed(&dir.0);
    assert!(left.iter().all(|found| found.contains("secret-input in ")), "{left:?}");
    assert!(left.iter().all(|found| found.ends_with(".wal")), "{left:?}");
}

fn program() -> Builder {
    Builder::new()
        .register("secretive", secretive)
        .register("big", big)
        .register("small", small)
        .register("listens", listens)
        .register("tells", tells)
}

fn open(dir: &Path) -> Runtime {
    program().log_dir(dir).build().unwrap()
}

fn view(dir: &Path) -> View {
    View::open(Arc::new(RealDisk), dir).unwrap()
}

fn blobs(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("wal/blobs")).unwrap().count()
}

fn finished(runtime: &mut Runtime, function: &str, id: &str, input: &str) -> DurableRun<String> {
    let run = runtime.submit::<String>(function, id, &input).unwrap();
    runtime.wait_for(&run).unwrap();
    run
}

fn code<T>(result: Result<T, RunError>) -> &'static str {
    result.err().map_or("ok", |error| error.code())
}

fn task_code<T>(result: Result<T, TaskError>) -> &'static str {
    result.err().map_or("ok", |error| error.code())
}

#[test]
fn a_removed_run_is_gone_and_its_id_runs_nothing_again() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let done = DONE.load(Ordering::Relaxed);
    runtime.remove(&run).unwrap();
    let refused = |runtime: &mut Runtime| {
        let again = runtime.submit::<String>("big", "a", &"x").map(drop);
        assert!(again.as_ref().unwrap_err().to_string().contains("the id `a`"), "{again:?}");
        assert_eq!(code(again), "TFY0130");
        assert_eq!(code(runtime.wait_for(&run)), "TFY0130");
        assert_eq!(code(runtime.send(&run, "word", &1)), "TFY0130");
        assert_eq!(code(runtime.cancel(&run)), "TFY0130");
        assert_eq!(code(runtime.fork(&run, 1, Fork::new())), "TFY0130");
        assert_eq!(code(runtime.remove(&run)), "TFY0130");
        assert_eq!(code(runtime.compact(&run)), "TFY0130");
        assert!(runtime.is_finished(run.uuid()));
    };
    refused(&mut runtime);
    drop(runtime);
    assert!(!dir.0.join(format!("wal/{}.wal", run.uuid())).exists());
    assert_eq!(view(&dir.0).run(run.uuid()).unwrap().state, RunState::Removed);
    let mut runtime = open(&dir.0);
    refused(&mut runtime);
    assert_eq!(DONE.load(Ordering::Relaxed), done, "nothing was done again");
}

#[test]
fn a_compacted_run_is_known_and_its_outcome_and_nothing_else() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let number = runtime.submit::<u32>("small", "n", &7).unwrap();
    assert_eq!(runtime.wait_for(&number).unwrap(), 7);
    let bad = runtime.submit::<u32>("small", "bad", &700).unwrap();
    let failure = runtime.wait_for(&bad).unwrap_err().to_string();
    let before = view(&dir.0).run(run.uuid()).unwrap();
    let pruned = runtime.compact(&run).unwrap();
    assert_eq!((pruned.compacted, pruned.removed), (1, 0));
    runtime.compact(&number).unwrap();
    let saved = runtime.compact(&bad).unwrap();
    assert!(saved.bytes > 1_000, "{saved:?}");
    // Once more there is nothing to do.
    assert_eq!(runtime.compact(&run).unwrap().compacted, 0);
    let check = |runtime: &mut Runtime| {
        assert_eq!(runtime.wait_for(&run).unwrap().len(), 20_000);
        assert_eq!(runtime.wait_for(&number).unwrap(), 7);
        assert_eq!(runtime.wait_for(&bad).unwrap_err().to_string(), failure);
        // The same start is the same run; another one is refused as ever.
        runtime.submit::<String>("big", "a", &"x").unwrap();
        assert_eq!(code(runtime.submit::<String>("big", "a", &"y").map(drop)), "TFY0037");
        assert_eq!(code(runtime.fork(&run, 1, Fork::new())), "TFY0131");
        assert_eq!(code(runtime.fork(&run, 2, Fork::new())), "TFY0131");
        assert_eq!(code(runtime.send(&run, "word", &1)), "TFY0042");
    };
    check(&mut runtime);
    drop(runtime);
    let after = view(&dir.0);
    let entry = after.run(run.uuid()).unwrap();
    assert_eq!((entry.generation, entry.seq, entry.state), (2, 3, RunState::Finished));
    let mut types = Vec::new();
    let mut reader = after.reader(run.uuid()).unwrap();
    while let Some(record) = reader.next() {
        let record = record.unwrap();
        types.push(record.kind.to_owned());
        if record.kind == "Compacted" {
            assert_eq!(record.uint("records"), Some(before.seq));
            assert_eq!(record.uint("bytes"), Some(before.len));
        }
    }
    assert_eq!(types, ["RunStart", "Compacted", "TaskExit"]);
    let travelled = TimeTravel::open(program(), &dir.0, run.uuid()).map(drop);
    assert_eq!(code(travelled), "TFY0131");
    let side = (&after, run.uuid());
    assert_eq!(code(diff(side, side, DiffSettings::default())), "TFY0131");
    let mut runtime = open(&dir.0);
    check(&mut runtime);
}

#[test]
fn a_compacted_run_whose_index_is_lost_does_not_run_again() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    runtime.compact(&run).unwrap();
    drop(runtime);
    let done = DONE.load(Ordering::Relaxed);
    // Only the files of the runs are left: the log is made of them.
    std::fs::remove_dir_all(dir.0.join("commit")).unwrap();
    let mut runtime = open(&dir.0);
    assert_eq!(runtime.wait_for(&run).unwrap().len(), 20_000);
    assert_eq!(DONE.load(Ordering::Relaxed), done, "nothing was done again");
    assert!(runtime.paused().is_empty());
}

#[test]
fn runs_that_are_not_over_are_refused_with_the_next_step() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = runtime.submit::<String>("listens", "listener", &()).unwrap();
    runtime.flush().unwrap();
    let removed = runtime.remove(&run).unwrap_err();
    assert!(removed.to_string().contains("cancel"), "{removed}");
    assert_eq!(removed.code(), "TFY0132");
    assert_eq!(code(runtime.compact(&run)), "TFY0132");
    let nobody = run_id("nobody");
    drop(runtime);
    // The same where no process has the log.
    let mut control = Control::open(&dir.0).unwrap();
    assert_eq!(task_code(control.remove(run.uuid())), "TFY0132");
    assert_eq!(task_code(control.remove(nobody)), "TFY0041");
    drop(control);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert_eq!(task_code(keeper.compact(&[run.uuid()])), "TFY0132");
    assert_eq!(task_code(keeper.compact(&[nobody])), "TFY0041");
    let plan = keeper.plan(&[Retention::new().keep(0).max_bytes(0)]).unwrap();
    assert!(plan.is_empty(), "{plan:?}");
    drop(keeper);
    // And it goes on.
    let mut runtime = open(&dir.0);
    runtime.send(&run, "word", &"hello").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "hello");
}

/// A run that is over, its fork that is over, and a fork of that which is not: it needs both.
fn family(runtime: &mut Runtime) -> [DurableRun<String>; 3] {
    let listener = runtime.submit::<String>("listens", "listener", &()).unwrap();
    let run = runtime.submit::<String>("tells", "parent", &"hi").unwrap();
    runtime.send(&run, "again", &"more").unwrap();
    runtime.wait_for(&run).unwrap();
    runtime.wait_for(&listener).unwrap();
    let child = runtime.fork(&run, 1, Fork::new().id("child")).unwrap();
    runtime.send(&child, "again", &"more").unwrap();
    runtime.wait_for(&child).unwrap();
    let grandchild = runtime.fork(&child, 1, Fork::new().id("grandchild")).unwrap();
    runtime.flush().unwrap();
    [run, child, grandchild]
}

#[test]
fn what_an_unfinished_fork_needs_is_kept() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let [run, child, grandchild] = family(&mut runtime);
    for needed in [&run, &child] {
        let removed = runtime.remove(needed).unwrap_err();
        assert!(removed.to_string().contains(&grandchild.uuid().to_string()), "{removed}");
        assert_eq!(removed.code(), "TFY0133");
        assert_eq!(code(runtime.compact(needed)), "TFY0133");
    }
    let everything = [Retention::new().keep(0).compact_after(Duration::ZERO)];
    let pruned = runtime.prune(&everything).unwrap();
    assert_eq!((pruned.removed, pruned.compacted), (1, 0), "the listener");
    drop(runtime);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    let plan = keeper.plan(&everything).unwrap();
    assert!(plan.is_empty(), "{plan:?}");
    let mut kept: Vec<(Uuid, Uuid)> = plan.kept.iter().map(|k| (k.run.run, k.by.run())).collect();
    let mut expected = [run.uuid(), child.uuid()].map(|parent| (parent, grandchild.uuid()));
    kept.sort_unstable();
    expected.sort_unstable();
    assert_eq!(kept, expected);
    assert_eq!(task_code(keeper.remove(run.uuid())), "TFY0133");
    drop(keeper);
    // The fork has its answers from them still: nothing is refused.
    let mut runtime = open(&dir.0);
    assert_eq!(code(runtime.remove(&run)), "TFY0133");
    runtime.send(&grandchild, "again", &"more").unwrap();
    assert_eq!(runtime.wait_for(&grandchild).unwrap(), "more");
    // Now nobody needs them.
    let pruned = runtime.prune(&everything).unwrap();
    assert_eq!(pruned.removed, 3, "{pruned:?}");
    assert_eq!(code(runtime.wait_for(&run)), "TFY0130");
}

#[test]
fn a_paused_fork_needs_its_parent_too() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let [run, ..] = family(&mut runtime);
    drop(runtime);
    // A program without the function: its runs are paused.
    let mut other = Builder::new().log_dir(&dir.0).build().unwrap();
    assert_eq!(other.paused().len(), 1);
    assert_eq!(code(other.remove(&run)), "TFY0133");
}

/// Changes a byte of a line of a run's file.
fn damage(dir: &Path, run: Uuid, line: usize) {
    let file = dir.join(format!("wal/{run}.wal"));
    let mut bytes = std::fs::read(&file).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let begins = std::iter::once(0).chain(ends).nth(line).unwrap();
    bytes[begins + 60] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

#[test]
fn a_run_is_kept_while_one_that_may_be_its_fork_cannot_be_read() {
    // The unfinished fork; and its parent, which is over and has a parent of its own.
    for which in [2, 1] {
        let dir = Dir::new();
        let mut runtime = open(&dir.0);
        let family = family(&mut runtime);
        runtime.flush().unwrap();
        drop(runtime);
        let [run, damaged] = [family[0].uuid(), family[which].uuid()];
        damage(&dir.0, damaged, 0);
        let rule = [Retention::new().keep(0)];
        let is_kept = |plan: Plan| {
            plan.remove.is_empty()
                && plan.kept.iter().any(|k| k.run.run == run && k.by.run() == damaged)
        };
        assert!(is_kept(plan_of(&view(&dir.0), &rule).unwrap()), "{which}");
        let mut keeper = Keeper::open(&dir.0).unwrap();
        let refused = keeper.remove(run).unwrap_err();
        assert_eq!(refused.code(), "TFY0254", "{which}: {refused}");
        assert!(refused.to_string().contains(&damaged.to_string()), "{refused}");
        let compacted = keeper.compact(&[run]).unwrap();
        assert_eq!(compacted.refused[0].1.code(), "TFY0254", "{which}");
        drop(keeper);
        let mut runtime = open(&dir.0);
        assert_eq!(code(runtime.remove(&family[0])), "TFY0254", "{which}");
        assert_eq!(code(runtime.compact(&family[0])), "TFY0254", "{which}");
        assert!(is_kept(runtime.plan(&rule).unwrap()), "{which}");
    }
}

#[test]
fn a_rule_keeps_a_run_that_is_damaged_in_the_middle_and_says_so() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let [run, other] = ["a", "b"].map(|id| finished(&mut runtime, "big", id, id));
    drop(runtime);
    damage(&dir.0, run.uuid(), 2);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    let plan = keeper.plan(&[Retention::new().keep(0)]).unwrap();
    assert_eq!(plan.remove.len(), 1);
    assert_eq!(plan.damaged[0].0, run.uuid());
    let pruned = keeper.carry_out(&plan).unwrap();
    assert_eq!((pruned.removed, pruned.refused.len()), (1, 1));
    assert!(pruned.refused[0].1.to_string().contains("TFY0107"), "{pruned:?}");
    assert!(dir.0.join(format!("wal/{}.wal", run.uuid())).exists());
    assert!(!dir.0.join(format!("wal/{}.wal", other.uuid())).exists());
}

#[test]
fn blobs_go_when_nobody_names_them_and_not_before() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let twin = finished(&mut runtime, "big", "b", "x");
    let other = finished(&mut runtime, "big", "c", "y");
    drop(runtime);
    // Of each text the answer and the value.
    assert_eq!(blobs(&dir.0), 4);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert_eq!(keeper.collect_blobs().unwrap().blobs, 0);
    keeper.remove(run.uuid()).unwrap();
    assert_eq!(keeper.collect_blobs().unwrap().blobs, 0, "its twin has the same");
    // The value stays, the answer goes.
    assert_eq!(keeper.compact(&[other.uuid()]).unwrap().compacted, 1);
    let collected = keeper.collect_blobs().unwrap();
    assert_eq!((collected.blobs, collected.bytes), (1, 30_002));
    keeper.remove(twin.uuid()).unwrap();
    assert_eq!(keeper.collect_blobs().unwrap().blobs, 2);
    assert_eq!(blobs(&dir.0), 1);
    drop(keeper);
    let mut runtime = open(&dir.0);
    assert_eq!(runtime.wait_for(&other).unwrap().len(), 20_000);
}

#[test]
fn a_fork_keeps_the_blobs_that_it_has_from_its_parent() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let entry = view(&dir.0).run(run.uuid()).unwrap();
    // It is over at once, with its parent's answer.
    let fork = runtime.fork(&run, entry.seq - 1, Fork::new().id("fork")).unwrap();
    runtime.wait_for(&fork).unwrap();
    runtime.remove(&run).unwrap();
    runtime.flush().unwrap();
    runtime.prune(&[Retention::new().keep(1)]).unwrap();
    drop(runtime);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert_eq!(keeper.collect_blobs().unwrap().blobs, 0);
    drop(keeper);
    assert_eq!(blobs(&dir.0), 2);
    TimeTravel::open(program(), &dir.0, fork.uuid()).unwrap().seek(3).unwrap();
}

#[test]
fn nothing_is_collected_while_a_run_is_damaged() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let other = finished(&mut runtime, "big", "b", "y");
    drop(runtime);
    let file = dir.0.join(format!("wal/{}.wal", run.uuid()));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let mut keeper = Keeper::open(&dir.0).unwrap();
    // What is damaged is neither compacted nor removed by a rule.
    let pruned = keeper.compact(&[run.uuid()]).unwrap();
    assert_eq!((pruned.compacted, pruned.refused.len()), (0, 1));
    assert!(pruned.refused[0].1.to_string().contains("TFY0107"), "{pruned:?}");
    let plan = keeper.plan(&[Retention::new().keep(0)]).unwrap();
    assert_eq!(plan.remove.len(), 1);
    let pruned = keeper.carry_out(&plan).unwrap();
    assert_eq!((pruned.removed, pruned.collected.blobs, pruned.collected.damaged), (1, 0, 1));
    assert_eq!(blobs(&dir.0), 4);
    drop(keeper);
    // Mended, all is there; and what the other one had can go.
    std::fs::write(&file, &bytes).unwrap();
    let mut runtime = open(&dir.0);
    assert_eq!(runtime.wait_for(&run).unwrap().len(), 20_000);
    assert_eq!(code(runtime.wait_for(&other)), "TFY0130");
    drop(runtime);
    Keeper::open(&dir.0).unwrap().collect_blobs().unwrap();
    assert_eq!(blobs(&dir.0), 2);
}

#[test]
fn a_damaged_run_of_the_same_length_keeps_all_blobs() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let other = finished(&mut runtime, "big", "b", "y");
    drop(runtime);
    // The name of a blob can't be read any more.
    let file = dir.0.join(format!("wal/{}.wal", run.uuid()));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("{\"$blob\":", "{\"$blot\":")).unwrap();
    let mut keeper = Keeper::open(&dir.0).unwrap();
    keeper.remove(other.uuid()).unwrap();
    let collected = keeper.collect_blobs().unwrap();
    assert_eq!((collected.blobs, collected.damaged), (0, 1));
    assert_eq!(blobs(&dir.0), 4);
    drop(keeper);
    std::fs::write(&file, &text).unwrap();
    let mut runtime = open(&dir.0);
    assert_eq!(runtime.wait_for(&run).unwrap().len(), 20_000);
}

#[test]
fn a_damaged_run_goes_by_its_name_where_nobody_has_the_directory() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    drop(runtime);
    let file = dir.0.join(format!("wal/{}.wal", run.uuid()));
    std::fs::write(&file, "half").unwrap();
    let mut runtime = open(&dir.0);
    let refused = runtime.remove(&run).unwrap_err();
    assert!(refused.to_string().contains("TFY0107"), "{refused}");
    drop(runtime);
    Keeper::open(&dir.0).unwrap().remove(run.uuid()).unwrap();
    assert!(!file.exists());
    let mut runtime = open(&dir.0);
    assert_eq!(code(runtime.wait_for(&run)), "TFY0130");
    assert!(runtime.paused().is_empty());
}

#[test]
fn a_message_that_a_compacted_run_has_is_not_refused_when_it_is_sent_again() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let listener = runtime.submit::<String>("listens", "listener", &()).unwrap();
    let sender = runtime.submit::<String>("tells", "sender", &"hi").unwrap();
    runtime.wait_for(&listener).unwrap();
    runtime.compact(&listener).unwrap();
    drop(runtime);
    // As if the power had gone before the sender knew that its message was safe.
    let file = dir.0.join(format!("wal/{}.wal", sender.uuid()));
    let text = std::fs::read_to_string(&file).unwrap();
    let cut: String = text.split_inclusive('\n').take(2).collect();
    assert!(cut.contains("\"send\"") && text.contains("TaskWake"), "{text}");
    std::fs::write(&file, cut).unwrap();
    std::fs::remove_dir_all(dir.0.join("commit")).unwrap();
    let mut runtime = open(&dir.0);
    runtime.send(&sender, "again", &"more").unwrap();
    assert_eq!(runtime.wait_for(&sender).unwrap(), "more");
    assert_eq!(runtime.wait_for(&listener).unwrap(), "hi");
}

#[test]
fn rules_say_what_they_would_do_and_do_it() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    for number in 0..30 {
        let input = if number % 10 == 0 { 700 + number } else { number };
        let run = runtime.submit::<u32>("small", &format!("run-{number}"), &input).unwrap();
        assert_eq!(runtime.wait_for(&run).is_err(), number % 10 == 0);
    }
    let large = finished(&mut runtime, "big", "large", "x");
    drop(runtime);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert!(keeper.is_offline());
    let failed = Retention::new().only(Outcome::Failed).keep(1);
    let plan = keeper.plan(&[failed]).unwrap();
    assert_eq!((plan.over, plan.remove.len()), (31, 2));
    let ids: Vec<&str> = plan.remove.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["run-0", "run-10"]);
    assert!(plan.remove.iter().all(|one| one.why == Why::Count && one.outcome == Outcome::Failed));
    // A plan changes nothing.
    assert_eq!(view(&dir.0).runs().filter(|(_, e)| e.state == RunState::Finished).count(), 31);
    assert_eq!(keeper.carry_out(&plan).unwrap().removed, 2);
    // The blobs of the large one count too.
    let lines: u64 = view(&dir.0).runs().map(|(_, entry)| entry.len).sum();
    let size = Retention::new().max_bytes(lines);
    let plan = keeper.plan(&[size]).unwrap();
    assert!(plan.remove.len() >= 5, "{}", plan.remove.len());
    assert!(plan.remove.iter().all(|one| one.why == Why::Size && one.id != "large"));
    // What is young stays.
    let plan = keeper.plan(&[Retention::new().older_than(Duration::from_secs(3600))]).unwrap();
    assert!(plan.is_empty());
    let plan = keeper.plan(&[Retention::new().compact_after(Duration::ZERO)]).unwrap();
    assert_eq!((plan.remove.len(), plan.compact.len()), (0, 29));
    let pruned = keeper.carry_out(&plan).unwrap();
    assert_eq!((pruned.compacted, pruned.collected.blobs), (29, 1));
    assert!(keeper.plan(&[Retention::new().compact_after(Duration::ZERO)]).unwrap().is_empty());
    // A plan that is old is still harmless: what is gone is told.
    let plan = keeper.plan(&[Retention::new().keep(0)]).unwrap();
    assert_eq!(keeper.carry_out(&plan).unwrap().removed, 29);
    let again = keeper.carry_out(&plan).unwrap();
    assert_eq!((again.removed, again.refused.len()), (0, 29));
    assert!(again.refused.iter().all(|(_, error)| error.code() == "TFY0130"));
    drop(keeper);
    assert_eq!(blobs(&dir.0), 0);
    let mut runtime = open(&dir.0);
    assert_eq!(code(runtime.wait_for(&large)), "TFY0130");
}

#[test]
fn a_runtime_tells_what_it_would_do_and_what_it_leaves() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let (a, b) = (finished(&mut runtime, "big", "a", "x"), finished(&mut runtime, "big", "b", "y"));
    let newest = [Retention::new().keep(1)];
    let plan = runtime.plan(&newest).unwrap();
    assert_eq!((plan.remove.len(), plan.remove[0].run, plan.over), (1, a.uuid(), 2));
    assert_eq!(plan_of(&view(&dir.0), &newest).unwrap().remove, plan.remove);
    assert_eq!(runtime.compact(&b).unwrap().unchanged, []);
    assert_eq!(runtime.compact(&b).unwrap().unchanged, [b.uuid()]);
    let pruned = runtime.prune(&[Retention::new().compact_after(Duration::ZERO)]).unwrap();
    assert_eq!((pruned.compacted, pruned.unchanged), (1, vec![]), "`b` is not looked at again");
    runtime.remove(&a).unwrap();
    runtime.remove(&b).unwrap();
    assert_eq!(runtime.collect_blobs().unwrap().blobs, 2);
    assert_eq!(runtime.collect_blobs().unwrap().blobs, 0);
    assert!(runtime.plan(&newest).unwrap().is_empty());
}

#[test]
fn a_runtime_keeps_its_rules_in_the_background_while_its_runs_go_on() {
    let dir = Dir::new();
    let rule = Retention::new().keep(5).compact_after(Duration::ZERO);
    let builder = program().log_dir(&dir.0).retention(rule).retention_every(ms(20));
    let mut runtime = builder.build().unwrap();
    let waiting = runtime.submit::<String>("listens", "listener", &()).unwrap();
    let begun = Instant::now();
    // Until the rule was kept at least a few times beside the work.
    for number in 0_u32.. {
        let id = format!("run-{number}");
        match number % 3 {
            0 => drop(finished(&mut runtime, "big", &id, &format!("{}", number % 7))),
            _ => {
                let run = runtime.submit::<u32>("small", &id, &(number % 50)).unwrap();
                assert_eq!(runtime.wait_for(&run).unwrap(), number % 50);
            }
        }
        if number % 5 != 0 {
            continue;
        }
        let view = view(&dir.0);
        let removed = view.runs().filter(|(_, entry)| entry.state == RunState::Removed).count();
        let compacted = view.runs().filter(|(_, entry)| entry.generation == 2).count();
        if removed > 20 && compacted > 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{removed} {compacted}");
    }
    runtime.send(&waiting, "word", &"still here").unwrap();
    assert_eq!(runtime.wait_for(&waiting).unwrap(), "still here");
    drop(runtime);
    let view = view(&dir.0);
    assert!(view.recovery().is_clean(), "{:?}", view.recovery());
    assert_eq!(view.runs().filter(|(_, entry)| entry.state == RunState::Live).count(), 0);
    // Every blob that a run names is there, and can be read.
    for (uuid, _) in view.runs().filter(|(_, entry)| entry.state == RunState::Finished) {
        let mut reader = view.reader(uuid).unwrap();
        while let Some(record) = reader.next() {
            if let Some(Payload::Blob { hash, .. }) = record.unwrap().payload("value") {
                view.blob(hash).unwrap();
            }
        }
    }
}

#[test]
fn through_the_process_that_has_the_directory_it_is_the_same() {
    let dir = Dir::new();
    let mut runtime = open(&dir.0);
    let run = finished(&mut runtime, "big", "a", "x");
    let other = finished(&mut runtime, "big", "b", "y");
    let live = runtime.submit::<String>("listens", "listener", &()).unwrap();
    runtime.flush().unwrap();
    let (path, uuids) = (dir.0.clone(), [run.uuid(), other.uuid(), live.uuid()]);
    let asking = std::thread::spawn(move || {
        let mut keeper = Keeper::open(&path).unwrap();
        assert!(!keeper.is_offline());
        assert_eq!(task_code(keeper.remove(uuids[2])), "TFY0132");
        keeper.remove(uuids[0]).unwrap();
        assert_eq!(task_code(keeper.remove(uuids[0])), "TFY0130");
        assert_eq!(keeper.compact(&[uuids[1]]).unwrap().compacted, 1);
        keeper.collect_blobs().unwrap();
        Control::open(&path).unwrap().send(uuids[2], "word", &"done").unwrap();
    });
    assert_eq!(runtime.wait_for(&live).unwrap(), "done");
    asking.join().unwrap();
    assert_eq!(blobs(&dir.0), 1);
    assert_eq!(runtime.wait_for(&other).unwrap().len(), 20_000);
}
