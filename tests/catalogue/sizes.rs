//! Checks the presets `single`, `small`, `medium` and `large`, which set a cloud's size: the services open fewer
//! database connections than the preset allows, and osdpl refuses settings that contradict the size.

use osdpl_core::catalog::{Catalog, ConnectionPool};
use osdpl_core::desired::Desired;
use serde_json::{Value, json};

use crate::clouds::{at, catalogue, files, refusals, resolved};

const SIZES: [&str; 4] = ["single", "small", "medium", "large"];

fn number(desired: &Desired, release: &str, path: &str) -> u64 {
    let found = at(&desired.releases[release].values, path);
    found.map_or(1, |value| value.as_u64().unwrap_or_else(|| panic!("{release}: {path} is {value}")))
}

/// Returns the number after `key=` in a text.
fn number_after(text: &str, key: &str) -> u64 {
    let rest = text.split(&format!("{key}=")).nth(1).unwrap_or_else(|| panic!("no {key} in {text}"));
    rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Returns the maximum number of connections that the services of a cloud open to the database.
fn connections(catalog: &Catalog, desired: &Desired) -> u64 {
    let values = desired.releases.iter().map(|(name, release)| (name.as_str(), &release.values)).collect();
    osdpl_lint::rule::count_connections(&catalog.cross_checks.pools, &values).into_values().sum()
}

/// Returns the connection limit that the preset sets for the database.
fn most(desired: &Desired) -> u64 {
    let text = at(&desired.releases["mariadb"].values, "conf.database.config_override").unwrap();
    number_after(text.as_str().unwrap(), "max_connections")
}

fn spec(presets: &[&str]) -> Value {
    let mut spec = json!({"openstackRelease": "2026.1", "presets": presets});
    if presets.contains(&"storage") {
        spec["features"] = json!({"storage": {"ceph": {"mode": "external", "secret": {"name": "ceph"}}}});
    }
    spec
}

/// Returns valid lists of presets, each of which contains the preset of this size.
fn kinds(size: &'static str) -> Vec<Vec<&'static str>> {
    let kinds = [&["core"][..], &["compute"], &["storage"], &["core", "storage"], &["compute", "storage"]];
    let plain = kinds.iter().map(|kind| [*kind, &[size]].concat());
    let ha = kinds.iter().filter(|_| size != "single").map(|kind| [*kind, &[size, "ha"]].concat());
    plain.chain(ha).collect()
}

#[test]
fn every_size_stays_below_its_connection_limit() {
    let catalog = catalogue();
    let all = SIZES.iter().flat_map(|size| kinds(size));
    for spec in all.map(|presets| spec(&presets)) {
        let presets = &spec["presets"];
        let desired = resolved(catalog, &spec);
        assert_eq!(refusals(&desired), Vec::<String>::new(), "{presets:?}");
        let (used, limit) = (connections(catalog, &desired), most(&desired));
        // The services may use 90 % of the connections that the database allows. The rest is for Jobs, consoles,
        // exporters and administrators.
        assert!(used * 10 <= limit * 9, "{presets:?}: {used} connections are more than 90 % of the limit {limit}");
    }
}

/// Returns the numbers in each row of a size preset's table of connection pools. In the row
/// `keystone/api 3 x 2 x 1 = 6`, they are the number of pods, the processes of a pod, the pools of a process, and the
/// product of the three.
fn rows(text: &str) -> impl Iterator<Item = [u64; 4]> {
    text.lines().filter(|line| line.contains('/') && line.contains(" x ") && line.contains(" = ")).filter_map(|line| {
        let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        <[u64; 4]>::try_from(numbers.collect::<Vec<_>>()).ok()
    })
}

/// If a size sets the database pools of a release, `values/rules.yaml` must count these pools.
#[test]
fn counts_every_pool_that_a_size_sets() {
    let catalog = catalogue();
    let counted = |release: &str| catalog.cross_checks.pools.iter().any(|pool| pool.release == release);
    for size in SIZES {
        let preset: Value =
            osdpl_values::yaml::parse(size, &files()[&format!("presets/{size}.yaml")].as_written()).unwrap();
        let fragments = preset["fragments"].as_array().unwrap().iter();
        let set = fragments.filter_map(|fragment| fragment["releases"].as_object()).flatten();
        let set: Vec<_> = set.filter(|(_, own)| own.to_string().contains("max_pool_size")).collect();
        assert!(set.len() > 15, "{size}: {}", set.len());
        for (release, _) in set {
            assert!(
                counted(release),
                "presets/{size}.yaml sets the pools of {release}, so values/rules.yaml must count them"
            );
        }
    }
}

#[test]
fn sum_in_each_file_matches_the_largest_cloud() {
    let catalog = catalogue();
    for size in SIZES {
        let largest = kinds(size).into_iter().max_by_key(|kind| connections(catalog, &resolved(catalog, &spec(kind))));
        let desired = resolved(catalog, &spec(&largest.unwrap()));
        let files = files();
        let text = files[&format!("presets/{size}.yaml")].as_written();
        assert_eq!(rows(&text).map(|[pods, processes, pools, all]| pods * processes * pools - all).max(), Some(0));
        let pools: u64 = rows(&text).map(|[.., all]| all).sum();
        assert!(
            text.contains(&format!(" {pools} pools x ")),
            "presets/{size}.yaml must contain the sum of its rows, {pools} pools"
        );
        let expected = format!(": {} of {}.", connections(catalog, &desired), most(&desired));
        assert!(text.contains(&expected), "presets/{size}.yaml must contain {expected:?}");
    }
}

#[test]
fn larger_sizes_have_larger_values() {
    let catalog = catalogue();
    let clouds = SIZES.map(|size| resolved(catalog, &spec(&["compute", size])));
    for pair in clouds.windows(2) {
        assert!(connections(catalog, &pair[0]) < connections(catalog, &pair[1]) && most(&pair[0]) < most(&pair[1]));
        for ConnectionPool { release, pods, workers, .. } in &catalog.cross_checks.pools {
            let paths = std::iter::once(pods).chain(workers).map(ToString::to_string);
            for path in paths.filter(|path| pair[0].releases.contains_key(release) && path != "conf.wsgi_keystone") {
                assert!(number(&pair[0], release, &path) <= number(&pair[1], release, &path), "{release}: {path}");
            }
        }
        let memory = |cloud: &Desired| number(cloud, "memcached", "conf.memcached.memory");
        assert!(memory(&pair[0]) < memory(&pair[1]));
    }
}

#[test]
fn single_has_one_of_everything() {
    let desired = resolved(catalogue(), &spec(&["compute", "storage", "single"]));
    for (name, release) in &desired.releases {
        let replicas = at(&release.values, "pod.replicas").and_then(Value::as_object);
        assert!(replicas.into_iter().flatten().all(|(_, count)| *count == 1), "{name}: {replicas:?}");
    }
}

#[test]
fn large_and_ha_commute() {
    let catalog = catalogue();
    let [one, other] = [["compute", "storage", "large", "ha"], ["ha", "large", "storage", "compute"]]
        .map(|presets| resolved(catalog, &spec(&presets)));
    for (name, release) in &one.releases {
        assert_eq!(release.values, other.releases[name].values, "{name}");
    }
    assert_eq!(number(&one, "nova", "pod.replicas.conductor"), 5);
    let partitions = at(&one.releases["rabbitmq"].values, "conf.rabbitmq.cluster_partition_handling");
    assert_eq!(partitions, Some(&json!("pause_minority")));
}

#[test]
fn refuses_contradicting_sizes_with_both_names() {
    let catalog = catalogue();
    for [first, second] in [
        ["single", "ha"],
        ["single", "small"],
        ["medium", "single"],
        ["large", "single"],
        ["medium", "small"],
        ["small", "large"],
        ["medium", "large"],
    ] {
        let names = [first, second].map(|preset| format!("`{preset}`"));
        let parts = ["spec.presets[2]: ", "(spec.presets[1])", &names[0], &names[1], "remove one"];
        assert_refused(catalog, &["compute", first, second], &json!({}), &parts);
    }
}

/// Checks that osdpl refuses a cloud with these presets and features, and that one message contains all of `parts`.
fn assert_refused(catalog: &Catalog, presets: &[&str], features: &Value, parts: &[&str]) {
    let spec = json!({"openstackRelease": "2026.1", "presets": presets, "features": features});
    let refusals = refusals(&resolved(catalog, &spec));
    let is_reported = refusals.iter().any(|refusal| parts.iter().all(|part| refusal.contains(part)));
    assert!(is_reported, "{presets:?} {features}: {refusals:#?}");
}

#[test]
fn refuses_storage_that_contradicts_the_size() {
    let catalog = catalogue();
    let rook = |pools: Value| json!({"storage": {"ceph": {"mode": "rook", "rook": {"pools": pools}}}});
    let local = json!({"storage": {"backend": "local"}});
    let cases: &[(&[&str], Value, &[&str])] = &[
        (&["compute", "small"], local.clone(), &["spec.features.storage.backend: ", "`small`", "local", "`single`"]),
        (&["compute", "medium"], local.clone(), &["spec.features.storage.backend: ", "`medium`", "local", "`single`"]),
        (&["compute", "large"], local, &["spec.features.storage.backend: ", "`large`", "local", "`single`"]),
        (
            &["compute", "storage", "single"],
            json!({"storage": {"ceph": {"mode": "rook"}}}),
            &["spec.features.storage.ceph.rook.pools: ", "`single`", "`storage`", "replicas: 1"],
        ),
        (
            &["compute", "storage", "single"],
            rook(json!({"images": {"replicas": 1}, "volumes": {"failureDomain": "osd"}, "backups": {"replicas": 3}})),
            &["spec.features.storage.ceph.rook.pools: ", "`single`", "`storage`", "failureDomain: osd"],
        ),
    ];
    for (presets, features, parts) in cases {
        assert_refused(catalog, presets, features, parts);
    }
    let one = json!({"replicas": 1});
    let pools = rook(json!({"images": one, "volumes": one, "backups": {"failureDomain": "osd"}, "vms": one}));
    let fits = json!({"openstackRelease": "2026.1", "presets": ["compute", "storage", "single"], "features": pools});
    assert_eq!(refusals(&resolved(catalog, &fits)), Vec::<String>::new());
}

#[test]
fn warns_of_many_servers_with_one_database() {
    let catalog = catalogue();
    let findings =
        |spec: &Value| -> Vec<String> { resolved(catalog, spec).findings.iter().map(ToString::to_string).collect() };
    let alone = findings(&spec(&["compute", "large"]));
    assert!(alone.iter().any(|finding| finding.contains("`large` without `ha`")), "{alone:?}");
    let mut outside = spec(&["compute", "medium", "ha"]);
    outside["services"]["mariadb"] =
        json!({"external": {"host": "db.example.org"}, "credentials": {"root": {"name": "db", "key": "password"}}});
    let outside = findings(&outside);
    let expected = "spec.services.mariadb.external: with the preset `medium` the services open up to 6795 connections";
    assert!(outside.iter().any(|finding| finding.starts_with(expected)), "{outside:?}");
}
