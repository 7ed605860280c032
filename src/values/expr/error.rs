//! Defines the errors of CEL expressions.

/// Why an expression can't be compiled or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The expression is not valid CEL.
    #[error("`{expression}` is not a valid CEL expression: {problem}")]
    Syntax {
        /// The expression as written.
        expression: String,
        /// The description of the mistake, with its location and the remedy.
        problem: String,
    },
    /// The expression uses a variable that does not exist.
    #[error("`{expression}` uses `{name}`, which does not exist; available are {known}")]
    Variable {
        /// The expression as written.
        expression: String,
        /// The name of the variable that does not exist.
        name: String,
        /// The names of the variables that exist.
        known: String,
    },
    /// The expression can't be evaluated.
    #[error("`{expression}` can't be evaluated: {problem}")]
    Evaluation {
        /// The expression as written.
        expression: String,
        /// The reason, without the values of variables, which may be secrets.
        problem: String,
    },
    /// The expression reads a Secret that is not available.
    #[error("`{expression}` reads key {key:?} of Secret {name}, which is not available")]
    UnavailableSecret {
        /// The expression as written.
        expression: String,
        /// The name of the Secret.
        name: String,
        /// The key in the Secret's data.
        key: String,
    },
    /// The expression returns a value of the wrong type.
    #[error("`{expression}` must return {expected}")]
    Type {
        /// The expression as written.
        expression: String,
        /// The type that the expression must return.
        expected: &'static str,
    },
    /// A text contains `${` without a closing `}`.
    #[error("{0:?} has a `${{` without its `}}`; write `$${{` for a literal `${{`")]
    Unclosed(String),
}

impl Error {
    /// Returns the expression or text with the error, as written.
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
