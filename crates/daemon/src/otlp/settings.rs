//! What can be said about telemetry, and what is wrong with it. It is known to programs that cannot send any, so that they can say so.

use serde::Deserialize;

/// Where telemetry is sent.
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
    /// Headers to be sent along.
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, String>,
    /// What this is called there: `service.name`.
    #[serde(default = "default_service")]
    pub service: String,
    /// Every how many seconds metrics are sent; 0: never.
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
    /// With everything else as it is by default.
    pub fn new(endpoint: impl Into<String>) -> Settings {
        Settings {
            endpoint: endpoint.into(),
            headers: Default::default(),
            service: default_service(),
            metrics_every_seconds: default_every(),
        }
    }
}

/// Headers may have secrets.
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
    /// The code of all of them.
    pub const CODE: &str = "TFY0197";

    /// The stable code.
    pub fn code(&self) -> &'static str {
        OtlpError::CODE
    }
}
