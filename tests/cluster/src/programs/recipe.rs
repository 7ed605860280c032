//! The build instructions of each program: module, package, version and linker flags.
//!
//! The embedded `go.mod` determines the version of a program. To update a program, change only `go.mod` and `go.sum`.

use super::Program;

/// A Go module in `programs/`. Only the modules `entrypoint` and `cert-manager` contain code. The `go.mod` of every other
/// module only lists the modules of programs, and their versions. helm 3 and helm 4 are not in the module of the API server,
/// because helm's requirements would upgrade the API server's dependencies.
#[derive(Clone, Copy, Debug)]
struct Module {
    go_mod: &'static str,
    go_sum: &'static str,
}

/// The source file of a program that is part of this repository (in `programs/`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// The name of the file.
    pub file: &'static str,
    /// The content of the file.
    pub text: &'static str,
}

const KUBE: Module =
    Module { go_mod: include_str!("../../programs/kube/go.mod"), go_sum: include_str!("../../programs/kube/go.sum") };
const HELM3: Module =
    Module { go_mod: include_str!("../../programs/helm3/go.mod"), go_sum: include_str!("../../programs/helm3/go.sum") };
const HELM4: Module =
    Module { go_mod: include_str!("../../programs/helm4/go.mod"), go_sum: include_str!("../../programs/helm4/go.sum") };

/// The module of the kubelet and kube-proxy. They are not in the module of the API server, because then a change of
/// their dependencies would require a new build of the control plane's programs.
const NODE: Module =
    Module { go_mod: include_str!("../../programs/node/go.mod"), go_sum: include_str!("../../programs/node/go.sum") };
const CONTAINERD: Module = Module {
    go_mod: include_str!("../../programs/containerd/go.mod"),
    go_sum: include_str!("../../programs/containerd/go.sum"),
};
const COREDNS: Module = Module {
    go_mod: include_str!("../../programs/coredns/go.mod"),
    go_sum: include_str!("../../programs/coredns/go.sum"),
};
const ENTRYPOINT: Module = Module { go_mod: include_str!("../../programs/entrypoint/go.mod"), go_sum: "" };
const ENTRYPOINT_SOURCE: Source = Source { file: "main.go", text: include_str!("../../programs/entrypoint/main.go") };
/// The module of a small main package, which starts cert-manager's own code. Part of this code is in folders `internal`,
/// so the path of the module begins with the path of cert-manager's module.
const CERT_MANAGER: Module = Module {
    go_mod: include_str!("../../programs/cert-manager/go.mod"),
    go_sum: include_str!("../../programs/cert-manager/go.sum"),
};
const CERT_MANAGER_SOURCE: Source =
    Source { file: "main.go", text: include_str!("../../programs/cert-manager/main.go") };

/// Everything that determines the build of a program, except for Go itself.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub program: Program,
    /// The content of the module's `go.mod`.
    pub go_mod: &'static str,
    /// The content of the module's `go.sum`.
    pub go_sum: &'static str,
    /// The source of the program, if the program is part of this repository.
    pub source: Option<Source>,
    /// The Go package of the program, such as `helm.sh/helm/v4/cmd/helm`.
    pub package: &'static str,
    /// The path of the Go module that determines the version, such as `helm.sh/helm/v4`.
    pub module: &'static str,
    /// The program's version, without the leading `v`.
    pub version: &'static str,
    /// The value of `-ldflags`, with which the linker sets version strings in the program. Without a Kubernetes
    /// version, helm could not install charts that declare a `kubeVersion`.
    pub linker_flags: String,
    /// The arguments that make the program print its version.
    pub version_arguments: &'static [&'static str],
}

impl Recipe {
    /// Returns the build instructions of a program.
    pub fn of(program: Program) -> Self {
        if program == Program::Entrypoint {
            return Self::of_entrypoint();
        }
        let kubernetes = || stamps_of_kubernetes(version(KUBE, "k8s.io/kubernetes"));
        let (module, package, module_path, stamps) = match program {
            Program::Etcd => (KUBE, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", vec![]),
            Program::KubeApiserver => (KUBE, "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes", kubernetes()),
            Program::KubeControllerManager => {
                (KUBE, "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes", kubernetes())
            }
            Program::KubeScheduler => (KUBE, "k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes", kubernetes()),
            Program::Kubectl => (KUBE, "k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes", kubernetes()),
            Program::Kwok => (KUBE, "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", stamps_of_kwok()),
            Program::Helm3 => (HELM3, "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", stamps_of_helm3()),
            Program::Helm4 => (HELM4, "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", stamps_of_helm4()),
            Program::Kubelet => (NODE, "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes", kubernetes()),
            Program::KubeProxy => (NODE, "k8s.io/kubernetes/cmd/kube-proxy", "k8s.io/kubernetes", kubernetes()),
            Program::Containerd | Program::ContainerdShim | Program::Ctr => {
                (CONTAINERD, containerd_package(program), CONTAINERD_MODULE, stamps_of_containerd())
            }
            Program::CertManager => {
                let package = "github.com/cert-manager/cert-manager/cluster-tools";
                (CERT_MANAGER, package, "github.com/cert-manager/cert-manager", vec![])
            }
            Program::Coredns | Program::Entrypoint => {
                (COREDNS, "github.com/coredns/coredns", "github.com/coredns/coredns", vec![])
            }
        };
        let stamps: Vec<String> = stamps.into_iter().map(|stamp| format!("-X {stamp}")).collect();
        Self {
            program,
            go_mod: module.go_mod,
            go_sum: module.go_sum,
            source: (program == Program::CertManager).then_some(CERT_MANAGER_SOURCE),
            package,
            module: module_path,
            version: version(module, module_path),
            linker_flags: format!("-s -w {}", stamps.join(" ")).trim().to_string(),
            version_arguments: version_arguments(program),
        }
    }

    fn of_entrypoint() -> Self {
        Self {
            program: Program::Entrypoint,
            go_mod: ENTRYPOINT.go_mod,
            go_sum: ENTRYPOINT.go_sum,
            source: Some(ENTRYPOINT_SOURCE),
            package: "cluster-tools/entrypoint",
            module: "cluster-tools/entrypoint",
            version: "1.0.0",
            linker_flags: "-s -w".into(),
            version_arguments: &[],
        }
    }

    /// Returns the oldest Go version that `go.mod` allows.
    pub fn go_needed(&self) -> &'static str {
        let line = self.go_mod.lines().find_map(|line| line.strip_prefix("go "));
        line.map_or("", str::trim)
    }
}

const CONTAINERD_MODULE: &str = "github.com/containerd/containerd/v2";

fn containerd_package(program: Program) -> &'static str {
    match program {
        Program::Ctr => "github.com/containerd/containerd/v2/cmd/ctr",
        Program::ContainerdShim => "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        _ => "github.com/containerd/containerd/v2/cmd/containerd",
    }
}

fn version_arguments(program: Program) -> &'static [&'static str] {
    match program {
        Program::Kubectl => &["version", "--client"],
        Program::Helm3 | Program::Helm4 => &["version", "--short"],
        _ => &["--version"],
    }
}

/// Returns the version in the `require` line of `module_path` in `go.mod`, without `v`. The result is empty if `go.mod`
/// has no such line. A test makes sure that every program has a version.
fn version(module: Module, module_path: &str) -> &'static str {
    let mut lines = module.go_mod.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(module_path)?.strip_prefix(" v")?.split(' ').next()).unwrap_or_default()
}

fn stamps_of_kubernetes(version: &str) -> Vec<String> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    let stamps = |package: &str| {
        [
            format!("{package}.gitVersion=v{version}"),
            format!("{package}.gitMajor={major}"),
            format!("{package}.gitMinor={minor}"),
            format!("{package}.gitTreeState=clean"),
        ]
    };
    packages.into_iter().flat_map(stamps).collect()
}

fn stamps_of_kwok() -> Vec<String> {
    let package = "sigs.k8s.io/kwok/pkg/consts";
    let version = version(KUBE, "sigs.k8s.io/kwok");
    vec![format!("{package}.Version={version}"), format!("{package}.PreRelease=GA")]
}

/// Returns the linker flags that set two versions in helm 3: helm's own version, and the Kubernetes version that helm
/// assumes if it renders without a cluster. helm 4 reads the Kubernetes version from client-go.
fn stamps_of_helm3() -> Vec<String> {
    let minor = version(HELM3, "k8s.io/client-go").split('.').nth(1).unwrap_or_default();
    let mut stamps = vec![format!("helm.sh/helm/v3/internal/version.version=v{}", version(HELM3, "helm.sh/helm/v3"))];
    for package in ["helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules"] {
        stamps.push(format!("{package}.k8sVersionMajor=1"));
        stamps.push(format!("{package}.k8sVersionMinor={minor}"));
    }
    stamps
}

fn stamps_of_containerd() -> Vec<String> {
    vec![format!("{CONTAINERD_MODULE}/version.Version=v{}", version(CONTAINERD, CONTAINERD_MODULE))]
}

fn stamps_of_helm4() -> Vec<String> {
    vec![format!("helm.sh/helm/v4/internal/version.version=v{}", version(HELM4, "helm.sh/helm/v4"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_version_and_a_tool_line() {
        for program in Program::ALL {
            let recipe = Recipe::of(program);
            assert_eq!(recipe.version.split('.').count(), 3, "{program}: {:?}", recipe.version);
            assert!(recipe.go_mod.contains(recipe.package), "{program}");
            assert!(recipe.go_needed().starts_with("1."), "{program}");
        }
    }

    #[test]
    fn node_and_control_plane_have_the_same_version() {
        assert_eq!(Recipe::of(Program::Kubelet).version, Recipe::of(Program::KubeApiserver).version);
    }

    #[test]
    fn stamps_both_kubernetes_version_packages() {
        let flags = Recipe::of(Program::KubeApiserver).linker_flags;
        for package in ["component-base", "client-go/pkg"] {
            assert!(flags.contains(&format!("-X k8s.io/{package}/version.gitVersion=v1.")), "{flags}");
        }
    }

    #[test]
    fn stamps_the_client_version_into_helm_3() {
        let flags = Recipe::of(Program::Helm3).linker_flags;
        assert!(flags.contains("chartutil.k8sVersionMinor=3"), "{flags}");
    }
}
