//! The last events of something, each at a place that it keeps for ever, so that a reader knows what it has missed. It knows nothing of
//! threads or of what an event means.

use std::collections::VecDeque;

/// What can be kept in a ring.
pub(crate) trait Kept {
    /// Its number in the hub.
    fn seq(&self) -> u64;
    /// Whether it happened before.
    fn is_ghost(&self) -> bool;
    /// About how much memory it needs.
    fn bytes(&self) -> usize;
}

/// The last so many of what was put in.
pub(crate) struct Ring<T> {
    kept: VecDeque<T>,
    /// What was dropped, and how much of it was no ghost. The first that is kept has this place.
    dropped: u64,
    dropped_live: u64,
    last_dropped: Option<u64>,
    bytes: usize,
}

/// Where a reader stands in a ring: the place it reads next, and how many before it were no ghosts.
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

    /// What is kept, the newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().rev()
    }

    /// Puts one in. If there are more than so many then, the oldest goes.
    #[inline]
    pub(crate) fn push(&mut self, entry: T, most: usize) {
        while self.kept.len() >= most.max(1) {
            self.drop_oldest();
        }
        self.bytes += entry.bytes();
        self.kept.push_back(entry);
    }

    /// Forgets the oldest one.
    pub(crate) fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            self.dropped += 1;
            self.dropped_live += u64::from(!oldest.is_ghost());
            self.last_dropped = Some(oldest.seq());
            self.bytes -= oldest.bytes();
        }
    }

    /// Forgets all, as if nothing had ever been in it.
    pub(crate) fn clear(&mut self) {
        *self = Ring::new();
    }

    /// The first one from that number on, and how many from there on are gone: exactly where all are wanted, and else no fewer than there were.
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

    /// Moves a reader that is too slow to the first one that is left, and tells how many it has missed.
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

    /// The next one for a reader that has caught up.
    #[inline]
    pub(crate) fn peek(&self, cursor: &Cursor) -> Option<&T> {
        self.kept.get((cursor.next - self.dropped) as usize)
    }
}

impl Cursor {
    /// Goes past an entry.
    #[inline]
    pub(crate) fn pass(&mut self, entry: &impl Kept) {
        self.next += 1;
        self.live += u64::from(!entry.is_ghost());
    }
}
