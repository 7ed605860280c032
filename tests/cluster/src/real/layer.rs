//! Builds the layers of the images, and keeps them in the cache.
//!
//! The name of a layer's folder contains a digest of all inputs, such as the layer below, the script and the files. A
//! folder gets its name only when the layer is complete, so that nobody uses the result of an interrupted build. The
//! name does not contain the OpenStack release, because the digest depends on the release.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::chroot::Job;
use super::recipe::{Layer, LayerFile, Recipes, requirements};
use super::run::{folder, logged, note, write};
use super::script;
use crate::{Programs, digest};

/// The version of the code that builds layers. It is part of each layer's digest: after a change of this version, all
/// layers are built again.
const FORMAT: &str = "1";
/// The environment variables that the script of a layer gets from this process, because package managers may need them
/// to reach the package archives.
const PASSED_ON: [&str; 9] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
];
/// The CA certificates of the machine that builds the layers. They may contain the CA of the proxy through which this
/// machine downloads packages; the certificates of Debian's packages do not.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The layers that the recipes describe, and the folder of the cache in which they are built.
pub(super) struct Layers<'a> {
    recipes: &'a Recipes,
    programs: &'a Programs,
    folder: PathBuf,
    keys: BTreeMap<String, String>,
}

impl<'a> Layers<'a> {
    /// Returns the layers that these recipes describe, with `folder` as the folder for their builds. Builds none.
    pub fn new(recipes: &'a Recipes, programs: &'a Programs, folder: PathBuf) -> anyhow::Result<Self> {
        let mut keys = BTreeMap::new();
        let all: Vec<String> = recipes.layers.keys().cloned().collect();
        for name in recipes.order(&all)? {
            let key = key(recipes.layer(&name)?, recipes, programs, &keys)?;
            keys.insert(name, key);
        }
        Ok(Self { recipes, programs, folder, keys })
    }

    /// Returns the folder of a layer, which exists only if the layer is built.
    pub fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        let recipe = &self.recipes.layer(name)?.recipe;
        let key = self.keys.get(name).with_context(|| format!("the layer {name} has no key"))?;
        Ok(self.folder.join(format!("{recipe}-{key}")))
    }

    /// Returns the folders of a layer and of the layers below it, with the newest layer first.
    pub fn chain(&self, name: &str) -> anyhow::Result<Vec<PathBuf>> {
        self.recipes.chain(name)?.iter().map(|name| self.path(name)).collect()
    }

    /// Builds the layers in `wanted` and all layers that they need, except for layers that are built already.
    pub fn build(&self, wanted: &[String]) -> anyhow::Result<()> {
        folder(&self.folder)?;
        let order = self.recipes.order(wanted)?;
        let mut missing = Vec::new();
        for name in &order {
            if !self.path(name)?.is_dir() {
                missing.push(name);
            }
        }
        for (index, name) in missing.iter().enumerate() {
            let began = Instant::now();
            note(&format!("building layer {name} ({} of {})", index + 1, missing.len()));
            self.build_one(name).with_context(|| format!("cannot build the layer {name}"))?;
            note(&format!("built layer {name} in {} s", began.elapsed().as_secs()));
        }
        Ok(())
    }

    fn build_one(&self, name: &str) -> anyhow::Result<()> {
        let layer = self.recipes.layer(name)?;
        let target = self.path(name)?;
        let prefix = format!(".building-{name}-");
        crate::programs::remove_leftovers(&self.folder, &prefix);
        let work =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.folder).context("cannot create a folder")?;
        let at = work.path();
        for part in ["diff", "work", "root", "inputs"] {
            folder(&at.join(part))?;
        }
        if let Some(suite) = &layer.debian {
            self.bootstrap(suite, at)?;
        }
        let script = script::of(layer);
        if !script.is_empty() {
            self.run(name, layer, &script, at)?;
        }
        if let Some(copy) = &layer.copy {
            let from = self.path(&copy.layer)?.join("diff").join(copy.path.trim_start_matches('/'));
            link(&from, &at.join("diff").join(copy.path.trim_start_matches('/')))?;
        }
        for (path, file) in &layer.files {
            self.place(file, &at.join("diff").join(path.trim_start_matches('/')))?;
        }
        self.remove_older(&layer.recipe)?;
        std::fs::rename(at, &target).with_context(|| format!("cannot create {}", target.display()))?;
        // Do not remove the temporary folder: under its new name, it is the folder of the layer.
        let _ = work.keep();
        Ok(())
    }

    /// Installs a minimal Debian system into `diff`, without documentation.
    fn bootstrap(&self, suite: &str, at: &Path) -> anyhow::Result<()> {
        let diff = at.join("diff");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "debootstrap", "--variant=minbase"]);
        command.args(["--include=ca-certificates", suite]).arg(&diff).arg(&self.recipes.debian.mirror);
        logged(&mut command, "debootstrap", &self.log("debian"), "")?;
        let (mirror, security) = (&self.recipes.debian.mirror, &self.recipes.debian.security);
        let sources = format!(
            "deb {mirror} {suite} main\ndeb {mirror} {suite}-updates main\ndeb {security} {suite}-security main\n"
        );
        write(&diff.join("etc/apt/sources.list"), &sources)?;
        let unused = ["doc", "man", "locale", "info"];
        let excludes = unused.map(|part| format!("path-exclude=/usr/share/{part}/*\n"));
        write(&diff.join("etc/dpkg/dpkg.cfg.d/unused"), &excludes.concat())?;
        for part in
            unused.map(|part| format!("usr/share/{part}")).iter().map(String::as_str).chain(["var/lib/apt/lists"])
        {
            let _ = std::fs::remove_dir_all(diff.join(part));
            folder(&diff.join(part))?;
        }
        Ok(())
    }

    /// Runs the script of a layer in the layer's root file system.
    fn run(&self, name: &str, layer: &Layer, script: &str, at: &Path) -> anyhow::Result<()> {
        ensure!(layer.from.is_some(), "a layer without a layer below can only have files: add `from`");
        write(&at.join("inputs/script"), script)?;
        if let Some(file) = &layer.python {
            write(&at.join("inputs").join(file), requirements(file)?)?;
        }
        let below: Vec<PathBuf> = self.chain(name)?.into_iter().skip(1).map(|path| path.join("diff")).collect();
        let pip = self.folder.join("pip");
        folder(&pip)?;
        let job = Job { below, layer: at.into(), pip, environment: environment(&at.join("inputs"))? };
        let me = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--"]);
        command.arg(me).args(["real", "layer"]);
        logged(&mut command, &format!("layer {name}"), &self.log(name), &serde_json::json!(job).to_string())?;
        for part in ["diff/.osdpl", "diff/root/.cache"] {
            // Ignore an error: the folder does not exist if the script has changed nothing in it.
            let _ = std::fs::remove_dir_all(at.join(part));
        }
        Ok(())
    }

    fn place(&self, file: &LayerFile, target: &Path) -> anyhow::Result<()> {
        if let Some(program) = file.program {
            target.parent().map_or(Ok(()), folder)?;
            std::fs::copy(self.programs.path(program)?, target)
                .with_context(|| format!("cannot write {}", target.display()))?;
        } else {
            write(target, file.text.as_deref().unwrap_or_default())?;
        }
        let permissions = if file.executable || file.program.is_some() { 0o755 } else { 0o644 };
        std::fs::set_permissions(target, std::fs::Permissions::from_mode(permissions))
            .with_context(|| format!("cannot write {}", target.display()))
    }

    /// Removes the folders with earlier builds of a recipe, which were built from other inputs. Keeps the builds for
    /// all OpenStack releases, because the next cloud may have another release.
    fn remove_older(&self, recipe: &str) -> anyhow::Result<()> {
        let current: BTreeSet<PathBuf> = self.keys.keys().map(|name| self.path(name)).collect::<Result<_, _>>()?;
        let entries = std::fs::read_dir(&self.folder).context("cannot read the folder of layers")?;
        let builds = entries.flatten().filter(|entry| is_of(recipe, &entry.file_name().to_string_lossy()));
        for older in builds.map(|entry| entry.path()).filter(|path| !current.contains(path)) {
            std::fs::remove_dir_all(older).context("cannot remove an old layer")?;
        }
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

/// Whether `folder` is the name of a folder with a build of the recipe `recipe`.
fn is_of(recipe: &str, folder: &str) -> bool {
    let key = folder.strip_prefix(recipe).and_then(|rest| rest.strip_prefix('-'));
    key.is_some_and(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the key of a layer, which is a digest of all inputs of the layer. `keys` contains the keys of the layers
/// that this layer needs, by name.
fn key(
    layer: &Layer,
    recipes: &Recipes,
    programs: &Programs,
    keys: &BTreeMap<String, String>,
) -> anyhow::Result<String> {
    let mut parts = vec![FORMAT.to_owned(), std::env::consts::ARCH.to_owned(), script::of(layer)];
    for below in layer.needs() {
        parts.push(keys.get(below).cloned().unwrap_or_default());
    }
    if let Some(suite) = &layer.debian {
        parts.extend([suite.clone(), recipes.debian.mirror.clone(), recipes.debian.security.clone()]);
    }
    if let Some(file) = &layer.python {
        parts.push(requirements(file)?.to_owned());
    }
    parts.extend(layer.copy.iter().map(|copy| copy.path.clone()));
    for (path, file) in &layer.files {
        parts.extend([path.clone(), file.executable.to_string()]);
        parts.extend(file.text.clone());
        if let Some(program) = file.program {
            // The path of the program contains a digest of the program's inputs. `programs` lacks the program if the
            // caller builds only layers without programs. The key of this layer is then wrong, but the caller does not
            // use it.
            parts.push(programs.path(program).map(|path| path.display().to_string()).unwrap_or_default());
        }
    }
    Ok(digest::short(parts.iter().map(String::as_str)))
}

/// Returns the environment variables of a layer's script. Copies the CA certificates of the machine into `inputs`, if
/// the machine has any.
fn environment(inputs: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let fixed = [
        ("PATH", script::PATH),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_ROOT_USER_ACTION", "ignore"),
        ("PIP_DEFAULT_TIMEOUT", "180"),
    ];
    let mut all: BTreeMap<String, String> =
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    all.extend(PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
    if Path::new(CERTIFICATES).is_file() {
        std::fs::copy(CERTIFICATES, inputs.join("certificates.pem")).context("cannot copy the CA certificates")?;
        let path = format!("{}/certificates.pem", script::INPUTS);
        all.extend([("PIP_CERT".to_owned(), path.clone()), ("SSL_CERT_FILE".to_owned(), path)]);
    }
    Ok(all)
}

/// Copies a folder. The files in the copy are hard links to the original files.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    to.parent().map_or(Ok(()), folder)?;
    let mut command = Command::new("cp");
    command.args(["--archive", "--link"]).arg(from).arg(to);
    super::run::output(&mut command, "").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        crate::Program::ALL.map(|program| (program, PathBuf::from(format!("/cache/{program}")))).into_iter().collect()
    }

    fn keys_of(change: impl FnOnce(&mut Recipes)) -> BTreeMap<String, String> {
        let mut recipes = Recipes::read().unwrap();
        change(&mut recipes);
        Layers::new(&recipes, &programs(), "/layers".into()).unwrap().keys
    }

    #[test]
    fn key_depends_on_the_layers_below() {
        let before = keys_of(|_| {});
        let after = keys_of(|recipes| recipes.layers.get_mut("services").unwrap().packages.push("hello".into()));
        for same in ["debian", "base", "mariadb", "venv-2026.1", "client"] {
            assert_eq!(before[same], after[same], "{same}");
        }
        for changed in ["services", "openstack-2025.1", "nova-2026.1"] {
            assert_ne!(before[changed], after[changed], "{changed}");
        }
    }

    #[test]
    fn key_depends_on_the_release() {
        let keys = keys_of(|_| {});
        for recipe in ["venv", "openstack", "nova"] {
            let all = ["2025.1", "2025.2", "2026.1"].map(|release| &keys[&format!("{recipe}-{release}")]);
            assert_eq!(BTreeSet::from(all).len(), all.len(), "{recipe}");
        }
    }

    #[test]
    fn key_depends_on_files() {
        let before = keys_of(|_| {});
        let after = keys_of(|recipes| {
            let files = &mut recipes.layers.get_mut("libvirt").unwrap().files;
            for file in files.values_mut() {
                file.text = Some("other".into());
            }
        });
        assert_ne!(before["libvirt"], after["libvirt"]);
        assert_eq!(before["nova-2026.1"], after["nova-2026.1"]);
    }

    #[test]
    fn removes_old_builds_and_keeps_those_of_other_releases() {
        let (recipes, programs) = (Recipes::read().unwrap(), programs());
        let at = tempfile::tempdir().unwrap();
        let layers = Layers::new(&recipes, &programs, at.path().into()).unwrap();
        let (old, other) = (at.path().join("venv-0123456789abcdef"), at.path().join("openstack-0123456789abcdef"));
        let kept = layers.path("venv-2025.1").unwrap();
        for path in [&old, &other, &kept] {
            folder(path).unwrap();
        }
        layers.remove_older("venv").unwrap();
        assert_eq!([&old, &other, &kept].map(|path| path.is_dir()), [false, true, true]);
    }

    #[test]
    fn old_folders_of_a_layer_are_not_those_of_another() {
        assert!(is_of("base", "base-0123456789abcdef"));
        assert!(!is_of("base", "base.log") && !is_of("open", "openstack-0123456789abcdef"));
        assert!(!is_of("debian", ".building-debian-abc"));
    }
}
