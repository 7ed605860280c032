//! Compiles and evaluates trees of chart values whose strings contain `${expression}`.
//!
//! osdpl compiles such a tree once, and evaluates it each time that it computes the values of a release.

use serde_json::Value;

use super::evaluation::size;
use super::{Error, Expression, Scope};
use crate::{Path, Values, leaves};

/// A tree of values whose strings may contain expressions.
#[derive(Debug, Default)]
pub struct Template(MapTemplate);

/// The entries of a map in a tree of values. A slice takes much less memory than a map, and osdpl never looks up an
/// entry by its key.
#[derive(Debug, Default)]
struct MapTemplate(Box<[(Box<str>, Node)]>);

#[derive(Debug)]
enum Node {
    Plain(Value),
    Whole(Expression),
    Text(Vec<Piece>),
    Map(MapTemplate),
    List(Vec<Node>),
}

impl MapTemplate {
    /// Returns the entries as values. The caller must ensure that no entry contains an expression, because this
    /// function would drop such an entry.
    fn into_plain(self) -> Values {
        self.0.into_iter().filter_map(|(key, node)| Some((key.into(), node.plain()?))).collect()
    }
}

impl Node {
    /// Whether the node contains no expression.
    ///
    /// osdpl stores a subtree without expressions as one [`Node::Plain`], so that the evaluation can copy the whole
    /// subtree in one step.
    fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn plain(self) -> Option<Value> {
        if let Self::Plain(value) = self { Some(value) } else { None }
    }
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
    /// Returns an error for the first invalid expression, with the path of the value that contains the expression.
    pub fn compile(values: Values) -> Result<Self, (Path, Error)> {
        Ok(Self(compile_map(values, None)?))
    }

    /// Evaluates every expression. Returns the resulting values, and the paths of the values that may contain a secret.
    ///
    /// # Errors
    /// Returns an error for the first expression that fails, with the path of the value that contains the expression.
    pub fn evaluate(&self, scope: &Scope) -> Result<(Values, Vec<Path>), (Path, Error)> {
        let mut evaluation = Evaluation { scope, secret: Vec::new(), list: None };
        let values = evaluation.map(&self.0, None)?;
        Ok((values, evaluation.secret))
    }

    /// Returns the expression in each scalar that consists only of `${expression}`, with the scalar's path. Ignores
    /// scalars in lists. Does not compile the expressions.
    pub fn whole_scalar_expressions(values: &Values) -> Vec<(Path, String)> {
        let expression = |(path, value): (Path, &Value)| {
            let rest = value.as_str()?.strip_prefix("${")?;
            let end = closing(rest).filter(|end| end + 1 == rest.len())?;
            Some((path, rest[..end].trim().to_owned()))
        };
        leaves(values).into_iter().filter_map(expression).collect()
    }

    /// Returns every expression, including those in longer strings and in lists. Skips a string in which a `${` has no
    /// `}`. Does not compile the expressions.
    pub fn expressions(values: &Values) -> Vec<String> {
        fn walk(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::String(text) => found.extend(parts(text).into_iter().flatten().filter_map(|part| match part {
                    Part::Expression(source) => Some(source.to_owned()),
                    Part::Plain(_) => None,
                })),
                Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
                Value::Object(map) => map.values().for_each(|value| walk(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let mut found = Vec::new();
        values.values().for_each(|value| walk(value, &mut found));
        found
    }
}

/// A result whose error contains the path of the value that caused the error.
type Located<T> = Result<T, (Path, Error)>;

fn compile_map(values: Values, above: Option<&Location>) -> Located<MapTemplate> {
    let entry = |(key, value): (String, _)| {
        let node = compile(value, &Location { above, key: &key })?;
        Ok((key.into(), node))
    };
    values.into_iter().map(entry).collect::<Located<_>>().map(MapTemplate)
}

fn compile(value: Value, location: &Location) -> Located<Node> {
    match value {
        Value::String(text) if text.contains("${") => scalar(&text).map_err(|error| (location.path(), error)),
        Value::Object(map) => {
            let template = compile_map(map, Some(location))?;
            let is_plain = template.0.iter().all(|(_, node)| node.is_plain());
            Ok(if is_plain { Node::Plain(template.into_plain().into()) } else { Node::Map(template) })
        }
        Value::Array(items) => {
            let nodes = items.into_iter().map(|item| compile(item, location)).collect::<Located<Vec<_>>>()?;
            let is_plain = nodes.iter().all(Node::is_plain);
            Ok(if is_plain {
                Node::Plain(nodes.into_iter().filter_map(Node::plain).collect())
            } else {
                Node::List(nodes)
            })
        }
        plain => Ok(Node::Plain(plain)),
    }
}

/// A part of a string: plain text, or an expression.
enum Part<'a> {
    Plain(String),
    /// The expression between `${` and `}`, as written.
    Expression(&'a str),
}

/// Splits a string into plain parts and expressions. No plain part is empty, and two plain parts are never adjacent.
fn parts(text: &str) -> Result<Vec<Part<'_>>, Error> {
    let mut parts = Vec::new();
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
        parts.extend((!plain.is_empty()).then(|| Part::Plain(std::mem::take(&mut plain))));
        parts.push(Part::Expression(rest[start + 2..start + 2 + end].trim()));
        rest = &rest[start + 3 + end..];
    }
    plain.push_str(rest);
    parts.extend((!plain.is_empty()).then_some(Part::Plain(plain)));
    Ok(parts)
}

fn scalar(text: &str) -> Result<Node, Error> {
    let mut parts = parts(text)?;
    if parts.len() > 1 {
        let piece = |part| {
            Ok(match part {
                Part::Plain(text) => Piece::Plain(text),
                Part::Expression(source) => Piece::Expression(Expression::compile(source)?),
            })
        };
        return Ok(Node::Text(parts.into_iter().map(piece).collect::<Result<_, Error>>()?));
    }
    Ok(match parts.pop() {
        Some(Part::Expression(source)) => Node::Whole(Expression::compile(source)?),
        Some(Part::Plain(text)) => Node::Plain(text.into()),
        None => Node::Plain("".into()),
    })
}

/// Returns the index of the `}` that ends the expression at the beginning of `text`; `None` if there is no such brace.
/// Skips braces in CEL's map literals and in strings.
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

/// The position of a node in the tree: the node's key and the position of its parent node. The evaluation needs the
/// whole path only for errors and secrets, so only then does it build a `Path` from the position.
#[derive(Clone, Copy)]
struct Location<'a> {
    above: Option<&'a Self>,
    key: &'a str,
}

impl Location<'_> {
    fn path(&self) -> Path {
        self.above.map_or_else(Path::root, Location::path).child(self.key)
    }
}

/// The state of evaluating a `Template`: the variables, and the paths of the secret values found so far.
struct Evaluation<'a> {
    scope: &'a Scope<'a>,
    secret: Vec<Path>,
    /// The outermost list that is being evaluated. A `Path` can't lead into a list. So if any item of this list is
    /// secret, the evaluation marks the whole list as secret.
    list: Option<Path>,
}

impl Evaluation<'_> {
    fn map(&mut self, template: &MapTemplate, above: Option<&Location>) -> Located<Values> {
        let evaluate = |(key, node): &(Box<str>, Node)| {
            let location = Location { above, key };
            self.count(key.len(), &location)?;
            Ok((key.to_string(), self.node(node, &location)?))
        };
        template.0.iter().map(evaluate).collect()
    }

    /// Counts the bytes of a text or value that osdpl is about to copy.
    fn count(&self, bytes: usize, location: &Location) -> Located<()> {
        let counted = self.scope.total().copy(bytes);
        counted.map_err(|failure| (location.path(), Error::TooMuch(failure.to_string())))
    }

    fn node(&mut self, node: &Node, location: &Location) -> Located<Value> {
        Ok(match node {
            Node::Plain(value) => {
                self.count(size(value), location)?;
                value.clone()
            }
            Node::Whole(expression) => self.expression(expression, location)?,
            Node::Text(pieces) => self.text(pieces, location)?.into(),
            Node::Map(template) => Value::Object(self.map(template, Some(location))?),
            Node::List(nodes) => self.list(nodes, location)?.into(),
        })
    }

    fn list(&mut self, nodes: &[Node], location: &Location) -> Located<Vec<Value>> {
        let is_outermost = self.list.is_none();
        if is_outermost {
            self.list = Some(location.path());
        }
        let items = nodes.iter().map(|node| self.node(node, location)).collect();
        if is_outermost {
            self.list = None;
        }
        items
    }

    fn text(&mut self, pieces: &[Piece], location: &Location) -> Located<String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Plain(plain) => {
                    self.count(plain.len(), location)?;
                    text.push_str(plain);
                }
                Piece::Expression(expression) => match self.expression(expression, location)? {
                    Value::String(value) => text.push_str(&value),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(text)
    }

    fn expression(&mut self, expression: &Expression, location: &Location) -> Located<Value> {
        if expression.is_secret() {
            let path = self.list.clone().unwrap_or_else(|| location.path());
            if self.secret.last() != Some(&path) {
                self.secret.push(path);
            }
        }
        expression.evaluate(self.scope).map_err(|error| (location.path(), error))
    }
}
