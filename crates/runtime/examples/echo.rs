//! An echo server and its load in one process: a number of clients, each making a number of round
//! trips of 64 bytes. Prints requests per second and latencies.
//!
//! `cargo run --release --example echo -- [clients] [round trips of each]`

use std::io;
use std::time::{Duration, Instant};

use tiffany::net::{TcpListener, TcpStream};
use tiffany::{cancel, gather, spawn, try_spawn};

/// The latencies of the round trips, and the total time.
#[derive(Debug)]
pub struct Report {
    /// Each round trip, from the fastest to the slowest.
    pub round_trips: Vec<Duration>,
    /// From the first to the last.
    pub elapsed: Duration,
}

impl Report {
    /// Round trips per second.
    pub fn rate(&self) -> f64 {
        self.round_trips.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that this percentage of round trips does not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let at = self.round_trips.len() * percent / 100;
        self.round_trips
            .get(at.min(self.round_trips.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// The whole program: a server, its clients, and their measurements.
pub async fn main_task(clients: usize, rounds: usize) -> io::Result<Report> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(try_spawn(echo(stream)).await);
        }
    })
    .name("server")
    .await;

    let mut tasks = Vec::new();
    for _ in 0..clients {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        tasks.push(stream);
    }
    let began = Instant::now();
    let mut running = Vec::new();
    for stream in tasks {
        running.push(try_spawn(client(stream, rounds)).await);
    }
    let times = gather(running).await.map_err(io::Error::other)?;
    let elapsed = began.elapsed();
    cancel(&server).await;

    let mut round_trips: Vec<Duration> = times.into_iter().flatten().collect();
    round_trips.sort();
    Ok(Report { round_trips, elapsed })
}

/// Sends back everything that arrives, until the peer ends.
async fn echo(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count]).await?,
        }
    }
}

/// Sends a request, waits for its echo, and repeats.
async fn client(stream: TcpStream, rounds: usize) -> io::Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(rounds);
    // Larger than a request, so that a short read shows that the whole request has arrived.
    let mut bytes = [0; 128];
    for _ in 0..rounds {
        let began = Instant::now();
        stream.write_all(&[7; 64]).await?;
        let mut received = 0;
        while received < 64 {
            match stream.read(&mut bytes).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => received += count,
            }
        }
        times.push(began.elapsed());
    }
    Ok(times)
}

#[allow(dead_code, reason = "a test that includes this file has its own")]
fn main() -> Result<(), tiffany::RunError> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().ok());
    let clients = numbers.next().flatten().unwrap_or(20);
    let rounds = numbers.next().flatten().unwrap_or(500);
    let report = tiffany::try_run(main_task(clients, rounds))?;
    println!("{clients} clients, {rounds} round trips each: {:.0} requests/s", report.rate());
    for percent in [50, 90, 99, 100] {
        println!("  {percent:>3}% within {:?}", report.percentile(percent));
    }
    Ok(())
}
