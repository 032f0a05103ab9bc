//! What is left of a run that is compacted: its first record, the one with which its root ended, and between them one that says what was there. It
//! reads records, and knows nothing of when that is done.

use serde::{Deserialize, Serialize};
use tiffany_kernel::{TaskError, Tid, Time, Uuid};

use crate::control::text;
use crate::durable::{Stand, log_failed, read_too_early};
use tiffany_log::{Batch, Line, LogError, Record, RecordType, Stamp, View};
use tiffany_records::key::Key;
use tiffany_records::key::Received;

/// A run in few lines, and where its log must end for that to be true.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remains {
    #[serde(with = "text")]
    pub(crate) run: Uuid,
    pub(crate) stand: Stand,
    /// How many bytes the log has.
    pub(crate) bytes: u64,
    /// The two records, as they are.
    start: String,
    end: Option<String>,
    /// The last message of each run that sent one.
    pub(crate) received: Vec<String>,
}

impl Remains {
    /// Reads a run that is over, and checks every line of it. `None`: there is nothing to be saved.
    pub(crate) fn read(view: &View, run: Uuid) -> Result<Option<Remains>, LogError> {
        let entry = view.run(run).ok_or(LogError::UnknownRun(run))?;
        if let Some(error) = view.refused(run) {
            return Err(error.clone());
        }
        let (mut start, mut end) = (String::new(), None);
        let mut received = Received::default();
        let mut reader = view.reader(run)?;
        while let Some(record) = reader.next() {
            let record = record?;
            match record.record_type() {
                Some(RecordType::Compacted) => return Ok(None),
                Some(RecordType::RunStart) => start = line_of(&record),
                Some(RecordType::Message) => {
                    let from = record.str("from").and_then(|key| Key::parse(&key));
                    from.into_iter().for_each(|key| received.add(key));
                }
                Some(RecordType::TaskExit | RecordType::TaskAbort | RecordType::TaskCancel)
                    if record.tid == Tid(1) =>
                {
                    end = Some(line_of(&record));
                }
                _ => {}
            }
        }
        let stand = Stand { generation: entry.generation, seq: entry.seq, crc: entry.crc };
        let received = received.keys();
        let remains = Remains { run, stand, bytes: entry.len, start, end, received };
        Ok(remains.saves().then_some(remains))
    }

    /// About how many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.start.len() + self.end.as_ref().map_or(0, String::len) + 180
    }

    /// Whether the new lines are shorter than the old ones.
    fn saves(&self) -> bool {
        let mut batch = Batch::new();
        let received = Received::of_keys(&self.received);
        self.write(&mut batch, &received, Time::ZERO).is_ok() && (batch.len() as u64) < self.bytes
    }

    /// Writes it as the run's next generation, and tells where that ends.
    pub(crate) fn write(
        &self,
        batch: &mut Batch,
        received: &Received,
        now: Time,
    ) -> Result<Stand, TaskError> {
        let unreadable = || read_too_early(self.run);
        let start = Record::of_checked(&self.start).ok_or_else(unreadable)?;
        let end = self.end.as_deref().map(Record::of_checked);
        let end = end.map(|end| end.ok_or_else(unreadable)).transpose()?;
        let mut chain = self.stand.chain(self.run).next_generation();
        let fields = start.fields().filter(|(name, _)| *name != "gen");
        let line = begin(batch, &mut chain, &start);
        fields.fold(line, |line, (name, value)| line.piece(&format!(",\"{name}\":{value}"))).end();
        let stamp = Stamp::from_unix_nanos(now.as_nanos());
        let line = batch
            .line(&mut chain, &stamp, RecordType::Compacted, Tid(1))
            .uint("records", self.stand.seq)
            .uint("bytes", self.bytes);
        match serde_json::to_string(&received.keys()) {
            Ok(keys) if keys != "[]" => line.piece(&format!(",\"received\":{keys}")).end(),
            _ => line.end(),
        };
        if let Some(end) = end {
            begin(batch, &mut chain, &end).piece(end.fields().rest).end();
        }
        batch.finish(&chain);
        Ok(Stand::of(&chain))
    }
}

fn line_of(record: &Record<'_>) -> String {
    format!("{}\n", record.json)
}

fn begin<'a>(
    batch: &'a mut Batch,
    chain: &'a mut tiffany_log::Chain,
    record: &Record<'_>,
) -> Line<'a> {
    let stamp = record.stamp().unwrap_or_else(|| Stamp::from_unix_nanos(0));
    Line::begin(batch, chain, &stamp, record.kind, record.tid)
}

/// The error of a log as a task has it.
pub(super) fn of_log(error: LogError) -> TaskError {
    log_failed(error)
}
