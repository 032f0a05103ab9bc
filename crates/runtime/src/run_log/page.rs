//! The page on which the journals of all runs write: the batch that will be handed in next, and
//! texts that many lines have in common.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use tiffany_kernel::{CallKind, Site, Tid, Time};

use crate::metrics::meters::CallMeters;
use tiffany_log::{Batch, Chain, Line, RecordType, Stamp};

pub(crate) struct Page {
    pub(crate) batch: Batch,
    /// The moment of the last line.
    stamp: Stamp,
    sites: Sites,
    /// How many calls of each kind were written since that was last told.
    calls: [u64; CallKind::ALL.len()],
}

impl Page {
    pub(crate) fn new(batch: Batch) -> Page {
        let (stamp, sites) = (Stamp::from_unix_nanos(0), Sites::default());
        Page { batch, stamp, sites, calls: [0; CallKind::ALL.len()] }
    }

    /// Counts a call that is written. Writing its line costs a hundred times as much.
    #[inline]
    pub(crate) fn called(&mut self, kind: CallKind) {
        self.calls[kind as usize] += 1;
    }

    /// Adds the counts to the public counters.
    pub(crate) fn tell_calls(&mut self, meters: &CallMeters) {
        for (count, meter) in self.calls.iter_mut().zip(&meters.0) {
            if *count > 0 {
                meter.add(std::mem::take(count));
            }
        }
    }

    /// Begins the next line of a run.
    #[inline]
    pub(crate) fn line<'a>(
        &'a mut self,
        chain: &'a mut Chain,
        clock: Time,
        kind: RecordType,
        tid: Tid,
    ) -> Line<'a> {
        self.line_and_sites(chain, clock, kind, tid).0
    }

    /// Begins the next line of a run, and also returns the lines of the program.
    #[inline]
    pub(crate) fn line_and_sites<'a>(
        &'a mut self,
        chain: &'a mut Chain,
        clock: Time,
        kind: RecordType,
        tid: Tid,
    ) -> (Line<'a>, &'a mut Sites) {
        self.stamp.move_to(clock.as_nanos());
        (self.batch.line(chain, &self.stamp, kind, tid), &mut self.sites)
    }
}

/// Lines of code as a record has them, each made once.
#[derive(Default)]
pub(crate) struct Sites {
    texts: HashMap<(usize, u32), Box<str>, BuildHasherDefault<AddressHasher>>,
    /// One of a file whose name was made just now.
    other: String,
}

impl Sites {
    /// The line of a call that was made there, as JSON.
    #[inline]
    pub(crate) fn find(&mut self, at: &Site) -> &str {
        let make = || {
            let mut json = Vec::new();
            tiffany_log::push_string(&mut json, &at.to_string());
            String::from_utf8(json).expect("it is made of texts")
        };
        match at.file {
            Cow::Borrowed(file) => {
                let key = (file.as_ptr().addr(), at.line);
                self.texts.entry(key).or_insert_with(|| make().into())
            }
            Cow::Owned(_) => {
                self.other = make();
                &self.other
            }
        }
    }
}

/// The program itself makes the addresses, and they are not secret, so a multiplication spreads
/// them well enough.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, line: u32) {
        self.write_usize(line as usize);
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
