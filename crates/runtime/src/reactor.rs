//! Readiness of descriptors, by epoll. Each descriptor is registered once, edge-triggered, for both
//! directions. Our own sockets remember their readiness between waits; of a raw descriptor we know
//! nothing but what epoll says, so each wait asks again.
//!
//! This file has `unsafe` code because a raw descriptor is a promise nobody can check.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use slab::Slab;
use tiffany_kernel::{CallRef, ErrorKind, Interest, TaskError};

/// What the bell's events are called.
const BELL: u64 = u64::MAX;

/// How often raw descriptors with waiters are checked for having been closed behind our back.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Wakes a sleeping reactor from any thread.
#[derive(Clone)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn ring(&self) {
        // The counter cannot overflow in practice, and a full one would still wake the reactor.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// Descriptors, and the calls that wait for them.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    bell: Bell,
    sources: Slab<Source>,
    /// From a descriptor's number to its source.
    by_fd: Vec<u32>,
    next_serial: u32,
    events: Vec<epoll::Event>,
    /// Sources that may have another waiter to serve, to be looked at before the next wait.
    look_again: Vec<u32>,
    waiting: usize,
    raw_waiting: usize,
    last_check: Instant,
}

struct Source {
    fd: RawFd,
    serial: u32,
    owned: bool,
    readable: bool,
    writable: bool,
    readers: VecDeque<CallRef>,
    writers: VecDeque<CallRef>,
}

/// The end of a wait.
pub(crate) type Ready = (CallRef, Result<(), TaskError>);

const NO_SOURCE: u32 = u32::MAX;

impl Reactor {
    pub(crate) fn new() -> std::io::Result<Reactor> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        // Edge-triggered: every ring is an event, so the counter never needs to be read.
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        Ok(Reactor {
            epoll,
            bell: Bell(Arc::new(bell)),
            sources: Slab::new(),
            by_fd: Vec::new(),
            next_serial: 0,
            events: Vec::with_capacity(256),
            look_again: Vec::new(),
            waiting: 0,
            raw_waiting: 0,
            last_check: Instant::now(),
        })
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// How many calls wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Registers a descriptor of ours. It must be given back with `remove_owned` before it is closed.
    pub(crate) fn add_owned(&mut self, fd: BorrowedFd<'_>) -> std::io::Result<()> {
        if let Some(stale) = self.source_of(fd.as_raw_fd()) {
            // A raw descriptor of this number was closed without our knowledge.
            let mut ready = Vec::new();
            self.forget(stale, &mut ready);
        }
        self.register(fd, true).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Takes back a descriptor of ours; whoever waits for it learns that it is closed.
    pub(crate) fn remove_owned(&mut self, fd: BorrowedFd<'_>, ready: &mut Vec<Ready>) {
        if let Some(source) = self.source_of(fd.as_raw_fd()) {
            let _ = epoll::delete(&self.epoll, fd);
            self.forget(source, ready);
        }
    }

    /// Whether one of our descriptors may be read, as far as we know.
    pub(crate) fn is_ready(&self, fd: RawFd, interest: Interest) -> bool {
        self.source_of(fd).is_some_and(|source| self.sources[source as usize].is_ready(interest))
    }

    /// One of our descriptors turned out not to be ready.
    pub(crate) fn not_ready(&mut self, fd: RawFd, interest: Interest) {
        if let Some(source) = self.source_of(fd) {
            self.sources[source as usize].set_ready(interest, false);
        }
    }

    /// A call waits for a descriptor. What is known at once goes to `ready`.
    pub(crate) fn watch(
        &mut self,
        call: CallRef,
        fd: RawFd,
        interest: Interest,
        ready: &mut Vec<Ready>,
    ) {
        let source = match self.source_of(fd) {
            Some(source) if self.sources[source as usize].owned => {
                if self.sources[source as usize].is_ready(interest) {
                    ready.push((call, Ok(())));
                    return;
                }
                source
            }
            _ => match self.arm_raw(fd) {
                Ok(source) => source,
                // A regular file is always ready.
                Err(Errno::PERM) => return ready.push((call, Ok(()))),
                Err(errno) => {
                    let message = format!("descriptor {fd} cannot be waited for: {errno}");
                    let error = TaskError::new(ErrorKind::BadDescriptor, message);
                    return ready.push((call, Err(error)));
                }
            },
        };
        self.waiting += 1;
        self.raw_waiting += usize::from(!self.sources[source as usize].owned);
        self.sources[source as usize].queue(interest).push_back(call);
    }

    /// A call waits no more.
    pub(crate) fn unwatch(&mut self, call: CallRef, fd: RawFd) {
        let Some(source) = self.source_of(fd) else { return };
        let entry = &mut self.sources[source as usize];
        let before = entry.waiters();
        entry.readers.retain(|other| *other != call);
        entry.writers.retain(|other| *other != call);
        let gone = before - entry.waiters();
        self.waiting -= gone;
        self.raw_waiting -= if entry.owned { 0 } else { gone };
    }

    /// Waits for events: not at all, for some time, or as long as it takes.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> std::io::Result<()> {
        self.serve_again(ready);
        let timeout = match timeout {
            _ if !ready.is_empty() => Some(Duration::ZERO),
            timeout if self.raw_waiting > 0 => {
                Some(timeout.map_or(CHECK_EVERY, |t| t.min(CHECK_EVERY)))
            }
            timeout => timeout,
        };
        match self.poll_events(timeout) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for at in 0..self.events.len() {
            let epoll::Event { flags, data } = self.events[at];
            if data.u64() != BELL {
                self.happened(data.u64(), flags, ready);
            }
        }
        if self.raw_waiting > 0 && self.last_check.elapsed() >= CHECK_EVERY {
            self.check_raw(ready);
        }
        Ok(())
    }

    /// One look at epoll. Its own timeout is in whole milliseconds, so a timer is waited for with `ppoll`.
    fn poll_events(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        self.events.clear();
        let mut timespec = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        if timeout.is_some_and(|timeout| !timeout.is_zero()) {
            let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
            if poll(&mut ready, timespec.as_ref())? == 0 {
                return Ok(());
            }
            timespec = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&self.epoll, buffer, timespec.as_ref())?;
        Ok(())
    }

    /// An event of a source: its first reader and its first writer can go on.
    fn happened(&mut self, data: u64, flags: EventFlags, ready: &mut Vec<Ready>) {
        let (slot, serial) = ((data & 0xffff_ffff) as u32, (data >> 32) as u32);
        let Some(source) = self.sources.get_mut(slot as usize) else { return };
        if source.serial != serial {
            return;
        }
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        source.readable |= broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        source.writable |= broken || flags.contains(EventFlags::OUT);
        self.serve(slot, ready);
    }

    /// Lets the first waiter of each ready direction go on.
    fn serve(&mut self, slot: u32, ready: &mut Vec<Ready>) {
        let source = &mut self.sources[slot as usize];
        let mut served = 0;
        for interest in [Interest::Read, Interest::Write] {
            if source.is_ready(interest)
                && let Some(call) = source.queue(interest).pop_front()
            {
                ready.push((call, Ok(())));
                served += 1;
            }
        }
        if !source.owned {
            (source.readable, source.writable) = (false, false);
        }
        if served > 0 && source.waiters() > 0 {
            self.look_again.push(slot);
        }
        self.waiting -= served;
        self.raw_waiting -= if self.sources[slot as usize].owned { 0 } else { served };
    }

    /// Sources that had more waiters than one: the next is served if there is still something for it.
    fn serve_again(&mut self, ready: &mut Vec<Ready>) {
        for slot in std::mem::take(&mut self.look_again) {
            match self.sources.get(slot as usize) {
                Some(source) if source.owned => self.serve(slot, ready),
                Some(source) => {
                    let fd = source.fd;
                    if let Err(errno) = self.arm_raw(fd) {
                        self.fail_raw(slot, errno, ready);
                    }
                }
                None => {}
            }
        }
    }

    /// Asks epoll about a raw descriptor: it tells of what is there now as of what comes.
    fn arm_raw(&mut self, fd: RawFd) -> Result<u32, Errno> {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: not -1. If it is not open, or not what it was, epoll answers with an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let Some(slot) = self.source_of(fd) else { return self.register(borrowed, false) };
        let source = &self.sources[slot as usize];
        let data = EventData::new_u64(token(slot, source.serial));
        match epoll::modify(&self.epoll, borrowed, data, interests()) {
            Ok(()) => Ok(slot),
            // Closed and opened again: another file under the same number.
            Err(Errno::NOENT) if source.waiters() == 0 => {
                self.sources.remove(slot as usize);
                self.by_fd[fd as usize] = NO_SOURCE;
                self.register(borrowed, false)
            }
            Err(errno) => Err(errno),
        }
    }

    fn register(&mut self, fd: BorrowedFd<'_>, owned: bool) -> Result<u32, Errno> {
        let serial = self.next_serial;
        let slot = self.sources.vacant_key() as u32;
        let data = EventData::new_u64(token(slot, serial));
        match epoll::add(&self.epoll, fd, data, interests()) {
            // Left behind by a descriptor that was closed while a copy of it stayed open.
            Err(Errno::EXIST) => epoll::modify(&self.epoll, fd, data, interests())?,
            added => added?,
        }
        self.next_serial = serial.wrapping_add(1);
        let raw = fd.as_raw_fd();
        self.sources.insert(Source {
            fd: raw,
            serial,
            owned,
            // What is there when it is registered comes as its first event.
            readable: false,
            writable: owned,
            readers: VecDeque::new(),
            writers: VecDeque::new(),
        });
        if self.by_fd.len() <= raw as usize {
            self.by_fd.resize(raw as usize + 1, NO_SOURCE);
        }
        self.by_fd[raw as usize] = slot;
        Ok(slot)
    }

    fn source_of(&self, fd: RawFd) -> Option<u32> {
        let slot = *self.by_fd.get(usize::try_from(fd).ok()?)?;
        (slot != NO_SOURCE).then_some(slot)
    }

    /// Looks for raw descriptors that were closed although somebody waits for them.
    fn check_raw(&mut self, ready: &mut Vec<Ready>) {
        self.last_check = Instant::now();
        let waited: Vec<(u32, RawFd)> = self
            .sources
            .iter()
            .filter(|(_, source)| !source.owned && source.waiters() > 0)
            .map(|(slot, source)| (slot as u32, source.fd))
            .collect();
        for (slot, fd) in waited {
            if let Err(errno) = self.arm_raw(fd) {
                self.fail_raw(slot, errno, ready);
            }
        }
    }

    fn fail_raw(&mut self, slot: u32, _: Errno, ready: &mut Vec<Ready>) {
        self.forget(slot, ready);
    }

    /// Forgets a source; whoever waits for it learns that it is closed.
    fn forget(&mut self, slot: u32, ready: &mut Vec<Ready>) {
        let source = self.sources.remove(slot as usize);
        self.by_fd[source.fd as usize] = NO_SOURCE;
        self.waiting -= source.waiters();
        self.raw_waiting -= if source.owned { 0 } else { source.waiters() };
        for call in source.readers.into_iter().chain(source.writers) {
            let message = format!("descriptor {} was closed while a task waited for it", source.fd);
            ready.push((call, Err(TaskError::new(ErrorKind::DescriptorClosed, message))));
        }
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Source {
    fn is_ready(&self, interest: Interest) -> bool {
        match interest {
            Interest::Read => self.readable,
            Interest::Write => self.writable,
        }
    }

    fn set_ready(&mut self, interest: Interest, ready: bool) {
        match interest {
            Interest::Read => self.readable = ready,
            Interest::Write => self.writable = ready,
        }
    }

    fn queue(&mut self, interest: Interest) -> &mut VecDeque<CallRef> {
        match interest {
            Interest::Read => &mut self.readers,
            Interest::Write => &mut self.writers,
        }
    }

    fn waiters(&self) -> usize {
        self.readers.len() + self.writers.len()
    }
}

fn interests() -> EventFlags {
    EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
}

fn token(slot: u32, serial: u32) -> u64 {
    u64::from(slot) | u64::from(serial) << 32
}
