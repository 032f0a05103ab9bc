//! Decodes JSON text to values, in a loop with its own stack, like `encode.rs`. It recognizes
//! objects with a tag, but doesn't know what each tag means.

use std::borrow::Cow;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use tiffany::{ErrorKind, binding};

use super::MAX_LEVELS;
use super::error::{CodecError, Fail};
use super::form::{self, Missing, Plans, Tag, Tagged};
use super::path::{Path, Step};
use super::reader::{After, BadText, Number, Reader};

/// Decodes the value of a JSON text.
pub(crate) fn decode<'py>(py: Python<'py>, json: &str) -> Result<Bound<'py, PyAny>, CodecError> {
    decode_with(py, json, Missing::Fails)
}

/// The meaning of names that begin with `$`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dollar {
    /// The names are tags.
    Tags,
    /// The names are ordinary: the value came from outside the program.
    Names,
}

pub(super) fn decode_with<'py>(
    py: Python<'py>,
    json: &str,
    missing: Missing,
) -> Result<Bound<'py, PyAny>, CodecError> {
    let (json, dollar) = match binding::plain(json) {
        Some(plain) => (plain, Dollar::Names),
        None => (json, Dollar::Tags),
    };
    let mut decoder = Decoder {
        py,
        reader: Reader::new(json),
        dollar,
        open: Vec::new(),
        items: Vec::new(),
        levels: 0,
        names: Names([const { None }; NAMES]),
        missing,
        plans: None,
    };
    decoder.value().map_err(|fail| CodecError::at(ErrorKind::Unreadable, &decoder.path(), fail))
}

struct Decoder<'py, 't> {
    py: Python<'py>,
    reader: Reader<'t>,
    dollar: Dollar,
    /// The unfinished values, outermost first.
    open: Vec<Open<'py>>,
    /// The elements so far of all unfinished lists.
    items: Vec<Bound<'py, PyAny>>,
    /// The current depth of the value. Brackets that belong to a tag do not count.
    levels: usize,
    names: Names<'py>,
    missing: Missing,
    /// Data that the handlers of tags share, created on first use.
    plans: Option<Rc<Plans<'py>>>,
}

/// Recent names, so that objects of the same shape share them.
struct Names<'py>([Option<Bound<'py, PyString>>; NAMES]);

/// The number of names that are remembered.
const NAMES: usize = 64;

enum Open<'py> {
    /// A list, with the index of its first element.
    List {
        start: usize,
        counts: bool,
    },
    Dict {
        dict: Bound<'py, PyDict>,
        name: Bound<'py, PyString>,
        counts: bool,
    },
    Tagged(OpenTag<'py>),
}

struct OpenTag<'py> {
    tag: &'static Tag,
    head: Option<Bound<'py, PyAny>>,
    fields: Option<Bound<'py, PyDict>>,
    /// The name of the next value, once the tag has its own.
    name: Option<Bound<'py, PyString>>,
}

impl From<BadText> for Fail {
    fn from(bad: BadText) -> Fail {
        Fail::new(format!("{} (at byte {})", bad.what, bad.at)).next("correct the text")
    }
}

impl<'py> Decoder<'py, '_> {
    fn value(&mut self) -> Result<Bound<'py, PyAny>, Fail> {
        loop {
            // A value begins here.
            let value = match self.reader.peek()? {
                b'"' => PyString::new(self.py, &self.reader.string()?).into_any(),
                b'{' => match self.begin_object()? {
                    Some(empty) => empty,
                    None => continue,
                },
                b'[' => {
                    self.reader.pass();
                    let counts = self.deeper()?;
                    if !self.reader.passes(b']')? {
                        self.open.push(Open::List { start: self.items.len(), counts });
                        continue;
                    }
                    self.levels -= usize::from(counts);
                    PyList::empty(self.py).into_any()
                }
                b't' => self.word("true", PyBool::new(self.py, true).to_owned().into_any())?,
                b'f' => self.word("false", PyBool::new(self.py, false).to_owned().into_any())?,
                b'n' => self.word("null", self.py.None().into_bound(self.py))?,
                _ => self.number()?,
            };
            if let Some(whole) = self.put(value)? {
                self.reader.end()?;
                return Ok(whole);
            }
        }
    }

    /// Adds a value to the innermost open value, and closes those that are complete. Returns the
    /// whole value once it is complete.
    #[inline]
    fn put(&mut self, mut value: Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>, Fail> {
        let Decoder { py, reader, open, names, .. } = self;
        loop {
            let counts = match open.last_mut() {
                None => return Ok(Some(value)),
                Some(Open::List { start, counts }) => {
                    self.items.push(value);
                    if reader.after(b']')? == After::Another {
                        return Ok(None);
                    }
                    value = PyList::new(*py, self.items.drain(*start..))?.into_any();
                    *counts
                }
                Some(Open::Dict { dict, name, counts }) => {
                    put_once(dict, name, value)?;
                    if reader.after(b'}')? == After::Another {
                        *name = names.of(*py, reader.name()?);
                        if self.dollar == Dollar::Tags {
                            is_plain(name)?;
                        }
                        return Ok(None);
                    }
                    value = dict.clone().into_any();
                    *counts
                }
                Some(Open::Tagged(tagged)) => {
                    tagged.put(*py, value)?;
                    if reader.after(b'}')? == After::Another {
                        tagged.name = Some(names.of(*py, reader.name()?));
                        return Ok(None);
                    }
                    let Some(Open::Tagged(tagged)) = open.pop() else { return Ok(None) };
                    self.levels -= 1;
                    value = tagged.build(*py, self.missing, self.plans.get_or_insert_default())?;
                    continue;
                }
            };
            open.pop();
            self.levels -= usize::from(counts);
        }
    }

    /// Begins an object; returns it if it is empty.
    fn begin_object(&mut self) -> Result<Option<Bound<'py, PyAny>>, Fail> {
        self.reader.pass();
        let counts = self.deeper()?;
        if self.reader.passes(b'}')? {
            self.levels -= usize::from(counts);
            return Ok(Some(PyDict::new(self.py).into_any()));
        }
        let name = self.reader.name()?;
        if self.dollar == Dollar::Tags && name.starts_with('$') {
            let tag = form::tag(&name)?;
            if !counts {
                self.count()?;
            }
            self.open.push(Open::Tagged(OpenTag { tag, head: None, fields: None, name: None }));
            return Ok(None);
        }
        let (dict, name) = (PyDict::new(self.py), self.names.of(self.py, name));
        self.open.push(Open::Dict { dict, name, counts });
        Ok(None)
    }

    /// Increases the depth, unless the bracket belongs to a tag. Returns whether it did.
    fn deeper(&mut self) -> Result<bool, Fail> {
        let counts = match self.open.as_slice() {
            [.., Open::Tagged(_)] => false,
            [.., Open::Tagged(open), Open::List { .. }] => open.tag.name != "$dict",
            _ => true,
        };
        if counts {
            self.count()?;
        }
        Ok(counts)
    }

    fn count(&mut self) -> Result<(), Fail> {
        if self.levels == MAX_LEVELS {
            return Err(Fail::new(format!("it is nested deeper than {MAX_LEVELS} levels")));
        }
        self.levels += 1;
        Ok(())
    }

    fn word(
        &mut self,
        word: &'static str,
        value: Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>, Fail> {
        self.reader.word(word)?;
        Ok(value)
    }

    fn number(&mut self) -> Result<Bound<'py, PyAny>, Fail> {
        Ok(match self.reader.number()? {
            Number::Small(number) => PyInt::new(self.py, number).into_any(),
            Number::Float(number) => PyFloat::new(self.py, number).into_any(),
            // Python limits the number of digits.
            Number::Large(digits) => self.py.get_type::<PyInt>().call1((digits,))?,
        })
    }

    /// Returns the current place in the value.
    fn path(&self) -> Path {
        let starts = self.open.iter().filter_map(|open| match open {
            Open::List { start, .. } => Some(*start),
            _ => None,
        });
        // A list's elements end where those of the next list begin.
        let mut ends = starts.skip(1).chain([self.items.len()]);
        let steps = self.open.iter().filter_map(|open| match open {
            Open::List { start, .. } => Some(Step::Index(ends.next()? - start)),
            Open::Dict { name, .. } => Some(Step::Name(name.to_string_lossy().into_owned())),
            Open::Tagged(open) => {
                let name = open.name.as_ref()?.to_string_lossy().into_owned();
                (!name.starts_with('$')).then_some(Step::Name(name))
            }
        });
        Path(steps.collect())
    }
}

impl<'py> Names<'py> {
    /// Returns a name as a Python string; the previous object, if it is remembered.
    #[inline]
    fn of(&mut self, py: Python<'py>, name: Cow<'_, str>) -> Bound<'py, PyString> {
        let bytes = name.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
            return PyString::new(py, "");
        };
        let middle = bytes[bytes.len() / 2];
        let mix = usize::from(first) ^ usize::from(middle) << 1 ^ usize::from(last) << 2;
        let slot = &mut self.0[(mix ^ bytes.len() << 3) % NAMES];
        if let Some(known) = slot
            && known.to_str().is_ok_and(|known| known == name)
        {
            return known.clone();
        }
        slot.insert(PyString::new(py, &name)).clone()
    }
}

/// Returns an error if a name other than the first is a tag.
#[inline]
fn is_plain(name: &Bound<'_, PyString>) -> Result<(), Fail> {
    if !name.to_str()?.starts_with('$') {
        return Ok(());
    }
    let next = "a dict with such a name is written as pairs: {\"$dict\":[[name,value]]}";
    Err(Fail::new("a name that begins with `$` comes after others").next(next))
}

impl<'py> OpenTag<'py> {
    fn put(&mut self, py: Python<'py>, value: Bound<'py, PyAny>) -> Result<(), Fail> {
        match &self.name {
            None => self.head = Some(value),
            Some(name) => {
                put_once(self.fields.get_or_insert_with(|| PyDict::new(py)), name, value)?
            }
        }
        Ok(())
    }

    fn build(
        self,
        py: Python<'py>,
        missing: Missing,
        plans: &Rc<Plans<'py>>,
    ) -> Result<Bound<'py, PyAny>, Fail> {
        let head = self.head.unwrap_or_else(|| py.None().into_bound(py));
        let tagged =
            Tagged { tag: self.tag, head, fields: self.fields, missing, plans: Rc::clone(plans) };
        (tagged.tag.build)(&tagged)
    }
}

/// Adds an entry to an object. A name that occurs twice is an error.
#[inline]
fn put_once<'py>(
    dict: &Bound<'py, PyDict>,
    name: &Bound<'py, PyString>,
    value: Bound<'py, PyAny>,
) -> Result<(), Fail> {
    let before = dict.len();
    dict.set_item(name, value)?;
    match dict.len() > before {
        true => Ok(()),
        false => Err(Fail::new(format!("the name `{}` occurs twice", name.to_string_lossy()))),
    }
}
