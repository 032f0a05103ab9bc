//! A program that shows everything that the dashboard can display: tasks that wait for each other,
//! progress and output, steps that are retried, a failure that passes through several tasks,
//! questions to people, and any number of tasks.
//!
//! `cargo run -p tiffany-cli --example kitchen -- serve`, then start `dinner` or `banquet` in the
//! browser.

use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tiffany::durable::{Retry, external_promise, receive, step, step_with};
use tiffany::pal::{LogLevel, log, output, progress};
use tiffany::{Runtime, TaskError, gather, sleep, try_spawn};

const COURSES: [&str; 4] = ["soup", "salad", "roast", "cake"];

/// Cooks one course: `turns` turns of the spoon, each a step.
async fn cook(course: &'static str, turns: u64) -> Result<String, TaskError> {
    log(LogLevel::Info, format!("{course} is begun")).await;
    for turn in 1..=turns {
        step("stir", move || {
            std::thread::sleep(Duration::from_millis(15 + 7 * (turn % 5)));
            Ok::<u64, String>(turn)
        })
        .input(&json!({ "course": course, "turn": turn }))
        .await?;
        progress(turn, turns, course).await;
        output("stdout", format!("{course}: turn {turn} of {turns}\n")).await;
        sleep(Duration::from_millis(120)).await;
    }
    step_with("taste", |attempt| {
        if attempt.number() < 2 {
            return Err("too hot to tell".to_owned());
        }
        Ok(())
    })
    .retry(Retry::times(3).first(Duration::from_millis(150)))
    .await?;
    log(LogLevel::Warn, format!("{course} is nearly gone")).await;
    Ok(format!("{course} after {turns} turns"))
}

/// Cooks four courses at once.
async fn dinner(turns: u64) -> Result<Vec<String>, TaskError> {
    let mut cooks = Vec::new();
    for course in COURSES {
        cooks.push(try_spawn(cook(course, turns)).name(course).await);
    }
    gather(cooks).await
}

/// Fails deep inside: the sauce is part of the roast, and the roast is part of the banquet.
async fn banquet(sauce: String) -> Result<String, TaskError> {
    let soup = try_spawn(cook("soup", 3)).name("soup").await;
    let roast = try_spawn(async move {
        let made = try_spawn(async move {
            sleep(Duration::from_millis(80)).await;
            step("reduce", move || Err::<String, String>(format!("the {sauce} is burnt")))
                .retry(Retry::times(3).first(Duration::from_millis(40)))
                .await
        });
        let made = made.name("sauce").await.await?;
        Ok::<String, TaskError>(format!("roast with {made}"))
    });
    let roast = roast.name("roast").await.await?;
    Ok(format!("{}, then {roast}", soup.await?))
}

/// Asks a person before it spends money.
async fn market(euros: u32) -> Result<String, TaskError> {
    let asked = tiffany::approve(format!("Buy fish for {euros} EUR?"))
        .choices(["yes", "only half", "no"])
        .payload(&json!({ "euros": euros, "fish": ["trout", "pike"], "stall": 7 }));
    let answer = asked.await?;
    step("buy", move || Ok::<String, String>(format!("bought: {}", answer.choice))).await
}

/// Starts many guests, each a task that executes a step and ends; the last guests stay until
/// someone sends `leave`.
async fn feast(guests: u64) -> Result<u64, TaskError> {
    let mut tables = Vec::new();
    for guest in 0..guests {
        let stays = guest + 3 >= guests;
        let seat = try_spawn(async move {
            step("eat", move || Ok::<u64, String>(guest)).pure().await?;
            if stays {
                receive::<serde_json::Value>("leave").await?;
            }
            Ok::<u64, TaskError>(guest)
        });
        tables.push(seat.name(if guest % 2 == 0 { "guest" } else { "child" }).await);
    }
    Ok(gather(tables).await?.len() as u64)
}

/// Writes `items` records with steps that do nothing.
async fn inventory(items: u64) -> Result<u64, TaskError> {
    for item in 0..items {
        step("count", move || Ok::<u64, String>(item)).pure().await?;
    }
    Ok(items)
}

/// The input of [`reserve`].
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Table {
    name: String,
    guests: u32,
    meal: String,
    #[serde(default)]
    outside: bool,
    wishes: Option<String>,
}

/// Keeps a table free. Its input has a schema, so the dashboard can show a form for it.
async fn reserve(table: Table) -> Result<String, TaskError> {
    let kept = table.clone();
    step("write down", move || Ok::<Table, String>(kept.clone())).await?;
    let place = if table.outside { "outside" } else { "inside" };
    Ok(format!("{} for {} at {}, {place}", table.name, table.guests, table.meal))
}

/// Returns the schema of the input of [`reserve`].
fn table() -> serde_json::Value {
    json!({
        "type": "object",
        "required": ["name", "guests", "meal"],
        "properties": {
            "name": { "type": "string", "description": "Who comes." },
            "guests": { "type": "integer", "minimum": 1, "maximum": 12 },
            "meal": { "enum": ["lunch", "dinner"] },
            "outside": { "type": "boolean", "default": false },
            "wishes": { "type": ["string", "null"] },
        },
    })
}

/// Waits until an external promise reports that the fish has arrived.
async fn delivery(stall: u32) -> Result<String, TaskError> {
    let arrived = external_promise::<String>().await;
    let what = arrived.wait().await?;
    Ok(format!("stall {stall} brought {what}"))
}

/// Takes money, which must not happen twice: an interrupted attempt is in doubt, and a person
/// decides. The first attempt never ends by itself.
async fn till(euros: u32) -> Result<String, TaskError> {
    let charge = step_with("charge", move |attempt| {
        while attempt.number() == 1 && !attempt.is_given_up() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok::<String, String>(format!("{euros} EUR at attempt {}", attempt.number()))
    });
    charge.input(&json!({ "euros": euros })).at_most_once().hold_in_doubt().await
}

/// Collects a tip from each guest, at most once. Except for the first guest, the first attempt
/// never ends by itself.
async fn tips(guests: u32) -> Result<Vec<serde_json::Value>, TaskError> {
    let mut all = Vec::new();
    for guest in 0..guests {
        let tip = step_with("tip", move |attempt| {
            while guest > 0 && attempt.number() == 1 && !attempt.is_given_up() {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok::<serde_json::Value, String>(json!({ "cents": 50 }))
        });
        all.push(tip.input(&guest).at_most_once().hold_in_doubt().await?);
    }
    Ok(all)
}

/// Waits for a cold oven: a step that fails, and is retried much later.
async fn oven(degrees: u32) -> Result<(), TaskError> {
    let heat = move || Err::<(), String>(format!("{degrees} degrees are not reached"));
    step("heat", heat).retry(Retry::times(9).first(Duration::from_secs(3600))).await
}

/// Looks at the roast, and blocks the loop meanwhile. Such work belongs in a step.
async fn stare(millis: u64) -> Result<(), TaskError> {
    log(LogLevel::Info, "nobody talks to the cook").await;
    std::thread::sleep(Duration::from_millis(millis));
    Ok(())
}

/// Emits events all the time: `rounds` rounds of progress, output, a log line and a step.
async fn rush(rounds: u64) -> Result<u64, TaskError> {
    for round in 1..=rounds {
        progress(round, rounds, "orders").await;
        output("stdout", format!("order {round} of {rounds} goes out\n")).await;
        log(LogLevel::Info, format!("order {round} is paid")).await;
        step("serve", move || Ok::<u64, String>(round)).pure().await?;
    }
    Ok(rounds)
}

/// Shows its input in every place where text is shown.
async fn label(text: String) -> Result<(), TaskError> {
    let (shown, asked, named) = (text.clone(), text.clone(), text.clone());
    output("stdout", format!("{text}\n")).await;
    log(LogLevel::Error, text.clone()).await;
    progress(1, 2, text.clone()).await;
    let printer = try_spawn(async move {
        tiffany::approve(format!("Print {asked}?")).payload(&asked).await?;
        step("print", move || Err::<(), String>(format!("no paper for {shown}"))).await
    });
    printer.name(named).await.await
}

fn main() -> ExitCode {
    let program = Runtime::builder()
        .register("dinner", dinner)
        .register("banquet", banquet)
        .register("market", market)
        .register("feast", feast)
        .register("inventory", inventory)
        .register("label", label)
        .register("reserve", reserve)
        .describe("reserve", "Keeps a table free.", table())
        .register("delivery", delivery)
        .register("till", till)
        .register("tips", tips)
        .register("oven", oven)
        .register("rush", rush)
        .register("stare", stare);
    tiffany_cli::main(program)
}
