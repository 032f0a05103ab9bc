//! A daemon in a process of its own, and the requests to it before and after a measurement.

use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tiffany_daemon::{Daemon, Limits, ServeError};

use super::line::{Line, on_this_thread, request};
use super::{pal_ws, watchers};
use crate::durable::{self, Place, Process, Scratch};

/// A daemon that is killed when this is dropped.
pub(super) struct House {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    pub(super) scratch: Scratch,
}

/// The number of clients that start runs at once.
pub(super) const CLIENTS: usize = 64;

impl House {
    pub(super) fn open(place: &Place) -> Result<House, String> {
        let scratch = place.fresh("daemon")?;
        let mut process = Process::start(&["daemon", text(&scratch.log())?])?;
        let address = process.line()?.parse().map_err(|_| "the daemon tells no address")?;
        Ok(House { process, address, scratch })
    }

    /// Starts runs of a function from clients that each wait for the answer before the next
    /// request. Returns how long it took.
    pub(super) fn submit(
        &self,
        function: &str,
        name: &str,
        count: usize,
    ) -> Result<Duration, String> {
        let each = count.div_ceil(CLIENTS);
        on_this_thread(async {
            let mut lines = Vec::new();
            for _ in 0..CLIENTS {
                lines.push(Line::open(self.address).await?);
            }
            let start = std::time::Instant::now();
            let clients = lines.into_iter().enumerate().map(|(client, mut line)| {
                let (function, name) = (function.to_owned(), name.to_owned());
                let numbers = client * each..count.min((client + 1) * each);
                async move {
                    for number in numbers {
                        let body = submission(&function, &format!("{name} {number}"), number);
                        let request = request("POST", "/api/v1/runs", &body);
                        line.expect(&request, 201).await?;
                    }
                    Ok::<(), String>(())
                }
            });
            all(clients).await?;
            Ok(start.elapsed())
        })?
    }

    /// Starts one run.
    pub(super) fn start(&self, function: &str, id: &str, input: usize) -> Result<(), String> {
        self.ask("POST", "/api/v1/runs", &submission(function, id, input), 201).map(drop)
    }

    /// Waits for a run to finish, and returns its value.
    pub(super) fn value<T: DeserializeOwned>(&self, id: &str) -> Result<T, String> {
        let shown = self.ask("GET", &format!("/api/v1/runs/{id}?wait=60"), "", 200)?;
        let mut shown: serde_json::Value = read(&shown)?;
        serde_json::from_value(shown["value"].take()).map_err(|_| format!("it gave {shown}"))
    }

    /// Returns one of its metrics.
    pub(super) fn metric(&self, name: &str) -> Result<f64, String> {
        let text = String::from_utf8(self.ask("GET", "/metrics", "", 200)?)
            .map_err(|error| error.to_string())?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.ok_or_else(|| format!("there is no metric {name}"))
    }

    /// Sends a request, and returns the body of the answer.
    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        body: &str,
        status: u16,
    ) -> Result<Vec<u8>, String> {
        on_this_thread(async {
            let mut line = Line::open(self.address).await?;
            line.expect(&request(method, path, body), status).await.map(<[u8]>::to_vec)
        })?
    }
}

fn submission(function: &str, id: &str, input: usize) -> String {
    format!(r#"{{"function":"{function}","id":"{id}","input":{input}}}"#)
}

pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| format!("the daemon's JSON: {error}"))
}

/// Drives all of these futures concurrently, on this thread.
pub(super) async fn all<T: Send + 'static>(
    clients: impl Iterator<Item = impl Future<Output = Result<T, String>> + Send + 'static>,
) -> Result<Vec<T>, String> {
    let clients: Vec<_> = clients.map(tokio::spawn).collect();
    let mut came = Vec::new();
    for client in clients {
        came.push(client.await.map_err(|error| error.to_string())??);
    }
    Ok(came)
}

pub(super) fn text(path: &std::path::Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| "the directory's name is no text".into())
}

/// Runs the daemon. It prints a line with the address that it listens on.
pub(crate) fn serve(log: &str) -> Result<(), String> {
    let functions =
        durable::functions().register("ticks", pal_ws::ticks).register("busy", watchers::busy);
    // All clients have the same address here, which is limited to 20,000 requests per second by
    // default.
    let limits = Limits { requests_per_second: 1_000_000, ..Limits::default() };
    let serve = || {
        let daemon = Daemon::new(functions, log).listen(([127, 0, 0, 1], 0).into());
        let mut serving = daemon.limits(limits).open()?;
        println!("{}", serving.address());
        serving.run_while(|_| true).map_err(ServeError::from)
    };
    serve().map_err(|error| error.to_string())
}
