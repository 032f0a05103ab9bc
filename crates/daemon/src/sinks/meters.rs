//! Counters of a sink, for the metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tiffany::metrics::{Family, Kind, Reading};

pub(super) struct SinkMeters {
    kind: &'static str,
    pub(super) sent: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) is_connected: AtomicBool,
}

impl SinkMeters {
    pub(super) fn new(kind: &'static str) -> SinkMeters {
        SinkMeters {
            kind,
            sent: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_connected: AtomicBool::new(false),
        }
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let connected = f64::from(u8::from(self.is_connected.load(Ordering::Relaxed)));
        let all = [
            (
                "tiffany_sink_events_total",
                Kind::Counter,
                "Events that a sink's server has taken.",
                count(&self.sent),
            ),
            (
                "tiffany_sink_lost_total",
                Kind::Counter,
                "Events that a sink has lost, because its server was away or too slow.",
                count(&self.lost),
            ),
            (
                "tiffany_sink_failures_total",
                Kind::Counter,
                "How often a sink could not reach its server, or was not answered.",
                count(&self.failures),
            ),
            (
                "tiffany_sink_connected",
                Kind::Gauge,
                "1 if a sink reached its server the last time it tried.",
                connected,
            ),
        ];
        let families = all.map(|(name, kind, help, value)| {
            let mut family = Family::new(name, kind, help);
            family.add(&[("sink", self.kind)], Reading::Value(value));
            family
        });
        families.into()
    }
}
