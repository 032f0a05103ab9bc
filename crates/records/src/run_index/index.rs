//! The index of records: offset, task, type and whether something failed, in 16 bytes per record.
//! It serves to find pages of records.

use regex::bytes::{Regex, RegexBuilder};

use crate::record::Record;
use crate::run_index::lines::{Going, Lines, Moved};
use crate::words::has_failed;
use tiffany_log::{LogLine, RecordType};

/// A record in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    offset: u64,
    tid: u32,
    /// The index of its type among all types.
    kind: u8,
    has_failed: bool,
}

/// The type index of types that this program does not know.
const UNKNOWN: u8 = u8::MAX;

impl Entry {
    pub(crate) fn of(line: &LogLine<'_>, record: &Record<'_>) -> Entry {
        Entry {
            offset: line.offset,
            tid: u32::try_from(line.tid.0).unwrap_or(u32::MAX),
            kind: line.record_type().map_or(UNKNOWN, |kind| kind as u8),
            has_failed: has_failed(record),
        }
    }
}

/// All records of a generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    /// The offset of the end of the last line.
    end: u64,
}

/// A query for records. All conditions must be met.
#[derive(Clone, Debug, Default)]
pub struct RecordQuery {
    /// Only records from this one on.
    pub from: Option<u64>,
    /// Only records before this one.
    pub before: Option<u64>,
    /// Whether to return the last records first.
    pub is_descending: bool,
    /// Only records of this task.
    pub task: Option<u64>,
    /// Only records of one of these types; if empty, of all.
    pub types: Vec<String>,
    /// Only records in which something failed.
    pub failed: bool,
    /// Only records whose line contains this text, in upper or lower case.
    pub text: Option<String>,
    /// The maximum number of records; 0 means 1.
    pub limit: usize,
}

/// A page of records.
#[derive(Clone, Debug, Default)]
pub struct RecordPage {
    /// The records, each as a JSON object in the form of the log.
    pub records: Vec<String>,
    /// The numbers of the first and the last record on the page.
    pub range: Option<(u64, u64)>,
    /// The number of records in the run.
    pub total: u64,
    /// The number of records that match the query; `None` if counting them would take too long.
    pub matched: Option<u64>,
    /// The record to continue with in the same direction; `None` if there are no more.
    pub next: Option<u64>,
    /// Whether the run is finished.
    pub is_over: bool,
    /// The error, if there are records that could not be read.
    pub unread: Option<String>,
}

/// The number of bytes of lines that one query searches for a text.
const MAX_SEARCHED_BYTES: u64 = 128 << 20;
/// The maximum number of bytes of lines on a page, whatever limit was requested.
const MAX_PAGE_BYTES: usize = 16 << 20;

impl Index {
    pub(crate) fn add(&mut self, entry: Entry, end: u64) {
        self.entries.push(entry);
        self.end = end;
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    fn entry(&self, seq: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(seq).ok()?.checked_sub(1)?)
    }

    pub(crate) fn begin(&self, seq: u64) -> u64 {
        self.entry(seq).map_or(self.end, |entry| entry.offset)
    }

    pub(crate) fn end(&self, seq: u64) -> u64 {
        self.begin(seq + 1)
    }

    /// Returns the last record such that the lines from `from` to it have at most this many bytes.
    /// There is always at least one record.
    pub(crate) fn piece(&self, from: u64, to: u64, bytes: u64) -> u64 {
        let (mut least, mut most) = (from, to);
        while least < most {
            let middle = most - (most - least) / 2;
            match self.end(middle) - self.begin(from) <= bytes {
                true => least = middle,
                false => most = middle - 1,
            }
        }
        least
    }

    /// Returns the first record such that the lines from it to `to` have at most this many bytes.
    /// There is always at least one record.
    pub(crate) fn piece_back(&self, from: u64, to: u64, bytes: u64) -> u64 {
        let (mut least, mut most) = (from, to);
        while least < most {
            let middle = least + (most - least) / 2;
            match self.end(to) - self.begin(middle) <= bytes {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        most
    }

    /// Returns the page for a query.
    pub(crate) fn page(&self, query: &RecordQuery, lines: &Lines<'_>) -> Result<RecordPage, Moved> {
        let first = query.from.unwrap_or(1).max(1);
        let last =
            query.before.map_or(self.len(), |before| before.saturating_sub(1)).min(self.len());
        // The range is empty; the count is still that of the whole run.
        let (first, last) = if first > last { (self.len() + 1, self.len()) } else { (first, last) };
        let filter = Filter::new(query);
        let mut page = RecordPage { total: self.len(), ..RecordPage::default() };
        match &filter.text {
            None => {
                let all = self.entries.iter().filter(|entry| filter.takes(entry));
                page.matched = Some(all.count() as u64);
                self.chosen(query, &filter, (first, last), lines, &mut page)?;
            }
            Some(text) => self.searched(query, &filter, text, (first, last), lines, &mut page)?,
        }
        Ok(page)
    }

    /// Makes a page of records that the index alone can select.
    fn chosen(
        &self,
        query: &RecordQuery,
        filter: &Filter,
        (first, last): (u64, u64),
        lines: &Lines<'_>,
        page: &mut RecordPage,
    ) -> Result<(), Moved> {
        let limit = query.limit.max(1);
        let fits = |seq: &u64| self.entry(*seq).is_some_and(|entry| filter.takes(entry));
        // One more, to find out whether there is a next page.
        let mut seqs: Vec<u64> = match query.is_descending {
            false => (first..=last).filter(fits).take(limit + 1).collect(),
            true => (first..=last).rev().filter(fits).take(limit + 1).collect(),
        };
        page.next = (seqs.len() > limit).then(|| seqs[limit]);
        seqs.truncate(limit);
        let mut told = 0;
        // Adjacent records are read together.
        for together in seqs.chunk_by(|a, b| a.abs_diff(*b) == 1) {
            let (Some(a), Some(b)) = (together.first(), together.last()) else { continue };
            let mut take = |record: &LogLine<'_>| {
                if told > MAX_PAGE_BYTES {
                    return Going::Enough;
                }
                told += record.json.len();
                page.take(record);
                Going::On
            };
            match query.is_descending {
                false => lines.each(self, *a, *b, &mut take)?,
                true => lines.each_back(self, *b, *a, &mut take)?,
            }
        }
        page.next = seqs.get(page.records.len()).copied().or(page.next);
        Ok(())
    }

    /// Makes a page of records by searching their lines.
    fn searched(
        &self,
        query: &RecordQuery,
        filter: &Filter,
        text: &Text,
        (first, last): (u64, u64),
        lines: &Lines<'_>,
        page: &mut RecordPage,
    ) -> Result<(), Moved> {
        let limit = query.limit.max(1);
        let (mut searched, mut told, mut matched) = (0, 0, 0);
        let mut is_cut = false;
        let mut look = |record: &LogLine<'_>| {
            // The count covers the whole run, the page only the requested range.
            let is_asked_for = (first..=last).contains(&record.seq);
            searched += record.json.len() as u64;
            if searched > MAX_SEARCHED_BYTES {
                is_cut = true;
                if page.next.is_none() && is_asked_for {
                    page.next = Some(record.seq);
                }
                return Going::Enough;
            }
            let fits = self.entry(record.seq).is_some_and(|entry| filter.takes(entry));
            if !fits || !text.is_in(record.json) {
                return Going::On;
            }
            matched += 1;
            if !is_asked_for || page.next.is_some() {
                return Going::On;
            }
            if page.records.len() >= limit || told > MAX_PAGE_BYTES {
                page.next = Some(record.seq);
                return Going::On;
            }
            told += record.json.len();
            page.take(record);
            Going::On
        };
        // The requested range comes first; the rest is only counted.
        let (before, after) = ((1, first - 1), (last + 1, self.len()));
        match query.is_descending {
            false => lines.each(self, first, last, &mut look)?,
            true => lines.each_back(self, first, last, &mut look)?,
        }
        for (from, to) in [before, after] {
            lines.each(self, from, to.min(self.len()), &mut look)?;
        }
        page.matched = (!is_cut).then_some(matched);
        Ok(())
    }
}

impl RecordPage {
    fn take(&mut self, record: &LogLine<'_>) {
        self.records.push(record.json.to_owned());
        self.range = Some((self.range.map_or(record.seq, |(first, _)| first), record.seq));
    }
}

/// The conditions that the index can check, and the text.
struct Filter {
    task: Option<u32>,
    /// The indices of the types; `None` for all.
    kinds: Option<Vec<u8>>,
    failed: bool,
    text: Option<Text>,
}

impl Filter {
    fn new(query: &RecordQuery) -> Filter {
        let place = |name: &String| RecordType::parse(name).map(|kind| kind as u8);
        let kinds = query.types.iter().filter_map(place).collect();
        Filter {
            task: query.task.map(|task| u32::try_from(task).unwrap_or(u32::MAX)),
            kinds: (!query.types.is_empty()).then_some(kinds),
            failed: query.failed,
            text: query.text.as_deref().filter(|text| !text.is_empty()).map(Text::new),
        }
    }

    fn takes(&self, entry: &Entry) -> bool {
        self.task.is_none_or(|task| task == entry.tid)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&entry.kind))
            && (!self.failed || entry.has_failed)
    }
}

/// A text to search for, in upper or lower case.
enum Text {
    Plain(Box<Regex>),
    /// The text in lower case, if it contains letters beyond ASCII.
    Any(String),
}

impl Text {
    fn new(text: &str) -> Text {
        let plain = text.is_ascii().then(|| {
            RegexBuilder::new(&regex::escape(text)).case_insensitive(true).unicode(false).build()
        });
        match plain {
            Some(Ok(regex)) => Text::Plain(Box::new(regex)),
            _ => Text::Any(text.to_lowercase()),
        }
    }

    fn is_in(&self, line: &str) -> bool {
        match self {
            Text::Plain(regex) => regex.is_match(line.as_bytes()),
            Text::Any(text) => line.to_lowercase().contains(text),
        }
    }
}
