//! Where each record is, whose it is, what it is, and whether something failed there: 16 bytes each. Pages of records are found by it.

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
    /// The place of its type among all types.
    kind: u8,
    has_failed: bool,
}

/// A type that this program does not know.
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
    /// Where the last line ends.
    end: u64,
}

/// Which records are wanted. All that is asked for must be so.
#[derive(Clone, Debug, Default)]
pub struct RecordQuery {
    /// From this one on.
    pub from: Option<u64>,
    /// Only those before this one.
    pub before: Option<u64>,
    /// The last first.
    pub is_descending: bool,
    /// Of this task.
    pub task: Option<u64>,
    /// Of one of these types.
    pub types: Vec<String>,
    /// Only where something failed.
    pub failed: bool,
    /// Only those whose line has this in it, in small or capital letters.
    pub text: Option<String>,
    /// So many at most; 0 is as good as 1.
    pub limit: usize,
}

/// A page of records.
#[derive(Clone, Debug, Default)]
pub struct RecordPage {
    /// Each a JSON object, as the log has it.
    pub records: Vec<String>,
    /// The number of the first of them, and of the last.
    pub range: Option<(u64, u64)>,
    /// How many the run has.
    pub total: u64,
    /// How many of all are of the kind that was asked for; `None` if that would take too long to count.
    pub matched: Option<u64>,
    /// Where to go on in the same direction: the next one to look at. `None`: there is nothing more.
    pub next: Option<u64>,
    /// Whether the run is over.
    pub is_over: bool,
    /// Why there is more than could be read, if there is.
    pub unread: Option<String>,
}

/// So many bytes of lines are looked through for a text in one question.
const MAX_SEARCHED_BYTES: u64 = 128 << 20;
/// A page has no more bytes of lines than this, whatever was asked for.
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

    /// The last record up to which there are so many bytes at most, and one record at least.
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

    /// The first record from which on there are so many bytes at most, and one record at least.
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

    /// A page of what is asked for.
    pub(crate) fn page(&self, query: &RecordQuery, lines: &Lines<'_>) -> Result<RecordPage, Moved> {
        let first = query.from.unwrap_or(1).max(1);
        let last =
            query.before.map_or(self.len(), |before| before.saturating_sub(1)).min(self.len());
        // Nothing between them: what is counted is all there is.
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

    /// A page that the index alone can choose.
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
        // One more, to know whether there is one.
        let mut seqs: Vec<u64> = match query.is_descending {
            false => (first..=last).filter(fits).take(limit + 1).collect(),
            true => (first..=last).rev().filter(fits).take(limit + 1).collect(),
        };
        page.next = (seqs.len() > limit).then(|| seqs[limit]);
        seqs.truncate(limit);
        let mut told = 0;
        // Those that lie together are read together.
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

    /// A page for which lines are looked through.
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
            // The count is of the whole run, the page of the part that was asked for.
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
        // First where the page is, then the rest, which is only counted.
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

/// What is asked for, as far as the index knows it, and the text.
struct Filter {
    task: Option<u32>,
    /// By the places of types; `None`: all.
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

/// A text that is looked for, in small or capital letters.
enum Text {
    Plain(Box<Regex>),
    /// With other letters than those of ASCII: already small.
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
