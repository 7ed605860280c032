//! Checks that the built-in catalogue, which osdpl reads as JSON, equals the YAML files that it was built from.

use osdpl_core::catalog::{Text, file};
use osdpl_values::yaml;
use serde_json::{Value, json};

use crate::clouds::{at, base_spec, catalogue, resolved};

#[test]
fn every_file_equals_its_json_form() {
    for (path, text) in &osdpl_core::files::built_in() {
        let json: Value = text.read(path).unwrap();
        let written: Value = yaml::parse(path, &text.as_written()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(json, written, "{path}");
    }
}

#[test]
fn error_in_a_file_has_a_line() {
    let text = Text::from("preset: x\ndescription: z\nservice: [nova]\n");
    let error = text.read::<file::Preset>("presets/x.yaml").unwrap_err();
    assert!(error.to_string().starts_with("presets/x.yaml:3:1: unknown field `service`"), "{error}");
}

/// If a service's WSGI entry point in an OpenStack release differs from the chart's default, the catalogue must set the
/// entry point for this release. Source: `setup.cfg` in the release branches of the service's repository.
#[test]
fn wsgi_settings_match_the_openstack_release() {
    let module = |name: &str| (json!(format!("{name}.wsgi.api:application")), Some(Value::Null));
    let script = |name: &str| (Value::Null, Some(json!(format!("/var/lib/openstack/bin/{name}"))));
    let charts_own = (json!("the chart's"), None);
    for (service, by_release) in [
        ("designate", [charts_own.clone(), module("designate"), module("designate")]),
        ("magnum", [charts_own.clone(), charts_own.clone(), module("magnum")]),
        ("manila", [script("manila-wsgi"), charts_own.clone(), charts_own.clone()]),
        ("octavia", [script("octavia-wsgi"), charts_own.clone(), charts_own.clone()]),
    ] {
        for (release, (module, file)) in ["2025.1", "2025.2", "2026.1"].into_iter().zip(by_release) {
            let spec = base_spec(&json!({"openstackRelease": release, "services": {service: {"enabled": true}}}));
            let desired = resolved(catalogue(), &spec);
            let uwsgi = at(&desired.releases[service].values, &format!("conf.{service}_api_uwsgi.uwsgi"));
            let of = |key: &str| uwsgi.and_then(|uwsgi| uwsgi.get(key)).cloned();
            let expected = file.clone().map(|_| module);
            assert_eq!((of("module"), of("wsgi-file")), (expected, file), "{service} {release}");
        }
    }
}
