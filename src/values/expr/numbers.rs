//! Lists of numbers, as nova has them for processors (`nova/virt/hardware.py`, `parse_cpu_spec`): `4-31,^8`.

use std::collections::BTreeSet;

/// More than any host has; what names more is no list of processors.
const MOST: u32 = 8192;

/// Whether two lists have a number in common; `false` where either is none, because that is another mistake.
pub(super) fn meet(one: &str, other: &str) -> bool {
    let both = numbers(one).zip(numbers(other));
    both.is_some_and(|(one, other)| !one.is_disjoint(&other))
}

/// Whether a text is such a list.
pub(super) fn are(text: &str) -> bool {
    numbers(text).is_some_and(|numbers| !numbers.is_empty())
}

/// The numbers of a list; `^` takes away.
fn numbers(text: &str) -> Option<BTreeSet<u32>> {
    let (mut named, mut without) = (BTreeSet::new(), BTreeSet::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (part, into) = part.strip_prefix('^').map_or((part, &mut named), |part| (part, &mut without));
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        into.extend(first..=last);
    }
    Some(&named - &without)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_meet_where_both_name_one() {
        assert!(meet("4-31", "2,3,31") && meet("1", "0-1") && meet("0-7,^1-2", "3"));
        assert!(!meet("4-31", "2,3") && !meet("4-31,^8", "8") && !meet("^8,4-31", "8"));
        assert!(are("4-31,^8,") && are("3") && !are("31-4") && !are("0-9000") && !are("3,^3") && !are(""));
        assert!(!meet("4--31", "4") && !meet("x", "4") && !meet("0-4294967295", "4") && !meet("", "4"));
    }
}
