//! Redis Streams, with a real server.

use std::time::Duration;

use redis::Commands;
use redis::streams::{StreamId, StreamRangeReply};
use serde_json::Value;
use tiffany_daemon::sinks::{Address, RedisSettings, Settings};

use super::server::{SECRET, Server};
use super::watched::{Watched, check};

fn url(server: &Server) -> String {
    format!("redis://:{SECRET}@127.0.0.1:{}", server.port)
}

fn settings(server: &Server) -> Settings {
    let mut settings = Settings::default();
    settings.redis = Some(RedisSettings::new(Address::new(url(server))));
    settings
}

fn entries(server: &Server, stream: &str) -> Vec<StreamId> {
    let mut client = redis::Client::open(url(server)).unwrap();
    let all: StreamRangeReply = client.xrange_all(stream).unwrap();
    all.ids
}

fn events(server: &Server, stream: &str) -> Vec<Value> {
    let text = |entry: &StreamId| entry.get::<String>("event").unwrap();
    let all = entries(server, stream);
    all.iter().map(|entry| serde_json::from_str(&text(entry)).unwrap()).collect()
}

#[test]
fn events_arrive_in_order_in_the_stream_of_all_and_of_their_run() {
    let server = Server::redis();
    let mut watched = Watched::new(&settings(&server), 10_000);
    watched.work(100);
    watched.work(3);
    watched.end();
    let all = events(&server, "tiffany");
    assert_eq!(check(&all), 0);
    // Each run also emits that its root was spawned, that the task finished, and that the run
    // finished.
    let progress = all.iter().filter(|event| event["stage"] == "Progress");
    assert_eq!(progress.count(), 103);
    let run = all.last().unwrap()["task_id"].as_str().unwrap();
    let of_run = events(&server, &format!("tiffany:{run}"));
    let expected: Vec<&Value> = all.iter().filter(|event| event["task_id"] == run).collect();
    assert_eq!(of_run.iter().collect::<Vec<_>>(), expected);
    let entry = entries(&server, "tiffany").remove(1);
    let field = |name: &str| entry.get::<String>(name).unwrap();
    assert_eq!((field("seq"), field("stage")), ("2".into(), "Progress".into()));
    let mut client = redis::Client::open(url(&server)).unwrap();
    let ttl: i64 = client.ttl(format!("tiffany:{run}")).unwrap();
    assert!((1..=7 * 86_400).contains(&ttl), "{ttl}");
}

#[test]
fn a_server_that_is_killed_and_comes_back_has_everything() {
    let mut server = Server::redis();
    let mut watched = Watched::new(&settings(&server), 10_000);
    watched.work(50);
    watched.until("nothing came", || watched.metric("tiffany_sink_events_total", "redis") >= 50.0);
    server.kill();
    watched.work(50);
    watched.until("it is not noticed", || {
        watched.metric("tiffany_sink_failures_total", "redis") > 0.0
    });
    assert_eq!(watched.metric("tiffany_sink_connected", "redis"), 0.0);
    server.run();
    watched.work(1);
    watched.end();
    let all = events(&server, "tiffany");
    assert_eq!(check(&all), 0);
    assert_eq!(all.last().unwrap()["message"], "", "{}", all.last().unwrap());
    let log = watched.logged();
    assert_eq!(
        log.matches("events cannot be forwarded to redis://…@127.0.0.1").count(),
        1,
        "{log}"
    );
    assert!(log.contains("events are forwarded to redis://…@127.0.0.1"), "{log}");
    assert!(log.contains("again after"), "{log}");
}

#[test]
fn what_is_lost_while_it_is_away_is_told_and_nobody_waits() {
    let mut server = Server::redis();
    let mut watched = Watched::new(&settings(&server), 1_000);
    watched.work(10);
    watched.until("nothing came", || watched.metric("tiffany_sink_events_total", "redis") >= 10.0);
    server.kill();
    // Many more events than the hub keeps.
    watched.work(20_000);
    server.run();
    watched
        .until("it does not come back", || watched.metric("tiffany_sink_connected", "redis") > 0.0);
    watched.work(1);
    watched.end();
    let lost = check(&events(&server, "tiffany"));
    assert!((10_000..20_000).contains(&lost), "{lost}");
    assert!(watched.logged().contains("events were lost because"), "{}", watched.logged());
}

#[test]
fn a_server_that_stops_in_the_middle_keeps_nobody() {
    let server = Server::redis();
    let mut watched = Watched::new(&settings(&server), 100_000);
    watched.work(10);
    watched.until("nothing came", || watched.metric("tiffany_sink_events_total", "redis") >= 10.0);
    server.signal("-STOP");
    let took = watched.work(5_000);
    assert!(took < Duration::from_secs(5), "the run took {took:?}");
    watched.until("it is not noticed", || {
        watched.metric("tiffany_sink_failures_total", "redis") > 0.0
    });
    server.signal("-CONT");
    watched.end();
    assert_eq!(check(&events(&server, "tiffany")), 0);
}

#[test]
fn a_wrong_password_is_told_without_it() {
    let server = Server::redis();
    let mut settings = Settings::default();
    let url = format!("redis://:wrong-{SECRET}@127.0.0.1:{}", server.port);
    settings.redis = Some(RedisSettings::new(Address::new(url)));
    let mut watched = Watched::new(&settings, 100);
    watched.work(1);
    watched.until("it is not told", || watched.logged().contains("events cannot be forwarded to"));
    watched.end();
    assert!(watched.logged().contains("not forwarded to redis://…@"), "{}", watched.logged());
}
