//! The settings of telemetry, and their errors. Programs that are built without telemetry know the
//! settings too, so that they can report them.

use serde::Deserialize;

/// The collector to which telemetry is sent, and how.
///
/// ```
/// use tiffany_daemon::otlp::Settings;
///
/// let settings: Settings = toml::from_str("endpoint = 'http://127.0.0.1:4318'").unwrap();
/// assert_eq!(settings.service, "tiffany");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The collector, as `http://HOST:PORT`; `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// Headers to send with each request.
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, String>,
    /// The name of this service at the collector: `service.name`.
    #[serde(default = "default_service")]
    pub service: String,
    /// The interval between metrics in seconds; 0 disables them.
    #[serde(default = "default_every")]
    pub metrics_every_seconds: u64,
}

fn default_service() -> String {
    "tiffany".into()
}

fn default_every() -> u64 {
    30
}

impl Settings {
    /// Creates settings for a collector, with defaults for the rest.
    pub fn new(endpoint: impl Into<String>) -> Settings {
        Settings {
            endpoint: endpoint.into(),
            headers: Default::default(),
            service: default_service(),
            metrics_every_seconds: default_every(),
        }
    }
}

/// Headers may contain secrets, so they are not printed.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &crate::sinks::Address::new(&*self.endpoint))
            .field("headers", &self.headers.keys())
            .field("service", &self.service)
            .field("metrics_every_seconds", &self.metrics_every_seconds)
            .finish()
    }
}

/// Why telemetry cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "telemetry cannot be sent: {0} [TFY0197]; give the address of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318"
)]
pub struct OtlpError(pub(crate) String);

impl OtlpError {
    /// The error code of every telemetry error.
    pub const CODE: &str = "TFY0197";

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        OtlpError::CODE
    }
}
