//! Walks through a record and visits the values in it, with the rules that match them. It knows
//! where a record can contain data of the program, but not what happens to it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Kind, is_moment, kind_of};
use super::place::{Place, Step};
use super::tree::Node;

/// Returns the text of a value; empty if it is an array or an object.
pub fn text_of<'a>(node: &'a Node<'_>) -> &'a str {
    match node {
        Node::Plain(text) | Node::Text(text) => text,
        _ => "",
    }
}

/// The kind of data in a field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// A value of the program.
    Value,
    /// The `about` field of a call, which contains values among other things.
    About,
    /// An error of a task.
    Error,
    /// The state of a run, which contains values among other things.
    Tables,
    /// A text that the program may have chosen.
    Words,
}

/// A value without parts.
#[derive(Clone, Copy)]
pub enum Leaf {
    /// Part of a value of the program.
    Value(Kind),
    /// A text outside of values, or the name of a member.
    Words,
}

type Members<'a> = [(Cow<'a, str>, Node<'a>)];

/// Returns whether this is a number in the form of a snapshot's tables.
fn is_value(members: &Members<'_>) -> bool {
    matches!(members, [(name, _)] if matches!(&**name, "json" | "int" | "uint" | "float"))
}

/// The visitor for leaves. Its last argument tells whether a rule matches the leaf.
pub(super) type Each<'e> = &'e mut dyn FnMut(Leaf, &mut Node<'_>, bool);

/// The extent of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only the program's values. Tags, which tell the type of a value, are skipped, because a
    /// captured run needs them.
    Values,
    /// Every text that could be there. No secret may be left, even if the value cannot be read
    /// again.
    Everything,
}

/// A walk through a value with a set of rules.
pub struct Walk<'r, 'u> {
    /// The places that rules match.
    pub places: &'r [Place],
    /// The indices of the places that have been found.
    pub used: &'u mut BTreeSet<usize>,
    /// The path from the record to the current position.
    pub path: Vec<Step>,
    /// The extent of the walk.
    pub reach: Reach,
}

impl Walk<'_, '_> {
    /// Walks through one field of a record.
    pub fn field(&mut self, node: &mut Node<'_>, field: &str, area: Area, each: Each<'_>) {
        self.path.push(Step::Name(field.to_owned()));
        let marked = self.is_meant(false);
        match (area, node) {
            (Area::Value, node) => self.value(node, marked, true, each),
            (Area::Tables, node) if self.goes_everywhere() => self.tables(node, each),
            (Area::Tables, node) => self.value(node, marked, false, each),
            (Area::Words, node) => self.words(node, marked, each),
            (Area::About, Node::Map(members)) => self.about(members, marked, each),
            (Area::Error, node) => self.error(node, marked, each),
            (Area::About, node) if self.goes_everywhere() => self.value(node, marked, true, each),
            _ => {}
        }
        self.path.pop();
    }

    fn goes_everywhere(&self) -> bool {
        self.reach == Reach::Everything
    }

    fn about(&mut self, members: &mut Members<'_>, marked: bool, each: Each<'_>) {
        for (name, member) in members {
            match &**name {
                "name" => self.words(member, marked, each),
                // The receiver of a message, and the kind of a step.
                "to" | "kind" => {}
                "input" | "message" => self.part(name, member, marked, each),
                _ if self.goes_everywhere() => self.part(name, member, marked, each),
                _ => {}
            }
        }
    }

    /// Walks through a value under a name that the log has chosen.
    fn part(&mut self, name: &str, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        self.named(name, |walk| {
            let marked = marked || walk.is_meant(false);
            walk.value(node, marked, true, each);
        });
    }

    fn error(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        let Node::Map(members) = node else { return };
        for (name, member) in members {
            match &**name {
                "message" | "within" => self.words(member, marked, each),
                // The name of a call.
                "call" if self.goes_everywhere() => self.words(member, marked, each),
                "task" | "through" => self.labels(member, marked, each),
                "detail" => self.detail(member, marked, each),
                "trace" => self.trace(member, marked, each),
                _ => {}
            }
        }
    }

    /// Walks through the tables of a snapshot, as `durable/snapshot/tables.rs` writes them.
    fn tables(&mut self, node: &mut Node<'_>, each: Each<'_>) {
        let Node::Map(tables) = node else { return };
        for (table, rows) in tables {
            let Node::List(rows) = rows else { continue };
            for row in rows {
                match (&**table, row) {
                    ("unobserved", error) => self.error(error, false, each),
                    (_, Node::Map(members)) => {
                        for (name, member) in members {
                            self.cell(table, name, member, each);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn cell(&mut self, table: &str, name: &str, node: &mut Node<'_>, each: Each<'_>) {
        match (name, node) {
            // For a finished task, this is a word of the log.
            ("state", node) if table == "tasks" => self.value(node, false, true, each),
            ("name", node) => self.words(node, false, each),
            ("error", node) => self.error(node, false, each),
            ("value", node) => self.plain(node, false, each),
            ("log", Node::List(entries)) => {
                entries.iter_mut().for_each(|entry| self.plain(entry, false, each));
            }
            ("store", Node::Map(entries)) => {
                for (key, entry) in entries {
                    self.named(key, |walk| {
                        let marked = walk.is_meant(true);
                        walk.plain(entry, marked, each);
                    });
                    self.name(key, each);
                }
            }
            ("step", Node::Map(step)) => {
                for (_, kept) in step.iter_mut().filter(|(name, _)| name == "checkpoint") {
                    self.value(kept, false, true, each);
                }
            }
            _ => {}
        }
    }

    /// Walks through a value in a table, under the name of its kind.
    fn plain(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        if let Node::Map(members) = node {
            members.iter_mut().for_each(|(_, value)| self.value(value, marked, true, each));
        }
    }

    /// Visits all texts in a node.
    fn words(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        match node {
            Node::Text(text) if marked => each(Leaf::Value(kind_of(text)), node, true),
            Node::Text(_) => each(Leaf::Words, node, false),
            Node::List(items) => items.iter_mut().for_each(|item| self.words(item, marked, each)),
            _ => {}
        }
    }

    /// Visits the names of tasks.
    fn labels(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        match node {
            Node::List(items) => items.iter_mut().for_each(|item| self.labels(item, marked, each)),
            Node::Map(members) => {
                for (_, member) in members.iter_mut().filter(|(name, _)| name == "name") {
                    self.words(member, marked, each);
                }
            }
            _ => {}
        }
    }

    /// Visits the stack trace of an error, whose source lines may contain secrets.
    fn trace(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        let Node::Map(members) = node else { return };
        for (_, member) in members.iter_mut().filter(|(name, _)| name == "lines") {
            self.words(member, marked, each);
        }
    }

    /// Walks through an error as another language has it, which is a value inside a text.
    fn detail(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        let Node::Text(text) = node else { return };
        let text = text.clone().into_owned();
        match Node::parse(&text).filter(|inner| matches!(inner, Node::Map(_) | Node::List(_))) {
            Some(was) => {
                let mut inner = was.clone();
                self.value(&mut inner, marked, true, each);
                if inner != was {
                    *node = Node::Text(Cow::Owned(inner.json()));
                }
            }
            None => self.words(node, marked, each),
        }
    }

    /// Walks through a value and its parts. `numbers` tells whether numbers belong to the program.
    fn value(&mut self, node: &mut Node<'_>, marked: bool, numbers: bool, each: Each<'_>) {
        let tag = node.tag().map(str::to_owned);
        match node {
            Node::Plain(text) => {
                let leaf = match text.as_bytes().first() {
                    Some(b't' | b'f') => Leaf::Value(Kind::Flag),
                    Some(b'n') | None => return,
                    Some(_) if !numbers && !marked => return,
                    Some(_) => Leaf::Value(Kind::Number),
                };
                each(leaf, node, marked);
            }
            Node::Text(text) if text.is_empty() => {}
            Node::Text(text) => each(Leaf::Value(kind_of(text)), node, marked),
            Node::List(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.path.push(Step::Index(at));
                    let marked = marked || self.is_meant(false);
                    self.value(item, marked, numbers, each);
                    self.path.pop();
                }
            }
            Node::Map(members) => match tag {
                Some(tag) => self.tagged(&tag, members, marked, numbers, each),
                None => {
                    // In tables, a value has a single member that names its type.
                    let numbers = numbers || is_value(members);
                    self.members(members, marked, numbers, each);
                }
            },
        }
    }

    /// Walks through a value whose first name is a tag.
    fn tagged(
        &mut self,
        tag: &str,
        members: &mut Members<'_>,
        marked: bool,
        numbers: bool,
        each: Each<'_>,
    ) {
        match (tag, &mut *members) {
            // Members of enums, time zones and non-finite numbers come from small fixed sets.
            ("$enum" | "$zoneinfo" | "$float" | "$blob", members) => {
                self.all_else(members, marked, each);
            }
            ("$bytes" | "$bytearray" | "$base64", [(_, first), others @ ..]) => {
                match first {
                    Node::Text(_) => each(Leaf::Value(Kind::Bytes), first, marked),
                    other => self.rest(other, marked, each),
                }
                self.all_else(others, marked, each);
            }
            ("$datetime" | "$date" | "$time", [(_, first), others @ ..]) => {
                match first {
                    Node::Text(text) if is_moment(text) || !self.goes_everywhere() => {
                        each(Leaf::Value(Kind::Moment), first, marked);
                    }
                    other => self.rest(other, marked, each),
                }
                for (name, other) in others {
                    let is_zone = matches!(other.tag(), Some("$zoneinfo" | "$timezone"));
                    self.rest(other, marked && !is_zone, each);
                    self.tag_name(name, each);
                }
            }
            ("$int" | "$decimal" | "$fraction", [(_, first @ Node::Text(_))])
                if self.goes_everywhere() =>
            {
                each(Leaf::Value(Kind::Number), first, marked);
            }
            ("$dict", [(_, Node::List(pairs)), others @ ..]) => {
                self.pairs(pairs, marked, numbers, each);
                self.all_else(others, marked, each);
            }
            // The wrapper of a value is not part of the path to it.
            (_, [(name, value)]) => {
                self.value(value, marked, numbers, each);
                self.tag_name(name, each);
            }
            (_, [(name, what), others @ ..]) => {
                let is_class = TAGS.contains(&tag) && is_class(text_of(what));
                self.rest(what, marked && !is_class, each);
                self.tag_name(name, each);
                self.members(others, marked, numbers, each);
            }
            (_, []) => {}
        }
    }

    fn members(&mut self, members: &mut Members<'_>, marked: bool, numbers: bool, each: Each<'_>) {
        let mut changed = BTreeSet::new();
        for (at, (name, member)) in members.iter_mut().enumerate() {
            self.named(name, |walk| {
                let marked = marked || walk.is_meant(true);
                walk.value(member, marked, numbers, each);
            });
            if self.name(name, each) {
                changed.insert(at);
            }
        }
        if !changed.is_empty() {
            tell_apart(members, &changed);
        }
    }

    /// Walks through members that only a walk with [`Reach::Everything`] visits.
    fn all_else(&mut self, members: &mut Members<'_>, marked: bool, each: Each<'_>) {
        for (name, member) in members {
            self.rest(member, marked, each);
            self.tag_name(name, each);
        }
    }

    /// Walks through a node that only a walk with [`Reach::Everything`] visits.
    fn rest(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        if self.goes_everywhere() {
            self.value(node, marked, true, each);
        }
    }

    /// Visits a tag, which can be any text unless it is one of Tiffany's.
    fn tag_name(&mut self, name: &mut Cow<'_, str>, each: Each<'_>) {
        if self.goes_everywhere() && !TAGS.contains(&&**name) {
            self.name(name, each);
        }
    }

    /// Walks through a map whose keys are values.
    fn pairs(&mut self, pairs: &mut [Node<'_>], marked: bool, numbers: bool, each: Each<'_>) {
        for pair in pairs {
            match pair {
                Node::List(pair) if pair.len() == 2 => {
                    let [key, value] = &mut pair[..] else { continue };
                    let name = text_of(key).to_owned();
                    self.named(&name, |walk| {
                        let marked = marked || walk.is_meant(true);
                        walk.value(value, marked, numbers, each);
                    });
                    self.value(key, false, numbers, each);
                }
                other => self.rest(other, marked, each),
            }
        }
    }

    /// Redacts the name of a member. Returns `true` if that changed the name.
    fn name(&mut self, name: &mut Cow<'_, str>, each: Each<'_>) -> bool {
        let mut node = Node::Text(Cow::Owned(name.clone().into_owned()));
        each(Leaf::Words, &mut node, false);
        let Node::Text(cleaned) = node else { return false };
        let is_changed = *cleaned != **name;
        if is_changed {
            *name = Cow::Owned(cleaned.into_owned());
        }
        is_changed
    }

    fn named(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.path.push(Step::Name(name.to_owned()));
        inside(self);
        self.path.pop();
    }

    /// Returns whether a rule matches the current position. Only pointers match the names of record
    /// fields, which are not the program's.
    fn is_meant(&mut self, in_value: bool) -> bool {
        let mut is_meant = false;
        for (at, place) in self.places.iter().enumerate() {
            if (in_value || matches!(place, Place::Pointer(_))) && place.is_at(&self.path) {
                is_meant = true;
                self.used.insert(at);
            }
        }
        is_meant
    }
}

/// Returns whether this names a class. Values of a class can be read again.
fn is_class(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '<' | '>');
    let parts = text.split_once(':');
    parts.is_some_and(|(module, name)| module.chars().all(is_name) && name.chars().all(is_name))
}

/// The tags that distinguish types of values in the log.
const TAGS: &[&str] = &[
    "$attributes",
    "$base64",
    "$blob",
    "$bytearray",
    "$bytes",
    "$complex",
    "$custom",
    "$dataclass",
    "$date",
    "$datetime",
    "$decimal",
    "$dict",
    "$enum",
    "$exception",
    "$extra",
    "$float",
    "$fraction",
    "$frozenset",
    "$int",
    "$json",
    "$model",
    "$namedtuple",
    "$path",
    "$plain",
    "$private",
    "$pure_posix_path",
    "$pure_windows_path",
    "$range",
    "$set",
    "$str",
    "$tag",
    "$text",
    "$time",
    "$timedelta",
    "$timezone",
    "$tuple",
    "$uuid",
    "$zoneinfo",
];

/// Numbers redacted names that now equal the name of another member, because names in an object are
/// unique.
fn tell_apart(members: &mut Members<'_>, changed: &BTreeSet<usize>) {
    let kept = members.iter().enumerate().filter(|(at, _)| !changed.contains(at));
    let mut taken: BTreeSet<String> = kept.map(|(_, (name, _))| name.to_string()).collect();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for at in changed {
        let (name, _) = &mut members[*at];
        let number = last.entry(name.to_string()).or_insert(1);
        let mut numbered = name.to_string();
        while !taken.insert(numbered.clone()) {
            *number += 1;
            numbered = format!("{name} {number}");
        }
        *name = Cow::Owned(numbered);
    }
}
