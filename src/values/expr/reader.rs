//! The commonest of CEL, read by hand.
//!
//! cel's own parser is made of a grammar, which it learns anew in every process: that was a fifth of what `osdpl validate` computed. What this one
//! reads becomes the very tree that that one makes of it; the rest (`exists_one`, negative numbers, escapes, mistakes) is left to it.

mod limits;
mod macros;

use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, Expr, ListExpr, LiteralValue, SelectExpr};
use cel::{IdedExpr, Program};

use super::{Error, syntax};

/// Operators with two sides, by how tightly they bind; of two that begin alike the longer one first.
const OPERATORS: [&[(&str, &str)]; 3] = [
    &[
        ("==", op::EQUALS),
        ("!=", op::NOT_EQUALS),
        ("<=", op::LESS_EQUALS),
        (">=", op::GREATER_EQUALS),
        ("<", op::LESS),
        (">", op::GREATER),
        ("in", op::IN),
    ],
    &[("+", op::ADD), ("-", op::SUBSTRACT)],
    &[("*", op::MULTIPLY), ("/", op::DIVIDE), ("%", op::MODULO)],
];

/// Methods that stand for more than a call.
const MACROS: [&str; 6] = [op::EXISTS, op::ALL, op::EXISTS_ONE, "existsOne", op::MAP, op::FILTER];

/// Words that are no names.
const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// How deep expressions may stand in each other.
const DEPTH: usize = 24;

/// A variable and what is asked of it: `releases.nova.namespace`.
pub(super) struct Chain {
    pub variable: String,
    pub fields: Vec<String>,
}

impl Chain {
    /// The chain that an expression is; `None` where it is anything else.
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

/// The tree of an expression.
///
/// # Errors
/// What is wrong with it, or that it is too long.
pub(super) fn tree(source: &str) -> Result<IdedExpr, Error> {
    if let Some(problem) = limits::problem(source) {
        return Err(Error::Syntax { expression: source.chars().take(40).chain(['…']).collect(), problem });
    }
    // cel speaks of its grammar's own words.
    let problem = |_| Error::Syntax { expression: source.to_owned(), problem: syntax::problem(source) };
    let parsed = || Program::compile(source).map(|program| program.expression().clone()).map_err(problem);
    read(source).map_or_else(parsed, Ok)
}

/// The same; `None` where it takes cel's own parser to read it.
fn read(source: &str) -> Option<IdedExpr> {
    let mut reader = Reader { rest: source, id: 0, depth: 0 };
    let tree = reader.expression()?;
    reader.after_space().is_empty().then_some(tree)
}

struct Reader<'a> {
    rest: &'a str,
    /// The last number that was given to a node: they are given in the order in which cel gives them.
    id: u64,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn expression(&mut self) -> Option<IdedExpr> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let mut tree = self.or()?;
        if self.takes("?") {
            let id = self.next_id();
            let then = self.or()?;
            self.takes(":").then_some(())?;
            tree = call(id, op::CONDITIONAL, vec![tree, then, self.expression()?]);
        }
        self.depth -= 1;
        Some(tree)
    }

    fn or(&mut self) -> Option<IdedExpr> {
        self.logic("||", op::LOGICAL_OR, Self::and)
    }

    fn and(&mut self) -> Option<IdedExpr> {
        self.logic("&&", op::LOGICAL_AND, |reader| reader.operation(&OPERATORS))
    }

    fn logic(&mut self, sign: &str, name: &str, term: impl Fn(&mut Self) -> Option<IdedExpr>) -> Option<IdedExpr> {
        let mut terms = vec![term(self)?];
        let mut ids = Vec::new();
        while self.takes(sign) {
            terms.push(term(self)?);
            ids.push(self.next_id());
        }
        balanced(name, &ids, &mut terms.into_iter())
    }

    fn operation(&mut self, levels: &[&[(&str, &str)]]) -> Option<IdedExpr> {
        let Some((level, tighter)) = levels.split_first() else { return self.unary() };
        let mut left = self.operation(tighter)?;
        while let Some((_, name)) = level.iter().find(|(sign, _)| self.takes(sign)) {
            let id = self.next_id();
            left = call(id, name, vec![left, self.operation(tighter)?]);
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<IdedExpr> {
        if !self.takes("!") {
            return self.member();
        }
        let id = self.next_id();
        Some(call(id, op::LOGICAL_NOT, vec![self.member()?]))
    }

    fn member(&mut self) -> Option<IdedExpr> {
        let mut operand = self.primary()?;
        loop {
            if self.takes(".") {
                let name = self.name()?.to_owned();
                let is_call = self.takes("(");
                let id = self.next_id();
                if !is_call {
                    let select = SelectExpr { operand: Box::new(operand), field: name, test: false };
                    operand = IdedExpr { id, expr: Expr::Select(select) };
                    continue;
                }
                let args = self.list(")")?;
                operand = if MACROS.contains(&name.as_str()) {
                    self.looped(&name, operand, args)?
                } else {
                    let call = CallExpr { func_name: name, target: Some(Box::new(operand)), args };
                    IdedExpr { id, expr: Expr::Call(call) }
                };
            } else if self.takes("[") {
                let id = self.next_id();
                let index = self.expression()?;
                self.takes("]").then_some(())?;
                operand = call(id, op::INDEX, vec![operand, index]);
            } else {
                return Some(operand);
            }
        }
    }

    fn primary(&mut self) -> Option<IdedExpr> {
        if self.takes("(") {
            let nested = self.expression()?;
            return self.takes(")").then_some(nested);
        }
        if self.takes("[") {
            let id = self.next_id();
            return Some(IdedExpr { id, expr: Expr::List(ListExpr::new(self.list("]")?)) });
        }
        if self.takes("{") {
            return self.map();
        }
        let next = self.after_space().chars().next()?;
        let literal = match next {
            '\'' | '"' => LiteralValue::String(self.text(next)?.to_owned().into()),
            _ if next.is_ascii_digit() => LiteralValue::Int(self.number()?.into()),
            _ if self.takes("true") => LiteralValue::Boolean(true.into()),
            _ if self.takes("false") => LiteralValue::Boolean(false.into()),
            _ if self.takes("null") => LiteralValue::Null,
            _ => return self.named(),
        };
        Some(IdedExpr { id: self.next_id(), expr: Expr::Literal(literal) })
    }

    /// A variable, or a call of a function.
    fn named(&mut self) -> Option<IdedExpr> {
        let name = self.name()?;
        let is_call = self.takes("(");
        let id = self.next_id();
        if !is_call {
            return Some(IdedExpr { id, expr: Expr::Ident(name.to_owned()) });
        }
        let mut args = self.list(")")?;
        if name != op::HAS || args.len() != 1 {
            return Some(call(id, name, args));
        }
        let Expr::Select(select) = args.pop()?.expr else { return None };
        Some(IdedExpr { id: self.next_id(), expr: Expr::Select(SelectExpr { test: true, ..select }) })
    }

    /// What stands between commas up to `end`.
    fn list(&mut self, end: &str) -> Option<Vec<IdedExpr>> {
        let mut items = Vec::new();
        while !self.takes(end) {
            if !items.is_empty() {
                self.takes(",").then_some(())?;
            }
            items.push(self.expression()?);
        }
        Some(items)
    }

    /// A whole number; `None` for one of another kind.
    fn number(&mut self) -> Option<i64> {
        let number = self.run(|letter| letter == '.' || is_of_name(letter));
        number.bytes().all(|letter| letter.is_ascii_digit()).then(|| number.parse().ok())?
    }

    /// A text between two of these quotes; `None` for one between three, or with an escape, which may be one of a quote.
    fn text(&mut self, quote: char) -> Option<&'a str> {
        let (text, after) = self.after_space().strip_prefix(quote)?.split_once(quote)?;
        self.rest = after;
        let is_plain = !after.starts_with(quote) && !text.contains(['\\', '\n', '\r']);
        is_plain.then_some(text)
    }

    fn name(&mut self) -> Option<&'a str> {
        self.after_space().starts_with(|letter: char| is_of_name(letter) && !letter.is_ascii_digit()).then_some(())?;
        let name = self.run(is_of_name);
        // `r'…'` and `b'…'` are texts of other kinds.
        let is_name = !WORDS.contains(&name) && !self.rest.starts_with(['\'', '"']);
        is_name.then_some(name)
    }

    /// Takes the letters that belong together.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.after_space();
        let (run, after) = rest.split_at(rest.find(|letter| !belongs(letter)).unwrap_or(rest.len()));
        self.rest = after;
        run
    }

    /// Takes a sign or a word, where it comes next.
    fn takes(&mut self, sign: &str) -> bool {
        let Some(after) = self.after_space().strip_prefix(sign) else { return false };
        let is_longer = match sign {
            "/" => after.starts_with('/'),
            word if word.starts_with(is_of_name) => after.starts_with(is_of_name),
            _ => false,
        };
        if !is_longer {
            self.rest = after;
        }
        !is_longer
    }

    fn after_space(&self) -> &'a str {
        self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\x0c'])
    }

    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }
}

fn is_of_name(letter: char) -> bool {
    letter == '_' || letter.is_ascii_alphanumeric()
}

fn call(id: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }) }
}

/// Many terms of one operator become a tree of little depth.
fn balanced(name: &str, ids: &[u64], terms: &mut impl Iterator<Item = IdedExpr>) -> Option<IdedExpr> {
    let middle = ids.len() / 2;
    let Some(id) = ids.get(middle) else { return terms.next() };
    let left = balanced(name, &ids[..middle], terms)?;
    let right = balanced(name, &ids[middle + 1..], terms)?;
    Some(call(*id, name, vec![left, right]))
}

#[cfg(test)]
mod tests;
