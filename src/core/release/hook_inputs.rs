//! Defines the value of the record label `osdpl.dev/hooks`. The label contains a digest of the inputs that the hooks of
//! a revision may read. An upgrade that does not change these inputs can skip the hooks, because the hooks would only
//! repeat their work.

use std::fmt;

/// The digest of the inputs that the hooks of a revision may read, and the number of the revision.
///
/// `Display` writes the value of [`HOOKS_LABEL`](super::HOOKS_LABEL), and [`HookInputs::parse`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookInputs {
    /// The digest of the inputs that a hook may read: the chart, the release's name, helm's flags, and some of the
    /// values. It has 16 hexadecimal digits.
    pub digest: String,
    /// The number of the revision for which osdpl wrote the label.
    pub revision: u32,
}

impl HookInputs {
    /// Parses the value of `HOOKS_LABEL`; returns `None` if the value does not have the form `<digest>-v<revision>`.
    pub fn parse(label: &str) -> Option<Self> {
        let (digest, revision) = label.split_once("-v")?;
        Some(Self { digest: digest.to_owned(), revision: revision.parse().ok()? })
    }

    /// Returns the digest if osdpl wrote the label for `revision`; `None` if helm copied the label from an earlier
    /// revision.
    ///
    /// helm copies the label if somebody else, or an older version of osdpl, makes a revision. The hooks of that
    /// revision may have run with inputs that do not match the copied digest.
    pub(crate) fn of_revision(&self, revision: u32) -> Option<&str> {
        (self.revision == revision).then_some(self.digest.as_str())
    }
}

impl fmt::Display for HookInputs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-v{}", self.digest, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_valid_for_its_own_revision_only() {
        let inputs = HookInputs { digest: "0a1b".into(), revision: 7 };
        let read = HookInputs::parse(&inputs.to_string()).unwrap();
        assert_eq!(read, inputs);
        assert_eq!((read.of_revision(7), read.of_revision(8)), (Some("0a1b"), None));
        assert_eq!((HookInputs::parse("0a1b"), HookInputs::parse("0a1b-vx")), (None, None));
    }
}
