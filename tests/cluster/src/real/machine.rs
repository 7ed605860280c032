//! Checks whether this machine can run a real node.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use super::cgroup;

/// The programs that must be on the machine, and the Debian package of each.
const PROGRAMS: [(&str, &str); 7] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("ip", "iproute2"),
    ("tar", "tar"),
    ("cp", "coreutils"),
    ("sha256sum", "coreutils"),
    ("debootstrap", "debootstrap"),
];

/// Fails with a list of everything that the machine lacks.
pub(super) fn check() -> anyhow::Result<()> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        bail!("a real node needs root: run `make real` as root");
    }
    for (program, package) in PROGRAMS {
        if !is_in_path(program) {
            missing.push(format!("the program {program} is not on PATH: install the package {package}"));
        }
    }
    let systems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !has_file_system(&systems, "overlay") {
        missing.push("the kernel has no overlayfs: load the module overlay (modprobe overlay)".into());
    }
    if let Some(reason) = namespaces() {
        missing.push(format!("this process may not create namespaces: {reason}"));
    }
    if let Some(reason) = cgroup::problem() {
        missing.push(format!("the control groups cannot be used: {reason}"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("this machine cannot run a real node:\n  {}", missing.join("\n  "))
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether `text`, the content of `/proc/filesystems`, lists the file system `name`, in a line such as
/// `nodev\toverlay`.
fn has_file_system(text: &str, name: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().last() == Some(name))
}

/// Returns why this machine cannot create the namespaces of a node. To find out, the function creates the namespaces
/// for a moment. Returns `None` if the machine can create them. Also returns `None` if `unshare` cannot be run, because
/// [`check`] itself reports a missing `unshare`.
fn namespaces() -> Option<String> {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--fork", "true"]);
    let output = command.output().ok()?;
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (!output.status.success() && Path::new("/proc/self/ns").exists()).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_file_systems_by_their_whole_name() {
        let text = "nodev\tsysfs\nnodev\toverlay\n\text4\n";
        assert!(has_file_system(text, "overlay") && has_file_system(text, "ext4"));
        assert!(!has_file_system(text, "over") && !has_file_system(text, "nodev"));
    }
}
