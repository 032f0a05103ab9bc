//! Tags and typed attributes of runs as JSON and as people type them, and filters over them. What they may be is the
//! kernel's to say ([`Attributes`]).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tiffany_kernel::{AttributeValue, Attributes, ErrorKind, TaskError, Time};

use crate::request::{moment, parse_moment};

/// An attribute as JSON: a text, a number (a float has a point or an exponent, an integer has neither), `true` or
/// `false`, or `{"time":"2026-11-05T09:41:00.000000000Z"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeJson(pub AttributeValue);

impl Serialize for AttributeJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            AttributeValue::Text(text) => to.serialize_str(text),
            AttributeValue::Integer(number) => to.serialize_i64(*number),
            AttributeValue::Float(number) => to.serialize_f64(*number),
            AttributeValue::Flag(flag) => to.serialize_bool(*flag),
            AttributeValue::Time(time) => BTreeMap::from([("time", moment(*time))]).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for AttributeJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AttributeJson, D::Error> {
        let value = Value::deserialize(from)?;
        of_json(&value).map(AttributeJson).map_err(serde::de::Error::custom)
    }
}

/// Reads the value of an attribute, or says why it is none.
fn of_json(value: &Value) -> Result<AttributeValue, String> {
    match value {
        Value::String(text) => Ok(AttributeValue::Text(text.clone())),
        Value::Bool(flag) => Ok(AttributeValue::Flag(*flag)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(AttributeValue::Integer(whole)),
            (None, Some(float)) if number.is_f64() => Ok(AttributeValue::Float(float)),
            _ => Err(format!("{number} is beyond the whole numbers of 64 bits")),
        },
        Value::Object(members) => {
            let time = members.get("time").filter(|_| members.len() == 1).and_then(Value::as_str);
            let time = time.and_then(parse_moment);
            time.map(AttributeValue::Time).ok_or_else(|| {
                format!("{value} is not the value of an attribute; a moment is {{\"time\":\"2026-11-05T09:41:00Z\"}}")
            })
        }
        Value::Null | Value::Array(_) => Err(format!(
            "{value} is not the value of an attribute, which is a text, a number, true, false or a moment"
        )),
    }
}

/// The attributes of a run as a JSON object, for serde's `with`.
pub mod values {
    use super::*;

    /// Writes the object.
    pub fn serialize<S: Serializer>(
        values: &BTreeMap<String, AttributeValue>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(values.iter().map(|(name, value)| (name, AttributeJson(value.clone()))))
    }

    /// Reads the object.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, AttributeValue>, D::Error> {
        let values = BTreeMap::<String, Value>::deserialize(from)?;
        let read = |(name, value): (String, Value)| match of_json(&value) {
            Ok(value) => Ok((name, value)),
            Err(why) => Err(serde::de::Error::custom(format!("the attribute `{name}`: {why}"))),
        };
        values.into_iter().map(read).collect()
    }
}

/// The values of attributes as a JSON object.
pub fn json_of_values(values: &BTreeMap<String, AttributeValue>) -> String {
    let values: BTreeMap<&String, AttributeJson> =
        values.iter().map(|(name, value)| (name, AttributeJson(value.clone()))).collect();
    serde_json::to_string(&values).unwrap_or_else(|_| "{}".into())
}

/// The tags as a JSON list.
pub fn json_of_tags(tags: &BTreeSet<String>) -> String {
    serde_json::to_string(tags).unwrap_or_else(|_| "[]".into())
}

/// Reads the tags and attributes of a record. What is not of their form is left out: another program may know more.
pub fn of_record(tags: Option<&str>, values: Option<&str>) -> Attributes {
    let tags = tags.and_then(|json| serde_json::from_str::<BTreeSet<String>>(json).ok());
    let values: Option<BTreeMap<String, Value>> =
        values.and_then(|json| serde_json::from_str(json).ok());
    let values = values.into_iter().flatten();
    let values = values.filter_map(|(name, value)| Some((name, of_json(&value).ok()?)));
    Attributes { tags: tags.unwrap_or_default(), values: values.collect() }
}

/// Reads the values of attributes from JSON that a client sent.
pub fn parse_values(json: &Value) -> Result<BTreeMap<String, AttributeValue>, TaskError> {
    values::deserialize(json)
        .map_err(|error| TaskError::new(ErrorKind::BadAttribute, error.to_string()))
}

/// Reads a value as people type it: `17` and `1.5` are numbers, `true` and `false` are themselves, a moment in RFC 3339
/// is a time, and everything else is a text. What stands between quotation marks is a text in any case.
///
/// ```
/// use tiffany_kernel::AttributeValue;
/// use tiffany_records::attributes::parse_literal;
///
/// assert_eq!(parse_literal("17"), AttributeValue::Integer(17));
/// assert_eq!(parse_literal("\"17\""), AttributeValue::Text("17".into()));
/// assert_eq!(parse_literal("1.5"), AttributeValue::Float(1.5));
/// assert_eq!(parse_literal("ada"), AttributeValue::Text("ada".into()));
/// assert!(matches!(parse_literal("2026-11-05T09:41Z"), AttributeValue::Time(_)));
/// ```
pub fn parse_literal(text: &str) -> AttributeValue {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    match serde_json::from_str::<Value>(text) {
        Ok(Value::String(text)) => return AttributeValue::Text(text),
        Ok(Value::Bool(flag)) => return AttributeValue::Flag(flag),
        Ok(number @ Value::Number(_)) if is_number => {
            if let Ok(value) = of_json(&number) {
                return value;
            }
        }
        _ => {}
    }
    match parse_moment(text) {
        Some(time) => AttributeValue::Time(time),
        None => AttributeValue::Text(text.to_owned()),
    }
}

/// A value as [`parse_literal`] reads it, also in a list whose parts are separated by commas.
pub fn literal(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Time(time) => shown_time(*time),
        AttributeValue::Text(text)
            if parse_literal(text) == *value
                && text.trim() == text
                && !text.contains([',', '"']) =>
        {
            text.clone()
        }
        value => serde_json::to_string(&AttributeJson(value.clone())).unwrap_or_default(),
    }
}

/// A moment without a fraction that is zero.
fn shown_time(time: Time) -> String {
    let text = moment(time);
    text.strip_suffix(".000000000Z").map(|whole| format!("{whole}Z")).unwrap_or(text)
}

/// The parts of a list whose parts are separated by commas. A comma between quotation marks separates nothing.
fn split_list(text: &str) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).collect()
}

/// Reads tags that are separated by commas. One with a comma stands between quotation marks.
pub fn parse_tags(text: &str) -> Vec<String> {
    let tag = |part: &str| match part.starts_with('"') {
        true => serde_json::from_str(part).unwrap_or_else(|_| part.to_owned()),
        false => part.to_owned(),
    };
    split_list(text).into_iter().filter(|part| !part.is_empty()).map(tag).collect()
}

/// Reads conditions that are separated by commas: `amount>=10,customer=ada`.
pub fn parse_filters(text: &str) -> Result<Vec<AttributeFilter>, TaskError> {
    split_list(text).into_iter().map(AttributeFilter::parse).collect()
}

/// How a filter compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// Their signs, those of two characters first.
const SIGNS: [(&str, Comparison); 6] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    ("!=", Comparison::NotEqual),
    ("=", Comparison::Equal),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
];

/// A condition for an attribute, such as `amount>=10`. A run without the attribute doesn't fulfil it, and neither does one
/// whose value has another type; integers and floats are compared as numbers.
///
/// ```
/// use tiffany_kernel::Attributes;
/// use tiffany_records::attributes::AttributeFilter;
///
/// let filter = AttributeFilter::parse("amount>=10").unwrap();
/// let mut run = Attributes::default();
/// run.values.insert("amount".into(), 10.5.into());
/// assert!(filter.fits(Some(&run)));
/// run.values.insert("amount".into(), "11".into());
/// assert!(!filter.fits(Some(&run)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeFilter {
    /// The name of the attribute.
    pub name: String,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub value: AttributeValue,
}

impl AttributeFilter {
    /// A filter for this value.
    pub fn equal(name: impl Into<String>, value: impl Into<AttributeValue>) -> AttributeFilter {
        AttributeFilter { name: name.into(), comparison: Comparison::Equal, value: value.into() }
    }

    /// Reads a filter: a name, a comparison and a value as [`parse_literal`] reads it.
    pub fn parse(text: &str) -> Result<AttributeFilter, TaskError> {
        let bad = || {
            let message = format!(
                "`{text}` is not a filter; give a name, one of = != < <= > >= and a value, such as amount>=10"
            );
            TaskError::new(ErrorKind::BadAttribute, message)
        };
        let at = text.find(['=', '!', '<', '>']).ok_or_else(bad)?;
        let (name, rest) = text.split_at(at);
        let signs = SIGNS.into_iter();
        let (comparison, value) = signs
            .filter_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)))
            .next()
            .ok_or_else(bad)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(bad());
        }
        Ok(AttributeFilter { name: name.into(), comparison, value: parse_literal(value.trim()) })
    }

    /// Whether a run with these attributes fulfils it.
    pub fn fits(&self, attributes: Option<&Attributes>) -> bool {
        let value = attributes.and_then(|attributes| attributes.values.get(&self.name));
        let Some(order) = value.and_then(|value| compare(value, &self.value)) else { return false };
        match self.comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

/// The order of two values of one type.
fn compare(one: &AttributeValue, other: &AttributeValue) -> Option<Ordering> {
    use AttributeValue::{Flag, Float, Integer, Text, Time};
    match (one, other) {
        (Text(one), Text(other)) => Some(one.cmp(other)),
        (Integer(one), Integer(other)) => Some(one.cmp(other)),
        (Float(one), Float(other)) => one.partial_cmp(other),
        (Integer(one), Float(other)) => (*one as f64).partial_cmp(other),
        (Float(one), Integer(other)) => one.partial_cmp(&(*other as f64)),
        (Flag(one), Flag(other)) => Some(one.cmp(other)),
        (Time(one), Time(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

/// As [`AttributeFilter::parse`] reads it.
impl fmt::Display for AttributeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = SIGNS.iter().find(|(_, comparison)| *comparison == self.comparison);
        let sign = sign.map_or("=", |(sign, _)| sign);
        write!(f, "{}{sign}{}", self.name, literal(&self.value))
    }
}

impl Serialize for AttributeFilter {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttributeFilter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<AttributeFilter, D::Error> {
        let text = String::deserialize(from)?;
        AttributeFilter::parse(&text).map_err(|error| serde::de::Error::custom(error.message()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<AttributeValue> {
        let time = Time::from_nanos(1_700_000_000_000_000_000);
        let later = Time::from_nanos(1_700_000_000_000_000_001);
        let texts = [
            "",
            "ada",
            "17",
            "true",
            "a b",
            " a ",
            "\"a",
            "a=b",
            "a,b",
            "5\" of it, or \\",
            "\"",
            "2026-11-05",
            "1e5",
            "null",
            "[1]",
        ];
        let mut values: Vec<AttributeValue> = texts.into_iter().map(Into::into).collect();
        values.extend([(-3_i64).into(), i64::MAX.into(), 1.0.into(), (-1e300).into()]);
        values.extend([true.into(), false.into(), time.into(), later.into()]);
        values
    }

    #[test]
    fn values_read_back_as_they_are_written_with_their_types() {
        for value in values() {
            let json = serde_json::to_string(&AttributeJson(value.clone())).unwrap();
            let back: AttributeJson = serde_json::from_str(&json).unwrap();
            assert_eq!(back.0, value, "{json}");
            assert_eq!(parse_literal(&literal(&value)), value, "{}", literal(&value));
            let filter = AttributeFilter::equal("a", value);
            let text = filter.to_string();
            assert_eq!(AttributeFilter::parse(&text).unwrap(), filter, "{text}");
            let list = parse_filters(&format!("{text},{text}")).unwrap();
            assert_eq!(list, [filter.clone(), filter], "{text}");
        }
    }

    #[test]
    fn what_is_not_the_value_of_an_attribute_is_refused_by_its_name() {
        for json in [
            "null",
            "[1]",
            "{}",
            "{\"time\":\"noon\"}",
            "{\"time\":\"2026-11-05\",\"a\":1}",
            "18446744073709551615",
        ] {
            let value: Value = serde_json::from_str(&format!("{{\"due\":{json}}}")).unwrap();
            let error = parse_values(&value).unwrap_err();
            assert_eq!(error.code(), "TFY0270", "{json}");
            assert!(error.message().contains("`due`"), "{json}: {error}");
        }
    }

    #[test]
    fn a_filter_compares_values_of_its_own_type_only() {
        let mut run = Attributes::default();
        let rows: [(&str, AttributeValue); 5] = [
            ("amount", 10_i64.into()),
            ("rate", 0.5.into()),
            ("customer", "ada".into()),
            ("paid", true.into()),
            ("due", parse_literal("2026-11-05T09:41Z")),
        ];
        run.values.extend(rows.map(|(name, value)| (name.to_owned(), value)));
        for (filter, expected) in [
            ("amount=10", true),
            ("amount=10.0", true),
            ("amount!=10", false),
            ("amount!=11", true),
            ("amount>9.5", true),
            ("amount<=9", false),
            ("amount=\"10\"", false),
            ("amount!=\"10\"", false),
            ("rate<1", true),
            ("rate>=0.5", true),
            ("customer=ada", true),
            ("customer<b", true),
            ("customer=Ada", false),
            ("customer=true", false),
            ("paid=true", true),
            ("paid=1", false),
            ("due>=2026-11-05", true),
            ("due<2026-11-05T09:41Z", false),
            ("other=1", false),
            ("other!=1", false),
        ] {
            assert_eq!(
                AttributeFilter::parse(filter).unwrap().fits(Some(&run)),
                expected,
                "{filter}"
            );
            assert!(!AttributeFilter::parse(filter).unwrap().fits(None), "{filter}");
        }
        let list = parse_filters("amount>=10, customer=\"a,b\",paid=true").unwrap();
        let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["amount>=10", "customer=\"a,b\"", "paid=true"]);
        assert_eq!(parse_filters(&texts.join(",")).unwrap(), list);
        assert_eq!(parse_tags("gold, \"a,b\",,x"), ["gold", "a,b", "x"]);
        for bad in ["", "amount", "=1", "!1", "amount!1"] {
            assert_eq!(AttributeFilter::parse(bad).unwrap_err().code(), "TFY0270", "{bad}");
        }
    }
}
