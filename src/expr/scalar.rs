//! Values with expressions in them: compiled once, evaluated per resolve.

use serde_json::{Map, Value};

use super::{Error, Expression, Scope};
use crate::values::{Path, Values, leaves};

/// A tree of values whose strings may hold expressions.
#[derive(Debug, Default)]
pub struct Template(Vec<(String, Node)>);

#[derive(Debug)]
enum Node {
    Plain(Value),
    Whole(Expression),
    Text(Vec<Piece>),
    Map(Vec<(String, Node)>),
    List(Vec<Node>),
}

#[derive(Debug)]
enum Piece {
    Plain(String),
    Expression(Expression),
}

impl Template {
    /// Compiles every expression in `values`.
    ///
    /// # Errors
    /// For the first expression that is wrong, with the path at which it stands.
    pub fn compile(values: &Values) -> Result<Self, (Path, Error)> {
        Ok(Self(compile_map(values, &Path::root())?))
    }

    /// Evaluates every expression; returns the values and the paths that hold secrets.
    ///
    /// # Errors
    /// For the first expression that fails, with its path.
    pub fn evaluate(&self, scope: &Scope) -> Result<(Values, Vec<Path>), (Path, Error)> {
        let mut secret = Vec::new();
        Ok((evaluate_map(&self.0, scope, &Path::root(), &mut secret)?, secret))
    }

    /// Every expression that is the whole of a scalar, with its path; nothing is compiled.
    pub fn whole(values: &Values) -> Vec<(Path, String)> {
        let expression = |(path, value): (Path, &Value)| {
            let rest = value.as_str()?.strip_prefix("${")?;
            let end = closing(rest).filter(|end| end + 1 == rest.len())?;
            Some((path, rest[..end].trim().to_owned()))
        };
        leaves(values).into_iter().filter_map(expression).collect()
    }

    /// Drops every leaf whose path `keep` refuses; maps that become empty go as well.
    #[must_use]
    pub fn pruned(values: &Values, keep: &impl Fn(&Path) -> bool) -> Values {
        fn walk(values: &Values, path: &Path, keep: &impl Fn(&Path) -> bool) -> Values {
            let pruned = values.iter().filter_map(|(key, value)| {
                let path = path.child(key);
                match value {
                    Value::Object(map) if !map.is_empty() => {
                        let map = walk(map, &path, keep);
                        (!map.is_empty()).then(|| (key.clone(), Value::Object(map)))
                    }
                    leaf => keep(&path).then(|| (key.clone(), leaf.clone())),
                }
            });
            pruned.collect()
        }
        walk(values, &Path::root(), keep)
    }
}

type Located<T> = Result<T, (Path, Error)>;

fn compile_map(values: &Values, path: &Path) -> Located<Vec<(String, Node)>> {
    values.iter().map(|(key, value)| Ok((key.clone(), compile(value, &path.child(key))?))).collect()
}

fn compile(value: &Value, path: &Path) -> Located<Node> {
    match value {
        Value::String(text) => scalar(text).map_err(|error| (path.clone(), error)),
        Value::Object(map) => Ok(Node::Map(compile_map(map, path)?)),
        Value::Array(items) => Ok(Node::List(items.iter().map(|item| compile(item, path)).collect::<Located<_>>()?)),
        plain => Ok(Node::Plain(plain.clone())),
    }
}

fn scalar(text: &str) -> Result<Node, Error> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if start > 0 && rest.as_bytes()[start - 1] == b'$' {
            plain.push_str(&rest[..start - 1]);
            plain.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        plain.push_str(&rest[..start]);
        let end = closing(&rest[start + 2..]).ok_or_else(|| Error::Unclosed(text.to_owned()))?;
        let expression = Expression::compile(rest[start + 2..start + 2 + end].trim())?;
        rest = &rest[start + 3 + end..];
        if plain.is_empty() && pieces.is_empty() && rest.is_empty() {
            return Ok(Node::Whole(expression));
        }
        if !plain.is_empty() {
            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Expression(expression));
    }
    plain.push_str(rest);
    if pieces.is_empty() {
        return Ok(Node::Plain(plain.into()));
    }
    if !plain.is_empty() {
        pieces.push(Piece::Plain(plain));
    }
    Ok(Node::Text(pieces))
}

/// The brace that ends an expression: CEL has maps in braces and strings in quotes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(index),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn evaluate_map(nodes: &[(String, Node)], scope: &Scope, path: &Path, secret: &mut Vec<Path>) -> Located<Values> {
    let mut values = Map::new();
    for (key, node) in nodes {
        values.insert(key.clone(), evaluate(node, scope, &path.child(key), secret)?);
    }
    Ok(values)
}

fn evaluate(node: &Node, scope: &Scope, path: &Path, secret: &mut Vec<Path>) -> Located<Value> {
    let mut mark = |expression: &Expression| {
        if expression.is_secret() && secret.last() != Some(path) {
            secret.push(path.clone());
        }
    };
    Ok(match node {
        Node::Plain(value) => value.clone(),
        Node::Whole(expression) => {
            mark(expression);
            expression.evaluate(scope).map_err(|error| (path.clone(), error))?
        }
        Node::Text(pieces) => {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Plain(plain) => text.push_str(plain),
                    Piece::Expression(expression) => {
                        mark(expression);
                        match expression.evaluate(scope).map_err(|error| (path.clone(), error))? {
                            Value::String(value) => text.push_str(&value),
                            other => text.push_str(&other.to_string()),
                        }
                    }
                }
            }
            text.into()
        }
        Node::Map(map) => Value::Object(evaluate_map(map, scope, path, secret)?),
        Node::List(items) => {
            items.iter().map(|item| evaluate(item, scope, path, secret)).collect::<Located<Vec<_>>>()?.into()
        }
    })
}
