//! Log lines: one line for each event, as text or as JSON. The guide is the book's chapter
//! "Logging".

use std::borrow::Cow;
use std::{fmt, io};

use serde_json::{Map, Value};
pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::{MakeVisitor, RecordFields, VisitFmt, VisitOutput};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use tiffany_records::redact::{any, named_text};

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text, for people.
    #[default]
    Text,
    /// JSON, for programs: one object on each line, with `timestamp`, `level`, `target`, `message`
    /// and `fields`. The fields include those of the spans that an event is in.
    Json,
}

/// Writes log lines of this level and above to standard error from now on.
///
/// Returns `false` if logging was set up elsewhere already; nothing is changed then.
///
/// ```
/// use tiffany::logging::{Format, Level, init};
///
/// init(Format::Json, Level::INFO);
/// tiffany::run(async {})?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn init(format: Format, level: Level) -> bool {
    tracing_subscriber::registry().with(layer(format, level)).try_init().is_ok()
}

/// The logging that [`init`] sets up, as a layer for a subscriber with other layers.
pub fn layer<S>(format: Format, level: Level) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let lines = tracing_subscriber::fmt::layer();
    let level = LevelFilter::from_level(level);
    match format {
        Format::Text => lines
            .with_writer(|| Indented(std::io::stderr()))
            .fmt_fields(Redacted(DefaultFields::new()))
            .with_filter(level)
            .boxed(),
        Format::Json => lines
            .with_writer(std::io::stderr)
            .fmt_fields(JsonSpans)
            .event_format(JsonLines)
            .with_filter(level)
            .boxed(),
    }
}

/// Indents all lines of an event after the first, so that text from a task can't pass for a log
/// line.
struct Indented<W>(W);

impl<W: io::Write> io::Write for Indented<W> {
    /// Each call gets a whole event.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (text, end) = match event.strip_suffix(b"\n") {
            Some(text) => (text, &b"\n"[..]),
            None => (event, &b""[..]),
        };
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut written = lines.next().unwrap_or_default().to_vec();
        for line in lines {
            written.extend_from_slice(b"\n    | ");
            written.extend_from_slice(line);
        }
        written.extend_from_slice(end);
        self.0.write_all(&written)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Formats fields of events and spans after redaction by the [rules](tiffany_records::redact) of
/// this process, with another formatter. It is public for use in other subscribers.
///
/// ```
/// use tiffany::logging::Redacted;
/// use tracing_subscriber::fmt::format::DefaultFields;
///
/// let subscriber = tracing_subscriber::fmt().fmt_fields(Redacted(DefaultFields::new()));
/// # let _ = subscriber;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Redacted<F>(pub F);

impl<T, F: MakeVisitor<T>> MakeVisitor<T> for Redacted<F> {
    type Visitor = Cleaning<F::Visitor>;

    fn make_visitor(&self, target: T) -> Cleaning<F::Visitor> {
        Cleaning(self.0.make_visitor(target))
    }
}

/// Redacts fields on their way to a visitor. Only texts can contain secrets, but every value under
/// the name of a redacted field is one.
#[derive(Debug)]
pub struct Cleaning<V>(V);

impl<V: Visit> Cleaning<V> {
    /// Whether the text was changed. If so, the changed text was written.
    fn writes(&mut self, field: &Field, text: &str) -> bool {
        match named_text(field.name(), text) {
            Cow::Owned(cleaned) => {
                self.0.record_debug(field, &format_args!("{cleaned}"));
                true
            }
            Cow::Borrowed(_) => false,
        }
    }
}

impl<V: VisitOutput<fmt::Result>> VisitOutput<fmt::Result> for Cleaning<V> {
    fn finish(self) -> fmt::Result {
        self.0.finish()
    }
}

impl<V: VisitFmt> VisitFmt for Cleaning<V> {
    fn writer(&mut self) -> &mut dyn fmt::Write {
        self.0.writer()
    }
}

impl<V: Visit> Visit for Cleaning<V> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if !self.writes(field, &value.to_string()) {
            self.0.record_f64(field, value);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if !self.writes(field, &value.to_string()) {
            self.0.record_i64(field, value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if !self.writes(field, &value.to_string()) {
            self.0.record_u64(field, value);
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if !self.writes(field, if value { "true" } else { "false" }) {
            self.0.record_bool(field, value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match named_text(field.name(), value) {
            Cow::Owned(cleaned) => self.0.record_str(field, &cleaned),
            Cow::Borrowed(_) => self.0.record_str(field, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if !any() || !self.writes(field, &format!("{value:?}")) {
            self.0.record_debug(field, value);
        }
    }
}

/// Formats an event as one JSON object, after redaction by the [rules](tiffany_records::redact) of
/// this process. It is public for use in other subscribers, together with [`JsonSpans`].
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonLines;

impl<S, F> FormatEvent<S, F> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, F>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            if let Some(formatted) = extensions.get::<FormattedFields<F>>()
                && let Ok(Value::Object(inherited)) = serde_json::from_str(&formatted.fields)
            {
                fields.all.extend(inherited);
            }
        }
        let mut cleaning = Cleaning(fields);
        event.record(&mut cleaning);
        let fields = cleaning.0;
        let mut line = Map::new();
        line.insert("timestamp".into(), timestamp.into());
        line.insert("level".into(), event.metadata().level().as_str().into());
        line.insert("target".into(), event.metadata().target().into());
        line.insert("message".into(), fields.message.into());
        line.insert("fields".into(), Value::Object(fields.all));
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Formats the fields of a span in the form that [`JsonLines`] reads, after redaction by the
/// [rules](tiffany_records::redact) of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonSpans;

impl<'w> FormatFields<'w> for JsonSpans {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut cleaning = Cleaning(Fields::default());
        fields.record(&mut cleaning);
        write!(writer, "{}", Value::Object(cleaning.0.all))
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let mut cleaning = Cleaning(Fields::default());
        if let Ok(Value::Object(known)) = serde_json::from_str(&current.fields) {
            cleaning.0.all = known;
        }
        fields.record(&mut cleaning);
        current.fields = Value::Object(cleaning.0.all).to_string();
        Ok(())
    }
}

/// The fields of an event, with the message separate.
#[derive(Default)]
struct Fields {
    message: String,
    all: Map<String, Value>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        self.all.insert(field.name().into(), value);
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.set(field, format!("{value:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Indented;

    #[test]
    fn what_a_task_says_cannot_pass_for_a_line_of_the_log() {
        for (event, expected) in [
            ("one\n", "one\n"),
            ("one\nERROR two\n\nthree\n", "one\n    | ERROR two\n    | \n    | three\n"),
            ("no end\nof line", "no end\n    | of line"),
            ("", ""),
        ] {
            let mut written = Vec::new();
            Indented(&mut written).write_all(event.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
