//! Parses CEL expressions with the parser of the crate cel.
//!
//! Before it calls that parser, this module refuses expressions for which the parser would overflow the stack or take
//! far too long.

use cel::IdedExpr;
use cel::parser::Parser;

use super::error::Error;
use super::syntax;

/// The maximum length of an expression, in bytes.
///
/// The parser of the crate cel recurses for each operator and bracket. This limit and the next two prevent a stack
/// overflow in the parser, which would end the process. The catalogue's largest expressions have 2020 bytes, 207
/// operators and a depth of 25.
const MAX_LENGTH: usize = 4096;
/// The maximum number of operators in an expression.
const MAX_OPERATORS: usize = 512;
/// The maximum depth of nested brackets and choices (`a ? b : c`).
const MAX_DEPTH: usize = 32;
/// The maximum number of nested double signs, such as the three in `--(--(--(a)))`.
///
/// The crate cel parses the operand of a double sign twice (cel 0.13.0, `visit_Negate` and `visit_LogicalNot`; fixed in
/// cel 0.14.4). So each nested double sign doubles the time of the parser and the number of errors that it reports.
///
/// The limit must not be too low, because `--` in a string such as `'--name '` counts as a double sign, too. An
/// expression of the catalogue has at most 2.
const MAX_DOUBLE_SIGNS: usize = 6;

/// Parses an expression.
///
/// # Errors
/// Returns an error if the expression is not valid CEL, or is too large.
pub(super) fn parse(source: &str) -> Result<IdedExpr, Error> {
    let is_too_large = source.len() > MAX_LENGTH
        || count_operators(source) > MAX_OPERATORS
        || depth(source) > MAX_DEPTH
        || count_double_signs(source) > MAX_DOUBLE_SIGNS;
    if is_too_large {
        let problem = format!(
            "an expression may have at most {MAX_LENGTH} bytes and {MAX_OPERATORS} operators, brackets and choices at most {MAX_DEPTH} deep, and at most {MAX_DOUBLE_SIGNS} nested double signs (-- or !!, also in strings); shorten it, or split it"
        );
        return Err(Error::Syntax { expression: source.chars().take(40).chain(['…']).collect(), problem });
    }
    Parser::new()
        .parse(source)
        .map_err(|errors| Error::Syntax { expression: source.to_owned(), problem: syntax::problem(source, &errors) })
}

/// Counts the operators, calls and field accesses (`a.b`) of an expression, including those in its string literals.
///
/// Several operators in a row count as one.
fn count_operators(source: &str) -> usize {
    let is_operator = |byte: u8| b"+-*/%<>=&|!?.[(".contains(&byte);
    let bytes = source.as_bytes();
    (0..bytes.len()).filter(|at| is_operator(bytes[*at]) && (*at == 0 || !is_operator(bytes[at - 1]))).count()
}

/// Returns the maximum depth of nested brackets, plus the number of `?` signs: each choice (`a ? b : c`) has one.
/// Counts the brackets and signs in string literals, too.
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

/// Returns how many double signs (`--` or `!!`) of an expression could be nested in each other.
///
/// Double signs without an opening bracket between them count as one, because they are not nested.
///
/// Two minus signs, or two exclamation marks, are a double sign unless a letter or a digit is between them. They need
/// not be adjacent, because the parser skips blanks and comments between two signs, and other characters in an invalid
/// expression. The function counts signs in strings, too: if a string is invalid, the parser continues inside of it.
fn count_double_signs(source: &str) -> usize {
    let (mut count, mut has_double, mut in_comment) = (0, false, false);
    let (mut last, mut before) = (None, ' ');
    for letter in source.chars() {
        match letter {
            '-' | '!' => {
                has_double |= last == Some(letter);
                last = Some(letter);
            }
            '(' | '[' | '{' => {
                count += usize::from(has_double);
                (has_double, last) = (false, None);
            }
            '/' if before == '/' => in_comment = true,
            '\n' => in_comment = false,
            _ if letter.is_ascii_alphanumeric() && !in_comment => last = None,
            _ => {}
        }
        before = letter;
    }
    count + usize::from(has_double)
}

#[cfg(test)]
mod tests;
