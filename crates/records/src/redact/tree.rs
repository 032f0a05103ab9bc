//! JSON as a tree that keeps the order of its names and the text of its numbers, so that what is not changed is written as it was. It knows nothing of
//! records.

use std::borrow::Cow;

use tiffany_log::{Fields, end_of_value, parse_string, push_string};

/// So deep a value may be.
const DEPTH: usize = 512;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// A number, a flag or nothing.
    Plain(Cow<'a, str>),
    /// A text.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Node<'a>>),
    /// An object, with its fields in order.
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Reads a value as the log has it: without white space between its parts.
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

    /// The first name of an object, if it says what the object stands for.
    pub fn tag(&self) -> Option<&str> {
        match self {
            Node::Map(members) => {
                members.first().map(|(name, _)| &**name).filter(|name| name.starts_with('$'))
            }
            _ => None,
        }
    }

    /// Writes the value as JSON.
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
    fn what_is_read_is_written_as_it_was() {
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
    fn what_is_no_json_is_nothing() {
        let deep = format!("{}{}", "[".repeat(600), "]".repeat(600));
        for json in ["", "[1", "{\"a\"}", "{\"a\":}", "\"a", "[1,,2]", "\"\\ud83d\"", &deep] {
            assert_eq!(Node::parse(json), None, "{json}");
        }
    }
}
