//! Events through the socket. After a request for events, the connection is a stream of lines until
//! one side closes it. A slow reader delays only the thread that writes to it, and is informed
//! about the events that it lost.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use serde::{Deserialize, Serialize};
use tiffany_kernel::TaskError;

use crate::activity::hub::Hub;
use crate::activity::subscription::{Subscription, Told};
use crate::control::socket::{lost, write_line};
use crate::control::transport::EventSource;
use tiffany_records::activity::{Activity, Beginning, Wanted};
use tiffany_records::request::Answer;

/// How often a thread that waits for events or writes them checks whether the other side still
/// exists.
const LOOK: Duration = Duration::from_secs(1);

/// How many lines are written at once.
const HANDFUL: usize = 64;

/// A line of the stream.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<A> {
    /// An event.
    Event(A),
    /// The number of events that were lost.
    Lost(u64),
    /// All earlier events were sent.
    UpToDate,
    /// The runtime has ended.
    End,
    /// The log of the runtime has failed.
    Failed(TaskError),
}

/// An event that others read too.
struct Shared(Arc<Activity>);

impl Serialize for Shared {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl From<Told> for Line<Shared> {
    fn from(told: Told) -> Line<Shared> {
        match told {
            Told::Event(event) => Line::Event(Shared(event)),
            Told::Lost { count } => Line::Lost(count),
        }
    }
}

/// The event at which a new stream begins.
fn beginning_of(hub: &Hub) -> Beginning {
    Beginning { epoch: hub.epoch(), next_seq: hub.next_seq() }
}

/// Writes events until the other side is gone, or the runtime is, or its log has failed.
pub(crate) fn serve(stream: &UnixStream, hub: &Hub, wanted: Wanted) -> io::Result<()> {
    let mut events = hub.subscribe(wanted);
    let beginning: Result<Answer, TaskError> = Ok(Answer::Streaming(beginning_of(hub)));
    write_line(stream, &beginning)?;
    stream.set_write_timeout(Some(LOOK))?;
    let (mut lines, mut is_up_to_date) = (Vec::new(), false);
    loop {
        lines.clear();
        let mut is_over = false;
        if is_up_to_date {
            let line = match (events.next_timeout(LOOK), hub.failure()) {
                (Ok(Some(told)), _) => Line::from(told),
                (_, Some(error)) => Line::Failed(error.clone()),
                (Ok(None), None) => Line::End,
                (Err(_), None) if is_gone(stream) => return Ok(()),
                (Err(_), None) => continue,
            };
            is_over = matches!(line, Line::End | Line::Failed(_));
            put(&mut lines, &line)?;
        }
        for _ in 0..HANDFUL {
            let Some(more) = events.try_next() else {
                if !std::mem::replace(&mut is_up_to_date, true) {
                    put(&mut lines, &Line::UpToDate)?;
                }
                break;
            };
            put(&mut lines, &Line::from(more))?;
        }
        write_all(stream, &lines, &events)?;
        if is_over {
            return Ok(());
        }
    }
}

fn put(lines: &mut Vec<u8>, line: &Line<Shared>) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, line)?;
    lines.push(b'\n');
    Ok(())
}

/// Writes all bytes, however long the other side takes, while the runtime exists.
fn write_all(mut stream: &UnixStream, mut bytes: &[u8], events: &Subscription) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_slow(&error) && !events.is_closed() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the other side has closed the connection. Its input is ignored meanwhile.
fn is_gone(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(stream, &mut [0u8; 1][..], flags) {
        Ok((count, _)) => count == 0,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Events of a runtime: of this process, or of the one that has a directory.
pub struct Watching {
    beginning: Beginning,
    from: Source,
}

enum Source {
    Here { events: Subscription, is_up_to_date: bool },
    Socket { reader: BufReader<UnixStream>, line: Vec<u8> },
    Other(Box<dyn EventSource>),
}

/// The result of waiting for the next event.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// An event or a gap.
    Told(Told),
    /// All earlier events were returned, and the next ones are new. This is returned once.
    UpToDate,
    /// No event came in time.
    Nothing,
    /// The runtime ended in an orderly way.
    Over,
}

impl Watching {
    pub(crate) fn here(hub: &Hub, wanted: Wanted) -> Watching {
        let beginning = beginning_of(hub);
        let from = Source::Here { events: hub.subscribe(wanted), is_up_to_date: false };
        Watching { beginning, from }
    }

    pub(crate) fn socket(reader: BufReader<UnixStream>, beginning: Beginning) -> Watching {
        Watching { beginning, from: Source::Socket { reader, line: Vec::new() } }
    }

    /// Events of another transport.
    pub fn over(source: Box<dyn EventSource>, beginning: Beginning) -> Watching {
        Watching { beginning, from: Source::Other(source) }
    }

    /// The hub, and its last event when this began.
    pub fn beginning(&self) -> Beginning {
        self.beginning
    }

    /// Returns the next event, and waits no longer than this. An error says that the log of the
    /// runtime has failed, that the other process has disappeared, or that it speaks another
    /// version.
    pub fn next(&mut self, time: Duration) -> Result<Next, TaskError> {
        let (reader, line) = match &mut self.from {
            Source::Here { events, is_up_to_date } if !*is_up_to_date => {
                return Ok(events.try_next().map_or_else(
                    || {
                        *is_up_to_date = true;
                        Next::UpToDate
                    },
                    Next::Told,
                ));
            }
            Source::Here { events, .. } => {
                let next = events.next_timeout(time);
                return match (next, events.failure()) {
                    (Ok(Some(told)), _) => Ok(Next::Told(told)),
                    (_, Some(error)) => Err(error.clone()),
                    (Ok(None), None) => Ok(Next::Over),
                    (Err(_), None) => Ok(Next::Nothing),
                };
            }
            Source::Other(source) => return source.next(time),
            Source::Socket { reader, line } => (reader, line),
        };
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            reader.get_ref().set_read_timeout(Some(left)).map_err(|error| lost(&error))?;
            // The part of a line that was read before the timeout stays there.
            match reader.read_until(b'\n', line) {
                Ok(_) if line.last() == Some(&b'\n') => break,
                Ok(_) => return Err(lost(&io::Error::other("it ended without a word"))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_slow(&error) => {
                    if Instant::now() >= until {
                        return Ok(Next::Nothing);
                    }
                }
                Err(error) => return Err(lost(&error)),
            }
        }
        let read = serde_json::from_slice::<Line<Activity>>(line);
        line.clear();
        match read.map_err(|error| lost(&error.into()))? {
            Line::Event(event) => Ok(Next::Told(Told::Event(Arc::new(event)))),
            Line::Lost(count) => Ok(Next::Told(Told::Lost { count })),
            Line::UpToDate => Ok(Next::UpToDate),
            Line::End => Ok(Next::Over),
            Line::Failed(error) => Err(error),
        }
    }
}
