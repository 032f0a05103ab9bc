//! Readiness of descriptors, with epoll. Each descriptor is registered once, edge-triggered, for
//! both directions. The readiness of the crate's own sockets is remembered between waits; for a raw
//! descriptor only epoll knows it, so each wait asks again.
//!
//! This file has `unsafe` code because nothing can check that a raw descriptor is open.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use slab::Slab;
use tiffany_kernel::{CallRef, ErrorKind, Interest, TaskError};

use crate::line::Line;
use tiffany_log::not_inherited::NotInherited;

/// The data of the bell's events.
const BELL: u64 = u64::MAX;

/// How often raw descriptors with waiters are checked for having been closed elsewhere.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The longest wait. Milliseconds in 32 bits end after 24 days.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Wakes a sleeping reactor from any thread.
#[derive(Clone)]
pub(crate) struct Bell(Arc<NotInherited<OwnedFd>>);

impl Bell {
    pub(crate) fn ring(&self) {
        // The counter cannot overflow in practice, and a full one would still wake the reactor.
        let _ = rustix::io::write(&**self.0, &1u64.to_ne_bytes());
    }
}

/// Descriptors, and the calls that wait for them. A forked child shares neither the epoll instance
/// nor the bell, because it would take events of its parent.
pub(crate) struct Reactor {
    epoll: NotInherited<OwnedFd>,
    bell: Bell,
    sources: Slab<Source>,
    /// From a descriptor's number to its source.
    by_fd: Vec<u32>,
    next_serial: u32,
    events: Vec<epoll::Event>,
    /// Sources that may have another waiter to serve, to be checked before the next wait.
    look_again: Vec<u32>,
    /// Waits that ended because their descriptor was closed, to be reported at the next wait.
    closed: Vec<Ready>,
    raw_waiting: usize,
    last_check: Instant,
}

struct Source {
    fd: RawFd,
    serial: u32,
    owner: Owner,
    readers: Line<CallRef>,
    writers: Line<CallRef>,
}

/// The owner of a descriptor.
enum Owner {
    /// This crate: it cannot be closed without the reactor's knowledge.
    Us(Rc<Readiness>),
    /// Unknown: the program passed its number.
    Unknown,
}

/// The end of a wait.
pub(crate) type Ready = (CallRef, Result<(), TaskError>);

const NO_SOURCE: u32 = u32::MAX;

/// The known readiness of an owned descriptor. It is shared with its owner, so that reading it
/// needs no look-up.
pub(crate) struct Readiness(Cell<u8>);

impl Readiness {
    const READABLE: u8 = 1;
    const WRITABLE: u8 = 2;
    /// The peer will send no more. This is final, and epoll reports it once.
    const READ_CLOSED: u8 = 4;
    const WRITE_CLOSED: u8 = 8;

    #[inline]
    pub(crate) fn is_ready(&self, interest: Interest) -> bool {
        self.0.get() & bits_of(interest) != 0
    }

    /// Notes that the system said that it would block.
    #[inline]
    pub(crate) fn would_block(&self, interest: Interest) {
        self.0.set(self.0.get() & !bits_of(interest));
    }

    /// Notes that a transfer used up everything. If the peer has closed, the next attempt finds
    /// out.
    #[inline]
    pub(crate) fn used_up(&self, interest: Interest) {
        let bit = match interest {
            Interest::Read => Readiness::READABLE,
            Interest::Write => Readiness::WRITABLE,
        };
        self.0.set(self.0.get() & !bit);
    }

    fn add(&self, bits: u8) {
        self.0.set(self.0.get() | bits);
    }
}

fn bits_of(interest: Interest) -> u8 {
    match interest {
        Interest::Read => Readiness::READABLE | Readiness::READ_CLOSED,
        Interest::Write => Readiness::WRITABLE | Readiness::WRITE_CLOSED,
    }
}

/// The readiness that an event reports. An error ends waits of both directions, once; a hang-up is
/// final.
fn bits_of_event(flags: EventFlags) -> u8 {
    let mut bits = 0;
    if flags.intersects(EventFlags::IN | EventFlags::ERR) {
        bits |= Readiness::READABLE;
    }
    if flags.intersects(EventFlags::OUT | EventFlags::ERR) {
        bits |= Readiness::WRITABLE;
    }
    if flags.intersects(EventFlags::RDHUP | EventFlags::HUP) {
        bits |= Readiness::READ_CLOSED;
    }
    if flags.contains(EventFlags::HUP) {
        bits |= Readiness::WRITE_CLOSED;
    }
    bits
}

/// The readiness that is assumed when a descriptor is registered. The rest comes with its first
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assume {
    Nothing,
    Writable,
}

impl Reactor {
    pub(crate) fn new() -> std::io::Result<Reactor> {
        let epoll = NotInherited::open(|| Ok(epoll::create(epoll::CreateFlags::CLOEXEC)?))?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = NotInherited::open(|| Ok(eventfd(0, flags)?))?;
        // Edge-triggered: every ring is an event, so the counter never needs to be read.
        epoll::add(&*epoll, &*bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        Ok(Reactor {
            epoll,
            bell: Bell(Arc::new(bell)),
            sources: Slab::new(),
            by_fd: Vec::new(),
            next_serial: 0,
            events: Vec::with_capacity(256),
            look_again: Vec::new(),
            closed: Vec::new(),
            raw_waiting: 0,
            last_check: Instant::now(),
        })
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Has a descriptor wake this reactor whenever it is readable, and do nothing else.
    pub(crate) fn wake_by(&self, fd: BorrowedFd<'_>) -> std::io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        match epoll::add(&*self.epoll, fd, EventData::new_u64(BELL), flags) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Registers an owned descriptor. It must be removed with `remove_owned` before it is closed.
    pub(crate) fn add_owned(
        &mut self,
        fd: BorrowedFd<'_>,
        assume: Assume,
    ) -> std::io::Result<Rc<Readiness>> {
        let readiness = Rc::new(Readiness(Cell::new(match assume {
            Assume::Nothing => 0,
            Assume::Writable => Readiness::WRITABLE,
        })));
        let waiters = match self.source_of(fd.as_raw_fd()) {
            Some(slot) => self.replace(slot)?,
            None => Default::default(),
        };
        let slot = self.register(fd, Owner::Us(Rc::clone(&readiness)), both_directions())?;
        let source = &mut self.sources[slot as usize];
        (source.readers, source.writers) = waiters;
        Ok(readiness)
    }

    /// Makes room for an owner whose number is known already, and returns the calls that wait for
    /// it.
    fn replace(&mut self, slot: u32) -> std::io::Result<(Line<CallRef>, Line<CallRef>)> {
        if self.arm(slot, both_directions()).is_err() {
            // Closed without the reactor's knowledge: the number names another file now.
            self.forget(slot);
            return Ok(Default::default());
        }
        if let Owner::Us(_) = self.sources[slot as usize].owner {
            let fd = self.sources[slot as usize].fd;
            let message = format!("descriptor {fd} belongs to another socket or `Async` already");
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, message));
        }
        let source = self.sources.remove(slot as usize);
        self.by_fd[source.fd as usize] = NO_SOURCE;
        self.raw_waiting -= source.waiters();
        Ok((source.readers, source.writers))
    }

    /// Removes an owned descriptor. Calls that wait for it learn that it is closed.
    pub(crate) fn remove_owned(&mut self, fd: BorrowedFd<'_>) {
        if let Some(slot) = self.source_of(fd.as_raw_fd()) {
            let _ = epoll::delete(&*self.epoll, fd);
            self.forget(slot);
        }
    }

    /// Registers a call that waits for a descriptor. If the result is known at once, it is added to
    /// `ready`.
    pub(crate) fn watch(
        &mut self,
        call: CallRef,
        fd: RawFd,
        interest: Interest,
        ready: &mut Vec<Ready>,
    ) {
        let slot = match self.source_of(fd) {
            Some(slot) if self.sources[slot as usize].is_owned() => {
                if self.sources[slot as usize].is_free(interest) {
                    return ready.push((call, Ok(())));
                }
                slot
            }
            known => match self.watch_raw(known, fd, interest) {
                Ok(slot) => slot,
                // A regular file is always ready.
                Err(Errno::PERM) => return ready.push((call, Ok(()))),
                Err(errno) => {
                    let message = format!("descriptor {fd} cannot be waited for: {errno}");
                    let error = TaskError::new(ErrorKind::BadDescriptor, message);
                    return ready.push((call, Err(error)));
                }
            },
        };
        let source = &mut self.sources[slot as usize];
        source.queue(interest).push_back(call);
        match &source.owner {
            Owner::Unknown => self.raw_waiting += 1,
            // The call waits behind others, and the data may be enough for all of them.
            Owner::Us(readiness) if readiness.is_ready(interest) => self.look_again.push(slot),
            Owner::Us(_) => {}
        }
    }

    /// Asks epoll about a raw descriptor: epoll reports present readiness as well as later one.
    fn watch_raw(
        &mut self,
        known: Option<u32>,
        fd: RawFd,
        interest: Interest,
    ) -> Result<u32, Errno> {
        let flags = direction(interest) | EventFlags::ET;
        if let Some(slot) = known {
            let flags = flags | self.sources[slot as usize].waited_for();
            match self.arm(slot, flags) {
                Ok(()) => return Ok(slot),
                // Closed without the reactor's knowledge: the number may name another file now.
                Err(_) => self.forget(slot),
            }
        }
        if fd < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: not -1. If it is not open, epoll answers with an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        self.register(borrowed, Owner::Unknown, flags)
    }

    /// Withdraws the wait of a call.
    pub(crate) fn unwatch(&mut self, call: CallRef, fd: RawFd) {
        let Some(slot) = self.source_of(fd) else { return };
        let source = &mut self.sources[slot as usize];
        let was_there = source.readers.remove(call) || source.writers.remove(call);
        if was_there && !source.is_owned() {
            self.raw_waiting -= 1;
        }
    }

    /// How long a wait may be before raw descriptors must be checked.
    pub(crate) fn longest_wait(&self, timeout: Option<Duration>) -> Option<Duration> {
        if self.raw_waiting == 0 {
            return timeout;
        }
        let check = CHECK_EVERY.saturating_sub(self.last_check.elapsed());
        Some(timeout.map_or(check, |timeout| timeout.min(check)))
    }

    /// Waits for events: not at all, for some time, or without limit.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> std::io::Result<()> {
        self.serve_again(ready);
        ready.append(&mut self.closed);
        let timeout = match ready.is_empty() {
            true => self.longest_wait(timeout),
            false => Some(Duration::ZERO),
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
            self.check_raw();
            ready.append(&mut self.closed);
        }
        Ok(())
    }

    /// Polls epoll once. Its own timeout is in whole milliseconds, so the rest of a timer is waited
    /// for with `ppoll`. A longer wait ends early and is repeated, which loses no events.
    fn poll_events(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        self.events.clear();
        let whole = timeout.map(|timeout| (timeout - sub_millis(timeout)).min(MAX_WAIT));
        if let Some(timeout) = timeout
            && !timeout.is_zero()
            && whole == Some(Duration::ZERO)
        {
            let mut ready = [PollFd::new(&*self.epoll, PollFlags::IN)];
            if poll(&mut ready, Some(&timespec(timeout)))? == 0 {
                return Ok(());
            }
        }
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&*self.epoll, buffer, whole.map(timespec).as_ref())?;
        Ok(())
    }

    /// Handles an event of a source: its first reader and its first writer can continue.
    fn happened(&mut self, data: u64, flags: EventFlags, ready: &mut Vec<Ready>) {
        let (slot, serial) = ((data & 0xffff_ffff) as u32, (data >> 32) as u32);
        let Some(source) = self.sources.get_mut(slot as usize) else { return };
        // An event may be older than the source that has its slot now.
        if source.serial != serial {
            return;
        }
        let mut bits = bits_of_event(flags);
        if let Owner::Us(readiness) = &source.owner {
            readiness.add(bits);
            bits = readiness.0.get();
        }
        self.serve(slot, bits, ready);
    }

    /// Serves the first waiter of each ready direction.
    fn serve(&mut self, slot: u32, bits: u8, ready: &mut Vec<Ready>) {
        let source = &mut self.sources[slot as usize];
        let mut served = 0;
        for interest in [Interest::Read, Interest::Write] {
            if bits & bits_of(interest) != 0
                && let Some(call) = source.queue(interest).pop_front()
            {
                ready.push((call, Ok(())));
                served += 1;
            }
        }
        if !source.is_owned() {
            self.raw_waiting -= served;
        }
        if served > 0 && source.waiters() > 0 {
            self.look_again.push(slot);
        }
    }

    /// Serves the next waiter of sources that had more than one, if there is still something for
    /// it.
    fn serve_again(&mut self, ready: &mut Vec<Ready>) {
        for slot in std::mem::take(&mut self.look_again) {
            match self.sources.get(slot as usize) {
                Some(Source { owner: Owner::Us(readiness), .. }) => {
                    let bits = readiness.0.get();
                    self.serve(slot, bits, ready);
                }
                Some(source) if source.waiters() > 0 => self.check(slot),
                _ => {}
            }
        }
    }

    /// Checks for raw descriptors that were closed although calls wait for them.
    fn check_raw(&mut self) {
        self.last_check = Instant::now();
        let waited: Vec<u32> = self
            .sources
            .iter()
            .filter(|(_, source)| !source.is_owned() && source.waiters() > 0)
            .map(|(slot, _)| slot as u32)
            .collect();
        waited.into_iter().for_each(|slot| self.check(slot));
    }

    /// Asks epoll again about a raw descriptor that is waited for.
    fn check(&mut self, slot: u32) {
        let flags = self.sources[slot as usize].waited_for() | EventFlags::ET;
        if self.arm(slot, flags).is_err() {
            self.forget(slot);
        }
    }

    /// Rearms a source, so that epoll reports its present readiness. Fails if it is no longer the
    /// file that was registered.
    fn arm(&mut self, slot: u32, flags: EventFlags) -> Result<(), Errno> {
        let source = &self.sources[slot as usize];
        let data = EventData::new_u64(token(slot, source.serial));
        // SAFETY: it was registered, so it is not -1. If it is closed, epoll answers with an error.
        let fd = unsafe { BorrowedFd::borrow_raw(source.fd) };
        epoll::modify(&*self.epoll, fd, data, flags)
    }

    fn register(
        &mut self,
        fd: BorrowedFd<'_>,
        owner: Owner,
        flags: EventFlags,
    ) -> Result<u32, Errno> {
        let serial = self.next_serial;
        let slot = self.sources.vacant_key() as u32;
        let data = EventData::new_u64(token(slot, serial));
        match epoll::add(&*self.epoll, fd, data, flags) {
            // It was registered before, under another owner.
            Err(Errno::EXIST) => epoll::modify(&*self.epoll, fd, data, flags)?,
            added => added?,
        }
        self.next_serial = serial.wrapping_add(1);
        let raw = fd.as_raw_fd();
        let (readers, writers) = Default::default();
        self.sources.insert(Source { fd: raw, serial, owner, readers, writers });
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

    /// Forgets a source. Calls that wait for it learn that it is closed.
    fn forget(&mut self, slot: u32) {
        let source = self.sources.remove(slot as usize);
        self.by_fd[source.fd as usize] = NO_SOURCE;
        self.raw_waiting -= if source.is_owned() { 0 } else { source.waiters() };
        for call in source.readers.into_iter().chain(source.writers.into_iter()) {
            let message = format!("descriptor {} was closed while a task waited for it", source.fd);
            let error = TaskError::new(ErrorKind::DescriptorClosed, message);
            self.closed.push((call, Err(error)));
        }
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Source {
    fn is_owned(&self) -> bool {
        matches!(self.owner, Owner::Us(_))
    }

    /// Whether a new waiter can continue at once. A call that waits without having tried may not
    /// know that the stored readiness is old, so the system is asked.
    fn is_free(&mut self, interest: Interest) -> bool {
        let nobody_waits = self.queue(interest).is_empty();
        let Owner::Us(readiness) = &self.owner else { return false };
        if !nobody_waits || !readiness.is_ready(interest) {
            return false;
        }
        let free = can_go_on(self.fd, interest);
        if !free {
            readiness.would_block(interest);
        }
        free
    }

    fn queue(&mut self, interest: Interest) -> &mut Line<CallRef> {
        match interest {
            Interest::Read => &mut self.readers,
            Interest::Write => &mut self.writers,
        }
    }

    fn waiters(&self) -> usize {
        self.readers.len() + self.writers.len()
    }

    /// The directions that calls wait for.
    fn waited_for(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        if !self.readers.is_empty() {
            flags |= direction(Interest::Read);
        }
        if !self.writers.is_empty() {
            flags |= direction(Interest::Write);
        }
        flags
    }
}

/// Asks the system whether an owned descriptor is ready, without waiting.
fn can_go_on(fd: RawFd, interest: Interest) -> bool {
    let wanted = match interest {
        Interest::Read => PollFlags::IN | PollFlags::RDHUP,
        Interest::Write => PollFlags::OUT,
    };
    // SAFETY: a descriptor of ours stays open until it is given back.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let now = timespec(Duration::ZERO);
    // If the system gives no answer, the next attempt finds out.
    !matches!(poll(&mut [PollFd::from_borrowed_fd(fd, wanted)], Some(&now)), Ok(0))
}

fn direction(interest: Interest) -> EventFlags {
    match interest {
        Interest::Read => EventFlags::IN | EventFlags::RDHUP,
        Interest::Write => EventFlags::OUT,
    }
}

fn both_directions() -> EventFlags {
    direction(Interest::Read) | direction(Interest::Write) | EventFlags::ET
}

fn timespec(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    }
}

fn sub_millis(timeout: Duration) -> Duration {
    Duration::from_nanos(u64::from(timeout.subsec_nanos() % 1_000_000))
}

fn token(slot: u32, serial: u32) -> u64 {
    u64::from(slot) | u64::from(serial) << 32
}
