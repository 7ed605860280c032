//! What helm's last words mean.

/// Why helm failed, as far as its words tell. The release record is asked first; this explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// None of the others.
    Other,
}

/// What `said` (scrubbed stderr) means.
pub fn classify(_said: &str) -> Failure {
    Failure::Other
}

/// The essence of `said`.
pub fn condense(said: &str) -> String {
    said.to_owned()
}
