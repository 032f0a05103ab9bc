//! The remains of a compacted run: its first record, the last one of its root, and between them a
//! record that says what was there. It reads records, but doesn't decide when to compact.

use serde::{Deserialize, Serialize};
use tiffany_kernel::{TaskError, Tid, Time, Uuid};

use crate::errors::read_too_early;
use crate::key::Key;
use crate::key::LogEnd;
use crate::key::Received;
use crate::record::Inline;
use crate::record::{Compacted, Encode, Record};
use crate::request::uuid_text::text;
use tiffany_log::{Batch, Line, LogError, LogLine, Stamp, View};

/// The lines that are left of a run, and the end that its log must have for them to be correct.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remains {
    /// The run.
    #[serde(with = "text")]
    pub run: Uuid,
    /// The end of its log.
    pub stand: LogEnd,
    /// The size of its log, in bytes.
    pub bytes: u64,
    /// The two records, unchanged.
    start: String,
    end: Option<String>,
    /// The last record that tells its tags and attributes, if one does besides the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attributes: Option<String>,
    /// The last message of each run that sent one.
    pub received: Vec<String>,
}

impl Remains {
    /// Reads a finished run, and checks every line of it. Returns `None` if compacting it saves
    /// nothing.
    pub fn read(view: &View, run: Uuid) -> Result<Option<Remains>, LogError> {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if let Some(error) = view.refused(run) {
            return Err(error.clone());
        }
        let (mut start, mut end, mut attributes) = (String::new(), None, None);
        let mut received = Received::default();
        let mut reader = view.reader(run)?;
        while let Some(line) = reader.next() {
            let line = line?;
            match Record::read(&line) {
                Record::Compacted(_) => return Ok(None),
                Record::RunStart(_) => start = line_of(&line),
                Record::Message(message) => {
                    let from = message.from.and_then(|key| Key::parse(&key.get()));
                    from.into_iter().for_each(|key| received.add(key));
                }
                Record::Attributes(_) => attributes = Some(line_of(&line)),
                record if record.is_end() && line.tid == Tid(1) => end = Some(line_of(&line)),
                _ => {}
            }
        }
        let stand = LogEnd { generation: entry.generation, seq: entry.seq, crc: entry.crc };
        let received = received.keys();
        let bytes = entry.len;
        let remains = Remains { run, stand, bytes, start, end, attributes, received };
        Ok(remains.saves().then_some(remains))
    }

    /// Returns its approximate size, in bytes.
    pub fn size(&self) -> usize {
        let lines = self.end.iter().chain(&self.attributes).map(String::len);
        self.start.len() + lines.sum::<usize>() + 180
    }

    /// Returns whether the new lines are shorter than the old ones.
    fn saves(&self) -> bool {
        let mut batch = Batch::new();
        let received = Received::of_keys(&self.received);
        self.write(&mut batch, &received, Time::ZERO).is_ok() && (batch.len() as u64) < self.bytes
    }

    /// Writes the lines as the run's next generation, and returns its end.
    pub fn write(
        &self,
        batch: &mut Batch,
        received: &Received,
        now: Time,
    ) -> Result<LogEnd, TaskError> {
        let unreadable = || read_too_early(self.run);
        let start = LogLine::of_checked(&self.start).ok_or_else(unreadable)?;
        let last = self.end.iter().chain(&self.attributes).map(|line| LogLine::of_checked(line));
        let last: Vec<LogLine<'_>> =
            last.map(|line| line.ok_or_else(unreadable)).collect::<Result<_, _>>()?;
        let mut chain = self.stand.chain(self.run).next_generation();
        let fields = start.fields().filter(|(name, _)| *name != "gen");
        let line = begin(batch, &mut chain, &start);
        fields.fold(line, |line, (name, value)| line.piece(&format!(",\"{name}\":{value}"))).end();
        let stamp = Stamp::from_unix_nanos(now.as_nanos());
        let keys = received.keys();
        let keys = serde_json::to_string(&keys).ok().filter(|_| !keys.is_empty());
        let compacted = Compacted {
            records: Some(self.stand.seq),
            bytes: Some(self.bytes),
            received: keys.as_deref().map(Inline),
        };
        compacted.write(batch.line(&mut chain, &stamp, Compacted::TYPE, Tid(1))).end();
        for line in &last {
            begin(batch, &mut chain, line).piece(line.fields().rest).end();
        }
        batch.finish(&chain);
        Ok(LogEnd::of(&chain))
    }
}

fn line_of(record: &LogLine<'_>) -> String {
    format!("{}\n", record.json)
}

fn begin<'a>(
    batch: &'a mut Batch,
    chain: &'a mut tiffany_log::Chain,
    record: &LogLine<'_>,
) -> Line<'a> {
    let stamp = record.stamp().unwrap_or_else(|| Stamp::from_unix_nanos(0));
    Line::begin(batch, chain, &stamp, record.kind, record.tid).of_version(record.version)
}
