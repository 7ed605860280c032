//! Gives the layers of images to the containerd of a node.
//!
//! An import would write the files of all layers into the folder of the node, which takes a minute and as much disk as
//! the layers. So this module creates the snapshots of containerd's overlayfs snapshotter itself, with hard links to
//! the files in the cache. overlayfs never changes the files of lower layers. So all nodes use the same files, and the
//! kernel keeps their content in memory only once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::node::Node;
use super::oci::{Files, Loadable, chain};
use super::run::output;

/// The folder of containerd in the node. The same folder on the machine is `containerd` in the folder of the node.
const CONTAINERD: &str = "/var/lib/containerd";

/// Creates the snapshots of the images' layers that the node's containerd lacks.
pub(super) fn create(node: &Node, images: &[Loadable]) -> anyhow::Result<()> {
    let list = ctr(node, &["list"])?;
    let mut known: BTreeSet<String> =
        list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    for image in images {
        let mut below: Option<String> = None;
        for layer in &image.layers {
            let name = chain(below.as_deref(), &layer.digest);
            if known.insert(name.clone()) {
                add(node, layer, &name, below.as_deref())?;
            }
            below = Some(name);
        }
    }
    Ok(())
}

fn add(node: &Node, layer: &Files, name: &str, below: Option<&str>) -> anyhow::Result<()> {
    let draft = format!("draft-{name}");
    // Ignore an error: it means that no earlier run was interrupted here.
    let _ = ctr(node, &["remove", &draft]);
    let command: Vec<&str> = ["prepare", "--mounts", &draft].into_iter().chain(below).collect();
    let folder = folder(&ctr(node, &command)?).context("cannot find the folder of a new snapshot of containerd")?;
    let mut copy = Command::new("cp");
    // Files that are not final become files of root, as those of all layers that no package has created.
    copy.args(if layer.are_final { &["--archive", "--link"][..] } else { &["--recursive", "--preserve=mode,links"] });
    output(copy.arg(layer.folder.join(".")).arg(node.cluster.path().join("containerd").join(folder)), "")?;
    ctr(node, &["commit", name, &draft]).map(drop)
}

fn ctr(node: &Node, arguments: &[&str]) -> anyhow::Result<String> {
    output(node.command("ctr")?.args(["--namespace", "k8s.io", "snapshots"]).args(arguments), "")
}

/// Returns the folder for the files of a snapshot, relative to the folder of containerd. `mounts` are the mounts that
/// `ctr snapshots prepare` prints: an overlay, or a bind mount if there is no layer below.
fn folder(mounts: &str) -> Option<PathBuf> {
    let mounts: Value = serde_json::from_str(mounts).ok()?;
    let mount = &mounts[0];
    let mut options = mount["Options"].as_array()?.iter().filter_map(Value::as_str);
    let path = match mount["Type"].as_str()? {
        "overlay" => options.find_map(|option| option.strip_prefix("upperdir="))?,
        _ => mount["Source"].as_str()?,
    };
    Path::new(path).strip_prefix(CONTAINERD).ok().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_folder_of_a_snapshot() {
        let bind = r#"[{"Type": "bind", "Source": "/var/lib/containerd/snapshots/1/fs", "Options": ["rw", "rbind"]}]"#;
        assert_eq!(folder(bind).unwrap(), Path::new("snapshots/1/fs"));
        let overlay = r#"[{"Type": "overlay", "Source": "overlay", "Options": [
            "workdir=/var/lib/containerd/snapshots/2/work", "upperdir=/var/lib/containerd/snapshots/2/fs",
            "lowerdir=/var/lib/containerd/snapshots/1/fs"]}]"#;
        assert_eq!(folder(overlay).unwrap(), Path::new("snapshots/2/fs"));
        assert!(folder("no mounts").is_none());
    }
}
