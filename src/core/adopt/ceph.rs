//! Finds the Ceph cluster that the releases of a running cloud use, and builds the part of the spec that declares it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::SecretContent;
use super::identify::{IdentifiedReleases, InstalledRelease};
use crate::ceph::{CONFIG_MAP, Consumer, DeclaredCeph, read_declared_ceph, setting};
use osdpl_values::{CollectSorted, Path, get};

/// The user, pool and Secret with which one service of a running cloud uses Ceph, according to the values of its
/// release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephUse {
    /// The Ceph user of the service, without the prefix `client.`.
    pub user: String,
    /// The Ceph pool in which the service stores its data; for Manila, the name of the file system in Ceph.
    pub pool: String,
    /// The namespace and name of the Secret that contains the Ceph key of `user`; `None` for Nova if it uses Cinder's
    /// user and key.
    pub keyring: Option<(String, String)>,
}

/// The services of a running cloud that use Ceph, and the `ConfigMap` that contains their `ceph.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CephUses {
    /// The services that use Ceph, each with its user and pool.
    pub consumers: BTreeMap<Consumer, CephUse>,
    /// The namespace and name of the `ConfigMap` from which the services mount `ceph.conf`.
    pub configuration: (String, String),
}

/// The settings of the cloud's Ceph and the keys of its Ceph users, as the caller found them in the Kubernetes cluster.
/// The keys are secret.
#[derive(Default)]
pub struct CephState {
    /// The text of `ceph.conf`; `None` if its `ConfigMap` does not exist.
    pub configuration: Option<String>,
    /// The Ceph key of each service's Ceph user. A service has no entry if its Secret does not exist, or does not
    /// contain the Ceph key.
    pub keys: BTreeMap<Consumer, String>,
    /// Rook's `CephCluster`s in this Kubernetes cluster: maps `namespace/name` to the fsid, which is `None` if Rook
    /// does not report it.
    pub clusters: BTreeMap<String, Option<String>>,
}

/// The part of a spec that declares an external Ceph cluster, and the Secret to which this part refers.
#[derive(Clone)]
pub struct CephDeclaration {
    /// The value for `spec.features.storage`.
    pub feature: Value,
    /// The name and the contents of the Secret that tells the operator the settings of the Ceph cluster.
    pub secret: (String, BTreeMap<String, SecretContent>),
    /// The Ceph settings that `secret` contains, as the operator will read them.
    pub declared: DeclaredCeph,
    /// The `namespace/name` of the `CephCluster` from which osdpl took the fsid; `None` if `ceph.conf` contains the
    /// fsid.
    ///
    /// osdpl guesses that the cloud uses this `CephCluster`, because it is the only one in this Kubernetes cluster for
    /// which Rook reports an fsid.
    pub guessed: Option<String>,
}

/// Finds the services that store data in Ceph, with their users, pools and Secrets; `None` if no release uses Ceph.
pub fn find_ceph_uses(known: &IdentifiedReleases<'_>) -> Option<CephUses> {
    let mut consumers = BTreeMap::new();
    for (name, found) in &known.releases {
        consumers.extend(uses_of_release(name, found));
    }
    let volumes = consumers.get(&Consumer::Cinder).map(|volumes: &CephUse| volumes.user.clone());
    if let Some(nova) = known.releases.get("nova") {
        consumers.extend(nova_use(nova, volumes.as_deref()).map(|nova| (Consumer::Nova, nova)));
    }
    let mounting = ["glance", "cinder", "nova", "manila", "gnocchi"];
    let first = mounting.iter().find_map(|name| {
        let is_used = |consumer: &Consumer| consumer.name().split('-').next() == Some(*name);
        known.releases.get(*name).filter(|_| consumers.keys().any(is_used))
    })?;
    let map = text(first, "ceph_client.configmap").unwrap_or(CONFIG_MAP);
    Some(CephUses { configuration: (first.key.namespace.clone(), map.to_owned()), consumers })
}

/// Returns the user, pool and Secret with which each service in the release `name` uses Ceph, according to the
/// release's values. The result never contains Nova: its use of Ceph also depends on Cinder's release, so [`nova_use`]
/// determines it.
fn uses_of_release(name: &str, found: &InstalledRelease) -> Vec<(Consumer, CephUse)> {
    let section = |consumer: Consumer, (section, pool, user): (&str, &str, &str), keyring: &str| {
        let field = |key: &str| text(found, &format!("{section}.{key}")).unwrap_or_default().to_owned();
        let keyring = text(found, keyring).unwrap_or(consumer.keyring()).to_owned();
        let keyring = Some((found.key.namespace.clone(), keyring));
        (consumer, CephUse { user: field(user), pool: field(pool), keyring })
    };
    let images = ("conf.glance.rbd", "rbd_store_pool", "rbd_store_user");
    let backups = ("conf.cinder.DEFAULT", "backup_ceph_pool", "backup_ceph_user");
    let metrics = ("conf.gnocchi.storage", "ceph_pool", "ceph_username");
    match name {
        "glance" if text(found, "storage") == Some("rbd") => vec![section(Consumer::Glance, images, "secrets.rbd")],
        "cinder" => {
            let volumes = backend(found, "conf.backends", "conf.cinder.DEFAULT.enabled_backends", "rbd.RBDDriver");
            let volumes =
                volumes.map(|path| section(Consumer::Cinder, (&path, "rbd_pool", "rbd_user"), "secrets.rbd.volume"));
            let backs_up = text(found, "conf.cinder.DEFAULT.backup_driver")
                .is_some_and(|driver| driver.contains(".ceph"))
                && value(found, "manifests.deployment_backup") != Some(&Value::Bool(false));
            let backups = backs_up.then(|| section(Consumer::CinderBackup, backups, "secrets.rbd.backup"));
            volumes.into_iter().chain(backups).collect()
        }
        "manila" => {
            let shares = backend(found, "conf.manila", "conf.manila.DEFAULT.enabled_share_backends", "CephFSDriver");
            let names = |path: &str| {
                section(Consumer::Manila, (path, "cephfs_filesystem_name", "cephfs_auth_id"), "secrets.rbd")
            };
            shares.map(|path| names(&path)).into_iter().collect()
        }
        "gnocchi" if text(found, "conf.gnocchi.storage.driver") == Some("ceph") => {
            vec![section(Consumer::Gnocchi, metrics, "secrets.rbd")]
        }
        _ => Vec::new(),
    }
}

/// Returns the user, pool and Secret with which Nova uses Ceph; `None` if Nova does not use Ceph.
///
/// `volumes` is Cinder's Ceph user; `None` if Cinder stores no volumes in Ceph. Nova attaches Cinder's volumes to
/// instances. So if the volumes are in Ceph, Nova uses Ceph, even if it stores no disks of instances there.
fn nova_use(found: &InstalledRelease, volumes: Option<&str>) -> Option<CephUse> {
    let on_ceph = text(found, "conf.nova.libvirt.images_type") == Some("rbd");
    if !on_ceph && volumes.is_none() {
        return None;
    }
    let user = text(found, "conf.nova.libvirt.rbd_user").unwrap_or_default();
    let own = (volumes != Some(user)).then(|| (found.key.namespace.clone(), Consumer::Nova.keyring().to_owned()));
    let pool = text(found, "conf.nova.libvirt.images_rbd_pool").unwrap_or_default().to_owned();
    Some(CephUse { user: user.to_owned(), pool, keyring: own })
}

/// Returns the path of the settings of the first enabled storage backend that has the driver `driver`; `None` if no
/// enabled backend has this driver.
///
/// `enabled` is the path of a string with the names of the enabled backends, separated by commas. `sections` is the
/// path of the map that contains the settings of each backend.
fn backend(found: &InstalledRelease, sections: &str, enabled: &str, driver: &str) -> Option<String> {
    let enabled = text(found, enabled)?.split(',').map(str::trim);
    let is_of = |path: &String| {
        let named = ["volume_driver", "share_driver"].into_iter().find_map(|key| text(found, &format!("{path}.{key}")));
        named.is_some_and(|named| named.ends_with(driver))
    };
    enabled.map(|name| format!("{sections}.{name}")).find(is_of)
}

fn value<'a>(found: &'a InstalledRelease, path: &str) -> Option<&'a Value> {
    get(&found.effective_values, &Path::parse(path).ok()?)
}

fn text<'a>(found: &'a InstalledRelease, path: &str) -> Option<&'a str> {
    value(found, path)?.as_str().filter(|text| !text.is_empty())
}

impl CephUses {
    /// Builds the part of the spec that declares the running cloud's Ceph, and the Secret `namespace/name` to which
    /// this part refers. The Secret contains the Ceph keys of the cloud's services.
    ///
    /// `releases` are the catalogue names of the cloud's releases.
    ///
    /// # Errors
    /// Returns a message for each setting or key that `state` lacks. If `state` is complete, but osdpl can't use the
    /// Secret's contents for `releases`, returns the reason.
    pub fn storage<'a>(
        &self,
        state: &CephState,
        namespace: &str,
        name: &str,
        releases: impl Iterator<Item = &'a str>,
    ) -> Result<CephDeclaration, Vec<String>> {
        let conf = |option| state.configuration.as_deref().and_then(|conf| setting(conf, option)).map(str::to_owned);
        let reported: Vec<_> =
            state.clusters.iter().filter_map(|(cluster, fsid)| Some((cluster, fsid.clone()?))).collect();
        // Guess the fsid only if exactly one `CephCluster` reports its fsid. With several, osdpl can't know which one
        // the cloud uses.
        let guess =
            || if let [(cluster, fsid)] = &reported[..] { Some(((*cluster).clone(), fsid.clone())) } else { None };
        let guess = if conf("fsid").is_none() { guess() } else { None };
        let mon_host = conf("mon_host");
        let fsid = conf("fsid").or_else(|| guess.as_ref().map(|(_, fsid)| fsid.clone()));
        let missing = self.missing_inputs(state, mon_host.as_deref(), fsid.as_deref());
        if !missing.is_empty() {
            return Err(missing);
        }
        let mut open = vec![("mon_host".to_owned(), mon_host), ("fsid".to_owned(), fsid)];
        for (consumer, own) in &self.consumers {
            let field = |field: &str| format!("{}.{field}", consumer.name());
            open.push((field("pool"), Some(own.pool.clone())));
            open.push((field("user"), own.keyring.is_some().then(|| own.user.clone())));
        }
        let open = open.into_iter().filter_map(|(key, value)| Some((key, SecretContent::Open(value?))));
        let keys = state
            .keys
            .iter()
            .map(|(consumer, key)| (format!("{}.key", consumer.name()), SecretContent::Text(key.clone())));
        let contents: BTreeMap<String, SecretContent> = open.chain(keys).collect_map();
        let data = contents.iter().map(|(key, content)| (key.clone(), content.text().into_bytes())).collect_map();
        let declared = read_declared_ceph(&format!("{namespace}/{name}"), Ok(data), releases, None);
        match declared.not_ready_reason() {
            Some(trouble) => Err(vec![trouble.to_string()]),
            None => Ok(CephDeclaration {
                feature: json!({"backend": "ceph", "ceph": {"mode": "external", "secret": {"name": name}}}),
                secret: (name.to_owned(), contents),
                declared,
                guessed: guess.map(|(cluster, _)| cluster),
            }),
        }
    }

    /// Returns a message for each missing input: the addresses of Ceph's monitors, the fsid, and the Ceph key of each
    /// service.
    fn missing_inputs(&self, state: &CephState, mon_host: Option<&str>, fsid: Option<&str>) -> Vec<String> {
        let (namespace, map) = &self.configuration;
        let mut missing = Vec::new();
        if mon_host.is_none() {
            missing.push(format!("ConfigMap {namespace}/{map} does not exist, or its ceph.conf does not set mon_host"));
        }
        if fsid.is_none() {
            missing.push("the fsid of the cloud's Ceph is unknown (`ceph fsid` prints it)".to_owned());
        }
        for (consumer, own) in self.consumers.iter().filter(|(consumer, _)| !state.keys.contains_key(consumer)) {
            if let Some((namespace, secret)) = &own.keyring {
                let (service, user) = (consumer.name(), &own.user);
                missing.push(format!(
                    "Secret {namespace}/{secret} does not contain the Ceph key of {service}'s user {user}"
                ));
            }
        }
        missing
    }

    /// Returns the names of the services that use Ceph as text for a message: `glance, cinder`.
    pub fn who(&self) -> String {
        self.consumers.keys().map(|consumer| consumer.name()).collect::<Vec<_>>().join(", ")
    }

    /// Returns, as text for a message, the names of the keys that the Secret with the settings of the Ceph cluster must
    /// contain: `mon_host, fsid, glance.key`.
    pub fn keys(&self) -> String {
        let keys_of = |(consumer, own): (&Consumer, &CephUse)| {
            let fields = if own.keyring.is_some() { &["key", "pool", "user"][..] } else { &["pool"] };
            fields.iter().map(|field| format!("{}.{field}", consumer.name())).collect::<Vec<_>>()
        };
        let own = self.consumers.iter().flat_map(keys_of);
        ["mon_host".to_owned(), "fsid".to_owned()].into_iter().chain(own).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{CloudInventory, Description, identify::identify_releases};
    use super::*;
    use crate::observed::{ComparisonResult, ReleaseKey};
    use crate::release::{Chart, RevisionSource};

    /// A made-up Ceph key, in the format that `ceph auth print-key` prints.
    const KEY: &str = "AQABAgMEBQYHCBAApqampqampqampqampqamgQ==";
    const FSID: &str = "6d2a1b7e-0c8f-4a53-9d61-1f6f0f1d2c3b";

    fn found(name: &str, defaults: Value) -> InstalledRelease {
        let chart = Chart { name: name.into(), version: "1.0.0".into(), app_version: String::new() };
        let map = |value: Value| serde_json::from_value(value).unwrap();
        let source =
            RevisionSource { config: map(json!({})), chart, defaults: map(defaults), fingerprint: String::new() };
        InstalledRelease::new(ReleaseKey::new("openstack", name), 1, source)
    }

    /// Returns releases of glance, cinder and nova that store images, volumes, backups and disks of instances in Ceph,
    /// with values as in upstream's charts.
    fn cloud() -> Vec<InstalledRelease> {
        let rbd = json!({"rbd_store_pool": "glance.images", "rbd_store_user": "glance"});
        let glance =
            json!({"storage": "rbd", "conf": {"glance": {"rbd": rbd}}, "secrets": {"rbd": "images-rbd-keyring"}});
        let driver = "cinder.volume.drivers.rbd.RBDDriver";
        let cinder = json!({
            "conf": {
                "backends": {"rbd1": {"volume_driver": driver, "rbd_pool": "cinder.volumes", "rbd_user": "cinder"}},
                "cinder": {"DEFAULT": {
                    "enabled_backends": "lvm, rbd1", "backup_driver": "cinder.backup.drivers.ceph.CephBackupDriver",
                    "backup_ceph_pool": "cinder.backups", "backup_ceph_user": "cinderbackup",
                }},
            },
            "secrets": {"rbd": {"volume": "their-keyring", "backup": "cinder-backup-rbd-keyring"}},
        });
        let disks = json!({"images_type": "rbd", "images_rbd_pool": "vms", "rbd_user": "cinder"});
        vec![
            found("glance", glance),
            found("cinder", cinder),
            found("nova", json!({"conf": {"nova": {"libvirt": disks}}})),
        ]
    }

    fn used(found: &[InstalledRelease]) -> Option<CephUses> {
        find_ceph_uses(&identify_releases(found, &crate::files::load_catalog(None).unwrap()))
    }

    fn answers() -> CephState {
        let keys = [Consumer::Glance, Consumer::Cinder, Consumer::CinderBackup].map(|one| (one, KEY.to_owned()));
        let configuration = format!("[global]\ncephx = true\nfsid = {FSID}\nmon_host = 10.0.0.1:6789\n");
        CephState { configuration: Some(configuration), keys: keys.into(), clusters: BTreeMap::new() }
    }

    fn storage(found: &[InstalledRelease], answers: &CephState) -> Result<CephDeclaration, Vec<String>> {
        let names = found.iter().map(|found| found.key.name.as_str());
        used(found).unwrap().storage(answers, "openstack", "cloud-adopted-ceph", names)
    }

    #[test]
    fn describes_ceph_with_the_keys_of_the_services() {
        let uses = used(&cloud()).unwrap();
        assert_eq!(uses.who(), "glance, cinder, cinder-backup, nova");
        assert_eq!(uses.configuration, ("openstack".to_owned(), "ceph-etc".to_owned()));
        let volumes = &uses.consumers[&Consumer::Cinder];
        assert_eq!(
            volumes.keyring,
            Some(("openstack".to_owned(), "their-keyring".to_owned())),
            "osdpl takes the name of cinder's Secret from the release's values, and not from the chart's defaults"
        );

        let storage = storage(&cloud(), &answers()).unwrap();
        let ceph = json!({"mode": "external", "secret": {"name": "cloud-adopted-ceph"}});
        assert_eq!(storage.feature, json!({"backend": "ceph", "ceph": ceph}));
        let contents: Vec<String> =
            storage.secret.1.iter().map(|(key, content)| format!("{key} {}", content.text())).collect();
        let fsid = format!("fsid {FSID}");
        let [backup, volumes, images] = ["cinder-backup", "cinder", "glance"].map(|name| format!("{name}.key {KEY}"));
        let expected = [
            &backup,
            "cinder-backup.pool cinder.backups",
            "cinder-backup.user cinderbackup",
            &volumes,
            "cinder.pool cinder.volumes",
            "cinder.user cinder",
            &fsid,
            &images,
            "glance.pool glance.images",
            "glance.user glance",
            "mon_host 10.0.0.1:6789",
            "nova.pool vms",
        ];
        assert_eq!(contents, expected);
        let variables = Value::Object(storage.declared.variables());
        assert_eq!((&variables["nova"]["user"], &variables["nova"]["own"]), (&json!("cinder"), &json!(false)));
    }

    #[test]
    fn ignores_services_that_do_not_use_ceph() {
        let elsewhere = [
            found("glance", json!({"storage": "pvc"})),
            found("cinder", json!({"conf": {"cinder": {"DEFAULT": {"enabled_backends": "lvm"}}}})),
            found("nova", json!({"conf": {"ceph": {"enabled": true}, "nova": {"libvirt": {"images_type": "qcow2"}}}})),
        ];
        assert_eq!(used(&elsewhere), None);
        // This cloud stores the disks of instances outside of Ceph, but its volumes in Ceph. Nova attaches the volumes,
        // so it needs a Ceph user.
        let mut mixed = cloud();
        mixed[2] =
            found("nova", json!({"conf": {"nova": {"libvirt": {"images_rbd_pool": "vms", "rbd_user": "cinder"}}}}));
        assert!(storage(&mixed, &answers()).is_ok());
        mixed[0] = found("glance", json!({"storage": "pvc"}));
        let mut without = answers();
        without.keys.remove(&Consumer::Glance);
        let message = storage(&mixed, &without).err().unwrap().join("; ");
        assert!(message.contains("key glance.key: the key is missing"), "{message}");
    }

    #[test]
    fn reports_everything_that_is_missing() {
        let messages = storage(&cloud(), &CephState::default()).err().unwrap();
        let missing =
            |secret: &str, user: &str| format!("Secret openstack/{secret} does not contain the Ceph key of {user}");
        assert_eq!(
            messages,
            [
                "ConfigMap openstack/ceph-etc does not exist, or its ceph.conf does not set mon_host".to_owned(),
                "the fsid of the cloud's Ceph is unknown (`ceph fsid` prints it)".to_owned(),
                missing("images-rbd-keyring", "glance's user glance"),
                missing("their-keyring", "cinder's user cinder"),
                missing("cinder-backup-rbd-keyring", "cinder-backup's user cinderbackup"),
            ]
        );
        let mut named = answers();
        named.configuration = Some(format!("fsid = {FSID}\nmon_host = ceph-mon.ceph.svc.cluster.local:6789"));
        let message = storage(&cloud(), &named).err().unwrap().join("; ");
        assert!(message.contains("key mon_host: address 1 is invalid"), "{message}");
    }

    #[test]
    fn takes_a_missing_fsid_from_the_only_ceph_cluster() {
        let mut bare = answers();
        bare.configuration = Some("[global]\nmon_host = 10.0.0.1:6789\n".into());
        bare.clusters = [("rook-ceph/main".to_owned(), Some(FSID.to_owned()))].into();
        let known = storage(&cloud(), &bare).unwrap();
        assert_eq!(known.guessed.as_deref(), Some("rook-ceph/main"));
        assert_eq!(known.secret.1["fsid"].text(), FSID);
        bare.clusters.insert("rook-ceph/other".into(), Some(FSID.replace('6', "7")));
        assert!(storage(&cloud(), &bare).is_err(), "osdpl does not guess the fsid if there are two CephClusters");
        bare.configuration = answers().configuration;
        assert_eq!(storage(&cloud(), &bare).unwrap().guessed, None);
    }

    #[test]
    fn the_declaration_changes_no_release() {
        let catalog = crate::files::load_catalog(None).unwrap();
        let found = cloud();
        let (known, storage) = (identify_releases(&found, &catalog), storage(&found, &answers()).unwrap());
        let provide_facts = |selection: &_| crate::placeholder::facts(&catalog, selection);
        let cloud =
            CloudInventory::new("openstack", "cloud", &known, &catalog, &provide_facts).with_storage(Some(&storage));
        let Description { spec, secrets, compared, .. } = cloud.describe();
        assert_eq!(spec.features["storage"], storage.feature);
        assert!(secrets["cloud-adopted-ceph"] == storage.secret.1);
        assert_eq!(compared.len(), 3);
        for (name, compared) in &compared {
            assert_eq!(compared.result, ComparisonResult::Same, "{name}");
        }
        let glance = serde_json::to_string(&spec.services["glance"]).unwrap();
        assert!(
            !glance.contains("rbd_store_pool"),
            "the spec does not override the pool, which comes from the declared Ceph: {glance}"
        );
    }
}
