//! Checks the schedules of `CronJobs`. Without this check, only the API server would refuse an invalid schedule, in the
//! middle of an upgrade.

use serde_json::Value;

use crate::cloud::Cloud;
use osdpl_core::finding::Finding;
use osdpl_values::{Path, leaves_with_key};

/// A field of a schedule.
struct Field {
    name: &'static str,
    /// The lowest number.
    least: u32,
    /// The highest number.
    most: u32,
    /// The words that users may write instead of numbers. The first word stands for the lowest number.
    words: &'static [&'static str],
}

/// The five fields of a schedule.
///
/// The limits and words are those of the standard parser of robfig/cron, which Kubernetes uses.
const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, words: &[] },
    Field { name: "hour", least: 0, most: 23, words: &[] },
    Field { name: "day of the month", least: 1, most: 31, words: &[] },
    Field {
        name: "month",
        least: 1,
        most: 12,
        words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { name: "day of the week", least: 0, most: 6, words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
/// Keywords that users may write instead of a schedule with five fields.
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// The keys whose values are schedules, such as `jobs.*.cron` of the charts and `schedule` of features.
const KEYS: [&str; 3] = ["cron", "schedule", "crontab"];

/// Checks the schedules of `CronJobs` in the values of releases and in the spec's features.
pub(super) fn check(cloud: &Cloud<'_>) -> Vec<Finding> {
    let features = leaves_with_key(&cloud.spec.features, |key| KEYS.contains(&key)).into_iter();
    let of_features: Vec<(String, &Value, String)> = features
        .filter_map(|(path, value)| {
            Some((format!("spec.features.{path}"), value, describe_problem(&path, value, false)?))
        })
        .collect();
    // If the schema of a feature already reports the field, drop this rule's finding: the schema's message describes
    // the valid values.
    let is_refused = |field: &String| cloud.selection.findings.iter().any(|finding| finding.location.field == *field);
    let reported = of_features.iter().filter(|(field, ..)| !is_refused(field));
    let mut found: Vec<(String, String)> =
        reported.map(|(field, _, problem)| (field.clone(), problem.clone())).collect();
    for (name, values) in &cloud.values {
        for (path, value) in leaves_with_key(values, |key| KEYS.contains(&key)) {
            let Some(problem) = describe_problem(&path, value, cloud.is_secret(name, &path)) else { continue };
            let field = cloud.field(name, &path);
            // Skip a value that comes from a feature, because another finding already reports the feature's field. If
            // one field sets the schedules of several releases, report the field only once.
            let is_of_feature = |(feature_field, text, _): &(String, &Value, String)| {
                *text == value && feature_field.strip_prefix(field.as_str()).is_some_and(|below| below.starts_with('.'))
            };
            let finding = (field.clone(), format!("{}{problem}", cloud.message_prefix(name, &path)));
            if !of_features.iter().any(is_of_feature) && !found.contains(&finding) {
                found.push(finding);
            }
        }
    }
    found.into_iter().map(|(field, problem)| Finding::error("cron", field, problem)).collect()
}

/// Returns the message about a value that is not a valid schedule; `None` for a valid schedule.
///
/// The function ignores values below `conf`, because these values are options of services, not schedules of `CronJobs`.
fn describe_problem(path: &Path, value: &Value, is_secret: bool) -> Option<String> {
    let text = value.as_str().filter(|_| path.keys()[0] != "conf")?;
    let problem = schedule_problem(text)?;
    let problem =
        if is_secret { "this is not a schedule".to_owned() } else { format!("{text:?} is not a schedule: {problem}") };
    Some(format!(
        "{problem}; write minute, hour, day of the month, month and day of the week, such as \"0 3 * * *\" for every night at three"
    ))
}

/// Returns why a string is not a schedule; `None` if it is a schedule.
fn schedule_problem(text: &str) -> Option<String> {
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Some("the time zone of a CronJob belongs in its field timeZone".into());
    }
    if let Some(interval) = text.strip_prefix("@every ") {
        let is_duration = interval.ends_with(['s', 'm', 'h']) && interval.starts_with(|c: char| c.is_ascii_digit());
        return (!is_duration).then(|| format!("{interval:?} is not a duration such as 1h30m"));
    }
    if text.starts_with('@') {
        return (!NAMED.contains(&text)).then(|| format!("{text} is unknown; choose from {}", NAMED.join(", ")));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!("it has {} fields, not 5", parts.len()));
    }
    parts.iter().zip(&FIELDS).find_map(|(part, field)| part.split(',').find_map(|range| range_problem(range, field)))
}

/// Returns why a range such as `*`, `5`, `1-5`, `*/2` or `1-9/2` is not valid for a field of [`FIELDS`]; `None` if it
/// is valid.
fn range_problem(range: &str, field: &Field) -> Option<String> {
    let Field { name, least, most, words } = *field;
    let (span, step) = range.split_once('/').map_or((range, None), |(span, step)| (span, Some(step)));
    if step.is_some_and(|step| step.parse::<u32>().map_or(true, |step| step == 0)) {
        return Some(format!("the step of the range {range:?} of the field {name} must be a number above 0"));
    }
    if span == "*" || span == "?" {
        return None;
    }
    let number = |text: &str| {
        let position = words.iter().position(|known| known.eq_ignore_ascii_case(text));
        // The first word stands for the lowest number of the field: `jan` is month 1, `sun` is day 0.
        position
            .and_then(|index| u32::try_from(index).ok())
            .map(|index| index + least)
            .or_else(|| text.parse::<u32>().ok())
    };
    let (from, to) = span.split_once('-').unwrap_or((span, span));
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        return Some(format!("{range:?} is not a valid {name}"));
    };
    if from < least || to > most {
        return Some(format!("{name} must be from {least} to {most}, not {range:?}"));
    }
    (from > to).then(|| format!("the range {range:?} of the field {name} ends before it begins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_schedules() {
        for text in ["0 3 * * *", "*/5 0-23/2 1,15 jan-mar MON-fri", "@daily", "@every 1h30m", "? * * * 0"] {
            assert_eq!(schedule_problem(text), None, "{text}");
        }
    }

    #[test]
    fn rejects_invalid_schedules() {
        let cases = [
            ("0 3 * *", "it has 4 fields, not 5"),
            ("", "it has 0 fields, not 5"),
            ("60 3 * * *", "minute must be from 0 to 59, not \"60\""),
            ("0 24 * * *", "hour must be from 0 to 23, not \"24\""),
            ("0 0 0 * *", "day of the month must be from 1 to 31, not \"0\""),
            ("0 0 * 13 *", "month must be from 1 to 12, not \"13\""),
            ("0 0 * * 7", "day of the week must be from 0 to 6, not \"7\""),
            ("*/0 * * * *", "the step of the range \"*/0\" of the field minute must be a number above 0"),
            ("5-1 * * * *", "the range \"5-1\" of the field minute ends before it begins"),
            ("0 0 * * someday", "\"someday\" is not a valid day of the week"),
            ("@noon", "@noon is unknown; choose from @yearly, @annually"),
            ("@every day", "\"day\" is not a duration such as 1h30m"),
            ("TZ=UTC 0 0 * * *", "the time zone of a CronJob belongs in its field timeZone"),
        ];
        for (text, expected) in cases {
            let problem = schedule_problem(text).unwrap_or_default();
            assert!(problem.starts_with(expected), "{text}: {problem}");
        }
    }
}
