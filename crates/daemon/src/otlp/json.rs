//! OTLP as JSON: spans and metrics in the form that the specification prescribes. Ids are
//! hexadecimal, 64-bit numbers are strings.

use serde_json::{Value, json};
use tiffany::metrics::{Family, Kind, Reading, Sample, Snapshot};

use super::spans::{Ended, Note};

/// The specification's value for a cumulative counter.
const CUMULATIVE: u32 = 2;

/// The description of the sender.
pub(super) fn resource(service: &str, node: &str) -> Value {
    json!({ "attributes": [
        attribute("service.name", service.into()),
        attribute("service.version", env!("CARGO_PKG_VERSION").into()),
        attribute("host.name", node.into()),
        attribute("process.pid", std::process::id().into()),
    ]})
}

fn scope() -> Value {
    json!({ "name": "tiffany", "version": env!("CARGO_PKG_VERSION") })
}

/// A request with spans.
pub(super) fn traces(resource: &Value, spans: &[Ended]) -> String {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let spans = json!({ "scope": scope(), "spans": spans });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [spans] }] }).to_string()
}

/// A request with metrics, counted since the process began.
pub(super) fn metrics(resource: &Value, snapshot: &Snapshot, since: u64, now: u64) -> String {
    let families = snapshot.families.iter().filter(|family| !family.samples.is_empty());
    let metrics: Vec<Value> = families.map(|family| metric(family, since, now)).collect();
    let metrics = json!({ "scope": scope(), "metrics": metrics });
    json!({ "resourceMetrics": [{ "resource": resource, "scopeMetrics": [metrics] }] }).to_string()
}

fn span(span: &Ended) -> Value {
    let status = match &span.error {
        Some(message) => json!({ "code": 2, "message": message }),
        None => json!({ "code": 0 }),
    };
    let events: Vec<Value> = span.notes.iter().map(note).collect();
    let mut object = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.fields),
        "events": events,
        "droppedEventsCount": span.dropped_notes,
        "status": status,
    });
    if let Some(parent) = span.parent {
        object["parentSpanId"] = format!("{parent:016x}").into();
    }
    object
}

fn note(note: &Note) -> Value {
    let mut fields = note.fields.clone();
    fields.push(("level", note.level.into()));
    json!({
        "timeUnixNano": note.time.to_string(),
        "name": note.message,
        "attributes": attributes(&fields),
    })
}

fn attributes(fields: &[(&'static str, Value)]) -> Vec<Value> {
    fields.iter().map(|(name, value)| attribute(name, value.clone())).collect()
}

fn attribute(key: &str, value: Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) => match number.as_i64() {
            Some(number) => json!({ "intValue": number.to_string() }),
            None => json!({ "doubleValue": number.as_f64().unwrap_or_default() }),
        },
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn metric(family: &Family, since: u64, now: u64) -> Value {
    let point = |sample: &Sample| point(sample, since, now);
    let points: Vec<Value> = family.samples.iter().map(point).collect();
    let mut metric = json!({ "name": family.name, "description": family.help });
    match family.kind {
        Kind::Counter => {
            metric["sum"] = json!({
                "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true,
            });
        }
        Kind::Gauge => metric["gauge"] = json!({ "dataPoints": points }),
        Kind::Histogram => {
            metric["histogram"] =
                json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE });
        }
    }
    metric
}

fn point(sample: &Sample, since: u64, now: u64) -> Value {
    let labels = sample.labels.iter();
    let labels: Vec<Value> =
        labels.map(|(label, value)| attribute(label, value.as_str().into())).collect();
    let mut point = json!({
        "attributes": labels,
        "startTimeUnixNano": since.to_string(),
        "timeUnixNano": now.to_string(),
    });
    match &sample.reading {
        Reading::Value(value) => point["asDouble"] = json!(value),
        Reading::Histogram(buckets) => {
            let counts: Vec<String> = buckets.counts.iter().map(u64::to_string).collect();
            point["count"] = buckets.count().to_string().into();
            point["sum"] = json!(buckets.sum);
            point["bucketCounts"] = json!(counts);
            point["explicitBounds"] = json!(buckets.bounds);
        }
    }
    point
}
