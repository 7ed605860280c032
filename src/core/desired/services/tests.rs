use serde_json::{Value, json};

use crate::api::OpenStackDeploymentSpec;
use crate::catalog::Catalog;
use crate::desired::{Selection, select};

/// Returns a catalogue whose services need each other: `top` needs `middle`, and `middle` needs `front`. `top` also
/// needs `extra`, but only if `middle` is enabled. The release of the service `paint` is part of the cloud only if the
/// `name` in the settings of the feature `colour` is `blue`.
fn catalog() -> Catalog {
    let service = |name: &str, more: &str| {
        let text = format!(
            "service: {name}\ndescription: One of several.\ngroup: openstack\nreleases:\n  {name}:\n    components: {{{name}/api: Deployment}}\n{more}"
        );
        (format!("values/services/{name}.yaml"), text)
    };
    let added = [
        service("middle", "    needs: [{component: front/api}]\n"),
        service("top", "    needs: [{component: middle/api}, {component: extra/api, when: services.middle.enabled}]\n"),
        service("extra", ""),
        service("paint", "    when: features.colour.name == 'blue'\n"),
        service("wall", "    needs: [{component: paint/api}, {component: middle/api}]\n"),
        service("left", "    awaits: [{component: extra/api}]\n    alongside: [{component: right/api}]\n"),
        service(
            "right",
            "    alongside: [{component: left/api}, {component: paint/api, when: services.wall.enabled}]\n",
        ),
    ];
    let added: Vec<_> = added.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Catalog::load(&crate::testing::files(&added)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn selected(services: Value, features: Value) -> Selection {
    let spec = json!({"openstackRelease": "2026.1", "services": services, "features": features});
    let spec: OpenStackDeploymentSpec = serde_json::from_value(spec).unwrap();
    select("cloud", "openstack", &spec, &catalog())
}

fn messages(selection: &Selection) -> Vec<String> {
    let findings = selection.findings.iter();
    findings.map(|finding| format!("{}: {finding}", finding.level.as_str())).collect()
}

#[test]
fn adds_needed_services_and_names_who_needs_them() {
    let selection =
        selected(json!({"top": {"enabled": true}, "wall": {"enabled": true}}), json!({"colour": {"name": "blue"}}));
    assert_eq!(
        selection.releases.keys().collect::<Vec<_>>(),
        ["extra", "front", "middle", "paint", "store", "top", "wall"]
    );
    assert_eq!(selection.scope.variable("services").unwrap()["extra"]["enabled"], true);
    assert!(!selection.is_refused());
    assert_eq!(
        messages(&selection),
        [
            "note: spec.services.extra: the service is part of the cloud because it is needed by top (extra/api)",
            "note: spec.services.front: the service is part of the cloud because it is needed by middle (front/api)",
            "note: spec.services.middle: the service is part of the cloud because it is needed by top (middle/api), wall (middle/api)",
            "note: spec.services.paint: the service is part of the cloud because it is needed by wall (paint/api)",
            "note: spec.services.store: the service is part of the cloud because it is needed by front (store/server)",
        ]
    );
}

#[test]
fn rejects_disabling_a_needed_service_once() {
    let services = json!({"top": {"enabled": true}, "wall": {"enabled": true}, "middle": {"enabled": false}});
    let selection = selected(services, json!({"colour": {"name": "blue"}}));
    let refused: Vec<_> = messages(&selection).into_iter().filter(|text| text.starts_with("error")).collect();
    assert_eq!(
        refused,
        [
            "error: spec.services.middle.enabled: is false, but middle is needed by top (middle/api), wall (middle/api); \
          remove `enabled: false`, or disable top, wall as well"
        ]
    );
    assert!(
        !selection.releases.contains_key("extra"),
        "osdpl does not add `extra`, because the condition of the need for `extra` is false"
    );
}

#[test]
fn enabling_a_service_does_not_add_conditional_releases() {
    let selection = selected(json!({"wall": {"enabled": true}}), json!({}));
    let refused: Vec<_> = messages(&selection).into_iter().filter(|text| text.starts_with("error")).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0]
            .starts_with("error: spec.services.paint: release paint, which is needed by wall (paint/api), is not part")
    );
}

#[test]
fn warns_about_enabled_services_that_install_nothing() {
    let messages_with = |features: Value| {
        messages(&selected(json!({"paint": {"enabled": true}, "extra": {"enabled": true}}), features))
    };
    let red = messages_with(json!({"colour": {"name": "red"}}));
    assert_eq!(red.len(), 1, "{red:?}");
    assert!(
        red[0].starts_with(
            "warning: spec.services.paint.enabled: is true, but the present features exclude all releases"
        )
    );
    assert_eq!(messages_with(json!({"colour": {"name": "blue"}})), Vec::<String>::new());
}

#[test]
fn applies_overrides_of_services_that_were_added() {
    let outside = json!({"external": {"host": "10.0.0.9"}, "credentials": {"admin": {"name": "s", "key": "k"}}});
    let selection = selected(json!({"front": {"enabled": true}, "store": outside, "extra": {}}), json!({}));
    assert!(selection.external.contains_key("store") && !selection.services.contains("store"));
    let warned: Vec<_> = messages(&selection).into_iter().filter(|text| text.starts_with("warning")).collect();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].starts_with("warning: spec.services.extra: the service is in none of the presets and no other"));
}

#[test]
fn adds_awaited_and_alongside_services_even_in_a_cycle() {
    let selection = selected(json!({"right": {"enabled": true}}), json!({}));
    assert_eq!(selection.releases.keys().collect::<Vec<_>>(), ["extra", "left", "right"]);
    assert_eq!(
        messages(&selection),
        [
            "note: spec.services.extra: the service is part of the cloud because it is needed by left (extra/api)",
            "note: spec.services.left: the service is part of the cloud because it is needed by right (left/api)",
        ]
    );
}

#[test]
fn rejects_disabling_awaited_and_warns_about_alongside() {
    let services = json!({"left": {"enabled": true}, "right": {"enabled": false}, "extra": {"enabled": false}});
    let selection = selected(services, json!({}));
    assert_eq!(
        messages(&selection),
        [
            "warning: spec.services.right.enabled: is false, but these releases need right or a replacement of \
             your own: left (right/api); remove `enabled: false` if you have no replacement",
            "error: spec.services.extra.enabled: is false, but extra is needed by left (extra/api); remove \
             `enabled: false`, or disable left as well",
        ]
    );
}
