//! Reads the Python tests in `tests/python/semantics`, with the words that their docstrings quote,
//! for the table of rows. It reads lines, and knows of Python only where a function and its
//! docstring begin.

/// Returns the tests of one file in order, each with its name and docstring.
pub(crate) fn read(source: &str) -> Vec<(String, String)> {
    let mut tests = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("def test_").and_then(|rest| rest.split('(').next())
        else {
            continue;
        };
        // The signature may span several lines.
        let mut end = line;
        while !end.trim_end().ends_with(':') {
            match lines.next() {
                Some(next) => end = next,
                None => break,
            }
        }
        tests.push((format!("test_{name}"), docstring(&mut lines)));
    }
    tests
}

/// Returns the docstring at the beginning of a function's body, on one line.
fn docstring<'a>(lines: &mut impl Iterator<Item = &'a str>) -> String {
    let Some(inside) = lines.next().and_then(|line| line.trim().strip_prefix(MARK)) else {
        return String::new();
    };
    let mut words = Vec::new();
    let mut line = inside;
    loop {
        if let Some((last, _)) = line.split_once(MARK) {
            words.push(last);
            break;
        }
        words.push(line);
        match lines.next() {
            Some(next) => line = next,
            None => break,
        }
    }
    words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

const MARK: &str = "\"\"\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_with_their_docstrings() {
        let source = "
@both
def test_one() -> None:
    \"\"\" \"in order\": the first.\"\"\"

def helper() -> None:
    \"\"\" \"no row\" \"\"\"

class Thing:
    def test_method(self) -> None:
        pass

@both
def test_two(
    capsys: object,
) -> None:
    \"\"\" \"a quotation
    over lines\" \"\"\"
    text = \"\"\"no docstring\"\"\"

def test_bare() -> None:
    assert True
";
        let expected = [
            ("test_one", "\"in order\": the first."),
            ("test_two", "\"a quotation over lines\""),
            ("test_bare", ""),
        ];
        let read = read(source);
        let read: Vec<(&str, &str)> = read.iter().map(|(name, doc)| (&**name, &**doc)).collect();
        assert_eq!(read, expected);
    }
}
