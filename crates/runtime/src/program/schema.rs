//! Checks values against a JSON Schema, as far as schemas of inputs need: types, members, lists,
//! bounds and choices. Unknown keywords are ignored, as JSON Schema demands.

use serde_json::Value;

/// Why a value does not match, with the place in the value; `None` if it matches.
pub(crate) fn misfit(schema: &Value, value: &Value) -> Option<String> {
    misfit_at(schema, value, "")
}

fn misfit_at(schema: &Value, value: &Value, place: &str) -> Option<String> {
    let Some(rules) = schema.as_object() else {
        return (schema == &Value::Bool(false)).then(|| format!("{} is not taken", told(place)));
    };
    let says = |what: String| Some(format!("{} {what}, not {}", told(place), in_short(value)));
    for (rule, wanted) in rules {
        let misfit = match rule.as_str() {
            "type" if !is_of(wanted, value) => says(format!("is {}", types(wanted))),
            "const" if wanted != value => says(format!("is {}", in_short(wanted))),
            "enum" if !list(wanted).contains(value) => {
                says(format!("is one of {}", in_short(wanted)))
            }
            "anyOf" | "oneOf" => {
                let fits = list(wanted).iter().any(|one| misfit_at(one, value, place).is_none());
                (!fits).then(|| says("is of none of the forms that it may have".into())).flatten()
            }
            "allOf" => list(wanted).iter().find_map(|one| misfit_at(one, value, place)),
            "minimum" if less(value, wanted) => says(format!("is at least {wanted}")),
            "maximum" if less(wanted, value) => says(format!("is at most {wanted}")),
            "exclusiveMinimum" if !less(wanted, value) && value.is_number() => {
                says(format!("is more than {wanted}"))
            }
            "exclusiveMaximum" if !less(value, wanted) && value.is_number() => {
                says(format!("is less than {wanted}"))
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" => size(rule, wanted, value, place),
            "required" => required(wanted, value, place),
            "properties" | "additionalProperties"
                if rule == "properties" || !rules.contains_key("properties") =>
            {
                members(schema, value, place)
            }
            "items" | "prefixItems"
                if rule == "prefixItems" || !rules.contains_key("prefixItems") =>
            {
                parts(schema, value, place)
            }
            _ => None,
        };
        if misfit.is_some() {
            return misfit;
        }
    }
    None
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn told(place: &str) -> String {
    if place.is_empty() { "it".into() } else { format!("`{place}`") }
}

const MAX_TEXT_BYTES: usize = 80;

/// A value, or its type and length if it is long: redaction would not recognise half of a secret.
fn in_short(value: &Value) -> String {
    let text = value.to_string();
    match text.len() {
        ..=MAX_TEXT_BYTES => text,
        long => format!("{} of {long} bytes", named(value)),
    }
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn is_of(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn types(wanted: &Value) -> String {
    let article = |name: &str| match name {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {name}"),
        name => format!("a {name}"),
    };
    match wanted {
        Value::String(name) => article(name),
        wanted => list(wanted)
            .iter()
            .filter_map(|name| name.as_str().map(article))
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

/// Whether both are numbers, and the first is less.
fn less(a: &Value, b: &Value) -> bool {
    a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a < b)
}

fn size(rule: &str, wanted: &Value, value: &Value, place: &str) -> Option<String> {
    let (size, what) = match value {
        Value::String(text) if rule.ends_with("Length") => (text.chars().count(), "characters"),
        Value::Array(items) if rule.ends_with("Items") => (items.len(), "items"),
        _ => return None,
    };
    let (size, wanted) = (size as u64, wanted.as_u64()?);
    match rule.starts_with("min") {
        true if size < wanted => {
            Some(format!("{} has at least {wanted} {what}, not {size}", told(place)))
        }
        false if size > wanted => {
            Some(format!("{} has at most {wanted} {what}, not {size}", told(place)))
        }
        _ => None,
    }
}

fn required(wanted: &Value, value: &Value, place: &str) -> Option<String> {
    let members = value.as_object()?;
    let missing = list(wanted).iter().filter_map(Value::as_str);
    let missing = missing.into_iter().find(|name| !members.contains_key(*name))?;
    Some(format!("{} has no `{missing}`", told(place)))
}

fn members(schema: &Value, value: &Value, place: &str) -> Option<String> {
    value.as_object()?.iter().find_map(|(name, member)| {
        let inside = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        match schema["properties"].get(name) {
            Some(schema) => misfit_at(schema, member, &inside),
            None => match &schema["additionalProperties"] {
                Value::Bool(false) => {
                    let name: String = name.chars().take(MAX_TEXT_BYTES).collect();
                    Some(format!("{} takes no `{name}`", told(place)))
                }
                Value::Null => None,
                schema => misfit_at(schema, member, &inside),
            },
        }
    })
}

fn parts(schema: &Value, value: &Value, place: &str) -> Option<String> {
    value.as_array()?.iter().enumerate().find_map(|(at, part)| {
        let schema = schema["prefixItems"].get(at).or_else(|| schema.get("items"))?;
        misfit_at(schema, part, &format!("{place}[{at}]"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_fits_and_what_does_not_is_told_with_its_place() {
        let table = json!({
            "type": "object",
            "required": ["name", "guests"],
            "additionalProperties": false,
            "properties": {
                "name": { "type": "string", "minLength": 1, "maxLength": 5 },
                "guests": { "type": "integer", "minimum": 1, "maximum": 12 },
                "meal": { "enum": ["lunch", "dinner"] },
                "wishes": { "type": ["string", "null"] },
                "at": { "anyOf": [{ "type": "integer" }, { "const": "now" }] },
                "seats": { "type": "array", "items": { "type": "integer" }, "maxItems": 2 },
                "pair": { "prefixItems": [{ "type": "string" }], "items": { "type": "boolean" } },
            },
        });
        for (value, why) in [
            (json!({ "name": "Ada", "guests": 2 }), None),
            (json!({ "name": "Ada", "guests": 2.0, "meal": "lunch", "wishes": null }), None),
            (json!({ "name": "Ada", "guests": 2, "at": "now", "pair": ["a", true] }), None),
            (json!([1]), Some("it is an object, not [1]")),
            (json!({ "name": "Ada" }), Some("it has no `guests`")),
            (json!({ "name": "Ada", "guests": 13 }), Some("`guests` is at most 12, not 13")),
            (json!({ "name": "Ada", "guests": 0 }), Some("`guests` is at least 1, not 0")),
            (json!({ "name": "Ada", "guests": 1.5 }), Some("`guests` is an integer, not 1.5")),
            (json!({ "name": "", "guests": 1 }), Some("`name` has at least 1 characters, not 0")),
            (
                json!({ "name": "Adaada", "guests": 1 }),
                Some("`name` has at most 5 characters, not 6"),
            ),
            (json!({ "name": "A", "guests": 1, "bogus": 1 }), Some("it takes no `bogus`")),
            (
                json!({ "name": "A", "guests": 1, "meal": "tea" }),
                Some("`meal` is one of [\"lunch\",\"dinner\"], not \"tea\""),
            ),
            (
                json!({ "name": "A", "guests": 1, "wishes": 3 }),
                Some("`wishes` is a string or null, not 3"),
            ),
            (
                json!({ "name": "A", "guests": 1, "at": "then" }),
                Some("`at` is of none of the forms that it may have, not \"then\""),
            ),
            (
                json!({ "name": "A", "guests": 1, "seats": [1, "b"] }),
                Some("`seats[1]` is an integer, not \"b\""),
            ),
            (
                json!({ "name": "A", "guests": 1, "seats": [1, 2, 3] }),
                Some("`seats` has at most 2 items, not 3"),
            ),
            (
                json!({ "name": "A", "guests": 1, "pair": ["a", 1] }),
                Some("`pair[1]` is a boolean, not 1"),
            ),
        ] {
            assert_eq!(misfit(&table, &value).as_deref(), why, "{value}");
        }
    }

    #[test]
    fn a_schema_may_be_anything() {
        for schema in [json!(true), json!({}), json!({ "type": 7, "x": [] }), json!(3), json!(null)]
        {
            assert_eq!(misfit(&schema, &json!({ "a": 1 })), None, "{schema}");
        }
        assert_eq!(misfit(&json!(false), &json!(1)).as_deref(), Some("it is not taken"));
    }

    #[test]
    fn a_long_value_is_not_repeated() {
        let long = json!({ "token": "x".repeat(500) });
        let why = misfit(&json!({ "type": "string" }), &long).unwrap();
        assert_eq!(why, "it is a string, not an object of 512 bytes");
    }
}
