//! Implements CEL's operators that calculate with numbers or compare values.

use std::cmp::Ordering;

use cel::common::ast::operators as name;
use serde_json::{Number, Value};

use super::failure::Failure;

/// A number with its type in CEL. A whole number has the type `int`, or `uint` if it is too large for `int`.
#[derive(Clone, Copy)]
pub(super) enum Numeric {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl Numeric {
    pub(crate) fn of(number: &Number) -> Self {
        let whole = number.as_i64().map(Self::Int).or_else(|| number.as_u64().map(Self::Uint));
        whole.unwrap_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::MAX)))
    }

    #[expect(clippy::cast_precision_loss, reason = "CEL converts whole numbers to floats with the same loss")]
    pub(crate) fn double(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Uint(number) => number as f64,
            Self::Double(number) => number,
        }
    }

    fn compare(self, other: Self) -> Option<Ordering> {
        match (self.whole(), other.whole()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => self.double().partial_cmp(&other.double()),
        }
    }

    fn whole(self) -> Option<i128> {
        match self {
            Self::Int(number) => Some(number.into()),
            Self::Uint(number) => Some(number.into()),
            Self::Double(_) => None,
        }
    }
}

/// Compares two numbers, two strings or two booleans. Other operands are an error.
pub(super) fn compare(one: &Value, other: &Value) -> Result<Ordering, Failure> {
    let order = match (one, other) {
        (Value::Number(one), Value::Number(other)) => Numeric::of(one).compare(Numeric::of(other)),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    };
    order.ok_or(Failure::Operands)
}

/// Applies an arithmetic operator to two whole numbers or to two doubles. Fails if only one of the numbers is a double.
pub(super) fn calculate(operator: &str, one: &Number, other: &Number) -> Result<Value, Failure> {
    let (one, other) = (Numeric::of(one), Numeric::of(other));
    if let (Numeric::Double(one), Numeric::Double(other)) = (one, other) {
        return Ok(match operator {
            name::ADD => one + other,
            name::SUBSTRACT => one - other,
            name::MULTIPLY => one * other,
            name::DIVIDE => one / other,
            _ => return Err(Failure::Operands),
        }
        .into());
    }
    let is_uint = matches!((one, other), (Numeric::Uint(_), Numeric::Uint(_)));
    let (Some(one), Some(other)) = (one.whole(), other.whole()) else { return Err(Failure::Operands) };
    let result = match operator {
        name::ADD => one.checked_add(other),
        name::SUBSTRACT => one.checked_sub(other),
        name::MULTIPLY => one.checked_mul(other),
        name::DIVIDE => one.checked_div(other),
        name::MODULO => one.checked_rem(other),
        _ => return Err(Failure::Operands),
    };
    let result = result.ok_or(Failure::Arithmetic)?;
    let result = if is_uint { u64::try_from(result).map(Value::from) } else { i64::try_from(result).map(Value::from) };
    result.map_err(|_| Failure::Arithmetic)
}

/// Returns the number with the opposite sign.
pub(super) fn negate(number: &Number) -> Result<Value, Failure> {
    match Numeric::of(number) {
        Numeric::Double(number) => Ok((-number).into()),
        Numeric::Int(number) => number.checked_neg().map(Value::from).ok_or(Failure::Arithmetic),
        Numeric::Uint(_) => Err(Failure::Operands),
    }
}
