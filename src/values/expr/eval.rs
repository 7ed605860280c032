//! Evaluates the syntax tree of an expression on JSON values.
//!
//! osdpl does not use the interpreter of the crate cel, because that interpreter does not limit the work of an
//! evaluation, and copies the whole result of a `map` or `filter` again for each item. The evaluation in this module
//! borrows the values of variables instead of copying them. It counts its steps, and the bytes of the values that it
//! creates (`budget.rs`). The tests in `same.rs` compare the results of this evaluation with the results of cel's
//! interpreter.

use std::borrow::Cow;

use cel::IdedExpr;
use cel::common::ast::operators as name;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SelectExpr};
use serde_json::{Map, Value};

use super::budget::Budget;
use super::evaluation::Evaluation;
use super::failure::Failure;
use super::{Scope, functions, operators};

type Result<T> = std::result::Result<T, Failure>;

/// A variable such as `item` that a call such as `list.map(item, …)` declares, with its current value.
#[derive(Clone, Copy)]
struct Local<'v> {
    name: &'v str,
    value: &'v Value,
    outer: Option<&'v Self>,
}

/// Evaluates the syntax tree of an expression with the variables of a scope.
pub(super) fn evaluate(tree: &IdedExpr, scope: &Scope) -> Result<Value> {
    let mut evaluation = Evaluation { scope, budget: Budget::new(scope.total()) };
    let result = evaluation.value(tree, None)?;
    evaluation.own(result)
}

impl<'a> Evaluation<'a> {
    fn value<'v>(&mut self, tree: &'v IdedExpr, locals: Option<&'v Local<'v>>) -> Result<Cow<'v, Value>>
    where
        'a: 'v,
    {
        self.budget.step(1)?;
        match &tree.expr {
            Expr::Literal(literal) => self.literal(literal).map(Cow::Owned),
            Expr::Ident(name) => self.variable(name, locals).map(Cow::Borrowed),
            Expr::Select(select) => self.select(select, locals),
            Expr::Call(call) => self.call(call, locals),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, locals).map(Cow::Owned),
            Expr::List(list) => self.values(&list.elements, locals).map(|items| Cow::Owned(items.into())),
            Expr::Map(map) => self.map(map, locals).map(Cow::Owned),
            Expr::Struct(_) | Expr::Unspecified => Err(Failure::Types),
        }
    }

    fn literal(&mut self, literal: &LiteralValue) -> Result<Value> {
        Ok(match literal {
            LiteralValue::Null => Value::Null,
            LiteralValue::Boolean(flag) => (*flag.inner()).into(),
            LiteralValue::Int(number) => (*number.inner()).into(),
            LiteralValue::UInt(number) => (*number.inner()).into(),
            LiteralValue::Double(number) => (*number.inner()).into(),
            LiteralValue::String(text) => {
                self.budget.create(text.inner().len())?;
                text.inner().into()
            }
            LiteralValue::Bytes(_) => return Err(Failure::Types),
        })
    }

    fn variable<'v>(&self, name: &str, locals: Option<&Local<'v>>) -> Result<&'v Value>
    where
        'a: 'v,
    {
        let mut local = locals;
        while let Some(found) = local {
            if found.name == name {
                return Ok(found.value);
            }
            local = found.outer;
        }
        self.scope.variable(name).ok_or_else(|| Failure::Undeclared(name.to_owned()))
    }

    /// Evaluates `map.field` or `has(map.field)`: returns the field, or whether the map has the field. If the operand
    /// is not a map, both forms return `false`, like cel's interpreter.
    fn select<'v>(&mut self, select: &'v SelectExpr, locals: Option<&'v Local<'v>>) -> Result<Cow<'v, Value>>
    where
        'a: 'v,
    {
        let (operand, field) = (self.value(&select.operand, locals)?, &select.field);
        if select.test || !operand.is_object() {
            return Ok(Cow::Owned(operand.get(field).is_some().into()));
        }
        let found = match operand {
            Cow::Borrowed(operand) => operand.get(field).map(Cow::Borrowed),
            Cow::Owned(mut operand) => operand.get_mut(field).map(|value| Cow::Owned(value.take())),
        };
        found.ok_or_else(|| Failure::NoKey(field.clone()))
    }

    fn values<'v>(&mut self, trees: &'v [IdedExpr], locals: Option<&'v Local<'v>>) -> Result<Vec<Value>>
    where
        'a: 'v,
    {
        let mut items = Vec::with_capacity(trees.len());
        for tree in trees {
            self.budget.create(size_of::<Value>())?;
            let item = self.value(tree, locals)?;
            items.push(self.own(item)?);
        }
        Ok(items)
    }

    fn map<'v>(&mut self, map: &'v MapExpr, locals: Option<&'v Local<'v>>) -> Result<Value>
    where
        'a: 'v,
    {
        let mut made = Map::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(Failure::Types) };
            let key = self.value(&entry.key, locals)?;
            let key = key_of(&key).ok_or(Failure::Types)?.into_owned();
            self.budget.create(64 + key.len())?;
            let value = self.value(&entry.value, locals)?;
            made.insert(key, self.own(value)?);
        }
        Ok(made.into())
    }

    fn call<'v>(&mut self, call: &'v CallExpr, locals: Option<&'v Local<'v>>) -> Result<Cow<'v, Value>>
    where
        'a: 'v,
    {
        let result = match (call.func_name.as_str(), call.args.as_slice()) {
            (name::CONDITIONAL, [condition, yes, no]) => {
                let taken = if self.condition(condition, locals)? { yes } else { no };
                return self.value(taken, locals);
            }
            (name::INDEX, [of, at]) => return self.index(of, at, locals),
            (name::LOGICAL_OR, [one, other]) => self.logical(one, other, true, locals)?.into(),
            (name::LOGICAL_AND, [one, other]) => self.logical(one, other, false, locals)?.into(),
            (name::LOGICAL_NOT, [one]) => (!self.condition(one, locals)?).into(),
            (name::NOT_STRICTLY_FALSE, [one]) => match self.condition(one, locals) {
                Err(failure @ Failure::TooMuch { .. }) => return Err(failure),
                condition => condition.unwrap_or(true).into(),
            },
            (name::NEGATE, [one]) => match self.value(one, locals)?.as_ref() {
                Value::Number(number) => operators::negate(number)?,
                _ => return Err(Failure::Operands),
            },
            (operator, [one, other]) if call.target.is_none() && is_binary(operator) => {
                let (one, other) = (self.value(one, locals)?, self.value(other, locals)?);
                self.binary(operator, one, other)?
            }
            (function, arguments) => {
                let trees = call.target.as_deref().into_iter().chain(arguments);
                let arguments = trees.map(|tree| self.value(tree, locals)).collect::<Result<Vec<_>>>()?;
                functions::call(self, function, &arguments)?
            }
        };
        Ok(Cow::Owned(result))
    }

    fn condition<'v>(&mut self, tree: &'v IdedExpr, locals: Option<&'v Local<'v>>) -> Result<bool>
    where
        'a: 'v,
    {
        self.value(tree, locals)?.as_bool().ok_or(Failure::Operands)
    }

    /// Evaluates `||` (`decisive` is true) or `&&` (`decisive` is false). If one operand equals `decisive`, the result
    /// is `decisive`, even if the other operand fails. But an operand that exceeds the limit of work always makes the
    /// evaluation fail.
    fn logical<'v>(
        &mut self,
        one: &'v IdedExpr,
        other: &'v IdedExpr,
        decisive: bool,
        locals: Option<&'v Local<'v>>,
    ) -> Result<bool>
    where
        'a: 'v,
    {
        let one = match self.condition(one, locals) {
            Ok(one) if one == decisive => return Ok(decisive),
            Err(failure @ Failure::TooMuch { .. }) => return Err(failure),
            one => one,
        };
        let other = self.condition(other, locals)?;
        if other == decisive { Ok(decisive) } else { one }
    }

    fn index<'v>(&mut self, of: &'v IdedExpr, at: &'v IdedExpr, locals: Option<&'v Local<'v>>) -> Result<Cow<'v, Value>>
    where
        'a: 'v,
    {
        let (of, at) = (self.value(of, locals)?, self.value(at, locals)?);
        match of.as_ref() {
            Value::Array(_) => {
                let at = at.as_i64().ok_or(Failure::Types)?;
                let at = usize::try_from(at).map_err(|_| Failure::Index)?;
                take(of, at).ok_or(Failure::Index)
            }
            Value::Object(_) => {
                let key = key_of(&at).ok_or(Failure::Operands)?;
                self.budget.read(key.len())?;
                take(of, key.as_ref()).ok_or_else(|| Failure::NoKey(key.into_owned()))
            }
            _ => Err(Failure::Operands),
        }
    }

    fn binary(&mut self, operator: &str, one: Cow<Value>, other: Cow<Value>) -> Result<Value> {
        Ok(match operator {
            name::EQUALS => self.equal(&one, &other)?.into(),
            name::NOT_EQUALS => (!self.equal(&one, &other)?).into(),
            name::LESS => self.compare(&one, &other)?.is_lt().into(),
            name::LESS_EQUALS => self.compare(&one, &other)?.is_le().into(),
            name::GREATER => self.compare(&one, &other)?.is_gt().into(),
            name::GREATER_EQUALS => self.compare(&one, &other)?.is_ge().into(),
            name::IN => match other.as_ref() {
                Value::Array(items) => self.contains(items, &one)?.into(),
                Value::Object(map) => self.has_key(map, &key_of(&one).ok_or(Failure::Types)?)?.into(),
                _ => return Err(Failure::Operands),
            },
            _ => match (one.as_ref(), other.as_ref()) {
                (Value::Number(one), Value::Number(other)) => operators::calculate(operator, one, other)?,
                (Value::String(_), Value::String(_)) | (Value::Array(_), Value::Array(_)) if operator == name::ADD => {
                    self.concatenate(one, other)?
                }
                _ => return Err(Failure::Operands),
            },
        })
    }

    fn concatenate(&mut self, one: Cow<Value>, other: Cow<Value>) -> Result<Value> {
        let mut joined = self.own(one)?;
        match (&mut joined, self.own(other)?) {
            (Value::String(joined), Value::String(other)) => joined.push_str(&other),
            (Value::Array(joined), Value::Array(other)) => joined.extend(other),
            _ => return Err(Failure::Operands),
        }
        Ok(joined)
    }

    /// Evaluates `all`, `exists`, `exists_one`, `map` or `filter`. cel's parser expands each of these calls to a fold
    /// over the items of a list or the keys of a map.
    fn comprehension<'v>(&mut self, fold: &'v ComprehensionExpr, locals: Option<&'v Local<'v>>) -> Result<Value>
    where
        'a: 'v,
    {
        let range = self.value(&fold.iter_range, locals)?;
        let initial = self.value(&fold.accu_init, locals)?;
        let mut result = self.own(initial)?;
        match range.as_ref() {
            Value::Array(items) => {
                for item in items {
                    if !self.fold(fold, item, &mut result, locals)? {
                        break;
                    }
                }
            }
            Value::Object(map) => {
                for key in map.keys() {
                    self.budget.create(key.len())?;
                    if !self.fold(fold, &Value::from(key.as_str()), &mut result, locals)? {
                        break;
                    }
                }
            }
            _ => return Err(Failure::Operands),
        }
        if is_variable(&fold.result, &fold.accu_var) {
            return Ok(result);
        }
        let accumulated = Local { name: &fold.accu_var, value: &result, outer: locals };
        let result = self.value(&fold.result, Some(&accumulated))?;
        self.own(result)
    }

    /// Computes the next result of a fold from an item. If the result is already final, returns `false` and does not
    /// use the item: for example, `exists` ends at the first match.
    fn fold(
        &mut self,
        fold: &ComprehensionExpr,
        item: &Value,
        result: &mut Value,
        locals: Option<&Local<'_>>,
    ) -> Result<bool> {
        let accumulated = Local { name: &fold.accu_var, value: result, outer: locals };
        if !self.condition(&fold.loop_cond, Some(&accumulated))? {
            return Ok(false);
        }
        let local = Local { name: &fold.iter_var, value: item, outer: locals };
        self.accumulate(&fold.loop_step, &fold.accu_var, result, &local)?;
        Ok(true)
    }

    /// Evaluates `step`, the expression that computes the new `result` of a fold from one item. The steps of `map` and
    /// `filter` append to the list in `result` without copying the list.
    fn accumulate(&mut self, step: &IdedExpr, accumulator: &str, result: &mut Value, local: &Local<'_>) -> Result<()> {
        if is_variable(step, accumulator) {
            return Ok(());
        }
        if let Expr::Call(CallExpr { func_name, args, .. }) = &step.expr {
            match (func_name.as_str(), args.as_slice(), &mut *result) {
                (name::CONDITIONAL, [condition, yes, no], _) => {
                    let taken = if self.condition(condition, Some(local))? { yes } else { no };
                    return self.accumulate(taken, accumulator, result, local);
                }
                (name::ADD, [one, IdedExpr { expr: Expr::List(list), .. }], Value::Array(items))
                    if is_variable(one, accumulator) =>
                {
                    items.extend(self.values(&list.elements, Some(local))?);
                    return Ok(());
                }
                _ => {}
            }
        }
        let accumulated = Local { name: accumulator, value: result, outer: Some(local) };
        let value = self.value(step, Some(&accumulated))?;
        *result = self.own(value)?;
        Ok(())
    }
}

fn is_binary(operator: &str) -> bool {
    operator == name::IN || operator.starts_with('_')
}

fn is_variable(tree: &IdedExpr, name: &str) -> bool {
    matches!(&tree.expr, Expr::Ident(ident) if ident == name)
}

/// Converts a string, number or boolean to a key of a map; `None` for any other value.
fn key_of(key: &Value) -> Option<Cow<'_, str>> {
    match key {
        Value::String(key) => Some(Cow::Borrowed(key)),
        Value::Number(_) | Value::Bool(_) => Some(Cow::Owned(key.to_string())),
        _ => None,
    }
}

/// Returns an item of a list, or a field of a map. If the list or map is owned, the function moves the item or field
/// out of it; otherwise, it borrows the item or field.
fn take(of: Cow<Value>, at: impl serde_json::value::Index) -> Option<Cow<Value>> {
    match of {
        Cow::Borrowed(of) => of.get(at).map(Cow::Borrowed),
        Cow::Owned(mut of) => of.get_mut(at).map(|value| Cow::Owned(value.take())),
    }
}
