//! The external promises of all runs: which exist, which run they belong to, and which are settled.
//! It sends nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tiffany_kernel::{RunId, Uuid};

use tiffany_records::request::Settlement;

/// The maximum number of promises of finished runs that are remembered, so that late or repeated
/// answers can be reported as such.
const MAX_PAST: usize = 65_536;

/// A promise; for one that a fork shares with its parent, also the number of the fork.
type Key = (Uuid, Option<RunId>);

#[derive(Default)]
pub(crate) struct Promises {
    all: BTreeMap<Key, External>,
    /// The promises of each run, so that the end of a run needs no search through all promises.
    of_run: BTreeMap<RunId, BTreeSet<Key>>,
    /// Promises of finished runs, and whether they were settled; the oldest first.
    past: BTreeMap<Uuid, bool>,
    past_order: VecDeque<Uuid>,
}

/// A promise that can be settled.
struct External {
    run: RunId,
    settled: bool,
    /// Whether its value must be recorded.
    durable: bool,
}

impl External {
    /// Marks the promise as settled.
    fn claim(&mut self) -> Settlement {
        match std::mem::replace(&mut self.settled, true) {
            false => Settlement::Accepted,
            true => Settlement::Ignored,
        }
    }
}

impl Promises {
    /// Adds a promise that can be settled from now on.
    pub(crate) fn add(&mut self, uuid: Uuid, run: RunId, durable: bool) {
        self.insert((uuid, None), External { run, settled: false, durable });
    }

    /// Adds a promise that a fork shares with its parent: settling it requires naming the fork.
    pub(crate) fn add_shared(&mut self, uuid: Uuid, run: RunId) {
        self.insert((uuid, Some(run)), External { run, settled: false, durable: true });
    }

    fn insert(&mut self, key: Key, promise: External) {
        self.past.remove(&key.0);
        self.of_run.entry(promise.run).or_default().insert(key);
        self.all.insert(key, promise);
    }

    /// Removes the promises of a run that has ended or is started again.
    pub(crate) fn forget_run(&mut self, run: RunId) {
        for key in self.of_run.remove(&run).unwrap_or_default() {
            // Another run may have been given the promise since.
            if self.all.get(&key).is_none_or(|promise| promise.run != run) {
                continue;
            }
            let Some(promise) = self.all.remove(&key) else { continue };
            if promise.durable && key.1.is_none() {
                self.remember(key.0, promise.settled);
            }
        }
    }

    fn remember(&mut self, uuid: Uuid, settled: bool) {
        if self.past.insert(uuid, settled).is_none() {
            self.past_order.push_back(uuid);
        }
        if self.past_order.len() > MAX_PAST
            && let Some(oldest) = self.past_order.pop_front()
        {
            self.past.remove(&oldest);
        }
    }

    /// Whether a promise of a finished run was settled.
    pub(crate) fn was_settled(&self, uuid: Uuid) -> Option<bool> {
        self.past.get(&uuid).copied()
    }

    /// Forgets the settled promises of a run except these, which may be asked for again.
    pub(crate) fn keep(&mut self, run: RunId, kept: &BTreeSet<Uuid>) {
        let Some(keys) = self.of_run.get_mut(&run) else { return };
        keys.retain(|key| {
            let settled = self.all.get(key).is_some_and(|promise| promise.settled);
            let stays = !settled || kept.contains(&key.0);
            if !stays {
                self.all.remove(key);
            }
            stays
        });
    }

    /// Whether the promise exists, and if so, whether it is durable.
    pub(crate) fn is_durable(&self, uuid: Uuid) -> Option<bool> {
        self.all.get(&(uuid, None)).map(|promise| promise.durable)
    }

    /// The run of a promise, and the result of settling it now. A promise that a fork shares with
    /// its parent belongs to the fork only if the fork is named.
    pub(crate) fn claim(
        &mut self,
        uuid: Uuid,
        of: Option<RunId>,
        durable_only: bool,
    ) -> Option<(RunId, Settlement)> {
        let shared = of.map(|run| (uuid, Some(run))).filter(|key| self.all.contains_key(key));
        let promise = self
            .all
            .get_mut(&shared.unwrap_or((uuid, None)))
            .filter(|promise| of.is_none_or(|run| promise.run == run))
            .filter(|promise| promise.durable || !durable_only)?;
        Some((promise.run, promise.claim()))
    }

    /// The forks that share a promise with their parent.
    pub(crate) fn sharing(&self, uuid: Uuid) -> Vec<RunId> {
        let of = |run| (uuid, Some(RunId(run)));
        self.all.range(of(0)..=of(u32::MAX)).map(|(_, promise)| promise.run).collect()
    }

    /// The unsettled promises, with their runs.
    pub(crate) fn open(&self) -> impl Iterator<Item = (Uuid, RunId)> {
        let open = self.all.iter().filter(|(_, promise)| !promise.settled);
        open.map(|((uuid, _), promise)| (*uuid, promise.run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promises_of_a_run_go_with_it_and_no_other() {
        let (one, two) = (RunId(1), RunId(2));
        let mut promises = Promises::default();
        promises.add(Uuid(1), one, true);
        promises.add(Uuid(2), two, true);
        promises.add_shared(Uuid(1), two);
        promises.forget_run(one);
        assert_eq!(promises.claim(Uuid(1), None, true), None);
        assert_eq!(promises.claim(Uuid(1), Some(two), true), Some((two, Settlement::Accepted)));
        assert_eq!(promises.claim(Uuid(2), None, true), Some((two, Settlement::Accepted)));
        assert_eq!(promises.claim(Uuid(2), None, true), Some((two, Settlement::Ignored)));
    }

    #[test]
    fn a_promise_that_is_handed_on_stays_when_its_first_run_goes() {
        let mut promises = Promises::default();
        promises.add(Uuid(1), RunId(1), true);
        promises.add(Uuid(1), RunId(2), true);
        promises.forget_run(RunId(1));
        assert_eq!(promises.claim(Uuid(1), None, true), Some((RunId(2), Settlement::Accepted)));
        assert_eq!(promises.was_settled(Uuid(1)), None);
    }

    #[test]
    fn what_is_over_is_remembered_and_not_for_ever() {
        let mut promises = Promises::default();
        promises.add(Uuid(0), RunId(1), true);
        promises.claim(Uuid(0), None, true);
        promises.add(Uuid(1), RunId(1), true);
        promises.forget_run(RunId(1));
        assert_eq!(
            [0, 1, 2].map(|n| promises.was_settled(Uuid(n))),
            [Some(true), Some(false), None]
        );
        for number in 0..MAX_PAST as u128 {
            promises.add(Uuid(10 + number), RunId(2), true);
        }
        promises.forget_run(RunId(2));
        assert_eq!(promises.was_settled(Uuid(0)), None);
        assert_eq!(promises.was_settled(Uuid(10)), Some(false));
        assert_eq!(promises.past.len(), MAX_PAST);
    }
}
