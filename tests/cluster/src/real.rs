//! Real nodes on this machine, with kubelets, containerd and real images, for `make real`.
//!
//! A node consists of the programs of a kubelet ([`crate::programs`]), which run in Linux namespaces of their own and
//! on their own root file system. One process is the ancestor of all others (module `node`). Node 1 also runs the
//! programs of the control plane. Up to three nodes form a cluster (module `number`). Two switches connect them with
//! each other and with the machine (module `network`). The images are built from packages of Debian and of Python's
//! package index, in layers that the cache keeps (module `layer`). `images/images.yaml` describes the layers and images
//! (module `recipe`). The images have exactly the names and tags that the charts of the cloud request (module `cloud`).
//! The layers of OpenStack's services exist once for each OpenStack release. Only those that the cloud needs are built.
//!
//! Everything is in the folder `real` of the cache (see [`crate::programs`]): `layers` with the layers, `node` with the
//! data of node 1, and `node2` and `node3` with those of the others. A step that an earlier run has completed is
//! skipped: the name of a layer's folder contains the digest of the layer's inputs, and a node's folder lists the
//! digests of its loaded images.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Subcommand;

use crate::{Program, Programs, programs};

mod cert_manager;
mod cgroup;
mod chroot;
mod cloud;
mod credentials;
mod init;
mod layer;
mod machine;
mod network;
mod node;
mod number;
mod oci;
mod recipe;
mod reference;
mod run;
mod sample;
mod script;
mod settings;
mod snapshot;

use cloud::{Sources, User};
use layer::Layers;
use network::Network;
use node::Node;
use number::{MAX, Number};
use recipe::Recipes;
use run::{note, step};
use sample::Sample;

/// The layer with the root file system of the nodes.
const ROOT: &str = "node";

/// The images with a browser and with an LDAP server, two of the images in `always` of `images.yaml`.
const BROWSER: &str = "localhost/osdpl/browser:1";
const DIRECTORY: &str = "localhost/osdpl/directory:1";

/// A subcommand of `cluster real`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build the programs and images that are missing. Starts nothing. Builds the images of all services for the
    /// OpenStack release of the cloud.
    Prepare(Sample),
    /// Start the nodes, install the operator and a cloud, and wait until the cloud is Ready.
    Up {
        /// The number of nodes. Nodes of an earlier run stay.
        #[arg(long, value_name = "N", default_value_t = 1)]
        #[arg(value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX)))]
        nodes: u8,
        /// The operator's image and chart, and the cloud to install.
        #[command(flatten)]
        sources: Sources,
    },
    /// Stop all nodes and remove their data. Programs and images stay in the cache.
    Down,
    /// Kill all processes of a node, such as node2, as a power failure does. Its data stay.
    Stop {
        /// The name of the node.
        #[arg(value_parser = Number::parse)]
        node: Number,
    },
    /// Start a node again that `stop` has stopped.
    Start {
        /// The name of the node.
        #[arg(value_parser = Number::parse)]
        node: Number,
    },
    /// Kill all processes of all running nodes at once, as a power failure does, and start the nodes again with their
    /// data.
    Restart,
    /// Print shell commands that set KUBECONFIG, and add kubectl, helm, osdpl and openstack to PATH.
    Env,
    /// Run the script of an image layer in the mount namespace of this process. Standard input describes the layer.
    #[command(hide = true)]
    Layer,
    /// Enter the node's control groups and start its first process.
    #[command(hide = true)]
    Enter {
        /// The file with the node's plan.
        plan: PathBuf,
    },
    /// Run as the node's first process.
    #[command(hide = true)]
    Init {
        /// The file with the node's plan.
        plan: PathBuf,
    },
}

/// Runs a subcommand of `cluster real`.
///
/// # Errors
/// Returns an error if the machine lacks a required program or kernel feature, or a step fails. The error says what to
/// do.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Prepare(sample) => prepare(&sample),
        Command::Up { nodes, sources } => up(nodes, sources).await,
        Command::Down => down(),
        Command::Stop { node } => stop(&Node::new(&root()?, node)?),
        Command::Start { node } => Node::new(&root()?, node)?.start_again().await,
        Command::Restart => restart().await,
        Command::Env => env(),
        Command::Layer => {
            let job = std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?;
            match chroot::run(&serde_json::from_str(&job).context("cannot parse standard input")?)? {}
        }
        Command::Enter { plan } => match node::enter(&plan)? {},
        Command::Init { plan } => match node::init(&plan)? {},
    }
}

fn root() -> anyhow::Result<PathBuf> {
    Ok(programs::root()?.join("real"))
}

fn folder(part: &str) -> anyhow::Result<PathBuf> {
    Ok(root()?.join(part))
}

fn running() -> anyhow::Result<Vec<Node>> {
    Ok(Node::all(&root()?)?.into_iter().filter(Node::is_running).collect())
}

/// Builds the missing programs, and the missing layers that a cloud of the sample's OpenStack release may need. The
/// operator's image may not exist yet, so osdpl cannot tell which images the cloud needs.
fn prepare(sample: &Sample) -> anyhow::Result<()> {
    let recipes = Recipes::read()?;
    build(&recipes, recipes.layers_of_images(&sample.release()?)?).map(drop)
}

/// Builds the missing programs and, concurrently, the missing layers without programs, because each build waits for the
/// network or the disk at times. Then builds the missing layers with programs. Builds only the node's root, the layers
/// in `wanted` and the layers that these need.
fn build(recipes: &Recipes, mut wanted: Vec<String>) -> anyhow::Result<Programs> {
    machine::check()?;
    run::folder(&folder("layers")?)?;
    let _lock = programs::lock(&folder("lock")?, || note("waiting for another `cluster real`"))?;
    step("build the programs and images that are missing: takes half an hour the first time only");
    wanted.push(ROOT.to_owned());
    let (with_programs, without): (Vec<String>, Vec<String>) =
        recipes.order(&wanted)?.into_iter().partition(|name| recipes.layers[name].programs().next().is_some());
    let layers = folder("layers")?;
    refuse_to_change_a_running_node(recipes, &layers)?;
    let programs = std::thread::scope(|scope| {
        let other = scope.spawn(|| Layers::new(recipes, &Programs::default(), layers.clone())?.build(&without));
        let in_layers = with_programs.iter().flat_map(|name| recipes.layers[name].programs());
        let wanted: Vec<_> = Program::CONTROL_PLANE.into_iter().chain(Program::NODE).chain(in_layers).collect();
        let programs = programs::ensure(&wanted, &mut programs::print_progress);
        other.join().map_err(|_| anyhow::anyhow!("the thread that builds layers has panicked"))??;
        Ok::<_, anyhow::Error>(programs?)
    })?;
    Layers::new(recipes, &programs, layers)?.build(&with_programs)?;
    Ok(programs)
}

/// Fails if a layer of the node's root file system must be built while the node runs. The build would remove the
/// earlier build of this layer, which the running node uses.
fn refuse_to_change_a_running_node(recipes: &Recipes, layers: &Path) -> anyhow::Result<()> {
    let none = Programs::default();
    let root = Layers::new(recipes, &none, layers.into())?.chain(ROOT)?;
    let changed = root.iter().any(|layer| !layer.is_dir());
    ensure!(
        !changed || running()?.is_empty(),
        "the recipe of the node's root has changed, but a node is running: stop it with `make real-down`"
    );
    Ok(())
}

async fn up(count: u8, sources: Sources) -> anyhow::Result<()> {
    let began = Instant::now();
    sources.check()?;
    let recipes = Recipes::read()?;
    step("render the charts to find the images that the cloud needs");
    let images = sources.images(&recipes)?;
    let programs = build(&recipes, images.iter().map(|(_, image)| image.layer.clone()).collect())?;
    let layers = Layers::new(&recipes, &programs, folder("layers")?)?;
    let mut nodes = Node::all(&root()?)?;
    nodes.retain(|node| node.number.is_within(count) || node.exists());
    for node in &nodes {
        let name = node.number.name();
        if node.is_running() {
            step(&format!("{name} is running already"));
        } else {
            step(&format!("start {name}"));
            let root = layers.chain(ROOT)?.into_iter().map(|layer| layer.join("diff")).collect();
            node.start(&programs, root).await?;
        }
    }
    let user = User { nodes: &nodes, sources: &sources };
    note(&format!("kubeconfig: {}", user.first().kubeconfig().display()));
    step("load the images");
    cloud::load(&nodes, &layers, images, &sources)?;
    user.client()?;
    step("wait for the nodes and DNS");
    user.base()?;
    if sources.sample.has_issuer()? {
        step("install cert-manager, and create an issuer");
        user.cert_manager()?;
    }
    user.ceph()?;
    step("install the operator's chart");
    user.operator()?;
    step("create the cloud, and wait until it is Ready");
    user.cloud()?;
    step(&format!("Ready, after {} s", began.elapsed().as_secs()));
    cloud::next();
    Ok(())
}

fn down() -> anyhow::Result<()> {
    let nodes = Node::all(&root()?)?;
    nodes.iter().for_each(Node::kill);
    for node in &nodes {
        node.stop()?;
    }
    Network::new(&root()?).remove()?;
    for path in nodes.iter().map(|node| node.cluster.path()).filter(|path| path.exists()) {
        std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
        note(&format!("stopped the node and removed {}", path.display()));
    }
    Ok(())
}

fn stop(node: &Node) -> anyhow::Result<()> {
    ensure!(node.stop()?, "{} is not running", node.number.name());
    Ok(())
}

async fn restart() -> anyhow::Result<()> {
    let nodes = running()?;
    ensure!(!nodes.is_empty(), "no node is running: start one with `make real`");
    nodes.iter().for_each(Node::kill);
    for node in &nodes {
        node.stop()?;
    }
    for node in &nodes {
        node.start_again().await?;
    }
    Ok(())
}

fn env() -> anyhow::Result<()> {
    use std::io::Write;
    let node = Node::new(&root()?, Number::FIRST)?;
    let (kubeconfig, bin) = (node.cluster.kubeconfig(), node.cluster.bin());
    let text = format!("export KUBECONFIG={}\nexport PATH={}:$PATH\n", kubeconfig.display(), bin.display());
    // The tests of a real cloud run this command, and create pods with these images.
    let program = std::env::current_exe().context("cannot find this program")?;
    let text = format!("{text}export RESTART_NODE='{} real restart'\n", program.display());
    let text = format!("{text}export BROWSER_IMAGE={BROWSER} DIRECTORY_IMAGE={DIRECTORY}\n");
    // Ignore an error: it means that the reader has closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
