//! NATS, with a real server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tiffany_daemon::sinks::{Address, NatsSettings, Settings};

use super::server::{LIMIT, SECRET, Server};
use super::watched::{Watched, check};

fn url(server: &Server) -> String {
    format!("nats://ada:{SECRET}@127.0.0.1:{}", server.port)
}

fn settings(server: &Server) -> Settings {
    let mut settings = Settings::default();
    settings.nats = Some(NatsSettings::new(Address::new(url(server))));
    settings
}

/// A subscriber to all subjects.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(String, Value)>>>);

impl Heard {
    /// Subscribes, and returns once the subscription is active.
    fn listen(&self, server: &Server, on: &tokio::runtime::Runtime) {
        let (url, heard) = (format!("127.0.0.1:{}", server.port), self.clone());
        let options =
            async_nats::ConnectOptions::with_user_and_password("ada".into(), SECRET.into());
        let mut all = on.block_on(async move {
            let connected = async {
                let client = options.connect(&url).await.unwrap();
                let all = client.subscribe("tiffany.>").await.unwrap();
                client.flush().await.unwrap();
                all
            };
            tokio::time::timeout(LIMIT, connected).await.unwrap()
        });
        on.spawn(async move {
            while let Some(message) = all.next().await {
                let event = serde_json::from_slice(&message.payload).unwrap();
                heard.0.lock().unwrap().push((message.subject.to_string(), event));
            }
        });
    }

    fn events(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(_, event)| event.clone()).collect()
    }
}

#[test]
fn events_arrive_in_order_each_under_its_subject() {
    let server = Server::nats();
    let ears = tokio::runtime::Runtime::new().unwrap();
    let heard = Heard::default();
    heard.listen(&server, &ears);
    let mut watched = Watched::new(&settings(&server), 10_000);
    watched.work(100);
    watched.end();
    watched.until("not all came", || heard.events().len() >= 103);
    let events = heard.events();
    assert_eq!(check(&events), 0);
    for (subject, event) in heard.0.lock().unwrap().iter() {
        let (run, stage) = (event["task_id"].as_str().unwrap(), event["stage"].as_str().unwrap());
        assert_eq!(*subject, format!("tiffany.blade-1.{run}.{stage}"));
    }
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_told_the_rest() {
    let mut server = Server::nats();
    let ears = tokio::runtime::Runtime::new().unwrap();
    let first = Heard::default();
    first.listen(&server, &ears);
    let mut watched = Watched::new(&settings(&server), 1_000);
    watched.work(50);
    watched.until("not all came", || first.events().len() >= 53);
    server.kill();
    watched.work(10_000);
    watched
        .until("it is not noticed", || watched.metric("tiffany_sink_failures_total", "nats") > 0.0);
    server.run();
    let then = Heard::default();
    then.listen(&server, &ears);
    watched.work(1);
    watched.end();
    watched.until("the end did not come", || {
        then.events().last().is_some_and(|event| event["stage"] == "Completed")
    });
    // Lost events were either sent before the new subscription or reported as lost.
    let lost = then.events().iter().filter(|event| event["stage"] == "Lost").count();
    let told = watched.logged().matches("events were lost because").count();
    assert!(told > 0, "{}", watched.logged());
    assert!(lost <= told);
    assert!(watched.metric("tiffany_sink_lost_total", "nats") > 5_000.0);
}

#[test]
fn a_server_that_stops_in_the_middle_keeps_nobody() {
    let server = Server::nats();
    let ears = tokio::runtime::Runtime::new().unwrap();
    let heard = Heard::default();
    heard.listen(&server, &ears);
    let mut watched = Watched::new(&settings(&server), 100_000);
    watched.work(10);
    watched.until("nothing came", || heard.events().len() >= 13);
    server.signal("-STOP");
    let took = watched.work(5_000);
    assert!(took < Duration::from_secs(5), "the run took {took:?}");
    watched
        .until("it is not noticed", || watched.metric("tiffany_sink_failures_total", "nats") > 0.0);
    server.signal("-CONT");
    watched.end();
    watched.until("not all came", || {
        heard.events().iter().filter(|event| event["stage"] == "Progress").count() >= 5_010
    });
    assert_eq!(check(&heard.events()), 0);
}

#[test]
fn a_wrong_password_is_told_without_it() {
    let server = Server::nats();
    let mut settings = Settings::default();
    let url = format!("nats://ada:wrong-{SECRET}@127.0.0.1:{}", server.port);
    settings.nats = Some(NatsSettings::new(Address::new(url)));
    let mut watched = Watched::new(&settings, 100);
    watched.work(1);
    watched.until("it is not told", || watched.logged().contains("events cannot be forwarded to"));
    watched.end();
    assert!(watched.logged().contains("not forwarded to nats://…@"), "{}", watched.logged());
}
