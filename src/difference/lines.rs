//! Texts of several lines, side by side.

/// The most lines that are shown of one text.
const MOST: usize = 20;

/// What goes (`-`) and comes (`+`) between the first and the last line that differ; what is more than a few is counted.
pub fn between(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(left, right)| left == right).count();
    let most = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(left, right)| left == right).count();
    let of = |lines: &[&str], sign: char| -> Vec<String> {
        lines[start..lines.len() - end].iter().map(|line| format!("{sign} {line}")).collect()
    };
    let mut shown = [of(&old, '-'), of(&new, '+')].concat();
    if shown.is_empty() {
        // Only the end of the last line is another.
        return vec!["(the newline at the end)".to_owned()];
    }
    let more = shown.len().saturating_sub(MOST);
    shown.truncate(MOST);
    if more > 0 {
        shown.push(format!("… and {more} lines more"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_begin_and_end_with_is_left_out() {
        assert_eq!(between("a\nb\nc\n", "a\nx\ny\nc\n"), ["- b", "+ x", "+ y"]);
        assert_eq!(between("a\n", "a\na\n"), ["+ a"]);
        assert_eq!(between("a\nb", "a\nb\n"), ["(the newline at the end)"]);
    }

    #[test]
    fn many_lines_are_counted() {
        let long: String = (0..30).flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
        let shown = between("", &long);
        assert_eq!((shown.len(), shown.last().map(String::as_str)), (MOST + 1, Some("… and 10 lines more")));
    }
}
