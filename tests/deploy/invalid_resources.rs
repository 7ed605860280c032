//! Lists resources that the API server must refuse, with the expected messages.

/// The check that refuses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A CEL rule of the CRD. The API server and the commands of osdpl print the same message.
    Rule,
    /// The types, enumerations and limits of the CRD's schema. For the same invalid value, the API server and osdpl
    /// have different messages.
    Schema,
}
use Check::{Rule, Schema};

/// A resource that the API server must refuse, and the expected error.
pub struct InvalidResource {
    /// The check that refuses the resource.
    pub check: Check,
    /// The spec of the resource, as YAML.
    pub spec: &'static str,
    /// The field that the error names.
    pub field: &'static str,
    /// The beginning of the error's message.
    pub message: &'static str,
}

const fn invalid(check: Check, spec: &'static str, field: &'static str, message: &'static str) -> InvalidResource {
    InvalidResource { check, spec, field, message }
}

const PATHS: &str = "must contain paths whose keys are separated by single dots, such as conf.nova.DEFAULT.debug; write a key that contains dots in double quotes";
const BATCH_SIZE: &str = "spec.nodes.rollout.batchSize";
const OBJECT: &str = "must be the name of an object in this namespace";
const KEY: &str = "must be a key of the object's data";
const RENAMED: &str =
    "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: compute, name: nova-one}}}}}";

/// The invalid resources for the tests with a real API server and for the tests without one.
pub const INVALID_RESOURCES: &[InvalidResource] = &[
    invalid(
        Rule,
        "{openstackRelease: gazpacho}",
        "spec.openstackRelease",
        "must be an OpenStack release by year and number, in quotes; write one such as \"2026.1\"",
    ),
    invalid(Rule, "{openstackRelease: ''}", "spec.openstackRelease", "must be an OpenStack release"),
    invalid(Schema, "{}", "spec.openstackRelease", "Required value"),
    invalid(
        Schema,
        "{openstackRelease: 2026.1}",
        "spec.openstackRelease",
        "Invalid value: \"number\": spec.openstackRelease in body must be of type string",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', presets: [compute, ha, compute]}",
        "spec.presets",
        "names a preset twice; list each preset once",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', presets: compute}",
        "spec.presets",
        "Invalid value: \"string\": spec.presets in body must be of type array",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', presets: ['']}",
        "spec.presets[0]",
        "Invalid value: \"\": spec.presets[0] in body should be at least 1 chars",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', presets: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]}",
        "spec.presets",
        "Too many: 17: must have at most 16 items",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', catalog: [{name: edge}, {name: edge}]}",
        "spec.catalog",
        "names a ConfigMap twice; list each ConfigMap once",
    ),
    invalid(Rule, "{openstackRelease: '2026.1', catalog: [{name: Edge}]}", "spec.catalog[0].name", OBJECT),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', catalog: [{name: edge, digest: 'sha256:0'}]}",
        "spec.catalog[0].digest",
        "must be `sha256:` and 64 hexadecimal digits",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', publicDomain: 'https://cloud.example.org/'}",
        "spec.publicDomain",
        "must be a DNS name in lower case",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', publicDomain: 192.0.2.7}",
        "spec.publicDomain",
        "must be a DNS name in lower case, without scheme, port or slash",
    ),
    invalid(Rule, "{openstackRelease: '2026.1', region: 'Region One'}", "spec.region", "must be a Keystone region"),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', storageClass: Fast_Disks}",
        "spec.storageClass",
        "must be the name of a StorageClass; choose one from `kubectl get storageclasses`",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', features: [ovn]}",
        "spec.features",
        "Invalid value: \"array\": spec.features in body must be of type object",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', features: {network: ovn}}",
        "spec.features.network",
        "Invalid value: \"string\": spec.features.network in body must be of type object",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', features: {network: {backend: ovm}}}",
        "spec.features.network.backend",
        "Unsupported value: \"ovm\": supported values: \"ovs\", \"ovn\"",
    ),
    invalid(Rule, "{openstackRelease: '2026.1', common: {unset: [conf.]}}", "spec.common.unset", PATHS),
    invalid(Rule, "{openstackRelease: '2026.1', common: {infra: {unset: [.conf]}}}", "spec.common.infra.unset", PATHS),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', common: {openstack: {unset: [conf..nova]}}}",
        "spec.common.openstack.unset",
        PATHS,
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {unset: ['labels.\"a.b']}}}}}",
        "spec.services[nova].releases[nova].unset",
        PATHS,
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', common: {values: [debug]}}",
        "spec.common.values",
        "Invalid value: \"array\": spec.common.values in body must be of type object",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: db.example.org}, releases: {mariadb: {paused: true}}}}}",
        "spec.services[mariadb].external",
        "an external service has no releases; remove `releases`, or remove `external`",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: ''}}}}",
        "spec.services[mariadb].external.host",
        "must be an IP address or a DNS name",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: 'tcp://db:3306'}}}}",
        "spec.services[mariadb].external.host",
        "must be an IP address or a DNS name in lower case, without scheme and port",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {port: 3306}}}}",
        "spec.services.mariadb.external.host",
        "Required value",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: db, port: 0}}}}",
        "spec.services.mariadb.external.port",
        "Invalid value: 0: spec.services.mariadb.external.port in body should be greater than or equal to 1",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: db, port: 70000}}}}",
        "spec.services.mariadb.external.port",
        "Invalid value: 70000: spec.services.mariadb.external.port in body should be less than or equal to 65535",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {mariadb: {credentials: {root: {name: My_Secret, key: password}}}}}",
        "spec.services[mariadb].credentials[root].name",
        OBJECT,
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {mariadb: {credentials: {root: {name: db, key: 'pass word'}}}}}",
        "spec.services[mariadb].credentials[root].key",
        KEY,
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {mariadb: {credentials: {root: {name: db}}}}}",
        "spec.services.mariadb.credentials.root.key",
        "Required value",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {valuesFrom: [{kind: Secret, name: 'Nova/values'}]}}}}}",
        "spec.services[nova].releases[nova].valuesFrom[0].name",
        OBJECT,
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {valuesFrom: [{kind: Secret, name: nova, key: a/b}]}}}}}",
        "spec.services[nova].releases[nova].valuesFrom[0].key",
        KEY,
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {valuesFrom: [{kind: Pod, name: nova}]}}}}}",
        "spec.services.nova.releases.nova.valuesFrom[0].kind",
        "Unsupported value: \"Pod\": supported values: \"Secret\", \"ConfigMap\"",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {version: '>= 2026.1'}}}}}",
        "spec.services[nova].releases[nova].version",
        "must be an exact chart version, not a range",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: Compute}}}}}",
        "spec.services[nova].releases[nova].namespace",
        "must be the name of a namespace",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {name: nova.one}}}}}",
        "spec.services[nova].releases[nova].name",
        "must be a name for a helm release",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', services: {nova: {enabled: 'yes'}}}",
        "spec.services.nova.enabled",
        "Invalid value: \"string\": spec.services.nova.enabled in body must be of type boolean",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', nodes: {roles: {Compute: {names: [n1]}}}}",
        "spec.nodes.roles",
        "must map names of roles to their nodes",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', nodes: {roles: {compute: {labels: {a: b}}}}}",
        "spec.nodes.roles[compute]",
        "has no nodes for the role",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', nodes: {overrides: [{name: a, nodes: [n1]}, {name: a, nodes: [n2]}]}}",
        "spec.nodes.overrides",
        "has two entries with the same name",
    ),
    invalid(Rule, "{openstackRelease: '2026.1', nodes: {rollout: {batchSize: 101%}}}", BATCH_SIZE, "must be a number"),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', nodes: {overrides: [{name: a}]}}",
        "spec.nodes.overrides[0]",
        "must select nodes",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', charts: {repository: charts.example.org}}",
        "spec.charts.repository",
        "must be the URL of a chart repository",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', charts: {repository: 'http://charts.example.org'}}",
        "spec.charts.repository",
        "must be the URL of a chart repository that begins with https:// or oci://",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', charts: {repository: 'https://me:secret@charts.example.org'}}",
        "spec.charts.repository",
        "must be the URL of a chart repository that begins with https:// or oci:// and contains no user name",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', images: {mirrors: {'https://quay.io': registry.example.org}}}",
        "spec.images.mirrors",
        "must map prefixes of image references to their replacements, both without scheme and not empty",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', images: {pullPolicy: Sometimes}}",
        "spec.images.pullPolicy",
        "Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', deletionPolicy: Keep}",
        "spec.deletionPolicy",
        "Unsupported value: \"Keep\": supported values: \"Retain\", \"Purge\"",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', approval: Never}",
        "spec.approval",
        "Unsupported value: \"Never\": supported values: \"Manual\", \"Automatic\", \"Always\"",
    ),
    invalid(
        Schema,
        "{openstackRelease: '2026.1', nodes: {rollout: {approval: Always}}}",
        "spec.nodes.rollout.approval",
        "Unsupported value: \"Always\": supported values: \"Manual\", \"Automatic\"",
    ),
    invalid(
        Rule,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {version: 1.0.0, digest: 'sha256:0'}}}}}",
        "spec.services[nova].releases[nova].digest",
        "must be the digest of a chart",
    ),
    invalid(Rule, DIGEST_WITHOUT_VERSION, "spec.services[nova].releases[nova]", "has a digest without a version"),
];

const DIGEST_WITHOUT_VERSION: &str = "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}}}}}";

/// Valid changes of a spec, each with the spec before and after the change. The API server must accept every change,
/// even a changed name or namespace of a release. Only the operator can check such a change, because the check depends
/// on the installed releases.
pub const VALID_CHANGES: &[(&str, &str)] = &[
    (
        RENAMED,
        "{openstackRelease: '2026.1', services: {nova: {releases: {nova: {namespace: other, name: nova-two}}}, glance: {enabled: false}}}",
    ),
    (RENAMED, "{openstackRelease: '2026.1'}"),
    (
        "{openstackRelease: '2026.1', services: {mariadb: {releases: {mariadb: {namespace: data}}}}}",
        "{openstackRelease: '2026.1', services: {mariadb: {external: {host: '2001:db8::7'}}}}",
    ),
];
