//! Entry points for the fuzzer and for the test of its corpus: arbitrary bytes as a connection, as
//! the messages of a WebSocket and as a configuration. All input is answered or refused with a
//! code, without a panic and in bounded time. `fuzz/README.md` describes how to run it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use tiffany::durable::receive;
use tiffany::{Runtime, TaskError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::app::App;
use crate::auth::Tokens;
use crate::config::Config;
use crate::daemon::Daemon;
use crate::http::serve_line;

/// A function that reads arbitrary bytes, and must not panic.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] =
    &[("http", http), ("messages", messages), ("config", config)];

/// The longest time that one input may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the first bytes of an answer, and each further piece, are awaited.
const FIRST: Duration = Duration::from_millis(50);
const MORE: Duration = Duration::from_millis(2);
/// The address to listen on, which nothing connects to.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Sends the bytes on a connection.
pub fn http(bytes: &[u8]) {
    let said = talk(bytes);
    assert!(!said.contains("HTTP/1.1 500"), "something broke: {said}");
    for body in said.split("\r\n\r\n").filter(|body| body.starts_with("{\"code\":\"")) {
        assert!(body.starts_with("{\"code\":\"TFY0"), "it is refused without a code: {body}");
    }
}

/// Sends the bytes as a WebSocket for events: the first line is the query, the rest are frames.
pub fn messages(bytes: &[u8]) {
    let line = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (query, frames) = bytes.split_at(line);
    let is_plain = |byte: &&u8| byte.is_ascii_graphic() && **byte != b'#';
    let query: Vec<u8> = query.iter().filter(is_plain).copied().collect();
    let mut said = b"GET /api/v1/events?".to_vec();
    said.extend(query);
    said.extend(
        b" HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
          sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    said.extend(frames.get(1..).unwrap_or_default());
    let answer = talk(&said);
    let answers = ["HTTP/1.1 101", "HTTP/1.1 400", "HTTP/1.1 414", "HTTP/1.1 431"];
    let is_answered = answers.iter().any(|start| answer.starts_with(start));
    assert!(is_answered, "{answer}");
}

/// Parses the bytes as a configuration.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Config::parse(&text, Path::new("tiffany.toml")) {
        Ok(config) => {
            let _ = (config.grace(), config.tls(), config.limits(), config.retention().count());
            let _ = config.gate(NOWHERE, Tokens::at(Path::new("nowhere")));
        }
        Err(error) => assert!(error.to_string().contains("[TFY0177]"), "{error}"),
    }
}

/// Sends bytes to the daemon, disconnects, and returns the answer received until then.
fn talk(said: &[u8]) -> String {
    thread_local!(static THREADS: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("there are timers"));
    let app = app();
    THREADS.with(|threads| {
        threads.block_on(async {
            let (mut ours, theirs) = tokio::io::duplex(1 << 20);
            let talk = async {
                // The daemon may close the connection before the end.
                drop(ours.write_all(said).await);
                let mut answer = Vec::new();
                let is_whole = said.windows(2).any(|pair| pair == b"\n\r" || pair == b"\n\n");
                // A client that disconnects gets no answer, so it stays while an answer may come.
                while is_whole
                    && let patience = if answer.is_empty() { FIRST } else { MORE }
                    && let Ok(Ok(1..)) = timeout(patience, ours.read_buf(&mut answer)).await
                {
                }
                drop(ours.shutdown().await);
                // A stream continues while the client sends and reads, and a closed WebSocket
                // allows time to read the reason.
                let head = String::from_utf8_lossy(&answer);
                let goes_on =
                    head.contains("text/event-stream") || head.starts_with("HTTP/1.1 101");
                let patience = if goes_on { MORE } else { TIMEOUT };
                drop(timeout(patience, ours.read_to_end(&mut answer)).await);
                String::from_utf8_lossy(&answer).into_owned()
            };
            let (mut serves, mut talks) = (pin!(serve_line(theirs, app)), pin!(talk));
            let both = async {
                tokio::select! {
                    answer = &mut talks => answer,
                    () = &mut serves => talks.await,
                }
            };
            timeout(TIMEOUT, both).await.expect("it comes to no end")
        })
    })
}

/// Returns the directory of the log, for the caller to remove.
pub fn dir() -> PathBuf {
    std::env::temp_dir().join(format!("tiffany-fuzz-{}", std::process::id()))
}

/// Returns a daemon that lives as long as this process, with one waiting and one finished run.
fn app() -> &'static App {
    static APP: OnceLock<App> = OnceLock::new();
    APP.get_or_init(|| {
        let (tell, told) = sync_channel(1);
        std::thread::spawn(move || {
            let dir = dir();
            drop(std::fs::remove_dir_all(&dir));
            let functions = Runtime::builder()
                .register("wait", |(): ()| receive::<u64>("go"))
                .register("one", |(): ()| async { Ok::<u64, TaskError>(1) });
            let mut runtime = functions.log_dir(&dir).build().expect("the log opens");
            runtime.submit::<u64>("wait", "waits", &()).expect("it is started");
            let one = runtime.submit::<u64>("one", "done", &()).expect("it is started");
            runtime.wait_for(&one).expect("it ends well");
            drop(runtime);
            // Without functions, no further run can be started.
            let daemon = Daemon::new(Runtime::builder(), &dir).listen(NOWHERE);
            let mut serving = daemon.open().expect("it opens");
            tell.send(serving.app().clone()).expect("somebody waits");
            serving.run_while(|_| true).expect("it goes on");
        });
        told.recv().expect("the daemon is there")
    })
}
