//! Tests that a secret anywhere in a value is redacted, and that everything else stays unchanged.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tiffany_log::Redactor;

use super::super::Redactions;

const SECRET: &str = "sk-\"live\\é\n4242424242";

fn rules() -> Redactions {
    let rules = Redactions::new().pattern(r#"sk-"live\\.*?\n\d{10}"#).unwrap();
    rules.field("password").unwrap().field("card.number").unwrap()
}

/// Generates a name or text without a secret.
fn word() -> impl Strategy<Value = String> {
    let tags = prop::sample::select(vec!["$json", "$x", "$bytes", "$dict", "$dataclass", "$date"]);
    prop_oneof!["[a-zé\"\\\\\n]{0,6}", Just("card".into()), tags.prop_map(String::from)]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word().prop_map(Value::from),
        Just(json!("2026-11-16")),
        Just(json!("7c9e6679-7425-40de-944b-e07fc1f90ae7")),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Returns the number of places in a value where something can be inserted.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(places).sum(),
        Value::Object(members) => members.values().map(|member| 1 + places(member)).sum(),
        _ => 0,
    }
}

/// Inserts something at one of these places: a value or a name.
fn put(value: &mut Value, at: &mut usize, what: &Value) {
    let here = |at: &mut usize| match at.checked_sub(1) {
        Some(less) => {
            *at = less;
            false
        }
        None => true,
    };
    if *at == usize::MAX {
        return;
    }
    if here(at) {
        *value = what.clone();
        *at = usize::MAX;
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| put(item, at, what)),
        Value::Object(members) => {
            let mut all = Map::new();
            for (name, mut member) in std::mem::take(members) {
                let named = *at != usize::MAX && here(at);
                let name = match (named, what) {
                    (true, Value::String(what)) => what.clone(),
                    _ => name,
                };
                if named {
                    *at = usize::MAX;
                }
                put(&mut member, at, what);
                all.insert(name, member);
            }
            *members = all;
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_secret_anywhere_is_replaced_and_nothing_else(value in value(), at in any::<usize>()) {
        let at = at % places(&value);
        let (mut with, mut expected) = (value.clone(), value);
        put(&mut with, &mut at.clone(), &SECRET.into());
        put(&mut expected, &mut at.clone(), &"[redacted]".into());
        let cleaned = rules().json(&with.to_string()).into_owned();
        prop_assert_eq!(serde_json::from_str::<Value>(&cleaned).unwrap(), expected);
        // Redacting again changes nothing.
        prop_assert_eq!(&rules().json(&cleaned), &cleaned);
        // The result is the same within the fields of a record.
        let fields = |json: &str| format!(",\"id\":\"a\",\"input\":{json},\"seed\":\"4242424242\"");
        let with = fields(&with.to_string());
        let record = rules().fields(b"", &with).unwrap_or(with);
        prop_assert_eq!(record, fields(&cleaned));
    }

    #[test]
    fn everything_in_a_redacted_field_is_replaced(inner in value(), outer in value()) {
        let with = json!({"a": outer, "deep": [{"password": inner, "b": 1}]});
        let cleaned: Value = serde_json::from_str(&rules().json(&with.to_string())).unwrap();
        prop_assert_eq!(&cleaned["deep"][0]["b"], &json!(1));
        for text in texts(&cleaned["deep"][0]["password"]) {
            let is_placeholder = matches!(
                &*text,
                "" | "[redacted]" | "W3JlZGFjdGVkXQ==" | "2000-01-01" | "00000000-0000-0000-0000-000000000000"
            );
            prop_assert!(is_placeholder, "{}", text);
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn replacements_have_the_kind_of_the_value() {
    let rules = Redactions::new().field("s").unwrap();
    for (value, expected) in [
        (json!("hunter2"), json!("[redacted]")),
        (json!(""), json!("")),
        (json!(7), json!(0)),
        (json!(7.5), json!(0.0)),
        (json!(true), json!(false)),
        (json!(null), json!(null)),
        (json!(["a", 1, {"b": "c"}]), json!(["[redacted]", 0, {"b": "[redacted]"}])),
        (json!("2026-11-16T04:14:18Z"), json!("2000-01-01T00:00:00Z")),
        (json!("2026-11-16-hunter2"), json!("[redacted]")),
        (
            json!("7c9e6679-7425-40de-944b-e07fc1f90ae7"),
            json!("00000000-0000-0000-0000-000000000000"),
        ),
        // Encodings of Python values.
        (json!({"$decimal": "12.50"}), json!({"$decimal": "0.0"})),
        (json!({"$int": "12345678901234567890"}), json!({"$int": "0"})),
        (json!({"$bytes": "aHVudGVyMg=="}), json!({"$bytes": "W3JlZGFjdGVkXQ=="})),
        (json!({"$date": "2026-11-16"}), json!({"$date": "2000-01-01"})),
        (json!({"$float": "nan"}), json!({"$float": "nan"})),
        (
            json!({"$dataclass": "shop:Card", "number": 1}),
            json!({"$dataclass": "shop:Card", "number": 0}),
        ),
        (json!({"$dict": [[1, "hunter2"]]}), json!({"$dict": [[1, "[redacted]"]]})),
    ] {
        let (with, expected) = (json!({"s": value}), json!({"s": expected}));
        assert_eq!(rules.json(&with.to_string()), expected.to_string(), "{with}");
    }
}

#[test]
fn patterns_match_in_numbers_bytes_and_names() {
    let rules = Redactions::new().pattern(r"\b4\d{15}\b").unwrap().pattern("hunter2").unwrap();
    for (value, expected) in [
        (json!(4242424242424242_u64), json!(0)),
        (json!(42424242424242421_u64), json!(42424242424242421_u64)),
        (json!("card 4242424242424242!"), json!("card [redacted]!")),
        (json!({"hunter2": 1}), json!({"[redacted]": 1})),
        // "my hunter2!"
        (json!({"$bytes": "bXkgaHVudGVyMiE="}), json!({"$bytes": "bXkgW3JlZGFjdGVkXSE="})),
        (json!({"$bytes": "no bytes: hunter2"}), json!({"$bytes": "no bytes: [redacted]"})),
        (json!({"$enum": "hunter2"}), json!({"$enum": "[redacted]"})),
        (json!({"$hunter2": 1, "b": 2}), json!({"$[redacted]": 1, "b": 2})),
        (json!({"$dict": "hunter2"}), json!({"$dict": "[redacted]"})),
        (json!({"$dict": [["hunter2"], 7]}), json!({"$dict": [["[redacted]"], 7]})),
        (json!({"$datetime": "hunter2"}), json!({"$datetime": "[redacted]"})),
    ] {
        assert_eq!(rules.json(&value.to_string()), expected.to_string(), "{value}");
    }
}

#[test]
fn only_the_programs_data_in_a_record_is_changed() {
    let rules = Redactions::new().pattern(r"\d{6,}").unwrap().field("kind").unwrap();
    let digits = "1234567890";
    for (head, fields, expected) in [
        ("", format!(r#","seed":"{digits}","of":{digits}"#), None),
        ("", format!(r#","id":"{digits}","function":"{digits}""#), None),
        ("", format!(r#","name":"pay {digits}""#), Some(r#","name":"pay [redacted]""#)),
        (r#","type":"Message""#, format!(r#","name":"{digits}""#), None),
        ("", format!(r#","key":"{digits}""#), Some(r#","key":"[redacted]""#)),
        ("", r#","key":"7c9e6679-7425-40de-944b-e07fc1f90ae7/123456""#.into(), None),
        ("", r#","about":{"kind":"at_most_once"}"#.into(), None),
        (
            "",
            r#","about":{"kind":"pure","input":{"kind":"x"}}"#.into(),
            Some(r#","about":{"kind":"pure","input":{"kind":"[redacted]"}}"#),
        ),
        (
            "",
            r#","call":"continue_as","about":{"kind":"x"}"#.into(),
            Some(r#","call":"continue_as","about":{"kind":"[redacted]"}"#),
        ),
        ("", format!(r#","value":{{"$blob":"{digits}","len":99999999}}"#), None),
        (
            "",
            format!(r#","value":{{"$json":{{"$blob":"{digits}"}}}}"#),
            Some(r#","value":{"$json":{"$blob":"[redacted]"}}"#),
        ),
        (
            "",
            format!(
                r#","error":{{"kind":"Failed","message":"no {digits}","within":["{digits}"]}}"#
            ),
            Some(r#","error":{"kind":"Failed","message":"no [redacted]","within":["[redacted]"]}"#),
        ),
        ("", format!(r#","whatever":"{digits}""#), Some(r#","whatever":"[redacted]""#)),
    ] {
        assert_eq!(rules.fields(head.as_bytes(), &fields).as_deref(), expected, "{fields}");
    }
}

#[test]
fn values_nested_too_deeply_to_be_parsed_are_replaced_as_a_whole() {
    let rules = Redactions::new().pattern("hunter2").unwrap();
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(600), "]".repeat(600));
    assert_eq!(rules.json(&deep("\"hunter2\"")), "\"[redacted]\"");
    assert_eq!(rules.json(&deep("1")), deep("1"));
}
