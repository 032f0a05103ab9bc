//! Sets up the daemon's log and telemetry from the configuration.

use std::time::Duration;

use tiffany::RuntimeHandle;
use tiffany::logging;

use crate::config::Config;
use crate::otlp::OtlpError;

/// How long the collector has to accept the last telemetry.
#[cfg_attr(not(feature = "otlp"), allow(dead_code))]
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);

/// The telemetry of this process, if it is configured.
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<crate::otlp::Exporter>,
}

impl Telemetry {
    /// Sets up the log of this process, unless it is set up already, and starts to send telemetry.
    #[cfg(feature = "otlp")]
    pub(crate) fn start(config: &Config) -> Result<Telemetry, OtlpError> {
        use tracing_subscriber::layer::SubscriberExt;
        use tracing_subscriber::util::SubscriberInitExt;

        let Some(settings) = &config.otlp else {
            logging::init(config.log.format(), config.log.level());
            return Ok(Telemetry { exporter: None });
        };
        let (spans, exporter) =
            crate::otlp::start(settings, config.node.as_deref().unwrap_or_default())?;
        let lines = logging::layer(config.log.format(), config.log.level());
        let set = tracing_subscriber::registry().with(lines).with(spans_of(spans)).try_init();
        set.map_err(|_| {
            OtlpError("`-v` has set up logging; use the section `log` instead".into())
        })?;
        Ok(Telemetry { exporter: Some(exporter) })
    }

    /// Sets up the log of this process, unless it is set up already.
    #[cfg(not(feature = "otlp"))]
    pub fn start(config: &Config) -> Result<Telemetry, OtlpError> {
        if config.otlp.is_some() {
            return Err(OtlpError("this program was built without the feature `otlp`".into()));
        }
        logging::init(config.log.format(), config.log.level());
        Ok(Telemetry {})
    }

    /// Starts to report the metrics of this runtime. Without the telemetry feature it does nothing.
    pub fn watch(&self, _runtime: &RuntimeHandle) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.watch(_runtime);
        }
    }

    /// Sends the last telemetry.
    pub fn finish(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.finish(FINISH_TIMEOUT);
        }
    }
}

/// Restricts spans to runs, tasks and steps; every call would be too much.
#[cfg(feature = "otlp")]
fn spans_of<S>(spans: crate::otlp::SpanLayer) -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    use tracing_subscriber::Layer;
    use tracing_subscriber::filter::LevelFilter;
    spans.with_filter(LevelFilter::DEBUG)
}
