//! The socket's side of the process that owns the directory: one thread serves thousands of
//! connections. A connection has one request under way at a time, and costs a descriptor while it
//! is idle. If there is no room for another one, the connection that was idle for longest is
//! closed; its client connects again when it has a request.

use std::io::{self, ErrorKind as Io, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::net::RecvFlags;
use rustix::process::{Resource, getrlimit};
use slab::Slab;
use tiffany_kernel::{ErrorKind, TaskError};

use super::audit_thread::{AuditThread, Job};
use super::socket::House;
use super::{ANSWER_TIMEOUT, answer_at_once, runtime_gone, slow_answer};
use crate::control::audit_hook;
use crate::control::audit_hook::Finish;
use crate::control::event_stream;
use crate::host::tell::Tell;
use tiffany_log::not_inherited::NotInherited;
use tiffany_records::activity::Wanted;
use tiffany_records::request::{Outcome, Request};

/// How long a request may be.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;
/// How much of unfinished requests is kept in all.
const MAX_BUFFERED_BYTES: usize = 256 << 20;
/// Requests up to this size are never refused for want of memory.
const SMALL_REQUEST_BYTES: usize = 64 << 10;
/// Connections at once, where the limit on descriptors allows as many.
const MAX_CONNECTIONS: usize = 4096;
const MIN_CONNECTIONS: usize = 32;
/// Connections for which there was no room, and which wait to be told so.
const MAX_REFUSED: usize = 64;
/// Streams of events at once, besides. Each has a thread.
const MAX_WATCHING: usize = 64;
/// How long a connection may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a connection for which there was no room waits for its request.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);
/// How often deadlines are checked.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Connections accepted, and bytes read from one of them, before the others have their turn.
const ACCEPT_BATCH: usize = 64;
const READ_BATCH: usize = 256 << 10;
const EVENT_BATCH: usize = 256;

const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// Serves until it is told to end.
pub(super) fn serve(listener: &UnixListener, ending: &AtomicBool, house: &House) {
    let served = Server::new(listener, house).and_then(|mut server| server.run(ending));
    if let Err(error) = served {
        tracing::error!(target: "tiffany", "other processes cannot reach this one any more: {error}");
    }
}

struct Server<'a> {
    listener: &'a UnixListener,
    house: &'a House,
    epoll: OwnedFd,
    connections: Slab<Connection>,
    next_serial: u32,
    answers: Arc<Answers>,
    /// How many streams of events there are.
    watching: Arc<AtomicUsize>,
    /// Bytes of unfinished requests.
    buffered: usize,
    last_sweep: Instant,
    /// Requests that are answered without the loop, and may take long.
    slow: Sender<(Request, Reply)>,
    /// Calls the audit hook for changes, if there is one.
    audit: Option<AuditThread>,
}

struct Connection {
    stream: NotInherited<UnixStream>,
    serial: u32,
    uid: u32,
    pid: i32,
    input: Input,
    output: Vec<u8>,
    state: State,
    /// When that state began, or something was last read or written in it.
    since: Instant,
    /// The number of its last request, by which an answer that comes too late is known.
    request: u64,
    /// The events that epoll was asked for.
    interest: EventFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It may send a request.
    Open,
    /// Its request is under way.
    Asked,
    /// There was no room for it.
    Refused,
    /// It is closed as soon as the output is written.
    Closing,
}

/// The input that was received so far.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    /// No line ends before this. A long request comes in pieces, and what was looked through is not looked through again.
    looked_until: usize,
}

impl Input {
    fn extend(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// Whether a whole request is there.
    fn has_line(&mut self) -> bool {
        let found = memchr::memchr(b'\n', &self.bytes[self.looked_until..]);
        self.looked_until = found.map_or(self.bytes.len(), |at| self.looked_until + at);
        found.is_some()
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        if !self.has_line() {
            return None;
        }
        let rest = self.bytes.split_off(self.looked_until + 1);
        self.looked_until = 0;
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

impl Connection {
    fn is_idle(&self) -> bool {
        self.state == State::Open && self.input.bytes.is_empty() && self.output.is_empty()
    }

    /// Whether there is input that was not read yet.
    fn has_input(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let mut byte = [0u8; 1];
        rustix::net::recv(&*self.stream, &mut byte[..], flags).is_ok_and(|(count, _)| count > 0)
    }

    /// How long it may stay as it is.
    fn timeout(&self) -> Duration {
        match self.state {
            State::Refused => REFUSED_TIMEOUT,
            _ if self.is_idle() => IDLE_TIMEOUT,
            _ => ANSWER_TIMEOUT,
        }
    }
}

/// Answers on their way from the threads that have them to the one that sends them.
struct Answers {
    told: Mutex<Told>,
    bell: OwnedFd,
}

#[derive(Default)]
struct Told {
    queue: Vec<(Asker, Outcome)>,
    /// No answers are sent any more.
    is_closed: bool,
}

/// The connection that asked, and the number of its request.
type Asker = (u64, u64);

impl Answers {
    fn push(&self, to: Asker, answer: Outcome) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_closed {
            return;
        }
        told.queue.push((to, answer));
        // The counter cannot overflow in practice, and a full one would still wake the server.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// Takes the answer to one request. If it is dropped, there will be no answer.
pub(super) struct Reply {
    to: Asker,
    answers: Arc<Answers>,
    /// The hook that notes the outcome of a change first, and the thread that calls it.
    finish: Option<(Finish, Sender<Job>)>,
    is_told: bool,
}

impl Reply {
    fn new(to: Asker, answers: &Arc<Answers>) -> Reply {
        Reply { to, answers: Arc::clone(answers), finish: None, is_told: false }
    }

    /// A reply whose answer is noted before it is sent.
    pub(super) fn noted_by(mut self, finish: Option<Finish>, audit: Sender<Job>) -> Reply {
        self.finish = finish.map(|finish| (finish, audit));
        self
    }

    pub(super) fn tell(mut self, answer: Outcome) {
        self.put(answer);
    }

    fn put(&mut self, answer: Outcome) {
        self.is_told = true;
        let Some((finish, audit)) = self.finish.take() else {
            return self.answers.push(self.to, answer);
        };
        let reply = Reply::new(self.to, &self.answers);
        if let Err(SendError(Job::Finish(finish, answer, mut reply))) =
            audit.send(Job::Finish(finish, answer, reply))
        {
            // That thread has ended. No client gets the answer, but the change is noted.
            reply.put(audit_hook::finish(Some(finish), answer));
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_told {
            self.put(Err(runtime_gone()));
        }
    }
}

impl<'a> Server<'a> {
    fn new(listener: &'a UnixListener, house: &'a House) -> io::Result<Server<'a>> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        // Edge-triggered: every ring is an event, so the counter never needs to be read.
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        let (slow, asked) = channel();
        let inbox = Arc::clone(&house.inbox);
        let answers = move |asked: Receiver<(Request, Reply)>| {
            for (request, reply) in asked {
                reply.tell(answer_at_once(&inbox, &request).ok_or_else(runtime_gone));
            }
        };
        std::thread::Builder::new().name("tiffany-metrics".into()).spawn(move || answers(asked))?;
        let audit_hook = house.audit_hook.clone();
        let audit =
            audit_hook.map(|audit_hook| AuditThread::start(audit_hook, Arc::clone(&house.inbox)));
        Ok(Server {
            listener,
            house,
            epoll,
            connections: Slab::new(),
            next_serial: 0,
            answers: Arc::new(Answers { told: Mutex::default(), bell }),
            watching: Arc::default(),
            buffered: 0,
            last_sweep: Instant::now(),
            slow,
            audit: audit.transpose()?,
        })
    }

    fn run(&mut self, ending: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENT_BATCH);
        while !ending.load(Ordering::SeqCst) {
            events.clear();
            let wait = (!self.connections.is_empty()).then(|| timespec(SWEEP_EVERY));
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    BELL => self.take_answers(),
                    token => self.happened(token, event.flags),
                }
            }
            if self.last_sweep.elapsed() >= SWEEP_EVERY {
                self.sweep();
            }
        }
        self.end();
        Ok(())
    }

    /// Sends the answers so far, and tells the other clients that there will be none.
    fn end(&mut self) {
        self.take_answers();
        let waiting =
            |(slot, one): (usize, &Connection)| (one.state == State::Asked).then_some(slot);
        let waiting: Vec<usize> = self.connections.iter().filter_map(waiting).collect();
        waiting.into_iter().for_each(|slot| self.answer(slot, Err(runtime_gone())));
        let mut told = self.answers.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.is_closed = true;
        drop(told);
        if let Some(audit) = self.audit.take() {
            audit.end();
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT_BATCH {
            // A child that is forked must not keep the connection open after this process has died.
            match NotInherited::open(|| self.listener.accept().map(|(stream, _)| stream)) {
                Ok(stream) => self.enter(stream),
                Err(error) if error.kind() == Io::WouldBlock => return,
                Err(error) if error.kind() == Io::Interrupted => {}
                // No descriptor is free.
                Err(_) if self.reclaim(|_| true) => {}
                Err(_) => return std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn enter(&mut self, stream: NotInherited<UnixStream>) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&*stream) else { return };
        if !(peer.uid == rustix::process::geteuid() || peer.uid.is_root()) {
            return;
        }
        let pid = peer.pid.as_raw_nonzero().get();
        let state = if self.has_room_for(pid) { State::Open } else { State::Refused };
        let is_crowded = self.connections.len() >= max_connections() + MAX_REFUSED;
        if is_crowded || stream.set_nonblocking(true).is_err() {
            return;
        }
        let (serial, interest) = (self.next_serial, EventFlags::IN);
        self.next_serial = serial.wrapping_add(1);
        let token = token(self.connections.vacant_key(), serial);
        if epoll::add(&self.epoll, &*stream, EventData::new_u64(token), interest).is_err() {
            return;
        }
        self.connections.insert(Connection {
            stream,
            serial,
            uid: peer.uid.as_raw(),
            pid,
            input: Input::default(),
            output: Vec::new(),
            state,
            since: Instant::now(),
            request: 0,
            interest,
        });
    }

    /// Whether a process may have one more connection. One process alone may have half of them, so that others
    /// always find room.
    fn has_room_for(&mut self, pid: i32) -> bool {
        let max = max_connections();
        if self.connections.len() < max / 2 {
            return true;
        }
        let own = self.connections.iter().filter(|(_, one)| one.pid == pid).count();
        match own >= max / 2 {
            true => self.reclaim(|one| one.pid == pid),
            false => self.connections.len() < max || self.reclaim(|_| true),
        }
    }

    /// Closes the connection that was idle for longest. `false`: none of them is idle.
    fn reclaim(&mut self, may_go: impl Fn(&Connection) -> bool) -> bool {
        let idle = self.connections.iter().filter(|(_, one)| one.is_idle() && may_go(one));
        let mut idle: Vec<(usize, &Connection)> = idle.collect();
        idle.sort_unstable_by_key(|(_, one)| one.since);
        let slot = idle.iter().find(|(_, one)| !one.has_input()).map(|(slot, _)| *slot);
        slot.map(|slot| self.close(slot)).is_some()
    }

    fn happened(&mut self, token: u64, flags: EventFlags) {
        let Some(slot) = self.slot_of(token) else { return };
        // What it asked for is done all the same.
        if flags.intersects(EventFlags::ERR | EventFlags::HUP) && !flags.contains(EventFlags::IN) {
            return self.close(slot);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(slot);
        }
        if flags.contains(EventFlags::IN) && self.connections.contains(slot) {
            self.read(slot);
        }
        self.go_on(slot);
    }

    fn slot_of(&self, token: u64) -> Option<usize> {
        let (slot, serial) = ((token & 0xffff_ffff) as usize, (token >> 32) as u32);
        // An event may be older than the connection that has its place now.
        self.connections.get(slot).filter(|one| one.serial == serial).map(|_| slot)
    }

    fn read(&mut self, slot: usize) {
        let mut chunk = [0; 16 << 10];
        let mut taken = 0;
        while taken < READ_BATCH {
            let connection = &mut self.connections[slot];
            match (&*connection.stream).read(&mut chunk) {
                Ok(0) => return self.close(slot),
                Ok(count) => {
                    taken += count;
                    connection.since = Instant::now();
                    connection.input.extend(&chunk[..count]);
                    self.buffered += count;
                    if chunk[..count].contains(&b'\n') {
                        return;
                    }
                    if let Some(why) = self.too_much(slot) {
                        return self.refuse(slot, why);
                    }
                }
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if error.kind() == Io::WouldBlock => return,
                Err(_) => return self.close(slot),
            }
        }
    }

    fn too_much(&self, slot: usize) -> Option<String> {
        let length = self.connections[slot].input.bytes.len();
        if length > MAX_LINE_BYTES {
            return Some(format!("the request has more than {MAX_LINE_BYTES} bytes"));
        }
        (length > SMALL_REQUEST_BYTES && self.buffered > MAX_BUFFERED_BYTES)
            .then(|| "too many large requests arrive at once; try again later".into())
    }

    /// Begins the next request, if nothing is under way and a whole one is there.
    fn go_on(&mut self, slot: usize) {
        while let Some(connection) = self.connections.get_mut(slot) {
            let may_ask = matches!(connection.state, State::Open | State::Refused)
                && connection.output.is_empty();
            let Some(line) = may_ask.then(|| connection.input.take_line()).flatten() else {
                return self.listen_to(slot);
            };
            self.buffered -= line.len();
            self.take_request(slot, &line);
        }
    }

    fn take_request(&mut self, slot: usize, line: &[u8]) {
        if self.connections[slot].state == State::Refused {
            let max = max_connections();
            let message = format!(
                "there is no room for another connection to this process: it takes {max}, half of them from one client, and all are busy; try again later"
            );
            return self.refuse(slot, message);
        }
        match serde_json::from_slice::<Request>(line) {
            Ok(Request::Events(wanted)) => self.watch(slot, wanted),
            Ok(request) => self.ask(slot, request),
            Err(error) => {
                let message = format!("the request cannot be read: {error}");
                self.answer(slot, Err(TaskError::new(ErrorKind::BadArgument, message)));
            }
        }
    }

    fn ask(&mut self, slot: usize, request: Request) {
        let connection = &mut self.connections[slot];
        let request = request.asked_by_user(connection.uid);
        (connection.state, connection.since) = (State::Asked, Instant::now());
        connection.request += 1;
        let to = (token(slot, connection.serial), connection.request);
        let reply = Reply::new(to, &self.answers);
        match (request, &self.audit) {
            (request @ (Request::Metrics | Request::LongTurns), _) => {
                drop(self.slow.send((request, reply)));
            }
            (request, Some(audit)) if request.changes().is_some() => {
                audit.begin(connection.uid, request, reply);
            }
            (request, _) => {
                let tell = Tell::by(move |answer| reply.tell(answer));
                self.house.inbox.ask(request, tell);
            }
        }
    }

    fn take_answers(&mut self) {
        let queue = {
            let mut told = self.answers.told.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut told.queue)
        };
        for ((token, request), answer) in queue {
            let Some(slot) = self.slot_of(token) else { continue };
            let connection = &self.connections[slot];
            // It may have been told already that this takes too long.
            if (connection.state, connection.request) == (State::Asked, request) {
                self.answer(slot, answer);
                self.go_on(slot);
            }
        }
    }

    fn answer(&mut self, slot: usize, answer: Outcome) {
        let connection = &mut self.connections[slot];
        if connection.state != State::Closing {
            connection.state = State::Open;
        }
        connection.since = Instant::now();
        let line = serde_json::to_vec(&answer);
        // An answer is JSON; if one were not, it would be better to say nothing.
        let Ok(line) = line else { return self.close(slot) };
        connection.output.extend_from_slice(&line);
        connection.output.push(b'\n');
        self.flush(slot);
    }

    /// Says why nothing comes of its request, and closes it.
    fn refuse(&mut self, slot: usize, message: String) {
        self.connections[slot].state = State::Closing;
        self.answer(slot, Err(TaskError::new(ErrorKind::Unreachable, message)));
    }

    /// Writes as much as the other side takes.
    fn flush(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let mut written = 0;
        while written < connection.output.len() {
            match (&*connection.stream).write(&connection.output[written..]) {
                Ok(0) => return self.close(slot),
                Ok(count) => (written, connection.since) = (written + count, Instant::now()),
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if error.kind() == Io::WouldBlock => break,
                Err(_) => return self.close(slot),
            }
        }
        connection.output.drain(..written);
        if connection.output.is_empty() && connection.state == State::Closing {
            self.close(slot);
        }
    }

    /// Tells epoll what is waited for now.
    fn listen_to(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let wanted = match (connection.output.is_empty(), connection.state) {
            (false, _) => EventFlags::OUT,
            (true, State::Open | State::Refused) => EventFlags::IN,
            (true, State::Asked | State::Closing) => EventFlags::empty(),
        };
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        let data = EventData::new_u64(token(slot, connection.serial));
        if epoll::modify(&self.epoll, &*connection.stream, data, wanted).is_err() {
            self.close(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        drop(self.take(slot));
    }

    fn take(&mut self, slot: usize) -> NotInherited<UnixStream> {
        let connection = self.connections.remove(slot);
        self.buffered -= connection.input.bytes.len();
        let _ = epoll::delete(&self.epoll, &*connection.stream);
        connection.stream
    }

    /// From now on the connection is a stream, with a thread of its own.
    fn watch(&mut self, slot: usize, wanted: Wanted) {
        if self.watching.load(Ordering::SeqCst) >= MAX_WATCHING {
            let message = format!("{MAX_WATCHING} others watch this process; try again later");
            return self.answer(slot, Err(TaskError::new(ErrorKind::Unreachable, message)));
        }
        let (stream, hub) = (self.take(slot), self.house.hub.clone());
        let count = Count::new(&self.watching);
        let watch = move || {
            let _count = count;
            let is_ready = stream.set_nonblocking(false).is_ok()
                && stream.set_write_timeout(Some(ANSWER_TIMEOUT)).is_ok();
            // The other side may be gone at any time.
            drop(is_ready.then(|| event_stream::serve(&stream, &hub, wanted)));
        };
        drop(std::thread::Builder::new().name("tiffany-control".into()).spawn(watch));
    }

    /// Ends what takes too long.
    fn sweep(&mut self) {
        self.last_sweep = Instant::now();
        let late = |(slot, one): (usize, &Connection)| {
            (one.since.elapsed() > one.timeout()).then_some((slot, one.state))
        };
        let late: Vec<(usize, State)> = self.connections.iter().filter_map(late).collect();
        for (slot, state) in late {
            match state {
                State::Asked => {
                    self.answer(slot, Err(slow_answer(&self.house.inbox)));
                    self.go_on(slot);
                }
                State::Open | State::Refused | State::Closing => self.close(slot),
            }
        }
    }
}

/// Counts the streams of events.
struct Count(Arc<AtomicUsize>);

impl Count {
    fn new(count: &Arc<AtomicUsize>) -> Count {
        count.fetch_add(1, Ordering::SeqCst);
        Count(Arc::clone(count))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many connections there may be: a quarter of what the process may have open, within bounds.
fn max_connections() -> usize {
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let share = usize::try_from(open / 4).unwrap_or(usize::MAX);
    share.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS)
}

fn token(slot: usize, serial: u32) -> u64 {
    slot as u64 | u64::from(serial) << 32
}

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_pieces_is_looked_through_once() {
        let mut input = Input::default();
        for count in 1..=1000 {
            input.extend(b"0123456789");
            assert_eq!(input.take_line(), None);
            assert_eq!(input.looked_until, 10 * count);
        }
        input.extend(b"end\nnext\nrest");
        assert_eq!(input.take_line().unwrap().len(), 10_004);
        assert_eq!(input.take_line().unwrap(), b"next\n");
        assert_eq!(input.take_line(), None);
        assert_eq!(input.bytes, b"rest");
    }
}
