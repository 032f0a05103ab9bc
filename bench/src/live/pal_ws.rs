//! `pal_ws`: the time from `progress()` until a WebSocket client has read the event. A durable run
//! of a daemon in a process of its own reports the time every few milliseconds. A single client on
//! the same machine compares it with the same system clock. The figure is the median; `p99` and
//! `most` are shown next to it.
//!
//! `raw` is the same between two threads over a plain TCP connection: the time that the machine
//! needs to wake a waiting thread.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use tiffany::pal::progress;
use tiffany::{TaskError, sleep};

use super::house::{House, read};
use super::line::{Line, on_this_thread};
use crate::durable::{Place, settle};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The pause between two events, in which all threads go to sleep again.
const PAUSE: Duration = Duration::from_millis(3);

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "pal_ws",
        what: "from progress() to a WebSocket client, median",
        unit: "ms",
        better: Better::Lower,
        targets: vec![Target::Figure(1.0), Target::Beside("p99", 5.0)],
        rounds: 5,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| tiffany(&place, mode)),
            Contender::fallible("raw", |mode| raw(count(mode)).map_err(super::line::broken)),
        ],
    }
}

fn count(mode: Mode) -> usize {
    mode.pick(1_000, 20)
}

/// Returns the nanoseconds of the system's monotonic clock, which is the same in all processes.
fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reports the time this many times.
pub(super) async fn ticks(count: u64) -> Result<u64, TaskError> {
    tiffany::durable::receive::<()>("go").await?;
    for _ in 0..count {
        sleep(PAUSE).await;
        progress(clock(), None, "").await;
    }
    Ok(count)
}

fn tiffany(place: &Place, mode: Mode) -> Taken {
    let house = House::open(place)?;
    let count = count(mode);
    house.start("ticks", "ticks", count)?;
    settle();
    let late = on_this_thread(async {
        let mut line = Line::open(house.address).await?;
        line.upgrade("/api/v1/runs/ticks/events").await?;
        line.message().await?;
        let mut other = Line::open(house.address).await?;
        let go = super::line::request(
            "POST",
            "/api/v1/runs/ticks/messages",
            r#"{"name":"go","message":null}"#,
        );
        other.expect(&go, 204).await?;
        let mut late = Vec::with_capacity(count);
        while late.len() < count {
            let message = line.message().await?;
            let now = clock();
            match read::<Message>(message)? {
                Message {
                    event: Some(Event { data: Some(Data { done: Some(told) }) }), ..
                } => {
                    late.push(now - told);
                }
                Message { lost: Some(lost), .. } => return Err(format!("{lost} were lost")),
                _ => {}
            }
        }
        Ok(late)
    })??;
    Ok(sample(late))
}

/// The parts of a message that are needed here.
#[derive(Deserialize)]
struct Message {
    event: Option<Event>,
    lost: Option<u64>,
}

#[derive(Deserialize)]
struct Event {
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    done: Option<u64>,
}

fn raw(count: usize) -> std::io::Result<Sample> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut write = TcpStream::connect(listener.local_addr()?)?;
    write.set_nodelay(true)?;
    let (mut read, _) = listener.accept()?;
    let told = std::thread::spawn(move || {
        for _ in 0..count {
            std::thread::sleep(PAUSE);
            write.write_all(&clock().to_ne_bytes())?;
        }
        std::io::Result::Ok(())
    });
    let mut late = Vec::with_capacity(count);
    let mut bytes = [0; 8];
    for _ in 0..count {
        read.read_exact(&mut bytes)?;
        late.push(clock() - u64::from_ne_bytes(bytes));
    }
    drop(told.join());
    Ok(sample(late))
}

fn sample(mut late: Vec<u64>) -> Sample {
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    Sample::of(at(0.5)).beside("p99", at(0.99)).beside("most", at(1.0))
}
