//! Which call of a task stands against which call of the same task in another run. It knows only numbers.

use super::trace::CallSeen;

/// How far is looked ahead for a call that both have.
const WINDOW: usize = 64;

/// Two calls that stand against each other, by their places; one of them alone, if the other run has none like it.
pub(super) type Pair = (Option<usize>, Option<usize>);

/// Goes through the calls of a task on both sides, in order: the k-th against the k-th, unless one side has calls in
/// between that the other lacks.
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

/// How many calls to pass over on each side until both make the same one, as few as possible.
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

    /// Both sides as columns, with `-` where one has nothing.
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
    fn what_one_side_has_in_between_stands_alone() {
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
