//! Converts spans of `tracing` to those of OpenTelemetry, with their trace, parent, fields and log
//! lines. A span that ends is put in the exporter's queue, if there is room.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tiffany::logging::Redacted;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeVisitor;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::exporter::Queue;
use super::sending::Counts;

/// The most log lines that are kept with a span.
const MAX_NOTES: usize = 64;

/// A subscriber layer that sends spans to a collector.
pub struct SpanLayer {
    queue: Arc<Queue>,
    counts: Arc<Counts>,
}

/// A finished span.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) fields: Vec<(&'static str, Value)>,
    pub(super) notes: Vec<Note>,
    pub(super) dropped_notes: u32,
    pub(super) error: Option<String>,
}

/// A log line inside a span.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) time: u64,
    pub(super) level: &'static str,
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl SpanLayer {
    pub(super) fn new(queue: Arc<Queue>, counts: Arc<Counts>) -> SpanLayer {
        SpanLayer { queue, counts }
    }
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let fields = Fields::read(|visitor| attributes.record(visitor));
        let parent = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Ended>().map(|parent| (parent.trace, parent.id))
        });
        let trace = match parent {
            Some((trace, _)) => trace,
            None => {
                fields.run().unwrap_or_else(|| u128::from(random()) << 64 | u128::from(random()))
            }
        };
        let ended = Ended {
            trace,
            id: random(),
            parent: parent.map(|(_, id)| id),
            name: span.name(),
            start: now(),
            end: 0,
            fields: fields.all,
            notes: Vec::new(),
            dropped_notes: 0,
            error: None,
        };
        span.extensions_mut().insert(ended);
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(ended) = extensions.get_mut::<Ended>() {
            let mut fields = Fields::read(|visitor| record.record(visitor));
            ended.fields.append(&mut fields.all);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(ended) = extensions.get_mut::<Ended>() else { return };
        let fields = Fields::read(|visitor| event.record(visitor));
        let level = *event.metadata().level();
        if level == Level::ERROR {
            ended.error = Some(fields.message.clone());
        }
        if ended.notes.len() >= MAX_NOTES {
            ended.dropped_notes += 1;
            return;
        }
        let Fields { message, all } = fields;
        ended.notes.push(Note { time: now(), level: level.as_str(), message, fields: all });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut ended) = span.extensions_mut().remove::<Ended>() else { return };
        ended.end = now().max(ended.start);
        if !self.queue.add(ended) {
            self.counts.dropped_spans.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The fields of a span or of a log line, separate from its message.
#[derive(Default)]
struct Fields {
    message: String,
    all: Vec<(&'static str, Value)>,
}

/// Creates a visitor for fields whose values are redacted.
struct Gather;

impl<'a> MakeVisitor<&'a mut Fields> for Gather {
    type Visitor = Gathering<'a>;

    fn make_visitor(&self, fields: &'a mut Fields) -> Gathering<'a> {
        Gathering(fields)
    }
}

struct Gathering<'a>(&'a mut Fields);

impl Fields {
    /// Reads fields, redacted by the rules of this process.
    fn read(record: impl FnOnce(&mut dyn Visit)) -> Fields {
        let mut fields = Fields::default();
        record(&mut Redacted(Gather).make_visitor(&mut fields));
        fields
    }

    /// Returns the trace of a durable run, which is its UUID, so that the run is one trace across
    /// restarts.
    fn run(&self) -> Option<u128> {
        let (_, id) = self.all.iter().find(|(name, _)| *name == "task_id")?;
        tiffany::Uuid::parse(id.as_str()?).map(|uuid| uuid.0)
    }
}

impl Visit for Gathering<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.all.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.all.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.all.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.all.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.0.message = value.to_owned(),
            name => self.0.all.push((name, value.into())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Returns the nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a random number other than 0, which means "none".
fn random() -> u64 {
    RandomState::new().hash_one(now()).max(1)
}
