//! Tests warnings about options of services (`values/options/`).

use super::*;

const OPTIONS: &str = r#"release: front
path: conf.front
versions: {"2025.1": 1.0.0, "2026.1": 2.0.0, "2026.2": 3.0.0}
open: ["vendor_*"]
like: {"backend_*": DEFAULT, "ap*": DEFAULT}
sections:
  DEFAULT:
    debug: {type: boolean, default: false}
    gone: {type: string, in: ["2025.1"]}
    fresh: {type: string, in: ["2026.2"]}
    bad_idea: {type: string, deprecated: "2026.1", why: It confuses people.}
    ancient: {type: string, deprecated: "2025.1"}
    soon: {type: string, deprecated: "2026.2"}
    old_workers: {renamed: api.workers}
    older_workers: {renamed: api.workers, in: ["2025.1"]}
    colour: {type: string, choices: [red, blue]}
    hosts: {type: multi}
  api:
    workers: {type: integer, min: 1}
"#;
const KEYS: &str = "conf: {front: {DEFAULT: {debug: false, hosts: list, processes: read, colours: 1}, api: map, own: {tasks: read}, \
     dead: {x: 1}}, other: map}\n";

fn with_options(spec: Value) -> Vec<String> {
    warnings_with(spec, &[("values/options/front.conf.front.yaml", OPTIONS), ("values/keys/front.yaml", KEYS)])
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass the result of `json!`")]
fn of_conf(conf: Value) -> Vec<String> {
    let values = json!({"conf": {"front": conf}});
    with_options(json!({"services": {"front": {"releases": {"front": {"values": values}}}}}))
}

#[test]
fn reports_options_that_the_service_does_not_have() {
    let ignored = "the service ignores it";
    for (conf, expected) in [
        (json!({"DEFAULT": {"colur": "red"}}), format!("DEFAULT.colur: OpenStack 2026.1 has no option \"colur\" in [DEFAULT] of conf.front (did you mean \"colour\"?): {ignored}; correct or remove it")),
        (json!({"backend_1": {"colur": "red", "from_elsewhere": 1}}), format!("backend_1.colur: OpenStack 2026.1 has no option \"colur\" in [backend_1] of conf.front (did you mean \"colour\"?): {ignored}, unless an out-of-tree driver reads it; correct or remove it")),
        (json!({"DEFAULT": {"workers": 2}}), format!("DEFAULT.workers: OpenStack 2026.1 has no option \"workers\" in [DEFAULT] of conf.front (did you mean \"conf.front.api.workers\"?): {ignored}; correct or remove it")),
        (json!({"DEFAULT": {"gone": "x"}}), format!("DEFAULT.gone: was removed in OpenStack 2026.1: {ignored}; remove it")),
        (json!({"DEFAULT": {"older_workers": 2}}), format!("DEFAULT.older_workers: was removed in OpenStack 2026.1: {ignored}; use conf.front.api.workers instead")),
        (json!({"DEFAULT": {"fresh": "x"}}), format!("DEFAULT.fresh: OpenStack 2026.1 does not have this option yet: {ignored}; remove it, and set it again after the upgrade to 2026.2")),
        (json!({"DEFAULT": {"colours": 2}}), format!("DEFAULT.colours: OpenStack 2026.1 has no option \"colours\" in [DEFAULT] of conf.front (did you mean \"colour\"?): {ignored}; correct or remove it")),
        (json!({"dead": {"x": 2}}), "dead: OpenStack 2026.1 has no section [dead] in conf.front: the service ignores all options in it; correct the name, or remove the section".to_owned()),
        (json!({"apu": {"workers": 2, "x": 1}}), "apu: OpenStack 2026.1 has no section [apu] in conf.front (did you mean \"api\"?): the service ignores all options in it, unless an out-of-tree driver reads them; correct the name, or remove the section".to_owned()),
    ] {
        assert_eq!(of_conf(conf), [format!("unknown-option {OWN}.conf.front.{expected}")]);
    }
}

#[test]
fn suggests_names_only_for_the_first_hundreds_of_options() {
    let known: Vec<_> =
        (0..1000).map(|number| format!("    some_long_option_{number:03}: {{type: string}}\n")).collect();
    let file = format!("{OPTIONS}{}", known.concat());
    let options: Value = (0..200).map(|number| (format!("some_log_option_{number:03}"), json!("x"))).collect();
    let values = json!({"conf": {"front": {"api": options}}});
    let spec = json!({"services": {"front": {"releases": {"front": {"values": values}}}}});
    let found =
        warnings_with(spec, &[("values/options/front.conf.front.yaml", &file), ("values/keys/front.yaml", KEYS)]);
    assert_eq!(found.len(), 201, "each option, and the limit");
    let suggestions = found.iter().filter(|warning| warning.contains("did you mean")).count();
    assert!((100..150).contains(&suggestions), "{suggestions}");
}

#[test]
fn reports_values_and_deprecated_options() {
    for (conf, expected) in [
        (
            json!({"DEFAULT": {"debug": "maybe"}}),
            "option-value OWN.DEFAULT.debug: is not a boolean, so the service fails to read it; write true or false",
        ),
        (
            json!({"API": {"workers": 0}}),
            "option-value OWN.API.workers: is too small, so the service fails to read it; write a number of at least 1",
        ),
        (
            json!({"DEFAULT": {"old_workers": "many"}}),
            "option-value OWN.DEFAULT.old_workers: is not a whole number, so the service fails to read it; write a whole number",
        ),
        (
            json!({"DEFAULT": {"old_workers": 2}}),
            "deprecated-option OWN.DEFAULT.old_workers: is an old name, which a later OpenStack release may not know; use conf.front.api.workers instead",
        ),
        (
            json!({"DEFAULT": {"bad_idea": "x"}}),
            "deprecated-option OWN.DEFAULT.bad_idea: is deprecated since OpenStack 2026.1 (It confuses people): a later release may ignore it; find a replacement, or remove it",
        ),
        (
            json!({"DEFAULT": {"ancient": "x"}}),
            "deprecated-option OWN.DEFAULT.ancient: is deprecated since OpenStack 2025.1 or earlier: a later release may ignore it; find a replacement, or remove it",
        ),
        (
            json!({"DEFAULT": {"hosts": {"a": 1}}}),
            "type-changed OWN.DEFAULT.hosts: is a map where the chart has a list; write a list",
        ),
    ] {
        assert_eq!(of_conf(conf), [expected.replace("OWN", &format!("{OWN}.conf.front"))]);
    }
}

#[test]
fn accepts_options_that_may_have_an_effect() {
    for conf in [
        json!({"DEFAULT": {"debug": "yes", "colour": "red", "soon": "x", "hosts": ["a"]}, "vendor_x": {"any": 1}}),
        json!({"DEFAULT": {"processes": 2}, "own": {"tasks": 3}}),
        json!({"DEFAULT": {"colour": "{{ .Values.x }}", "hosts": {"type": "multistring", "values": ["a", "b"]}}}),
    ] {
        assert_eq!(of_conf(conf), Vec::<String>::new());
    }
    let unset = json!({"services": {"front": {"releases": {"front": {"values": {"conf": {"front": {"api": null}, "other": {"x": {"y": 1}}}}}}}}});
    assert_eq!(with_options(unset), Vec::<String>::new());
}

#[test]
fn checks_common_values_and_node_overrides() {
    let conf = json!({"conf": {"front": {"DEFAULT": {"colur": "red"}}}});
    let expected = "conf.front.DEFAULT.colur: OpenStack 2026.1 has no option";
    let common = with_options(json!({"common": {"openstack": {"values": conf}}}));
    assert_eq!(common.len(), 1, "{common:?}");
    assert!(common[0].starts_with(&format!("unknown-option spec.common.openstack.values.{expected}")), "{common:?}");
    let nodes = json!({"overrides": [{"name": "n1", "names": ["n1"], "releases": {"front": {"values": conf}}}]});
    let found = with_options(json!({"nodes": nodes}));
    let expected = format!("unknown-option spec.nodes.overrides[0].releases.front.values.{expected}");
    assert!(found.iter().any(|warning| warning.starts_with(&expected)), "{found:?}");
}

#[test]
fn ignores_unknown_releases_and_repeated_reports() {
    let typo = of_conf(json!({"DEFAULT": {"debugg": "maybe"}}));
    assert_eq!(typo, Vec::<String>::new(), "the rule `unknown-key` reports a typo of a key of the chart");
    let options = OPTIONS.replace("2026.1", "2026.3");
    let more = [("values/options/front.conf.front.yaml", options.as_str()), ("values/keys/front.yaml", KEYS)];
    let values = json!({"conf": {"front": {"DEFAULT": {"zzz": "x"}}}});
    let spec = json!({"services": {"front": {"releases": {"front": {"values": values}}}}});
    assert_eq!(
        warnings_with(spec, &more),
        Vec::<String>::new(),
        "the cloud runs 2026.1, which the options file does not list, so osdpl does not check its options"
    );
}

#[test]
fn checks_only_the_names_of_secret_options() {
    let options = OPTIONS.replace("workers: {type", "admin_password: {type");
    let options = options.replace("renamed: api.workers", "renamed: api.admin_password");
    let more = [("values/options/front.conf.front.yaml", options.as_str()), ("values/keys/front.yaml", KEYS)];
    let of_api = |api: Value| {
        let values = json!({"conf": {"front": {"api": api}}});
        warnings_with(json!({"services": {"front": {"releases": {"front": {"values": values}}}}}), &more)
    };
    assert_eq!(of_api(json!({"admin_password": "hunter2-hunter2"})), Vec::<String>::new());
    let found = of_api(json!({"admin_pasword": "hunter2-hunter2"}));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(!found[0].contains("hunter2"), "{found:?}");
}
