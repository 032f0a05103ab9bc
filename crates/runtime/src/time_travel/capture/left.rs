//! Finds values that are left in a log after redaction, because the program's own text, such as the
//! name of a step, is not changed. It changes nothing.

use std::collections::BTreeSet;

use crate::time_travel::capture::inside::Known;
use crate::time_travel::capture::redaction::{Found, area_of};
use tiffany_log::LogLine;
use tiffany_records::json::compact;
use tiffany_records::redact::{Kind, Node, Step};

/// A value that is left.
pub(crate) struct Left<'f> {
    pub(crate) value: &'f Known,
    pub(crate) record: u64,
    /// A JSON pointer into the record.
    pub(crate) place: String,
}

/// The values that are left in these records and may not stay: the first one for each place.
pub(crate) fn left<'f, 'r>(
    found: &'f Found<'_>,
    records: impl Iterator<Item = LogLine<'r>>,
) -> Vec<Left<'f>> {
    let mut left: Vec<Left<'f>> = Vec::new();
    // A placeholder that looks like one of the values is not one.
    let made = found.values().values().flat_map(|made| found.inside().words(made));
    let made: BTreeSet<&str> = made.map(|known| &*known.text).collect();
    for record in records {
        for (field, json) in record.fields().filter(|(field, _)| !is_of_the_log(field)) {
            let has_placeholders = area_of(&record, field).is_some();
            let json = compact(json);
            let Some(node) = Node::parse(&json) else { continue };
            let made = Some(&made).filter(|_| has_placeholders);
            let mut search = Search { found, made, path: vec![Step::Name(field.to_owned())] };
            if let Some((value, place)) = search.node(&node)
                && left.iter().all(|left| left.place != place)
            {
                left.push(Left { value, record: record.seq, place });
            }
        }
    }
    left
}

/// Whether the field contains only words of the log's own.
fn is_of_the_log(field: &str) -> bool {
    const FIELDS: &[&str] = &[
        "gen",
        "seed",
        "recording",
        "continued",
        "language",
        "fork",
        "call",
        "count",
        "time",
        "uuid",
        "number",
        "task",
        "object",
        "items",
        "child",
        "of",
        "step",
        "attempt",
        "retry_at",
        "why",
        "decided",
        "promise",
        "from",
        "after",
        "lines",
        "run",
        "records",
        "bytes",
        "received",
        "set",
        "set_ts",
    ];
    FIELDS.contains(&field)
}

struct Search<'s, 'f> {
    found: &'f Found<'f>,
    /// The placeholders that may be here.
    made: Option<&'s BTreeSet<&'f str>>,
    path: Vec<Step>,
}

impl<'f> Search<'_, 'f> {
    fn node(&mut self, node: &Node<'_>) -> Option<(&'f Known, String)> {
        match node {
            Node::Plain(_) => None,
            Node::Text(text) => self.text(text),
            Node::List(items) => items
                .iter()
                .enumerate()
                .find_map(|(at, item)| self.inside(Step::Index(at), |search| search.node(item))),
            Node::Map(members) => members.iter().find_map(|(name, member)| {
                let here = Step::Name(name.clone().into_owned());
                let is_given = self.path.len() > 1;
                self.inside(here, |search| match (is_given, &**name) {
                    // The kind of a step or an error.
                    (false, "kind" | "code") => None,
                    _ => search.text(name).or_else(|| search.node(member)),
                })
            }),
        }
    }

    fn inside<T>(&mut self, step: Step, look: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let seen = look(self);
        self.path.pop();
        seen
    }

    fn text(&self, text: &str) -> Option<(&'f Known, String)> {
        let is_line = matches!(&self.path[..], [.., Step::Name(name)] if name == "at");
        // The number of a source line says nothing.
        let text =
            if is_line { text.rsplit_once(':').map_or(text, |(file, _)| file) } else { text };
        let known = self.found.inside().words(text).find(|known| {
            let is_made = self.made.is_some_and(|made| made.contains(&*known.text));
            !(is_made || (is_line && known.kind == Kind::Number))
        })?;
        let mut around = (1..=self.path.len()).map(|length| &self.path[..length]);
        let may_stay =
            around.any(|place| self.found.may_stay().iter().any(|stays| stays.is_at(place)));
        (!may_stay).then(|| (known, self.pointer()))
    }

    fn pointer(&self) -> String {
        let part = |step: &Step| match step {
            Step::Name(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
            Step::Index(at) => format!("/{at}"),
        };
        self.path.iter().map(part).collect()
    }
}
