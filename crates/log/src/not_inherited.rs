//! Descriptors that belong to this process alone: a child made by `fork` has `/dev/null` in their
//! place.
//!
//! Closing on `exec` is not enough. A child that only forks, as the workers of Python's
//! `multiprocessing` do, shares every open file with its parent. It would keep the lock of a
//! directory, a socket or a port after the parent has died. The lock is an `flock`, which belongs
//! to the open file and so to everyone who has a copy of it. The two alternatives are not better:
//! locks of `fcntl` are not inherited, but are lost when *any* descriptor of the file is closed in
//! the process; open file description locks are inherited like `flock`.
//!
//! This file has `unsafe` code because only libc can call something in a forked child. Between
//! `fork` and `exec` of a process with threads only async-signal-safe functions may be called, so
//! the handler reads a table of atomics and calls `open`, `dup3` and `close`. `posix_spawn` and
//! `vfork` call no handler; what they start calls `exec`.
//!
//! Handlers of signals can be kept from children in the same way, see
//! [`keep_handler_from_children`]. All signals are blocked while the process forks, so that one
//! which is sent to the child at once doesn't find a handler there.
//!
//! The number of a descriptor stays taken in the child: whatever still owns it there can be dropped
//! as usual, and closes nothing else.

use std::cell::UnsafeCell;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The number of descriptors that are tracked; higher ones are inherited. The system's own limit is
/// the same by default.
const MAX_DESCRIPTORS: usize = 1 << 20;
const WORDS: usize = MAX_DESCRIPTORS / 64;

/// A bit for each descriptor that children don't inherit.
static TABLE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Set while such a descriptor is opened or closed, and while the process forks, so that a fork
/// never happens halfway through either.
static CHANGING: AtomicBool = AtomicBool::new(false);
/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of forks between the process that made the first such descriptor and this
/// one.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// An open file, socket or the like that forked children do not share.
///
/// ```
/// use tiffany_log::not_inherited::NotInherited;
///
/// let listener = NotInherited::open(|| std::net::TcpListener::bind("127.0.0.1:0"))?;
/// // A child that is forked now does not keep the port.
/// println!("{}", listener.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct NotInherited<T: AsRawFd> {
    fd: RawFd,
    inner: ManuallyDrop<T>,
}

impl<T: AsRawFd> NotInherited<T> {
    /// Opens something. No child is forked until the descriptor is registered.
    pub fn open(open: impl FnOnce() -> io::Result<T>) -> io::Result<NotInherited<T>> {
        install()?;
        let _change = Change::begin();
        Ok(NotInherited::enter(open()?))
    }

    /// Converts what is open, for example to another type around the same descriptor.
    pub fn map<U: AsRawFd>(
        self,
        change: impl FnOnce(T) -> io::Result<U>,
    ) -> io::Result<NotInherited<U>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the value is not taken a second time.
        let inner = unsafe { ManuallyDrop::take(&mut this.inner) };
        let _change = Change::begin();
        mark(this.fd, |word, bit| word.fetch_and(!bit, Ordering::SeqCst));
        Ok(NotInherited::enter(change(inner)?))
    }

    /// Registers the descriptor. No fork may happen meanwhile.
    fn enter(inner: T) -> NotInherited<T> {
        let fd = inner.as_raw_fd();
        mark(fd, |word, bit| word.fetch_or(bit, Ordering::SeqCst));
        NotInherited { fd, inner: ManuallyDrop::new(inner) }
    }

    /// Returns a mutable reference to what is open. It must stay the same descriptor.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Returns whether this process opened it. In a forked child, which has `/dev/null` instead,
    /// this is false.
    pub fn is_ours(&self) -> bool {
        mark(self.fd, |word, bit| word.load(Ordering::SeqCst) & bit) != 0
    }
}

impl<T: AsRawFd> Deref for NotInherited<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: AsRawFd + std::fmt::Debug> std::fmt::Debug for NotInherited<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NotInherited").field(&*self.inner).finish()
    }
}

impl<T: AsRawFd> Drop for NotInherited<T> {
    fn drop(&mut self) {
        let _change = Change::begin();
        mark(self.fd, |word, bit| word.fetch_and(!bit, Ordering::SeqCst));
        // SAFETY: `inner` is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

/// Applies `act` to the bit of a descriptor; returns 0 for a descriptor beyond the table.
fn mark(fd: RawFd, act: impl FnOnce(&AtomicU64, u64) -> u64) -> u64 {
    let fd = usize::try_from(fd).unwrap_or(usize::MAX);
    TABLE.get(fd / 64).map_or(0, |word| act(word, 1 << (fd % 64)))
}

/// Prevents forks while it exists.
struct Change;

impl Change {
    fn begin() -> Change {
        take_turn();
        Change
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        end_turn();
    }
}

/// A bit for each signal whose handler children don't inherit.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// The signals that the forking thread had blocked. Only the thread that has set `CHANGING`
/// accesses it.
struct Mask(UnsafeCell<MaybeUninit<libc::sigset_t>>);

// SAFETY: only one thread accesses it at a time, as above.
unsafe impl Sync for Mask {}

static MASK: Mask = Mask(UnsafeCell::new(MaybeUninit::uninit()));

/// Gives this signal its default action in children that are forked from now on, whatever handles
/// it in this process.
pub fn keep_handler_from_children(signal: i32) -> io::Result<()> {
    install()?;
    SIGNALS.fetch_or(1 << signal, Ordering::SeqCst);
    Ok(())
}

/// Runs before a fork: waits for changes to end, and blocks all signals.
extern "C" fn prepare() {
    take_turn();
    // SAFETY: the calls initialize the sets, and no other thread accesses `MASK` now.
    unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), (*MASK.0.get()).as_mut_ptr());
    }
}

/// Runs after a fork, in the parent, and as the last step in the child: allows changes, and
/// restores the blocked signals.
extern "C" fn resume() {
    // SAFETY: `prepare` has initialized it, and no other thread accesses it now.
    unsafe {
        let mask = (*MASK.0.get()).assume_init();
        end_turn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    }
}

fn take_turn() {
    while CHANGING.swap(true, Ordering::SeqCst) {
        std::thread::yield_now();
    }
}

fn end_turn() {
    CHANGING.store(false, Ordering::SeqCst);
}

fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<i32> = OnceLock::new();
    // SAFETY: the three functions exist as long as the process, and do only what a forked child may
    // do.
    let code = INSTALLED
        .get_or_init(|| unsafe { libc::pthread_atfork(Some(prepare), Some(resume), Some(let_go)) });
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(*code)),
    }
}

/// Runs in a child after a fork: releases what belongs to the parent.
extern "C" fn let_go() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the path ends with a zero byte, and the call accesses no other memory.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for (at, word) in TABLE.iter().enumerate() {
        // Pages that are only read stay shared with the parent.
        let mut bits = word.load(Ordering::SeqCst);
        if bits != 0 {
            word.store(0, Ordering::SeqCst);
        }
        while bits != 0 {
            let fd = (at * 64) as RawFd + bits.trailing_zeros() as RawFd;
            bits &= bits - 1;
            // SAFETY: a descriptor in the table is open, and no other thread uses it: the child has
            // only this one.
            unsafe {
                match null {
                    0.. => libc::dup3(null, fd, libc::O_CLOEXEC),
                    // No descriptor is left: a closed one is better than a shared one.
                    _ => libc::close(fd),
                };
            }
        }
    }
    if null >= 0 {
        // SAFETY: it was opened above.
        unsafe { libc::close(null) };
    }
    let mut signals = SIGNALS.load(Ordering::SeqCst);
    while signals != 0 {
        // SAFETY: the default action calls no code of ours.
        unsafe { libc::signal(signals.trailing_zeros().cast_signed(), libc::SIG_DFL) };
        signals &= signals - 1;
    }
    resume();
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    /// Returns how many KiB of the memory region around an address a process has written to and
    /// shares with no other process.
    fn private_dirty(pid: libc::pid_t, address: usize) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        let range = |line: &str| {
            let (from, to) = line.split_once(' ')?.0.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some(number(from)?..number(to)?)
        };
        let is_there = |line: &&str| range(line).is_some_and(|range| range.contains(&address));
        let after = maps.lines().skip_while(|line| !is_there(line));
        let dirty = after.filter_map(|line| line.strip_prefix("Private_Dirty:")).next().unwrap();
        dirty.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    #[test]
    fn a_forked_child_writes_to_the_table_only_where_a_descriptor_is() {
        let _file = NotInherited::open(|| File::open("/dev/null")).unwrap();
        let (mut ready, writer) = std::io::pipe().unwrap();
        // SAFETY: the child calls only functions that a forked child may, and is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the byte is a valid pointer.
            unsafe {
                libc::write(writer.as_raw_fd(), c".".as_ptr().cast(), 1);
                loop {
                    libc::pause();
                }
            }
        }
        ready.read_exact(&mut [0]).unwrap();
        let dirty = private_dirty(child, &raw const TABLE[WORDS / 2] as usize);
        // SAFETY: it is a child of this process that has not been waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(dirty < (size_of_val(&TABLE) / 1024 / 2) as u64, "{dirty} KiB");
    }
}
