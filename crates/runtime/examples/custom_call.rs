//! A system call of your own, `search`, which the kernel knows nothing of: handlers around a task
//! answer it, refuse it, or make calls themselves to find the answer. The code that searches stays
//! the same; look at how its answer changes.
//!
//! `cargo run -p tiffany --example custom_call`

use std::time::Duration;

use tiffany::prelude::*;
use tiffany::{CustomCall, Handler, SystemCall, Verdict, answering, call, handler};

#[derive(Clone)]
struct Search(&'static str);

impl CustomCall for Search {
    const NAME: &'static str = "search";
    type Answer = String;
}

/// The program: it asks, and does not know which handler answers.
async fn question() -> Result<String, TaskError> {
    call(Search("tiffany")).await
}

/// Answers at once.
fn index() -> impl Handler {
    answering(|search: &Search| match search.0 {
        "tiffany" => Ok("a runtime for coroutines".to_string()),
        "tiffany in french" => Ok("un runtime pour coroutines".to_string()),
        other => Err(format!("nothing is known of {other:?}")),
    })
}

/// Refuses whatever is searched for.
fn nothing_leaves_the_house() -> impl Handler {
    answering(|search: &Search| Err(format!("searching {:?} is not allowed here", search.0)))
}

/// Makes calls itself: it takes its time and makes another search. Those calls are seen only by the
/// handlers outside it, so it never handles its own call.
fn in_french() -> impl Handler {
    handler("in french", |call, _caller| match call {
        SystemCall::Custom(Search::NAME, request) => {
            let Some(Search("tiffany")) = request.borrow() else { return Verdict::Pass };
            tiffany::try_answer_with(async {
                sleep(Duration::from_millis(10)).await;
                tiffany::call(Search("tiffany in french")).await
            })
        }
        _ => Verdict::Pass,
    })
}

/// Asks the same question with four different handlers around it.
pub async fn main_task(say: fn(String)) -> Result<(), TaskError> {
    let show = |who: &str, answer: Result<String, TaskError>| match answer {
        Ok(text) => say(format!("{who:<12} ✓ {text}")),
        Err(error) => say(format!("{who:<12} ✗ {} [{}]", error.message(), error.code())),
    };
    show("nobody", try_spawn(question()).await.await);
    show("index", try_spawn(question()).handler(index()).await.await);
    let refused = try_spawn(question()).handler(index()).handler(nothing_leaves_the_house());
    show("house rules", refused.await.await);
    let translated = try_spawn(question()).handler(index()).handler(in_french());
    show("in french", translated.await.await);
    Ok(())
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))
}
