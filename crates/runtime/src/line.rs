//! Lines of calls that wait for one thing, in order. A short line is a plain queue; a long one has
//! an index, so that a call can leave it without a search.

use std::collections::{BTreeSet, VecDeque};

/// The length from which a line has an index.
const SHORT: usize = 32;

/// A line of waiting calls.
pub(crate) struct Line<C> {
    /// In order. With an index, calls that are not in it have left.
    queue: VecDeque<C>,
    index: Option<BTreeSet<C>>,
}

impl<C> Default for Line<C> {
    fn default() -> Line<C> {
        Line { queue: VecDeque::new(), index: None }
    }
}

impl<C: Copy + Ord> Line<C> {
    pub(crate) fn push_back(&mut self, call: C) {
        self.queue.push_back(call);
        if let Some(index) = &mut self.index {
            index.insert(call);
        } else if self.queue.len() > SHORT {
            self.index = Some(self.queue.iter().copied().collect());
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<C> {
        let Some(index) = &mut self.index else { return self.queue.pop_front() };
        let first = std::iter::from_fn(|| self.queue.pop_front()).find(|call| index.remove(call));
        self.shrink();
        first
    }

    /// Removes a call from anywhere in the line. Returns `false` if it is not there.
    pub(crate) fn remove(&mut self, call: C) -> bool {
        let Some(index) = &mut self.index else {
            let at = self.queue.iter().position(|other| *other == call);
            return at.and_then(|at| self.queue.remove(at)).is_some();
        };
        let was_there = index.remove(&call);
        self.shrink();
        was_there
    }

    pub(crate) fn len(&self) -> usize {
        self.index.as_ref().map_or(self.queue.len(), |index| index.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = C> {
        let Line { queue, index } = self;
        queue.into_iter().filter(move |call| index.as_ref().is_none_or(|all| all.contains(call)))
    }

    /// Removes the calls that left, once they are more than half of the queue. Each is thus visited
    /// about once.
    fn shrink(&mut self) {
        let Some(index) = &self.index else { return };
        if index.len() * 2 < self.queue.len() || index.is_empty() {
            self.queue.retain(|call| index.contains(call));
        }
        if self.queue.len() <= SHORT / 2 && self.queue.len() == index.len() {
            self.index = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Whatever is done to it, a line is what a plain list is.
    #[test]
    fn is_a_queue_one_can_leave() {
        let (mut line, mut list) = (Line::default(), Vec::new());
        let mut random = 1u64;
        for call in 0..20_000u32 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // It grows for a while, then shrinks, and so on.
            let grows = (call / 500).is_multiple_of(2);
            match (random >> 33) % 8 {
                0 | 1 => {
                    let first = (!list.is_empty()).then(|| list.remove(0));
                    assert_eq!(line.pop_front(), first);
                }
                2..5 if !grows && !list.is_empty() => {
                    let left = list.remove((random >> 40) as usize % list.len());
                    assert!(line.remove(left));
                    assert!(!line.remove(left), "it has left already");
                }
                _ => {
                    list.push(call);
                    line.push_back(call);
                }
            }
            assert_eq!((line.len(), line.is_empty()), (list.len(), list.is_empty()));
        }
        assert!(list.len() > SHORT, "else the end tells little");
        assert_eq!(line.into_iter().collect::<Vec<_>>(), list);
    }

    /// With a search for each, this many would take minutes.
    #[test]
    fn leaving_a_long_line_costs_no_search() {
        const MANY: u32 = 300_000;
        let began = Instant::now();
        let mut line = Line::default();
        (0..MANY).for_each(|call| line.push_back(call));
        // The last first, and every third not at all.
        for call in (0..MANY).rev().filter(|call| call % 3 != 0) {
            assert!(line.remove(call));
        }
        assert_eq!(line.len(), MANY as usize / 3);
        assert_eq!((line.pop_front(), line.pop_front()), (Some(0), Some(3)));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
