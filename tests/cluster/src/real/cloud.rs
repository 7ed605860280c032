//! Loads the images into the nodes' containerd, and installs DNS, the operator and the cloud.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::cert_manager;
use super::layer::Layers;
use super::node::Node;
use super::oci::{self, Loadable};
use super::recipe::{Image, Recipes};
use super::reference::{Reference, in_manifests};
use super::run::{folder, logged, note, output};
use super::sample::Sample;
use super::snapshot;
use crate::folder::Folder;

const BASE: &str = include_str!("../../node/base.yaml");
const CEPH: &str = include_str!("../../node/ceph.yaml");
const NEXT: &str = include_str!("../../node/next.txt");
/// The namespace of the operator.
const SYSTEM: &str = "osdpl-system";
/// The folder with charts in the operator's image (`deploy/image-root`).
const CHARTS: &str = "usr/share/osdpl/charts";

/// The operator's image and chart, and the cloud to install.
#[derive(Clone, Debug, clap::Args)]
pub struct Sources {
    /// The root folder of the operator's image, which `make image-root CHARTS=DIR` writes.
    #[arg(long, value_name = "DIR")]
    image_root: PathBuf,
    /// The operator's own chart.
    #[arg(long, value_name = "DIR", default_value = "deploy/osdpl")]
    chart: PathBuf,
    #[command(flatten)]
    pub(super) sample: Sample,
    /// The maximum time to wait until the cloud is Ready, such as 40m.
    #[arg(long, value_name = "SPAN", default_value = "40m")]
    timeout: String,
}

impl Sources {
    fn program(&self, name: &str) -> PathBuf {
        self.image_root.join("usr/local/bin").join(name)
    }

    /// Checks that the files and folders that these options name exist.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let charts = self.image_root.join(CHARTS);
        ensure!(
            charts.is_dir(),
            "there is no folder {}: build the image with charts, `make image-root CHARTS=DIR`",
            charts.display()
        );
        for path in [&self.chart, &self.sample.path] {
            ensure!(path.exists(), "{} does not exist: run this command in the repository", path.display());
        }
        Ok(())
    }

    /// Returns the names and recipes of the images that the node needs: those that the charts of the cloud request,
    /// those that every node has, and that of the Ceph cluster if the cloud needs one.
    pub(super) fn images(&self, recipes: &Recipes) -> anyhow::Result<Vec<(Reference, Image)>> {
        let mut command = Command::new(self.program("osdpl"));
        command.args(["render", "--manifests", "-f"]).arg(&self.sample.path);
        command.arg("--charts").arg(self.image_root.join(CHARTS)).arg("--helm").arg(self.program("helm"));
        let mut wanted = in_manifests(&output(&mut command, "")?)?;
        if self.sample.has_issuer()? {
            wanted.extend(in_manifests(&cert_manager::render(&self.program("helm"))?)?);
        }
        wanted.extend(recipes.always(&self.sample.release()?)?);
        if self.sample.needs_ceph()? {
            wanted.extend(in_manifests(CEPH)?);
        }
        recipes.select(&wanted)
    }
}

/// Loads the images `wanted` and the operator's image into the containerd of each node, except for those that the node
/// has already.
pub(super) fn load(
    nodes: &[Node],
    layers: &Layers<'_>,
    wanted: Vec<(Reference, Image)>,
    sources: &Sources,
) -> anyhow::Result<()> {
    let mut images = vec![operator(sources)?];
    for (reference, image) in wanted {
        let chain = layers.chain(&image.layer)?;
        let layers = chain.iter().rev().map(|layer| oci::cached(layer)).collect();
        images.push(Loadable { reference, layers, settings: oci::settings(&image) });
    }
    let all: BTreeMap<String, String> =
        images.iter().map(|image| (image.reference.to_string(), oci::manifest_digest(image))).collect();
    for node in nodes {
        let (name, known) = (node.number.name(), loaded(node));
        let is_missing = |image: &&Loadable| {
            let reference = image.reference.to_string();
            known.get(&reference) != all.get(&reference)
        };
        let missing: Vec<Loadable> = images.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() {
            note(&format!("{name} has all images already"));
            continue;
        }
        for image in &missing {
            note(&format!("{name}: {}", image.reference));
        }
        snapshot::create(node, &missing)?;
        import(node, &missing)?;
        super::run::write(&record(node), &json!(all).to_string())?;
    }
    Ok(())
}

fn record(node: &Node) -> PathBuf {
    node.cluster.path().join("images.json")
}

/// Returns the manifest digest of each loaded image by the image's name, as `images.json` records them.
fn loaded(node: &Node) -> BTreeMap<String, String> {
    std::fs::read(record(node)).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn operator_image() -> anyhow::Result<Reference> {
    Reference::parse(&format!("osdpl:{}", env!("CARGO_PKG_VERSION")))
}

/// Returns the operator's image, which consists of the folder that `make image-root` writes.
fn operator(sources: &Sources) -> anyhow::Result<Loadable> {
    let files = oci::of_folder(&sources.image_root)?;
    let reference = operator_image()?;
    Ok(Loadable { reference, layers: vec![files], settings: oci::settings_of_operator() })
}

/// Imports images into containerd, which has the snapshots of their layers already.
fn import(node: &Node, images: &[Loadable]) -> anyhow::Result<()> {
    let log = node.cluster.log("import");
    let file = std::fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let errors = file.try_clone().context("cannot open the log of the import")?;
    let mut command = node.command("ctr")?;
    command.args(["--namespace", "k8s.io", "images", "import", "--local", "--discard-unpacked-layers"]);
    command.args(["--platform", "linux/amd64", "-"]).stdin(Stdio::piped()).stdout(file).stderr(errors);
    let mut child = command.spawn().context("cannot run ctr")?;
    let pipe = child.stdin.take().context("ctr has no standard input")?;
    let written = oci::write_archive(images, std::io::BufWriter::new(pipe));
    let status = child.wait().context("cannot wait for ctr")?;
    if !status.success() {
        bail!("containerd did not import the images: {status}\n{}", crate::folder::tail(&log, 15));
    }
    written
}

/// A user of the cluster: runs kubectl, helm and osdpl with the administrator's kubeconfig.
pub(super) struct User<'a> {
    pub nodes: &'a [Node],
    pub sources: &'a Sources,
}

impl User<'_> {
    /// Returns the folder of the first node, which runs the control plane.
    pub fn first(&self) -> &Folder {
        &self.nodes[0].first
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let path = match program {
            "osdpl" | "helm" => self.sources.program(program),
            _ => self.first().bin().join(program),
        };
        let mut command = Command::new(path);
        command.env("KUBECONFIG", self.first().kubeconfig());
        command
    }

    pub(super) fn run(&self, program: &str, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        output(self.command(program).args(arguments), input)
    }

    /// Creates the DNS server and the StorageClass, and waits until all nodes are Ready and the DNS server runs.
    pub fn base(&self) -> anyhow::Result<()> {
        self.apply(BASE)?;
        let names: Vec<String> = self.nodes.iter().map(|node| format!("node/{}", node.number.name())).collect();
        for state in ["--for=create", "--for=condition=Ready"] {
            let names = names.iter().map(String::as_str);
            let command: Vec<&str> = ["wait", state, "--timeout=120s"].into_iter().chain(names).collect();
            self.run("kubectl", &command, "")?;
        }
        let rollout = ["rollout", "status", "--namespace=kube-system", "--timeout=120s", "deployment/coredns"];
        self.run("kubectl", &rollout, "").map(drop)
    }

    /// Creates a Ceph cluster, if the cloud needs one. Does not wait for it: osdpl waits for the Secret that describes
    /// the cluster.
    pub fn ceph(&self) -> anyhow::Result<()> {
        if self.sources.sample.needs_ceph()? { self.apply(CEPH) } else { Ok(()) }
    }

    fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        self.run("kubectl", &["apply", "--server-side", "--force-conflicts", "-f", "-"], manifests).map(drop)
    }

    /// Installs the operator's chart, and waits until the operator's pods are ready.
    pub fn operator(&self) -> anyhow::Result<()> {
        let reference = operator_image()?;
        let digest = loaded(&self.nodes[0]).remove(&reference.to_string()).unwrap_or_default();
        let mut command = self.command("helm");
        command.args(["upgrade", "--install", "osdpl"]).arg(&self.sources.chart);
        command.args(["--namespace", SYSTEM, "--create-namespace", "--history-max", "3"]);
        command.args(["--set", &format!("charts=/{CHARTS}"), "--set", "image.pullPolicy=Never"]);
        // Let the operator run at most three helm processes at once, because each uses a whole processor while it
        // renders.
        command.args(["--set", "slots=3"]);
        // A rebuilt image has the same name as before. This annotation contains the image's digest, so that the
        // Deployment replaces its pods nevertheless.
        command.args(["--set-string", &format!("podAnnotations.image={digest},image.tag={}", reference.tag)]);
        let values = if self.sources.sample.has_issuer()? { cert_manager::TRUST } else { "" };
        logged(command.args(["--values", "-"]), "helm", &self.first().log("helm"), values)?;
        let rollout = ["rollout", "status", "--timeout=180s", "deployment/osdpl", "--namespace", SYSTEM];
        self.run("kubectl", &rollout, "").map(drop)
    }

    /// Applies the sample, and shows the progress until the cloud is Ready.
    pub fn cloud(&self) -> anyhow::Result<()> {
        let sample = self.sources.sample.path.display().to_string();
        note(self.run("kubectl", &["apply", "--server-side", "-f", &sample], "")?.trim());
        let mut command = self.command("osdpl");
        command.args(["wait", "--namespace", "openstack", "--timeout", &self.sources.timeout]);
        let status = command.status().context("cannot run osdpl")?;
        let mut shown = self.command("osdpl");
        shown.args(["status", "--namespace", "openstack"]).status().context("cannot run osdpl")?;
        ensure!(status.success(), "the cloud is not Ready: `osdpl why` explains it; `make real` waits again");
        Ok(())
    }

    /// Writes the command `openstack`, and copies osdpl and helm beside it. `openstack` runs in a pod, because only
    /// pods can resolve the names of the cloud's Services.
    pub fn client(&self) -> anyhow::Result<()> {
        let bin = self.first().bin();
        let kubectl = bin.join("kubectl");
        let text = format!(
            "#!/bin/sh\nexec {} --kubeconfig {} --namespace openstack \\\n  \
             exec -i deployment/openstack-client -- openstack \"$@\"\n",
            kubectl.display(),
            self.first().kubeconfig().display()
        );
        executable(&bin.join("openstack"), &text)?;
        for name in ["osdpl", "kubectl-osdpl", "helm"] {
            let target = bin.join(name);
            let _ = std::fs::remove_file(&target);
            let from = self.sources.program(if name == "helm" { "helm" } else { "osdpl" });
            std::fs::copy(&from, &target).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        Ok(())
    }
}

fn executable(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    path.parent().map_or(Ok(()), folder)?;
    super::run::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Prints what a user can do with the cloud.
pub(super) fn next() {
    eprint!("\n{NEXT}");
}
