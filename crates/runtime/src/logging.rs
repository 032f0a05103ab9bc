//! Writing the log: one line for each event, as text or as JSON. The guide is the book's chapter
//! "Logging".

use std::fmt;

use serde_json::{Map, Value};
pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one object a line, `timestamp`, `level`, `target`, `message` and `fields`. The
    /// fields of the spans an event is in are among its own.
    Json,
}

/// Writes the log to standard error from now on, everything of this level and above.
///
/// `false`: somebody else has set up logging already, and nothing was changed.
///
/// ```
/// use tiffany::logging::{Format, Level, init};
///
/// init(Format::Json, Level::INFO);
/// tiffany::run(async {})?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn init(format: Format, level: Level) -> bool {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match format {
        Format::Text => builder.try_init().is_ok(),
        Format::Json => {
            builder.fmt_fields(JsonFields::new()).event_format(JsonLines).try_init().is_ok()
        }
    }
}

/// Formats an event as one JSON object. Public so that it can be given to a subscriber of one's own,
/// together with [`JsonFields`].
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Fields::default();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            if let Some(formatted) = extensions.get::<FormattedFields<JsonFields>>()
                && let Ok(Value::Object(inherited)) = serde_json::from_str(&formatted.fields)
            {
                fields.all.extend(inherited);
            }
        }
        event.record(&mut fields);
        let mut line = Map::new();
        line.insert("timestamp".into(), timestamp.into());
        line.insert("level".into(), event.metadata().level().as_str().into());
        line.insert("target".into(), event.metadata().target().into());
        line.insert("message".into(), fields.message.into());
        line.insert("fields".into(), Value::Object(fields.all));
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The fields of an event, the message apart.
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
