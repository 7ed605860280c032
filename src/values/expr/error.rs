//! Errors of expressions.

/// An error of an expression that can't be compiled or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not valid CEL.
    #[error("`{expression}` is not a valid CEL expression: {problem}")]
    Syntax {
        /// The expression as written.
        expression: String,
        /// The problem.
        problem: String,
    },
    /// It uses an unknown variable.
    #[error("`{expression}` uses `{name}`, which does not exist; available are {known}")]
    Variable {
        /// The expression as written.
        expression: String,
        /// The unknown name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// It can't be evaluated.
    #[error("`{expression}` can't be evaluated: {problem}")]
    Evaluation {
        /// The expression as written.
        expression: String,
        /// The problem, without values.
        problem: String,
    },
    /// It reads a Secret that is not available.
    #[error("`{expression}` reads key {key:?} of Secret {name}, which is not available")]
    UnavailableSecret {
        /// The expression as written.
        expression: String,
        /// The Secret's name.
        name: String,
        /// The key in its data.
        key: String,
    },
    /// It returns a value of the wrong type.
    #[error("`{expression}` must return {expected}")]
    Type {
        /// The expression as written.
        expression: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A `${` is not closed.
    #[error("{0:?} has a `${{` without its `}}`; write `$${{` for a literal `${{`")]
    Unclosed(String),
}

impl Error {
    /// Returns the invalid expression or text, as written.
    pub fn expression(&self) -> &str {
        match self {
            Self::Syntax { expression, .. }
            | Self::Variable { expression, .. }
            | Self::Evaluation { expression, .. }
            | Self::UnavailableSecret { expression, .. }
            | Self::Type { expression, .. }
            | Self::Unclosed(expression) => expression,
        }
    }
}
