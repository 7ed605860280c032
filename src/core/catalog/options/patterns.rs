//! The patterns (with `*`) for the names of sections in the configuration files of services.

/// The maximum number of patterns in one field of an options file. The limit exists because users can provide such
/// files.
pub(super) const MAX_PATTERNS: usize = 50;

/// The maximum length of a pattern, and of a name that can match a pattern, in bytes. Services have no sections with
/// longer names.
pub(super) const MAX_NAME: usize = 100;

/// The maximum number of sections in a file.
pub(super) const MAX_SECTIONS: usize = 1000;

/// Whether a pattern matches a whole name. A `*` in the pattern stands for any string, including the empty string.
///
/// Users provide the pattern and the name, so the run time must grow only linearly with their lengths.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    if name.len() > MAX_NAME {
        return false;
    }
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == name };
    let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut open) = name.strip_prefix(prefix).and_then(|name| name.strip_suffix(suffix)) else { return false };
    for part in middle.split('*') {
        let Some((_, after)) = open.split_once(part) else { return false };
        open = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("auth", "auth", true),
            ("auth", "auth2", false),
            ("*", "", true),
            ("*", "any", true),
            ("vif_plug_*_privileged", "vif_plug_ovs_privileged", true),
            ("vif_plug_*_privileged", "vif_plug_privileged", false),
            ("*fabric*", "cisco_fabric_1", true),
            ("*fabric*", "fabrc", false),
            ("a*b*c*d", "axcxbxcxd", true),
            ("a*b*c*d", "axcxbxd", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(!matches("*", &"x".repeat(MAX_NAME + 1)));
    }
}
