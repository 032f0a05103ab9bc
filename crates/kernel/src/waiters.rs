//! Who waits for what: lists of waiting calls, in the order they began to wait. A list belongs to a
//! task, a promise, a channel, a semaphore or a group; all lists of a run share one table of nodes, so
//! that a list costs eight bytes while empty and a wait is withdrawn without a search.

use slab::Slab;

use crate::id::CallId;

const NONE: u32 = u32::MAX;

/// A call that waits: whose it is, and which of the call's items this is (Gather and Race have several).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) task: u32,
    pub(crate) item: u32,
    pub(crate) call: CallId,
}

struct Node {
    previous: u32,
    next: u32,
    waiter: Waiter,
}

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitList {
    first: u32,
    last: u32,
}

impl Default for WaitList {
    fn default() -> WaitList {
        WaitList { first: NONE, last: NONE }
    }
}

impl WaitList {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// The nodes of all lists of a run.
#[derive(Default)]
pub(crate) struct WaitMap {
    nodes: Slab<Node>,
}

impl WaitMap {
    /// Adds a waiter at the end; the answer names its node for `remove`.
    pub(crate) fn push(&mut self, list: &mut WaitList, waiter: Waiter) -> u32 {
        let node = self.nodes.insert(Node { previous: list.last, next: NONE, waiter }) as u32;
        match list.last {
            NONE => list.first = node,
            last => self.nodes[last as usize].next = node,
        }
        list.last = node;
        node
    }

    pub(crate) fn remove(&mut self, list: &mut WaitList, node: u32) {
        let Node { previous, next, .. } = self.nodes.remove(node as usize);
        match previous {
            NONE => list.first = next,
            before => self.nodes[before as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            after => self.nodes[after as usize].previous = previous,
        }
    }

    /// The waiter at the front.
    pub(crate) fn first(&self, list: &WaitList) -> Option<Waiter> {
        self.nodes.get(list.first as usize).map(|node| node.waiter)
    }

    /// Takes the waiter at the front.
    pub(crate) fn pop(&mut self, list: &mut WaitList) -> Option<Waiter> {
        let waiter = self.first(list)?;
        self.remove(list, list.first);
        Some(waiter)
    }

    /// The waiters of a list, from the front.
    pub(crate) fn iter<'a>(&'a self, list: &WaitList) -> impl Iterator<Item = Waiter> + 'a {
        let mut at = list.first;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.next;
            Some(node.waiter)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(n: u64) -> Waiter {
        Waiter { task: 0, item: 0, call: CallId(n) }
    }

    #[test]
    fn is_a_queue_from_which_any_can_leave() {
        let mut map = WaitMap::default();
        let mut list = WaitList::default();
        let nodes: Vec<u32> = (0..5).map(|n| map.push(&mut list, waiter(n))).collect();
        map.remove(&mut list, nodes[0]);
        map.remove(&mut list, nodes[2]);
        map.remove(&mut list, nodes[4]);
        let left: Vec<u64> = map.iter(&list).map(|waiter| waiter.call.0).collect();
        assert_eq!(left, [1, 3]);
        assert_eq!(map.pop(&mut list), Some(waiter(1)));
        assert_eq!(map.pop(&mut list), Some(waiter(3)));
        assert_eq!(map.pop(&mut list), None);
        assert!(list.is_empty());
        assert!(map.nodes.is_empty());
    }
}
