//! Shared code of the daemon's tests: a daemon on its own thread, directory and free port, and a
//! small client that sends exactly what it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tiffany::durable::{Retry, external_promise, on_question, receive, step};
use tiffany::{AgentTask, Builder, Runtime, RuntimeHandle, TaskContext, TaskError, TaskStatus};
use tiffany_daemon::{Daemon, Limits};

/// The timeout of every operation.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A temporary directory, removed when dropped.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-daemon-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A task whose cleanup never ends: each cleanup starts another such task.
struct Clings {
    spawns: bool,
}

impl AgentTask for Clings {
    type Output = ();

    fn poll(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        TaskStatus::sleep(Duration::from_secs(3600))
    }

    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        self.spawns = !self.spawns;
        match self.spawns {
            true => TaskStatus::spawn(tiffany::spawn_agent(Clings { spawns: false })),
            false => TaskStatus::sleep(Duration::from_millis(1)),
        }
    }
}

/// The functions that tests start.
pub(crate) fn program() -> Builder {
    Runtime::builder()
        .register("echo", |value: Value| async move { Ok::<_, TaskError>(value) })
        .register("fail", |why: String| async move { Err::<(), _>(TaskError::failed(why)) })
        .register("wait", |(): ()| async {
            let _answers = on_question("name", |(): ()| Ok::<_, String>("Ada".to_owned()))?;
            receive::<Value>("go").await
        })
        .register("promise", |(): ()| async {
            let promise = external_promise::<Value>().await;
            promise.wait().await
        })
        .register("work", |millis: u64| async move {
            step("work", move || {
                std::thread::sleep(Duration::from_millis(millis));
                Ok::<u64, String>(millis)
            })
            .await
        })
        .register("stare", |millis: u64| async move {
            tiffany::yield_now().await;
            // A mistake on purpose: this blocks the loop.
            std::thread::sleep(Duration::from_millis(millis));
            Ok::<u64, TaskError>(millis)
        })
        .register("steps", |count: u64| async move {
            for number in 0..count {
                step("one", move || Ok::<u64, String>(number)).pure().await?;
            }
            Ok::<u64, TaskError>(count)
        })
        .register("retry", |(): ()| async {
            let retry = Retry::times(9).first(Duration::from_secs(3600));
            step("never", || Err::<(), String>("not yet".into())).retry(retry).await
        })
        .register("ask", |what: String| async move {
            tiffany::durable::approve(what).await.map(|approval| approval.choice)
        })
        .register("choose", |choices: Vec<String>| async move {
            let approval = tiffany::durable::approve("which?").choices(choices).await?;
            Ok::<_, TaskError>(approval.choice)
        })
        .register("ask_twice", |(): ()| async {
            let first = tiffany::spawn(async { tiffany::durable::approve("one?").await }).await;
            tiffany::durable::approve("two?").await?;
            first.await?.map(|approval| approval.choice)
        })
        .register("cling", |(): ()| async {
            drop(tiffany::spawn_agent(Clings { spawns: false }).await);
            receive::<Value>("never").await
        })
        .register("progress", |count: u64| async move {
            for done in 0..count {
                tiffany::pal::progress(done, Some(count), "going").await;
                tiffany::sleep(Duration::from_millis(1)).await;
            }
            Ok::<u64, TaskError>(count)
        })
}

/// A daemon on a thread of its own.
pub(crate) struct House {
    pub(crate) address: SocketAddr,
    handle: RuntimeHandle,
    wanted: Arc<AtomicBool>,
    thread: Option<JoinHandle<bool>>,
}

impl House {
    pub(crate) fn open(dir: &Dir) -> House {
        House::with(dir, Limits::default())
    }

    pub(crate) fn with(dir: &Dir, limits: Limits) -> House {
        House::of(&dir.0, move |dir| Daemon::new(program(), dir).limits(limits))
    }

    pub(crate) fn of(dir: &Path, make: impl FnOnce(PathBuf) -> Daemon + Send + 'static) -> House {
        let dir = dir.to_owned();
        let wanted = Arc::new(AtomicBool::new(true));
        let (is_wanted, (tell, told)) = (Arc::clone(&wanted), channel());
        let thread = std::thread::spawn(move || {
            let daemon = make(dir).listen("127.0.0.1:0".parse().unwrap());
            let mut serving = daemon.open().unwrap();
            tell.send((serving.address(), serving.handle())).unwrap();
            serving.run_while(|_| is_wanted.load(Ordering::SeqCst)).unwrap();
            serving.close().unwrap()
        });
        let (address, handle) = told.recv_timeout(LIMIT).unwrap();
        House { address, handle, wanted, thread: Some(thread) }
    }

    /// Tells the daemon to end.
    pub(crate) fn end(&self) {
        self.wanted.store(false, Ordering::SeqCst);
        self.handle.nudge();
    }

    /// Ends the daemon. Returns `true` if no step was cut off.
    pub(crate) fn close(mut self) -> bool {
        self.end();
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[], body)
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut line = self.connect();
        send(&mut line, method, path, headers, body);
        read_answer(&mut line)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let line = TcpStream::connect(self.address).unwrap();
        line.set_read_timeout(Some(LIMIT)).unwrap();
        line
    }

    /// Starts a run.
    pub(crate) fn submit(&self, function: &str, id: &str, input: &str) -> Answer {
        let body = format!("{{\"function\":\"{function}\",\"id\":\"{id}\",\"input\":{input}}}");
        self.post("/api/v1/runs", &body)
    }

    /// Waits until a run is in a state.
    pub(crate) fn wait_for(&self, run: &str, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let shown = self.get(&format!("/api/v1/runs/{run}?wait=1")).json();
            if shown["state"] == state {
                return shown;
            }
            assert!(begun.elapsed() < LIMIT, "{run} is not {state}: {shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.end();
            let _ = thread.join();
        }
    }
}

/// Writes a request that keeps the connection open.
pub(crate) fn send(
    line: &mut TcpStream,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
    if !is_given("host") {
        text.push_str("host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
        if !is_given("content-type") {
            text.push_str("content-type: application/json\r\n");
        }
    }
    line.write_all(format!("{text}\r\n{body}").as_bytes()).unwrap();
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the status and the error code.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        for part in ["title", "next"] {
            assert!(problem[part].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        (self.status, problem["code"].as_str().unwrap().to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// Reads the head of a response, and no more.
pub(crate) fn read_head(line: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match line.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&head)),
        }
    }
    String::from_utf8(head).unwrap()
}

pub(crate) fn read_answer(line: &mut TcpStream) -> Answer {
    let head = read_head(line);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let answer = Answer { status, head, body: String::new() };
    let mut body = Vec::new();
    if answer.header("transfer-encoding").is_some() {
        while let Some(piece) = read_chunk(line) {
            body.extend(piece);
        }
    } else {
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        body.resize(length, 0);
        line.read_exact(&mut body).unwrap();
    }
    Answer { body: String::from_utf8(body).unwrap(), ..answer }
}

/// Returns the next chunk of a chunked body, or `None` after the last one.
pub(crate) fn read_chunk(line: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = String::new();
    let mut byte = [0];
    while !size.ends_with("\r\n") {
        line.read_exact(&mut byte).ok()?;
        size.push(byte[0].into());
    }
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut piece = vec![0; size + 2];
    line.read_exact(&mut piece).ok()?;
    piece.truncate(size);
    (size > 0).then_some(piece)
}

/// Reads a stream until it contains a text.
pub(crate) fn read_until(line: &mut TcpStream, seen: &mut String, wanted: &str) {
    let begun = Instant::now();
    while !seen.contains(wanted) {
        assert!(begun.elapsed() < LIMIT, "no {wanted} in {seen}");
        match read_chunk(line) {
            Some(piece) => seen.push_str(&String::from_utf8(piece).unwrap()),
            None => panic!("the stream ended without {wanted}: {seen}"),
        }
    }
}
