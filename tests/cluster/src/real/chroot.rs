//! Runs the script of an image layer in the layer's root file system, and mounts the file systems and devices that
//! programs in another root file system need.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, mount, mount_bind};
use serde::{Deserialize, Serialize};

use super::script::INPUTS;

/// The input of `cluster real layer`, which runs the script of a layer. The caller writes it as JSON to the standard
/// input of this command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// The folders with the files of the layers below the new layer, with the newest layer first.
    pub below: Vec<PathBuf>,
    /// The folder of the new layer, which contains `diff`, `work`, `root` and `inputs`.
    pub layer: PathBuf,
    /// The folder of pip's cache.
    pub pip: PathBuf,
    pub environment: BTreeMap<String, String>,
}

/// Mounts the layer's root file system, and replaces this process with the layer's script. The process must have its
/// own mount namespace.
pub(super) fn run(job: &Job) -> anyhow::Result<std::convert::Infallible> {
    let root = job.layer.join("root");
    overlay(&job.below, &job.layer.join("diff"), &job.layer.join("work"), &root)?;
    for folder in ["proc", "dev", "tmp", "root/.cache/pip", INPUTS.trim_start_matches('/')] {
        let path = root.join(folder);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
    }
    filesystem("proc", &root.join("proc"), "")?;
    filesystem("tmpfs", &root.join("tmp"), "mode=1777")?;
    devices(&root.join("dev"), &[])?;
    bind(&job.layer.join("inputs"), &root.join(INPUTS.trim_start_matches('/')))?;
    bind(&job.pip, &root.join("root/.cache/pip"))?;
    let resolver = root.join("etc/resolv.conf");
    std::fs::OpenOptions::new().create(true).append(true).open(&resolver).context("cannot create /etc/resolv.conf")?;
    bind(Path::new("/etc/resolv.conf"), &resolver)?;
    rustix::process::chroot(&root).context("cannot change the root")?;
    std::env::set_current_dir("/").context("cannot change the working directory")?;
    let script = format!("{INPUTS}/script");
    let error = Command::new("/bin/sh").arg(script).env_clear().envs(&job.environment).exec();
    Err(error).context("cannot run the script of the layer")
}

/// Mounts the layers in `below` as one file system at `target`, which stores changed files in `upper`. The options turn
/// `redirect_dir` and `metacopy` off, so that the folder of a layer contains complete files, which tar can pack.
pub(super) fn overlay(below: &[PathBuf], upper: &Path, work: &Path, target: &Path) -> anyhow::Result<()> {
    let below: Vec<String> = below.iter().map(|path| path.display().to_string()).collect();
    let options = format!(
        "lowerdir={},upperdir={},workdir={},redirect_dir=off,metacopy=off,index=off",
        below.join(":"),
        upper.display(),
        work.display()
    );
    filesystem("overlay", target, &options)
}

/// Mounts a file system of the kernel, such as `proc`.
pub(super) fn filesystem(kind: &str, target: &Path, options: &str) -> anyhow::Result<()> {
    let options = CString::new(options).context("a mount option contains a zero byte")?;
    mount(kind, target, kind, MountFlags::empty(), options.as_c_str())
        .with_context(|| format!("cannot mount {kind} on {} ({options:?})", target.display()))
}

pub(super) fn bind(source: &Path, target: &Path) -> anyhow::Result<()> {
    mount_bind(source, target).with_context(|| format!("cannot mount {} on {}", source.display(), target.display()))
}

/// A device file: path below `/dev`, major and minor number, and permissions.
pub(super) type Device = (&'static str, u32, u32, u32);

const DEVICES: [Device; 6] = [
    ("null", 1, 3, 0o666),
    ("zero", 1, 5, 0o666),
    ("full", 1, 7, 0o666),
    ("random", 1, 8, 0o666),
    ("urandom", 1, 9, 0o666),
    ("tty", 5, 0, 0o666),
];

/// Mounts a new `/dev` with the usual devices and the devices `more`. Packages and charts change the permissions of
/// devices, so they must not get the devices of the machine.
pub(super) fn devices(target: &Path, more: &[Device]) -> anyhow::Result<()> {
    filesystem("tmpfs", target, "mode=755,size=64m")?;
    for (name, major, minor, permissions) in DEVICES.iter().chain(more) {
        device(&target.join(name), FileType::CharacterDevice, *major, *minor, *permissions)?;
    }
    for (link, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        let link = target.join(link);
        std::os::unix::fs::symlink(format!("/proc/self/fd{to}"), &link).context("cannot create a link in /dev")?;
    }
    for folder in ["pts", "shm"] {
        std::fs::create_dir_all(target.join(folder)).context("cannot create a folder in /dev")?;
    }
    Ok(())
}

pub(super) fn device(path: &Path, kind: FileType, major: u32, minor: u32, permissions: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let failed = || format!("cannot create {}", String::from_utf8_lossy(path.as_os_str().as_bytes()));
    std::fs::create_dir_all(path.parent().unwrap_or(path)).with_context(failed)?;
    mknodat(CWD, path, kind, Mode::from_raw_mode(permissions), makedev(major, minor)).with_context(failed)?;
    // Unlike `mknodat`, this call ignores the umask of the process.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions)).with_context(failed)
}
