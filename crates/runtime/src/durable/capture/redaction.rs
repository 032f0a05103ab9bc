//! What is taken out of a log before others see it. Rules find values; these are replaced wherever they stand in the log. It knows nothing of
//! what runs do with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::error::CaptureError;
use super::placeholder::{Kind, Secret, kind_of, placeholders};
use super::tree::Node;
use super::walk::{Area, Leaf, Place, Rule, Walk, text_of};
use crate::durable::json::compact;
use crate::wal::Record;

/// Rules by which values are taken out of a log.
///
/// A rule is the name of a field, wherever it stands in a value, or a JSON pointer into a record, such as `/input/customer/card`. Everything that is found
/// there is replaced in the whole log by a placeholder of the same kind and shape. The same value has the same placeholder everywhere, also inside other
/// texts, if it has four characters or more: a run that only passes it on still fits.
///
/// ```
/// use tiffany::testing::Redaction;
///
/// let redaction = Redaction::new().field("email")?.field("/input/card")?;
/// assert!(Redaction::new().field("").is_err());
/// # let _ = redaction;
/// # Ok::<(), tiffany::testing::CaptureError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    rules: Vec<Rule>,
}

impl Redaction {
    /// Nothing is taken out.
    pub fn new() -> Redaction {
        Redaction::default()
    }

    /// Takes out what is found by this rule too.
    pub fn field(mut self, rule: &str) -> Result<Redaction, CaptureError> {
        let place = match rule.strip_prefix('/') {
            _ if rule.is_empty() => {
                return Err(CaptureError::redaction(rule, "it is empty", NEXT));
            }
            Some(rest) => {
                let part = |part: &str| part.replace("~1", "/").replace("~0", "~");
                Place::Pointer(rest.split('/').map(part).collect())
            }
            None => Place::Name(rule.to_owned()),
        };
        self.rules.push(Rule { text: rule.to_owned(), place });
        Ok(self)
    }

    /// Whether nothing is taken out.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, as they were given.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.text)
    }

    /// Finds what the rules mean in these records, and what stands for it. A rule that finds nothing is an error: it may be a slip, and what it should have
    /// found would be left.
    pub(super) fn find<'a>(
        &self,
        records: impl Iterator<Item = Record<'a>>,
    ) -> Result<Found<'_>, CaptureError> {
        let (mut used, mut secrets) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            for (field, json) in record.fields() {
                let Some(area) = Area::of(&record, field) else { continue };
                let json = compact(json);
                let mut node = read(&json, &record, field)?;
                let mut walk = Walk { rules: &self.rules, used: &mut used, path: Vec::new() };
                walk.field(&mut node, field, area, &mut |leaf, node, marked| {
                    if let (Leaf::Value(kind), true) = (leaf, marked) {
                        secrets.insert((kind, text_of(node).to_owned()));
                    }
                });
            }
        }
        if let Some(unused) = (0..self.rules.len()).find(|rule| !used.contains(rule)) {
            let rule = &self.rules[unused].text;
            return Err(CaptureError::redaction(rule, "the log has nothing there", NEXT));
        }
        Ok(Found::new(&self.rules, &secrets))
    }
}

const NEXT: &str = "give the name of a field, or a JSON pointer into a record as `log --json` shows it, such as /input/card";

/// What is replaced, and by what.
pub(super) struct Found<'a> {
    rules: &'a [Rule],
    by_value: BTreeMap<Secret, String>,
    /// Those that are looked for inside of texts, by their first four bytes, the longest first.
    inside: BTreeMap<[u8; 4], Vec<(Kind, String, String)>>,
}

/// Only what is as long as this is looked for inside of texts.
const SHORTEST: usize = 4;

impl<'a> Found<'a> {
    fn new(rules: &'a [Rule], secrets: &BTreeSet<Secret>) -> Found<'a> {
        let by_value = placeholders(secrets);
        let mut inside: BTreeMap<[u8; 4], Vec<_>> = BTreeMap::new();
        for ((kind, text), made) in &by_value {
            let is_long = text.chars().filter(|c| *c != '-').count() >= SHORTEST;
            if let (true, Some(first)) =
                (is_long && *kind != Kind::Flag, text.as_bytes().first_chunk())
            {
                inside.entry(*first).or_default().push((*kind, text.clone(), made.clone()));
            }
        }
        inside.values_mut().for_each(|found| found.sort_by_key(|(_, text, _)| text.len()));
        inside.values_mut().for_each(|found| found.reverse());
        Found { rules, by_value, inside }
    }

    /// How many values are taken out.
    pub(super) fn count(&self) -> usize {
        self.by_value.len()
    }

    /// A field of a record without what is taken out; `None` if there is nothing of it.
    pub(super) fn cleaned(
        &self,
        record: &Record<'_>,
        field: &str,
        json: &str,
    ) -> Result<Option<String>, CaptureError> {
        let Some(area) = Area::of(record, field) else { return Ok(None) };
        let json = compact(json);
        let was = read(&json, record, field)?;
        let mut node = was.clone();
        let mut used = BTreeSet::new();
        let mut walk = Walk { rules: self.rules, used: &mut used, path: Vec::new() };
        walk.field(&mut node, field, area, &mut |leaf, node, marked| {
            self.clean(leaf, node, marked)
        });
        Ok((node != was).then(|| node.json()))
    }

    fn clean(&self, leaf: Leaf, node: &mut Node<'_>, marked: bool) {
        let whole = match leaf {
            Leaf::Value(Kind::Flag) if !marked => return,
            Leaf::Value(kind) => kind,
            Leaf::Words => kind_of(text_of(node)),
        };
        let text = text_of(node);
        let known = self.by_value.get(&(whole, text.to_owned()));
        let cleaned = match known {
            Some(made) => made.clone(),
            None if matches!(node, Node::Text(_)) => self.clean_inside(text),
            None => return,
        };
        *node = match node {
            Node::Text(_) => Node::Text(Cow::Owned(cleaned)),
            _ => Node::Plain(Cow::Owned(cleaned)),
        };
    }

    /// A text without what is taken out inside of it, the longest first.
    fn clean_inside(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let before = out.chars().next_back();
            let known = rest.as_bytes().first_chunk().and_then(|first| self.inside.get(first));
            let found = known.into_iter().flatten().find(|(kind, secret, _)| {
                rest.strip_prefix(&**secret).is_some_and(|after| {
                    // A number is not found inside of a longer one.
                    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
                    *kind != Kind::Number || !(is_digit(before) || is_digit(after.chars().next()))
                })
            });
            match found {
                Some((_, secret, made)) => {
                    out.push_str(made);
                    rest = &rest[secret.len()..];
                }
                None => {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }
}

fn read<'a>(json: &'a str, record: &Record<'_>, field: &str) -> Result<Node<'a>, CaptureError> {
    Node::parse(json).ok_or_else(|| {
        let what = format!("/{field}");
        let why = format!("record {} has something there that cannot be read", record.seq);
        CaptureError::redaction(&what, &why, "look at the record with `log --json`")
    })
}
