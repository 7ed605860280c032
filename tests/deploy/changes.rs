//! Changes that the API server must refuse, and some that it must not.

use super::{Bad, Judge::Rule};

const fn change(before: &'static str, spec: &'static str, field: &'static str, message: &'static str) -> Bad {
    Bad { judge: Rule, before: Some(before), spec, field, message }
}

const FIXED: &str = "can't be changed once set, because the release's data would stay behind; set it back";
const STAYS: &str =
    "a release's namespace and name can't be removed once set, because its data would stay behind; put them back";

const NAMED: &str =
    "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: compute, name: nova-one}}}}}";

/// Changes that are refused.
pub const BAD: &[Bad] = &[
    change(
        NAMED,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: other, name: nova-one}}}}}",
        "spec.services[nova].releases[nova].namespace",
        FIXED,
    ),
    change(
        NAMED,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: compute, name: nova-two}}}}}",
        "spec.services[nova].releases[nova].name",
        FIXED,
    ),
    change(
        NAMED,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {name: nova-one}}}}}",
        "spec.services[nova]",
        STAYS,
    ),
    change(NAMED, "{openstackRelease: '2026.1', services: {nova: {releases: {}}}}", "spec.services[nova]", STAYS),
    change(NAMED, "{openstackRelease: '2026.1', services: {nova: {enabled: false}}}", "spec.services[nova]", STAYS),
    change(NAMED, "{openstackRelease: '2026.1', services: {}}", "spec", STAYS),
    change(NAMED, "{openstackRelease: '2026.1'}", "spec", STAYS),
];

/// Changes that look like refused ones and must pass.
pub const GOOD_CHANGES: &[(&str, &str)] = &[
    (
        NAMED,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: compute, name: nova-one, paused: true}}}, glance: {enabled: false}}}",
    ),
    (
        NAMED,
        "{openstackRelease: '2026.1', services: {nova: {enabled: false, releases: {nova: {namespace: compute, name: nova-one}}}}}",
    ),
    (
        "{openstackRelease: '2026.1', services: {nova: {enabled: false, releases: {nova: {namespace: compute}}}}}",
        "{openstackRelease: '2026.1'}",
    ),
    (
        "{openstackRelease: '2026.1', services: {mariadb: {releases: {mariadb: {namespace: data}}}}}",
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: '2001:db8::7'}}}}",
    ),
    (
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {values: {conf: {}}}}}}}",
        "{openstackRelease: '2026.1'}",
    ),
];
