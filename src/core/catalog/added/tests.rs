use super::*;
use crate::testing::files;

fn addition(source: &str, data: &[(&str, &str)]) -> Addition {
    let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    Addition { source: format!("ConfigMap openstack/{source}"), data }
}

fn extended(additions: &[Addition]) -> (Catalog, Vec<String>) {
    let ExtendedCatalog { catalog, rejected: refused, .. } = extend_catalog(&files(&[]), additions).unwrap();
    (catalog, refused.into_iter().map(|refused| format!("{}: {}", refused.source, refused.message)).collect())
}

const BACK: &str = "service: back\ndescription: A test.\ngroup: openstack\nreleases:\n  back:\n    needs: [{component: front/api}]\n    components: {back/api: Deployment}\n";
const EDGE: &str = "preset: edge\ndescription: A test.\nservices: [back]\n";

#[test]
fn adds_every_kind_of_file() {
    let (catalog, refused) = extended(&[
        addition("a", &[("presets.edge.yaml", EDGE)]),
        addition(
            "b",
            &[
                ("services.back.yaml", BACK),
                ("features.shape.yaml", "feature: shape\ndescription: x\nschema: {type: object}\ndefault: {}\n"),
                ("openstack.2026.2.yaml", "openstackRelease: '2026.2'\ndescription: x\nupgradesFrom: ['2026.1']\n"),
                ("shared.more.yaml", "shared: more\ndescription: x\nfragments: [{every: {values: {mine: 1}}}]\n"),
                ("keys.back.yaml", "mine: number\n"),
                ("lock.yaml", "charts: {back: {version: 2.0.0, repository: 'https://charts.example.org'}}\n"),
            ],
        ),
    ]);
    assert_eq!(refused, Vec::<String>::new());
    assert!(catalog.presets.contains_key("edge") && catalog.features.contains_key("shape"));
    assert!(catalog.openstack.contains_key("2026.2") && catalog.services.contains_key("back"));
    assert_eq!(catalog.lock["back"].repository.as_deref(), Some("https://charts.example.org"));
    assert_eq!(catalog.lock["front"].version, "1.0.0", "existing entries are kept");
    let location = catalog.added.get("presets/edge.yaml").map(String::as_str);
    assert!(location.is_some_and(|location| location.ends_with(", key presets.edge.yaml")), "{location:?}");
    assert!(!catalog.added.contains_key("presets/small.yaml"));
}

#[test]
fn rejects_only_invalid_config_maps() {
    let good = || addition("good", &[("services.back.yaml", BACK)]);
    for (bad, expected) in [
        (
            ("presets.x.yaml", "preset: x\ndescription: x\nservcies: []\n"),
            "key \"presets.x.yaml\":3:1: unknown field `servcies`",
        ),
        (
            ("presets.x.yaml", "preset: x\ndescription: x\nservices: [bakc]\n"),
            "key \"presets.x.yaml\": services: there is no service \"bakc\", did you mean \"back\"?",
        ),
        (
            ("presets.x.yaml", "preset: y\ndescription: x\n"),
            "key \"presets.x.yaml\": the file is named \"x\" but declares \"y\"",
        ),
        (
            ("presets.small.yaml", "preset: small\ndescription: x\n"),
            "key \"presets.small.yaml\": the catalogue already has presets/small.yaml",
        ),
        (("small.yaml", "preset: small\n"), "key \"small.yaml\" is not a catalogue file; write services.NAME.yaml"),
        (("lock.yaml", "charts: {front: {version: 9.9.9}}\n"), "key \"lock.yaml\": chart front is already in the lock"),
        (("lock.yaml", "chart: {}\n"), "key \"lock.yaml\": line 1: unknown field `chart`"),
        (
            ("services.z.yaml", "service: z\ndescription: x\ngroup: infra\nreleases: {front: {}}\n"),
            "key \"services.z.yaml\": release \"front\" is also in values/services/front.yaml",
        ),
        (
            ("services.a.yaml", "service: a\ndescription: x\ngroup: infra\nreleases: {front: {}}\n"),
            "values/services/front.yaml: release \"front\" is also in key \"services.a.yaml\"",
        ),
        (("services.back.yaml", BACK), "key \"services.back.yaml\": ConfigMap openstack/good has the same file"),
    ] {
        let (catalog, refused) = extended(&[addition("mine", &[bad, ("presets.edge.yaml", EDGE)]), good()]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with(&format!("ConfigMap openstack/mine: {expected}")), "{expected}\n{refused:?}");
        assert!(catalog.services.contains_key("back") && !catalog.presets.contains_key("edge"), "all or nothing");
    }
}

#[test]
fn rejects_dependents_and_closers_of_cycles() {
    let bad = BACK.replace("front/api", "front/ap");
    let (_, refused) =
        extended(&[addition("a", &[("presets.edge.yaml", EDGE)]), addition("b", &[("services.back.yaml", &bad)])]);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(
        refused[0].starts_with("ConfigMap openstack/a") || refused[1].contains("there is no service \"back\""),
        "{refused:?}"
    );
    let ring = BACK.replace("front/api", "back/api");
    let (catalog, refused) = extended(&[addition("a", &[("services.back.yaml", &ring)])]);
    assert!(
        refused[0].starts_with("ConfigMap openstack/a: releases need each other in a circle: back → back"),
        "{refused:?}"
    );
    assert!(catalog.added.is_empty());
}

#[test]
fn no_additions_change_nothing() {
    let extended = extend_catalog(&files(&[]), &[]).unwrap();
    assert_eq!(extended.files, files(&[]));
}
