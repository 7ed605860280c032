//! Values that contain expressions: compiled once, evaluated for each resolve.

use serde_json::Value;

use super::{Error, Expression, Scope};
use crate::{Path, Values, leaves};

/// A tree of values whose strings may contain expressions.
#[derive(Debug, Default)]
pub struct Template(Form);

/// A map, split into plain values and nodes with expressions. Each of these nodes has a placeholder in `plain`, which
/// keeps the order.
#[derive(Debug, Default)]
struct Form {
    plain: Values,
    rest: Vec<(String, Node)>,
}

#[derive(Debug)]
enum Node {
    Plain(Value),
    Whole(Expression),
    Text(Vec<Piece>),
    Map(Form),
    List(Vec<Node>),
}

impl Node {
    /// Whether the node has nothing to evaluate. Such a tree is one node, which is copied at once.
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
    /// For the first wrong expression, with its path.
    pub fn compile(values: Values) -> Result<Self, (Path, Error)> {
        Ok(Self(compile_map(values, None)?))
    }

    /// Evaluates every expression. Returns the values and the paths that hold secrets.
    ///
    /// # Errors
    /// For the first expression that fails, with its path.
    pub fn evaluate(&self, scope: &Scope) -> Result<(Values, Vec<Path>), (Path, Error)> {
        let mut evaluation = Evaluation { scope, secret: Vec::new(), list: None };
        let values = evaluation.map(&self.0, None)?;
        Ok((values, evaluation.secret))
    }

    /// Returns every expression that is a whole scalar, with its path. Compiles nothing.
    pub fn whole_scalar_expressions(values: &Values) -> Vec<(Path, String)> {
        let expression = |(path, value): (Path, &Value)| {
            let rest = value.as_str()?.strip_prefix("${")?;
            let end = closing(rest).filter(|end| end + 1 == rest.len())?;
            Some((path, rest[..end].trim().to_owned()))
        };
        leaves(values).into_iter().filter_map(expression).collect()
    }

    /// Returns every expression in `values`, at any place in texts and lists. Compiles nothing.
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

type Located<T> = Result<T, (Path, Error)>;

fn compile_map(values: Values, above: Option<&Trail>) -> Located<Form> {
    let mut form = Form::default();
    for (key, value) in values {
        let value = match compile(value, &Trail { above, key: &key })? {
            Node::Plain(value) => value,
            node => {
                form.rest.push((key.clone(), node));
                Value::Null
            }
        };
        form.plain.insert(key, value);
    }
    Ok(form)
}

fn compile(value: Value, trail: &Trail) -> Located<Node> {
    match value {
        Value::String(text) if text.contains("${") => scalar(&text).map_err(|error| (trail.path(), error)),
        Value::Object(map) => {
            let form = compile_map(map, Some(trail))?;
            Ok(if form.rest.is_empty() { Node::Plain(form.plain.into()) } else { Node::Map(form) })
        }
        Value::Array(items) => {
            let nodes = items.into_iter().map(|item| compile(item, trail)).collect::<Located<Vec<_>>>()?;
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

/// A part of a text.
enum Part<'a> {
    Plain(String),
    /// The source between `${` and its `}`.
    Expression(&'a str),
}

/// Splits a text into parts. There are no empty plain parts, and no two plain parts in a row.
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

/// Returns the index of the brace that closes an expression, skipping CEL's maps in braces and strings in quotes.
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

/// The position of a node. The path is only built on demand.
#[derive(Clone, Copy)]
struct Trail<'a> {
    above: Option<&'a Self>,
    key: &'a str,
}

impl Trail<'_> {
    fn path(&self) -> Path {
        self.above.map_or_else(Path::root, Trail::path).child(self.key)
    }
}

/// The state of an evaluation: the scope, and the paths of the secrets found.
struct Evaluation<'a> {
    scope: &'a Scope<'a>,
    secret: Vec<Path>,
    /// The outermost list under evaluation. Paths never point into a list, so the whole list is secret if any item is.
    list: Option<Path>,
}

impl Evaluation<'_> {
    fn map(&mut self, form: &Form, above: Option<&Trail>) -> Located<Values> {
        let mut values = form.plain.clone();
        for (key, node) in &form.rest {
            let value = self.node(node, &Trail { above, key })?;
            if let Some(place) = values.get_mut(key) {
                *place = value;
            }
        }
        Ok(values)
    }

    fn node(&mut self, node: &Node, trail: &Trail) -> Located<Value> {
        Ok(match node {
            Node::Plain(value) => value.clone(),
            Node::Whole(expression) => self.expression(expression, trail)?,
            Node::Text(pieces) => self.text(pieces, trail)?.into(),
            Node::Map(form) => Value::Object(self.map(form, Some(trail))?),
            Node::List(nodes) => self.list(nodes, trail)?.into(),
        })
    }

    fn list(&mut self, nodes: &[Node], trail: &Trail) -> Located<Vec<Value>> {
        let is_outermost = self.list.is_none();
        if is_outermost {
            self.list = Some(trail.path());
        }
        let items = nodes.iter().map(|node| self.node(node, trail)).collect();
        if is_outermost {
            self.list = None;
        }
        items
    }

    fn text(&mut self, pieces: &[Piece], trail: &Trail) -> Located<String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                Piece::Plain(plain) => text.push_str(plain),
                Piece::Expression(expression) => match self.expression(expression, trail)? {
                    Value::String(value) => text.push_str(&value),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(text)
    }

    fn expression(&mut self, expression: &Expression, trail: &Trail) -> Located<Value> {
        if expression.is_secret() {
            let path = self.list.clone().unwrap_or_else(|| trail.path());
            if self.secret.last() != Some(&path) {
                self.secret.push(path);
            }
        }
        expression.evaluate(self.scope).map_err(|error| (trail.path(), error))
    }
}
