//! Builds fixtures for the unit tests of all crates; the module is not part of the public interface.
//!
//! A cargo feature does not select this module. The fuzz targets need it, too, so `cargo build --workspace` (`make
//! demo`) would enable the feature, but `cargo build -p osdpl -p cluster` (`make real`) would not. Then cargo would
//! build this crate, and all crates that use it, twice. The linker leaves the module out of the program.

#![allow(missing_docs, clippy::missing_panics_doc, reason = "fixtures for tests")]

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::catalog::{Catalog, Component, Files, WorkloadKind};
use crate::desired::{Desired, DesiredRelease, Provider, VersionSource};
use crate::observed::{
    Attempt, Issue, Liveness, Observed, ObservedHook, ObservedJob, ObservedRelease, RecordBody, ReleaseKey,
    RunningHelm, Workload,
};
use crate::plan::{Plan, Policy, Step, plan};
use crate::release::{Status, Verb};

pub const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// A cloud of two releases that are not installed yet: `front` needs the component `store/server` of `store`.
pub struct Fixture {
    pub desired: Desired,
    pub observed: Observed,
    pub policy: Policy,
    pub catalog: Catalog,
}

pub fn release(name: &str) -> DesiredRelease {
    DesiredRelease {
        key: ReleaseKey::new("openstack", name),
        chart: name.into(),
        service: name.into(),
        group: crate::catalog::Group::Openstack,
        values: osdpl_values::Values::new(),
        secret: Vec::new(),
        marked: Vec::new(),
        inputs: "new".into(),
        inputs_without_facts: None,
        catalog: "catalogue".into(),
        images: "images".into(),
        floating_images: None,
        instances: None,
        hooks: None,
        split: None,
        baseline: crate::desired::BASELINE,
        needs: BTreeMap::new(),
        waits_for: std::collections::BTreeSet::new(),
        components: BTreeMap::new(),
        tests: BTreeMap::new(),
        jobs: 0,
        plain_jobs: vec![format!("{name}-setup")],
        timeout: 900,
        server_side: true,
        version: None,
        chart_digest: None,
        chart_identity: None,
        fingerprint: None,
        version_source: VersionSource::Catalog,
        paused: false,
        managed: true,
        drift: crate::api::DriftPolicy::Report,
        blocked: None,
    }
}

pub fn fixture() -> Fixture {
    let store = Component::parse("store/server").unwrap();
    let mut front = release("front");
    front.needs.insert(store.clone(), Provider::Release("store".into()));
    let mut provider = release("store");
    provider.components.insert(store, WorkloadKind::StatefulSet);
    let releases = [("front".to_owned(), front), ("store".to_owned(), provider)].into();
    Fixture {
        desired: Desired { releases, ..Desired::default() },
        observed: Observed::default(),
        policy: Policy::default(),
        catalog: Catalog::load(&crate::testing::files(&[])).unwrap(),
    }
}

pub fn observed_release(status: Status) -> ObservedRelease {
    ObservedRelease {
        status,
        revision: 3,
        created_at: Some(NOW),
        was_deployed: true,
        inputs: Some("new".into()),
        catalog: Some("catalogue".into()),
        images: Some("images".into()),
        own_inputs: Some("new".into()),
        attempt: Some(Attempt { label: "me".into(), revision: 3, owner: Liveness::Us }),
        body: Some(RecordBody::default()),
        ..ObservedRelease::default()
    }
}

pub fn available(release: &str, component: &str, ready: i32) -> Workload {
    Workload {
        kind: WorkloadKind::StatefulSet,
        namespace: "openstack".into(),
        name: release.into(),
        release: release.into(),
        component: Component::parse(component).unwrap(),
        generation: 1,
        observed_generation: 1,
        desired: 1,
        ready,
        updated: ready,
        on_delete: None,
        outdated_pods: 0,
        was_available: false,
        node_selector: String::new(),
        misscheduled: 0,
        claim_size: None,
        lost_nodes: Vec::new(),
        trouble: None,
    }
}

impl Fixture {
    #[must_use]
    pub fn with_release(mut self, name: &str, record: ObservedRelease) -> Self {
        let key = ReleaseKey::new("openstack", name);
        self.observed.owned.insert(key.clone());
        self.observed.releases.insert(key, record);
        self
    }

    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn plan(&self) -> Plan {
        plan(&self.desired, &self.observed, &self.catalog, &self.policy, NOW)
    }

    pub fn describe_step(&self, name: &str) -> String {
        match &self.plan().decisions[name].step {
            Step::Do(action, why) => format!("{action}, because {why}"),
            Step::Wait(wait) => wait.to_string(),
            Step::Settling(lines) => format!("settles: {}", lines.join("; ")),
            Step::Ready => "ready".into(),
        }
    }
}

pub fn running_helm(inputs: &str) -> RunningHelm {
    RunningHelm { verb: Verb::Upgrade, inputs: inputs.into(), since: NOW, stopping: false, skips_hooks: false }
}

/// Returns a release for which `helm uninstall` started, but did not finish. `delete_hooks_completed` says whether the
/// uninstall has completed its hooks; `None` if the operator has not read the record yet.
pub fn uninstalling(delete_hooks_completed: Option<bool>) -> ObservedRelease {
    let mut release = observed_release(Status::Uninstalling);
    release.body = Some(RecordBody { delete_hooks_completed, ..RecordBody::default() });
    release
}

pub fn hook(fixture: &mut Fixture, failures: i32) {
    let mut pending = observed_release(Status::PendingUpgrade);
    let name = "post-upgrade Job store-init".to_owned();
    pending.body = Some(RecordBody {
        hook: Some(ObservedHook { name, job: Some("store-init".into()), since: None, failed: false }),
        ..RecordBody::default()
    });
    fixture.observed.releases.insert(ReleaseKey::new("openstack", "store"), pending);
    fixture.observed.jobs.push(ObservedJob {
        namespace: "openstack".into(),
        name: "store-init".into(),
        release: "store".into(),
        complete: false,
        failed: false,
        failures,
        trouble: (failures > 0).then(|| Issue { stuck: true, message: "exit code 1: access denied".into() }),
    });
}

/// Returns the files of a small catalogue with invented names; `changes` replaces or adds files by path.
pub fn files(changes: &[(&str, &str)]) -> Files {
    let mut files: Files = [
        (
            "values/services/store.yaml",
            "service: store\ndescription: A database.\ngroup: infra\ncredentials: {admin: {}}\n\
             external: {service: store, portName: sql, port: 3306}\nreleases:\n  store:\n    components: {store/server: StatefulSet}\n\
             \x20   values: {auth: {admin: '${credentials.store.admin}'}}\n",
        ),
        (
            "values/services/front.yaml",
            "service: front\ndescription: An API.\ngroup: openstack\ncredentials: {user: {}}\nreleases:\n  front:\n\
             \x20   needs: [{component: store/server}]\n    components: {front/api: Deployment}\n    plainJobs: [front-setup]\n\
             \x20   values:\n      conf: {region: '${spec.region}', password: '${credentials.front.user}'}\n",
        ),
        ("values/features/colour.yaml",
         "feature: colour\ndescription: Its colour.\nschema: {type: object, properties: {name: {type: string, enum: [red, blue]}, code: {type: string, pattern: '^#[0-9a-f]+$', maxLength: 7}}}\n\
          default: {name: red}\nfragments:\n- when: features.colour.name == 'blue'\n  releases: {front: {values: {conf: {colour: blue}}}}\n"),
        ("values/openstack/2026.1.yaml", "openstackRelease: '2026.1'\ndescription: Gazpacho\nvariables: {tag: t1}\n"),
        ("values/shared/auth.yaml",
         "shared: auth\ndescription: Repeated credentials.\nfragments:\n- every: {values: {auth: {admin: '${credentials.store.admin}', no: 1}}}\n"),
        ("values/keys/front.yaml", "conf: {region: string, password: string, colour: string}\nauth: {admin: string}\n"),
        ("values/lock.yaml", "charts:\n  front: {version: 1.0.0}\n  store: {version: 1.0.0}\n"),
        ("presets/small.yaml", "preset: small\ndescription: A small cloud.\nservices: [store, front]\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned().into()))
    .into();
    for (path, text) in changes {
        files.insert((*path).to_owned(), (*text).to_owned().into());
    }
    files
}
