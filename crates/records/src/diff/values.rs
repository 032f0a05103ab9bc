//! Finds the places where two JSON values differ.

use serde::Serialize;
use serde_json::Value;

/// The maximum number of changes that are reported for one value.
const MAX_CHANGES: usize = 50;

/// A place where two values differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The place as a JSON pointer, such as `/items/2/price`; empty for the whole value.
    pub path: String,
    /// The value on the first side; `None` if it is only on the other.
    pub a: Option<Value>,
    /// The value on the second side; `None` if it is only on the other.
    pub b: Option<Value>,
}

/// Returns the places where two values differ, in order, and the number of further ones.
pub(super) fn changes(path: &str, a: &Value, b: &Value) -> (Vec<Change>, u64) {
    let mut found = Found::default();
    found.compare(&mut path.to_owned(), Some(a), Some(b));
    (found.changes, found.more)
}

#[derive(Default)]
struct Found {
    changes: Vec<Change>,
    more: u64,
}

impl Found {
    fn compare(&mut self, path: &mut String, a: Option<&Value>, b: Option<&Value>) {
        match (a, b) {
            (Some(a), Some(b)) if a == b => {}
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let added = b.keys().filter(|key| !a.contains_key(*key));
                for key in a.keys().chain(added) {
                    self.below(
                        path,
                        &key.replace('~', "~0").replace('/', "~1"),
                        a.get(key),
                        b.get(key),
                    );
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => self.lists(path, a, b),
            (a, b) if self.changes.len() < MAX_CHANGES => {
                let change = Change { path: path.clone(), a: a.cloned(), b: b.cloned() };
                self.changes.push(change);
            }
            _ => self.more += 1,
        }
    }

    fn below(&mut self, path: &mut String, key: &str, a: Option<&Value>, b: Option<&Value>) {
        let had = path.len();
        path.push('/');
        path.push_str(key);
        self.compare(path, a, b);
        path.truncate(had);
    }

    /// Compares two lists place by place, leaving out equal items at the beginning and the end.
    fn lists(&mut self, path: &mut String, a: &[Value], b: &[Value]) {
        let begins = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let (a_rest, b_rest) = (&a[begins..], &b[begins..]);
        let ends = match a.len() == b.len() {
            true => 0,
            false => {
                a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(a, b)| a == b).count()
            }
        };
        let (a, b) = (&a_rest[..a_rest.len() - ends], &b_rest[..b_rest.len() - ends]);
        for at in 0..a.len().max(b.len()) {
            self.below(path, &(begins + at).to_string(), a.get(at), b.get(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(a: Value, b: Value) -> Vec<String> {
        let side = |value: &Option<Value>| value.as_ref().map_or("-".into(), Value::to_string);
        let (changes, _) = changes("", &a, &b);
        changes.iter().map(|c| format!("{}: {} → {}", c.path, side(&c.a), side(&c.b))).collect()
    }

    #[test]
    fn places_are_json_pointers() {
        for (a, b, expected) in [
            (json!(42), json!(42), vec![]),
            (json!(42), json!(43), vec![": 42 → 43"]),
            (
                json!({"items": [1, 2, {"price": 42}], "to": "x"}),
                json!({"items": [1, 2, {"price": 43}], "to": "x"}),
                vec!["/items/2/price: 42 → 43"],
            ),
            (json!({"a/b": 1, "c~": 2}), json!({"a/b": 2}), vec!["/a~1b: 1 → 2", "/c~0: 2 → -"]),
            (json!([1, 2, 3]), json!([1, 9, 2, 3]), vec!["/1: - → 9"]),
            (json!([1, 2, 3]), json!([1, 3]), vec!["/1: 2 → -"]),
            (json!([1, 2, 3]), json!([1, 5, 6]), vec!["/1: 2 → 5", "/2: 3 → 6"]),
            (json!({"a": null}), json!({}), vec!["/a: null → -"]),
            (json!("1"), json!(1), vec![": \"1\" → 1"]),
        ] {
            assert_eq!(told(a.clone(), b.clone()), expected, "{a} against {b}");
        }
    }

    #[test]
    fn further_changes_are_counted() {
        let (a, b): (Vec<u32>, Vec<u32>) = ((0..80).collect(), (1..81).collect());
        let (told, more) = changes("/value", &json!(a), &json!(b));
        assert_eq!((told.len(), more, told[0].path.as_str()), (50, 30, "/value/0"));
    }
}
