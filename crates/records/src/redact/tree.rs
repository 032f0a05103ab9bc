//! JSON as a tree that keeps the order of members and the text of numbers, so that unchanged parts
//! are written as they were. It knows nothing of records.

use std::borrow::Cow;

use tiffany_log::{Fields, end_of_value, parse_string, push_string};

/// The maximum depth of a value.
const DEPTH: usize = 512;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// A number, a Boolean or `null`.
    Plain(Cow<'a, str>),
    /// A text.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Node<'a>>),
    /// An object, with its members in order.
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Parses a value in the form of the log: without white space between its parts.
    pub fn parse(json: &'a str) -> Option<Node<'a>> {
        Node::within(json, DEPTH)
    }

    fn within(json: &'a str, depth: usize) -> Option<Node<'a>> {
        let depth = depth.checked_sub(1)?;
        match json.as_bytes().first()? {
            b'"' => parse_string(json).map(Node::Text),
            b'[' => {
                let mut rest = json.strip_prefix('[')?.strip_suffix(']')?;
                let mut items = Vec::new();
                while !rest.is_empty() {
                    let end = end_of_value(rest.as_bytes(), 0)?;
                    items.push(Node::within(rest.get(..end)?, depth)?);
                    rest = rest.get(end..)?;
                    rest = rest.strip_prefix(',').unwrap_or(rest);
                }
                Some(Node::List(items))
            }
            b'{' => {
                let rest = json.strip_prefix('{')?.strip_suffix('}')?;
                let (mut fields, mut members) = (Fields { rest }, Vec::new());
                for (name, value) in fields.by_ref() {
                    let name = match name.contains('\\') {
                        true => Cow::Owned(parse_string(&format!("\"{name}\""))?.into_owned()),
                        false => Cow::Borrowed(name),
                    };
                    members.push((name, Node::within(value, depth)?));
                }
                fields.rest.is_empty().then_some(Node::Map(members))
            }
            _ => Some(Node::Plain(json.into())),
        }
    }

    /// Returns the first name of an object if it is a tag, which says what the object represents.
    pub fn tag(&self) -> Option<&str> {
        match self {
            Node::Map(members) => {
                members.first().map(|(name, _)| &**name).filter(|name| name.starts_with('$'))
            }
            _ => None,
        }
    }

    /// Returns the value as JSON.
    pub fn json(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        String::from_utf8(out).expect("made of texts")
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Plain(text) => out.extend_from_slice(text.as_bytes()),
            Node::Text(text) => push_string(out, text),
            Node::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    out.extend_from_slice(if at == 0 { b"" } else { b"," });
                    item.write(out);
                }
                out.push(b']');
            }
            Node::Map(members) => {
                out.push(b'{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.extend_from_slice(if at == 0 { b"" } else { b"," });
                    push_string(out, name);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_values_are_written_unchanged() {
        for json in [
            "null",
            "-12.50e3",
            "[]",
            "{}",
            r#"[1,[2,"a,]"],{"b":{}}]"#,
            r#"{"$dataclass":"shop:Order","b":1,"a":12345678901234567890}"#,
            r#"{"a\"b":"x\ny\\","é":[true,false]}"#,
        ] {
            assert_eq!(Node::parse(json).expect(json).json(), json);
        }
    }

    #[test]
    fn invalid_json_is_not_parsed() {
        let deep = format!("{}{}", "[".repeat(600), "]".repeat(600));
        for json in ["", "[1", "{\"a\"}", "{\"a\":}", "\"a", "[1,,2]", "\"\\ud83d\"", &deep] {
            assert_eq!(Node::parse(json), None, "{json}");
        }
    }
}
