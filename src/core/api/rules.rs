//! The CEL rules of the CRDs, which the API server evaluates. Each rule has a message that says what to do.
//!
//! All rules are in one table instead of in attributes of the types, so that people can read them together, and a test
//! can check all of them. The rules also contain the regular expressions that could be in a schema's `pattern`, because
//! the API server's message for a `pattern` shows only the expression, and not what to do. Only the schemas of features
//! and of `spec.images.digests` use `pattern`.
//!
//! The operator, and not a CEL rule, answers two questions, because CEL rules can't answer them well:
//!
//! * Do the presets, services, releases and features exist? Only the operator has the catalogue, and it can suggest the
//!   nearest name.
//! * Does the spec change the name or namespace of an installed release? A rule does not know which releases are
//!   installed, and would also forbid users to undo the change.

use serde_json::{Value, json};

/// A CEL rule of a CRD, and the part of the schema to which it applies.
pub(crate) struct Rule {
    /// The path of the field to which the rule applies, such as `spec.nodes.overrides.[]`. In the path, `*` stands for
    /// the values of a map, and `[]` for the items of a list. An empty path means the whole object.
    pub at: &'static str,
    /// The CEL expression that must be true. If it contains `oldSelf`, the API server evaluates it only when someone
    /// updates the resource.
    pub holds: &'static str,
    /// The API server's message if the rule fails. It says what is required and how to fix the value.
    pub message: &'static str,
    /// The path, relative to `at`, of the field that the API server names in its message; `None` for the field at `at`
    /// itself.
    pub field: Option<&'static str>,
}

impl Rule {
    pub(crate) fn schema(&self) -> Value {
        let mut rule = json!({ "rule": self.holds, "message": self.message });
        if let Some(field) = self.field {
            rule["fieldPath"] = field.into();
        }
        rule
    }
}

const fn rule(at: &'static str, holds: &'static str, message: &'static str) -> Rule {
    Rule { at, holds, message, field: None }
}

/// The rule for the syntax of paths in `unset` (`osdpl_values::Path::parse`).
///
/// The expression is as short as possible. The API server limits the estimated cost of all rules in a CRD, and counts
/// this rule once for each path that the CRD allows in the lists `unset` of all releases.
const PATHS: &str = r#"self.all(path, (path + '.').matches('^(("[^"]+"|[^."][^.]*)[.])+$'))"#;
const PATHS_MESSAGE: &str = "must contain paths whose keys are separated by single dots, such as conf.nova.DEFAULT.debug; write a key that contains dots in \
     double quotes: labels.\"example.org/zone\"";
const SUBDOMAIN: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";
const LABEL: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
const KEY: &str = "self.matches('^[-._a-zA-Z0-9]+$')";
const KEY_MESSAGE: &str =
    "must be a key of the object's data: letters, digits, `-`, `_` and `.`; write one such as values.yaml";
const OBJECT_MESSAGE: &str = "must be the name of an object in this namespace: lower case letters, digits, `-` and `.`; write one such as nova-values";

/// The CEL rules that the API server checks for an `OpenStackDeployment`.
pub(crate) const RULES: &[Rule] = &[
    rule(
        "",
        "self.metadata.name.size() <= 63",
        "metadata.name may have at most 63 characters, because osdpl builds the names of Secrets from it; choose a shorter one",
    ),
    rule(
        "spec.openstackRelease",
        "self.matches('^20[0-9]{2}[.][12]$')",
        "must be an OpenStack release by year and number, in quotes; write one such as \"2026.1\"",
    ),
    rule(
        "spec.presets",
        "self.all(one, self.exists_one(other, other == one))",
        "names a preset twice; list each preset once, in the order in which they apply",
    ),
    rule(
        "spec.catalog",
        "self.all(one, self.exists_one(other, other.name == one.name))",
        "names a ConfigMap twice; list each ConfigMap once",
    ),
    rule("spec.catalog.[].name", SUBDOMAIN, OBJECT_MESSAGE),
    rule(
        "spec.catalog.[].digest",
        "self.matches('^sha256:[0-9a-f]{64}$')",
        "must be `sha256:` and 64 hexadecimal digits in lower case; copy the digest from `status.catalog` of the resource",
    ),
    rule(
        "spec.publicDomain",
        "!isIP(self) && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "must be a DNS name in lower case, without scheme, port or slash; write one such as cloud.example.org",
    ),
    rule(
        "spec.region",
        "self.matches('^[A-Za-z0-9][-._A-Za-z0-9]*$')",
        "must be a Keystone region of letters, digits, `-`, `_` and `.`; write one such as RegionOne",
    ),
    rule(
        "spec.storageClass",
        SUBDOMAIN,
        "must be the name of a StorageClass; choose one from `kubectl get storageclasses`, such as general",
    ),
    rule("spec.common.unset", PATHS, PATHS_MESSAGE),
    rule("spec.common.infra.unset", PATHS, PATHS_MESSAGE),
    rule("spec.common.openstack.unset", PATHS, PATHS_MESSAGE),
    Rule {
        field: Some(".external"),
        ..rule(
            "spec.services.*",
            "!(has(self.external) && has(self.releases))",
            "an external service has no releases; remove `releases`, or remove `external` to run the service in this cluster",
        )
    },
    rule("spec.services.*.credentials.*.name", SUBDOMAIN, OBJECT_MESSAGE),
    rule("spec.services.*.credentials.*.key", KEY, KEY_MESSAGE),
    rule(
        "spec.services.*.external.host",
        "isIP(self) || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "must be an IP address or a DNS name in lower case, without scheme and port; write one such as db.example.org",
    ),
    rule("spec.services.*.releases.*.unset", PATHS, PATHS_MESSAGE),
    rule("spec.services.*.releases.*.valuesFrom.[].name", SUBDOMAIN, OBJECT_MESSAGE),
    rule("spec.services.*.releases.*.valuesFrom.[].key", KEY, KEY_MESSAGE),
    rule(
        "spec.services.*.releases.*.version",
        "self.matches('^v?[0-9]+[.][0-9]+[.][0-9]+([-+][-+.0-9A-Za-z]+)?$')",
        "must be an exact chart version, not a range; write one such as 2026.1.0",
    ),
    rule(
        "spec.services.*.releases.*.digest",
        "self.matches('^sha256:[0-9a-f]{64}$')",
        "must be the digest of a chart, that is `sha256:` and 64 hexadecimal digits in lower case; copy it from the output of `osdpl charts list`",
    ),
    rule(
        "spec.services.*.releases.*",
        "!has(self.digest) || has(self.version)",
        "has a digest without a version; set the version of the chart that has this digest, or remove the digest",
    ),
    rule(
        "spec.services.*.releases.*.namespace",
        LABEL,
        "must be the name of a namespace: lower case letters, digits and `-`; write one such as openstack",
    ),
    rule(
        "spec.services.*.releases.*.name",
        LABEL,
        "must be a name for a helm release: lower case letters, digits and `-`; write one such as keystone",
    ),
    rule(
        "spec.nodes.roles",
        "self.all(role, role.size() <= 63 && role.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
        "must map names of roles to their nodes, and a name may have at most 63 lower case letters, digits and `-`; write names such as compute or gpu-nodes",
    ),
    rule(
        "spec.nodes.roles.*",
        "has(self.names) || has(self.selector)",
        "has no nodes for the role; set nodes by `names`, by `selector`, or by both",
    ),
    rule(
        "spec.nodes.overrides",
        "self.all(one, self.exists_one(other, other.name == one.name))",
        "has two entries with the same name; give each entry a different name, because messages contain the names",
    ),
    rule(
        "spec.nodes.overrides.[]",
        "has(self.selector) != has(self.nodes)",
        "must select nodes: either by `selector` or by `nodes`; set exactly one of them",
    ),
    rule(
        "spec.nodes.rollout.batchSize",
        "string(self).matches('^([1-9][0-9]{0,2}|([1-9][0-9]?|100)%)$')",
        "must be a number of nodes from 1 to 999, or a share of the nodes from 1% to 100%; write a value such as 5 or 10%",
    ),
    rule(
        "spec.charts.repository",
        r#"self.matches('^(https|oci)://[^/?#@ "]+(/[^?#@ "]*)?$')"#,
        "must be the URL of a chart repository that begins with https:// or oci:// and contains no user name, query or fragment; write one such as https://tarballs.opendev.org/openstack/openstack-helm",
    ),
    rule(
        "spec.images.mirrors",
        "self.all(from, from != '' && !from.contains('://') && self[from] != '' && !self[from].contains('://'))",
        "must map prefixes of image references to their replacements, both without scheme and not empty; write an entry such as quay.io: registry.example.org/quay",
    ),
];

/// The CEL rules that the API server checks for a `NodeMaintenance`.
pub(crate) const MAINTENANCE_RULES: &[Rule] = &[
    rule(
        "spec.node",
        "self == oldSelf",
        "can't be changed, because the old node would stay partly in maintenance; delete this NodeMaintenance, and create one for the other node",
    ),
    Rule {
        field: Some(".end"),
        ..rule(
            "spec.window",
            "!has(self.start) || !has(self.end) || self.start < self.end",
            "must be after `start`; correct `start` or `end`",
        )
    },
];
