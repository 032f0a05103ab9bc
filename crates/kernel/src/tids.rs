//! A map from a task's number to its slot. Numbers only grow, so this is a list of pages; a page is
//! freed when its last task is forgotten.

use std::collections::BTreeMap;

use crate::id::Tid;

const PAGE: u64 = 256;
const GONE: u32 = u32::MAX;

/// The slots of live and remembered tasks by number.
#[derive(Default)]
pub(crate) struct TidIndex {
    pages: BTreeMap<u64, Page>,
    /// The page being filled, kept separate because every spawn writes to it.
    newest: Option<(u64, Page)>,
}

struct Page {
    slots: Box<[u32; PAGE as usize]>,
    used: u32,
}

impl TidIndex {
    pub(crate) fn new(tasks: impl Iterator<Item = (Tid, u32)>) -> TidIndex {
        let mut all: Vec<(Tid, u32)> = tasks.collect();
        all.sort();
        let mut index = TidIndex::default();
        all.into_iter().for_each(|(tid, slot)| index.insert(tid, slot));
        index
    }

    pub(crate) fn insert(&mut self, tid: Tid, slot: u32) {
        let number = tid.0 / PAGE;
        if self.newest.as_ref().is_none_or(|(at, _)| *at != number) {
            let fresh = Page { slots: Box::new([GONE; PAGE as usize]), used: 0 };
            if let Some((at, page)) = self.newest.replace((number, fresh))
                && page.used > 0
            {
                self.pages.insert(at, page);
            }
        }
        if let Some((_, page)) = &mut self.newest {
            page.slots[(tid.0 % PAGE) as usize] = slot;
            page.used += 1;
        }
    }

    pub(crate) fn get(&self, tid: Tid) -> Option<u32> {
        let number = tid.0 / PAGE;
        let page = match &self.newest {
            Some((at, page)) if *at == number => page,
            _ => self.pages.get(&number)?,
        };
        Some(page.slots[(tid.0 % PAGE) as usize]).filter(|slot| *slot != GONE)
    }

    pub(crate) fn remove(&mut self, tid: Tid) {
        let number = tid.0 / PAGE;
        match &mut self.newest {
            Some((at, page)) if *at == number => {
                page.slots[(tid.0 % PAGE) as usize] = GONE;
                page.used -= 1;
            }
            _ => {
                let Some(page) = self.pages.get_mut(&number) else { return };
                page.slots[(tid.0 % PAGE) as usize] = GONE;
                page.used -= 1;
                if page.used == 0 {
                    self.pages.remove(&number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_forgets_the_rest() {
        let mut index = TidIndex::default();
        for n in 1..2_000 {
            index.insert(Tid(n), n as u32 * 2);
        }
        for n in (1..2_000).filter(|n| n % 3 != 0) {
            index.remove(Tid(n));
        }
        for n in 1..2_000 {
            let expected = (n % 3 == 0).then_some(n as u32 * 2);
            assert_eq!(index.get(Tid(n)), expected, "task {n}");
        }
        for n in (3..2_000).step_by(3) {
            index.remove(Tid(n));
        }
        assert!(index.pages.is_empty(), "empty pages go");
        assert_eq!(index.get(Tid(5_000)), None);
    }
}
