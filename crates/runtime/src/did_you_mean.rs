//! Suggestions for mistyped names. It knows nothing of what the names are for.

/// The candidate that is most similar to the typed name, if one is similar enough.
pub fn did_you_mean<'a>(
    typed: &str,
    names: impl IntoIterator<Item = impl AsRef<str> + 'a>,
) -> Option<String> {
    let typed: Vec<char> = typed.to_lowercase().chars().collect();
    // One letter in three may be wrong.
    let most = typed.len().div_ceil(3);
    let far = |name: &str| distance(&typed, &name.to_lowercase().chars().collect::<Vec<_>>());
    let names = names.into_iter().map(|name| (far(name.as_ref()), name.as_ref().to_owned()));
    names.filter(|(far, _)| *far <= most).min().map(|(_, name)| name)
}

/// The number of letters that must be inserted, removed, changed or swapped with the next one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let changed = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = changed.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use crate::did_you_mean::did_you_mean;

    #[test]
    fn what_is_nearly_right_is_guessed_and_what_is_not_is_not() {
        let names = ["order", "refund", "nap-1", "nap-2"];
        for (typed, meant) in [
            ("ordre", Some("order")),
            ("REFUNDS", Some("refund")),
            ("nap1", Some("nap-1")),
            ("n", None),
            ("breakfast", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(typed, names).as_deref(), meant, "{typed}");
        }
    }
}
