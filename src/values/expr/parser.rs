//! Parses CEL expressions with the parser of the crate cel.
//!
//! A check first refuses expressions that are too large for the stack.

use cel::IdedExpr;
use cel::parser::Parser;

use super::error::Error;
use super::syntax;

/// The maximum length of an expression, in bytes.
///
/// The parser of the crate cel recurses for each operator and bracket, and a stack overflow would end the process. The
/// largest expressions of the catalogue have 2020 bytes, 207 operators and a depth of 25.
const MAX_LENGTH: usize = 4096;
/// The maximum number of operators in an expression.
const MAX_OPERATORS: usize = 512;
/// The maximum depth of nested brackets and choices (`a ? b : c`).
const MAX_DEPTH: usize = 32;

/// Parses an expression.
///
/// # Errors
/// Returns an error if the expression is not valid CEL, or is too large.
pub(super) fn parse(source: &str) -> Result<IdedExpr, Error> {
    if source.len() > MAX_LENGTH || count_operators(source) > MAX_OPERATORS || depth(source) > MAX_DEPTH {
        let problem = format!(
            "an expression may have at most {MAX_LENGTH} bytes and {MAX_OPERATORS} operators, and brackets and choices at most {MAX_DEPTH} deep; shorten it, or split it"
        );
        return Err(Error::Syntax { expression: source.chars().take(40).chain(['…']).collect(), problem });
    }
    Parser::new()
        .parse(source)
        .map_err(|errors| Error::Syntax { expression: source.to_owned(), problem: syntax::problem(source, &errors) })
}

/// Counts the operators, calls and selected fields, including those in strings.
///
/// Several operators in a row count as one.
fn count_operators(source: &str) -> usize {
    let is_operator = |byte: u8| b"+-*/%<>=&|!?.[(".contains(&byte);
    let bytes = source.as_bytes();
    (0..bytes.len()).filter(|at| is_operator(bytes[*at]) && (*at == 0 || !is_operator(bytes[at - 1]))).count()
}

/// Returns the depth of nested brackets, including those in strings, plus the number of choices (`a ? b : c`).
fn depth(source: &str) -> usize {
    let depths = source.bytes().scan(0_usize, |depth, byte| {
        match byte {
            b'(' | b'[' | b'{' => *depth += 1,
            b')' | b']' | b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max().unwrap_or_default() + source.matches('?').count()
}

#[cfg(test)]
mod tests;
