//! Paths that charts read and do not list.

use osdpl::values;

/// Paths that no chart lists in its own values, that are no user's to fill either ([`known`]), and that its templates read; `*` stands for
/// one key or the end of one, `**` for any number.
const UNLISTED: &[(&str, &str)] = &[
    ("annotations.pod.**", "a free map that the toolkit reads by the pod's name"),
    (
        "images.tags.ceilometer_db_sync",
        "the toolkit's db-sync Job reads it; ceilometer's values lack it, and its Job has no image then",
    ),
    (
        "manifests.job_ks_endpoints",
        "the toolkit drops waits for Jobs that are off; ceilometer waits for one that it does not have",
    ),
    ("conf.ks_domains", "keystone's domains with a configuration of their own, which its values only comment on"),
    ("network_policy.*.spec.**", "a whole NetworkPolicy, which the toolkit takes as it is"),
    ("pod.priorityClassName.*", "a free map that the toolkit reads by the component's name"),
    ("cortex-postgres.auth.password", "a key of a chart within the chart"),
    ("pod.mandatory_access_control.**", "profiles by container, which the toolkit reads"),
    ("pod.mounts.nova_compute.nova_compute.volume*.**", "lists of anything that a pod may mount"),
    ("network.interface.sriov", "neutron's cards with virtual functions, which its values only comment on"),
    (
        "pod.security_context.cinder_backup.container.cinder_backup.runAsGroup",
        "a whole security context, which the toolkit takes as it is",
    ),
    (
        "pod.security_context.glance.container.glance_api.privileged",
        "a whole security context, which the toolkit takes as it is",
    ),
    ("release_uuid", "an annotation of every pod that the values leave null"),
];

/// Whether a path is one of these.
pub fn is_unlisted(path: &values::Path) -> bool {
    fn fits(pattern: &[&str], keys: &[String]) -> bool {
        match (pattern, keys) {
            ([], []) | (["**"], _) => true,
            ([first, pattern @ ..], [key, keys @ ..]) => {
                let same = first.strip_suffix('*').map_or(first == key, |start| key.starts_with(start));
                same && fits(pattern, keys)
            }
            _ => false,
        }
    }
    UNLISTED.iter().any(|(pattern, _)| fits(&pattern.split('.').collect::<Vec<_>>(), path.keys()))
}
