//! Packs layers, and writes images in the layout of the Open Container Initiative (OCI image specification 1.1).

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::recipe::Image;
use super::reference::Reference;
use super::run::write;
use super::script::PATH;

/// A layer as a tar archive. The archive is never stored, because archives would need as much disk as the layers: `tar`
/// writes it anew for each read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packed {
    pub digest: String,
    pub size: u64,
    /// The arguments with which `tar` writes the archive to its standard output.
    arguments: Vec<String>,
}

/// An image to load: its name, its packed layers with the lowest one first, and its settings.
#[derive(Clone, Debug)]
pub(super) struct Loadable {
    pub reference: Reference,
    pub layers: Vec<Packed>,
    pub settings: Value,
}

/// Returns the settings of an image. If a pod names no command, it runs the image's command with the pod's arguments.
pub(super) fn settings(image: &Image) -> Value {
    let command = if image.command.is_empty() { &["/bin/bash".to_owned()][..] } else { &image.command };
    let mut settings = json!({"Env": [format!("PATH={PATH}"), "LANG=C.UTF-8"], "Entrypoint": command});
    if let Some(user) = image.user {
        settings["User"] = user.to_string().into();
    }
    settings
}

/// Returns the settings of the operator's image, the same as those in `Dockerfile`.
pub(super) fn settings_of_operator() -> Value {
    json!({
        "User": "65532:65532",
        "Env": ["PATH=/usr/local/bin"],
        "Entrypoint": ["/usr/local/bin/osdpl"],
        "Cmd": ["operator"],
    })
}

/// Computes the digest and the size of a layer's archive, unless an earlier run has stored them.
pub(super) fn pack(layer: &Path) -> anyhow::Result<Packed> {
    let record = layer.join("layer.json");
    if let Some(known) = std::fs::read(&record).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
        return Ok(known);
    }
    let (diff, markers) = (layer.join("diff"), layer.join("markers"));
    let removed = removed(&diff)?;
    for marker in &removed.markers {
        write(&markers.join(marker), "")?;
    }
    let packed = measure(arguments(&diff, &markers, &removed))?;
    write(&record, &json!(packed).to_string())?;
    Ok(packed)
}

/// Computes the digest and the size of a folder's archive. The digest depends only on the files' content, names and
/// permissions.
pub(super) fn pack_folder(folder: &Path) -> anyhow::Result<Packed> {
    let mut arguments = arguments(folder, folder, &Removed::default());
    arguments.splice(0..0, ["--mtime=@0", "--owner=0", "--group=0"].map(String::from));
    measure(arguments)
}

/// The files of lower layers that a layer removes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Removed {
    /// The character devices 0:0 with which overlayfs marks removed files, as relative paths.
    devices: Vec<PathBuf>,
    /// The files with which the image specification marks removed files, such as `etc/.wh.passwd`.
    markers: Vec<PathBuf>,
}

/// Finds the files that overlayfs has marked as removed in the folder `diff`. The mark is a character device. If a
/// folder replaces a folder of a lower layer, the mark is an extended attribute of the new folder.
fn removed(diff: &Path) -> anyhow::Result<Removed> {
    let mut found = Removed::default();
    let mut left = vec![PathBuf::new()];
    while let Some(relative) = left.pop() {
        let at = diff.join(&relative);
        if is_opaque(&at) {
            found.markers.push(relative.join(".wh..wh..opq"));
        }
        let entries = std::fs::read_dir(&at).with_context(|| format!("cannot read {}", at.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", at.display()))?;
            let kind = entry.file_type().context("cannot read the type of a file")?;
            let path = relative.join(entry.file_name());
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_char_device() && entry.metadata().is_ok_and(|metadata| metadata.rdev() == 0) {
                found.markers.push(marker(&path));
                found.devices.push(path);
            }
        }
    }
    found.devices.sort();
    found.markers.sort();
    Ok(found)
}

fn marker(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".wh.");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

fn is_opaque(path: &Path) -> bool {
    let mut value = [0_u8; 1];
    rustix::fs::getxattr(path, "trusted.overlay.opaque", &mut value).is_ok() && &value == b"y"
}

/// Returns the arguments with which tar writes the same archive of a layer each time.
fn arguments(diff: &Path, markers: &Path, removed: &Removed) -> Vec<String> {
    let fixed = ["--create", "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=security.capability"];
    // With `--xattrs`, tar also writes the times at which a file was last accessed and its inode was last changed.
    // Leave these times out, because they can change while the content of the file stays the same.
    let fixed = fixed.into_iter().chain(["--pax-option=delete=atime,delete=ctime", "--anchored", "--no-wildcards"]);
    let mut all: Vec<String> = fixed.map(String::from).collect();
    all.extend(removed.devices.iter().map(|path| format!("--exclude=./{}", path.display())));
    all.extend([format!("--directory={}", diff.display()), ".".into()]);
    if !removed.markers.is_empty() {
        all.push(format!("--directory={}", markers.display()));
        all.extend(removed.markers.iter().map(|path| format!("./{}", path.display())));
    }
    all
}

fn measure(arguments: Vec<String>) -> anyhow::Result<Packed> {
    let (mut hash, mut size) = (Sha256::new(), 0);
    read_archive(&arguments, &mut |part| {
        hash.update(part);
        size += part.len() as u64;
        Ok(())
    })?;
    Ok(Packed { digest: digest_of(&hash.finalize()), size, arguments })
}

/// Runs tar and passes its output to `consume`, part by part.
fn read_archive(arguments: &[String], consume: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut command = Command::new("tar");
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().context("cannot run tar")?;
    let mut pipe = child.stdout.take().context("tar has no output")?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match pipe.read(&mut buffer).context("cannot read the output of tar")? {
            0 => break,
            count => consume(&buffer[..count])?,
        }
    }
    let status = child.wait().context("cannot wait for tar")?;
    ensure!(status.success(), "tar failed: {status}");
    Ok(())
}

/// Returns the digest of a blob, such as `sha256:0123…`.
fn digest(blob: &[u8]) -> String {
    digest_of(&Sha256::digest(blob))
}

fn digest_of(hash: &[u8]) -> String {
    use std::fmt::Write;
    hash.iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The configurations and manifests of images, as pairs of digest and text, and the entries of the index that names the
/// images.
#[derive(Debug, Default)]
struct Blobs {
    blobs: Vec<(String, String)>,
    manifests: Vec<Value>,
}

/// Returns the configuration and the manifest of each image, and the entries of the index.
fn describe(images: &[Loadable]) -> Blobs {
    let mut all = Blobs::default();
    for image in images {
        let digests: Vec<&str> = image.layers.iter().map(|layer| layer.digest.as_str()).collect();
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": image.settings,
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let config = config.to_string();
        let layers: Vec<Value> = image.layers.iter().map(|layer| blob(LAYER, &layer.digest, layer.size)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(CONFIG, &digest(config.as_bytes()), config.len() as u64),
            "layers": layers,
        });
        let manifest = manifest.to_string();
        let mut entry = blob(MANIFEST, &digest(manifest.as_bytes()), manifest.len() as u64);
        entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
        // containerd names the image by the first annotation.
        entry["annotations"] = json!({
            "io.containerd.image.name": image.reference.to_string(),
            "org.opencontainers.image.ref.name": image.reference.tag,
        });
        all.manifests.push(entry);
        all.blobs.extend([config, manifest].map(|text| (digest(text.as_bytes()), text)));
    }
    all
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

fn blob(kind: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": kind, "digest": digest, "size": size})
}

/// Returns the digest of an image's manifest, which identifies all of its content.
pub(super) fn manifest_digest(image: &Loadable) -> String {
    let described = describe(std::slice::from_ref(image));
    described.manifests[0]["digest"].as_str().unwrap_or_default().to_owned()
}

/// Writes images as the archive of an OCI image layout.
pub(super) fn write_archive(images: &[Loadable], to: impl Write) -> anyhow::Result<()> {
    let described = describe(images);
    let index = json!({"schemaVersion": 2, "manifests": described.manifests}).to_string();
    let mut archive = Archive(to);
    archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.add("index.json", index.as_bytes())?;
    let mut written = BTreeSet::new();
    for (digest, text) in &described.blobs {
        if written.insert(digest.as_str()) {
            archive.add(&path(digest), text.as_bytes())?;
        }
    }
    for layer in images.iter().flat_map(|image| &image.layers) {
        if written.insert(layer.digest.as_str()) {
            archive.begin(&path(&layer.digest), layer.size)?;
            read_archive(&layer.arguments, &mut |part| archive.write(part))?;
            archive.end(layer.size)?;
        }
    }
    archive.write(&[0; 1024])
}

fn path(digest: &str) -> String {
    format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))
}

/// A tar archive in the format ustar (POSIX.1-1988) with short names.
struct Archive<W>(W);

impl<W: Write> Archive<W> {
    fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.begin(name, content.len() as u64)?;
        self.write(content)?;
        self.end(content.len() as u64)
    }

    fn begin(&mut self, name: &str, size: u64) -> anyhow::Result<()> {
        self.write(&header(name, size))
    }

    fn write(&mut self, part: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(part).context("cannot write the archive of images")
    }

    /// Fills the last block of a file with zeros.
    fn end(&mut self, size: u64) -> anyhow::Result<()> {
        let rest = usize::try_from(size % 512).unwrap_or_default();
        self.write(&[0; 512][..(512 - rest) % 512])
    }
}

/// Returns the header of a file in a tar archive.
fn header(name: &str, size: u64) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    // The checksum is the sum of all bytes of the header, computed while the field of the checksum contains spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\u{0}00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::super::run::output;
    use super::*;

    fn image(name: &str, layer: &Path) -> Loadable {
        Loadable {
            reference: Reference::parse(name).unwrap(),
            layers: vec![pack(layer).unwrap()],
            settings: settings(&Image::default()),
        }
    }

    #[test]
    fn index_refers_to_every_blob() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("diff/etc/a"), "1").unwrap();
        let images = [image("quay.io/a/b:1", folder.path()), image("quay.io/a/b:2", folder.path())];
        let mut archive = Vec::new();
        write_archive(&images, &mut archive).unwrap();
        let at = folder.path().join("layout");
        std::fs::create_dir(&at).unwrap();
        std::fs::write(folder.path().join("layout.tar"), archive).unwrap();
        let mut tar = Command::new("tar");
        output(tar.arg("--extract").arg("-C").arg(&at).arg("-f").arg(folder.path().join("layout.tar")), "").unwrap();
        let read = |digest: &Value| {
            let bytes = std::fs::read(at.join(path(digest.as_str().unwrap()))).unwrap();
            assert_eq!(super::digest(&bytes), digest.as_str().unwrap());
            bytes
        };
        let index: Value = serde_json::from_slice(&std::fs::read(at.join("index.json")).unwrap()).unwrap();
        let entries = index["manifests"].as_array().unwrap();
        let names: Vec<_> =
            entries.iter().map(|entry| entry["annotations"]["io.containerd.image.name"].clone()).collect();
        assert_eq!(names, ["quay.io/a/b:1", "quay.io/a/b:2"]);
        for entry in entries {
            let manifest: Value = serde_json::from_slice(&read(&entry["digest"])).unwrap();
            let config: Value = serde_json::from_slice(&read(&manifest["config"]["digest"])).unwrap();
            let layer = &manifest["layers"][0];
            assert_eq!(layer["size"], read(&layer["digest"]).len());
            assert_eq!(config["rootfs"]["diff_ids"][0], layer["digest"]);
        }
        assert_eq!(manifest_digest(&images[0]), entries[0]["digest"].as_str().unwrap());
    }

    #[test]
    fn marks_removed_files_beside_them() {
        assert_eq!(marker(Path::new("etc/passwd")), Path::new("etc/.wh.passwd"));
        assert_eq!(marker(Path::new("passwd")), Path::new(".wh.passwd"));
    }

    #[test]
    fn digest_of_a_layer_does_not_depend_on_reading_it() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("diff/etc/b"), "2").unwrap();
        write(&folder.path().join("diff/etc/a"), "1").unwrap();
        let first = pack(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("layer.json")).unwrap();
        assert_eq!(pack(folder.path()).unwrap(), first);
    }

    #[test]
    fn archive_has_markers_and_no_devices() {
        let removed = Removed { devices: vec!["etc/passwd".into()], markers: vec!["etc/.wh.passwd".into()] };
        let arguments = arguments(Path::new("/layer/diff"), Path::new("/layer/markers"), &removed);
        assert!(arguments.contains(&"--exclude=./etc/passwd".to_owned()));
        let expected = ["--directory=/layer/diff", ".", "--directory=/layer/markers", "./etc/.wh.passwd"];
        assert_eq!(arguments[arguments.len() - 4..], expected);
    }
}
