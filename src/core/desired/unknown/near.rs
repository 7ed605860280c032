//! Slips of the pen: where charts take any key, only one that is most likely meant to be another is worth a word.

/// The fewest letters of a name in which one that is another, more or less is a slip: `ovs` and `ovn` are two names.
const LETTERS: usize = 4;

/// The known name that `written` is a slip of: one letter is missing, too much or another, or two neighbours changed places. Numbers are no slips
/// (`rbd1`, `rbd2`), nor are names of rules and pipelines (`volume:get`), nor one and many (`rabbit_quorum_queue`, as `oslo.messaging` has it, and charts
/// `rabbit_quorum_queues`).
pub fn slip<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().find(|known| !written.contains(':') && is_slip(written, known))
}

fn is_slip(written: &str, known: &str) -> bool {
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
    fn a_slip_is_one_letter_or_two_that_changed_places() {
        for (written, known) in [
            ("prot", "port"),
            ("confg", "config"),
            ("apii", "api"),
            ("qmu", "qemu"),
            ("DEFALT", "DEFAULT"),
            ("max_filez", "max_files"),
            ("enabeld", "enabled"),
        ] {
            assert_eq!(slip(written, ["other", known]), Some(known), "{written}");
        }
    }

    #[test]
    fn other_names_are_no_slips() {
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
            assert_eq!(slip(written, [known]), None, "{written}");
        }
    }
}
