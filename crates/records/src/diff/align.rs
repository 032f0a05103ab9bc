//! Pairs the calls of a task in one run with the calls of the same task in another. It knows only
//! numbers.

use super::trace::CallSeen;

/// The number of calls to look ahead for one that both runs have.
const WINDOW: usize = 64;

/// The indices of two calls that correspond; only one of them if the other run has no such call.
pub(super) type Pair = (Option<usize>, Option<usize>);

/// Visits the calls of a task in both runs, in order: the k-th with the k-th, unless one run has
/// additional calls in between.
pub(super) fn align(a: &[CallSeen], b: &[CallSeen], mut each: impl FnMut(Pair)) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (left, right) = (&a[i..], &b[j..]);
        let (only_a, only_b) = match (left.first(), right.first()) {
            (Some(x), Some(y)) if x.kind == y.kind => (0, 0),
            (Some(_), Some(_)) => meet(left, right).unwrap_or_default(),
            (None, _) => (0, right.len()),
            (_, None) => (left.len(), 0),
        };
        (i..i + only_a).for_each(|at| each((Some(at), None)));
        (j..j + only_b).for_each(|at| each((None, Some(at))));
        (i, j) = (i + only_a, j + only_b);
        if i < a.len() && j < b.len() {
            each((Some(i), Some(j)));
            (i, j) = (i + 1, j + 1);
        }
    }
}

/// Returns how many calls to skip in each run until both make the same kind of call, with the
/// smallest sum.
fn meet(a: &[CallSeen], b: &[CallSeen]) -> Option<(usize, usize)> {
    let (most_a, most_b) = (a.len().min(WINDOW), b.len().min(WINDOW));
    (1..most_a + most_b).find_map(|sum| {
        let from = sum.saturating_sub(most_b - 1);
        let to = sum.min(most_a - 1);
        (from..=to).map(|x| (x, sum - x)).find(|(x, y)| a[*x].kind == b[*y].kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(kinds: &str) -> Vec<CallSeen> {
        kinds.bytes().map(|kind| CallSeen { kind: kind.into(), ..CallSeen::default() }).collect()
    }

    /// Formats both sides as columns, with `-` for a missing call.
    fn columns(a: &str, b: &str) -> (String, String) {
        let (mut left, mut right) = (String::new(), String::new());
        let letter =
            |text: &str, at: Option<usize>| at.map_or('-', |at| text.as_bytes()[at] as char);
        align(&calls(a), &calls(b), |(x, y)| {
            left.push(letter(a, x));
            right.push(letter(b, y));
        });
        (left, right)
    }

    #[test]
    fn additional_calls_of_one_side_are_unpaired() {
        for (a, b, left, right) in [
            ("", "", "", ""),
            ("abc", "abc", "abc", "abc"),
            ("abc", "ac", "abc", "a-c"),
            ("ac", "abbc", "a--c", "abbc"),
            ("abc", "axc", "ab-c", "a-xc"),
            ("abc", "abcd", "abc-", "abcd"),
            ("abc", "xyz", "abc", "xyz"),
            ("", "ab", "--", "ab"),
            ("aaa", "aa", "aaa", "aa-"),
        ] {
            assert_eq!(columns(a, b), (left.into(), right.into()), "{a} against {b}");
        }
    }
}
