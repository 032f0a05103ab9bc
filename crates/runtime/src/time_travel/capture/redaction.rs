//! Redaction of a log before other people see it. Rules find values; these are replaced wherever
//! they occur in the log. It knows nothing of what runs do with them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::time_travel::capture::error::CaptureError;
use crate::time_travel::capture::inside::{Inside, Length};
use crate::time_travel::capture::placeholder::{Secret, placeholders};
use tiffany_log::LogLine;
use tiffany_records::json::compact;
use tiffany_records::record::Record;
use tiffany_records::redact::{Area, Kind, Leaf, Node, Place, Reach, Walk, kind_of, text_of};

/// Rules for the values that are removed from a log.
///
/// A rule is the name of a field anywhere in a value, the last names of a path to it, such as
/// `customer.card` or `*.card`, or a JSON pointer into a record, such as `/input/customer/card`.
/// Each value found there is replaced in the whole log by a placeholder of the same kind and shape.
/// Equal values have equal placeholders everywhere, also inside other texts; values with fewer than
/// four characters are replaced there only as words. A run that only passes the values on still
/// matches. If a value would be left, in the name of a step for example, the run is not captured,
/// unless [`leave`](Redaction::leave) allows it.
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
    /// The rules as they were given.
    rules: Vec<String>,
    places: Vec<Place>,
    /// The places where a value may stay.
    left: Vec<Place>,
}

impl Redaction {
    /// Rules that redact nothing.
    pub fn new() -> Redaction {
        Redaction::default()
    }

    /// Adds a rule.
    pub fn field(mut self, rule: &str) -> Result<Redaction, CaptureError> {
        self.places.push(parse(rule)?);
        self.rules.push(rule.to_owned());
        Ok(self)
    }

    /// Allows a value that is redacted elsewhere to stay here: in a field with this name, or at a
    /// JSON pointer, such as `/name` for the names of steps. This is for the program's own text,
    /// which is not changed.
    pub fn leave(mut self, rule: &str) -> Result<Redaction, CaptureError> {
        self.left.push(parse(rule)?);
        Ok(self)
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules, as they were given.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(String::as_str)
    }

    /// Each rule as if it were the only one.
    pub(crate) fn one_by_one(&self) -> impl Iterator<Item = Redaction> {
        let one = |(rule, place): (&String, &Place)| Redaction {
            rules: vec![rule.clone()],
            places: vec![place.clone()],
            left: self.left.clone(),
        };
        self.rules.iter().zip(&self.places).map(one)
    }

    /// Finds the values that the rules refer to in these records, and their placeholders. A rule
    /// that finds nothing is an error: it may be a typing mistake, and the value it was meant to
    /// find would be left.
    pub(crate) fn find<'a>(
        &self,
        records: impl Iterator<Item = LogLine<'a>>,
    ) -> Result<Found<'_>, CaptureError> {
        let (mut used, mut secrets) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            for (field, json) in record.fields() {
                let Some(area) = area_of(&record, field) else { continue };
                let json = compact(json);
                let mut node = read(&json, &record, field)?;
                let mut walk = walk(&self.places, &mut used);
                walk.field(&mut node, field, area, &mut |leaf, node, marked| {
                    if let (Leaf::Value(kind), true) = (leaf, marked) {
                        secrets.insert((kind, text_of(node).to_owned()));
                    }
                });
            }
        }
        if let Some(unused) = (0..self.rules.len()).find(|rule| !used.contains(rule)) {
            return Err(CaptureError::redaction(
                &self.rules[unused],
                "the log has nothing there",
                NEXT,
            ));
        }
        Ok(Found::new(self, &secrets))
    }
}

fn parse(rule: &str) -> Result<Place, CaptureError> {
    Place::parse(rule).map_err(|why| CaptureError::redaction(rule, why, NEXT))
}

fn walk<'r, 'u>(places: &'r [Place], used: &'u mut BTreeSet<usize>) -> Walk<'r, 'u> {
    Walk { places, used, path: Vec::new(), reach: Reach::Values }
}

/// What kind of data a field of a record contains; `None` if it contains nothing of the program's.
pub(crate) fn area_of(line: &LogLine<'_>, field: &str) -> Option<Area> {
    let record = Record::read(line);
    let call = match &record {
        Record::TaskYield(call) => Some(call.tag()),
        _ => None,
    };
    let call = call.as_deref();
    match field {
        "input" | "value" | "payload" => Some(Area::Value),
        "about" if matches!(call, Some("continue_as" | "approve")) => Some(Area::Value),
        "about" => Some(Area::About),
        "error" if line.get("error").is_some_and(|json| json.starts_with('{')) => Some(Area::Error),
        "tables" => Some(Area::Tables),
        "key" | "id" => Some(Area::Words),
        // The names of steps are in the program's text.
        "name" if call != Some("effect") => Some(Area::Words),
        _ => None,
    }
}

const NEXT: &str = "give the name of a field, or a JSON pointer into a record as `log --json` shows it, such as /input/card";

/// The values to replace, with their placeholders.
pub(crate) struct Found<'a> {
    redaction: &'a Redaction,
    by_value: BTreeMap<Secret, String>,
    inside: Inside,
}

impl<'a> Found<'a> {
    fn new(redaction: &'a Redaction, secrets: &BTreeSet<Secret>) -> Found<'a> {
        let by_value = placeholders(secrets);
        let inside = Inside::new(&by_value);
        Found { redaction, by_value, inside }
    }

    /// The values with their placeholders.
    pub(crate) fn values(&self) -> &BTreeMap<Secret, String> {
        &self.by_value
    }

    /// The values, for a search inside texts.
    pub(crate) fn inside(&self) -> &Inside {
        &self.inside
    }

    /// The places where a value may stay.
    pub(crate) fn may_stay(&self) -> &[Place] {
        &self.redaction.left
    }

    /// A field of a record after redaction; `None` if nothing in it is redacted.
    pub(crate) fn cleaned(
        &self,
        record: &LogLine<'_>,
        field: &str,
        json: &str,
    ) -> Result<Option<String>, CaptureError> {
        let Some(area) = area_of(record, field) else { return Ok(None) };
        let json = compact(json);
        let was = read(&json, record, field)?;
        let mut node = was.clone();
        let mut used = BTreeSet::new();
        let mut walk = walk(&self.redaction.places, &mut used);
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
        let known = |kind| self.by_value.get(&(kind, text.to_owned()));
        let cleaned = match (known(whole), &*node) {
            (Some(made), _) => made.clone(),
            // Dates and bytes contain no words.
            (None, Node::Text(_)) => match whole {
                Kind::Moment | Kind::Bytes => self.inside.cleaned(text, Length::Long),
                _ => self.inside.cleaned(text, Length::Any),
            },
            // A text of digits may have become a number.
            (None, _) => match known(Kind::Text) {
                Some(made) => made.clone(),
                None => return,
            },
        };
        *node = match node {
            Node::Text(_) => Node::Text(Cow::Owned(cleaned)),
            _ => Node::Plain(Cow::Owned(cleaned)),
        };
    }
}

fn read<'a>(json: &'a str, record: &LogLine<'_>, field: &str) -> Result<Node<'a>, CaptureError> {
    Node::parse(json).ok_or_else(|| {
        let what = format!("/{field}");
        let why = format!("its value in record {} cannot be read", record.seq);
        CaptureError::redaction(&what, &why, "look at the record with `log --json`")
    })
}
