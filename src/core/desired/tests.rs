use serde_json::{Value, json};

use super::*;
use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use osdpl_values::expr::Work;

fn catalog() -> Catalog {
    Catalog::load(&crate::testing::files(&[])).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn spec(value: Value) -> OpenStackDeploymentSpec {
    let mut base = json!({"openstackRelease": "2026.1", "presets": ["small"]});
    base.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    serde_json::from_value(base).unwrap()
}

fn facts() -> Facts {
    let credentials = json!({"store": {"admin": "s3cret"}, "front": {"user": "pa55"}});
    Facts { credentials: serde_json::from_value(credentials).unwrap(), helm_major: 4, ..Facts::default() }
}

fn resolved(value: Value) -> Desired {
    let (spec, catalog) = (spec(value), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    resolve(&spec, &catalog, &selection, &facts())
}

fn findings(value: Value) -> String {
    resolved(value).findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn layers_override_in_order_and_secrets_are_marked() {
    let desired = resolved(json!({
        "region": "R1", "features": {"colour": {"name": "blue"}},
        "common": {"values": {"a": 1, "b": 1, "c": 1}, "openstack": {"values": {"b": 2, "c": 2}}},
        "services": {"front": {"releases": {"front": {"values": {"c": 3}, "unset": ["conf.region"]}}}},
    }));
    let front = &desired.releases["front"];
    assert_eq!(
        Value::Object(redact(&front.values, &front.secret)),
        json!({"a": 1, "b": 2, "c": 3, "auth": {"admin": "<redacted>"},
               "conf": {"region": null, "password": "<redacted>", "colour": "blue"}})
    );
    assert_eq!(front.needs.len(), 1);
}

#[test]
fn releases_wait_if_the_values_exceed_the_limit() {
    let (spec, catalog) = (spec(json!({})), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    selection.scope.reset_used(Work { steps: 0, bytes: Work::OF_ALL.bytes });
    let desired = resolve(&spec, &catalog, &selection, &facts());
    assert_eq!(desired.releases.len(), 2);
    for release in desired.releases.values() {
        let message = &release.blocked.as_ref().unwrap().message;
        let problem = "all values and expressions together need more than 10000000 steps or 64 MiB; shorten the values";
        assert!(message.contains(problem), "{message}");
        assert_eq!(release.values, Values::new());
    }
}

#[test]
fn marks_secrets_written_in_clear() {
    let written = json!({
        "files": {"ldap.conf": "bind_password = 'hunter2'", "other.conf": "password: {{ .Values.x }}"},
        "admin": {"password": {"x": "hunter2"}},
        "conf": {"ldap": {"password": "hunter2", "url": "ldap://ldap"}, "token": {"provider": "fernet"}, "db": "mysql://nova:hunter2@db/nova"},
        "secrets": {"identity": {"admin": "mine"}}, "manifests": {"secret_db": false},
        "extraObjects": {"mine": {"kind": "Secret", "stringData": {"anything": "hunter2"}}},
    });
    let desired = resolved(json!({"services": {"front": {"releases": {"front": {"values": written}}}}}));
    let front = &desired.releases["front"];
    let shown = Value::Object(redact(&front.values, &front.secret));
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    let own = json!({
        "ldap": {"password": "<redacted>", "url": "ldap://ldap"}, "token": {"provider": "fernet"}, "db": "<redacted>",
        "region": "RegionOne", "password": "<redacted>",
    });
    assert_eq!(shown["conf"], own);
    assert_eq!(shown["files"], json!({"ldap.conf": "<redacted>", "other.conf": "password: {{ .Values.x }}"}));
    assert_eq!(
        (&shown["secrets"]["identity"]["admin"], &shown["manifests"]["secret_db"]),
        (&json!("mine"), &json!(false))
    );
}

#[test]
fn releases_that_block_most_work_go_first() {
    let (spec, catalog) = (spec(json!({"common": {"values": {"manifests": {"job_ks_user": false}}}})), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let mut facts = facts();
    let switches = [("job_db_sync", true), ("job_ks_user", true), ("job_image_repo_sync", false)];
    let jobs = switches.map(|(name, on)| (name.to_owned(), on)).into();
    facts.charts.insert("front".into(), Ok(ChartInfo { jobs, ..ChartInfo::default() }));
    let desired = resolve(&spec, &catalog, &selection, &facts);
    assert_eq!(desired.priorities(), BTreeMap::from([("front", 2), ("store", 3)]));
}

#[test]
fn one_key_changes_only_the_inputs_of_its_release() {
    let before = resolved(json!({}));
    let after = resolved(json!({"services": {"front": {"releases": {"front": {"values": {"x": 1}}}}}}));
    assert_eq!(before.releases["store"].inputs, after.releases["store"].inputs);
    assert_ne!(before.releases["front"].inputs, after.releases["front"].inputs);
    assert_eq!(before.releases["front"].catalog, after.releases["front"].catalog);
}

#[test]
fn changed_content_of_a_chart_changes_the_inputs_of_its_release() {
    let (spec, catalog) = (spec(json!({})), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let inputs = |digest: &str| {
        let chart = ChartInfo { digest: digest.into(), version: "1.0.0".into(), ..ChartInfo::default() };
        let facts = Facts { charts: [("front".to_owned(), Ok(chart))].into(), ..facts() };
        let releases = resolve(&spec, &catalog, &selection, &facts).releases;
        [&releases["front"], &releases["store"]].map(|release| release.inputs.clone())
    };
    let (before, after) = (inputs("sha256:aa"), inputs("sha256:bb"));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
}

#[test]
fn an_external_service_has_no_release() {
    let external = json!({"external": {"host": "10.0.0.9"}, "credentials": {"admin": {"name": "s", "key": "k"}}});
    let desired = resolved(json!({"services": {"store": external}}));
    assert!(!desired.releases.contains_key("store"));
    let needs: Vec<_> = desired.releases["front"].needs.values().cloned().collect();
    assert_eq!(needs, [Provider::External("store".into())]);
}

#[test]
fn the_longest_matching_mirror_wins() {
    let (spec, catalog) =
        (spec(json!({"images": {"mirrors": {"quay.io": "r.example.org/q", "quay.io/a": "r2"}}})), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let mut facts = facts();
    let images = [("api", "quay.io/a/x:1"), ("db", "quay.io/b:2"), ("other", "docker.io/c")];
    let images = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).into();
    facts.charts.insert("front".into(), Ok(ChartInfo { images, ..ChartInfo::default() }));
    let desired = resolve(&spec, &catalog, &selection, &facts);
    assert_eq!(
        desired.releases["front"].values["images"],
        json!({"tags": {"api": "r2/x:1", "db": "r.example.org/q/b:2"}})
    );
}

#[test]
fn names_the_field_that_pins_a_moving_tag() {
    let service = "service: front\ndescription: An API.\ngroup: openstack\nreleases:\n  front:\n    floatingImages: [api, own, pinned, none]\n";
    let catalog = Catalog::load(&crate::testing::files(&[("values/services/front.yaml", service)])).unwrap();
    let digest = format!("sha256:{}", "0a".repeat(32));
    let spec = spec(json!({
        "images": {"mirrors": {"quay.io": "r.example.org"}, "digests": {"quay.io/pinned:1": digest}},
        "services": {"front": {"releases": {"front": {"values": {"images": {"tags": {"own": "elsewhere/own:1"}}}}}}},
    }));
    let selection = select("cloud", "openstack", &spec, &catalog);
    let images = [("api", "quay.io/api:latest"), ("own", "quay.io/own:latest"), ("pinned", "quay.io/pinned:1")];
    let images = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).into();
    let mut facts = facts();
    facts.charts.insert("front".into(), Ok(ChartInfo { version: "1".into(), ..ChartInfo::default() }));
    let unknown = &resolve(&spec, &catalog, &selection, &facts).releases["front"].floating_images;
    assert_eq!(*unknown, None, "the chart's images are not known");
    facts.charts.insert("front".into(), Ok(ChartInfo { version: "1".into(), images, ..ChartInfo::default() }));
    let desired = resolve(&spec, &catalog, &selection, &facts);
    let floating = desired.releases["front"].floating_images.as_ref().unwrap();
    let expected = [
        ("elsewhere/own:1", "the value images.tags.own of release front"),
        ("r.example.org/api:latest", "spec.images.digests[quay.io/api:latest]"),
    ];
    assert!(floating.iter().map(|(image, field)| (&**image, &**field)).eq(expected), "{floating:?}");
}

#[test]
fn pins_images_under_the_names_of_the_chart() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let digests =
        json!({"quay.io/a/x:1": digest, "docker.io/c:2": digest, "quay.io/a/x:9": digest, "quay.io/own:1": digest});
    let value = json!({
        "images": {"mirrors": {"quay.io": "r.example.org"}, "digests": digests},
        "services": {"front": {"releases": {"front": {"values": {"images": {"tags": {"own": "elsewhere/own:1"}}}}}}},
    });
    let (spec, catalog) = (spec(value), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let mut facts = facts();
    let images =
        [("api", "quay.io/a/x:1"), ("db", "docker.io/c:2"), ("other", "quay.io/b:1"), ("own", "quay.io/own:1")];
    let images: BTreeMap<_, _> = images.map(|(tag, image)| (tag.to_owned(), image.to_owned())).into();
    let chart = ChartInfo { version: "1".into(), images, ..ChartInfo::default() };
    facts.charts.insert("front".into(), Ok(chart.clone()));
    let with_unknown_chart = resolve(&spec, &catalog, &selection, &facts);
    assert!(
        !with_unknown_chart.findings.iter().any(|finding| finding.location.field.contains("digests")),
        "{:?}",
        with_unknown_chart.findings
    );
    facts.charts.insert("store".into(), Ok(ChartInfo { images: [("db".into(), "x".into())].into(), ..chart }));
    let desired = resolve(&spec, &catalog, &selection, &facts);
    assert_eq!(
        desired.releases["front"].values["images"]["tags"],
        json!({"api": format!("r.example.org/a/x:1@{digest}"), "db": format!("docker.io/c:2@{digest}"),
               "other": "r.example.org/b:1", "own": "elsewhere/own:1"})
    );
    let fields = desired.findings.iter().map(|finding| finding.location.field.as_str());
    let idle: Vec<_> = fields.filter(|field| field.contains("digests")).collect();
    assert_eq!(idle, ["spec.images.digests[quay.io/a/x:9]", "spec.images.digests[quay.io/own:1]"]);
}

#[test]
fn rejects_wrong_specs_with_a_remedy() {
    for (value, expected) in [
        (
            json!({"openstackRelease": "2026.2"}),
            "spec.openstackRelease: there is no OpenStack release \"2026.2\" (did you mean \"2026.1\"?); choose from 2026.1",
        ),
        (
            json!({"presets": ["smal"]}),
            "spec.presets[0]: there is no preset \"smal\" (did you mean \"small\"?); choose from small",
        ),
        (json!({"presets": []}), "spec.presets: no service is enabled; name a preset (small) or enable services"),
        (
            json!({"services": {"frnt": {}}}),
            "spec.services.frnt: there is no service \"frnt\" (did you mean \"front\"?); choose from front, store",
        ),
        (
            json!({"services": {"front": {"releases": {"x": {}}}}}),
            "spec.services.front.releases.x: there is no release \"x\"; choose from front",
        ),
        (
            json!({"services": {"front": {"credentials": {"usr": {"name": "a", "key": "b"}}}}}),
            "spec.services.front.credentials.usr: there is no credential \"usr\" (did you mean \"user\"?); choose from user",
        ),
        (
            json!({"services": {"front": {"external": {"host": "h"}}}}),
            "spec.services.front.external: service front can't be external; remove `external`; these can: store",
        ),
        (
            json!({"services": {"store": {"enabled": false}}}),
            "spec.services.store.enabled: is false, but store is needed by front (store/server); remove `enabled: false`, or disable front as well",
        ),
        (
            json!({"features": {"color": {}}}),
            "spec.features.color: there is no feature \"color\" (did you mean \"colour\"?); choose from colour",
        ),
        (
            json!({"features": {"colour": {"name": "green"}}}),
            "spec.features.colour.name: \"green\" is not one of \"red\", \"blue\"; choose one of them",
        ),
        (
            json!({"features": {"colour": {"nmae": "red"}}}),
            "spec.features.colour.nmae: is an unknown field (did you mean \"name\"?); the known fields are code, name",
        ),
        (
            json!({"features": {"colour": {"code": "red"}}}),
            "spec.features.colour.code: \"red\" does not match ^#[0-9a-f]+$; correct it",
        ),
        (
            json!({"features": {"colour": {"code": "#12345678"}}}),
            "spec.features.colour.code: has 9 characters, but 7 at most are allowed; write another value",
        ),
        (
            json!({"features": {"colour": true}}),
            "spec.features.colour: YAML reads this as true, but a map is expected; write key: value below it; the known keys are code, name",
        ),
        (
            json!({"services": {"store": {"releases": {"store": {"name": "front"}}}}}),
            "spec.services (release store): releases front and store would both be helm release openstack/front; rename one of the two",
        ),
    ] {
        assert_eq!(findings(value), expected);
    }
}

#[test]
fn a_refused_spec_has_no_certificates() {
    let seal = "feature: seal\ndescription: x\nschema: {type: object}\ndefault: {}\ncertificates:\n- field: spec.features.seal\n  \
                keys: {certificate: tls.crt}\n  secrets: [{name: seal, namespace: '${spec.namespace}'}]\n";
    let catalog = Catalog::load(&crate::testing::files(&[("values/features/seal.yaml", seal)])).unwrap();
    let selected = |value: Value| select("cloud", "openstack", &spec(value), &catalog);
    assert_eq!(selected(json!({})).certificates[0].namespace, "openstack");
    let refused = selected(json!({"services": {"store": {"enabled": false}}}));
    assert!(refused.is_refused() && refused.certificates.is_empty(), "{refused:?}");
}

#[test]
fn names_the_file_of_a_user_if_its_condition_fails() {
    let front = crate::testing::files(&[])["values/services/front.yaml"].as_written().into_owned();
    let with = |text: &str| front.replace("    needs: [{component: store/server}]\n", text);
    let daemonset = "{form: conf, component: front/agent, when: features.colour.none}";
    let check = "{when: features.colour.none, level: error, field: spec.presets, message: x}";
    let certificate = "{when: features.colour.none, field: spec.features.seal, keys: {}, secrets: []}";
    let cases = [
        ("values/services/front.yaml", with("    when: features.colour.none\n")),
        ("values/services/front.yaml", with("    needs: [{component: store/server, when: features.colour.none}]\n")),
        ("values/services/front.yaml", with(&format!("    daemonsets: {{agent: {daemonset}}}\n"))),
        ("presets/small.yaml", format!("preset: small\ndescription: x\nservices: [front]\nchecks: [{check}]\n")),
        (
            "values/features/seal.yaml",
            format!(
                "feature: seal\ndescription: x\nschema: {{type: object}}\ndefault: {{}}\ncertificates: [{certificate}]\n"
            ),
        ),
    ];
    for (file, text) in cases {
        let mut catalog = Catalog::load(&crate::testing::files(&[(file, &text)])).unwrap();
        let entry = json!({"name": "x", "nodes": ["n1"], "releases": {"front": {"values": {"conf": {"x": {"y": 1}}}}}});
        let overrides = if text.contains("daemonsets") { json!([entry]) } else { json!([]) };
        let spec = spec(json!({"nodes": {"overrides": overrides}}));
        let line = |catalog: &Catalog| {
            let selection = select("cloud", "openstack", &spec, catalog);
            let found = resolve(&spec, catalog, &selection, &facts()).findings;
            found.iter().map(ToString::to_string).find(|line| line.contains("features.colour.none")).unwrap()
        };
        let built_in = line(&catalog);
        assert!(built_in.ends_with("; if it is set, report this bug of the catalogue"), "{built_in}");
        catalog.added.insert(file.to_owned(), "ConfigMap openstack/edge, key x.yaml".to_owned());
        let added = line(&catalog);
        let expected = "; if it is set, correct the expression in ConfigMap openstack/edge, key x.yaml";
        assert!(added.ends_with(expected), "{added}");
    }
}

#[test]
fn an_unusable_layer_blocks_only_its_release() {
    let desired = resolved(json!({"services": {"front": {"releases": {"front": {"unset": ["a..b"]}}}}}));
    let blocked = desired.releases["front"].blocked.as_ref().unwrap();
    assert!(
        blocked.message.starts_with("spec.services.front.releases.front.unset[0]: \"a..b\" is not a valid path"),
        "{blocked:?}"
    );
    assert!(desired.releases["store"].blocked.is_none());
}

#[test]
fn a_failing_instance_digest_blocks_only_its_release() {
    let store = crate::testing::files(&[])["values/services/store.yaml"].as_written().into_owned();
    for (expression, expected) in
        [("features.colour.none", "can't be evaluated"), ("size(features)", "must return a string")]
    {
        let text = store.replace("    components", &format!("    instanceDigest: {expression}\n    components"));
        let catalog = Catalog::load(&crate::testing::files(&[("values/services/store.yaml", &text)])).unwrap();
        let spec = spec(json!({}));
        let desired = resolve(&spec, &catalog, &select("cloud", "openstack", &spec, &catalog), &facts());
        let message = &desired.releases["store"].blocked.as_ref().unwrap().message;
        let expected = format!("values/services/store.yaml releases.store.instanceDigest: `{expression}` {expected}");
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(desired.releases["front"].blocked, None);
    }
}

#[test]
fn optional_tolerates_only_missing_objects() {
    let blocked = |problem: Unavailable| {
        let source = json!([{"kind": "Secret", "name": "given", "optional": true}]);
        let spec = spec(json!({"services": {"store": {"releases": {"store": {"valuesFrom": source}}}}}));
        let key = (crate::api::ValuesKind::Secret, "given".to_owned(), "values.yaml".to_owned());
        let facts = Facts { values_from: [(key, Err(problem))].into(), ..facts() };
        let catalog = catalog();
        let selection = select("cloud", "openstack", &spec, &catalog);
        let mut desired = resolve(&spec, &catalog, &selection, &facts);
        desired.releases.remove("store").unwrap().blocked.map(|blocked| blocked.message)
    };
    assert_eq!(blocked(Unavailable::Missing("it is not there".into())), None);
    let message = blocked(Unavailable::Unusable("it can't be read".into())).unwrap();
    assert!(message.contains("valuesFrom[0]: it can't be read"), "{message}");
}

#[test]
fn warns_about_nulls_that_kubectl_stripped() {
    let applied = r#"{"spec": {"common": {"values": {"conf": {"a": null, "b": null}}}}}"#;
    let stored = spec(json!({"common": {"values": {"conf": {"b": null}}}}));
    let found: Vec<_> = find_lost_nulls(applied, &stored).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("spec.common.values.conf.a: client-side `kubectl apply` removed the null"),
        "{found:?}"
    );
    assert!(found[0].ends_with("or add conf.a to `unset` beside `values`"), "{found:?}");
}

#[test]
fn reports_a_missing_credential() {
    let (spec, catalog) = (spec(json!({})), catalog());
    let selection = select("cloud", "openstack", &spec, &catalog);
    let mut facts = facts();
    facts.credentials.remove("front");
    facts.missing.insert(("front".into(), "user".into()), "Secret openstack/s does not exist".into());
    let desired = resolve(&spec, &catalog, &selection, &facts);
    let blocked = desired.releases["front"].blocked.as_ref().unwrap();
    assert_eq!(blocked.message, "credential front.user: Secret openstack/s does not exist");
}

/// The catalogue file of a feature that copies a string from a Secret into the values of release `front`. The feature's
/// setting `key` names the Secret, and the key under which the Secret contains the string.
const LOCK: &str = "feature: lock\ndescription: x\nschema:\n  type: object\n  properties:\n    key:\n      type: object\n      x-osdpl-secret: true\n      \
     required: [name, key]\n      properties: {name: {type: string}, key: {type: string}}\ndefault: {}\nfragments:\n- when: has(features.lock.key)\n  \
     releases: {front: {values: {conf: {lock: 'k:${secret(features.lock.key)}'}}}}\n";

#[test]
fn passes_secret_keys_to_values_and_redacts_them() {
    let catalog = Catalog::load(&crate::testing::files(&[("values/features/lock.yaml", LOCK)])).unwrap();
    let spec = spec(json!({"features": {"lock": {"key": {"name": "vault", "key": "front"}}}}));
    let selection = select("cloud", "openstack", &spec, &catalog);
    assert_eq!(selection.secrets.len(), 1);
    let with = |content: Option<Result<String, Unavailable>>| {
        let secrets = content.map(|content| (("vault".to_owned(), "front".to_owned()), content));
        resolve(&spec, &catalog, &selection, &Facts { secrets: secrets.into_iter().collect(), ..facts() })
    };
    let desired = with(Some(Ok("t0psecret".into())));
    let front = &desired.releases["front"];
    assert_eq!(front.values["conf"]["lock"], "k:t0psecret");
    assert_eq!(redact(&front.values, &front.secret)["conf"]["lock"], "<redacted>");
    let rotated = with(Some(Ok("an0ther".into())));
    assert_ne!(front.inputs, rotated.releases["front"].inputs);
    assert_eq!(desired.releases["store"].inputs, rotated.releases["store"].inputs);
    let missing = with(Some(Err(Unavailable::Missing("Secret openstack/vault does not exist; create it".into()))));
    let blocked = missing.releases["front"].blocked.as_ref().unwrap();
    assert_eq!(blocked.message, "spec.features.lock.key: Secret openstack/vault does not exist; create it");
    assert!(missing.releases["store"].blocked.is_none());
    let unread = with(None).releases.remove("front").unwrap().blocked.unwrap();
    assert_eq!(unread.message, "spec.features.lock.key: osdpl is still reading key \"front\" of Secret vault");
}
