//! Steps in doubt: a person decides what happened, while the run waits or in a directory without a process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::durable_kit::{Dir, ms};
use tiffany::control::{Control, Decision, Ruling};
use tiffany::durable::{step, step_with};
use tiffany::{TaskError, Uuid, sleep};

static SENT: AtomicU32 = AtomicU32::new(0);

async fn mailer(holds: bool) -> Result<String, TaskError> {
    let mail = step_with("mail", |_| Ok::<u32, String>(SENT.fetch_add(1, Ordering::SeqCst)));
    // As large as what is kept in a file of its own.
    let mail = mail.at_most_once().input(&"x".repeat(20_000));
    let mail = if holds { mail.hold_in_doubt() } else { mail };
    match mail.await {
        Ok(number) => Ok(format!("sent {number}")),
        Err(error) => Ok(format!("{}: {}", error.code(), error.message())),
    }
}

/// Every decision, on a run that waits for it and in a directory without a process.
#[test]
fn a_person_decides_on_what_is_in_doubt() {
    for (holds, offline) in [(true, false), (true, true), (false, true)] {
        let dir = Dir::new();
        let mut runtime = dir.builder().register("mailer", mailer).build().unwrap();
        let run = runtime.submit::<String>("mailer", "a", &holds).unwrap();
        assert!(runtime.wait_for(&run).unwrap().starts_with("sent"));
        drop(runtime);
        let blobs = dir.0.join("wal/blobs");
        for decision in ["done", "failed", "again"] {
            let cut = dir.cut_after(1, "EffectStart");
            copy_all(&blobs, &cut.0.join("wal/blobs"));
            let before = SENT.load(Ordering::SeqCst);
            let decide = |key: &str| match decision {
                "done" => Decision::done(&77).unwrap(),
                "failed" => Decision::Failed(format!("no mail {}", key.len())),
                _ => Decision::Again,
            };
            let build = || cut.builder().register("mailer", mailer).build().unwrap();
            let key = if offline {
                let mut control = Control::open(&cut.0).unwrap();
                let doubts = control.doubts().unwrap();
                assert_eq!(doubts.len(), 1);
                let doubt = &doubts[0];
                assert_eq!((doubt.run, &*doubt.step), (run.uuid(), "mail"));
                assert_eq!((doubt.attempt, doubt.waits), (1, false));
                control.decide(&doubt.key, decide(&doubt.key)).unwrap();
                let twice = control.decide(&doubt.key, Decision::Again).unwrap_err();
                assert!(decision == "again" || twice.code() == "TFY0032", "{twice}");
                doubt.key.clone()
            } else {
                let mut runtime = build();
                runtime.run(sleep(ms(5))).unwrap();
                let doubts = runtime.doubts();
                assert_eq!((doubts.len(), doubts[0].waits), (1, true));
                assert!(runtime.decide("nonsense", Decision::Again).is_err());
                // It waits through another restart.
                drop(runtime);
                let mut runtime = build();
                assert_eq!(runtime.doubts(), doubts);
                runtime.decide(&doubts[0].key, decide(&doubts[0].key)).unwrap();
                assert!(runtime.doubts().is_empty());
                // What is done again must not be cut off again.
                runtime.wait_for(&run).unwrap();
                doubts[0].key.clone()
            };
            let mut runtime = build();
            let outcome = runtime.wait_for(&run).unwrap();
            let done = SENT.load(Ordering::SeqCst) - before;
            match decision {
                "done" => assert_eq!((outcome, done), ("sent 77".into(), 0)),
                "failed" => {
                    let expected = format!("TFY0001: no mail {}", key.len());
                    assert_eq!((outcome, done), (expected, 0));
                }
                _ => assert_eq!((outcome, done), (format!("sent {before}"), 1)),
            }
            drop(runtime);
            assert_eq!(cut.count(&format!(r#""decided":"{decision}""#)), 1);
            // What was decided stays so.
            let mut runtime = build();
            assert!(runtime.doubts().is_empty());
            runtime.wait_for(&run).unwrap();
        }
    }
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether the step was of a kind that may be in doubt is in its input, which is a blob.
#[test]
fn a_run_whose_input_or_lines_cannot_be_read_is_named_when_doubts_are_asked_for() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("mailer", mailer).build().unwrap();
    let run = runtime.submit::<String>("mailer", "a", &true).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let cut = dir.cut_after(1, "EffectStart");
    let warnings = || {
        let mut control = Control::open(&cut.0).unwrap();
        control = control.on_warning(|text| WARNINGS.lock().unwrap().push(text.to_owned()));
        assert_eq!(control.doubts().unwrap(), []);
        assert_eq!(control.approvals().unwrap().len(), 0);
        std::mem::take(&mut *WARNINGS.lock().unwrap())
    };
    let about_blob = warnings();
    let is_named =
        |text: &String, code: &str| text.contains(&run.uuid().to_string()) && text.contains(code);
    assert!(about_blob.iter().any(|text| is_named(text, "TFY0111")), "{about_blob:?}");
    let file = cut.0.join(format!("wal/{}.wal", run.uuid()));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let about_line = warnings();
    assert!(about_line.iter().all(|text| is_named(text, "TFY0107")), "{about_line:?}");
    assert_eq!(about_line.len(), 2, "{about_line:?}");
    // A promise or a question may be one of its own, too.
    let mut control = Control::open(&cut.0).unwrap();
    let settled = control.settle(Uuid(7), &1).unwrap_err();
    assert!(settled.message().contains("TFY0107"), "{settled}");
    let approved = control.resolve(&format!("{}/2", run.uuid()), Ruling::yes()).unwrap_err();
    assert!(approved.message().contains("TFY0107"), "{approved}");
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// A timeout leaves such a step in doubt too; its late result does not decide.
#[test]
fn a_step_that_is_over_its_time_waits_for_a_person() {
    let dir = Dir::new();
    let mut runtime = dir
        .builder()
        .register("slow", |()| async {
            let slow = step("slow", || {
                std::thread::sleep(ms(60));
                Ok::<u32, String>(1)
            });
            slow.at_most_once().hold_in_doubt().timeout(ms(10)).await
        })
        .build()
        .unwrap();
    let run = runtime.submit::<u32>("slow", "a", &()).unwrap();
    let begun = Instant::now();
    while runtime.late_results() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "its result does not come");
        runtime.run(sleep(ms(20))).unwrap();
    }
    let doubts = runtime.doubts();
    assert_eq!(doubts.len(), 1);
    assert_eq!(runtime.late_results(), 1);
    runtime.decide(&doubts[0].key, Decision::done(&5).unwrap()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 5);
}
