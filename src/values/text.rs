//! Converts values to text.

use serde_json::{Number, Value};

/// The smallest exponent for which Go's `%v` prints a float with an exponent, such as `1e+06` (`strconv`, format `g`,
/// shortest representation).
const GO_EXPONENT: i32 = 6;

/// Returns the text of a string, and any other value as JSON.
pub fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns what a chart's template prints for a large number; `None` for a number below a million, which has no
/// exponent.
///
/// helm reads numbers as floats, so a template prints `12345678` as `1.2345678e+07`.
pub fn print_large_number(number: &Number) -> Option<String> {
    let text = format!("{:e}", number.as_f64()?);
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    (exponent >= GO_EXPONENT).then(|| format!("{mantissa}e+{exponent:02}"))
}
