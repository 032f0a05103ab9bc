//! Answers from outside: a thread settles a promise through its handle, then another with only its
//! UUID, as a web hook or a person at a console would. The first answer counts; look at the answer
//! to the late one.
//!
//! `cargo run -p tiffany --example external`

use std::thread;
use std::time::Duration;

use tiffany::prelude::*;
use tiffany::{Runtime, RuntimeHandle};

/// Asks a thread, then a thread that has only a UUID. Returns the second answer.
pub async fn main_task(outside: RuntimeHandle, say: fn(String)) -> Result<String, TaskError> {
    // By handle. There is no call between the thread's start and the wait, so the task always waits
    // first.
    let temperature = external_promise::<i32>().await;
    let sensor = temperature.clone();
    say("asking a thread ...".into());
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        sensor.complete(21)
    });
    let degrees = temperature.future().await?;
    say(format!("  the thread says {degrees} °C"));

    // By UUID. It is text now: it may have passed through a queue, a link in a mail, another
    // program.
    let approval = external_promise::<String>().await;
    let link = approval.uuid().to_string();
    say(format!("waiting for /approve/{link} ..."));
    let web_hook = outside.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        let uuid = tiffany::Uuid::parse(&link).expect("it was one");
        web_hook.complete(uuid, "yes, go ahead".to_string())
    });
    let answer = approval.future().await?;
    say(format!("  somebody says: {answer}"));

    let late = outside.complete(approval.uuid(), "no, wait".to_string())?;
    say(format!("a second answer is {late:?}"));
    yield_now().await;
    approval.future().await
}

fn main() -> Result<(), tiffany::RunError> {
    let mut runtime = Runtime::new()?;
    let outside = runtime.handle();
    runtime.try_run(main_task(outside, |line| println!("{line}")))?;
    Ok(())
}
