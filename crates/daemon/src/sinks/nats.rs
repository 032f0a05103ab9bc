//! NATS: each event is a message to `SUBJECT.NODE.RUN.STAGE`. After each batch the sink sends a
//! message to itself; once that arrives, the server has the batch, since it keeps the order of a
//! connection.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Subscriber};
use futures_util::StreamExt;

use super::address::Address;
use super::item::{Item, Origin};
use super::pump::Outlet;
use super::{NatsSettings, SinkError};

pub(super) struct Nats {
    settings: NatsSettings,
    /// The prefix of all subjects.
    prefix: String,
}

pub(super) struct Connected {
    client: Client,
    inbox: String,
    echoes: Subscriber,
    /// The number of messages that the sink has sent to itself.
    sent: u64,
}

impl Nats {
    pub(super) fn new(settings: &NatsSettings, node: &str) -> Result<Nats, SinkError> {
        let failed = |why: String| SinkError {
            what: settings.url.to_string(),
            why: settings.url.hide(&why),
            section: "sinks.nats",
        };
        let address = settings.url.bare().parse::<async_nats::ServerAddr>();
        address.map_err(|error| failed(error.to_string()))?;
        let words = settings.subject.split('.');
        if words.clone().any(|word| word.is_empty() || word != self::word(word)) {
            return Err(failed(format!("`{}` is not a subject", settings.subject)));
        }
        let node = if node.is_empty() { "node" } else { node };
        let prefix = format!("{}.{}", settings.subject, word(node));
        Ok(Nats { settings: settings.clone(), prefix })
    }

    fn subject(&self, item: &Item) -> String {
        let run = item.run().unwrap_or_else(|| "all".into());
        format!("{}.{run}.{}", self.prefix, item.stage())
    }
}

/// Converts a text to one token of a subject.
fn word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    text.chars().map(|char| if is_plain(char) { char } else { '_' }).collect()
}

impl Outlet for Nats {
    const KIND: &'static str = "nats";
    type Open = Connected;

    fn address(&self) -> &Address {
        &self.settings.url
    }

    async fn connect(&self) -> Result<Connected, String> {
        // The credentials are not in the address, since the client library logs that.
        let options = match self.settings.url.credentials() {
            Some((user, Some(password))) => ConnectOptions::with_user_and_password(user, password),
            Some((token, None)) => ConnectOptions::with_token(token),
            None => ConnectOptions::new(),
        };
        let options = options
            .name("tiffany")
            // The client library must not reconnect on its own: messages in flight would be lost
            // unnoticed.
            .max_reconnects(1)
            .reconnect_delay_callback(|_| Duration::from_millis(10));
        let connected = options.connect(self.settings.url.bare()).await;
        let client = connected.map_err(|error| error.to_string())?;
        let inbox = format!("_INBOX.tiffany.{:032x}", random());
        let echoes = client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
        Ok(Connected { client, inbox, echoes, sent: 0 })
    }

    async fn send(
        &self,
        open: &mut Connected,
        items: &[Item],
        origin: &Origin,
    ) -> Result<(), String> {
        let Connected { client, inbox, echoes, sent } = open;
        *sent += 1;
        let number = sent.to_string();
        for item in items {
            let published = client.publish(self.subject(item), item.json(origin).into()).await;
            published.map_err(|error| error.to_string())?;
        }
        let published = client.publish(inbox.clone(), number.clone().into()).await;
        published.map_err(|error| error.to_string())?;
        client.flush().await.map_err(|error| error.to_string())?;
        while let Some(echo) = echoes.next().await {
            if echo.payload == number.as_bytes() {
                return Ok(());
            }
        }
        Err("the connection was closed".into())
    }
}

/// A random number for a subject that no other client listens to.
fn random() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let draw = || u128::from(RandomState::new().hash_one(0));
    draw() << 64 | draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_one_word_of_a_subject() {
        let settings = NatsSettings::new(Address::new("nats://127.0.0.1"));
        let nats = Nats::new(&settings, "blade 1.*>\n").unwrap();
        assert_eq!(nats.subject(&Item::Lost(3)), "tiffany.blade_1____.all.Lost");
        for subject in ["", "a..b", "a b", "a.>", ".a"] {
            let settings = NatsSettings { subject: subject.into(), ..settings.clone() };
            let error = Nats::new(&settings, "x").err().unwrap().to_string();
            assert!(error.contains("is not a subject [TFY0196]"), "{error}");
        }
    }
}
