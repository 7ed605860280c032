//! Checks that each key in the values of the shipped catalogue is a key that a chart reads.

use std::collections::BTreeSet;

use osdpl_core::catalog::Catalog;
use osdpl_core::desired::{KeyState, classify_key};
use osdpl_values as values;
use serde_json::Value;

use crate::clouds::{catalogue, files};

/// A key of a subchart, which the test must ignore. The chart's key tree lacks this key, because osdpl generated the
/// tree before key trees contained the keys of subcharts.
const WITHIN: &str = "cortex-postgres.auth.password";

/// A key of Neutron's configuration, which the test must ignore. The chart's values do not list the section
/// `ml2_type_vlan`, so osdpl takes this section for a typo of the listed section `ml2_type_vxlan`.
const SISTER: &str = "conf.plugins.ml2_conf.ml2_type_vlan.network_vlan_ranges";

#[test]
fn every_value_has_a_key_in_its_chart() {
    let catalog = catalogue();
    // Load only the key trees, without the catalogue's values. osdpl accepts every key that the catalogue's values
    // contain, so with the values it would not report a key that no chart reads.
    let keys = files().into_iter().filter(|(file, _)| file.starts_with("values/keys/")).collect();
    let keys_alone = Catalog::load(&keys).unwrap();
    for slip in ["pod.replicass.api", "conf.keystone.databse.max_retries", "endpoints.identity.prot.api"] {
        let path = values::Path::parse(slip).unwrap();
        assert!(matches!(classify_key(&keys_alone, "keystone", &path), Some(KeyState::No(_))), "{slip}");
    }
    let mut wrong = BTreeSet::new();
    for (name, release) in catalog.services.values().flat_map(|service| &service.releases) {
        for body in catalog.bodies(name) {
            let values = body.values();
            let set = values::leaves(&values).into_iter().map(|(path, _)| path).chain(body.unset.iter().cloned());
            let known = |path: &values::Path| classify_key(&keys_alone, &release.chart, path).unwrap();
            let unread = set.filter(|path| {
                matches!(known(path), KeyState::No(_)) && ![WITHIN, SISTER].contains(&&*path.to_string())
            });
            wrong.extend(unread.map(|path| format!("{name}: {path}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_common_value_reaches_a_chart() {
    let catalog = catalogue();
    for (file, text) in files() {
        let parsed: Value = osdpl_values::yaml::parse(&file, &text.as_written()).unwrap();
        for (index, fragment) in parsed["fragments"].as_array().into_iter().flatten().enumerate() {
            let Some(every) = fragment["every"]["values"].as_object() else { continue };
            for (path, _) in values::leaves(every) {
                let reached = catalog.keys().any(|tree| tree.has_path(&path));
                assert!(reached, "{file} fragments[{index}]: no chart has the key {path}");
            }
        }
    }
}
