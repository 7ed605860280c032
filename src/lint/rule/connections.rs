//! Whether the database takes the connections that the services may open: pods × processes × pools × connections of a pool (the catalogue's
//! `pools`, in `values/rules.yaml`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Cloud, Judged};
use osdpl_core::catalog::Pool;
use osdpl_values::{Path, Values, get, leaves};

/// Upstream's own limit (`conf.database.my` of the chart mariadb).
const DEFAULT_LIMIT: u64 = 8192;
/// What MariaDB's configuration calls it.
const OPTION: &str = "max_connections";
/// What oslo.db makes of a pool's two numbers where nobody sets them (`oslo_db/options.py`).
const OF_A_POOL: [(&str, u64); 2] = [("max_pool_size", 5), ("max_overflow", 50)];

/// What the pools come to, where that is more than the database takes.
pub(super) fn judge(cloud: &Cloud<'_>) -> Option<Judged> {
    let database = cloud.values.get("mariadb")?;
    let (path, limit) = limit(database).unwrap_or_else(|| (["conf", "database"].into_iter().collect(), DEFAULT_LIMIT));
    let mut asked: Vec<(&str, u64)> = connections(&cloud.catalog.judgements.pools, &cloud.values).into_iter().collect();
    asked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let total = asked.iter().fold(0, |total: u64, (_, count)| total.saturating_add(*count));
    let most: Vec<String> = asked.iter().take(3).map(|(name, count)| format!("{name} {count}")).collect();
    (total > limit).then(|| {
        let message = format!(
            "the pools of the services come to {total} connections (most of all {}: pods × processes × pools × (max_pool_size + max_overflow), or × 1 \
             where nobody sets those), and the database takes {limit}: services fail when it is busy; make the pools smaller, or {OPTION} larger",
            most.join(", ")
        );
        Judged::warning("connections", cloud.field("mariadb", &path), message)
    })
}

/// How many connections to the database each release may open: at least one for each process, where its values do not say how large its pools are.
pub fn connections<'a>(pools: &'a [Pool], values: &BTreeMap<&str, &Values>) -> BTreeMap<&'a str, u64> {
    let mut asked = BTreeMap::new();
    for pool in pools {
        let count = values.get(pool.release.as_str()).map(|values| asked_by(pool, values)).unwrap_or_default();
        let all: &mut u64 = asked.entry(pool.release.as_str()).or_default();
        *all = all.saturating_add(count);
    }
    asked.retain(|_, count| *count > 0);
    asked
}

fn asked_by(pool: &Pool, values: &Values) -> u64 {
    let number = |path: &Path| match get(values, path)? {
        Value::String(text) => behind(text, "processes="),
        other => other.as_u64(),
    };
    let section = pool.section.as_ref().and_then(|section| get(values, section));
    let said = OF_A_POOL.map(|(key, usual)| (section.and_then(|section| section.get(key)?.as_u64()), usual));
    let size = if said.iter().all(|(said, _)| said.is_none()) {
        1
    } else {
        said.iter().map(|(said, usual)| said.unwrap_or(*usual)).fold(0, u64::saturating_add)
    };
    let pods = number(&pool.pods).unwrap_or(1);
    let workers = pool.workers.iter().find_map(number).unwrap_or(pool.processes);
    [workers.saturating_add(pool.beside), pool.pools, size].into_iter().fold(pods, u64::saturating_mul)
}

/// The number behind a word in a text.
fn behind(text: &str, word: &str) -> Option<u64> {
    let rest = text.split(word).nth(1)?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
    fn values(value: Value) -> Values {
        value.as_object().unwrap().clone()
    }

    fn asked(value: Value) -> Option<u64> {
        let path = |text: &str| Path::parse(text).unwrap();
        let pool = Pool {
            release: "nova".into(),
            pods: path("pod.replicas.osapi"),
            workers: vec![path("conf.uwsgi.processes"), path("conf.workers")],
            processes: 2,
            beside: 1,
            pools: 4,
            section: Some(path("conf.nova.database")),
        };
        let values = values(value);
        connections(&[pool], &BTreeMap::from([("nova", &values)])).remove("nova")
    }

    #[test]
    fn pods_times_processes_times_pools_is_what_is_asked_and_one_each_where_nobody_says_how_large_they_are() {
        let pods = json!({"replicas": {"osapi": 3}});
        let pool = json!({"max_pool_size": 5, "max_overflow": 15});
        assert_eq!(
            asked(json!({"conf": {"nova": {"database": pool}, "workers": 9}, "pod": pods})),
            Some(3 * 10 * 4 * 20)
        );
        let site = "WSGIDaemonProcess keystone processes=4 threads=1";
        assert_eq!(asked(json!({"conf": {"nova": {"database": pool}, "workers": site}})), Some(5 * 4 * 20));
        assert_eq!(asked(json!({"conf": {"nova": {"database": {"max_pool_size": 5}}}})), Some(3 * 4 * 55));
        assert_eq!(
            asked(json!({"conf": {"nova": {"database": {}}}, "pod": pods})),
            Some(3 * 3 * 4),
            "one each at least"
        );
        assert_eq!(asked(json!({})), Some(3 * 4));
        let both = json!({"conf": {"workers": 9, "uwsgi": {"processes": 400}}});
        assert_eq!(asked(both), Some(401 * 4), "the first place that is set counts");
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
