//! What the tests of `history` share: runs written line by line, as a runtime would write them.

use std::sync::Arc;

use tiffany::wal::sim::SimDisk;
use tiffany::wal::{Batch, Chain, RecordType, Settings, Stamp, View, Writer};
use tiffany::{Tid, Uuid};

pub(crate) const ROOT: &str = "/log";

/// A log under construction.
pub(crate) struct Log {
    pub(crate) disk: SimDisk,
    writer: Writer,
}

/// A run under construction.
pub(crate) struct Run {
    pub(crate) uuid: Uuid,
    chain: Chain,
    batch: Batch,
    /// In milliseconds.
    now: u64,
}

impl Log {
    pub(crate) fn new() -> Log {
        let disk = SimDisk::new();
        let settings = Settings { segment_bytes: 1 << 20, ..Settings::default() };
        let (writer, _) = Writer::open(Arc::new(disk.clone()), ROOT.as_ref(), settings).unwrap();
        Log { disk, writer }
    }

    /// A run that has begun, at this second.
    pub(crate) fn run(&self, number: u128, second: u64) -> Run {
        let uuid = Uuid::from_random(number << 64 | 0x1234_5678_9abc_def0);
        let batch = Batch::with_blob_limit(2000);
        Run { uuid, chain: Chain::new(uuid), batch, now: second * 1000 }
    }

    pub(crate) fn write(&mut self, mut run: Run) -> Uuid {
        self.writer.commit(&mut run.batch, |_| ()).unwrap();
        run.uuid
    }

    pub(crate) fn view(&self) -> View {
        View::open(Arc::new(self.disk.clone()), ROOT.as_ref()).unwrap()
    }
}

impl Run {
    /// Its lines, as they are in its file.
    pub(crate) fn text(&self) -> String {
        self.batch.text().to_owned()
    }

    /// Lets time pass.
    pub(crate) fn later(&mut self, millis: u64) -> &mut Run {
        self.now += millis;
        self
    }

    fn stamp(&self, more: u64) -> Stamp {
        Stamp::from_unix_nanos((1_800_000_000_000 + self.now + more) * 1_000_000)
    }

    /// Any line: its type, its task, and fields as `(name, JSON)`.
    pub(crate) fn line(&mut self, kind: RecordType, tid: u64, fields: &[(&str, &str)]) -> u64 {
        let now = self.stamp(0);
        let mut line = self.batch.line(&mut self.chain, &now, kind, Tid(tid));
        for (name, json) in fields {
            line = line.json(name, json);
        }
        line.end()
    }

    pub(crate) fn start(&mut self, input: &str) -> &mut Run {
        let (id, seed) = (format!("\"run {}\"", self.uuid), format!("\"{}\"", self.uuid.0 % 97));
        let fields = [("id", &*id), ("function", "\"order\""), ("input", input), ("seed", &seed)];
        self.line(RecordType::RunStart, 1, &fields);
        self
    }

    pub(crate) fn spawn(&mut self, tid: u64, child: u64, name: &str) -> &mut Run {
        let (child, name) = (child.to_string(), serde_json::to_string(name).unwrap());
        self.line(RecordType::TaskSpawn, tid, &[("child", &child), ("name", &name)]);
        self
    }

    pub(crate) fn call(&mut self, tid: u64, call: &str, fields: &[(&str, &str)]) -> u64 {
        let call = format!("\"{call}\"");
        let mut all = vec![("call", &*call)];
        all.extend(fields);
        // Lines of code move without a meaning.
        let at = format!("\"src/main.rs:{}\"", self.uuid.0 % 91);
        all.push(("at", &at));
        self.line(RecordType::TaskYield, tid, &all)
    }

    /// A step with its input, so many attempts of which all but the last fail, and its result as a field.
    pub(crate) fn step(
        &mut self,
        tid: u64,
        (name, input): (&str, &str),
        attempts: u64,
        result: (&str, &str),
    ) -> u64 {
        let (name, about) = (format!("\"{name}\""), format!("{{\"input\":{input}}}"));
        let of = self.call(tid, "effect", &[("name", &name), ("about", &about)]).to_string();
        for attempt in 1..=attempts {
            let attempt_text = attempt.to_string();
            let which = [("of", &*of), ("attempt", &attempt_text)];
            self.later(5).line(RecordType::EffectStart, tid, &which);
            if attempt < attempts {
                let retry_at = format!("\"{}\"", self.stamp(20).as_str());
                let error = r#"{"kind":"Failed","message":"busy"}"#;
                let more = [("error", error), ("retry_at", &*retry_at)];
                let fields: Vec<_> = which.into_iter().chain(more).collect();
                self.later(10).line(RecordType::EffectResult, tid, &fields);
                self.later(20);
            }
        }
        let step = (self.uuid.0 % 89).to_string();
        self.later(30).line(RecordType::EffectResult, tid, &[("of", &of), ("step", &step), result]);
        of.parse().unwrap()
    }

    pub(crate) fn sleep(&mut self, tid: u64, millis: u64) -> &mut Run {
        let until = format!("\"{}\"", self.stamp(millis).as_str());
        let of = self.call(tid, "sleep", &[("time", &until)]).to_string();
        self.later(millis).line(RecordType::TaskWake, tid, &[("of", &of), ("step", "1")]);
        self
    }

    pub(crate) fn exit(&mut self, tid: u64, value: &str) -> &mut Run {
        let value = [("value", value)];
        self.line(RecordType::TaskExit, tid, if tid == 1 { &value } else { &[] });
        if tid == 1 {
            self.batch.finish(&self.chain);
        }
        self
    }

    pub(crate) fn fail(&mut self, tid: u64, message: &str) -> &mut Run {
        let line = self.uuid.0 % 83;
        let error = format!(
            r#"{{"kind":"Failed","message":"{message}","task":{{"tid":{tid},"name":null,"spawned_at":{{"file":"m.rs","line":{line}}}}},"call":["pay",{{"file":"m.rs","line":{line}}}],"within":[],"through":[]}}"#
        );
        self.line(RecordType::TaskAbort, tid, &[("error", &error)]);
        self
    }
}
