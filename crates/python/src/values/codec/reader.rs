//! Reads JSON text piece by piece, with exactly the grammar of RFC 8259. It doesn't depend on
//! Python.

use std::borrow::Cow;

use super::text;

/// A position in a text.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// A syntax error, with its byte offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadText {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// A number. Large whole numbers stay text.
#[derive(Debug, PartialEq)]
pub(super) enum Number<'t> {
    Small(i64),
    Large(&'t str),
    Float(f64),
}

/// The token after an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    Another,
    End,
}

const ENDS: &str = "the text ends too early";

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader { text, at: 0 }
    }

    fn bad<T>(&self, what: &'static str) -> Result<T, BadText> {
        let what = if self.at >= self.text.len() { ENDS } else { what };
        Err(BadText { at: self.at, what })
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_white(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    /// Returns the first byte of the next token without consuming it.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<u8, BadText> {
        self.skip_white();
        match self.byte() {
            Some(byte) => Ok(byte),
            None => self.bad(ENDS),
        }
    }

    /// Consumes the byte that was peeked.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.at += 1;
    }

    /// Consumes the next byte if it is this one. Returns whether it was.
    #[inline]
    pub(super) fn passes(&mut self, byte: u8) -> Result<bool, BadText> {
        let found = self.peek()? == byte;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Reads a word such as `null`.
    #[inline]
    pub(super) fn word(&mut self, word: &'static str) -> Result<(), BadText> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        self.bad("this is not a JSON value")
    }

    /// Reads the comma before the next element, or the closing bracket.
    #[inline]
    pub(super) fn after(&mut self, end: u8) -> Result<After, BadText> {
        let byte = self.peek()?;
        let after = match byte {
            b',' => After::Another,
            _ if byte == end => After::End,
            _ if end == b']' => return self.bad("a comma or `]` is missing"),
            _ => return self.bad("a comma or `}` is missing"),
        };
        self.at += 1;
        Ok(after)
    }

    /// Reads a name with its colon.
    #[inline]
    pub(super) fn name(&mut self) -> Result<Cow<'t, str>, BadText> {
        if self.peek()? != b'"' {
            return self.bad("a name in quotes is missing");
        }
        let name = self.string()?;
        match self.passes(b':')? {
            true => Ok(name),
            false => self.bad("a colon is missing"),
        }
    }

    /// Returns an error unless the text ends here.
    pub(super) fn end(&mut self) -> Result<(), BadText> {
        self.skip_white();
        match self.byte() {
            None => Ok(()),
            Some(_) => self.bad("something stands after the value"),
        }
    }

    /// Reads a string, whose opening quote was peeked.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Cow<'t, str>, BadText> {
        self.at += 1;
        let start = self.at;
        self.at += text::plain_prefix(&self.text.as_bytes()[start..]);
        match self.byte() {
            Some(b'"') => {
                let plain = &self.text[start..self.at];
                self.at += 1;
                Ok(Cow::Borrowed(plain))
            }
            _ => self.string_with_escapes(start),
        }
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<Cow<'t, str>, BadText> {
        let mut content = self.text[start..self.at].to_owned();
        loop {
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(content));
                }
                Some(b'\\') => {
                    self.at += 1;
                    content.push(self.escape()?);
                }
                Some(_) => return self.bad("a control character in a string is not escaped"),
                None => return self.bad(ENDS),
            }
            let plain = text::plain_prefix(&self.text.as_bytes()[self.at..]);
            content.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
        }
    }

    fn escape(&mut self) -> Result<char, BadText> {
        let c = match self.byte() {
            Some(c @ (b'"' | b'\\' | b'/')) => c as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return self.bad("an escape that JSON does not have"),
        };
        self.at += 1;
        Ok(c)
    }

    /// Reads what follows `\u`: four digits, or a surrogate pair.
    fn unicode(&mut self) -> Result<char, BadText> {
        let begin = self.at;
        let first = self.unit()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if first < 0xdc00 && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second)
                && let Some(c) =
                    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(c);
            }
        }
        Err(BadText { at: begin, what: "one half of a surrogate pair is alone" })
    }

    fn unit(&mut self) -> Result<u32, BadText> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let mut unit = 0;
        for &digit in digits.unwrap_or(b"?") {
            match (digit as char).to_digit(16) {
                Some(digit) => unit = unit << 4 | digit,
                None => return self.bad("an escape has four hex digits"),
            }
        }
        self.at += 4;
        Ok(unit)
    }

    /// Reads a number, whose first byte was peeked.
    #[inline]
    pub(super) fn number(&mut self) -> Result<Number<'t>, BadText> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        let first = self.byte();
        let digits = self.digits()?;
        if first == Some(b'0') && digits > 1 {
            return Err(BadText { at: start, what: "a number begins with a zero" });
        }
        if !matches!(self.byte(), Some(b'.' | b'e' | b'E')) {
            let text = &self.text[start..self.at];
            // A number of eighteen digits always fits.
            return Ok(match digits {
                ..=18 => Number::Small(text.parse().unwrap_or_default()),
                _ => Number::Large(text),
            });
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        let number: f64 = self.text[start..self.at].parse().unwrap_or(f64::INFINITY);
        match number.is_finite() {
            true => Ok(Number::Float(number)),
            false => Err(BadText { at: start, what: "a number is too large" }),
        }
    }

    /// Reads one or more digits. Returns their number.
    #[inline]
    fn digits(&mut self) -> Result<usize, BadText> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        if count == 0 {
            return self.bad("this is not a JSON value");
        }
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_the_book() {
        let read = |text| Reader::new(text).number();
        assert_eq!(read("-0"), Ok(Number::Small(0)));
        assert_eq!(read("999999999999999999"), Ok(Number::Small(999_999_999_999_999_999)));
        assert_eq!(read("9223372036854775808"), Ok(Number::Large("9223372036854775808")));
        assert_eq!(read("1.5e-3"), Ok(Number::Float(0.0015)));
        for bad in ["", "-", "+1", "01", "-01", ".5", "1.", "1.e3", "1e", "1e+", "1e999", "NaN"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn strings_are_read_by_the_book() {
        let read = |text| Reader::new(text).string().map(Cow::into_owned);
        assert_eq!(
            read(r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#).unwrap(),
            "a\"\\/\u{8}\u{c}\n\r\té😀é"
        );
        for bad in [r#"""#, r#""a"#, r#""\x""#, r#""\u12"#, r#""\u12g4""#, r#""\ud83d""#, "\"\n\""]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        for lone in [r#""\ude00\ud83d""#, r#""\ud83d\u0041""#, r#""\ud83dx""#] {
            assert_eq!(read(lone).unwrap_err().what, "one half of a surrogate pair is alone");
        }
    }
}
