//! Parses and formats durations in kubectl's notation, such as `1h30m`.

use std::time::Duration;

use k8s_openapi::jiff::fmt::friendly::{Spacing, SpanParser, SpanPrinter};

/// Parses a duration, such as `90` (seconds), `90s`, `5m` or `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    // `SpanParser` also accepts spaces, fractions and units below a second. Refuse strings that contain any of these.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let duration = SpanParser::new().parse_unsigned_duration(text).ok();
    duration.filter(|duration| is_plain && duration.subsec_nanos() == 0).ok_or_else(|| {
        "this is not a duration; write hours, minutes and seconds such as 60s, 5m or 1h30m, or only seconds such as 60".to_owned()
    })
}

/// Parses a time limit. As in kubectl, 0 means no limit.
pub(crate) fn parse_limit(text: &str) -> Result<Duration, String> {
    parse(text).map(|limit| if limit.is_zero() { Duration::MAX } else { limit })
}

/// Formats a duration, such as `1h30m`.
pub(crate) fn describe(duration: &Duration) -> String {
    SpanPrinter::new().spacing(Spacing::None).unsigned_duration_to_string(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit() {
        assert_eq!((parse_limit("0"), parse_limit("1m")), (Ok(Duration::MAX), Ok(Duration::from_mins(1))));
    }

    #[test]
    fn parses_and_prints_durations() {
        for (text, seconds, formatted) in [
            ("60", 60, "1m"),
            ("60s", 60, "1m"),
            ("5m", 300, "5m"),
            ("1h30m", 5400, "1h30m"),
            ("0", 0, "0s"),
            ("1h5s", 3605, "1h5s"),
        ] {
            let parsed = parse(text).unwrap();
            assert_eq!((parsed, describe(&parsed).as_str()), (Duration::from_secs(seconds), formatted), "{text}");
        }
    }

    #[test]
    fn rejects_invalid_durations() {
        for text in [
            "",
            "x",
            "5 m",
            "m",
            "-1",
            "1.5h",
            "30m1h",
            "5m5",
            "5d",
            "5ms",
            "99999999999999999999s",
            "9999999999999999999h",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("write hours, minutes and seconds such as 60s, 5m or 1h30m"), "{text}: {error}");
        }
    }
}
