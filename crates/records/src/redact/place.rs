//! The places in a value that a rule can match: the name of a field, a path of names, or a JSON
//! pointer into a record. It knows nothing of what is done with them.

/// A place that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last names on the path to it, anywhere in a value: `password`, `customer.card`,
    /// `*.secret`.
    Path(Vec<Part>),
    /// The complete path, from a field of a record: `/input/customer/card`.
    Pointer(Vec<Part>),
}

/// One component of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Name(String),
    /// `*`, which matches any name.
    Any,
}

/// One step on the path into a value.
pub enum Step {
    /// Into the field of this name.
    Name(String),
    /// Into the item with this index.
    Index(usize),
}

impl Place {
    /// Parses the place of a rule. The error is a description of what is wrong.
    pub fn parse(rule: &str) -> Result<Place, &'static str> {
        let part = |part: String| if part == "*" { Part::Any } else { Part::Name(part) };
        match rule.strip_prefix('/') {
            _ if rule.is_empty() => Err("it is empty"),
            Some(rest) => {
                let names = rest.split('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
                Ok(Place::Pointer(names.map(part).collect()))
            }
            None => {
                let names = names(rule);
                match names.iter().any(String::is_empty) {
                    true => Err("a name between its points is empty"),
                    false => Ok(Place::Path(names.into_iter().map(part).collect())),
                }
            }
        }
    }

    /// Returns whether this place is at the end of the path `way`. In a path of names, items of
    /// lists don't count.
    pub fn is_at(&self, way: &[Step]) -> bool {
        match self {
            Place::Path(parts) => {
                let mut names = way.iter().rev().filter_map(|step| match step {
                    Step::Name(name) => Some(name),
                    Step::Index(_) => None,
                });
                matches!(way.last(), Some(Step::Name(_)))
                    && parts.iter().rev().all(|part| names.next().is_some_and(|name| part.is(name)))
            }
            Place::Pointer(parts) => {
                parts.len() == way.len()
                    && parts.iter().zip(way).all(|(part, step)| match step {
                        Step::Name(name) => part.is(name),
                        Step::Index(at) => part.is(&at.to_string()),
                    })
            }
        }
    }

    /// Returns the last name of the path; `None` if it can be any name or the item of a list.
    pub fn last_name(&self) -> Option<&str> {
        let (Place::Path(parts) | Place::Pointer(parts)) = self;
        match parts.last() {
            Some(Part::Name(name)) if !name.bytes().all(|byte| byte.is_ascii_digit()) => Some(name),
            _ => None,
        }
    }
}

impl Part {
    fn is(&self, name: &str) -> bool {
        match self {
            Part::Name(wanted) => wanted == name,
            Part::Any => true,
        }
    }
}

/// Splits a path into names. A dot that belongs to a name is escaped with a backslash.
fn names(rule: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let mut chars = rule.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('.', _) => names.push(std::mem::take(&mut name)),
            ('\\', Some('.' | '\\')) => name.extend(chars.next()),
            (c, _) => name.push(c),
        }
    }
    names.push(name);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(steps: &str) -> Vec<Step> {
        let step = |step: &str| match step.parse() {
            Ok(at) => Step::Index(at),
            Err(_) => Step::Name(step.into()),
        };
        steps.split(' ').map(step).collect()
    }

    #[test]
    fn a_path_matches_where_its_last_names_are() {
        for (rule, steps, expected) in [
            ("card", "input card", true),
            ("card", "input customer card", true),
            ("card", "input card number", false),
            ("customer.card", "input customer card", true),
            ("customer.card", "input cards customer 3 card", true),
            ("customer.card", "input card", false),
            ("*.card", "input customer card", true),
            ("customer.*", "input customer card", true),
            ("customer.*", "input customer", false),
            ("a\\.b", "input a.b", true),
            ("a\\.b", "input a b", false),
            ("cards", "input cards 0", false),
            ("/input/card", "input card", true),
            ("/input/card", "about input card", false),
            ("/input/*/card", "input 7 card", true),
            ("/input/7/card", "input 7 card", true),
            ("/input/a~1b", "input a/b", true),
            ("/input", "input", true),
        ] {
            let place = Place::parse(rule).expect(rule);
            assert_eq!(place.is_at(&way(steps)), expected, "{rule} at {steps}");
        }
    }

    #[test]
    fn invalid_places_are_refused() {
        for rule in ["", ".", "a.", ".a", "a..b"] {
            assert!(Place::parse(rule).is_err(), "{rule}");
        }
    }
}
