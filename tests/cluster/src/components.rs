//! The programs of a control plane and their command lines.

use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::ports::Ports;
use crate::spec::Spec;
use crate::{Error, Program};

/// A program of the control plane that runs as long as the cluster runs. kubectl and helm are no components, because
/// they exit after each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// etcd, the store of the API server.
    Etcd,
    /// kube-apiserver, the API server.
    Apiserver,
    /// kube-controller-manager, with the controllers of Kubernetes.
    ControllerManager,
    /// kube-scheduler, which assigns pods to nodes.
    Scheduler,
    /// kwok, which simulates the kubelets of all nodes. A test can kill kwok to simulate missing kubelets. It should
    /// not restart kwok, because the new process waits up to 40 s until the killed process's leases of the nodes
    /// expire.
    Kwok,
}

impl Component {
    /// Returns the program of the component.
    pub fn program(self) -> Program {
        match self {
            Self::Etcd => Program::Etcd,
            Self::Apiserver => Program::KubeApiserver,
            Self::ControllerManager => Program::KubeControllerManager,
            Self::Scheduler => Program::KubeScheduler,
            Self::Kwok => Program::Kwok,
        }
    }

    /// Returns the name of the component's program, which is also the name of the component's log and kubeconfig.
    pub fn name(self) -> &'static str {
        self.program().executable()
    }

    /// Returns the arguments of the component's command line.
    pub(crate) fn arguments(self, folder: &Folder, spec: &Spec, ports: Ports) -> Result<Vec<String>, Error> {
        Ok(match self {
            Self::Etcd => etcd(folder, ports),
            Self::Apiserver => apiserver(folder, spec, ports)?,
            Self::ControllerManager => controller_manager(folder, spec),
            Self::Scheduler => scheduler(folder, spec),
            Self::Kwok => kwok(folder),
        })
    }
}

/// Returns the arguments of etcd. They disable fsync, so that tests need not wait for slow disks. A cluster's data need
/// not survive a crash.
fn etcd(folder: &Folder, ports: Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    vec![
        flag("--data-dir", &folder.etcd()),
        "--name=local".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=local={peer}"),
        "--unsafe-no-fsync".into(),
        "--snapshot-count=10000".into(),
        "--quota-backend-bytes=4294967296".into(),
        "--log-level=warn".into(),
    ]
}

fn apiserver(folder: &Folder, spec: &Spec, ports: Ports) -> Result<Vec<String>, Error> {
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.apiserver),
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        flag("--tls-cert-file", &folder.pki("apiserver.crt")),
        flag("--tls-private-key-file", &folder.pki("apiserver.key")),
        flag("--client-ca-file", &folder.pki("ca.crt")),
        flag("--requestheader-client-ca-file", &folder.pki("ca.crt")),
        "--requestheader-allowed-names=front-proxy-client".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
        flag("--service-account-key-file", &folder.pki("service-accounts.pub")),
        flag("--service-account-signing-key-file", &folder.pki("service-accounts.key")),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--allow-privileged=true".into(),
        "--authorization-mode=RBAC".into(),
        "--kubelet-preferred-address-types=InternalIP".into(),
        "--profiling=false".into(),
        "--event-ttl=30m".into(),
    ];
    arguments.extend(emulated(spec));
    if let Some(audit) = spec.audit {
        crate::audit::write_policy(folder, audit)?;
        arguments.push(flag("--audit-policy-file", &folder.audit_policy()));
        arguments.push(flag("--audit-log-path", &folder.audit_log()));
        // The size in megabytes at which the API server starts a new log file. It is larger than the log of any test,
        // because tests read only the newest file.
        arguments.push("--audit-log-maxsize=4096".into());
    }
    Ok(arguments)
}

/// Returns the arguments of kube-controller-manager. kube-controller-manager runs all controllers that need neither
/// real nodes nor a cloud provider. It opens no HTTPS port, because no program connects to it.
fn controller_manager(folder: &Folder, spec: &Spec) -> Vec<String> {
    let mut arguments = vec![
        flag("--kubeconfig", &folder.kubeconfig_of("kube-controller-manager")),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--use-service-account-credentials".into(),
        flag("--service-account-private-key-file", &folder.pki("service-accounts.key")),
        flag("--root-ca-file", &folder.pki("ca.crt")),
        "--enable-hostpath-provisioner".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
        "--controllers=*,-node-ipam-controller,-node-route-controller,-service-lb-controller,\
         -cloud-node-lifecycle-controller,-persistentvolume-attach-detach-controller,\
         -persistentvolume-expander-controller"
            .into(),
    ];
    arguments.extend(emulated(spec));
    arguments
}

/// Returns the arguments of kube-scheduler. kube-scheduler emulates the same version as the API server, because an
/// older API server does not have all kinds that a newer scheduler watches (such as `ResourceClaim`s).
fn scheduler(folder: &Folder, spec: &Spec) -> Vec<String> {
    let mut arguments = vec![
        flag("--kubeconfig", &folder.kubeconfig_of("kube-scheduler")),
        "--secure-port=0".into(),
        "--leader-elect=false".into(),
        "--kube-api-qps=200".into(),
        "--kube-api-burst=400".into(),
    ];
    arguments.extend(emulated(spec));
    arguments
}

fn kwok(folder: &Folder) -> Vec<String> {
    vec![
        flag("--kubeconfig", &folder.kubeconfig_of("kwok")),
        flag("--config", &folder.stages()),
        "--manage-all-nodes=true".into(),
        "--cidr=10.244.0.1/16".into(),
        "--node-ip=127.0.0.1".into(),
        "--node-lease-duration-seconds=40".into(),
    ]
}

fn emulated(spec: &Spec) -> Option<String> {
    spec.emulated_version.as_ref().map(|version| format!("--emulated-version=kube={version}"))
}

fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}
