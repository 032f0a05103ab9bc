//! Encodes values as JSON text, in a loop with its own stack: deep values don't use the machine's
//! stack, and an error can name its place in the value. It handles forms, and doesn't know which
//! type has which form.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use tiffany::ErrorKind;

use super::MAX_LEVELS;
use super::error::{CodecError, Fail};
use super::form::{Field, Form};
use super::kind::Kind;
use super::path::{Path, Step};
use super::stdlib::{self, BigInt};
use super::{hook, text};

/// Encodes a value as JSON text on one line; the text is the same in every process.
pub(crate) fn encode(value: &Bound<'_, PyAny>) -> Result<String, CodecError> {
    let mut encoder =
        Encoder { out: String::with_capacity(256), open: Vec::new(), kinds: HashMap::new() };
    match encoder.write(value) {
        Ok(()) => Ok(encoder.out),
        Err(fail) => Err(encoder.error(fail)),
    }
}

struct Encoder<'py> {
    out: String,
    /// The unfinished values, outermost first.
    open: Vec<Open<'py>>,
    /// The kinds of the classes so far, which are kept alive here.
    kinds: HashMap<*mut ffi::PyTypeObject, (Bound<'py, PyType>, Rc<Kind<'py>>)>,
}

/// A value whose parts are being written.
struct Open<'py> {
    value: Bound<'py, PyAny>,
    parts: Parts<'py>,
    /// The number of parts that were begun.
    begun: usize,
}

enum Parts<'py> {
    /// The parts of a list, which is read each time: it may change while the user's code runs.
    List,
    Dict(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>),
    /// The entries of a dict with keys other than strings; key and value are one part each.
    Pairs(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>),
    Items(Vec<Bound<'py, PyAny>>),
    /// The elements of a set, with the offsets of their texts.
    Unordered(Vec<Bound<'py, PyAny>>, Vec<usize>),
    Fields(&'static str, Vec<Field<'py>>),
    /// A single part that replaces the value.
    One(Bound<'py, PyAny>),
}

impl<'py> Encoder<'py> {
    fn write(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fail> {
        self.value(value)?;
        while let Some(open) = self.open.last_mut() {
            match open.next_part(&mut self.out)? {
                Some(part) => self.value(&part)?,
                None => _ = self.open.pop(),
            }
        }
        Ok(())
    }

    /// Writes a value, or its beginning.
    #[inline]
    fn value(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fail> {
        if let Ok(value) = value.cast_exact::<PyString>() {
            return match value.to_str() {
                Ok(plain) => {
                    text::write_str(&mut self.out, plain);
                    Ok(())
                }
                Err(_) => self.form(value, stdlib::odd_str(value)?),
            };
        }
        if let Ok(value) = value.cast_exact::<PyInt>() {
            return match value.extract::<i64>() {
                Ok(number) => {
                    text::write_i64(&mut self.out, number);
                    Ok(())
                }
                Err(_) => self.big_int(value),
            };
        }
        if let Ok(value) = value.cast_exact::<PyDict>() {
            return self.dict(value);
        }
        if value.is_exact_instance_of::<PyList>() {
            self.begin(value, Parts::List)?;
            self.out.push('[');
            return Ok(());
        }
        if let Ok(value) = value.cast_exact::<PyFloat>() {
            let number = value.value();
            if number.is_finite() {
                text::write_f64(&mut self.out, number);
                return Ok(());
            }
            return self.form(value, stdlib::odd_float(number));
        }
        if value.is_none() {
            self.out.push_str("null");
            return Ok(());
        }
        let py = value.py();
        // There are only two `bool` objects.
        if value.is(pyo3::types::PyBool::new(py, true)) {
            self.out.push_str("true");
            return Ok(());
        }
        if value.is(pyo3::types::PyBool::new(py, false)) {
            self.out.push_str("false");
            return Ok(());
        }
        self.tagged(value)
    }

    /// Writes the beginning of a value that JSON does not have.
    fn tagged(&mut self, value: &Bound<'py, PyAny>) -> Result<(), Fail> {
        if let Ok(tuple) = value.cast_exact::<PyTuple>()
            && !hook::in_use()
        {
            return self.form(value, stdlib::tuple(tuple));
        }
        let class = value.get_type();
        let kind = match self.kinds.get(&class.as_type_ptr()) {
            Some((_, kind)) => Rc::clone(kind),
            None => {
                let kind = Rc::new(Kind::of(&class)?);
                self.kinds.insert(class.as_type_ptr(), (class, Rc::clone(&kind)));
                kind
            }
        };
        let form = kind.form(value)?;
        self.form(value, form)
    }

    fn form(&mut self, value: &Bound<'py, PyAny>, form: Form<'py>) -> Result<(), Fail> {
        let (tag, parts) = match form {
            Form::Text(tag, content) => {
                self.tag(tag);
                text::write_str(&mut self.out, &content);
                self.out.push('}');
                return Ok(());
            }
            Form::Value(tag, part) => (tag, Parts::One(part)),
            Form::Items(tag, parts) => (tag, Parts::Items(parts)),
            Form::Unordered(tag, parts) => (tag, Parts::Unordered(parts, Vec::new())),
            Form::Fields(tag, head, parts) => {
                self.begin(value, Parts::Fields(tag, parts))?;
                self.tag(tag);
                text::write_str(&mut self.out, &head);
                return Ok(());
            }
        };
        self.begin(value, parts)?;
        self.tag(tag);
        Ok(())
    }

    fn tag(&mut self, tag: &str) {
        self.out.push_str("{\"");
        self.out.push_str(tag);
        self.out.push_str("\":");
    }

    fn big_int(&mut self, value: &Bound<'py, PyInt>) -> Result<(), Fail> {
        match stdlib::big_int(value)? {
            BigInt::Digits(digits) => self.out.push_str(digits.to_str()?),
            BigInt::Form(form) => self.form(value, form)?,
        }
        Ok(())
    }

    fn dict(&mut self, value: &Bound<'py, PyDict>) -> Result<(), Fail> {
        let mut plain = true;
        let mut pairs = Vec::with_capacity(value.len());
        // No user code runs in the meantime, so the dict doesn't change.
        for (key, entry) in value {
            plain = plain && is_plain(&key);
            pairs.push((key, entry));
        }
        match plain {
            true => {
                self.begin(value, Parts::Dict(pairs))?;
                self.out.push('{');
            }
            false => {
                self.begin(value, Parts::Pairs(pairs))?;
                self.tag("$dict");
                self.out.push('[');
            }
        }
        Ok(())
    }

    fn begin(&mut self, value: &Bound<'py, PyAny>, parts: Parts<'py>) -> Result<(), Fail> {
        if self.open.len() == MAX_LEVELS {
            let what = format!("it is nested deeper than {MAX_LEVELS} levels");
            return Err(Fail::new(what).next("make it flatter: a list instead of a chain"));
        }
        self.open.push(Open { value: value.clone(), parts, begun: 0 });
        Ok(())
    }

    /// Returns an error with the current place.
    fn error(&self, fail: Fail) -> CodecError {
        if self.open.len() == MAX_LEVELS
            && let Some(at) = self.first_inside_itself()
        {
            let path = self.path(at);
            let fail = Fail::new("the value contains itself")
                .next("break the cycle: keep a name or a number instead of the thing itself");
            return CodecError::at(ErrorKind::Unserializable, &path, fail);
        }
        CodecError::at(ErrorKind::Unserializable, &self.path(self.open.len()), fail)
    }

    /// Returns the first of the open values that contains itself.
    fn first_inside_itself(&self) -> Option<usize> {
        let mut seen = HashMap::new();
        self.open
            .iter()
            .enumerate()
            .find_map(|(at, open)| seen.insert(open.value.as_ptr(), at).is_some().then_some(at))
    }

    fn path(&self, levels: usize) -> Path {
        Path(self.open[..levels].iter().filter_map(Open::step).collect())
    }
}

/// Whether a key can be the name of an entry.
#[inline]
fn is_plain(key: &Bound<'_, PyAny>) -> bool {
    let Ok(key) = key.cast_exact::<PyString>() else { return false };
    key.to_str().is_ok_and(|key| !key.starts_with('$'))
}

impl<'py> Open<'py> {
    /// Writes the separator before the next part, and returns that part; or writes the end of the
    /// value.
    #[inline]
    fn next_part(&mut self, out: &mut String) -> Result<Option<Bound<'py, PyAny>>, Fail> {
        let at = self.begun;
        self.begun += 1;
        let separate = |out: &mut String| {
            if at > 0 {
                out.push(',');
            }
        };
        let part = match &mut self.parts {
            Parts::List => {
                let list = self.value.cast::<PyList>()?;
                if at >= list.len() {
                    out.push(']');
                    return Ok(None);
                }
                separate(out);
                list.get_item(at)?
            }
            Parts::Dict(pairs) => {
                let Some((key, value)) = pairs.get(at) else {
                    out.push('}');
                    return Ok(None);
                };
                separate(out);
                text::write_str(out, key.cast::<PyString>()?.to_str()?);
                out.push(':');
                value.clone()
            }
            Parts::Pairs(pairs) => {
                if at > 0 && at.is_multiple_of(2) {
                    out.push(']');
                }
                let Some((key, value)) = pairs.get(at / 2) else {
                    out.push_str("]}");
                    return Ok(None);
                };
                separate(out);
                if at.is_multiple_of(2) {
                    out.push('[');
                    key.clone()
                } else {
                    value.clone()
                }
            }
            Parts::Items(items) => {
                out.push(if at == 0 { '[' } else { ',' });
                let Some(item) = items.get(at) else {
                    // Removes the surplus comma.
                    if at > 0 {
                        out.pop();
                    }
                    out.push_str("]}");
                    return Ok(None);
                };
                item.clone()
            }
            Parts::Unordered(items, starts) => {
                let Some(item) = items.get(at) else {
                    sort(out, starts);
                    return Ok(None);
                };
                starts.push(out.len());
                item.clone()
            }
            Parts::Fields(_, fields) => {
                let Some((name, value)) = fields.get(at) else {
                    out.push('}');
                    return Ok(None);
                };
                out.push(',');
                text::write_str(out, name);
                out.push(':');
                value.clone()
            }
            Parts::One(value) if at == 0 => value.clone(),
            Parts::One(_) => {
                out.push('}');
                return Ok(None);
            }
        };
        Ok(Some(part))
    }

    /// Returns the step from this value to the part that was begun last.
    fn step(&self) -> Option<Step> {
        let at = self.begun.saturating_sub(1);
        Some(match &self.parts {
            Parts::List | Parts::Items(_) => Step::Index(at),
            Parts::Dict(pairs) => {
                let key = pairs.get(at)?.0.cast::<PyString>().ok()?;
                Step::Name(key.to_string_lossy().into_owned())
            }
            Parts::Pairs(_) if at.is_multiple_of(2) => Step::KeyAt(at / 2),
            Parts::Pairs(pairs) => {
                let key = pairs.get(at / 2)?.0.repr();
                Step::Key(key.map_or_else(|_| "?".into(), |key| key.to_string_lossy().into_owned()))
            }
            Parts::Unordered(..) => Step::Element,
            // These names are internal, and not part of the path.
            Parts::Fields(hook::CUSTOM, _) => return None,
            Parts::Fields(_, fields) => {
                let name = &fields.get(at)?.0;
                (!name.starts_with('$')).then(|| Step::Name(name.to_string()))?
            }
            Parts::One(_) => return None,
        })
    }
}

/// Sorts the texts of a set's elements, which begin at these offsets.
fn sort(out: &mut String, starts: &[usize]) {
    let begin = starts.first().copied().unwrap_or(out.len());
    let texts = out.split_off(begin);
    let ends = starts.iter().skip(1).copied().chain([begin + texts.len()]);
    let mut elements: Vec<&str> =
        starts.iter().zip(ends).map(|(start, end)| &texts[start - begin..end - begin]).collect();
    elements.sort_unstable();
    out.push('[');
    out.push_str(&elements.join(","));
    out.push_str("]}");
}
