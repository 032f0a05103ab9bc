//! A program with its own command line: it can show, replay and resume `order` and its other
//! functions, because it has their code.
//!
//! `cargo run -p tiffany-cli --example orders -- --help`; `… -- start FUNCTION ID JSON [SECONDS]`
//! starts a run and drives it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tiffany::durable::{Retry, external_promise, on_question, receive, step};
use tiffany::wal::Settings;
use tiffany::{Builder, RunError, Runtime, TaskError, gather, sleep, try_spawn};

/// Prices an order, has it approved by a person, charges for it and packs it.
async fn order(item: String) -> Result<String, TaskError> {
    let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
    let asked = item.clone();
    let _answering =
        on_question("status", move |(): ()| Ok::<String, String>(format!("{asked} for {price}")))?;
    let approval = external_promise::<bool>().await;
    if !approval.wait().await? {
        return Err(TaskError::failed(format!("nobody wants {item} for {price}")));
    }
    let mut tasks = Vec::new();
    for part in ["box", "label"] {
        let made = step("make", move || Ok::<String, String>(part.to_owned())).input(&part);
        tasks.push(try_spawn(async move { made.await }).await);
    }
    let parts = gather(tasks).await?;
    let address: String = receive("address").await?;
    Ok(format!("{item} in {} to {address}", parts.join(" with ")))
}

/// Sleeps.
async fn nap(seconds: f64) -> Result<f64, TaskError> {
    sleep(Duration::from_secs_f64(seconds)).await;
    Ok(seconds)
}

/// Pays at most once, and takes `millis` milliseconds.
async fn pay(millis: u64) -> Result<String, TaskError> {
    step("charge", move || {
        std::thread::sleep(Duration::from_millis(millis));
        Ok::<String, String>("paid".into())
    })
    .at_most_once()
    .await
}

/// Pays at most once, and waits for a person to decide if the attempt was interrupted.
async fn hold(millis: u64) -> Result<u32, TaskError> {
    step("charge", move || {
        std::thread::sleep(Duration::from_millis(millis));
        Ok::<u32, String>(1)
    })
    .at_most_once()
    .hold_in_doubt()
    .await
}

/// Creates a file.
async fn touch(path: String) -> Result<(), TaskError> {
    step("touch", move || std::fs::write(&path, "")).await
}

/// Creates a file after a while.
async fn later(path: String) -> Result<(), TaskError> {
    sleep(Duration::from_secs(1)).await;
    touch(path).await
}

/// Fails.
async fn burn(what: String) -> Result<(), TaskError> {
    step("light", move || Err::<(), String>(format!("{what} is on fire"))).await
}

/// Several tasks that wait for different things.
async fn family(_: ()) -> Result<Vec<u32>, TaskError> {
    let parent = try_spawn(async {
        let lost = try_spawn(async { Err::<(), String>("lost".into()) }).await;
        sleep(Duration::from_millis(20)).await;
        drop(lost);
        Ok::<u32, TaskError>(2)
    });
    let parent = parent.await;
    let sleeper = try_spawn(async {
        sleep(Duration::from_secs(3600)).await;
        Ok::<u32, TaskError>(3)
    });
    let sleeper = sleeper.name("sleeper").await;
    let listener = try_spawn(async { receive::<u32>("news").await }).await;
    let worker = try_spawn(async {
        step("work", || Err::<u32, String>("not yet".into()))
            .retry(Retry::times(9).first(Duration::from_secs(3600)))
            .await
    });
    gather([parent, sleeper, listener, worker.await]).await
}

/// Does very many small steps.
async fn busy(steps: u32) -> Result<u32, TaskError> {
    for number in 0..steps {
        step("count", move || Ok::<u32, String>(number)).pure().await?;
    }
    Ok(steps)
}

/// Returns its input.
async fn echo(value: serde_json::Value) -> Result<serde_json::Value, TaskError> {
    step("echo", move || Ok::<_, String>(value.clone())).await
}

/// Has a secret in its own text.
async fn blurt(_: ()) -> Result<(), TaskError> {
    step("try", || Ok::<(), String>(())).input(&"sk-4711").await?;
    Err(TaskError::failed("no door opens with sk-4711"))
}

/// Keeps its turn as long as a file exists.
async fn gate(path: String) -> Result<(), TaskError> {
    while std::path::Path::new(&path).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Starts a process that outlives the run, without asking, if there is a file for its process id.
async fn litter(path: String) -> Result<(), TaskError> {
    if std::path::Path::new(&path).exists() {
        let started = std::process::Command::new("sleep").arg("600").spawn();
        let written = started.and_then(|child| std::fs::write(&path, child.id().to_string()));
        written.map_err(|error| TaskError::failed(error.to_string()))?;
    }
    Ok(())
}

fn program() -> Builder {
    let segments = Settings { segment_bytes: 1 << 16, segments: 2, ..Settings::default() };
    let builder = discreet(Runtime::builder().log_settings(segments));
    // Variants of the program, as other versions of it could be.
    let builder = match std::env::var("ORDERS_VERSION").as_deref() {
        Ok("2") => builder.register("nap", async |seconds: f64| {
            step("brush teeth", || Ok::<(), String>(())).await?;
            nap(seconds).await
        }),
        Ok("3") => builder
            .register("nap", async |seconds: f64| Ok::<f64, TaskError>(nap(seconds).await? + 1.0)),
        Ok("4") => builder.register("nap", async |seconds: f64| {
            tiffany::yield_now().await;
            tiffany::get_tid().await;
            nap(seconds).await
        }),
        Ok("wild") => builder
            .register("nap", nap)
            .register("blurt", blurt)
            .register("gate", gate)
            .register("litter", litter),
        Ok("none") => return builder.register("something else", nap),
        _ => builder.register("nap", nap),
    };
    builder
        .register("order", order)
        .register("pay", pay)
        .register("hold", hold)
        .register("touch", touch)
        .register("later", later)
        .register("burn", burn)
        .register("family", family)
        .register("busy", busy)
        .register("echo", echo)
        .register("diary", diary)
        .register_agent("clerk", |pages| Clerk { pages })
        .snapshot_every(4)
        .register("refund", refund)
        .register("deploy", deploy)
        .register("read", read)
}

/// Starts a run, and drives it until it ends or for some seconds.
fn start(arguments: &[String]) -> Result<(), RunError> {
    let dir = std::env::var("TIFFANY_DIR").unwrap_or_else(|_| ".tiffany".into());
    let mut runtime = program().log_dir(dir).build()?;
    let input: serde_json::Value = serde_json::from_str(&arguments[2]).expect("JSON");
    let run = runtime.submit::<serde_json::Value>(&arguments[0], &arguments[1], &input)?;
    println!("{}", run.uuid());
    match arguments.get(3).and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => {
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            runtime.run(async move {
                while Instant::now() < until {
                    sleep(Duration::from_millis(5)).await;
                }
            })
        }
        None => runtime.wait_for(&run).map(|value| println!("{value}")),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() >= 4 && arguments[0] == "start" {
        return match start(&arguments[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    tiffany_cli::main(program())
}

/// Starts a new generation after each page.
async fn diary(pages: u64) -> Result<u64, TaskError> {
    receive::<u64>("page").await?;
    if pages == 1 { Ok(0) } else { tiffany::durable::continue_as(&(pages - 1)).await }
}

/// A state machine whose log starts a new generation by itself.
#[derive(serde::Serialize, serde::Deserialize)]
struct Clerk {
    pages: u64,
}

impl tiffany::durable::DurableAgent for Clerk {
    const NAME: &'static str = "clerk";
    type Output = u64;

    fn wants(&self) -> tiffany::TaskStatus<u64> {
        match self.pages {
            0 => tiffany::TaskStatus::Completed(0),
            _ => tiffany::TaskStatus::receive_message("page"),
        }
    }

    fn take(&mut self, ctx: &mut tiffany::TaskContext<'_>) -> Result<(), TaskError> {
        ctx.written::<u64>()?;
        self.pages -= 1;
        Ok(())
    }
}

/// Asks a person, and follows the answer.
async fn refund(amount: u32) -> Result<String, TaskError> {
    let question = format!("Refund {amount} EUR?");
    let asked = tiffany::approve(question).choices(["all", "half", "none"]).payload(&amount);
    let answer = asked.await?;
    let paid = match answer.choice.as_str() {
        "all" => amount,
        "half" => amount / 2,
        _ => 0,
    };
    step("pay back", move || Ok::<String, String>(format!("{paid} EUR"))).input(&paid).await
}

/// Asks for permission, and fails without it.
async fn deploy(version: String) -> Result<String, TaskError> {
    tiffany::approve(format!("Deploy {version}?")).await?.granted()?;
    Ok(version)
}

/// Reads pages, and reports its progress. Each page needs a message to continue with the next.
async fn read(pages: u64) -> Result<u64, TaskError> {
    let reader = try_spawn(async move {
        for page in 1..=pages {
            tiffany::pal::progress(page, pages, "pages").await;
            receive::<u64>("turn").await?;
        }
        Ok::<u64, TaskError>(pages)
    });
    reader.name("reader").await.await
}

/// Adds redaction rules or failing functions, depending on the version.
fn discreet(builder: Builder) -> Builder {
    match std::env::var("ORDERS_VERSION").as_deref() {
        Ok("discreet") => {
            let rules = tiffany::redact::Redactions::new().pattern("sk-[0-9]+");
            builder.redact(rules.expect("it is a pattern"))
        }
        Ok("ends") => {
            builder.register("stumble", stumble).register("linger", linger).register("hoard", hoard)
        }
        _ => builder,
    }
}

/// Fails while another task waits for news.
async fn stumble(why: String) -> Result<(), TaskError> {
    drop(try_spawn(async { receive::<u32>("news").await }).name("listener").await);
    Err(TaskError::failed(why))
}

/// Fails while another task needs an hour to clean up.
async fn linger(why: String) -> Result<(), TaskError> {
    drop(tiffany::spawn_agent(Slow).name("slow").await);
    sleep(Duration::from_millis(1)).await;
    Err(TaskError::failed(why))
}

struct Slow;

impl tiffany::AgentTask for Slow {
    type Output = ();

    fn poll(&mut self, _: &mut tiffany::TaskContext<'_>) -> tiffany::TaskStatus<()> {
        tiffany::TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut tiffany::TaskContext<'_>) -> tiffany::TaskStatus<()> {
        tiffany::TaskStatus::sleep(Duration::from_secs(3600))
    }
}

/// Takes all available descriptors as long as a file exists.
async fn hoard(path: String) -> Result<usize, TaskError> {
    step("hoard", move || {
        let mut files = Vec::new();
        while std::path::Path::new(&path).exists() {
            match std::fs::File::open("/dev/null") {
                Ok(file) => files.push(file),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Ok::<usize, String>(files.len())
    })
    .await
}
