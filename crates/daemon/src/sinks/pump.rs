//! The loop that all sinks share: read events, forward them, and retry when the server is
//! unavailable. It doesn't depend on the kind of server.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tiffany::pal::Subscription;
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::item::{Item, Origin};
use super::meters::SinkMeters;

/// The most events that are forwarded at once.
const HANDFUL: usize = 256;
/// How long a server may take to accept events or a connection.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after a failure, at first and at most.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A kind of server.
pub(super) trait Outlet: Send + Sync + 'static {
    /// The name of this kind of server.
    const KIND: &'static str;
    /// An open connection.
    type Open: Send;

    fn address(&self) -> &Address;

    fn connect(&self) -> impl Future<Output = Result<Self::Open, String>> + Send;

    /// Forwards events in order, and returns once the server has them.
    fn send(
        &self,
        open: &mut Self::Open,
        items: &[Item],
        origin: &Origin,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// Forwards all events until the subscription ends.
pub(super) async fn pump<O: Outlet>(
    outlet: O,
    mut events: Subscription,
    origin: Origin,
    meters: Arc<SinkMeters>,
) {
    let mut state = Line { outlet, origin, meters, open: None, down: None };
    while let Some(told) = poll_fn(|cx| events.poll_next(cx)).await {
        let mut items = vec![Item::from(told)];
        while items.len() < HANDFUL
            && let Some(told) = events.try_next()
        {
            items.push(told.into());
        }
        state.note_lost(&items);
        let mut wait = FIRST_WAIT;
        // These events are kept until the server has them; later ones wait in the hub, within its
        // limit.
        while let Err(why) = state.give(&items).await {
            state.failed(&why);
            if events.is_closed() && wait > FIRST_WAIT {
                return state.give_up(items.len());
            }
            sleep(wait).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
        state.succeeded(&items);
    }
}

struct Line<O: Outlet> {
    outlet: O,
    origin: Origin,
    meters: Arc<SinkMeters>,
    open: Option<O::Open>,
    /// Since when the server has been unavailable.
    down: Option<Instant>,
}

impl<O: Outlet> Line<O> {
    async fn give(&mut self, items: &[Item]) -> Result<(), String> {
        let late = |what: &str| format!("it took longer than {SERVER_TIMEOUT:?} to {what}");
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let connected = timeout(SERVER_TIMEOUT, self.outlet.connect()).await;
                connected.map_err(|_| late("connect"))??
            }
        };
        let sending = self.outlet.send(&mut open, items, &self.origin);
        timeout(SERVER_TIMEOUT, sending).await.map_err(|_| late("answer"))??;
        self.open = Some(open);
        Ok(())
    }

    fn note_lost(&self, items: &[Item]) {
        let lost: u64 =
            items.iter().map(|item| if let Item::Lost(count) = item { *count } else { 0 }).sum();
        if lost > 0 {
            self.meters.lost.fetch_add(lost, Ordering::Relaxed);
            tracing::warn!(
                target: "tiffany::sink", sink = O::KIND, lost,
                "{lost} events were lost because {} was away or too slow", self.outlet.address(),
            );
        }
    }

    fn failed(&mut self, why: &str) {
        self.meters.failures.fetch_add(1, Ordering::Relaxed);
        self.meters.is_connected.store(false, Ordering::Relaxed);
        // Logged once per outage.
        if self.down.is_none() {
            self.down = Some(Instant::now());
            let address = self.outlet.address();
            tracing::warn!(
                target: "tiffany::sink", sink = O::KIND,
                "events cannot be forwarded to {address}: {}; the daemon tries again, and keeps events while there is room",
                address.hide(why),
            );
        }
    }

    fn succeeded(&mut self, items: &[Item]) {
        let events = items.iter().filter(|item| item.seq().is_some()).count();
        self.meters.sent.fetch_add(events as u64, Ordering::Relaxed);
        if !self.meters.is_connected.swap(true, Ordering::Relaxed) {
            let (address, down) = (self.outlet.address(), self.down.take());
            let after = down.map(|since| format!(" again after {:.1?}", since.elapsed()));
            tracing::info!(
                target: "tiffany::sink", sink = O::KIND,
                "events are forwarded to {address}{}", after.unwrap_or_default(),
            );
        }
    }

    fn give_up(&self, events: usize) {
        self.meters.lost.fetch_add(events as u64, Ordering::Relaxed);
        tracing::warn!(
            target: "tiffany::sink", sink = O::KIND,
            "{events} events or more were not forwarded to {} before the end", self.outlet.address(),
        );
    }
}
