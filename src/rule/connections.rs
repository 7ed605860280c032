//! Whether the database takes the connections that the services may open: pods × connections of a pool, at least.

use serde_json::Value;

use super::{Cloud, Judged};
use crate::values::{Path, Values, get, leaves};

/// Upstream's own limit (`conf.database.my` of the chart mariadb).
const DEFAULT_LIMIT: u64 = 8192;
/// What MariaDB's configuration calls it.
const OPTION: &str = "max_connections";

/// What the pools that values size come to, where that is more than the database takes. Every pod counts with one process: what is told is the least.
pub(super) fn judge(cloud: &Cloud<'_>) -> Option<Judged> {
    let database = cloud.values.get("mariadb")?;
    let (path, limit) = limit(database).unwrap_or_else(|| (["conf", "database"].into_iter().collect(), DEFAULT_LIMIT));
    let asked = cloud.values.iter().filter_map(|(name, values)| Some((*name, asked(values)?)));
    let mut asked: Vec<(&str, u64)> = asked.collect();
    asked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total: u64 = asked.iter().map(|(_, count)| count).sum();
    let most: Vec<String> = asked.iter().take(3).map(|(name, count)| format!("{name} {count}")).collect();
    (total > limit).then(|| {
        let message = format!(
            "the pools of the services come to {total} connections at least ({}, pods × (max_pool_size + max_overflow)), and the database takes {limit}: \
             services fail when it is busy; make the pools smaller, or {OPTION} larger",
            most.join(", ")
        );
        Judged::warning("connections", cloud.field("mariadb", &path), message)
    })
}

/// Where the values say how many connections the database takes: the last word counts.
fn limit(values: &Values) -> Option<(Path, u64)> {
    let said = |(path, value): (Path, &Value)| {
        let text = value.as_str()?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut lines = lines;
        let number = lines.rfind(|(key, _)| key.trim().replace('-', "_") == OPTION)?.1;
        Some((path, number.trim().parse().ok()?))
    };
    leaves(values).into_iter().filter_map(said).next_back()
}

/// How many connections the pods of a release may open, where values say how large their pools are.
fn asked(values: &Values) -> Option<u64> {
    let files = get(values, &["conf"].into_iter().collect())?.as_object()?;
    let pool = files.values().find_map(|file| {
        let database = file.get("database")?;
        let number = |key: &str| database.get(key).and_then(Value::as_u64);
        Some(number("max_pool_size")? + number("max_overflow")?)
    })?;
    let replicas = get(values, &["pod", "replicas"].into_iter().collect())?.as_object()?;
    // Consoles and proxies ask others, never the database.
    let of_database = replicas.iter().filter(|(name, _)| !name.contains("proxy"));
    Some(of_database.filter_map(|(_, count)| count.as_u64()).sum::<u64>() * pool)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn values(value: Value) -> Values {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn pods_times_pools_is_what_is_asked() {
        let nova = json!({"conf": {"nova": {"database": {"max_pool_size": 5, "max_overflow": 15}}},
                          "pod": {"replicas": {"osapi": 3, "conductor": 3, "novncproxy": 3}}});
        assert_eq!(asked(&values(nova)), Some(120));
        assert_eq!(asked(&values(json!({"conf": {"nova": {}}, "pod": {"replicas": {"osapi": 3}}}))), None);
    }

    #[test]
    fn the_limit_is_read_from_the_configuration() {
        let text = "[mysqld]\nmax-connections = 512\n";
        let read = limit(&values(json!({"conf": {"database": {"config_override": text}}})));
        assert_eq!(
            read.map(|(path, limit)| (path.to_string(), limit)),
            Some(("conf.database.config_override".into(), 512))
        );
    }
}
