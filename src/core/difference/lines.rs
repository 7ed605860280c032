//! Compares two texts line by line.

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices};

/// The maximum number of changed lines of one text that osdpl shows.
const MOST: usize = 20;
/// The maximum size of a comparison of two texts: the number of old lines times the number of new lines.
///
/// A larger comparison would take too long. For larger texts, `diff_lines` reports all lines between the first and the
/// last difference as changed.
const PAIRS: usize = 1 << 22;

/// Returns the removed (`-`) and the added (`+`) lines between the texts `before` and `after`.
///
/// If more than [`MOST`] lines change, the result contains only some of these lines, followed by a line that says how
/// many lines are left out. If the texts differ only in the newline at the end, the result is one line that says so.
pub(super) fn diff_lines(before: &str, after: &str) -> Vec<String> {
    let [old, new] = [before, after].map(|text| text.split_terminator('\n').collect::<Vec<_>>());
    let start = old.iter().zip(&new).take_while(|(left, right)| left == right).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(left, right)| left == right).count();
    let (old, new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let ops = if old.len().saturating_mul(new.len()) > PAIRS {
        vec![DiffOp::Replace { old_index: 0, old_len: old.len(), new_index: 0, new_len: new.len() }]
    } else {
        capture_diff_slices(Algorithm::Myers, old, new)
    };
    let changes = ops.iter().flat_map(|op| op.iter_changes(old, new));
    let all: Vec<_> = changes.filter(|change| change.tag() != ChangeTag::Equal).collect();
    if all.is_empty() {
        // All lines are equal, so the texts differ only in a newline after the last line.
        return vec!["(only the newline at the end differs)".to_owned()];
    }
    let count = |tag| all.iter().filter(|change| change.tag() == tag).count();
    let (mut removed, mut added) = shares(count(ChangeTag::Delete), count(ChangeTag::Insert));
    let mut shown = Vec::new();
    for change in &all {
        let (left, sign) = if change.tag() == ChangeTag::Delete { (&mut removed, '-') } else { (&mut added, '+') };
        if *left > 0 {
            *left -= 1;
            // Make a carriage return visible: it can be the only difference between two lines.
            shown.push(format!("{sign} {}", change.value().replace('\r', "\\r")));
        }
    }
    let more = all.len() - shown.len();
    if more > 0 {
        shown.push(format!("… and {more} more lines"));
    }
    shown
}

/// Returns the number of removed lines and the number of added lines that osdpl shows, together at most [`MOST`].
///
/// Half of [`MOST`] is for removed lines, and the other half for added lines. If one kind has fewer lines than its
/// half, the other kind gets the rest.
fn shares(removed: usize, added: usize) -> (usize, usize) {
    let shown = removed.min((MOST / 2).max(MOST.saturating_sub(added)));
    (shown, added.min(MOST - shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize, line: impl Fn(usize) -> String) -> String {
        (1..=count).map(|number| line(number) + "\n").collect()
    }

    #[test]
    fn leaves_out_common_lines() {
        assert_eq!(diff_lines("a\nb\nc\n", "a\nx\ny\nc\n"), ["- b", "+ x", "+ y"]);
        assert_eq!(diff_lines("a\n", "a\na\n"), ["+ a"]);
        assert_eq!(diff_lines("a\nb", "a\nb\n"), ["(only the newline at the end differs)"]);
        assert_eq!(diff_lines("a\r\nb\n", "a\nb\n"), ["- a\\r", "+ a"]);
        let before = numbered(60, |number| format!("line{number}"));
        let after = before.replace("line2\n", "other2\n").replace("line50\n", "other50\n");
        assert_eq!(diff_lines(&before, &after), ["- line2", "+ other2", "- line50", "+ other50"]);
    }

    #[test]
    fn counts_many_lines_and_shows_both_kinds() {
        let long = |word: &str| numbered(30, |number| format!("{word}{number}"));
        let shown = diff_lines("", &long("new"));
        assert_eq!((shown.len(), shown.last().map(String::as_str)), (MOST + 1, Some("… and 10 more lines")));
        let shown = diff_lines(&long("old"), &long("new"));
        let count = |sign: char| shown.iter().filter(|line| line.starts_with(sign)).count();
        assert_eq!((count('-'), count('+'), shown.last().map(String::as_str)), (10, 10, Some("… and 40 more lines")));
        let shown = diff_lines(&long("old"), &numbered(4, |number| format!("new{number}")));
        assert_eq!(shown.iter().filter(|line| line.starts_with('+')).count(), 4);
    }

    #[test]
    fn treats_very_long_texts_as_changed_completely() {
        let long = |word: &str| numbered(3000, |number| if number % 2 == 0 { "same".into() } else { word.to_owned() });
        assert_eq!(diff_lines(&long("a"), &long("b")).last().map(String::as_str), Some("… and 5978 more lines"));
    }
}
