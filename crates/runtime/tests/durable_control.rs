//! Durable runs reached from outside: through the socket of the process that has the log, and on a log that nobody
//! has. What is answered is safe.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::durable_kit::{Dir, ms};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tiffany::control::Control;
use tiffany::durable::{Fork, external_promise, on_question, receive, step};
use tiffany::history::RunIndex;
use tiffany::wal::Settings;
use tiffany::{Builder, Runtime, Settlement, TaskError, Uuid, sleep, spawn, try_spawn, yield_now};
use tiffany::{gather, race};

/// Takes words until one is empty, and says meanwhile which came.
async fn listener(_: ()) -> Result<Vec<String>, TaskError> {
    let words = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&words);
    let _answering = on_question("words", move |from: usize| match seen.borrow().get(from..) {
        Some(rest) => Ok(Vec::<String>::clone(&rest.to_vec())),
        None => Err(format!("there are no {from} words")),
    })?;
    // Turns that the log does not count one by one.
    let other = spawn(async {
        for _ in 0..5 {
            yield_now().await;
        }
    });
    other.await.await?;
    loop {
        let word: String = receive("word").await?;
        if word.is_empty() {
            return Ok(words.take());
        }
        words.borrow_mut().push(word);
        yield_now().await;
    }
}

fn listening(dir: &Dir) -> Builder {
    dir.builder().register("listener", listener)
}

/// Drives a run on this thread while another one does something.
fn beside<T: Send + 'static>(runtime: &mut Runtime, act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(act);
    let drives = runtime.run(async move {
        while !thread.is_finished() {
            sleep(ms(1)).await;
        }
        thread.join()
    });
    drives.expect("it runs").expect("the other thread does not panic")
}

#[test]
fn a_function_is_found_by_the_end_of_its_name_where_that_is_clear() {
    let dir = Dir::new();
    let builder = dir.builder().register("shop:greet", async |name: String| Ok::<_, String>(name));
    let builder = builder.register("shop:pay", async |(): ()| Ok::<_, String>(()));
    let builder = builder.register("bank:pay", async |(): ()| Ok::<_, String>(()));
    let mut runtime = builder.build().unwrap();
    let path = dir.0.clone();
    let run = beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        let error = control.submit("pay", "p", &()).unwrap_err();
        let said =
            "no function `pay` is registered; there are `bank:pay`, `shop:greet`, `shop:pay`";
        assert_eq!((error.code(), error.message()), ("TFY0038", said));
        assert_eq!(control.submit("hop:greet", "g", &"Ada").unwrap_err().code(), "TFY0038");
        let run = control.submit("greet", "g", &"Ada").unwrap();
        assert_eq!(control.submit("shop:greet", "g", &"Ada").unwrap(), run);
        run
    });
    let page = runtime.runs(&tiffany::control::RunQuery::default()).unwrap();
    assert_eq!((page.runs[0].uuid, page.runs[0].function.as_str()), (run, "shop:greet"));
    drop(runtime);
    // A program without it has the run all the same.
    let mut runtime = dir.builder().build().unwrap();
    let path = dir.0.clone();
    let again = beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        let error = control.submit("greet", "other", &"Ada").unwrap_err();
        assert_eq!(error.message(), "no function `greet` is registered; there is none at all");
        control.submit("shop:greet", "g", &"Ada").unwrap()
    });
    assert_eq!(again, run);
}

#[test]
fn another_process_sends_asks_and_cancels_through_the_socket() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let (path, uuid) = (dir.0.clone(), run.uuid());
    let told = beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        assert!(!control.is_offline());
        let status = control.status().unwrap();
        assert_eq!(status.pid, std::process::id());
        let function = &status.functions[0];
        assert_eq!((function.name.as_str(), function.language.as_str()), ("listener", "rust"));
        assert_eq!((function.takes.as_deref(), status.live), (Some("()"), 1));
        control.send(uuid, "word", &"one").unwrap();
        control.send(uuid, "word", &"two").unwrap();
        let words = loop {
            let words: Vec<String> = control.question(uuid, "words", &0).unwrap();
            if words.len() == 2 {
                break words;
            }
        };
        assert_eq!(control.question::<Vec<String>>(uuid, "words", &1).unwrap(), ["two"]);
        let error = control.question::<Vec<String>>(uuid, "words", &7).unwrap_err();
        assert_eq!((error.code(), error.message()), ("TFY0001", "there are no 7 words"));
        let error = control.question::<Vec<String>>(uuid, "words", &"x").unwrap_err();
        assert_eq!(error.code(), "TFY0035", "{error}");
        let error = control.question::<u32>(uuid, "sum", &()).unwrap_err();
        assert_eq!(error.code(), "TFY0044");
        assert!(error.to_string().contains("`sum` at present, but `words`"), "{error}");
        let error = control.send(Uuid(7), "word", &"x").unwrap_err();
        assert_eq!(error.code(), "TFY0041");
        // One who starts the same run again has it; with another input it is another run.
        assert_eq!(control.submit("listener", "a", &()).unwrap(), uuid);
        assert_eq!(control.submit("listener", "a", &1).unwrap_err().code(), "TFY0037");
        assert_eq!(control.submit("singer", "b", &()).unwrap_err().code(), "TFY0038");
        words
    });
    assert_eq!(told, ["one", "two"]);
    let words: Vec<String> = runtime.question(&run, "words", &0).unwrap();
    assert_eq!(words, ["one", "two"]);
    runtime.send(&run, "word", &"").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["one", "two"]);
    let (path, uuid) = (dir.0.clone(), run.uuid());
    let error = beside(&mut runtime, move || {
        Control::open(&path).unwrap().send(uuid, "word", &"late").unwrap_err()
    });
    assert_eq!(error.code(), "TFY0042");

    let other = runtime.submit::<Vec<String>>("listener", "b", &()).unwrap();
    let (path, uuid) = (dir.0.clone(), other.uuid());
    beside(&mut runtime, move || Control::open(&path).unwrap().cancel(uuid).unwrap());
    assert_eq!(runtime.wait_for(&other).unwrap_err().code(), "TFY0003");
    drop(runtime);
    assert!(!dir.0.join("control.sock").exists());
}

/// The socket is this user's only, and what comes through it need not be polite.
#[test]
fn what_comes_through_the_socket_can_be_anything() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let socket = dir.0.join("control.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    beside(&mut runtime, move || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
        let long = format!("{{\"send\":{:?}}}", "x".repeat(100_000));
        for line in ["", "nonsense", "{}", "{\"sing\":{}}", "\"statu\"", "\u{0}", &long] {
            stream.write_all(format!("{line}\n").as_bytes()).unwrap();
            let answer = answers.next().unwrap().unwrap();
            assert!(answer.contains("the request cannot be read"), "{line:?}: {answer}");
        }
        // Bytes that are no text, a line without an end, and nothing at all.
        stream.write_all(b"\xff\xfe\n").unwrap();
        assert!(answers.next().unwrap().unwrap().contains("cannot be read"));
        stream.write_all(b"{\"status\"").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(answers.next().is_none());
        drop(UnixStream::connect(&socket).unwrap());
        // Several requests at once are answered one after the other.
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all("\"status\"\nnonsense\n".repeat(1000).as_bytes()).unwrap();
        let mut answers = BufReader::new(stream).lines();
        for _ in 0..1000 {
            let (good, bad) = (answers.next().unwrap().unwrap(), answers.next().unwrap().unwrap());
            assert!(good.contains("\"Ok\"") && bad.contains("cannot be read"), "{good} {bad}");
        }
    });
    runtime.send(&run, "word", &"").unwrap();
    assert!(runtime.wait_for(&run).unwrap().is_empty());
}

/// Limits how many files this process may have open.
fn limit_descriptors(soft: u64) {
    let hard = getrlimit(Resource::Nofile).maximum;
    let current = Some(hard.map_or(soft, |hard| hard.min(soft)));
    setrlimit(Resource::Nofile, Rlimit { current, maximum: hard }).unwrap();
}

/// Clients that are connected and ask nothing cost a descriptor each, and keep nobody else out.
#[test]
fn thousands_of_idle_clients_lock_nobody_out() {
    limit_descriptors(10_000);
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let path = dir.0.clone();
    beside(&mut runtime, move || {
        let mut idle: Vec<Control> =
            (0..2000).map(|_| Control::connect(&path).unwrap().unwrap()).collect();
        std::thread::scope(|scope| {
            for number in 0..500 {
                let path = &path;
                scope.spawn(move || {
                    let mut control = Control::connect(path).unwrap().unwrap();
                    control.submit("listener", &format!("l-{number}"), &()).unwrap();
                });
            }
        });
        assert_eq!(idle[0].status().unwrap().live, 500);
        // A connection that was closed to make room is made again.
        idle.iter_mut().step_by(100).for_each(|control| drop(control.status().unwrap()));
    });
}

/// Clients that all have a request under way leave room for others; where there is none, that is said at once.
#[test]
fn a_client_that_takes_every_connection_is_told_that_there_is_no_room() {
    limit_descriptors(256);
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    // Nobody drives the runtime, so no request is answered.
    let socket = dir.0.join("control.sock");
    let mut busy = Vec::new();
    for _ in 0..32 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"\"status\"\n").unwrap();
        busy.push(stream);
    }
    let begun = Instant::now();
    let refused = Control::connect(&dir.0).unwrap().unwrap().status().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(refused.code(), "TFY0043");
    assert!(refused.message().contains("no room for another connection"), "{refused}");
    // Another process still finds room.
    let asked = std::process::Command::new("sh")
        .args(["-c", "echo '\"long_turns\"' | timeout 10 python3 -c \"import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.stdin.buffer.read()); print(s.recv(4096).decode())\" \"$0\""])
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("\"Ok\""), "{asked:?}");
    // When the runtime is driven again, everybody is answered.
    beside(&mut runtime, move || {
        for stream in busy {
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            assert!(answer.contains("\"Ok\""), "{answer}");
        }
    });
}

/// A path that is longer than the name of a socket may be.
#[test]
fn a_long_path_has_a_socket_too() {
    let dir = Dir::new();
    let long = dir.0.join("x".repeat(150));
    std::fs::create_dir_all(&long).unwrap();
    let mut runtime =
        Runtime::builder().log_dir(&long).register("listener", listener).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let uuid = run.uuid();
    beside(&mut runtime, move || Control::open(&long).unwrap().send(uuid, "word", &"").unwrap());
    assert!(runtime.wait_for(&run).unwrap().is_empty());
}

/// What is sent to a run that nobody has reaches it when it is brought back, wherever its log ends, and every time.
#[test]
fn messages_wait_in_a_log_that_nobody_has() {
    for outward in [false, true] {
        let builder = |dir: &Dir| match outward {
            true => listening(dir).record_outward_only(),
            false => listening(dir),
        };
        let dir = Dir::new();
        let mut runtime = builder(&dir).build().unwrap();
        let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
        for word in ["one", "two", ""] {
            runtime.send(&run, "word", &word).unwrap();
        }
        assert_eq!(runtime.wait_for(&run).unwrap(), ["one", "two"]);
        drop(runtime);
        let lines = dir.log().lines().count();
        let mut cut_at = 0;
        for end in 1..lines {
            let log: Vec<String> = dir.log().split_inclusive('\n').map(String::from).collect();
            let cut = dir.with_log(&log[..end].concat());
            let had = log[..end].iter().filter(|line| line.contains(r#""type":"Message""#)).count();
            // Two before it is brought back, one after that, at another end of the log.
            let mut control = Control::open(&cut.0).unwrap();
            assert!(control.is_offline());
            control.send(run.uuid(), "word", &"three").unwrap();
            control.send(run.uuid(), "word", &"four").unwrap();
            drop(control);
            drop(builder(&cut).build().unwrap());
            let mut control = Control::open(&cut.0).unwrap();
            control.send(run.uuid(), "word", &"").unwrap();
            drop(control);
            let mut expected: Vec<&str> = ["one", "two"].into_iter().take(had.min(2)).collect();
            expected.extend(if had < 3 { &["three", "four"][..] } else { &[] });
            let mut runtime = builder(&cut).build().unwrap();
            assert_eq!(
                runtime.wait_for(&run).unwrap(),
                expected,
                "{outward} {end}:\n{}",
                cut.log()
            );
            drop(runtime);
            let mut runtime = builder(&cut).build().unwrap();
            assert!(runtime.paused().is_empty());
            assert_eq!(runtime.wait_for(&run).unwrap(), expected);
            cut_at += 1;
        }
        assert!(cut_at > 4, "{cut_at}");
    }
}

static PROMISED: Mutex<Vec<Uuid>> = Mutex::new(Vec::new());

async fn asker(_: ()) -> Result<String, TaskError> {
    let promise = external_promise::<String>().await;
    PROMISED.lock().unwrap().push(promise.uuid());
    let waits = try_spawn(async move { promise.wait().await }).await;
    waits.await
}

#[test]
fn promises_are_settled_in_a_log_that_nobody_has() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("asker", asker).build().unwrap();
    let run = runtime.submit::<String>("asker", "a", &()).unwrap();
    while PROMISED.lock().unwrap().is_empty() {
        runtime.run(sleep(ms(1))).unwrap();
    }
    drop(runtime);
    let promise = PROMISED.lock().unwrap()[0];
    let mut control = Control::open(&dir.0).unwrap();
    let unknown = control.settle(Uuid(7), &"x").unwrap_err();
    assert_eq!(unknown.code(), "TFY0010");
    // White space is not part of a value, and must not end its line.
    let value: Box<serde_json::value::RawValue> =
        serde_json::from_str(" \"the\\n \\\"first\\\" \\\\\"\n").unwrap();
    assert_eq!(control.settle(promise, &value).unwrap(), Settlement::Accepted);
    assert_eq!(control.settle(promise, &"second").unwrap(), Settlement::Ignored);
    drop(control);
    // The process that comes next knows it too.
    let mut control = Control::open(&dir.0).unwrap();
    assert_eq!(control.fail(promise, "third").unwrap(), Settlement::Ignored);
    drop(control);
    let mut runtime = dir.builder().register("asker", asker).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "the\n \"first\" \\");
}

#[test]
fn a_run_that_nobody_has_is_cancelled_when_it_is_brought_back() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    control.cancel(run.uuid()).unwrap();
    assert_eq!(control.cancel(Uuid(7)).unwrap_err().code(), "TFY0041");
    let asked = control.question::<Vec<String>>(run.uuid(), "words", &0).unwrap_err();
    assert_eq!(asked.code(), "TFY0043", "{asked}");
    assert_eq!(control.submit("listener", "b", &()).unwrap_err().code(), "TFY0043");
    drop(control);
    let mut runtime = listening(&dir).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap_err().code(), "TFY0003");
    drop(runtime);
    let late = Control::open(&dir.0).unwrap().cancel(run.uuid()).unwrap_err();
    assert_eq!(late.code(), "TFY0042");
}

#[test]
fn a_directory_without_a_log_is_not_made_one() {
    let dir = Dir::new();
    let error = Control::open(&dir.0).map(drop).unwrap_err();
    assert_eq!(error.code(), "TFY0039");
    assert!(error.to_string().contains("there is no log in"), "{error}");
    assert!(!dir.0.exists());
}

/// A run that is paused for want of its function takes messages, which wait.
#[test]
fn a_paused_run_is_listed_and_takes_messages() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    runtime.send(&run, "word", &"one").unwrap();
    drop(runtime);
    let mut runtime = dir.builder().build().unwrap();
    let paused = runtime.paused();
    assert_eq!((paused.len(), paused[0].run, paused[0].error.code()), (1, run.uuid(), "TFY0038"));
    runtime.send(&run, "word", &"two").unwrap();
    runtime.send(&run, "word", &"").unwrap();
    let asked = runtime.question::<_, u32>(&run, "words", &0).unwrap_err();
    assert_eq!(asked.code(), "TFY0038");
    assert_eq!(runtime.wait_for(&run).unwrap_err().code(), "TFY0038");
    drop(runtime);
    let mut runtime = listening(&dir).build().unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), ["one", "two"]);
}

/// Who asks a runtime that is not driven, or is gone, is told so.
#[test]
fn a_runtime_that_goes_leaves_nobody_waiting() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let (handle, uuid) = (runtime.handle(), run.uuid());
    let mut control = Control::open(&dir.0).unwrap();
    let asks = std::thread::spawn(move || {
        let here = handle.control().send(uuid, "word", &"x");
        (here, handle.control().send(uuid, "word", &"y"))
    });
    let remote = std::thread::spawn(move || control.send(uuid, "word", &"z"));
    std::thread::sleep(ms(30));
    drop(runtime);
    let (one, two) = asks.join().unwrap();
    assert_eq!(one.unwrap_err().code(), "TFY0043");
    assert_eq!(two.unwrap_err().code(), "TFY0043");
    assert_eq!(remote.join().unwrap().unwrap_err().code(), "TFY0043");
}

/// On the loop's own thread it would wait for itself.
#[test]
fn asking_on_the_loops_own_thread_is_an_error() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let (handle, uuid) = (runtime.handle(), run.uuid());
    let asked = runtime.run(async move { handle.control().send(uuid, "word", &"x") }).unwrap();
    assert_eq!(asked.unwrap_err().code(), "TFY0032");
    let dir = dir.0.clone();
    let opened = runtime.run(async move { Control::open(&dir).map(drop) }).unwrap();
    assert_eq!(opened.unwrap_err().code(), "TFY0032");
    let held = runtime.run(async { step("twice", || Ok::<u32, String>(1)).hold_in_doubt().await });
    assert_eq!(held.unwrap().unwrap_err().code(), "TFY0032");
    let without = Runtime::new().unwrap().flush().unwrap_err();
    assert_eq!(without.code(), "TFY0039");
}

/// Who only wants to say something to a run does not keep its program from starting.
#[test]
fn a_program_waits_for_one_who_has_its_log_for_a_moment() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let run = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    let other = std::thread::spawn(move || {
        std::thread::sleep(ms(100));
        control.send(run.uuid(), "word", &"").unwrap();
        drop(control);
        run
    });
    let mut runtime = listening(&dir).build().unwrap();
    let run = other.join().unwrap();
    assert!(runtime.wait_for(&run).unwrap().is_empty());
    // A process that has it for long is not waited for.
    let began = std::time::Instant::now();
    let error = listening(&dir).build().map(drop).unwrap_err();
    assert_eq!(error.code(), "TFY0101");
    assert!(began.elapsed() < ms(2000));
}

static NAPPED: Mutex<Vec<Uuid>> = Mutex::new(Vec::new());

/// Waits for a promise beside two naps, which begin in the same round.
async fn napper(_: ()) -> Result<String, TaskError> {
    let promise = external_promise::<String>().await;
    NAPPED.lock().unwrap().push(promise.uuid());
    for _ in 0..2 {
        drop(spawn(async { sleep(ms(30)).await }).await);
    }
    promise.wait().await
}

/// A promise that is known from an earlier process can be settled while what its run does now is on the way to the disk.
#[test]
fn a_promise_is_known_as_soon_as_its_run_is_brought_back() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("napper", napper).build().unwrap();
    let run = runtime.submit::<String>("napper", "a", &()).unwrap();
    runtime.run(sleep(ms(100))).unwrap();
    drop(runtime);
    let promise = NAPPED.lock().unwrap()[0];
    // Between two tasks of one round: the second nap is written down when the run is brought back.
    let cut = dir.cut_after(1, r#""call":"sleep""#);
    let slow = Settings { segment_bytes: 1 << 18, batch_window: ms(300), ..Settings::default() };
    let builder = Runtime::builder().log_dir(&cut.0).log_settings(slow);
    let mut runtime = builder.register("napper", napper).build().unwrap();
    let mut control = runtime.handle().control();
    let began = std::time::Instant::now();
    let settled = beside(&mut runtime, move || control.settle(promise, &"early").unwrap());
    assert_eq!(settled, Settlement::Accepted);
    assert!(began.elapsed() > ms(250), "nothing was on the way");
    assert_eq!(runtime.wait_for(&run).unwrap(), "early");
}

/// "…the first answer wins, later ones are ignored and counted": also those that come when the run is over, as those of somebody who delivers twice.
#[test]
fn an_answer_that_comes_after_the_end_of_its_run_is_ignored() {
    static WAITED: Mutex<Vec<Uuid>> = Mutex::new(Vec::new());
    async fn waiter(_: ()) -> Result<String, TaskError> {
        let promise = external_promise::<String>().await;
        WAITED.lock().unwrap().push(promise.uuid());
        promise.wait().await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("waiter", waiter).build().unwrap();
    let run = runtime.submit::<String>("waiter", "a", &()).unwrap();
    runtime.run(sleep(ms(100))).unwrap();
    let promise = *WAITED.lock().unwrap().last().unwrap();
    let (mut control, uuid) = (runtime.handle().control(), run.uuid());
    beside(&mut runtime, move || control.settle(promise, &"first").unwrap());
    assert_eq!(runtime.wait_for(&run).unwrap(), "first");
    let mut control = runtime.handle().control();
    beside(&mut runtime, move || {
        assert_eq!(control.settle(promise, &"second").unwrap(), Settlement::Ignored);
        assert_eq!(control.settle_in(uuid, promise, &"third").unwrap(), Settlement::Ignored);
        let elsewhere = control.settle_in(Uuid(7), promise, &"x").unwrap_err();
        assert_eq!(elsewhere.code(), "TFY0041", "a run that is not there is told first");
        let nobody = control.settle(Uuid(7), &"x").unwrap_err();
        assert_eq!(nobody.code(), "TFY0010");
    });
    assert_eq!(runtime.metrics().value("tiffany_promise_ignored_total", &[]), Some(2.0));

    // Nobody ever answered, and the run is over: that is no second answer.
    let other = runtime.submit::<String>("waiter", "b", &()).unwrap();
    runtime.run(sleep(ms(100))).unwrap();
    let (promise, uuid) = (*WAITED.lock().unwrap().last().unwrap(), other.uuid());
    let mut control = runtime.handle().control();
    beside(&mut runtime, move || control.cancel(uuid).unwrap());
    runtime.wait_for(&other).unwrap_err();
    let mut control = runtime.handle().control();
    let late = beside(&mut runtime, move || control.settle(promise, &"late").unwrap_err());
    assert!(late.to_string().contains("is finished, and no task waits for it any more"), "{late}");
}

/// An input that is not as it was described is refused to others before a run begins; the program itself gives what it likes.
#[test]
fn what_others_give_a_function_is_as_it_was_described() {
    async fn seat(guests: serde_json::Value) -> Result<serde_json::Value, TaskError> {
        Ok(guests)
    }
    let dir = Dir::new();
    let schema = serde_json::json!({ "type": "integer", "maximum": 12 });
    let builder = dir.builder().register("seat", seat).describe("seat", "Seats guests.", schema);
    let mut runtime = builder.build().unwrap();
    let mut control = runtime.handle().control();
    let (refused, taken) = beside(&mut runtime, move || {
        (control.submit("seat", "a", &99).unwrap_err(), control.submit("seat", "b", &9))
    });
    assert_eq!(refused.code(), "TFY0035");
    assert!(refused.to_string().contains("it is at most 12, not 99"), "{refused}");
    taken.unwrap();
    let own = runtime.submit::<u32>("seat", "c", &99).unwrap();
    assert_eq!(runtime.wait_for(&own).unwrap(), 99);

    let mut control = runtime.handle().control();
    let shown = beside(&mut runtime, move || control.show(tiffany::durable::run_id("a")));
    assert_eq!(shown.unwrap_err().code(), "TFY0041", "nothing began");
}

/// Of many that are waited for together, those are named that are not over, however many the others are; and from the log, too.
#[test]
fn of_many_tasks_the_one_that_hangs_is_named() {
    const MANY: u64 = 6000;
    async fn crowd(_: ()) -> Result<u64, TaskError> {
        let mut all = Vec::new();
        for number in 0..MANY {
            all.push(
                try_spawn(async move {
                    if number == MANY - 1 {
                        receive::<()>("go").await?;
                    }
                    Ok::<u64, TaskError>(number)
                })
                .await,
            );
        }
        Ok(gather(all).await?.len() as u64)
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("crowd", crowd).build().unwrap();
    let run = runtime.submit::<u64>("crowd", "a", &()).unwrap();
    runtime.run(sleep(ms(300))).unwrap();
    let (mut control, uuid) = (runtime.handle().control(), run.uuid());
    let detail = beside(&mut runtime, move || control.show(uuid).unwrap());
    let waits = detail.tasks[0].waits_for.clone().unwrap();
    assert!(
        waits.starts_with("all of task 6001") && waits.contains("(5999 of 6000 over)"),
        "{waits}"
    );
    drop(runtime);
    let told = RunIndex::new(&dir.0, uuid).tasks(None).unwrap();
    let root = &told.tasks[0].waits[0];
    assert_eq!((root.what.as_str(), root.on.len()), ("gather of task 6001", 6000));
}

/// What is said to a run that nobody has comes after everything that its log has, and not just after its last call to
/// the world.
#[test]
fn what_is_said_comes_after_all_that_stands_before_it() {
    async fn parent(_: ()) -> Result<u32, TaskError> {
        let word = try_spawn(async { receive::<u32>("word").await });
        let turns = try_spawn(async {
            for _ in 0..5 {
                yield_now().await;
            }
            Ok::<u32, TaskError>(7)
        });
        let rivals = [word.await, turns.await];
        Ok(race(rivals).await?.value)
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("parent", parent).build().unwrap();
    let run = runtime.submit::<u32>("parent", "a", &()).unwrap();
    runtime.run(sleep(ms(20))).unwrap();
    drop(runtime);
    // One of them had ended, and that decides the race, which the log does not have.
    let cut = dir.cut_after(1, "TaskExit");
    Control::open(&cut.0).unwrap().send(run.uuid(), "word", &1).unwrap();
    for _ in 0..2 {
        let mut runtime = cut.builder().register("parent", parent).build().unwrap();
        assert_eq!(runtime.wait_for(&run).unwrap(), 7, "{}", cut.log());
    }
}

/// Everything that takes the name of a run takes its id and its UUID, so no id may be another run's UUID, and no run may
/// have a UUID that is another run's id.
#[test]
fn an_id_that_names_another_run_is_refused() {
    let dir = Dir::new();
    let mut runtime = listening(&dir).build().unwrap();
    let first = runtime.submit::<Vec<String>>("listener", "a", &()).unwrap();
    let uuid = first.uuid().to_string();
    let later = tiffany::durable::run_id("later").to_string();
    runtime.submit::<Vec<String>>("listener", &later, &()).unwrap();
    for id in [uuid.clone(), uuid.to_uppercase(), "later".into()] {
        let refused = runtime.submit::<Vec<String>>("listener", &id, &()).err().unwrap();
        assert_eq!(refused.code(), "TFY0037", "{id}: {refused}");
        let refused = runtime.fork::<Vec<String>>(&first, 1, Fork::new().id(&id)).err().unwrap();
        assert_eq!(refused.code(), "TFY0037", "{id}: {refused}");
    }
    let (path, refused) = (dir.0.clone(), uuid.clone());
    beside(&mut runtime, move || {
        let mut control = Control::open(&path).unwrap();
        assert_eq!(control.submit("listener", &refused, &()).unwrap_err().code(), "TFY0037");
        // A UUID that is nobody's is an id like any other, and so is one's own id again.
        let free = Uuid::from_random(7).to_string();
        assert_eq!(
            control.submit("listener", &free, &()).unwrap(),
            tiffany::durable::run_id(&free)
        );
        control.submit("listener", &free, &()).unwrap();
        control.submit("listener", "a", &()).unwrap();
    });
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    let refused = control.fork(first.uuid(), 1, Fork::new().id(&uuid)).unwrap_err();
    assert_eq!(refused.code(), "TFY0037");
}
