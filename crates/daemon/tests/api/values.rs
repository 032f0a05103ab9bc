//! Values that travel in requests and answers, and those that are refused.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tiffany::Uuid;
use tiffany::control::{Control, Request};
use tiffany::durable::Fork;
use tiffany::redact::Redactions;
use tiffany_daemon::Daemon;

use crate::kit::{Dir, House};

#[test]
fn what_is_said_of_a_bad_input_is_short() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let told = house.submit("steps", "s", &format!("\"{}\"", "x".repeat(1 << 20)));
    assert_eq!(told.problem().0, 422);
    assert!(told.body.len() < 2_000, "{} bytes", told.body.len());
}

#[test]
fn a_secret_is_taken_out_before_a_text_is_cut() {
    let dir = Dir::new();
    let rules = Redactions::new().pattern("sk-[0-9]{10}").unwrap();
    let house = House::of(&dir.0, |dir| {
        Daemon::new(crate::kit::program().redact(rules), dir).listen(([127, 0, 0, 1], 0).into())
    });
    // After the first list, later runs are listed from memory, where secrets are not redacted.
    house.get("/api/v1/runs");
    // The message is cut after 300 letters, which is in the middle of the key.
    house.submit("fail", "f", &format!("\"{}sk-0123456789\"", "y".repeat(294)));
    let told = house.wait_for("f", "failed")["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.ends_with("y[redac…") && !told.contains("sk-"), "{told}");
}

#[test]
fn null_is_a_value_for_forks_and_for_steps_in_doubt() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("work", "w", "1");
    house.wait_for("w", "completed");
    let records = house.get("/api/v1/runs/w/records").json();
    let records = records["records"].as_array().unwrap();
    let at = &records.iter().find(|one| one["type"] == "EffectResult").unwrap()["seq"];
    // The value has another shape than the recorded answer, so it was not ignored.
    let body = format!("{{\"at\":{at},\"id\":\"f\",\"value\":null}}");
    let refused = house.post("/api/v1/runs/w/forks", &body);
    assert_eq!(refused.status, 422, "{refused:?}");
    // The step doesn't exist, but the error must not say that the value is missing.
    let decided = house.post("/api/v1/doubts", r#"{"key":"x","done":null}"#);
    assert_eq!(decided.problem(), (422, "TFY0032".into()));
}

/// Returns JSON that no program can read.
fn unreadable() -> Vec<String> {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let mut unreadable: Vec<String> =
        ["1e999", "\"\\ud800\"", "{\"a\":[\"\\udc00\"]}", "{\"a\":1,\"\\u0061\":2}"]
            .map(str::to_owned)
            .into();
    unreadable.extend([deep(101), deep(100_000)]);
    unreadable
}

#[test]
fn what_no_program_could_read_is_refused_before_it_is_acknowledged() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("wait", "w", "null");
    house.submit("promise", "p", "null");
    let shown = house.get("/api/v1/runs/p").json();
    let promise = shown["promises"][0].as_str().unwrap().to_owned();
    for json in unreadable() {
        let refused = (422, "TFY0220".to_owned());
        let message = house
            .post("/api/v1/runs/w/messages", &format!("{{\"name\":\"go\",\"message\":{json}}}"));
        assert_eq!(message.problem(), refused);
        let settled =
            house.post(&format!("/api/v1/promises/{promise}"), &format!("{{\"value\":{json}}}"));
        assert_eq!(settled.problem(), refused);
        assert_eq!(house.submit("echo", "never", &json).problem(), refused);
        let asked = house.post("/api/v1/runs/w/queries/name", &format!("{{\"input\":{json}}}"));
        assert_eq!(asked.problem(), refused);
    }
    assert_eq!(house.get("/api/v1/runs/w").json()["state"], "live");
    assert_eq!(house.get("/api/v1/runs/p").json()["state"], "live");
    assert_eq!(house.get("/api/v1/runs/never").problem().0, 404);
    house.end();
}

#[test]
fn any_other_json_is_received_as_it_was_sent() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut deepest = json!({ "$x": [] });
    for _ in 0..49 {
        deepest = json!([{ "$x": deepest }]);
    }
    let values = [
        json!({ "$ref": "#/x" }),
        json!({ "$plain": { "$plain": 1 } }),
        json!({ "$json": { "$blob": "00", "len": 1 } }),
        json!({ "$blob": "0".repeat(64), "len": 3 }),
        json!({ "$base64": "aGk=" }),
        json!([{ "a": { "$dict": [["a", 1]] } }]),
        deepest,
    ];
    for (at, value) in values.iter().enumerate() {
        let (waits, echoes) = (format!("w-{at}"), format!("e-{at}"));
        house.submit("wait", &waits, "null");
        let message = json!({ "name": "go", "message": value }).to_string();
        let sent = house.post(&format!("/api/v1/runs/{waits}/messages"), &message);
        assert_eq!(sent.status, 204);
        assert_eq!(house.wait_for(&waits, "completed")["value"], *value);
        house.submit("echo", &echoes, &value.to_string());
        assert_eq!(house.wait_for(&echoes, "completed")["value"], *value);
    }
    house.end();
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

/// Values that a codec has encoded are checked by a program without that codec, and by a log that
/// no process owns.
#[test]
fn values_of_a_codec_are_checked_where_nobody_has_that_codec() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let uuid = house.submit("wait", "w", "null").json()["uuid"].as_str().unwrap().to_owned();
    let run = Uuid::parse(&uuid).unwrap();
    let refused = |control: &mut Control| {
        for json in ["1e999".to_owned(), r#""\ud800""#.into(), r#"{"a":1,"a":2}"#.into()] {
            let request = Request::Send { run, name: "go".into(), message: raw(&json) };
            let error = control.ask(Request::Encoded(Box::new(request))).unwrap_err();
            assert_eq!(error.code(), "TFY0220", "{json}: {error}");
        }
    };
    let mut control = Control::open(&dir.0).unwrap();
    refused(&mut control);
    // Only values have a codec.
    let error = control.ask(Request::Encoded(Box::new(Request::Cancel { run }))).unwrap_err();
    assert_eq!(error.code(), "TFY0032", "{error}");
    drop(control);
    house.close();
    refused(&mut Control::open(&dir.0).unwrap());
    let house = House::open(&dir);
    let answer =
        house.post("/api/v1/runs/w/messages", r##"{"name":"go","message":{"$ref":"#/x"}}"##);
    assert_eq!(answer.status, 204);
    assert_eq!(house.wait_for("w", "completed")["value"], json!({"$ref": "#/x"}));
}

/// The log names the user who forks a run through the socket, whatever form the request has.
#[test]
fn a_fork_with_a_value_of_a_codec_names_its_user() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let uuid = house.submit("steps", "s", "2").json()["uuid"].as_str().unwrap().to_owned();
    house.wait_for("s", "completed");
    let run = Uuid::parse(&uuid).unwrap();
    let records = house.get("/api/v1/runs/s/records").json();
    let records = records["records"].as_array().unwrap();
    let answer = records.iter().find(|record| record["type"] == "EffectResult").unwrap();
    let at = answer["seq"].as_u64().unwrap();
    let mut control = Control::open(&dir.0).unwrap();
    let by = |fork: &str| {
        let records = house.get(&format!("/api/v1/runs/{fork}/records")).json();
        let records = records["records"].as_array().unwrap().iter();
        let named = records.filter_map(|record| record["set_by"].as_str()).next();
        named.map(str::to_owned)
    };
    let fork = |id: &str| Fork::new().set_reply(&7).unwrap().id(id);
    control.ask(Request::Fork { run, at, fork: fork("plain") }).unwrap();
    let request = Request::Fork { run, at, fork: fork("coded") };
    control.ask(Request::Encoded(Box::new(request))).unwrap();
    assert!(by("plain").is_some());
    assert_eq!(by("coded"), by("plain"));
}

/// The runtime checks names, so every interface to it refuses the same ones.
#[test]
fn names_that_nobody_could_read_are_refused_by_every_way() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let mut control = Control::open(&dir.0).unwrap();
    let run = control.submit("wait", "w", &()).unwrap();
    let long = "x".repeat(513);
    for bad in ["", "a\nb", "\u{1b}[31m", "\u{202e}evil", &long] {
        let by_http = |path: &str, body: Value| house.post(path, &body.to_string()).problem();
        let refused = (400, "TFY0156".to_owned());
        let body = json!({"function": "echo", "id": bad, "input": 1});
        assert_eq!(by_http("/api/v1/runs", body), refused, "{bad:?}");
        let body = json!({"name": bad, "message": 1});
        assert_eq!(by_http("/api/v1/runs/w/messages", body), refused, "{bad:?}");
        let forks = |control: &mut Control| control.fork(run, 1, Fork::new().id(bad)).map(drop);
        let errors = [
            control.submit("echo", bad, &1).map(drop),
            control.send(run, bad, &1),
            forks(&mut control),
        ];
        for error in errors {
            assert_eq!(error.unwrap_err().code(), "TFY0032", "{bad:?}");
        }
    }
    drop(control);
    house.close();
    // A log that no process owns refuses the names as well.
    let mut control = Control::open(&dir.0).unwrap();
    assert_eq!(control.send(run, "", &1).unwrap_err().code(), "TFY0032");
}
