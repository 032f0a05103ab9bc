//! Annotations: recorded in both modes, compared with nothing, never written twice, and about the right call.

use crate::durable_kit::{Dir, ms, recording};
use serde_json::{Value, json};
use tiffany::durable::{AnnotationKind, Fork, annotate, continue_as, run_id, step, step_with};
use tiffany::history::Record;
use tiffany::wal::{RealDisk, RunReader};
use tiffany::{Builder, TaskError, sleep, try_spawn};

async fn agent(_: ()) -> Result<u64, TaskError> {
    annotate(AnnotationKind::InstructionStart, "count the files").await?;
    let files: u64 = step("count", || Ok::<_, String>(3)).await?;
    annotate(AnnotationKind::ToolResult, &json!({ "files": files })).await?;
    let child = try_spawn(async {
        annotate(AnnotationKind::StepStart, "in a task of its own").await?;
        step("more", || Ok::<u64, String>(1)).await
    });
    let more = child.await.await?;
    sleep(ms(1)).await;
    annotate(AnnotationKind::TaskComplete, "done").await?;
    Ok(files + more)
}

fn program(dir: &Dir, is_outward: bool) -> Builder {
    recording(dir.builder(), is_outward).register("agent", agent).register("again", again)
}

fn lines(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn notes(log: &str) -> Vec<Value> {
    let kinds: Vec<&str> = AnnotationKind::ALL.iter().map(|kind| kind.name()).collect();
    lines(log).into_iter().filter(|line| kinds.contains(&line["type"].as_str().unwrap())).collect()
}

#[test]
fn they_are_recorded_in_both_modes_and_name_their_call_and_their_instruction() {
    for is_outward in [false, true] {
        let dir = Dir::new();
        let mut runtime = program(&dir, is_outward).build().unwrap();
        let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), 4);
        drop(runtime);
        let (all, notes) = (lines(&dir.log()), notes(&dir.log()));
        let types: Vec<_> = notes.iter().map(|note| note["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["InstructionStart", "ToolResult", "StepStart", "TaskComplete"]);
        let seq_of = |kind: &str, name: &str| {
            let found = all.iter().find(|line| {
                line["type"] == kind
                    && (name.is_empty() || line["name"] == name || line["call"] == name)
            });
            found.unwrap_or_else(|| panic!("{is_outward}: no {kind} {name}"))["seq"].clone()
        };
        let instruction = seq_of("InstructionStart", "");
        assert!(notes[0].get("instruction").is_none() && notes[0].get("of").is_none());
        assert_eq!(notes[0]["value"], "count the files");
        assert_eq!(
            (&notes[1]["of"], &notes[1]["instruction"]),
            (&seq_of("TaskYield", "count"), &instruction)
        );
        assert_eq!(notes[1]["value"], json!({ "files": 3 }));
        // A task follows the instruction of the one that spawned it, and has made no call yet.
        assert_eq!(notes[2]["instruction"], instruction);
        assert!(notes[2].get("of").is_none(), "{}", notes[2]);
        assert_eq!(notes[3]["of"], seq_of("TaskYield", "sleep"));
        assert!(notes.iter().all(|note| note["at"].as_str().unwrap().contains("annotations.rs")));
        // The typed record has what the line has.
        let mut reader = RunReader::open(&RealDisk, &dir.0, run_id("a"), None).unwrap();
        let mut typed = Vec::new();
        while let Some(line) = reader.next() {
            typed
                .extend(Record::read(&line.unwrap()).annotation().map(|note| (note.kind, note.of)));
        }
        assert_eq!(typed[1], ("ToolResult", notes[1]["of"].as_u64()));
    }
}

/// Ended after any line, the run goes on to the same value, and each annotation is there once.
#[test]
fn they_are_not_written_again_wherever_the_run_was_interrupted() {
    for is_outward in [false, true] {
        let dir = Dir::new();
        let mut runtime = program(&dir, is_outward).build().unwrap();
        let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
        runtime.wait_for(&run).unwrap();
        drop(runtime);
        let log = dir.log();
        let whole: Vec<(Value, Value)> = notes(&log)
            .into_iter()
            .map(|note| (note["type"].clone(), note["value"].clone()))
            .collect();
        for end in 1..log.lines().count() {
            let cut: String = log.split_inclusive('\n').take(end).collect();
            let other = dir.with_log(&cut);
            let mut runtime = program(&other, is_outward).build().unwrap();
            assert_eq!(runtime.paused().len(), 0, "after line {end}: {:?}", runtime.paused());
            let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
            assert_eq!(runtime.wait_for(&run).unwrap(), 4, "after line {end}");
            drop(runtime);
            let notes = notes(&other.log());
            let of: Vec<_> =
                notes.iter().map(|note| (note["type"].clone(), note["value"].clone())).collect();
            assert_eq!(of, whole, "{is_outward}, after line {end}");
            // What it refers to is the same before and after the crash.
            let step = lines(&other.log()).into_iter().find(|line| line["name"] == "count");
            assert_eq!(notes[1]["of"], step.unwrap()["seq"], "after line {end}");
        }
    }
}

#[test]
fn code_that_annotates_more_or_less_is_no_divergence() {
    let dir = Dir::new();
    let mut runtime = program(&dir, false).build().unwrap();
    let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let other = dir.cut_after(1, "\"type\":\"ToolResult\"");
    let silent = |_: ()| async {
        let files: u64 = step("count", || Ok::<_, String>(3)).await?;
        let child = try_spawn(async { step("more", || Ok::<u64, String>(1)).await });
        Ok::<u64, TaskError>(files + child.await.await?)
    };
    let mut runtime = other.builder().register("agent", silent).build().unwrap();
    assert_eq!(runtime.paused().len(), 0, "{:?}", runtime.paused());
    let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 4);
    drop(runtime);
    assert_eq!(notes(&other.log()).len(), 2);

    // One more before a call that is in the log was not made then, and is not recorded now.
    let other = dir.cut_after(1, "\"type\":\"ToolResult\"");
    let talks = |_: ()| async {
        annotate(AnnotationKind::InstructionStart, "count the files").await?;
        annotate(AnnotationKind::LLMPlan, "new").await?;
        let files: u64 = step("count", || Ok::<_, String>(3)).await?;
        annotate(AnnotationKind::ToolResult, &json!({ "files": files })).await?;
        annotate(AnnotationKind::LLMPlan, "new, too").await?;
        Ok::<u64, TaskError>(files)
    };
    let mut runtime = other.builder().register("agent", talks).build().unwrap();
    let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 3);
    drop(runtime);
    let of: Vec<_> = notes(&other.log()).iter().map(|note| note["value"].clone()).collect();
    assert_eq!(of, [json!("count the files"), json!({ "files": 3 }), json!("new, too")]);
}

/// Keeps the key of a step, and speaks of it later, beside another one.
async fn again(round: u64) -> Result<u64, TaskError> {
    let key: String =
        step_with("keep", |attempt| Ok::<_, String>(attempt.key().to_owned())).await?;
    let () = step("other", || Ok::<_, String>(())).await?;
    annotate(AnnotationKind::ToolResult, "the first").of(&key).await?;
    let error = annotate(AnnotationKind::ToolResult, "none").of("no key").await.unwrap_err();
    assert_eq!(error.code(), "TFY0032");
    match round {
        0 => continue_as(&1).await,
        round => Ok(round),
    }
}

#[test]
fn a_call_can_be_named_by_its_key_in_every_generation() {
    let dir = Dir::new();
    let mut runtime = program(&dir, false).build().unwrap();
    let run = runtime.submit::<u64>("again", "a", &0).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 1);
    drop(runtime);
    let all = lines(&dir.log());
    assert_eq!(all[0]["gen"], 2);
    let keep = all.iter().find(|line| line["name"] == "keep").unwrap();
    let note = all.iter().find(|line| line["type"] == "ToolResult").unwrap();
    assert_eq!((&note["of"], note.get("of_gen")), (&keep["seq"], None));
}

#[test]
fn a_fork_has_those_of_its_parent() {
    let dir = Dir::new();
    let mut runtime = program(&dir, false).build().unwrap();
    let run = runtime.submit::<u64>("agent", "a", &()).unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let mut runtime = program(&dir, false).build().unwrap();
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    let result =
        lines(&log).iter().find(|line| line["type"] == "ToolResult").unwrap()["seq"].clone();
    let fork = runtime.fork(&run, result.as_u64().unwrap(), Fork::new().allow("more")).unwrap();
    assert_eq!(runtime.wait_for(&fork).unwrap(), 4);
    let uuid = fork.uuid();
    drop(runtime);
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{uuid}.wal"))).unwrap();
    let types: Vec<_> = notes(&log).iter().map(|note| note["type"].clone()).collect();
    assert_eq!(types, ["InstructionStart", "ToolResult", "StepStart", "TaskComplete"]);
}
