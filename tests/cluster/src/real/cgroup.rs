//! Gives each node its own control groups, so that the resource limits of its pods work. The control groups of all pods
//! are below the node's control groups. When the node stops, `remove` removes all of these control groups.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::chroot::filesystem;
use super::number::Number;
use super::run::folder;

/// The control group with which [`problem`] tests whether this process may create control groups.
const TEST: &str = "osdpl-real-test";
const MOUNTS: &str = "/sys/fs/cgroup";

/// A hierarchy of control groups of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// The name of the hierarchy's folder below `/sys/fs/cgroup`, such as `cpu,cpuacct`.
    name: String,
    /// The mount options of the hierarchy.
    options: String,
}

/// Returns the control group hierarchies of version 1 that the content of `/proc/self/cgroup` lists, in lines such as
/// `4:memory:/path` (cgroups(7)).
fn hierarchies(text: &str) -> Vec<Hierarchy> {
    let controllers = text.lines().filter_map(|line| line.split(':').nth(1)).filter(|name| !name.is_empty());
    let mut all: Vec<Hierarchy> = controllers
        .map(|controllers| match controllers.strip_prefix("name=") {
            Some(name) => Hierarchy { name: name.into(), options: format!("none,{controllers}") },
            None => Hierarchy { name: controllers.into(), options: controllers.into() },
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn of_this_process() -> anyhow::Result<Vec<Hierarchy>> {
    Ok(hierarchies(&std::fs::read_to_string("/proc/self/cgroup").context("cannot read /proc/self/cgroup")?))
}

/// Whether the machine has only control groups of version 2.
fn is_unified() -> bool {
    Path::new(MOUNTS).join("cgroup.controllers").exists()
}

/// Returns the name of a node's control group in each control group hierarchy of the machine.
fn name(node: Number) -> String {
    format!("osdpl-real-{}", node.name())
}

/// Returns the folders of the control group `name` in the machine's file system: one folder with cgroup v2, one for
/// each mounted controller with cgroup v1.
fn groups(name: &str) -> anyhow::Result<Vec<PathBuf>> {
    if is_unified() {
        return Ok(vec![Path::new(MOUNTS).join(name)]);
    }
    let all = of_this_process()?;
    Ok(all.iter().map(|one| Path::new(MOUNTS).join(&one.name).join(name)).filter(|path| is_mounted(path)).collect())
}

fn is_mounted(group: &Path) -> bool {
    group.parent().is_some_and(|mount| mount.join("cgroup.procs").exists())
}

/// Returns why the machine's control groups cannot be used; `None` if they can be used. To find out, the function
/// creates control groups and removes them again.
pub(super) fn problem() -> Option<String> {
    match groups(TEST) {
        Err(error) => Some(error.to_string()),
        Ok(groups) if groups.is_empty() => Some(format!("{MOUNTS} contains no control groups")),
        Ok(groups) => {
            let writable = |group: &&PathBuf| group.exists() || std::fs::create_dir(group).is_ok();
            let refused = groups.iter().find(|group| !writable(group));
            let reason = refused.map(|group| format!("{} cannot be created", group.display()));
            remove_all(TEST);
            reason
        }
    }
}

/// Creates the node's control groups and moves this process into them.
pub(super) fn enter(node: Number) -> anyhow::Result<()> {
    for group in groups(&name(node))? {
        folder(&group)?;
        // A new cpuset has no processors and no memory, so no process may enter it (cpusets(7)). Copy both from the
        // parent cpuset.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let parent = group.parent().unwrap_or(&group).join(file);
            if let (false, Ok(value)) = (is_unified(), std::fs::read_to_string(parent)) {
                put(&group.join(file), value.trim())?;
            }
        }
        put(&group.join("cgroup.procs"), "0")?;
    }
    Ok(())
}

/// Mounts the control group hierarchies below `target`. Their root is the node's control group, because this process
/// has its own cgroup namespace.
pub(super) fn mount(target: &Path, node: Number) -> anyhow::Result<()> {
    if is_unified() {
        filesystem("cgroup2", target, "")?;
        // A control group of version 2 that contains processes cannot enable controllers for its children. So move this
        // process into a child.
        let own = target.join("init");
        folder(&own)?;
        put(&own.join("cgroup.procs"), "0")?;
        let available = std::fs::read_to_string(target.join("cgroup.controllers")).unwrap_or_default();
        let all: Vec<String> = available.split_whitespace().map(|controller| format!("+{controller}")).collect();
        return put(&target.join("cgroup.subtree_control"), &all.join(" "));
    }
    let all: Vec<Hierarchy> = of_this_process()?
        .into_iter()
        .filter(|one| is_mounted(&Path::new(MOUNTS).join(&one.name).join(name(node))))
        .collect();
    if all.is_empty() {
        bail!("{MOUNTS} contains no control groups");
    }
    filesystem("tmpfs", target, "mode=755")?;
    for one in all {
        let path = target.join(&one.name);
        folder(&path)?;
        filesystem("cgroup", &path, &one.options)?;
        for part in one.name.split(',').filter(|part| *part != one.name) {
            std::os::unix::fs::symlink(&one.name, target.join(part)).context("cannot create a link to a cgroup")?;
        }
        // libvirt creates cpusets without setting their processors, so each cpuset must inherit the processors of its
        // parent.
        if one.name.contains("cpuset") {
            put(&path.join("cgroup.clone_children"), "1")?;
        }
    }
    Ok(())
}

/// Removes the node's control groups. Keeps those that still contain processes.
pub(super) fn remove(node: Number) {
    remove_all(&name(node));
}

fn remove_all(name: &str) {
    for group in groups(name).unwrap_or_default() {
        remove_below(&group);
    }
}

fn remove_below(group: &Path) {
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(group);
}

fn put(file: &Path, value: &str) -> anyhow::Result<()> {
    std::fs::write(file, value).with_context(|| format!("cannot write {value:?} into {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hierarchies_of_version_1() {
        let found = hierarchies("5:name=systemd:/a\n4:cpu,cpuacct:/a:b\n2:memory:/\n0::/a\n");
        let pairs: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.options.as_str())).collect();
        assert_eq!(pairs, [("cpu,cpuacct", "cpu,cpuacct"), ("memory", "memory"), ("systemd", "none,name=systemd")]);
    }

    #[test]
    fn unified_machines_have_no_hierarchies_of_version_1() {
        assert_eq!(hierarchies("0::/user.slice\n"), []);
    }
}
