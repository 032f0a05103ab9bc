//! The way through a record to the values in it, past rules that mean some of them. It knows where in a record data of the program can be, and nothing of
//! what becomes of it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::placeholder::{Kind, kind_of};
use super::tree::Node;
use crate::wal::{Record, RecordType};

#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// As it was given.
    pub(super) text: String,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    Name(String),
    Pointer(Vec<String>),
}

impl Rule {
    /// Whether it means the place at the end of this path.
    pub(super) fn means(&self, path: &[Step]) -> bool {
        match (&self.place, path.last()) {
            (Place::Name(name), Some(Step::Name(here))) => name == here,
            (Place::Pointer(steps), _) => {
                steps.len() == path.len()
                    && steps.iter().zip(path).all(|(wanted, here)| match here {
                        Step::Name(name) => wanted == name,
                        Step::Index(at) => *wanted == at.to_string(),
                    })
            }
            _ => false,
        }
    }
}

pub(super) fn text_of<'a>(node: &'a Node<'_>) -> &'a str {
    match node {
        Node::Plain(text) | Node::Text(text) => text,
        _ => "",
    }
}

/// What a field has in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    /// A value of the program's.
    Value,
    /// What a call of a step is about: values among other things.
    About,
    /// An error of a task.
    Error,
    /// What a run was: values among other things.
    Tables,
    /// A text that the program may have made.
    Words,
}

impl Area {
    /// `None`: nothing of the program's data can be in it.
    pub(super) fn of(record: &Record<'_>, field: &str) -> Option<Area> {
        let call = || record.str("call").unwrap_or_default();
        match field {
            "input" | "value" | "payload" => Some(Area::Value),
            "about" if matches!(&*call(), "continue_as" | "approve") => Some(Area::Value),
            "about" => Some(Area::About),
            "error" if record.get("error").is_some_and(|json| json.starts_with('{')) => {
                Some(Area::Error)
            }
            "tables" => Some(Area::Tables),
            "key" | "id" => Some(Area::Words),
            // What a step is called is in the program's text.
            "name" if record.record_type() != Some(RecordType::TaskYield) => Some(Area::Words),
            "name" if call() != "effect" => Some(Area::Words),
            _ => None,
        }
    }
}

/// Something without parts.
#[derive(Clone, Copy)]
pub(super) enum Leaf {
    /// A part of a value.
    Value(Kind),
    /// A text outside of values, or the name of a member.
    Words,
}

pub(super) enum Step {
    Name(String),
    Index(usize),
}

/// Whether this is a number as the tables of a snapshot have it.
fn is_value(members: &[(Cow<'_, str>, Node<'_>)]) -> bool {
    matches!(members, [(name, _)] if matches!(&**name, "json" | "int" | "uint" | "float"))
}

/// What is done with each leaf: it is told whether a rule means it.
pub(super) type Each<'e> = &'e mut dyn FnMut(Leaf, &mut Node<'_>, bool);

/// A way through a value, with the rules at hand.
pub(super) struct Walk<'r, 'u> {
    pub(super) rules: &'r [Rule],
    /// Which rules have found something.
    pub(super) used: &'u mut BTreeSet<usize>,
    pub(super) path: Vec<Step>,
}

impl Walk<'_, '_> {
    pub(super) fn field(&mut self, node: &mut Node<'_>, field: &str, area: Area, each: Each<'_>) {
        self.path.push(Step::Name(field.to_owned()));
        let marked = self.is_meant(false);
        match (area, node) {
            (Area::Value, node) => self.value(node, marked, true, each),
            (Area::Tables, node) => self.value(node, marked, false, each),
            (Area::Words, node) => self.words(node, marked, each),
            (Area::About, Node::Map(members)) => {
                for (name, member) in members {
                    match &**name {
                        "input" | "message" => self.named(name, |walk| {
                            let marked = marked || walk.is_meant(false);
                            walk.value(member, marked, true, each);
                        }),
                        "name" => self.words(member, marked, each),
                        _ => {}
                    }
                }
            }
            (Area::Error, Node::Map(members)) => {
                for (name, member) in members {
                    match &**name {
                        "message" | "within" => self.words(member, marked, each),
                        "task" | "through" => self.labels(member, marked, each),
                        "detail" => self.detail(member, marked, each),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.path.pop();
    }

    /// All texts in it.
    fn words(&mut self, node: &mut Node<'_>, marked: bool, each: Each<'_>) {
        match node {
            Node::Text(text) if marked => each(Leaf::Value(kind_of(text)), node, true),
            Node::Text(_) => each(Leaf::Words, node, false),
            Node::List(items) => items.iter_mut().for_each(|item| self.words(item, marked, each)),
            _ => {}
        }
    }

    /// Tasks, each with its name.
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

    /// An error as another language has it: the text of a value.
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

    /// A value, with its parts. Not all numbers beside values are the program's.
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
            Node::Map(members) => match tag.as_deref() {
                // A member of an enum, a zone, a number that is none: there are not many, and no others.
                Some("$enum" | "$zoneinfo" | "$float" | "$blob") => {}
                Some("$bytes" | "$bytearray" | "$base64") => {
                    members
                        .iter_mut()
                        .for_each(|(_, text)| each(Leaf::Value(Kind::Bytes), text, marked));
                }
                Some("$datetime" | "$date" | "$time") => {
                    let text = members.iter_mut().take(1);
                    text.for_each(|(_, text)| each(Leaf::Value(Kind::Moment), text, marked));
                }
                Some("$dict") => self.pairs(members, marked, numbers, each),
                // What wraps a value is no step on the way to it.
                Some(_) if members.len() == 1 => {
                    self.value(&mut members[0].1, marked, numbers, each)
                }
                tag => {
                    // In tables a value has one name that says what it is.
                    let numbers = numbers || is_value(members);
                    // The first says what it is.
                    for (name, member) in members.iter_mut().skip(usize::from(tag.is_some())) {
                        self.named(name, |walk| {
                            let marked = marked || walk.is_meant(true);
                            walk.value(member, marked, numbers, each);
                        });
                        self.name(name, each);
                    }
                }
            },
        }
    }

    /// A map whose names are values.
    fn pairs(
        &mut self,
        members: &mut [(Cow<'_, str>, Node<'_>)],
        marked: bool,
        numbers: bool,
        each: Each<'_>,
    ) {
        let Some((_, Node::List(pairs))) = members.first_mut() else { return };
        for pair in pairs {
            let Node::List(pair) = pair else { continue };
            let [key, value] = &mut pair[..] else { continue };
            let name = text_of(key).to_owned();
            self.named(&name, |walk| {
                let marked = marked || walk.is_meant(true);
                walk.value(value, marked, numbers, each);
            });
            self.value(key, false, numbers, each);
        }
    }

    /// The name of a member may itself be what is taken out.
    fn name(&mut self, name: &mut Cow<'_, str>, each: Each<'_>) {
        let mut node = Node::Text(Cow::Owned(name.clone().into_owned()));
        each(Leaf::Words, &mut node, false);
        if let Node::Text(cleaned) = node
            && *cleaned != **name
        {
            *name = Cow::Owned(cleaned.into_owned());
        }
    }

    fn named(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        self.path.push(Step::Name(name.to_owned()));
        inside(self);
        self.path.pop();
    }

    /// Whether a rule means the place this stands at. Fields of a record have names of their own, which are not those of the program.
    fn is_meant(&mut self, in_value: bool) -> bool {
        let fits = |rule: &Rule| match &rule.place {
            Place::Name(_) => in_value && rule.means(&self.path),
            Place::Pointer(_) => rule.means(&self.path),
        };
        let meant: Vec<usize> = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| fits(rule))
            .map(|(at, _)| at)
            .collect();
        self.used.extend(&meant);
        !meant.is_empty()
    }
}
