//! The threat: what is proposed where code and log part does not say which code is for old runs, and which for new ones.

use crate::durable_kit::{Dir, ms};
use tiffany::durable::{Trial, receive, step};
use tiffany::{Builder, Runtime, TaskError};

/// Prices something, books it, and waits to be paid.
async fn order(item: String) -> Result<String, TaskError> {
    let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    step("book", || Ok::<(), String>(())).input(&price).await?;
    receive("paid").await
}

async fn renamed(item: String) -> Result<String, TaskError> {
    let price: u32 = step("price with tax", || Ok::<u32, String>(50)).input(&item).await?;
    step("book", || Ok::<(), String>(())).input(&price).await?;
    receive("paid").await
}

async fn added(item: String) -> Result<String, TaskError> {
    let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    step("book", || Ok::<(), String>(())).input(&price).await?;
    step("greet", || Ok::<(), String>(())).await?;
    receive("paid").await
}

async fn removed(item: String) -> Result<String, TaskError> {
    step("book", || Ok::<(), String>(())).input(&42).await?;
    drop(item);
    receive("paid").await
}

#[test]
fn a_proposal_says_which_code_is_for_whom() {
    let dir = Dir::new();
    let mut runtime = dir.builder().register("order", order).build().unwrap();
    let run = runtime.submit::<String>("order", "o", &"tea").unwrap();
    runtime.run(async { tiffany::sleep(ms(1000)).await }).unwrap();
    drop(runtime);
    let proposed = |program: Builder| {
        let trial = Trial::of(program, &dir.0, run.uuid()).unwrap();
        trial.proposal.expect("a proposal").lines
    };
    let program = Runtime::builder;
    assert_eq!(
        proposed(program().register("order", renamed)),
        [
            r#"if patched("change-price").await {"#,
            "    … // the new code",
            "} else {",
            "    … // the old code",
            "}",
        ]
    );
    assert_eq!(
        proposed(program().register("order", added)),
        [r#"if patched("add-greet").await { … }"#]
    );
    assert_eq!(
        proposed(program().register("order", removed)),
        [r#"if !patched("remove-price").await { … }"#]
    );
}
