//! Parses lists of CPU numbers in the form that Nova accepts (`nova/virt/hardware.py`, `parse_cpu_spec`): `4-31,^8`.

/// All CPU numbers in a list must be lower than this limit. No host has so many CPUs.
const LIMIT: u16 = 8192;

/// Whether two lists of CPU numbers have a number in common.
///
/// Returns `false` if a list is invalid, because another check reports invalid lists.
pub(super) fn have_common_number(one: &str, other: &str) -> bool {
    let both = parse(one).zip(parse(other));
    both.is_some_and(|(one, other)| one.into_iter().zip(other).any(|(one, other)| one && other))
}

/// Whether a string is a list of CPU numbers that contains at least one number after exclusions such as `^8`.
pub(super) fn is_number_list(text: &str) -> bool {
    parse(text).is_some_and(|numbers| numbers.contains(&true))
}

/// Returns the number of evaluation steps to count for parsing the list in `text`.
pub(super) fn steps(text: &str) -> usize {
    64 + 8 * text.matches(',').count()
}

/// Parses a list of CPU numbers and ranges. Leaves out the numbers that `^` excludes. Returns `None` if the list is
/// invalid.
///
/// The result has one flag for each number below [`LIMIT`]: whether the list contains the number.
fn parse(text: &str) -> Option<Vec<bool>> {
    let mut included = vec![false; LIMIT.into()];
    let mut excluded = included.clone();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (part, into) = part.strip_prefix('^').map_or((part, &mut included), |part| (part, &mut excluded));
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= LIMIT.into() {
            return None;
        }
        into[usize::try_from(first).ok()?..=usize::try_from(last).ok()?].fill(true);
    }
    Some(included.into_iter().zip(excluded).map(|(included, excluded)| included && !excluded).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_common_numbers() {
        assert!(
            have_common_number("4-31", "2,3,31")
                && have_common_number("1", "0-1")
                && have_common_number("0-7,^1-2", "3")
        );
        assert!(
            !have_common_number("4-31", "2,3")
                && !have_common_number("4-31,^8", "8")
                && !have_common_number("^8,4-31", "8")
        );
        assert!(
            is_number_list("4-31,^8,")
                && is_number_list("3")
                && !is_number_list("31-4")
                && !is_number_list("0-9000")
                && !is_number_list("3,^3")
                && !is_number_list("")
        );
        assert!(
            !have_common_number("4--31", "4")
                && !have_common_number("x", "4")
                && !have_common_number("0-4294967295", "4")
                && !have_common_number("", "4")
        );
    }
}
