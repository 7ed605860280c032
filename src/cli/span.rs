//! Durations in kubectl's notation.

use std::fmt;
use std::time::Duration;

/// A duration: `90`, `90s`, `5m`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationArgument(Duration);

/// The units with their seconds, the longest first.
const UNITS: [(char, u64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

impl DurationArgument {
    /// Returns a number of seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns the duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

/// Parses a duration.
pub fn span(text: &str) -> Result<DurationArgument, String> {
    parse(text).map(DurationArgument::seconds).ok_or_else(|| {
        "this is not a duration; write hours, minutes and seconds such as 60s, 5m or 1h30m, or only seconds such as 60".to_owned()
    })
}

/// Returns the seconds of a text; each unit may occur once, the longer one first.
fn parse(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut rest, mut seconds) = (text, 0_u64);
    for (unit, length) in UNITS {
        let Some((number, after)) = rest.split_once(unit) else { continue };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(length)?)?;
        rest = after;
    }
    (rest.is_empty() && !text.is_empty()).then_some(seconds)
}

impl fmt::Display for DurationArgument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_secs();
        for (unit, length) in UNITS {
            let is_last = length == 1 && self.0.is_zero();
            if rest >= length || is_last {
                write!(formatter, "{}{unit}", rest / length)?;
                rest %= length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_durations() {
        for (text, seconds, shown) in [
            ("60", 60, "1m"),
            ("60s", 60, "1m"),
            ("5m", 300, "5m"),
            ("1h30m", 5400, "1h30m"),
            ("0", 0, "0s"),
            ("1h5s", 3605, "1h5s"),
        ] {
            let read = span(text).unwrap();
            assert_eq!((read, read.to_string().as_str()), (DurationArgument::seconds(seconds), shown), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_durations() {
        for text in
            ["", "x", "5 m", "m", "-1", "1.5h", "30m1h", "5m5", "5d", "99999999999999999999s", "9999999999999999999h"]
        {
            let refused = span(text).unwrap_err();
            assert!(refused.contains("write hours, minutes and seconds such as 60s, 5m or 1h30m"), "{text}: {refused}");
        }
    }
}
