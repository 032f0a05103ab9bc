//! The most recent events of a run or of all runs. Each has a fixed position, so that a reader
//! knows what it has missed. It knows nothing of threads or of what an event means.

use std::collections::VecDeque;

/// An entry of a ring.
pub(crate) trait Kept {
    /// The entry's number in the hub.
    fn seq(&self) -> u64;
    /// Whether the entry is a ghost: an event that happens again.
    fn is_ghost(&self) -> bool;
    /// The approximate memory of the entry.
    fn bytes(&self) -> usize;
}

/// The most recent entries.
pub(crate) struct Ring<T> {
    kept: VecDeque<T>,
    /// How many entries were dropped, and how many of them were not ghosts. The first is also the
    /// position of the oldest entry.
    dropped: u64,
    dropped_live: u64,
    last_dropped: Option<u64>,
    bytes: usize,
}

/// The position of a reader in a ring: the next entry, and how many entries before it were not
/// ghosts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    next: u64,
    live: u64,
}

impl<T: Kept> Ring<T> {
    pub(crate) fn new() -> Ring<T> {
        Ring { kept: VecDeque::new(), dropped: 0, dropped_live: 0, last_dropped: None, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries, the newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().rev()
    }

    /// Adds an entry. If the ring then has more than `most`, the oldest is dropped.
    #[inline]
    pub(crate) fn push(&mut self, entry: T, most: usize) {
        while self.kept.len() >= most.max(1) {
            self.drop_oldest();
        }
        self.bytes += entry.bytes();
        self.kept.push_back(entry);
    }

    /// Drops the oldest entry.
    pub(crate) fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.dropped += 1;
            self.dropped_live += u64::from(!oldest.is_ghost());
            self.last_dropped = Some(oldest.seq());
            self.bytes -= oldest.bytes();
        }
    }

    /// Clears the ring, as if it had never had an entry.
    pub(crate) fn clear(&mut self) {
        *self = Ring::new();
    }

    /// The position of the first entry with at least this number, and how many such entries are
    /// gone: the exact number if all entries are wanted, otherwise an upper bound.
    pub(crate) fn from(&self, seq: u64, ghosts: bool) -> (Cursor, u64) {
        let at = self.kept.partition_point(|entry| entry.seq() < seq);
        let live = self.kept.iter().take(at).filter(|entry| !entry.is_ghost()).count() as u64;
        let cursor = Cursor { next: self.dropped + at as u64, live: self.dropped_live + live };
        let dropped = if ghosts { self.dropped } else { self.dropped_live };
        let gone = match self.last_dropped {
            Some(last) if last >= seq => dropped.min(last - seq + 1),
            _ => 0,
        };
        (cursor, gone)
    }

    /// Moves a reader that is too slow to the oldest entry, and returns how many entries it has
    /// missed.
    pub(crate) fn catch_up(&self, cursor: &mut Cursor, ghosts: bool) -> u64 {
        if cursor.next >= self.dropped {
            return 0;
        }
        let missed = match ghosts {
            true => self.dropped - cursor.next,
            false => self.dropped_live - cursor.live,
        };
        *cursor = Cursor { next: self.dropped, live: self.dropped_live };
        missed
    }

    /// The next entry for a reader that has caught up.
    #[inline]
    pub(crate) fn peek(&self, cursor: &Cursor) -> Option<&T> {
        self.kept.get((cursor.next - self.dropped) as usize)
    }
}

impl Cursor {
    /// Moves past an entry.
    #[inline]
    pub(crate) fn pass(&mut self, entry: &impl Kept) {
        self.next += 1;
        self.live += u64::from(!entry.is_ghost());
    }
}
