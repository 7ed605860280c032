//! Parses expressions with cel's parser, up to a size that fits the stack.

use cel::IdedExpr;
use cel::common::ast::{Expr, SelectExpr};
use cel::parser::Parser;

use super::{Error, syntax};

/// The longest expression, in bytes, the most operators in it, and the deepest nesting of brackets and choices
/// (`a ? b : c`). cel's parser recurses for each of them, and a stack overflow would end the process. The catalogue has
/// at most 2020, 207 and 25.
const LONGEST: usize = 4096;
const OPERATIONS: usize = 512;
const DEEPEST: usize = 32;

/// A variable and the fields selected of it: `releases.nova.namespace`.
pub(super) struct Chain {
    pub variable: String,
    pub fields: Vec<String>,
}

impl Chain {
    /// Returns the chain if the expression is nothing else.
    pub fn of(tree: &IdedExpr) -> Option<Self> {
        match &tree.expr {
            Expr::Ident(name) => Some(Self { variable: name.clone(), fields: Vec::new() }),
            Expr::Select(SelectExpr { operand, field, test: false }) => {
                let mut chain = Self::of(operand)?;
                chain.fields.push(field.clone());
                Some(chain)
            }
            _ => None,
        }
    }
}

/// Parses an expression.
///
/// # Errors
/// If it is not valid CEL or too large.
pub(super) fn parse(source: &str) -> Result<IdedExpr, Error> {
    if source.len() > LONGEST || operations(source) > OPERATIONS || depth(source) > DEEPEST {
        let problem = format!(
            "it may have {LONGEST} bytes and {OPERATIONS} operators, with brackets and choices {DEEPEST} deep; write it shorter, or in parts"
        );
        return Err(Error::Syntax { expression: source.chars().take(40).chain(['…']).collect(), problem });
    }
    Parser::new()
        .parse(source)
        .map_err(|errors| Error::Syntax { expression: source.to_owned(), problem: syntax::problem(source, &errors) })
}

/// Counts operators, calls and selections, including those in strings; several in a row are one.
fn operations(source: &str) -> usize {
    let is_sign = |byte: u8| b"+-*/%<>=&|!?.[(".contains(&byte);
    let bytes = source.as_bytes();
    (0..bytes.len()).filter(|at| is_sign(bytes[*at]) && (*at == 0 || !is_sign(bytes[at - 1]))).count()
}

/// Returns the deepest nesting of brackets, including those in strings, plus the number of choices.
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
