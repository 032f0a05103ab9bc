//! Questions to people with a crash at every record: a confirmed decision is never lost, and no
//! question is asked twice.

use std::time::Duration;

use tiffany::durable::{approve, step};
use tiffany::{ErrorKind, TaskError, timeout, try_spawn};
use tiffany_sim::Crashes;

/// Two questions at once, one that is never answered, and one that is withdrawn.
async fn asks() -> Result<Vec<String>, TaskError> {
    let other = try_spawn(async { Ok::<_, TaskError>(approve("Beside?").await?.choice) }).await;
    let first = approve("First?").choices(["ship", "hold"]).payload(&7).await?;
    step("act", || Ok::<(), String>(())).await?;
    let nobody = approve("Nobody?").timeout(Duration::from_secs(2)).await;
    let nobody = nobody.err().map(|error| error.kind() == ErrorKind::ApprovalTimedOut);
    let quick = timeout(Duration::from_millis(5), approve("Quick?").into_future()).await.is_ok();
    let last = approve("Last?").await?;
    Ok(vec![first.choice, other.await?, format!("{nobody:?} {quick}"), last.by])
}

#[test]
fn decisions_survive_a_crash_at_every_record() {
    let report = Crashes::in_world(|| ())
        .set_up(|(), builder| builder.register("asks", |()| asks()))
        .run("asks", "asks", &())
        .decide(|open| match open.question.as_str() {
            "First?" => Some("hold".into()),
            "Beside?" | "Last?" => Some("yes".into()),
            _ => None,
        })
        .holds(|(), seen| match seen.outcome("asks") {
            Some(Ok(told)) => {
                let expected = serde_json::json!(["hold", "yes", "Some(true) false", "a person"]);
                match *told == expected {
                    true => Ok(()),
                    false => Err(format!("{told}")),
                }
            }
            other => Err(format!("{other:?}")),
        })
        .no_faults()
        .at_most(60)
        .check();
    assert!(report.simulations > 50, "{} simulations show nothing", report.simulations);
}
