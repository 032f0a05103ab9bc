//! Tests readers against a model. In whatever order events are published, read and forgotten, each
//! reader receives every event that it wants once and in order, or is told exactly how many it has
//! lost.

use proptest::prelude::*;
use tiffany_kernel::{RunId, Stage, Tid, Time};

use crate::activity::hub::Hub;
use crate::activity::settings::Settings;
use crate::activity::state::{Draft, TurnDraft};
use crate::activity::subscription::{Subscription, Told};
use tiffany_records::activity::{Data, Detail, TaskId, Wanted};

/// One action of a test.
#[derive(Clone, Debug)]
enum Act {
    Tell { run: u32, ghost: bool },
    Turn { run: u32, ghost: bool },
    End { run: u32 },
    Subscribe { run: Option<u32>, detail: bool, ghosts: bool },
    Read { reader: usize, most: usize },
    Leave { reader: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let run = 0..4u32;
    prop_oneof![
        8 => (run.clone(), any::<bool>()).prop_map(|(run, ghost)| Act::Tell { run, ghost }),
        8 => (run.clone(), any::<bool>()).prop_map(|(run, ghost)| Act::Turn { run, ghost }),
        1 => run.clone().prop_map(|run| Act::End { run }),
        2 => (proptest::option::of(run), any::<bool>(), any::<bool>())
            .prop_map(|(run, detail, ghosts)| Act::Subscribe { run, detail, ghosts }),
        4 => (0..8usize, 0..40usize).prop_map(|(reader, most)| Act::Read { reader, most }),
        1 => (0..8usize).prop_map(|reader| Act::Leave { reader }),
    ]
}

/// A reader, the events it should have received, and those it did.
struct Reader {
    events: Subscription,
    due: Vec<u64>,
    seen: Vec<u64>,
    lost: u64,
}

impl Reader {
    fn new(events: Subscription) -> Reader {
        Reader { events, due: Vec::new(), seen: Vec::new(), lost: 0 }
    }

    fn note(&mut self, seq: u64, run: u32, is_turn: bool, ghost: bool) {
        let wanted = self.events.wanted();
        let is_wanted = wanted.run.is_none_or(|of| of == id(run))
            && (wanted.detail == Detail::All || !is_turn)
            && (wanted.ghosts || !ghost);
        if is_wanted {
            self.due.push(seq);
        }
    }

    fn read(&mut self, most: usize) -> Result<(), TestCaseError> {
        for _ in 0..most {
            match self.events.try_next() {
                None => {
                    let (seen, due) = (self.seen.len() as u64, self.due.len() as u64);
                    prop_assert_eq!(seen + self.lost, due, "all are seen or known to be lost");
                    return Ok(());
                }
                Some(Told::Lost { count }) => {
                    prop_assert!(count > 0);
                    self.lost += count;
                }
                Some(Told::Event(event)) => {
                    prop_assert!(self.seen.last().is_none_or(|last| *last < event.seq));
                    let at = self.due.binary_search(&event.seq);
                    let Ok(at) = at else { return Err(TestCaseError::fail("it was not wanted")) };
                    // Notable events and turns are lost separately; only for one kind is it known
                    // which.
                    if self.events.wanted().detail == Detail::Notable {
                        prop_assert_eq!(at as u64, self.seen.len() as u64 + self.lost);
                    }
                    self.seen.push(event.seq);
                }
            }
        }
        Ok(())
    }
}

fn id(run: u32) -> TaskId {
    TaskId::Ephemeral(RunId(run))
}

fn check(settings: Settings, acts: Vec<Act>) -> Result<(), TestCaseError> {
    let hub = Hub::new(settings.clone(), 1, None, None);
    hub.wake();
    let mut readers: Vec<Reader> = Vec::new();
    for act in acts {
        match act {
            Act::Tell { run, ghost } => {
                let (ts, tid, stage) = (Time::ZERO, Some(Tid(1)), Stage::Progress);
                let draft = Draft { ts, tid, stage, message: "x".into(), data: Data::None, ghost };
                let mut state = hub.0.state.lock();
                let seq = state.next_seq;
                state.add(&settings, id(run), draft.cleaned(None));
                drop(state);
                readers.iter_mut().for_each(|reader| reader.note(seq, run, false, ghost));
            }
            Act::Turn { run, ghost } => {
                let (ts, tid, stage) = (Time::ZERO, Tid(1), Stage::Running);
                let turn = TurnDraft { ts, tid, stage, reason: None, ghost };
                let mut state = hub.0.state.lock();
                let seq = state.next_seq;
                let is_wanted = state.wants_turns(id(run));
                state.add_turn(&settings, id(run), turn);
                prop_assert_eq!(state.next_seq - seq, u64::from(is_wanted), "numbers are dense");
                drop(state);
                readers.iter_mut().for_each(|reader| reader.note(seq, run, true, ghost));
            }
            Act::End { run } => hub.0.state.lock().end_run(id(run)),
            Act::Subscribe { run, detail, ghosts } if readers.len() < 8 => {
                let mut wanted = Wanted::new().ghosts(ghosts);
                wanted.run = run.map(id);
                wanted.detail = if detail { Detail::All } else { Detail::Notable };
                readers.push(Reader::new(hub.subscribe(wanted)));
            }
            Act::Subscribe { .. } => {}
            Act::Read { reader, most } => {
                if let Some(reader) = readers.get_mut(reader) {
                    reader.read(most)?;
                }
            }
            Act::Leave { reader } if reader < readers.len() => drop(readers.swap_remove(reader)),
            Act::Leave { .. } => {}
        }
        let counts = hub.counts();
        prop_assert!(counts.bytes <= 2 * settings.bytes + 8 * 1024, "{:?}", counts);
        prop_assert_eq!(counts.readers, readers.len());
    }
    for reader in &mut readers {
        reader.read(usize::MAX)?;
    }
    readers.clear();
    let state = hub.0.state.lock();
    prop_assert_eq!(state.turn_lanes, 0);
    prop_assert!(!state.all.wants_turns() && state.all.waiting.is_empty());
    prop_assert!(state.runs.values().all(|lane| lane.readers == 0 && !lane.wants_turns()));
    Ok(())
}

proptest! {
    #[test]
    fn readers_are_told_all_or_how_many_they_lost(
        acts in proptest::collection::vec(act(), 0..400),
        per_run in 1..12usize,
        in_all in 1..24usize,
        turns in 1..12usize,
        bytes in 1_000..40_000usize,
    ) {
        check(Settings { per_run, in_all, turns, bytes, message: 100 }, acts)?;
    }
}
