//! Defines the errors of CEL expressions.

/// The maximum number of bytes of an expression that a message quotes. A longer quotation would hide the problem and
/// the remedy.
const QUOTED: usize = 400;

/// Quotes an expression or another string in a message: the whole string, or only its beginning if it is long.
fn quote(text: &str) -> String {
    if text.len() <= QUOTED { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(QUOTED)]) }
}

/// Why an expression can't be compiled or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The expression is not valid CEL.
    #[error("`{}` is not a valid CEL expression: {problem}", quote(.expression))]
    Syntax {
        /// The expression as written.
        expression: String,
        /// The description of the mistake, with its location and the remedy.
        problem: String,
    },
    /// The expression uses a variable that does not exist.
    #[error("`{}` uses `{name}`, which does not exist; choose from {known}", quote(.expression))]
    Variable {
        /// The expression as written.
        expression: String,
        /// The name of the variable that does not exist.
        name: String,
        /// The names of the variables that exist.
        known: String,
    },
    /// The expression can't be evaluated.
    #[error("`{}` can't be evaluated: {problem}", quote(.expression))]
    Evaluation {
        /// The expression as written.
        expression: String,
        /// Why the evaluation failed. Contains no values of variables, because these values may be secrets.
        problem: String,
    },
    /// The expression reads a Secret that is not available.
    #[error("`{}` reads key {key:?} of Secret {name}, which is not available", quote(.expression))]
    UnavailableSecret {
        /// The expression as written.
        expression: String,
        /// The name of the Secret.
        name: String,
        /// The key in the Secret's data.
        key: String,
    },
    /// The expression returns a value of the wrong type.
    #[error("`{}` must return {expected}", quote(.expression))]
    Type {
        /// The expression as written.
        expression: String,
        /// The type that the expression must return.
        expected: &'static str,
    },
    /// The copies of values that contain no expression exceed the limit of one resource.
    #[error("{0}")]
    TooMuch(String),
    /// A string contains `${` without a closing `}`.
    #[error("{:?} has a `${{` without its `}}`; add the `}}`, or write `$${{` for a literal `${{`", quote(.0))]
    Unclosed(String),
}

impl Error {
    /// Returns the expression that has the error, as written. For [`Error::Unclosed`], returns the string with `${`.
    /// For [`Error::TooMuch`], returns an empty string.
    pub fn expression(&self) -> &str {
        match self {
            Self::Syntax { expression, .. }
            | Self::Variable { expression, .. }
            | Self::Evaluation { expression, .. }
            | Self::UnavailableSecret { expression, .. }
            | Self::Type { expression, .. }
            | Self::Unclosed(expression) => expression,
            Self::TooMuch(_) => "",
        }
    }
}
