//! Messages from one run to another: once, in order, and safe when the sender goes on.

use std::path::PathBuf;

use tiffany::durable::{receive, run_id, send};
use tiffany::{Builder, ErrorKind, Runtime, TaskError};

use super::Dir;

/// Takes so many numbers.
async fn takes(count: u64) -> Result<Vec<u64>, TaskError> {
    let mut taken = Vec::new();
    for _ in 0..count {
        taken.push(receive("number").await?);
    }
    Ok(taken)
}

/// Sends so many numbers to the run `to`, and gives how each went.
async fn sends((to, count): (String, u64)) -> Result<Vec<String>, TaskError> {
    let mut ends = Vec::new();
    for number in 0..count {
        ends.push(match send(run_id(&to), "number", &number).await {
            Ok(()) => "sent".into(),
            Err(error) => error.code().to_string(),
        });
    }
    Ok(ends)
}

fn both(dir: &Dir) -> Builder {
    dir.builder().register("takes", takes).register("sends", sends)
}

fn log_of(dir: &Dir, id: &str) -> PathBuf {
    dir.0.join(format!("wal/{}.wal", run_id(id)))
}

/// The numbers that came, and the records they were sent by, as the log has them.
fn messages(dir: &Dir, id: &str) -> Vec<(String, String)> {
    let log = std::fs::read_to_string(log_of(dir, id)).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let messages = lines.filter(|line| line["type"] == "Message");
    messages.map(|line| (line["value"].to_string(), line["from"].to_string())).collect()
}

#[test]
fn messages_come_in_order_and_carry_the_key_of_their_call() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let taker = runtime.submit::<Vec<u64>>("takes", "taker", &3).unwrap();
    let sender = runtime.submit::<Vec<String>>("sends", "sender", &("taker", 3)).unwrap();
    assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"; 3]);
    assert_eq!(runtime.wait_for(&taker).unwrap(), [0, 1, 2]);
    drop(runtime);
    let from = |seq: u64| format!("\"{}/{seq}\"", run_id("sender"));
    let expected = [("0", from(2)), ("1", from(4)), ("2", from(6))];
    assert_eq!(messages(&dir, "taker"), expected.map(|(value, from)| (value.to_string(), from)));
}

#[test]
fn a_message_is_safe_when_the_sender_goes_on() {
    let dir = Dir::new();
    let commit = dir.0.join("commit");
    let sends = move |()| {
        let commit = commit.clone();
        async move {
            send(run_id("taker"), "word", &"a-word-that-is-sent").await?;
            Ok::<bool, TaskError>(std::fs::read_dir(&commit).unwrap().any(|file| {
                let bytes = std::fs::read(file.unwrap().path()).unwrap();
                memchr::memmem::find(&bytes, b"\"value\":\"a-word-that-is-sent\"").is_some()
            }))
        }
    };
    let builder = dir.builder().register("sends", sends);
    let builder = builder.register("takes", |_: ()| async { receive::<String>("word").await });
    let mut runtime = builder.build().unwrap();
    runtime.submit::<String>("takes", "taker", &()).unwrap();
    let sender = runtime.submit::<bool>("sends", "sender", &()).unwrap();
    assert!(runtime.wait_for(&sender).unwrap());
}

#[test]
fn a_run_can_send_to_itself() {
    let dir = Dir::new();
    let mut runtime = dir
        .builder()
        .register("echo", |_: ()| async {
            send(run_id("echo"), "number", &7_u64).await?;
            receive::<u64>("number").await
        })
        .build()
        .unwrap();
    let run = runtime.submit::<u64>("echo", "echo", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
}

/// Both logs are cut at all places that a crash can leave: the sender's anywhere, the receiver's behind what the sender was told.
#[test]
fn after_a_crash_anywhere_each_message_is_there_once() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let taker = runtime.submit::<Vec<u64>>("takes", "taker", &4).unwrap();
    let sender = runtime.submit::<Vec<String>>("sends", "sender", &("taker", 3)).unwrap();
    assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"; 3]);
    drop(runtime);
    let sent = std::fs::read_to_string(log_of(&dir, "sender")).unwrap();
    let taken = std::fs::read_to_string(log_of(&dir, "taker")).unwrap();
    let sent: Vec<&str> = sent.split_inclusive('\n').collect();
    let taken: Vec<&str> = taken.split_inclusive('\n').collect();
    let (mut cuts, mut known) = (0, 0);
    for sender_lines in 1..sent.len() {
        for taker_lines in 1..=taken.len() {
            let (sent, taken) = (&sent[..sender_lines], &taken[..taker_lines]);
            let calls = sent.iter().filter(|line| line.contains("\"effect\"")).count();
            let told = sent.iter().filter(|line| line.contains("TaskWake")).count();
            let came = taken.iter().filter(|line| line.contains("\"Message\"")).count();
            // A message is never there without its call, and always there when the sender was told.
            if came > calls || came < told {
                continue;
            }
            cuts += 1;
            known += usize::from(came > told);
            let cut = Dir::new();
            std::fs::create_dir_all(cut.0.join("wal")).unwrap();
            std::fs::write(log_of(&cut, "sender"), sent.concat()).unwrap();
            std::fs::write(log_of(&cut, "taker"), taken.concat()).unwrap();
            let mut runtime = both(&cut).build().unwrap();
            assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"; 3]);
            runtime.send(&taker, "number", &9).unwrap();
            let at = format!("{sender_lines} and {taker_lines} lines");
            assert_eq!(runtime.wait_for(&taker).unwrap(), [0, 1, 2, 9], "{at}");
            drop(runtime);
            assert_eq!(messages(&cut, "taker").len(), 4, "{at}");
        }
    }
    assert!(cuts > 20 && known > 3, "{cuts} cuts, of which {known} in between");
}

#[test]
fn a_receiver_that_has_ended_since_had_its_message() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let taker = runtime.submit::<Vec<u64>>("takes", "taker", &2).unwrap();
    let sender = runtime.submit::<Vec<String>>("sends", "sender", &("taker", 1)).unwrap();
    runtime.wait_for(&sender).unwrap();
    drop(runtime);
    let log = std::fs::read_to_string(log_of(&dir, "sender")).unwrap();
    let end = log.find("\"effect\"").map(|at| at + log[at..].find('\n').unwrap() + 1).unwrap();
    // The receiver ends in a process that does not know the sender.
    let cut = Dir::new();
    std::fs::create_dir_all(cut.0.join("wal")).unwrap();
    std::fs::copy(log_of(&dir, "taker"), log_of(&cut, "taker")).unwrap();
    let mut runtime = both(&cut).build().unwrap();
    runtime.send(&taker, "number", &9).unwrap();
    assert_eq!(runtime.wait_for(&taker).unwrap(), [0, 9]);
    drop(runtime);
    // The sender's log ends with its call, so it sends again.
    std::fs::write(log_of(&cut, "sender"), &log[..end]).unwrap();
    let mut runtime = both(&cut).build().unwrap();
    assert!(runtime.is_finished(taker.uuid()));
    assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"]);
}

#[test]
fn to_one_that_is_over_or_unknown_nothing_can_be_sent() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let over = runtime.submit::<Vec<u64>>("takes", "over", &0).unwrap();
    runtime.wait_for(&over).unwrap();
    for (id, to, code) in [("a", "over", "TFY0042"), ("b", "nobody", "TFY0041")] {
        let sender = runtime.submit::<Vec<String>>("sends", id, &(to, 1)).unwrap();
        assert_eq!(runtime.wait_for(&sender).unwrap(), [code]);
    }
}

#[test]
fn one_that_is_paused_has_its_messages_when_it_goes_on() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let taker = runtime.submit::<Vec<u64>>("takes", "taker", &4).unwrap();
    runtime.send(&taker, "number", &7).unwrap();
    runtime.flush().unwrap();
    drop(runtime);
    // A program without its function.
    let mut runtime = dir.builder().register("sends", sends).build().unwrap();
    assert_eq!(runtime.paused().len(), 1);
    let sender = runtime.submit::<Vec<String>>("sends", "sender", &("taker", 3)).unwrap();
    assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"; 3]);
    drop(runtime);
    let mut runtime = both(&dir).build().unwrap();
    assert_eq!(runtime.wait_for(&taker).unwrap(), [7, 0, 1, 2]);
}

#[test]
fn the_same_message_of_a_paused_receiver_is_not_written_twice() {
    let dir = Dir::new();
    let mut runtime = both(&dir).build().unwrap();
    let taker = runtime.submit::<Vec<u64>>("takes", "taker", &2).unwrap();
    let sender = runtime.submit::<Vec<String>>("sends", "sender", &("taker", 1)).unwrap();
    runtime.wait_for(&sender).unwrap();
    drop(runtime);
    let log = std::fs::read_to_string(log_of(&dir, "sender")).unwrap();
    let end = log.find("\"effect\"").map(|at| at + log[at..].find('\n').unwrap() + 1).unwrap();
    let cut = Dir::new();
    std::fs::create_dir_all(cut.0.join("wal")).unwrap();
    std::fs::write(log_of(&cut, "sender"), &log[..end]).unwrap();
    std::fs::copy(log_of(&dir, "taker"), log_of(&cut, "taker")).unwrap();
    let mut runtime = cut.builder().register("sends", sends).build().unwrap();
    assert_eq!(runtime.wait_for(&sender).unwrap(), ["sent"]);
    drop(runtime);
    let mut runtime = both(&cut).build().unwrap();
    runtime.send(&taker, "number", &9).unwrap();
    assert_eq!(runtime.wait_for(&taker).unwrap(), [0, 9]);
}

#[test]
fn a_run_that_is_not_durable_cannot_send_so() {
    let mut runtime = Runtime::new().unwrap();
    let error = runtime.run(async { send(run_id("a"), "number", &1).await.unwrap_err() }).unwrap();
    assert_eq!(error.kind(), ErrorKind::NotDurable);
    assert!(error.message().contains("use `Runtime::send`"), "{error}");
}

#[test]
fn a_message_that_cannot_be_written_down_is_an_error_at_the_call() {
    let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error =
        tiffany::run(async move { send(run_id("a"), "number", &odd).await.unwrap_err() }).unwrap();
    assert_eq!(error.kind(), ErrorKind::Unserializable);
}
