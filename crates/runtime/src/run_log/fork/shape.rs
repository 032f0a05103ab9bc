//! Whether one answer can replace another: it has the same kinds of values at the same places. It
//! knows nothing of runs.

use serde_json::Value;

/// Names with which an object names its class. Another class is another shape.
const CLASSES: [&str; 5] = ["$dataclass", "$namedtuple", "$model", "$enum", "$exception"];

/// The first place at which a value has another shape than one that was there, and how. `None`: it has the same.
///
/// A map may have more than there was, and a list more or fewer elements. Where nothing was (`null`), anything may be.
pub(crate) fn difference(was: &Value, is: &Value) -> Option<String> {
    let mut path = String::new();
    differs_at(&mut path, was, is).map(|how| match path.is_empty() {
        true => how,
        false => format!("{path}: {how}"),
    })
}

fn differs_at(path: &mut String, was: &Value, is: &Value) -> Option<String> {
    let within = |path: &mut String, key: &str, was: &Value, is: &Value| {
        let before = path.len();
        path.push('/');
        // As in a JSON pointer.
        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let difference = differs_at(path, was, is);
        if difference.is_none() {
            path.truncate(before);
        }
        difference
    };
    match (was, is) {
        (Value::Null, _) => None,
        (Value::Object(was), Value::Object(is)) => {
            was.iter().find_map(|(key, was)| match is.get(key) {
                Some(is) if CLASSES.contains(&&**key) && is != was => {
                    Some(format!("was of class {was}, is of class {is}"))
                }
                Some(is) => within(path, key, was, is),
                None => Some(format!("`{key}` is missing")),
            })
        }
        (Value::Array(was), Value::Array(is)) => {
            let pairs = was.iter().zip(is).enumerate();
            pairs.into_iter().find_map(|(at, (was, is))| within(path, &at.to_string(), was, is))
        }
        _ if kind(was) == kind(is) => None,
        // Code that takes any number takes a whole one.
        (Value::Number(_), Value::Number(is)) if !is.is_f64() => None,
        _ => Some(format!("was {}, is {}", kind(was), kind(is))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "yes or no",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "a whole number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Whether every name in a value that looks like a tag is one in the value that was there, at the same place and with the same class. Elements of a list beyond those that were there are
/// compared with the last one.
pub(crate) fn has_tags_of(was: &Value, is: &Value) -> bool {
    match (was, is) {
        (was, Value::Object(is)) => is.iter().all(|(name, is)| match was.get(name) {
            Some(was) if CLASSES.contains(&&**name) => was == is,
            Some(was) => has_tags_of(was, is),
            None => !name.starts_with('$') && has_tags_of(&Value::Null, is),
        }),
        (Value::Array(was), Value::Array(is)) => {
            let last = was.last().unwrap_or(&Value::Null);
            let was = was.iter().chain(std::iter::repeat(last));
            was.zip(is).all(|(was, is)| has_tags_of(was, is))
        }
        (_, Value::Array(is)) => is.iter().all(|is| has_tags_of(&Value::Null, is)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::run_log::fork::shape::{difference, has_tags_of};

    #[test]
    fn tags_are_those_that_were_at_the_same_place() {
        let item = json!({ "$dataclass": "shop:Item", "price": { "$decimal": "1" }, "of": [1] });
        for (was, is, expected) in [
            (&item, json!({ "$dataclass": "shop:Item", "price": { "$decimal": "2" } }), true),
            (&item, json!({ "$dataclass": "shop:Offer", "price": { "$decimal": "2" } }), false),
            (&item, json!({ "$dataclass": "shop:Item", "price": { "$path": "/" } }), false),
            (&item, json!({ "price": 2 }), true),
            (&item, json!({ "other": { "$path": "/" } }), false),
            (&item, json!({ "of": [1, { "$path": "/" }] }), false),
            (&item, json!([item]), false),
            (&json!([item]), json!([item, item]), true),
            (&json!(null), json!({ "a": [{ "b": 1 }] }), true),
        ] {
            assert_eq!(has_tags_of(was, &is), expected, "{was} and {is}");
        }
    }

    #[test]
    fn shapes_are_the_same_or_the_place_is_named() {
        for (was, is, expected) in [
            (json!(1), json!(2), None),
            (json!(1), json!("2"), Some("was a whole number, is a text")),
            (json!(1), json!(1.5), Some("was a whole number, is a number")),
            (json!(1.5), json!(2), None),
            (json!(null), json!({ "any": "thing" }), None),
            (json!("x"), json!(null), Some("was a text, is nothing")),
            (json!([]), json!([1, 2]), None),
            (json!([1, 2]), json!([]), None),
            (json!([1, 2]), json!([1, "2"]), Some("/1: was a whole number, is a text")),
            (json!({ "a": 1 }), json!({ "a": 2, "b": 3 }), None),
            (
                json!({ "$dataclass": "shop:Item", "price": 1 }),
                json!({ "$dataclass": "shop:Offer", "price": 1 }),
                Some("was of class \"shop:Item\", is of class \"shop:Offer\""),
            ),
            (json!({ "$decimal": "1" }), json!({ "$decimal": "2" }), None),
            (json!({ "a": 1, "b": 2 }), json!({ "a": 1 }), Some("`b` is missing")),
            (
                json!({ "items": [{}, {}, { "price": 3.5 }] }),
                json!({ "items": [{}, {}, { "price": "dear" }] }),
                Some("/items/2/price: was a number, is a text"),
            ),
            (json!({ "a": { "b": 1 } }), json!({ "a": {} }), Some("/a: `b` is missing")),
            (
                json!({ "a/b": [true] }),
                json!({ "a/b": [1] }),
                Some("/a~1b/0: was yes or no, is a whole number"),
            ),
        ] {
            assert_eq!(difference(&was, &is).as_deref(), expected, "{was} and {is}");
        }
    }
}
