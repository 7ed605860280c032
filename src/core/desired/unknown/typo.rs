//! Finds names that are likely typos of known keys.
//!
//! In a map where users choose the keys, osdpl reports a key only if it is most likely a misspelling of a known key.

/// The number of characters that the longer of two names must have at least, so that osdpl considers one name a typo of
/// the other. If one letter is wrong, the names must have more characters than this: short names that differ in one
/// letter, such as `ovs` and `ovn`, are usually different names.
const LETTERS: usize = 4;

/// Returns the known name that the user most likely meant by `written`; `None` if `written` is no typo of a known name.
///
/// A typo is one missing, additional or wrong letter, or two swapped neighbouring letters. Two names that differ in a
/// digit (`rbd1`, `rbd2`) are different names, and so are a singular and its plural (`rabbit_quorum_queue` in
/// `oslo.messaging`, `rabbit_quorum_queues` in charts). A name with a colon is never a typo: such names are policy
/// rules, for example `volume:get`.
pub(super) fn find_typo<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().find(|known| !written.contains(':') && differs_by_one_typo(written, known))
}

/// Whether `written` differs from the known name by exactly one typo.
fn differs_by_one_typo(written: &str, known: &str) -> bool {
    let (written, known): (Vec<char>, Vec<char>) = (written.chars().collect(), known.chars().collect());
    let same = written.iter().zip(&known).take_while(|(one, two)| one == two).count();
    let (one, two) = (&written[same..], &known[same..]);
    let same = one.iter().rev().zip(two.iter().rev()).take_while(|(one, two)| one == two).count();
    let (one, two) = (&one[..one.len() - same], &two[..two.len() - same]);
    let is_long = written.len().max(known.len()) >= LETTERS;
    match (one, two) {
        (['s'], []) | ([], ['s']) if same == 0 => false,
        ([letter], []) | ([], [letter]) => is_long && letter.is_alphabetic(),
        ([one, other], [two, another]) => one == another && other == two && known.len() >= LETTERS,
        ([one], [two]) => written.len() > LETTERS && one.is_alphabetic() && two.is_alphabetic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_one_letter_or_two_swapped_ones() {
        for (written, known) in [
            ("prot", "port"),
            ("confg", "config"),
            ("apii", "api"),
            ("qmu", "qemu"),
            ("DEFALT", "DEFAULT"),
            ("max_filez", "max_files"),
            ("enabeld", "enabled"),
        ] {
            assert_eq!(find_typo(written, ["other", known]), Some(known), "{written}");
        }
    }

    #[test]
    fn similar_names_are_not_typos() {
        for (written, known) in [
            ("ovs", "ovn"),
            ("api", "app"),
            ("rbd1", "rbd2"),
            ("cell", "cell0"),
            ("volume:get", "volume:set"),
            ("rpc_workers", "api_workers"),
            ("agent", "agents"),
            ("agents", "agent"),
            ("agent", "agent"),
            ("", "a"),
        ] {
            assert_eq!(find_typo(written, [known]), None, "{written}");
        }
    }
}
