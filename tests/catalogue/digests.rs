//! Checks that every version of osdpl computes the same two digests for a release: the digest of everything that osdpl
//! passes to helm, and the digest of the part that comes from the catalogue. Labels of helm's release records contain
//! these digests. If a new version of osdpl computed other digests from the same catalogue and spec, every cloud would
//! wait for an approval, and helm would run for every release.

use std::collections::BTreeMap;

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::catalog::{Catalog, Files};
use osdpl_core::desired::{ChartInfo, Facts, resolve, select};

const FILES: &[(&str, &str)] = &[
    (
        "values/services/store.yaml",
        "service: store\ndescription: A database.\ngroup: infra\ncredentials: {admin: {}}\nreleases:\n  store:\n    timeout: 60\n\
         \x20   components: {store/server: StatefulSet}\n    values: {auth: {admin: '${credentials.store.admin}', b: [1, 2.5, null], a: {}}}\n\
         \x20   unset: [conf.a, 'labels.\"x.y\"']\n    fragments:\n    - when: spec.region == 'RegionOne'\n      values: {text: \"a ${spec.region} $${x}\"}\n",
    ),
    (
        "values/services/front.yaml",
        "service: front\ndescription: An API.\ngroup: openstack\nreleases:\n  front:\n    needs: [{component: store/server}]\n\
         \x20   components: {front/api: Deployment}\n    serverSide: false\n    values: {conf: {region: '${spec.region}', debug: true}}\n",
    ),
    (
        "values/features/colour.yaml",
        "feature: colour\ndescription: Its colour.\nschema: {type: object, properties: {name: {type: string}, at: {type: object, additionalProperties: {type: integer}}}}\ndefault: {name: red, at: {b: 1, a: 2}}\n\
         fragments:\n- when: features.colour.name == 'blue'\n  releases: {front: {values: {conf: {colour: blue}}, unset: [conf.x]}}\n- releases: {store: {values: {n: 1}}}\n",
    ),
    (
        "values/openstack/2025.2.yaml",
        "openstackRelease: '2025.2'\ndescription: Flamingo\nvariables: {tag: t0}\nfragments:\n- every: {group: openstack, values: {images: {tag: 't-${openstack.tag}'}}}\n",
    ),
    ("values/openstack/2026.1.yaml", "openstackRelease: '2026.1'\ndescription: Gazpacho\nvariables: {tag: t1}\n"),
    (
        "values/shared/auth.yaml",
        "shared: auth\ndescription: Repeated credentials.\nfragments:\n- every: {values: {auth: {admin: '${credentials.store.admin}', no: 1}}}\n\
         - when: release.name == 'front'\n  every: {except: [store], values: {conf: {name: \"${release.namespace}/${release.name}\"}}}\n",
    ),
    ("values/keys/front.yaml", "auth: {admin: string}\nconf: {region: string, name: string}\nimages: {tag: string}\n"),
    ("values/keys/store.yaml", "auth: {admin: string}\nconf: map\nimages: {tag: string}\n"),
    ("values/lock.yaml", "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n"),
    (
        "presets/small.yaml",
        "preset: small\ndescription: A small cloud.\nservices: [store, front]\nfragments:\n- releases: {front: {values: {pod: {replicas: {api: 2}}}}}\n",
    ),
    (
        "presets/large.yaml",
        "preset: large\ndescription: A large one.\nfragments:\n- every: {values: {conf: {region: x}}}\n",
    ),
];

#[test]
fn digests_are_stable() {
    let files: Files = FILES.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned().into())).collect();
    let catalog = Catalog::load(&files).unwrap_or_else(|errors| panic!("{errors}"));
    let chart = ChartInfo { version: "1.0.0".into(), digest: "d1".into(), ..ChartInfo::default() };
    let facts = Facts {
        helm_major: 4,
        credentials: [("store".to_owned(), BTreeMap::from([("admin".to_owned(), "geheim".to_owned())]))].into(),
        charts: [("front".to_owned(), Ok(chart))].into(),
        ..Facts::default()
    };
    let mut digests = Vec::new();
    for spec in [
        "{openstackRelease: '2026.1', presets: [small]}",
        "{openstackRelease: '2025.2', presets: [small, large], features: {colour: {name: blue}}, \
         services: {front: {releases: {front: {values: {conf: {debug: false}}, unset: [a.b], version: 2.0.0}}}}}",
    ] {
        let spec: OpenStackDeploymentSpec = osdpl_values::yaml::parse("spec", spec).unwrap();
        let selection = select("cloud", "openstack", &spec, &catalog);
        for (name, release) in resolve(&spec, &catalog, &selection, &facts).releases {
            assert_eq!(release.blocked, None);
            digests.push(format!("{name} {} {}", &release.inputs[..16], release.catalog));
        }
    }
    assert_eq!(
        digests,
        [
            "front fe918248b3f4a0dc 3945009887e5542e",
            "store b4d7da561392885c 30a3fa1129300375",
            "front 6fa8b33587af3dc5 3945009887e5542e",
            "store b4d7da561392885c 30a3fa1129300375",
        ]
    );
}
