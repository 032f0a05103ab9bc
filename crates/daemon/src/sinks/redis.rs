//! Redis Streams: each event is an entry of the stream of all runs and of the stream of its own
//! run. `MAXLEN ~` removes old entries.

use std::collections::BTreeSet;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline};

use super::address::Address;
use super::item::{Item, Origin};
use super::pump::Outlet;
use super::{RedisSettings, SinkError};

pub(super) struct Redis {
    client: Client,
    settings: RedisSettings,
}

impl Redis {
    pub(super) fn new(settings: &RedisSettings) -> Result<Redis, SinkError> {
        let client = Client::open(settings.url.secret()).map_err(|error| SinkError {
            what: settings.url.to_string(),
            why: settings.url.hide(&error.to_string()),
            section: "sinks.redis",
        })?;
        Ok(Redis { client, settings: settings.clone() })
    }

    fn add(&self, pipe: &mut Pipeline, stream: &str, keep: u64, item: &Item, json: &str) {
        let command = pipe.cmd("XADD").arg(stream).arg("MAXLEN").arg("~").arg(keep).arg("*");
        if let (Some(seq), Some(run)) = (item.seq(), item.run()) {
            command.arg("seq").arg(seq).arg("run").arg(run);
        }
        command.arg("stage").arg(item.stage()).arg("event").arg(json).ignore();
    }
}

impl Outlet for Redis {
    const KIND: &'static str = "redis";
    type Open = MultiplexedConnection;

    fn address(&self) -> &Address {
        &self.settings.url
    }

    async fn connect(&self) -> Result<MultiplexedConnection, String> {
        // The caller has its own timeout.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connected = self.client.get_multiplexed_async_connection_with_config(&config).await;
        connected.map_err(|error| error.to_string())
    }

    async fn send(
        &self,
        open: &mut MultiplexedConnection,
        items: &[Item],
        origin: &Origin,
    ) -> Result<(), String> {
        let RedisSettings { stream, keep, keep_run, forget_run_seconds, .. } = &self.settings;
        // A transaction, so that a retry doesn't leave a part of the batch twice in between.
        let mut pipe = redis::pipe();
        pipe.atomic();
        let mut runs = BTreeSet::new();
        for item in items {
            let json = item.json(origin);
            self.add(&mut pipe, stream, *keep, item, &json);
            if let Some(run) = item.run() {
                let of_run = format!("{stream}:{run}");
                self.add(&mut pipe, &of_run, *keep_run, item, &json);
                runs.insert(of_run);
            }
        }
        for of_run in &runs {
            pipe.cmd("EXPIRE").arg(of_run).arg(*forget_run_seconds).ignore();
        }
        pipe.query_async::<()>(open).await.map_err(|error| error.to_string())
    }
}
