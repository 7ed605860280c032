//! Defines the reasons why the evaluation of an expression can fail.

use super::Work;

/// Why the evaluation of an expression failed. The messages contain no values of variables, because these values may be
/// secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("there is no key `{0}`")]
    NoKey(String),
    #[error("the reference to the Secret needs the fields `name` and `key`; `{0}` is missing or is not a string")]
    Reference(String),
    #[error("`{0}` does not exist")]
    Undeclared(String),
    #[error("an operator does not support the types of its operands")]
    Operands,
    #[error("function `{0}` failed")]
    Function(&'static str),
    #[error("an index is out of the list's bounds")]
    Index,
    #[error("a function does not support its arguments, or an index, key or literal has an unsupported type")]
    Types,
    #[error("a number is divided by zero, or is out of the range of its type")]
    Arithmetic,
    /// A key that the expression reads from a Secret is not available.
    #[error("key {key:?} of Secret {name} is not available")]
    Secret { name: String, key: String },
    /// One evaluation needs more work than [`Work::OF_ONE`], or all evaluations of one resource together need more work
    /// than [`Work::OF_ALL`].
    #[error(
        "{of} may take at most {} steps and create at most {} MiB of values; use shorter lists and strings, or nest \
         fewer `all`, `exists`, `map` and `filter`",
        limit.steps,
        limit.bytes >> 20
    )]
    TooMuch { of: &'static str, limit: Work },
}
