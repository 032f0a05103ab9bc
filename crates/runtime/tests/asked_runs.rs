//! Requests about one run in the three places where a run can be: it is running, its runtime cannot
//! resume it, or no process has its log open.

use std::path::Path;

use crate::durable_kit::{Dir, ms};
use tiffany::control::{Control, Decision, Ruling};
use tiffany::durable::receive;
use tiffany::{Runtime, Settlement, TaskError, Uuid, sleep};

async fn listener(_: ()) -> Result<Vec<String>, TaskError> {
    let mut words = Vec::new();
    loop {
        match receive::<String>("word").await? {
            word if word.is_empty() => return Ok(words),
            word => words.push(word),
        }
    }
}

/// The code of an error, or `done`.
fn code<T>(answer: Result<T, TaskError>) -> &'static str {
    answer.map_or_else(|error| error.code(), |_| "done")
}

/// Makes all requests about a run, which is not held before or after them, and returns the outcomes.
fn ask(dir: &Path, run: Uuid) -> Vec<(&'static str, &'static str)> {
    let mut control = Control::open(dir).unwrap();
    let (nobody, key) = (Uuid(7), format!("{run}/1000"));
    let ruling = || Ruling::yes().by("ada");
    let mut asked = vec![
        ("release", code(control.release(run, "ada", None))),
        ("hold", code(control.hold(run, "ada", Some("to see")))),
        ("hold again", code(control.hold(run, "bob", None))),
        ("send", code(control.send(run, "word", &"held"))),
        ("release it", code(control.release(run, "ada", None))),
        ("release again", code(control.release(run, "ada", None))),
        ("allow", code(control.allow(run, ["mail"]))),
        ("settle", code(control.settle(nobody, &1))),
        ("settle its own", code(control.settle_in(run, nobody, &1))),
        ("decide", code(control.decide(&key, Decision::Again))),
        ("decide what", code(control.decide("nothing", Decision::Again))),
        ("resolve", code(control.resolve(&key, ruling()))),
        ("resolve what", code(control.resolve("nothing", ruling()))),
    ];
    asked.extend([
        ("hold none", code(control.hold(nobody, "ada", None))),
        ("release none", code(control.release(nobody, "ada", None))),
        ("cancel none", code(control.cancel(nobody))),
        ("send to none", code(control.send(nobody, "word", &"lost"))),
        ("allow none", code(control.allow(nobody, ["mail"]))),
        ("settle none", code(control.settle_in(nobody, nobody, &1))),
    ]);
    asked
}

/// Asks while a runtime is driven.
fn ask_beside(runtime: &mut Runtime, dir: &Path, run: Uuid) -> Vec<(&'static str, &'static str)> {
    let dir = dir.to_owned();
    let thread = std::thread::spawn(move || ask(&dir, run));
    let drives = runtime.run(async move {
        while !thread.is_finished() {
            sleep(ms(1)).await;
        }
        thread.join()
    });
    drives.unwrap().unwrap()
}

#[test]
fn a_request_is_answered_alike_wherever_its_run_is() {
    let expected = [
        ("release", "TFY0236"),
        ("hold", "done"),
        ("hold again", "done"),
        ("send", "done"),
        ("release it", "done"),
        ("release again", "TFY0236"),
        ("allow", "TFY0032"),
        ("settle", "TFY0010"),
        ("settle its own", "TFY0010"),
        ("decide", "TFY0032"),
        ("decide what", "TFY0032"),
        ("resolve", "TFY0181"),
        ("resolve what", "TFY0181"),
        ("hold none", "TFY0041"),
        ("release none", "TFY0041"),
        ("cancel none", "TFY0041"),
        ("send to none", "TFY0041"),
        ("allow none", "TFY0041"),
        ("settle none", "TFY0041"),
    ];
    let dir = Dir::new();
    let program = || dir.builder().register("listener", listener);
    let mut runtime = program().build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    assert_eq!(ask_beside(&mut runtime, &dir.0, run.uuid()), expected, "running");
    drop(runtime);

    let mut runtime = dir.builder().build().unwrap();
    assert_eq!(runtime.paused().len(), 1);
    assert_eq!(
        ask_beside(&mut runtime, &dir.0, run.uuid()),
        expected,
        "its runtime cannot resume it"
    );
    drop(runtime);

    assert_eq!(ask(&dir.0, run.uuid()), expected, "no process has it");

    // And what was told there has reached it.
    let mut runtime = program().build().unwrap();
    runtime.send(&run, "word", &"").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["held", "held", "held"]);
}

#[test]
fn whoever_asks_something_of_a_damaged_run_is_told_of_the_damage() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("listener", listener).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap().uuid();
    runtime.flush().unwrap();
    drop(runtime);
    let file = dir.0.join(format!("wal/{run}.wal"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let ask = move |control: &mut Control| {
        let settled: Result<Settlement, _> = control.settle_in(run, Uuid(7), &1);
        let answers = [
            ("hold", code(control.hold(run, "ada", None))),
            ("release", code(control.release(run, "ada", None))),
            ("cancel", code(control.cancel(run))),
            ("send", code(control.send(run, "word", &"lost"))),
            ("allow", code(control.allow(run, ["mail"]))),
            ("settle", code(settled)),
        ];
        answers.into_iter().filter(|(_, code)| *code != "TFY0039").collect::<Vec<_>>()
    };
    let mut control = Control::open(&dir.0).unwrap();
    assert_eq!(ask(&mut control), []);
    drop(control);
    let mut runtime = dir.builder().build().unwrap();
    let path = dir.0.clone();
    let thread = std::thread::spawn(move || ask(&mut Control::open(&path).unwrap()));
    let asked = runtime.run(async move {
        while !thread.is_finished() {
            sleep(ms(1)).await;
        }
        thread.join()
    });
    assert_eq!(asked.unwrap().unwrap(), []);
}
