use super::*;
use crate::testing::files;

#[test]
fn loads_and_filters_keys_by_chart() {
    let catalog = Catalog::load(&files(&[])).unwrap();
    let body = catalog.shared[0].body("front").unwrap();
    assert_eq!(&*body.source, r#"{"auth":{"admin":"${credentials.store.admin}"}}[]"#);
    assert!(
        catalog.shared[0].body("store").is_none(),
        "a shared fragment sets no values in `store`, because the catalogue has no key tree of chart store"
    );
    assert_eq!(catalog.provider(&Component::parse("front/api").unwrap()), Some(("front", "front")));
}

/// Mistakes in catalogue files: the path of the file, a string in the fixture's file, the string's replacement, and the
/// beginning of the expected error. If the string is empty, the replacement is the whole file.
const MISTAKES: [(&str, &str, &str, &str); 19] = [
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nservcies: []\n",
        "presets/small.yaml:3:1: unknown field `servcies`",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: smal\ndescription: x\n",
        "presets/small.yaml: the file is named \"small\" but declares \"smal\"; use the same name for both",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nservices: [stor]\n",
        "presets/small.yaml: services: there is no service \"stor\" (did you mean \"store\"?); correct the name, or declare it in a catalogue file",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nfeatures: {color: {}}\n",
        "presets/small.yaml: features: there is no feature \"color\" (did you mean \"colour\"?)",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nexcludes: {smal: x}\n",
        "presets/small.yaml: excludes: there is no preset \"smal\" (did you mean \"small\"?)",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nfragments:\n- when: feature.x\n",
        "presets/small.yaml:4: fragments[0].when: `feature.x` uses `feature`, which does not exist; choose from spec, features",
    ),
    (
        "presets/small.yaml",
        "",
        "preset: small\ndescription: x\nfragments:\n- releases: {font: {values: {}}}\n",
        "presets/small.yaml: fragments[0].releases: there is no release \"font\" (did you mean \"front\"?)",
    ),
    (
        "values/services/front.yaml",
        "store/server",
        "store/servre",
        "values/services/front.yaml: releases.front.needs: there is no component \"store/servre\" (did you mean \"store/server\"?)",
    ),
    (
        "values/rules.yaml",
        "",
        "rules: [{releases: [], when: 'true', level: error, path: conf.region, message: x}]\n",
        "values/rules.yaml: rules[0].releases is empty; name the releases",
    ),
    (
        "values/services/front.yaml",
        "store/server",
        "store",
        "values/services/front.yaml: releases.front.needs[0]: \"store\" is not a component; write application/component, such as keystone/api",
    ),
    (
        "values/services/front.yaml",
        "    needs: [{component: store/server}]",
        "    awaits: [{component: store/servre}]",
        "values/services/front.yaml: releases.front.awaits: there is no component \"store/servre\" (did you mean \"store/server\"?)",
    ),
    (
        "values/services/front.yaml",
        "    needs: [{component: store/server}]",
        "    awaits: [{component: front/api}]",
        "releases need each other in a cycle: front → front; move one",
    ),
    (
        "values/services/front.yaml",
        "store/server",
        "front/api",
        "releases need each other in a cycle: front → front; move one",
    ),
    (
        "values/services/front.yaml",
        "front.user",
        "front.usr",
        "values/services/front.yaml: releases.front.values: there is no credential \"front.usr\" (did you mean \"front.user\"?)",
    ),
    (
        "values/services/front.yaml",
        "${spec.region}",
        "${spec.region",
        "values/services/front.yaml:11: releases.front.values.conf.region: \"${spec.region\" has a `${` without its `}`",
    ),
    (
        "values/features/colour.yaml",
        "fragments:",
        "certificates: [{field: spec.x, keys: {}, secrets: [{name: '${spec.x'}]}]\nfragments:",
        "values/features/colour.yaml:5: certificates[0].secrets.name: \"${spec.x\" has a `${` without its `}`",
    ),
    (
        "values/services/front.yaml",
        "    plainJobs",
        "    unset: ['a..b']\n    plainJobs",
        "values/services/front.yaml: releases.front.unset: \"a..b\" is not a valid path: a key is empty",
    ),
    (
        "values/services/front.yaml",
        "    plainJobs",
        "    namespace: Front\n    plainJobs",
        "values/services/front.yaml: releases.front.namespace: \"Front\" is not a valid namespace name; write lower-case letters",
    ),
    (
        "values/services/front.yaml",
        "store/server}",
        "store/server, when: \"secret({'name': 'a', 'key': 'b'}) == 'x'\"}",
        "values/services/front.yaml: the condition `secret({'name': 'a', 'key': 'b'}) == 'x'` reads a secret",
    ),
];

#[test]
fn reports_every_error_with_its_location() {
    for (path, from, to, expected) in MISTAKES {
        let text = if from.is_empty() { to.to_owned() } else { files(&[])[path].as_written().replace(from, to) };
        let errors = Catalog::load(&files(&[(path, &text)])).unwrap_err().to_string();
        assert!(errors.starts_with(expected), "{expected}\n{errors}");
    }
}

/// If osdpl can't read a service's file, it does not know the names of the service's releases. So it must not report
/// that a rule names an unknown release.
#[test]
fn reports_only_the_unreadable_service() {
    let front = files(&[])["values/services/front.yaml"].as_written().replace("service: front", "servce: front");
    let rules = "rules: [{releases: [front], when: 'true', level: error, path: conf.region, message: x}]\n";
    let changed = files(&[("values/services/front.yaml", &front), ("values/rules.yaml", rules)]);
    let errors = Catalog::load(&changed).unwrap_err().0;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().ends_with("; correct the file"), "{errors:?}");
    let alone = files(&[("values/rules.yaml", &rules.replace("[front]", "[frnt]"))]);
    assert_eq!(
        Catalog::load(&alone).unwrap_err().0.len(),
        1,
        "a rule with an unknown release is an error if all services can be read"
    );
}

#[test]
fn checks_releases_of_the_rollout() {
    for (list, expected) in [
        ("[frnt]", "values/nodes.yaml: rollout[0]: there is no release \"frnt\" (did you mean \"front\"?)"),
        ("[front]", "values/nodes.yaml: rollout names release \"front\", which has no DaemonSet; remove it"),
        ("[front, front]", "values/nodes.yaml: rollout names release \"front\", which has no DaemonSet; remove it"),
    ] {
        let text = format!("rollout: {list}\n");
        let errors = Catalog::load(&files(&[("values/nodes.yaml", &text)])).unwrap_err().to_string();
        assert!(errors.starts_with(expected), "{expected}\n{errors}");
    }
}

#[test]
fn rejects_secret_conditions_and_wrong_marks() {
    let feature = "feature: colour\ndescription: x\nschema: {type: object, properties: {name: {type: string, x-osdpl-secret: true}}}\n\
                   default: {name: red}\nfragments:\n- when: \"secret({'name': 'a', 'key': 'b'}) == 'x'\"\n";
    let errors = Catalog::load(&files(&[("values/features/colour.yaml", feature)])).unwrap_err().to_string();
    for expected in [
        "values/features/colour.yaml: schema.properties.name: x-osdpl-secret may only mark an object whose properties name and key are required strings",
        "values/features/colour.yaml: the condition `secret({'name': 'a', 'key': 'b'}) == 'x'` reads a secret, but everybody can see whether the condition is true",
    ] {
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn reports_errors_in_the_values_that_no_hook_reads() {
    let load = |text: &str| Catalog::load(&files(&[("values/hooks.yaml", text)]));
    let entry = |release: &str, path: &str| format!("unread: [{{why: x, releases: [{release}], paths: [{path}]}}]");
    let catalog = load(&entry("front", "pod.replicas")).unwrap();
    assert_eq!(catalog.unread_by_hooks["front"], [osdpl_values::Path::parse("pod.replicas").unwrap()]);
    let errors = load(&entry("frnt", "pod.replicas")).unwrap_err().to_string();
    let expected = "values/hooks.yaml: unread[0].release: there is no release \"frnt\" (did you mean \"front\"?)";
    assert!(errors.contains(expected), "{errors}");
    let errors = load(&entry("front", "pod..replicas")).unwrap_err().to_string();
    assert!(errors.contains("values/hooks.yaml: unread[0].path: "), "{errors}");
}
