//! Checks whether RBAC rules grant a permission, as the API server does
//! (`k8s.io/component-helpers/auth/rbac/validation.Covers`): a single rule must allow each combination of group,
//! resource, verb and name.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// A permission that an RBAC rule grants, or that the operator needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub group: String,
    pub resource: String,
    pub verb: String,
    /// The name of the only object for which the permission holds; `None` means all objects of the resource.
    pub name: Option<String>,
}

impl std::fmt::Display for Permission {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, resource, verb, name } = self;
        let group = if group.is_empty() { "core" } else { group };
        write!(formatter, "{verb} {resource} ({group})")?;
        name.iter().try_for_each(|name| write!(formatter, " {name}"))
    }
}

fn each(list: Option<&Vec<String>>) -> Vec<Option<String>> {
    match list {
        Some(list) if !list.is_empty() => list.iter().cloned().map(Some).collect(),
        _ => vec![None],
    }
}

/// Returns the permissions of a rule: every combination of its groups, resources, verbs and names.
pub fn permissions(rule: &PolicyRule) -> Vec<Permission> {
    let mut all = Vec::new();
    for group in each(rule.api_groups.as_ref()).into_iter().flatten() {
        for resource in each(rule.resources.as_ref()).into_iter().flatten() {
            for verb in &rule.verbs {
                for name in each(rule.resource_names.as_ref()) {
                    all.push(Permission { group: group.clone(), resource: resource.clone(), verb: verb.clone(), name });
                }
            }
        }
    }
    all
}

/// Whether one of the rules grants the permission. Does not support wildcards, because the operator's rules have none.
pub fn allowed(rules: &[PolicyRule], permission: &Permission) -> bool {
    let has = |list: Option<&Vec<String>>, needed: &String| list.is_some_and(|list| list.contains(needed));
    rules.iter().any(|rule| {
        let names = rule.resource_names.as_ref().filter(|names| !names.is_empty());
        has(rule.api_groups.as_ref(), &permission.group)
            && has(rule.resources.as_ref(), &permission.resource)
            && rule.verbs.contains(&permission.verb)
            && names.is_none_or(|names| permission.name.as_ref().is_some_and(|name| names.contains(name)))
    })
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        resource_names: (!names.is_empty()).then(|| owned(names)),
        ..PolicyRule::default()
    }
}

#[test]
fn one_rule_must_allow_the_complete_action() {
    let granted = [rule(&["", "apps"], &["pods"], &["get"], &[]), rule(&[""], &["secrets"], &["get"], &["one"])];
    let cases = [
        (rule(&[""], &["pods"], &["get"], &[]), true),
        (rule(&["", "apps"], &["pods"], &["get"], &["x"]), true),
        (rule(&[""], &["pods"], &["list"], &[]), false),
        (rule(&["batch"], &["pods"], &["get"], &[]), false),
        (rule(&[""], &["secrets"], &["get"], &["one"]), true),
        (rule(&[""], &["secrets"], &["get"], &["two"]), false),
        (rule(&[""], &["secrets"], &["get"], &[]), false),
    ];
    for (needed, expected) in cases {
        assert_eq!(permissions(&needed).iter().all(|permission| allowed(&granted, permission)), expected, "{needed:?}");
    }
}
