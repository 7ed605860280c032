//! Checks that the database accepts as many connections as the services can open at the same time.
//!
//! Each release opens up to pods × processes × pools × connections per pool. The catalogue lists the connection pools
//! in `values/rules.yaml`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cloud::Cloud;
use osdpl_core::catalog::ConnectionPool;
use osdpl_core::finding::Finding;
use osdpl_values::{Path, Values, get, leaves};

/// The limit of connections in the default values of upstream's chart mariadb (`conf.database.my`).
const DEFAULT_LIMIT: u64 = 8192;
/// The option in MariaDB's configuration that limits the connections.
const OPTION: &str = "max_connections";
/// The defaults of oslo.db for the size of a connection pool (`oslo_db/options.py`).
const POOL_DEFAULTS: [(&str, u64); 2] = [("max_pool_size", 5), ("max_overflow", 50)];

/// Returns a finding if all releases together can open more connections than the database accepts. Returns `None` for a
/// cloud without the release `mariadb`.
pub(super) fn check(cloud: &Cloud<'_>) -> Option<Finding> {
    let database = cloud.values.get("mariadb")?;
    let (path, limit) = limit(database).unwrap_or_else(|| (["conf", "database"].into_iter().collect(), DEFAULT_LIMIT));
    let mut requested: Vec<(&str, u64)> =
        count_connections(&cloud.catalog.cross_checks.pools, &cloud.values).into_iter().collect();
    requested.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = requested.iter().fold(0, |total: u64, (_, count)| total.saturating_add(*count));
    let most: Vec<String> = requested.iter().take(3).map(|(name, count)| format!("{name} {count}")).collect();
    (total > limit).then(|| {
        let message = format!(
            "the services may open {total} database connections (most: {}), but the database accepts {limit}: services \
             fail under load; reduce the pools, or raise {OPTION} (a service opens pods × processes × pools × \
             (max_pool_size + max_overflow) connections; if both options are unset, the last factor is 1)",
            most.join(", ")
        );
        Finding::warning("connections", cloud.field("mariadb", &path), message)
    })
}

/// Returns the maximum number of database connections that each release can open.
///
/// If the values set only one of `max_pool_size` and `max_overflow` for a pool, the setting that is missing has the
/// default of oslo.db. If the values set neither, the function counts one connection for the pool.
pub fn count_connections<'a>(pools: &'a [ConnectionPool], values: &BTreeMap<&str, &Values>) -> BTreeMap<&'a str, u64> {
    let mut requested = BTreeMap::new();
    for pool in pools {
        let count = values.get(pool.release.as_str()).map(|values| count_for(pool, values)).unwrap_or_default();
        let all: &mut u64 = requested.entry(pool.release.as_str()).or_default();
        *all = all.saturating_add(count);
    }
    requested.retain(|_, count| *count > 0);
    requested
}

fn count_for(pool: &ConnectionPool, values: &Values) -> u64 {
    let number = |path: &Path| match get(values, path)? {
        Value::String(text) => number_after(text, "processes="),
        other => other.as_u64(),
    };
    let section = pool.section.as_ref().and_then(|section| get(values, section));
    let settings =
        POOL_DEFAULTS.map(|(key, default)| (section.and_then(|section| section.get(key)?.as_u64()), default));
    let size = if settings.iter().all(|(value, _)| value.is_none()) {
        1
    } else {
        settings.iter().map(|(value, default)| value.unwrap_or(*default)).fold(0, u64::saturating_add)
    };
    let pods = number(&pool.pods).unwrap_or(1);
    let workers = pool.workers.iter().find_map(number).unwrap_or(pool.processes);
    [workers.saturating_add(pool.other_processes), pool.pools, size].into_iter().fold(pods, u64::saturating_mul)
}

/// Returns the number that follows `word` in a string, such as 4 in `processes=4`.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = text.split(word).nth(1)?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// Returns `max_connections` in MariaDB's configuration, and the path of the configuration file in the values.
///
/// If several lines set the option, the function uses the last one, as MariaDB does.
fn limit(values: &Values) -> Option<(Path, u64)> {
    let find_limit = |(path, value): (Path, &Value)| {
        let text = value.as_str()?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut lines = lines;
        let number = lines.rfind(|(key, _)| key.trim().replace('-', "_") == OPTION)?.1;
        Some((path, number.trim().parse().ok()?))
    };
    leaves(values).into_iter().filter_map(find_limit).next_back()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!`")]
    fn values(value: Value) -> Values {
        value.as_object().unwrap().clone()
    }

    fn requested(value: Value) -> Option<u64> {
        let path = |text: &str| Path::parse(text).unwrap();
        let pool = ConnectionPool {
            release: "nova".into(),
            pods: path("pod.replicas.osapi"),
            workers: vec![path("conf.uwsgi.processes"), path("conf.workers")],
            processes: 2,
            other_processes: 1,
            pools: 4,
            section: Some(path("conf.nova.database")),
        };
        let values = values(value);
        count_connections(&[pool], &BTreeMap::from([("nova", &values)])).remove("nova")
    }

    #[test]
    fn multiplies_pods_processes_and_pools() {
        let pods = json!({"replicas": {"osapi": 3}});
        let pool = json!({"max_pool_size": 5, "max_overflow": 15});
        assert_eq!(
            requested(json!({"conf": {"nova": {"database": pool}, "workers": 9}, "pod": pods})),
            Some(3 * 10 * 4 * 20)
        );
        let apache = "WSGIDaemonProcess keystone processes=4 threads=1";
        assert_eq!(requested(json!({"conf": {"nova": {"database": pool}, "workers": apache}})), Some(5 * 4 * 20));
        assert_eq!(requested(json!({"conf": {"nova": {"database": {"max_pool_size": 5}}}})), Some(3 * 4 * 55));
        assert_eq!(
            requested(json!({"conf": {"nova": {"database": {}}}, "pod": pods})),
            Some(3 * 3 * 4),
            "a pool counts as one connection if the values do not set its size"
        );
        assert_eq!(requested(json!({})), Some(3 * 4));
        let both = json!({"conf": {"workers": 9, "uwsgi": {"processes": 400}}});
        assert_eq!(requested(both), Some(401 * 4), "if several paths of `workers` have values, the first counts");
    }

    #[test]
    fn reads_the_limit_from_the_configuration() {
        let text = "[mysqld]\nmax-connections = 512\n";
        let read = limit(&values(json!({"conf": {"database": {"config_override": text}}})));
        assert_eq!(
            read.map(|(path, limit)| (path.to_string(), limit)),
            Some(("conf.database.config_override".into(), 512))
        );
    }
}
