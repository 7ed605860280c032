//! Schedules of `CronJobs`: where one is wrong, the API server refuses the whole upgrade half way.

use serde_json::Value;

use super::{Cloud, Judged};
use osdpl_values::{Path, leaves_named};

/// The fields of a schedule with their bounds and the names that stand for numbers (robfig/cron's standard parser, which Kubernetes uses).
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of the month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of the week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
/// What stands for a whole schedule.
const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// Keys whose text is a schedule: `jobs.*.cron` of the charts, `schedule` of features.
const KEYS: [&str; 3] = ["cron", "schedule", "crontab"];

/// What is wrong with the schedules of releases and of the spec's features.
pub(super) fn judge(cloud: &Cloud<'_>) -> Vec<Judged> {
    let features = leaves_named(&cloud.spec.features, |key| KEYS.contains(&key)).into_iter();
    let of_features: Vec<(String, &Value, String)> = features
        .filter_map(|(path, value)| Some((format!("spec.features.{path}"), value, problem(&path, value, false)?)))
        .collect();
    // What its schema refuses is told of with what belongs there.
    let is_refused = |field: &String| cloud.selection.findings.iter().any(|told| told.field == *field);
    let told = of_features.iter().filter(|(field, ..)| !is_refused(field));
    let mut found: Vec<(String, String)> = told.map(|(field, _, problem)| (field.clone(), problem.clone())).collect();
    for (name, values) in &cloud.values {
        for (path, value) in leaves_named(values, |key| KEYS.contains(&key)) {
            let Some(problem) = problem(&path, value, cloud.decided(name, &path).1) else { continue };
            let field = cloud.field(name, &path);
            // What a feature was given is told of there, and what is common to several releases once.
            let is_given = |(given, text, _): &(String, &Value, String)| {
                *text == value && given.strip_prefix(field.as_str()).is_some_and(|below| below.starts_with('.'))
            };
            let told = (field.clone(), format!("{}{problem}", cloud.before(name, &path)));
            if !of_features.iter().any(is_given) && !found.contains(&told) {
                found.push(told);
            }
        }
    }
    found.into_iter().map(|(field, problem)| Judged::error("cron", field, problem)).collect()
}

fn problem(path: &Path, value: &Value, is_secret: bool) -> Option<String> {
    let text = value.as_str().filter(|_| path.keys()[0] != "conf")?;
    let problem = wrong(text)?;
    let said = if is_secret { "this is no schedule".to_owned() } else { format!("{text:?} is no schedule: {problem}") };
    Some(format!(
        "{said}; write minute, hour, day of the month, month and day of the week, such as \"0 3 * * *\" for every night at three"
    ))
}

/// Why a text is no schedule.
pub fn wrong(text: &str) -> Option<String> {
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Some("a CronJob's time zone stands in its timeZone".into());
    }
    if let Some(interval) = text.strip_prefix("@every ") {
        let is_duration = interval.ends_with(['s', 'm', 'h']) && interval.starts_with(|c: char| c.is_ascii_digit());
        return (!is_duration).then(|| format!("{interval:?} is no duration such as 1h30m"));
    }
    if text.starts_with('@') {
        return (!NAMED.contains(&text)).then(|| format!("{text} stands for none; there are {}", NAMED.join(", ")));
    }
    let parts: Vec<&str> = text.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Some(format!("it has {} fields, not 5", parts.len()));
    }
    parts.iter().zip(FIELDS).find_map(|(part, field)| part.split(',').find_map(|range| range_problem(range, field)))
}

/// Why `*`, `5`, `1-5`, `*/2` or `1-9/2` is none for this field.
fn range_problem(range: &str, (name, least, most, names): (&str, u32, u32, &[&str])) -> Option<String> {
    let (span, every) = range.split_once('/').map_or((range, None), |(span, every)| (span, Some(every)));
    if every.is_some_and(|every| every.parse::<u32>().map_or(true, |every| every == 0)) {
        return Some(format!("{range:?} of {name} has no step above 0"));
    }
    if span == "*" || span == "?" {
        return None;
    }
    let number = |text: &str| {
        let place = names.iter().position(|known| known.eq_ignore_ascii_case(text));
        // The first name of months stands for 1, the first of days for 0.
        place.and_then(|at| u32::try_from(at).ok()).map(|at| at + least).or_else(|| text.parse::<u32>().ok())
    };
    let (from, to) = span.split_once('-').unwrap_or((span, span));
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        return Some(format!("{range:?} is no {name}"));
    };
    if from < least || to > most {
        return Some(format!("{name} goes from {least} to {most}, not {range:?}"));
    }
    (from > to).then(|| format!("{range:?} of {name} ends before it begins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_that_kubernetes_takes_are_taken() {
        for text in ["0 3 * * *", "*/5 0-23/2 1,15 jan-mar MON-fri", "@daily", "@every 1h30m", "? * * * 0"] {
            assert_eq!(wrong(text), None, "{text}");
        }
    }

    #[test]
    fn others_are_refused_with_the_field() {
        let cases = [
            ("0 3 * *", "it has 4 fields, not 5"),
            ("", "it has 0 fields, not 5"),
            ("60 3 * * *", "minute goes from 0 to 59, not \"60\""),
            ("0 24 * * *", "hour goes from 0 to 23, not \"24\""),
            ("0 0 0 * *", "day of the month goes from 1 to 31, not \"0\""),
            ("0 0 * 13 *", "month goes from 1 to 12, not \"13\""),
            ("0 0 * * 7", "day of the week goes from 0 to 6, not \"7\""),
            ("*/0 * * * *", "\"*/0\" of minute has no step above 0"),
            ("5-1 * * * *", "\"5-1\" of minute ends before it begins"),
            ("0 0 * * someday", "\"someday\" is no day of the week"),
            ("@noon", "@noon stands for none; there are @yearly, @annually"),
            ("@every day", "\"day\" is no duration such as 1h30m"),
            ("TZ=UTC 0 0 * * *", "a CronJob's time zone stands in its timeZone"),
        ];
        for (text, expected) in cases {
            let said = wrong(text).unwrap_or_default();
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }
}
