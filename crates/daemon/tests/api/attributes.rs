//! Tags, attributes and deadlines over HTTP: given at the start, shown, filtered by, and refused.

use serde_json::{Value, json};

use crate::kit::{Dir, House};

fn submit(house: &House, id: &str, rest: &str) -> crate::kit::Answer {
    let body = format!("{{\"function\":\"wait\",\"id\":\"{id}\",\"input\":null,{rest}}}");
    house.post("/api/v1/runs", &body)
}

fn ids(house: &House, query: &str) -> Vec<String> {
    let page = house.get(&format!("/api/v1/runs?sort=id&{query}")).json();
    let runs = page["runs"].as_array().unwrap_or_else(|| panic!("{query}: {page}"));
    assert_eq!(page["total"], runs.len(), "{query}");
    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_has_them_from_its_start_and_lists_are_filtered_by_them() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let given = json!({
        "amount": 17, "customer": "ada", "due": { "time": "2027-01-15T08:00:00.000000000Z" },
        "paid": false, "rate": 1.0,
    });
    let rest = format!("\"tags\":[\"gold\",\"a,b\"],\"attributes\":{given},\"deadline\":\"2h\"");
    assert_eq!(submit(&house, "a", &rest).status, 201);
    assert_eq!(submit(&house, "b", r#""tags":["gold"],"attributes":{"amount":5}"#).status, 201);
    assert_eq!(submit(&house, "c", r#""attributes":{"amount":"17"},"deadline":3600"#).status, 201);
    let shown = house.get("/api/v1/runs/a").json();
    assert_eq!((&shown["tags"], &shown["attributes"]), (&json!(["a,b", "gold"]), &given));
    assert_eq!(shown["attributes"]["rate"].to_string(), "1.0");
    assert!(shown["deadline"].as_str().unwrap() > shown["started"].as_str().unwrap());
    let plain = house.get("/api/v1/runs/b").json();
    assert_eq!(plain.get("deadline"), None);
    for (query, expected) in [
        ("tag=gold", &["a", "b"][..]),
        ("tag=gold,%22a%2Cb%22", &["a"]),
        ("attribute=amount%3E%3D10", &["a"]),
        ("attribute=amount%3D%2217%22", &["c"]),
        ("attribute=amount%3E1,customer%3Dada,paid%3Dfalse", &["a"]),
        ("attribute=due%3C2027-01-15", &[]),
        ("tag=gold&attribute=amount%3C10", &["b"]),
        ("tag=silver", &[]),
    ] {
        assert_eq!(ids(&house, query), expected, "{query}");
    }
    // Over, they are still there.
    house.post("/api/v1/runs/a/messages", r#"{"name":"go","message":1}"#);
    house.wait_for("a", "completed");
    assert_eq!(house.get("/api/v1/runs/a").json()["attributes"], given);
    assert_eq!(ids(&house, "tag=gold&state=completed"), ["a"]);
}

#[test]
fn what_is_not_allowed_starts_nothing_and_says_why() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let many: Vec<Value> = (0..65).map(|n| json!(n.to_string())).collect();
    for (rest, code) in [
        (r#""attributes":{"a b":1}"#.to_owned(), "TFY0270"),
        (r#""attributes":{"a":[1]}"#.to_owned(), "TFY0270"),
        (r#""attributes":{"a":null}"#.to_owned(), "TFY0270"),
        (r#""attributes":{"a":{"time":"noon"}}"#.to_owned(), "TFY0270"),
        (r#""attributes":{"a":18446744073709551615}"#.to_owned(), "TFY0270"),
        (r#""tags":["a\u0007"]"#.to_owned(), "TFY0270"),
        (format!("\"tags\":{}", Value::from(many)), "TFY0270"),
        (r#""deadline":"2020-01-01""#.to_owned(), "TFY0273"),
        (r#""deadline":"soon""#.to_owned(), "TFY0273"),
        (r#""deadline":0"#.to_owned(), "TFY0273"),
        (r#""deadline":-1"#.to_owned(), "TFY0273"),
        (r#""deadline":null"#.to_owned(), "TFY0273"),
    ] {
        let refused = submit(&house, "a", &rest);
        assert_eq!(refused.problem(), (422, code.into()), "{rest}");
        assert_ne!(refused.json()["next"], "", "{rest}");
    }
    assert_eq!(submit(&house, "a", r#""tags":"gold""#).problem(), (400, "TFY0156".into()));
    assert_eq!(house.get("/api/v1/runs?attribute=amount").problem(), (422, "TFY0270".into()));
    let body = r#"{"function":"echo","id":"e","input":{"$enc":"k"}}"#;
    assert_eq!(house.post("/api/v1/runs", body).problem(), (422, "TFY0272".into()));
    assert_eq!(house.get("/api/v1/runs").json()["total"], 0);
}

#[test]
fn a_run_fails_at_its_deadline() {
    let dir = Dir::new();
    let house = House::open(&dir);
    assert_eq!(submit(&house, "a", r#""deadline":0.2"#).status, 201);
    let failed = house.wait_for("a", "failed");
    assert_eq!(failed["error"]["code"], "TFY0271");
    let deadline = failed["deadline"].as_str().unwrap();
    assert!(failed["error"]["message"].as_str().unwrap().contains(deadline), "{failed}");
}
